//! A tensor of which a kernel loads and stores blocks: Triton calls it a tensor descriptor, CUDA a tensor map.

use serde::{Deserialize, Serialize};

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
