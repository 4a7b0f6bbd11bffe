//! What is done to floats before they are multiplied or added.

use super::{Matrix, Modifiers, Pattern};

/// What the modifiers do to the signs of floats.
pub(super) struct Signs {
    /// Negation of elements of even and of odd k.
    pub a: [bool; 2],
    pub b: [bool; 2],
    pub negate_c: bool,
    pub absolute_c: bool,
}

impl Signs {
    pub fn of(matrix: &Matrix, modifiers: Modifiers) -> Signs {
        let bit = |field: u8, bit: u8| field >> bit & 1 == 1;
        if matrix.pattern == Pattern::Negations {
            let negate = |index| bit(modifiers.blgp, index);
            Signs { a: [negate(0); 2], b: [negate(1); 2], negate_c: negate(2), absolute_c: false }
        } else {
            let Modifiers { neg_lo, neg_hi, .. } = modifiers;
            Signs {
                a: [bit(neg_lo, 0), bit(neg_hi, 0)],
                b: [bit(neg_lo, 1), bit(neg_hi, 1)],
                negate_c: bit(neg_lo, 2),
                absolute_c: bit(neg_hi, 2),
            }
        }
    }
}

/// What is below the smallest normal number becomes +0.
#[inline(always)]
pub(super) fn drop_denormals(values: &mut [f32], smallest: f32) {
    values.iter_mut().for_each(|value| *value = if value.abs() < smallest { 0.0 } else { *value });
}
