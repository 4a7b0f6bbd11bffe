//! Structures by value: where their fields lie, by the rules of C unless a spec says it.

use bluefin_common::structure::{MAX_ALIGNMENT, MAX_BYTES};

use super::solvers::Context;
use super::{Loader, MAX_LIST, Names};
use crate::ArgumentSpec;
use crate::error::SpecError;
use crate::format::{RawField, RawFieldValue, RawNumbers, RawStruct, Scalar};
use crate::structure::{FieldSpec, StructureSpec};

/// Structures within each other, at most.
const MAX_DEPTH: u32 = 8;
/// Bytes of an address.
const POINTER: u64 = 8;

/// Fields as they are read, and what they come to.
struct Laid {
    fields: Vec<FieldSpec>,
    size: u64,
    alignment: u64,
}

/// A number of a field.
#[derive(Clone, Copy)]
enum Number {
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Number {
    fn bytes(self) -> u64 {
        match self {
            Self::I1 | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    fn range(self) -> Option<(i32, i32)> {
        Some(match self {
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U8 => (0, u8::MAX.into()),
            Self::U16 => (0, u16::MAX.into()),
            Self::I1 | Self::I32 | Self::I64 | Self::U32 | Self::U64 | Self::F32 | Self::F64 => return None,
        })
    }
}

/// The one number that a field is said to be, of those that it has names for.
fn number(raw: &RawFieldValue) -> Option<(Number, &RawNumbers)> {
    let all = [
        (Number::I1, &raw.i1),
        (Number::I8, &raw.i8),
        (Number::I16, &raw.i16),
        (Number::I32, &raw.i32),
        (Number::I64, &raw.i64),
        (Number::U8, &raw.u8),
        (Number::U16, &raw.u16),
        (Number::U32, &raw.u32),
        (Number::U64, &raw.u64),
        (Number::F32, &raw.f32),
        (Number::F64, &raw.f64),
    ];
    let mut said = all.into_iter().filter_map(|(number, value)| Some((number, value.as_ref()?)));
    said.next().filter(|_| said.next().is_none())
}

impl Loader<'_> {
    pub(super) fn structure(
        &self,
        raw: &RawStruct,
        field: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<StructureSpec, SpecError> {
        let expected = "buffers and numbers: structures by value are for kernels of clang";
        self.require(context.takes_structures(), field, "a structure", expected)?;
        let laid = self.laid(&raw.fields, (raw.size, raw.align), field, names, context, MAX_DEPTH)?;
        Ok(StructureSpec { size: u32::try_from(laid.size).unwrap_or(MAX_BYTES), fields: laid.fields })
    }

    fn laid(
        &self,
        raw: &[RawField],
        (size, align): (Option<u32>, Option<u32>),
        field: &str,
        names: &Names,
        context: &Context<'_>,
        depth: u32,
    ) -> Result<Laid, SpecError> {
        self.require(depth > 0, field, "a structure", &format!("at most {MAX_DEPTH} within each other"))?;
        self.list(&format!("{field}.struct"), raw.len(), 0, MAX_LIST)?;
        if let Some(align) = align {
            let is_one = align.is_power_of_two() && align <= MAX_ALIGNMENT;
            let expected = format!("a power of two up to {MAX_ALIGNMENT}");
            self.require(is_one, &format!("{field}.align"), &align.to_string(), &expected)?;
        }
        let most = u64::from(size.unwrap_or(MAX_BYTES));
        let mut fields: Vec<FieldSpec> = Vec::new();
        // The bytes of each field that was read.
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let (mut end, mut alignment) = (0_u64, 1_u64);
        for (index, one) in raw.iter().enumerate() {
            let path = format!("{field}.struct[{index}]");
            let (laid, at) = self.field(one, &path, names, context, depth)?;
            // As C packs fields of a structure that is aligned to less than they are.
            let own = align.map_or(laid.alignment, |align| laid.alignment.min(align.into()));
            let at = at.map_or_else(|| end.next_multiple_of(own), u64::from);
            let behind = at.saturating_add(laid.size);
            let found = format!("bytes {at} to {behind}");
            if behind > most {
                let of = if size.is_some() { "the structure" } else { "the largest structure" };
                return Err(self.invalid(&path, found, format!("a field within the {most} bytes of {of}")));
            }
            if let Some((from, to)) = taken.iter().find(|(from, to)| at < *to && *from < behind) {
                let expected = format!("bytes of its own: a field before it has {from} to {to}");
                return Err(self.invalid(&path, found, expected));
            }
            taken.push((at, behind));
            let start = u32::try_from(at).unwrap_or(MAX_BYTES);
            fields.extend(laid.fields.into_iter().map(|inner| FieldSpec { at: inner.at + start, ..inner }));
            (end, alignment) = (end.max(behind), alignment.max(own));
        }
        let alignment = align.map_or(alignment, u64::from);
        let natural = end.next_multiple_of(alignment).max(1);
        if let Some(size) = size {
            let fits = size > 0 && size <= MAX_BYTES && u64::from(size).is_multiple_of(alignment);
            let expected = format!("1 to {MAX_BYTES}, a multiple of {alignment}, to which it is aligned");
            self.require(fits, &format!("{field}.size"), &size.to_string(), &expected)?;
        }
        Ok(Laid { fields, size: size.map_or(natural, u64::from), alignment })
    }

    /// A field on its own, and where the spec says that it lies.
    fn field(
        &self,
        raw: &RawField,
        path: &str,
        names: &Names,
        context: &Context<'_>,
        depth: u32,
    ) -> Result<(Laid, Option<u32>), SpecError> {
        let pointer = |value| {
            let field = FieldSpec { at: 0, bytes: POINTER as u32, range: None, value };
            Laid { fields: vec![field], size: POINTER, alignment: POINTER }
        };
        let raw = match raw {
            RawField::Name(name) => return Ok((pointer(self.pointer(name, None, path, names, context)?), None)),
            RawField::Value(raw) => raw,
        };
        let laid = match (number(raw), &raw.fields, &raw.buffer) {
            (Some((number, numbers)), None, None) => self.numbers(number, numbers, path, names)?,
            (None, Some(fields), None) => self.laid(fields, (raw.size, raw.align), path, names, context, depth - 1)?,
            (None, None, Some(name)) => pointer(self.pointer(name, raw.offset.as_ref(), path, names, context)?),
            _ => {
                let expected = "one of i1 i8 i16 i32 i64 u8 u16 u32 u64 f32 f64, buffer, or struct";
                return Err(self.invalid(path, "none or several of what a field can be", expected));
            }
        };
        let is_said = raw.size.or(raw.align).is_some() && raw.fields.is_none();
        self.require(!is_said, path, "size or align", "none of them but of a struct")?;
        let is_said = raw.offset.is_some() && raw.buffer.is_none();
        self.require(!is_said, path, "offset", "none but of a buffer: `at` says where a field lies")?;
        Ok((laid, raw.at))
    }

    fn pointer(
        &self,
        name: &str,
        offset: Option<&Scalar>,
        path: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<ArgumentSpec, SpecError> {
        if name == "workspace" {
            self.require(offset.is_none(), path, "an offset", "none in the workspace")?;
            return Ok(ArgumentSpec::Workspace);
        }
        let index = self.index_of(name, path, context)?;
        Ok(match offset {
            Some(offset) => ArgumentSpec::Part(index, self.expression(offset, path, names)?),
            None => ArgumentSpec::Buffer(index),
        })
    }

    fn numbers(&self, number: Number, raw: &RawNumbers, path: &str, names: &Names) -> Result<Laid, SpecError> {
        let scalars = match raw {
            RawNumbers::One(scalar) => std::slice::from_ref(scalar),
            RawNumbers::Several(scalars) => scalars,
        };
        self.list(path, scalars.len(), 1, MAX_LIST)?;
        let bytes = number.bytes();
        let mut fields = Vec::with_capacity(scalars.len());
        for (index, scalar) in scalars.iter().enumerate() {
            let value = match number {
                Number::I1 => ArgumentSpec::I1(self.expression(scalar, path, names)?),
                Number::I8 | Number::I16 | Number::U8 | Number::U16 | Number::I32 => {
                    ArgumentSpec::I32(self.expression(scalar, path, names)?)
                }
                Number::U32 => ArgumentSpec::U32(self.expression(scalar, path, names)?),
                Number::I64 => {
                    ArgumentSpec::I64(self.whole(scalar, path, names, (i64::MIN.into(), i64::MAX.into()))?)
                }
                Number::U64 => ArgumentSpec::U64(self.whole(scalar, path, names, (0, u64::MAX.into()))?),
                Number::F32 => ArgumentSpec::F32(self.expression(scalar, path, names)?),
                Number::F64 => ArgumentSpec::F64(self.expression(scalar, path, names)?),
            };
            let at = u32::try_from(index as u64 * bytes).unwrap_or(MAX_BYTES);
            fields.push(FieldSpec { at, bytes: bytes as u32, range: number.range(), value });
        }
        Ok(Laid { size: bytes * fields.len() as u64, fields, alignment: bytes })
    }
}
