//! The registers of a wave, and which of their bits nobody wrote.

use std::ops::Range;

use crate::verdict::{Fault, Raised, Step, Use};

/// Lanes for which there is room.
pub(crate) const LANES: usize = 64;
pub(crate) type Vgpr = [u32; LANES];

/// Accumulation registers are numbered from here.
pub(crate) const ACCUMULATION: u16 = 256;
/// With room behind them: an operand may be the last register and have several.
pub(crate) const VGPRS: usize = 512 + 32;
/// Room behind them for a copy of an operand of 16-bit results.
const COPIES: usize = 16;

/// Numbers of scalar registers beyond the general ones, as operands encode them on gfx9; other targets' are mapped to them.
pub(crate) const FLAT_SCRATCH: u8 = 102;
pub(crate) const XNACK_MASK: u8 = 104;
pub(crate) const VCC: u8 = 106;
pub(crate) const TTMP: u8 = 108;
pub(crate) const M0: u8 = 124;
pub(crate) const NULL: u8 = 125;
pub(crate) const EXEC: u8 = 126;
const SGPRS: usize = 128 + 16;

/// Lanes of which nobody wrote a byte of a register, by byte, the lowest one first.
pub(crate) type Poison = [u64; 4];
pub(crate) const CLEAN: Poison = [0; 4];

/// Lanes of which any byte was not written.
#[inline]
pub(crate) fn any(poison: &Poison) -> u64 {
    poison[0] | poison[1] | poison[2] | poison[3]
}

/// The bytes of a dword of which any bit is set, each in all lanes.
pub(crate) fn spread(bits: u32) -> Poison {
    bits.to_le_bytes().map(|byte| if byte == 0 { 0 } else { u64::MAX })
}

/// The bits of a dword that a lane's bytes have.
pub(crate) fn lane_bits(poison: &Poison, lane: usize) -> u32 {
    u32::from_le_bytes(poison.map(|byte| if byte >> lane & 1 == 1 { 0xff } else { 0 }))
}

pub(crate) struct Registers {
    pub v: Vec<Vgpr>,
    pub poison: Vec<Poison>,
    pub s: [u32; SGPRS],
    /// Bits that nobody wrote.
    pub s_poison: [u32; SGPRS],
    pub scc: bool,
    pub scc_poison: bool,
    /// Lanes of the wave.
    pub lanes: usize,
}

impl Registers {
    pub fn new(lanes: usize) -> Self {
        Self {
            v: vec![[0; LANES]; VGPRS + COPIES],
            poison: vec![[u64::MAX; 4]; VGPRS],
            s: [0; SGPRS],
            s_poison: [u32::MAX; SGPRS],
            scc: false,
            scc_poison: true,
            lanes,
        }
    }

    /// As when a wave begins: nothing is written. `named` are the vector registers that the code may have written before.
    pub fn reset(&mut self, lanes: usize, named: &[Range<usize>; 2]) {
        for range in named {
            self.poison[range.clone()].fill([u64::MAX; 4]);
        }
        debug_assert!(
            self.poison.iter().all(|of| *of == [u64::MAX; 4]),
            "a register was written that no instruction names"
        );
        self.s = [0; SGPRS];
        self.s_poison = [u32::MAX; SGPRS];
        self.s_poison[usize::from(NULL)] = 0;
        (self.scc, self.scc_poison) = (false, true);
        self.lanes = lanes;
    }

    /// All lanes of the wave.
    #[inline]
    pub fn all(&self) -> u64 {
        if self.lanes == LANES { u64::MAX } else { (1 << self.lanes) - 1 }
    }

    #[inline]
    pub fn exec(&self) -> u64 {
        self.pair(EXEC) & self.all()
    }

    /// A register and the next one.
    #[inline]
    pub fn pair(&self, at: u8) -> u64 {
        let at = usize::from(at);
        u64::from(self.s[at]) | u64::from(self.s.get(at + 1).copied().unwrap_or_default()) << 32
    }

    #[inline]
    pub fn pair_poison(&self, at: u8) -> u64 {
        let at = usize::from(at);
        u64::from(self.s_poison[at]) | u64::from(self.s_poison.get(at + 1).copied().unwrap_or_default()) << 32
    }

    /// Writes one dword; `null` stays 0.
    pub fn set(&mut self, at: u8, value: u32, poison: u32) -> Step {
        if at == NULL {
            return Ok(());
        }
        if at >= EXEC && poison != 0 {
            return Err(Raised::wave(Fault::Unwritten { used: Use::Exec, origin: None }));
        }
        self.s[usize::from(at)] = value;
        self.s_poison[usize::from(at)] = poison;
        Ok(())
    }

