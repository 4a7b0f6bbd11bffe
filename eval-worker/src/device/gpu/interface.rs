//! The two interfaces that GPUs have.

/// Through what a GPU is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Cuda,
    Hip,
}

impl Interface {
    /// As in the names of devices: `cuda:0`, `hip:0`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }
}
