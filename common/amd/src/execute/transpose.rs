//! What loads transpose among lanes.

use crate::registers::Registers;

/// Transposes what 16 lanes have loaded into registers from `to` on: `count` elements of `bits` bits each, of which the rows of a matrix
/// of 16 columns consist, become those of a column ("DS_READ_B64_TR_B16" and its like of "CDNA 4").
pub(super) fn transpose(registers: &mut Registers, to: u16, dwords: usize, bits: usize) {
    let (at, count) = (usize::from(to), 32 * dwords / bits);
    let (values, poison) = (registers.v[at..at + dwords].to_vec(), registers.poison[at..at + dwords].to_vec());
    let element = |lane: usize, index: usize| {
        let bit = index * bits;
        let upper = values.get(bit / 32 + 1).map_or(0, |register| register[lane]);
        let both = u64::from(values[bit / 32][lane]) | u64::from(upper) << 32;
        let bad = (bit / 8..(bit + bits).div_ceil(8)).any(|byte| poison[byte / 4][byte % 4] >> lane & 1 == 1);
        ((both >> (bit % 32)) & ((1 << bits) - 1), bad)
    };
    // Lanes that hold a row of 16 columns.
    let beside = 16 / count;
    for lane in 0..registers.lanes {
        let mut words = [0_u64; 4];
        let mut bad = [[false; 4]; 4];
        for k in 0..count {
            let (value, is_bad) = element(lane / 16 * 16 + beside * k + lane % 16 / count, lane % count);
            let bit = k * bits;
            words[bit / 32] |= value << (bit % 32) & 0xffff_ffff;
            words[bit / 32 + 1] |= value >> (32 - bit % 32).min(63);
            (bit / 8..(bit + bits).div_ceil(8)).for_each(|byte| bad[byte / 4][byte % 4] |= is_bad);
        }
        for (dword, (word, bad)) in words.iter().zip(bad).enumerate().take(dwords) {
            registers.v[at + dword][lane] = *word as u32;
            for (of, bad) in registers.poison[at + dword].iter_mut().zip(bad) {
                *of = *of & !(1 << lane) | u64::from(bad) << lane;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each lane loads a part of a row, and has the column of its own number behind it.
    #[test]
    fn rows_become_columns() {
        for (bits, dwords) in [(16_usize, 2_usize), (8, 2), (4, 2), (6, 3)] {
            let (count, mut registers) = (32 * dwords / bits, Registers::new(64));
            let value =
                |group: usize, row: usize, column: usize| (row * 5 + column * 3 + group) as u64 & ((1 << bits) - 1);
            let beside = 16 / count;
            for lane in 0..64 {
                let mut words = 0_u128;
                for at in 0..count {
                    let (row, column) = (lane % 16 / beside, lane % 16 % beside * count + at);
                    words |= u128::from(value(lane / 16, row, column)) << (bits * at);
                }
                for dword in 0..dwords {
                    registers.v[8 + dword][lane] = (words >> (32 * dword)) as u32;
                    registers.poison[8 + dword] = [0; 4];
                }
            }
            transpose(&mut registers, 8, dwords, bits);
            for lane in 0..64 {
                let words = (0..dwords).fold(0, |all, at| all | u128::from(registers.v[8 + at][lane]) << (32 * at));
                for row in 0..count {
                    let found = (words >> (bits * row)) as u64 & ((1 << bits) - 1);
                    assert_eq!(found, value(lane / 16, row, lane % 16), "{bits} bits, lane {lane}, row {row}");
                }
            }
        }
    }
}
