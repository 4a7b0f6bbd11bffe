//! How large an instruction is.

/// The most elements of A or B.
pub(super) const MANY: usize = 2048;

/// Size of each block: rows and columns, and depth.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub size: usize,
    pub depth: usize,
    pub blocks: usize,
}
