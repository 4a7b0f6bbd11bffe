//! Structures by value among the arguments of a launch: which bytes say what.

use std::collections::BTreeSet;

use bluefin_common::artifact::Argument;
use bluefin_common::structure::{Pointed, Pointer, Structure};
use bluefin_common::task::Buffer;

use crate::ArgumentSpec;
use crate::error::SpecError;
use crate::expression::Values;

/// A structure whose fields lie within it, none on another.
#[derive(Clone, Debug)]
pub(super) struct StructureSpec {
    /// Bytes, at most [`MAX_BYTES`](bluefin_common::structure::MAX_BYTES).
    pub(super) size: u32,
    pub(super) fields: Vec<FieldSpec>,
}

/// Some bytes of a structure. Those that no field says are zeros.
#[derive(Clone, Debug)]
pub(super) struct FieldSpec {
    /// The first one.
    pub(super) at: u32,
    /// How many: those of the value, or the lower ones of a whole number.
    pub(super) bytes: u32,
    /// Of a whole number that is narrower than 32 bits, the least and the greatest.
    pub(super) range: Option<(i32, i32)>,
    /// A number, or a pointer.
    pub(super) value: ArgumentSpec,
}

impl StructureSpec {
    /// Whether all that it depends on is among `names`.
    pub(super) fn knows(&self, names: &BTreeSet<String>) -> bool {
        self.fields.iter().all(|field| field.value.knows(names))
    }

    /// Whether a field points into the middle of a buffer, so that lengths have to be known.
    pub(super) fn reaches(&self) -> bool {
        self.fields.iter().any(|field| field.value.reaches())
    }

    /// `own`: where the candidate's part of each buffer begins that has parts, in bytes.
    ///
    /// # Errors
    /// A field without a value, or one that its type does not have.
    pub(super) fn evaluate(
        &self,
        values: &mut Values,
        buffers: &[Buffer],
        own: &[Option<u64>],
    ) -> Result<Structure, SpecError> {
        let mut bytes = vec![0; self.size as usize];
        let mut pointers = Vec::new();
        for FieldSpec { at, bytes: width, range, value } in &self.fields {
            let mut write = |from: &[u8]| {
                let places = bytes.iter_mut().skip(*at as usize);
                places.zip(from.iter().take(*width as usize)).for_each(|(place, byte)| *place = *byte);
            };
            let mut point = |to| pointers.push(Pointer { at: *at, to });
            match value.evaluate(values, buffers, own)? {
                Argument::I32(found) => {
                    if let (Some((least, most)), ArgumentSpec::I32(expression)) = (range, value)
                        && !(*least..=*most).contains(&found)
                    {
                        return Err(expression.error(format!("found {found}, expected {least} to {most}")));
                    }
                    write(&found.to_le_bytes());
                }
                Argument::I64(found) => write(&found.to_le_bytes()),
                Argument::F32(found) => write(&found.to_le_bytes()),
                Argument::F64(found) => write(&found.to_le_bytes()),
                Argument::Buffer(buffer) => point(Pointed::Buffer { buffer, bytes: 0 }),
                Argument::BufferAt { buffer, bytes } => point(Pointed::Buffer { buffer, bytes }),
                Argument::Workspace | Argument::WorkspaceAt(_) => point(Pointed::Workspace),
                // Loading makes no such fields.
                Argument::Tensor(_) | Argument::Structure(_) => {}
            }
        }
        Ok(Structure { bytes, pointers })
    }
}
