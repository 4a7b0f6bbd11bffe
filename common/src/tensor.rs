//! A tensor of which a kernel loads and stores blocks: Triton calls it a tensor descriptor, CUDA a tensor map.

use serde::{Deserialize, Serialize};

use crate::artifact::Argument;

/// Most dimensions of one.
pub const RANK: usize = 5;

/// A tensor in a buffer, and the blocks that a kernel takes of it. Of each list the first `rank` count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// Index into [`Task::buffers`](crate::task::Task::buffers).
    pub buffer: u16,
    /// Bytes of it before the first element.
    pub bytes: u64,
    /// Dimensions.
    pub rank: u8,
    /// Elements of each dimension.
    pub shape: [u64; RANK],
    /// From one to the next of each dimension, in elements; that of the last is 1.
    pub strides: [u64; RANK],
    /// Elements of a block.
    pub block: [u32; RANK],
    /// What lies outside is no number, in place of 0.
    pub nan: bool,
    /// Numbers of 32 bits are rounded to those of a matrix instruction (TF32).
    pub tf32: bool,
    /// How the hardware reads it, as the compiler says; none before it was asked.
    pub map: Option<TensorMap>,
}

/// What a compiler says of a tensor that the hardware reads by itself: parameters of CUDA's `cuTensorMapEncodeTiled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// `CUtensorMapDataType`.
    pub element: u8,
    /// Bytes of an element.
    pub size: u8,
    /// `CUtensorMapSwizzle`.
    pub swizzle: u8,
    /// Two numbers of four bits are an element, and each takes a byte of shared memory.
    pub padded: bool,
    /// Elements that are read at once, of each dimension.
    pub block: [u32; RANK],
}

impl Tensor {
    /// Its arguments, where the kernel was compiled to read it by itself: a map and its sizes.
    #[must_use]
    pub fn mapped(self, map: TensorMap) -> Vec<Argument> {
        let mapped = Self { map: Some(map), ..self };
        std::iter::once(Argument::Tensor(mapped)).chain(self.sizes()).collect()
    }

    /// Its arguments where the hardware knows no such thing: a pointer, sizes, whether what is outside is no number, whether numbers are
    /// rounded, of which a compiler may know the first `flags`, and sizes again.
    #[must_use]
    pub fn taken_apart(self, flags: usize) -> Vec<Argument> {
        let pointer = match self.bytes {
            0 => Argument::Buffer(self.buffer),
            bytes => Argument::BufferAt { buffer: self.buffer, bytes },
        };
        let flags = [self.nan, self.tf32].into_iter().take(flags).map(|flag| Argument::I32(i32::from(flag)));
        let sizes = self.dimensions(self.shape).chain(self.dimensions(self.strides));
        std::iter::once(pointer).chain(sizes).chain(flags).chain(self.sizes()).collect()
    }

    /// Elements and strides, as kernels take them beside a map.
    fn sizes(self) -> impl Iterator<Item = Argument> {
        // What does not fit is refused where a spec says it.
        let size = |size| Argument::I32(i32::try_from(size).unwrap_or(i32::MAX));
        self.shape.into_iter().take(self.rank.into()).map(size).chain(self.dimensions(self.strides))
    }

    fn dimensions(self, of: [u64; RANK]) -> impl Iterator<Item = Argument> {
        of.into_iter().take(self.rank.into()).map(|size| Argument::I64(size.cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_both_kinds() {
        let tensor = Tensor {
            buffer: 3,
            bytes: 16,
            rank: 2,
            shape: [7, 5, 9, 9, 9],
            strides: [8, 1, 9, 9, 9],
            nan: true,
            ..Tensor::default()
        };
        let map = TensorMap { element: 6, ..TensorMap::default() };
        let sizes = [Argument::I32(7), Argument::I32(5), Argument::I64(8), Argument::I64(1)];
        let mapped = tensor.mapped(map);
        assert_eq!(mapped[0], Argument::Tensor(Tensor { map: Some(map), ..tensor }));
        assert_eq!(mapped[1..], sizes);
        let apart = tensor.taken_apart(2);
        assert_eq!(apart[0], Argument::BufferAt { buffer: 3, bytes: 16 });
        assert_eq!(apart[1..5], [7, 5, 8, 1].map(Argument::I64));
        assert_eq!(apart[5..7], [1, 0].map(Argument::I32));
        assert_eq!(apart[7..], sizes);
        assert_eq!(Tensor { bytes: 0, ..tensor }.taken_apart(0)[0], Argument::Buffer(3));
        assert_eq!(tensor.taken_apart(0)[5..], sizes);
    }
}