    pub fn set_pair(&mut self, at: u8, value: u64, poison: u64) -> Step {
        self.set(at, value as u32, poison as u32)?;
        if at == NULL {
            return Ok(());
        }
        self.set(at + 1, (value >> 32) as u32, (poison >> 32) as u32)
    }

    /// Writes a mask of lanes: a pair of registers, or one where a wave has 32 lanes.
    pub fn set_mask(&mut self, at: u8, value: u64, poison: u64) -> Step {
        if self.lanes == LANES { self.set_pair(at, value, poison) } else { self.set(at, value as u32, poison as u32) }
    }

    /// A mask of lanes.
    #[inline]
    pub fn mask(&self, at: u8) -> u64 {
        self.pair(at) & self.all()
    }

    #[inline]
    pub fn mask_poison(&self, at: u8) -> u64 {
        self.pair_poison(at) & self.all()
    }

    /// Writes the lanes of `exec`.
    #[inline]
    pub fn write(&mut self, at: u16, values: &Vgpr, exec: u64, poison: u64) {
        let at = usize::from(at);
        blend(&mut self.v[at], values, exec, self.lanes);
        self.poison[at] = self.poison[at].map(|old| old & !exec | poison & exec);
    }

    /// Writes the lanes of `exec`, bytes of them alike or not in what nobody wrote.
    pub fn write_bytes(&mut self, at: u16, values: &Vgpr, exec: u64, poison: Poison) {
        let at = usize::from(at);
        blend(&mut self.v[at], values, exec, self.lanes);
        for (old, new) in self.poison[at].iter_mut().zip(poison) {
            *old = *old & !exec | new & exec;
        }
    }

    /// Lanes of a dword of which any bit was not written.
    #[inline]
    pub fn poisoned(&self, at: u16) -> u64 {
        any(&self.poison[usize::from(at)])
    }
}

#[inline]
fn blend(to: &mut Vgpr, values: &Vgpr, exec: u64, lanes: usize) {
    if lanes == LANES && exec == u64::MAX {
        *to = *values;
    } else if lanes == LANES / 2 && exec as u32 == u32::MAX {
        to[..LANES / 2].copy_from_slice(&values[..LANES / 2]);
    } else {
        choose(to, values, exec);
    }
}

/// Takes the lanes of a mask.
#[inline]
pub(crate) fn choose(to: &mut Vgpr, values: &Vgpr, mask: u64) {
    let halves = to.chunks_exact_mut(LANES / 2).zip(values.chunks_exact(LANES / 2));
    for ((to, values), mask) in halves.zip([mask as u32, (mask >> 32) as u32]) {
        // A bit of a constant for each lane: shifts by its number are slow on older CPUs.
        for ((old, new), bit) in to.iter_mut().zip(values).zip(&BITS) {
            let taken = if mask & bit == 0 { 0 } else { u32::MAX };
            *old = *old & !taken | new & taken;
        }
    }
}

/// The lanes in which something holds of two values, of as many lanes as a wave has.
#[inline(always)]
pub(crate) fn mask_where<T: Copy>(a: &[T], b: &[T], holds: impl Fn(T, T) -> bool) -> u64 {
    const PIECE: usize = 8;
    // Of eight bytes that are 0 or 1, the product has them as the bits of its highest one.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut all = [0; LANES];
    all.iter_mut().zip(a).zip(b).for_each(|((all, a), b)| *all = u8::from(holds(*a, *b)));
    let pieces = all.as_chunks::<PIECE>().0.iter().enumerate();
    pieces.fold(0, |mask, (at, piece)| mask | u64::from_le_bytes(*piece).wrapping_mul(GATHER) >> 56 << (PIECE * at))
}

pub(crate) const BITS: [u32; LANES / 2] = {
    let (mut bits, mut at) = ([0; LANES / 2], 0);
    while at < LANES / 2 {
        bits[at] = 1 << at;
        at += 1;
    }
    bits
};

/// The name that LLVM gives a scalar register.
pub(crate) fn sgpr_name(at: u8) -> String {
    match at {
        FLAT_SCRATCH | 103 => format!("flat_scratch_{}", ["lo", "hi"][usize::from(at - FLAT_SCRATCH)]),
        XNACK_MASK | 105 => format!("xnack_mask_{}", ["lo", "hi"][usize::from(at - XNACK_MASK)]),
        VCC => "vcc_lo".into(),
        107 => "vcc_hi".into(),
        TTMP..=123 => format!("ttmp{}", at - TTMP),
        M0 => "m0".into(),
        NULL => "null".into(),
        EXEC => "exec_lo".into(),
        127 => "exec_hi".into(),
        _ => format!("s{at}"),
    }
}

/// The name of a vector register.
pub(crate) fn vgpr_name(at: u16) -> String {
    if at >= ACCUMULATION { format!("a{}", at - ACCUMULATION) } else { format!("v{at}") }
}
