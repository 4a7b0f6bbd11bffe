//! What loads transpose among lanes.

use crate::operations::memory::Transposed;
use crate::registers::Registers;

/// Transposes what lanes have loaded into registers from `to` on. `count` elements each, of which the rows of a matrix of 16 columns
/// consist, become those of a column.
///
/// Which lane has what of [`Transposed::Tiles`], AMD does not say; it was measured on gfx1201. Of 16 bits, eight lanes exchange 8 by 8
/// elements ("RDNA3/RDNA4 WMMA fragment layout" of the compiler Tessera, section 8, and others). Of 8 bits, lane L has as its element s
/// the one `L % 8` of lane `L / 16 * 16 + s / 4 * 8 + L / 8 % 2 * 4 + s % 4` ("global_load_tr_b64 fp8 B-fragment contract", MAD-305; a
/// second program that transposes so reads rows of a matrix as that says).
pub(super) fn transpose(registers: &mut Registers, to: u16, dwords: usize, how: Transposed) {
    let bits = match how {
        Transposed::Rows(bits) | Transposed::Tiles(bits) => usize::from(bits),
    };
    let (at, count) = (usize::from(to), 32 * dwords / bits);
    let (values, poison) = (registers.v[at..at + dwords].to_vec(), registers.poison[at..at + dwords].to_vec());
    let element = |lane: usize, index: usize| {
        let bit = index * bits;
        let upper = values.get(bit / 32 + 1).map_or(0, |register| register[lane]);
        let both = u64::from(values[bit / 32][lane]) | u64::from(upper) << 32;
        let bad = (bit / 8..(bit + bits).div_ceil(8)).any(|byte| poison[byte / 4][byte % 4] >> lane & 1 == 1);
        ((both >> (bit % 32)) & ((1 << bits) - 1), bad)
    };
    // Which lane's element becomes the one `k` of a lane.
    let from = |lane: usize, k: usize| match how {
        // Lanes beside each other hold a row of 16 columns.
        Transposed::Rows(_) => lane / 16 * 16 + 16 / count * k + lane % 16 / count,
        Transposed::Tiles(8) => lane / 16 * 16 + k / 4 * 8 + lane / 8 % 2 * 4 + k % 4,
        Transposed::Tiles(_) => lane / 8 * 8 + k,
    };
    for lane in 0..registers.lanes {
        let mut words = [0_u64; 5];
        let mut bad = [[false; 4]; 4];
        for k in 0..count {
            let (value, is_bad) = element(from(lane, k), lane % count);
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
            transpose(&mut registers, 8, dwords, Transposed::Rows(bits as u8));
            for lane in 0..64 {
                let words = (0..dwords).fold(0, |all, at| all | u128::from(registers.v[8 + at][lane]) << (32 * at));
                for row in 0..count {
                    let found = (words >> (bits * row)) as u64 & ((1 << bits) - 1);
                    assert_eq!(found, value(lane / 16, row, lane % 16), "{bits} bits, lane {lane}, row {row}");
                }
            }
        }
    }

    /// Each lane loads 8 elements of a row of 16, of which it has those of a column: as measured, with lane L's address being the one of
    /// elements `8 * L` and on.
    #[test]
    fn tiles_are_as_measured() {
        // "B[(L / 8) * 4 + j / 2][(L % 8) + 8 * (j % 2)]" of rows of 16.
        let halves = |lane: usize, j: usize| 16 * (lane / 8 * 4 + j / 2) + lane % 8 + 8 * (j % 2);
        // "base = (L & 7) + ((L >> 3) & 1) * 32 + ((L >> 4) & 1) * 128; base + (s & 3) * 8 + ((s >> 2) & 1) * 64".
        let bytes = |lane: usize, s: usize| {
            (lane & 7) + (lane >> 3 & 1) * 32 + (lane >> 4 & 1) * 128 + (s & 3) * 8 + (s >> 2 & 1) * 64
        };
        for bits in [16, 8] {
            let (dwords, mut registers) = (bits / 4, Registers::new(32));
            for lane in 0..32 {
                for dword in 0..dwords {
                    let element = |at: usize| (8 * lane + dword * 32 / bits + at) << (bits * at);
                    registers.v[8 + dword][lane] = (0..32 / bits).fold(0, |word, at| word | element(at) as u32);
                    registers.poison[8 + dword] = [0; 4];
                }
            }
            // Nobody wrote element 3 of lane 17.
            registers.poison[8 + 3 * bits / 32][3 * bits / 8 % 4] = 1 << 17;
            transpose(&mut registers, 8, dwords, Transposed::Tiles(bits as u8));
            for lane in 0..32 {
                for j in 0..8 {
                    let (dword, shift) = (8 + j * bits / 32, j * bits % 32);
                    let found = registers.v[dword][lane] >> shift & ((1 << bits) - 1);
                    let expected = if bits == 16 { halves(lane, j) } else { bytes(lane, j) };
                    assert_eq!(found as usize, expected, "{bits} bits, lane {lane}, element {j}");
                    let bad = registers.poison[dword][shift / 8] >> lane & 1 == 1;
                    assert_eq!(bad, expected == 8 * 17 + 3, "{bits} bits, lane {lane}, element {j}");
                }
            }
        }
    }
}
