//! The word behind an instruction that holds its first source: DPP and SDWA.

use super::Sdwa;
use super::operand::Refused;
use crate::instruction::{Dpp, Permutation, Select, Unused};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrailerKind {
    Dpp16,
    Dpp8,
    Sdwa,
}

/// The word behind an instruction that holds its first source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trailer {
    pub kind: TrailerKind,
    pub word: u32,
}

/// "DPP_CTRL": which lane a lane reads.
pub(super) fn dpp16(word: u32) -> Refused<Dpp> {
    let control = word >> 8 & 0x1ff;
    let low = (control & 15) as u8;
    let permutation = match control {
        0..=0xff => Permutation::Quad([0, 2, 4, 6].map(|shift| (control >> shift & 3) as u8)),
        0x101..=0x10f => Permutation::RowShiftLeft(low),
        0x111..=0x11f => Permutation::RowShiftRight(low),
        0x121..=0x12f => Permutation::RowRotateRight(low),
        0x130 => Permutation::WaveShiftLeft,
        0x134 => Permutation::WaveRotateLeft,
        0x138 => Permutation::WaveShiftRight,
        0x13c => Permutation::WaveRotateRight,
        0x140 => Permutation::RowMirror,
        0x141 => Permutation::RowHalfMirror,
        0x142 => Permutation::Broadcast15,
        0x143 => Permutation::Broadcast31,
        0x150..=0x15f => Permutation::RowShare(low),
        0x160..=0x16f => Permutation::RowXor(low),
        _ => return Err(format!("DPP control {control:#x}")),
    };
    if word >> 17 & 1 == 1 {
        return Err("a reserved bit of DPP".into());
    }
    Ok(Dpp {
        permutation,
        row_mask: (word >> 28) as u8,
        bank_mask: (word >> 24 & 15) as u8,
        bound_zero: word >> 19 & 1 == 1,
        fetch_inactive: word >> 18 & 1 == 1,
    })
}

pub(super) fn dpp8(word: u32, fetch_inactive: bool) -> Dpp {
    let lanes = std::array::from_fn(|at| (word >> (8 + 3 * at) & 7) as u8);
    Dpp { permutation: Permutation::Eight(lanes), row_mask: 15, bank_mask: 15, bound_zero: true, fetch_inactive }
}

pub(super) fn sdwa(word: u32, compares: bool) -> Refused<Sdwa> {
    let select = |bits: u32| {
        Ok(match bits & 7 {
            byte @ 0..=3 => Select::Byte(byte as u8),
            4 => Select::Word(0),
            5 => Select::Word(1),
            6 => Select::Dword,
            other => return Err(format!("SDWA selection {other}")),
        })
    };
    if word & (1 << 22 | 1 << 30) != 0 {
        return Err("a reserved bit of SDWA".into());
    }
    let unused = match word >> 11 & 3 {
        _ if compares => Unused::Pad,
        0 => Unused::Pad,
        1 => Unused::Sext,
        2 => Unused::Preserve,
        other => return Err(format!("SDWA unused {other}")),
    };
    if compares && word >> 15 & 1 == 0 && word >> 8 & 0x7f != 0 {
        return Err("a destination of SDWA that is not used".into());
    }
    let to = if compares { Select::Dword } else { select(word >> 8)? };
    Ok(Sdwa { to, unused, sources: [select(word >> 16)?, select(word >> 24)?], has_result: !compares })
}
