//! A sparse A: of each four elements of a row (k from a multiple of 4 on) two are there, one behind the other, and a register beside it
//! says which, by two bits each: SMFMAC of gfx942 and gfx950 ("Sparse matrices" of the MI300 and CDNA 4 documents), SWMMAC of gfx12.
//!
//! A lane that has so many elements of A has as many indices for them, in their order, and where these are less than 16, the register
//! has several sets of them. AMD's "Matrix Instruction Calculator" has the places of gfx942's and gfx12's (`--compression`), the
//! document of CDNA 4 those of what gfx950 added ("Sparse matrix index layout").

use super::layout::Layout;
use super::{Halves, Matrix, Modifiers, Operand};

/// The most elements of a row that are there, and the most rows.
const COLUMNS: usize = 64;
const ROWS: usize = 32;

/// Which k the elements of A are, by column of what is there and by row.
pub(super) struct Chosen {
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
    pub fn read(layout: &Layout, index: &[u32; 64]) -> Self {
        let mut chosen = Self { k: [[0; ROWS]; COLUMNS], columns: layout.columns_of_a };
        for (column, rows) in chosen.k.iter_mut().enumerate().take(layout.columns_of_a) {
            let place = layout.index(column);
            for (k, word) in rows.iter_mut().zip(&index[place.lane..place.lane + layout.size]) {
                *k = (column / 2 * 4) as u8 + (word >> place.shift & 3) as u8;
            }
        }
        chosen
    }

    /// The k of the elements of a row.
    pub fn of_row(&self, row: usize) -> impl Iterator<Item = usize> {
        self.k[..self.columns].iter().map(move |rows| usize::from(rows[row]))
    }

    /// See [`Matrix::disordered`].
    pub fn disordered(&self, layout: &Layout, unwritten: Halves) -> Option<usize> {
        (0..self.columns).step_by(2).find_map(|column| {
            let unknown = layout.unwritten_indices(column, unwritten);
            let [first, second] = [&self.k[column], &self.k[column + 1]];
            let row = (0..layout.size).find(|row| unknown >> row & 1 == 0 && first[*row] >= second[*row])?;
            Some(layout.index(column).lane + row)
        })
    }
}
