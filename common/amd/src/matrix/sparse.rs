//! A sparse A: of each four elements of a row (k from a multiple of 4 on) two are there, one behind the other, and a register beside it
//! says which, by two bits each: SMFMAC of gfx942 and gfx950 ("Sparse matrices" of the MI300 and CDNA 4 documents), SWMMAC of gfx12.
//!
//! A lane that has so many elements of A has as many indices for them, in their order, and where these are less than 16, the register
//! has several sets of them. AMD's "Matrix Instruction Calculator" has the places of gfx942's and gfx12's (`--compression`), the
//! document of CDNA 4 those of what gfx950 added ("Sparse matrix index layout").

use std::ops::Range;

use super::shape::Shape;
use super::{Matrix, Modifiers, Operand};

/// The most elements of a row that are there, and the most rows.
const COLUMNS: usize = 64;
const ROWS: usize = 32;

/// Which k the elements of A are, by column of what is there and by row.
pub(crate) struct Chosen {
    k: [[u8; ROWS]; COLUMNS],
    columns: usize,
}

/// How many sets of indices the register has.
pub(super) fn sets(matrix: &Matrix, lanes: usize) -> usize {
    16 * matrix.a.bits() / (32 * matrix.registers(Operand::A, lanes))
}

/// Which of them is used.
pub(super) fn set(matrix: &Matrix, modifiers: Modifiers) -> usize {
    let one = sets(matrix, 64) == 1;
    match matrix.is_wmma() {
        true => usize::from(modifiers.op_sel),
        false if modifiers.cbsz > 0 || one => 0,
        false => usize::from(modifiers.abid),
    }
}

impl Chosen {
    /// None yet, of so many columns that are there.
    pub fn new(columns: usize) -> Self {
        Self { k: [[0; ROWS]; COLUMNS], columns }
    }

    /// The elements of a column, by row.
    pub fn column_mut(&mut self, column: usize) -> &mut [u8; ROWS] {
        &mut self.k[column]
    }

    /// The k of the elements of a row.
    pub fn of_row(&self, row: usize) -> impl Iterator<Item = usize> {
        self.k[..self.columns].iter().map(move |rows| usize::from(rows[row]))
    }

    /// Whether the two elements of a row from this column on do not ascend.
    pub fn is_disordered(&self, column: usize, row: usize) -> bool {
        self.k[column][row] >= self.k[column + 1][row]
    }
}

/// Has `compute` make the rows of the result of B, or of several arrays in B's order. Where A is sparse, each row has those rows of B
/// that its elements are multiplied by, `of_a.depth` of them.
pub(super) fn by_rows<T: Copy + Default, const N: usize, const FACTOR: usize>(
    chosen: Option<&Chosen>,
    of_a: Shape,
    b: [&[T; FACTOR]; N],
    mut compute: impl FnMut(Range<usize>, [&[T]; N]),
) {
    let Some(chosen) = chosen else { return compute(0..of_a.size, b.map(|b| b.as_slice())) };
    let mut own = [[T::default(); FACTOR]; N];
    for row in 0..of_a.size {
        for (own, b) in own.iter_mut().zip(b) {
            for (values, k) in own.chunks_exact_mut(of_a.size).zip(chosen.of_row(row)) {
                values.copy_from_slice(&b[k * of_a.size..(k + 1) * of_a.size]);
            }
        }
        compute(row..row + 1, own.each_ref().map(|own| own.as_slice()));
    }
}
