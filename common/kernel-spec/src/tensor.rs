//! Tensor descriptors among the arguments of a launch.

use std::collections::BTreeSet;

use bluefin_common::task::Buffer;
use bluefin_common::tensor::{RANK, Tensor};

use crate::error::SpecError;
use crate::expression::{Expression, Values};

/// Most elements of a dimension: kernels take them as 32 bits.
const MAX_SIZE: u64 = i32::MAX as u64;
/// Most elements between two of a dimension.
const MAX_STRIDE: u64 = 1 << 40;
/// Most elements of a dimension of a block.
const MAX_BLOCK: u64 = 1 << 20;

/// A tensor in a buffer, and the blocks that a kernel takes of it. Its lists are of one length, at most [`RANK`].
#[derive(Clone, Debug)]
pub(super) struct TensorSpec {
    pub(super) buffer: u16,
    /// In elements.
    pub(super) offset: Expression,
    pub(super) shape: Vec<Expression>,
    pub(super) strides: Vec<Expression>,
    pub(super) block: Vec<Expression>,
    pub(super) nan: bool,
    pub(super) tf32: bool,
}

impl TensorSpec {
    /// Whether all that it depends on is among `names`.
    pub(super) fn knows(&self, names: &BTreeSet<String>) -> bool {
        let lists = [&self.shape, &self.strides, &self.block];
        self.offset.knows(names) && lists.into_iter().flatten().all(|expression| expression.knows(names))
    }

    /// `own`: where the candidate's part of each buffer begins that has parts, in bytes.
    ///
    /// # Errors
    /// It is none that a device takes, or reaches beyond its buffer.
    pub(super) fn evaluate(
        &self,
        values: &mut Values,
        buffers: &[Buffer],
        own: &[Option<u64>],
    ) -> Result<Tensor, SpecError> {
        let of = buffers.get(usize::from(self.buffer));
        let (length, size) = of.map_or((0, 1), |buffer| (buffer.length, buffer.data_type.size() as u64));
        let offset = self.offset.bounded(values, 0, length)?;
        let mut list = |of: &[Expression], least: u64, most: u64| -> Result<[u64; RANK], SpecError> {
            let mut found = [0; RANK];
            for (slot, expression) in found.iter_mut().zip(of) {
                *slot = expression.bounded(values, least, most)?;
            }
            Ok(found)
        };
        let (shape, strides) = (list(&self.shape, 1, MAX_SIZE)?, list(&self.strides, 0, MAX_STRIDE)?);
        let block = list(&self.block, 1, MAX_BLOCK)?.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let spans = shape.iter().zip(&strides).map(|(size, stride)| size.saturating_sub(1).saturating_mul(*stride));
        let own = own.get(usize::from(self.buffer)).copied().flatten().unwrap_or(0);
        let end = spans.fold(offset + 1 + own / size, u64::saturating_add);
        if end > length {
            let found = format!("found a descriptor of {end} elements, expected at most the {length} of its buffer");
            return Err(self.offset.error(found));
        }
        let (rows, last) = strides.split_at(self.strides.len().saturating_sub(1));
        let mut bytes = rows.iter().chain([&offset]).map(|elements| elements.saturating_mul(size));
        if let Some(bytes) = bytes.find(|bytes| bytes % 16 != 0) {
            let found =
                format!("found {bytes} bytes as an offset or a stride of a descriptor, expected a multiple of 16");
            return Err(self.offset.error(found));
        }
        if let Some(stride) = last.first().filter(|stride| **stride != 1) {
            return Err(self.offset.error(format!("found a descriptor whose last stride is {stride}, expected 1")));
        }
        Ok(Tensor {
            buffer: self.buffer,
            bytes: offset.saturating_mul(size).saturating_add(own),
            rank: u8::try_from(self.shape.len()).unwrap_or(u8::MAX),
            shape,
            strides,
            block,
            nan: self.nan,
            tf32: self.tf32,
            map: None,
        })
    }
}
