//! Matrix instructions: MFMA of gfx908 to gfx950, WMMA of gfx11 and gfx12.
//!
//! Where each element lies is AMD's "Matrix Instruction Calculator" (github.com/ROCm/amd_matrix_instruction_calculator); the same is
//! in the MI200 and MI300 documents, section "Dense matrix operations" ("Matrix arithmetic instructions"), and in the RDNA 3 one,
//! section "Wave matrix multiply accumulate". How they round is in [`Sum`]. All ignore EXEC and MODE.
//!
//! gfx950's are in the "CDNA 4" document, gfx12's, of which no lane has copies, in the "RDNA 4" one. Those with a sparse A (SMFMAC,
//! SWMMAC) are in `sparse`.

mod layout;
mod pairs;
mod product;
mod rows;
mod shape;
mod signs;
mod sparse;
mod sums;
mod table;
mod truncated;
mod truncation;

use thiserror::Error;

pub(crate) use self::layout::Layout;
pub(crate) use self::product::Factors;
use self::product::Scales;
pub(crate) use self::sparse::Chosen;
use crate::target::Generation;

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F64,
    F32,
    /// FP32 of which 10 bits of mantissa take part.
    Xf32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I32,
    I8,
    /// Signed or unsigned by the instruction's `neg_lo`.
    Iu8,
    /// As `Iu8`, of 4 bits.
    Iu4,
    /// FP8 and BF8 of the Open Compute Project.
    OcpFp8,
    OcpBf8,
    /// 6 bits: E2M3 and E3M2.
    Fp6,
    Bf6,
    /// E2M1.
    Fp4,
}

impl Element {
    /// Bits in a register; FP64 takes two of them.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::Xf32 | Element::I32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::Fp8 | Element::Bf8 | Element::OcpFp8 | Element::OcpBf8 | Element::I8 | Element::Iu8 => 8,
            Element::Fp6 | Element::Bf6 => 6,
            Element::Iu4 | Element::Fp4 => 4,
        }
    }
}

/// How the products of an element of the result are summed.
///
/// AMD documents neither order nor intermediate rounding. For MFMA this is what was measured on MI250X and MI300X and found equal
/// bit for bit over random inputs: Xie et al., "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units" (arXiv 2511.10909,
/// tables 6 and 7, algorithms 1, 2, 10 and 11). For WMMA nothing is published; see [`Sum::Wide`]. Nor is anything for a sparse A: it
/// is taken to be summed as a dense one, of the products alone that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// FP32 and FP64: fused multiply-adds, k ascending, to the nearest even, denormals kept.
    Fused,
    /// gfx90a's FP16 and BF16: of so many (2 or 4) products at a time the sums of pairs, and the sum of those, are added to the
    /// result, each step rounded to FP32. Denormal inputs are +0, denormal sums and products zeros of their sign.
    Pairs(usize),
    /// gfx942's FP16, BF16 and XF32: so many products at a time are cut off (towards zero) 24 digits below the largest one's
    /// exponent and added up; that sum and the result so far, this one cut off (downwards) 24 digits below the larger exponent, are
    /// added, cut off (downwards) at 32 digits, and rounded to the nearest even FP32. Denormals are kept.
    Truncated(usize),
    /// gfx942's FP8 and BF8: as `Truncated`, 16 products at a time, those of even and of odd k apart; a result so far that is more
    /// than 25 digits below the sum does not take part.
    TruncatedHalves,
    /// Integers: exact, modulo 2^32 or with `clamp` saturated.
    Exact,
    /// WMMA (and SWMMAC) of floats, and what gfx950 added. Chosen here, for want of a source: products and sums in FP32, k ascending,
    /// each step rounded to the nearest even; where the result is FP16 or BF16, it is rounded to that at the end. Denormals are kept.
    Wide,
}

/// A matrix instruction: D = A * B + C for each of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// As LLVM prints it.
    pub name: &'static str,
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of B and of the result.
    pub columns: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// Independent products.
    pub blocks: usize,
    pub a: Element,
    pub b: Element,
    /// Of C and D.
    pub result: Element,
    pub sum: Sum,
    /// Of each four elements of a row of A two are there, and a register of indices says which; C is D.
    pub sparse: bool,
    /// Whether a block of A can be broadcast (`cbsz`, `abid`).
    broadcasts_a: bool,
    /// What `blgp` does.
    pattern: Pattern,
    unit: Unit,
}

/// Where the elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Mfma,
    /// gfx11's WMMA: lanes of A and B are copies of each other.
    Copies,
    /// gfx12's WMMA, whose 16-bit results lie in pairs. A wave of 64 lanes has the upper half of each operand's registers in its lanes
    /// from 32 on.
    Pairs,
}

/// What the field `blgp` means for an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    None,
    /// Groups of lanes of B are broadcast or rotated.
    Lanes,
    /// gfx942's FP64: negations of A, B and C, printed as `neg:[1,0,0]`.
    Negations,
}

/// The modifiers of a matrix instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// MFMA: two to this many blocks use one block of A. SMFMAC: unless it is 0, the first set of indices is used.
    pub cbsz: u8,
    /// MFMA: which of them. SMFMAC: which set of indices.
    pub abid: u8,
    /// MFMA: the pattern of B's lanes; for FP64 on gfx942 bit 0 negates A, bit 1 B, bit 2 C.
    pub blgp: u8,
    /// WMMA, bits 0 to 2 for A, B and C: of floats, negates the elements in low halves (of C all); of integers, A or B is signed.
    pub neg_lo: u8,
    /// WMMA of floats: negates the elements of A and B in high halves, takes C's absolute value.
    pub neg_hi: u8,
    /// WMMA with 16-bit results: bit 2 chooses the high halves of C and D, of which the other halves stay. SWMMAC: which set of indices.
    pub op_sel: u8,
    /// WMMA of integers: the result saturates.
    pub clamp: bool,
}

/// One of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    A,
    B,
    C,
    /// Of a sparse A: which elements are there.
    Index,
}

/// Lanes of a register whose lower and whose upper halves are meant.
pub type Halves = [u64; 2];

/// Why an instruction is not executed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    #[error("{name} has no modifier {modifier}:{value}")]
    Modifier { name: &'static str, modifier: &'static str, value: u8 },
    #[error("{name} does not run on waves of {lanes} lanes")]
    Lanes { name: &'static str, lanes: usize },
    #[error("{name}: {found} registers of {operand:?}, expected {expected}")]
    Registers { name: &'static str, operand: Operand, found: usize, expected: usize },
}

impl Matrix {
    /// The instruction that LLVM prints so. Old and new names (`v_mfma_f32_32x32x8f16` of gfx90a, `v_mfma_f32_32x32x8_f16` of gfx942)
    /// are different instructions, since they round differently.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Matrix> {
        table::MATRICES.iter().chain(&table::SPARSE).find(|matrix| matrix.name == name)
    }

    /// The instruction that LLVM prints so for a generation: some have names that older ones have, and other elements or another layout.
    #[must_use]
    pub fn of(name: &str, generation: Generation) -> Option<&'static Matrix> {
        let own = match generation {
            Generation::Cdna4 => table::CDNA4.as_slice(),
            Generation::Rdna4 => table::RDNA4.as_slice(),
            _ => &[],
        };
        own.iter().find(|matrix| matrix.name == name).or_else(|| Self::named(name))
    }

    /// A and B as `cbsz` and `blgp` of the instructions that leave them open (`..._f8f6f4`) say.
    pub(crate) fn with_formats(&self, cbsz: u8, blgp: u8) -> Option<Matrix> {
        let format = |code: u8| {
            let formats = [Element::OcpFp8, Element::OcpBf8, Element::Fp6, Element::Bf6, Element::Fp4];
            formats.get(usize::from(code)).copied()
        };
        Some(Matrix { a: format(cbsz)?, b: format(blgp)?, ..*self })
    }

    /// Whether `cbsz` and `blgp` say what its elements are.
    fn is_open(&self) -> bool {
        self.name.ends_with("_f8f6f4")
    }

    /// Whether it is WMMA (or SWMMAC).
    #[must_use]
    pub fn is_wmma(&self) -> bool {
        self.unit != Unit::Mfma
    }

    /// How many registers an operand has in a wave of so many lanes; D has as many as C.
    #[must_use]
    pub fn registers(&self, operand: Operand, lanes: usize) -> usize {
        let layout = Layout::of(self, lanes);
        match operand {
            Operand::A => layout.a.registers,
            Operand::B => layout.b.registers,
            Operand::C => layout.result.registers,
            Operand::Index => usize::from(self.sparse),
        }
    }

    /// Computes D. `d` is of as many registers as `c`; where only one half of them is written, the other keeps what it is.
    pub fn run(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        a: &[[u32; 64]],
        b: &[[u32; 64]],
        c: &[[u32; 64]],
        d: &mut [[u32; 64]],
    ) -> Result<(), Refused> {
        let layout = self.checked(modifiers, lanes, [a.len(), b.len(), c.len(), d.len(), 0])?;
        self.compute(&layout, modifiers, (lanes, [a, b, c]), None, None, d);
        Ok(())
    }

    /// The same with scales of A and B: a register each, and which byte of it.
    #[cfg(test)]
    pub(crate) fn run_scaled(
        &self,
        modifiers: Modifiers,
        [a, b, c]: [&[[u32; 64]]; 3],
        scales: ([&[u32; 64]; 2], [u8; 2]),
        d: &mut [[u32; 64]],
    ) -> Result<(), Refused> {
        let layout = self.checked(modifiers, 64, [a.len(), b.len(), c.len(), d.len(), 0])?;
        self.compute(&layout, modifiers, (64, [a, b, c]), Some(scales), None, d);
        Ok(())
    }

    /// The same of a sparse A, with its register of indices.
    pub fn run_sparse(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        [a, b, c]: [&[[u32; 64]]; 3],
        index: &[u32; 64],
        d: &mut [[u32; 64]],
    ) -> Result<(), Refused> {
        let layout = self.checked(modifiers, lanes, [a.len(), b.len(), c.len(), d.len(), 1])?;
        self.compute(&layout, modifiers, (lanes, [a, b, c]), None, Some(&layout.chosen(index)), d);
        Ok(())
    }

    fn compute(
        &self,
        layout: &Layout,
        modifiers: Modifiers,
        (lanes, [a, b, c]): (usize, [&[[u32; 64]]; 3]),
        scales: Option<([&[u32; 64]; 2], [u8; 2])>,
        chosen: Option<&Chosen>,
        d: &mut [[u32; 64]],
    ) {
        let mut factors = Factors::new();
        self.read(layout, modifiers, [a, b], scales, &mut factors);
        if self.is_in_place() {
            d.iter_mut().zip(c).for_each(|(d, c)| d[..lanes].copy_from_slice(&c[..lanes]));
        }
        self.multiply(layout, modifiers, &mut factors, chosen, (c, d));
    }

    /// Reads A and B. `layout` is [`Self::layout`] for the same modifiers.
    pub(crate) fn read(
        &self,
        layout: &Layout,
        modifiers: Modifiers,
        sources: [&[[u32; 64]]; 2],
        scales: Option<([&[u32; 64]; 2], [u8; 2])>,
        factors: &mut Factors,
    ) {
        let scales = scales.map(|(scales, at)| Scales::read(self.rows, scales, at));
        product::read(self, layout, modifiers, sources, scales.as_ref(), factors);
    }

    /// Whether D is computed where C is: results of 16 bits leave the other halves of D as they are.
    pub(crate) fn is_in_place(&self) -> bool {
        self.result.bits() != 16
    }

    /// Computes D of A and B that were read. Where that is done in place, `c` is not looked at.
    pub(crate) fn multiply(
        &self,
        layout: &Layout,
        modifiers: Modifiers,
        factors: &mut Factors,
        chosen: Option<&Chosen>,
        (c, d): (&[[u32; 64]], &mut [[u32; 64]]),
    ) {
        let c = (!self.is_in_place()).then_some(c);
        product::multiply(self, layout, modifiers, factors, chosen, (c, d));
    }

    /// Where everything is, in a wave of so many lanes.
    pub(crate) fn layout(&self, modifiers: Modifiers, lanes: usize) -> Result<Layout, Refused> {
        self.checked(modifiers, lanes, self.own_registers(lanes))
    }

    /// Which halves of D depend on halves of the sources that nobody wrote; those are set in `d`, the others are cleared (for 16-bit
    /// results only in the half that is written).
    pub fn poison(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        a: &[Halves],
        b: &[Halves],
        c: &[Halves],
        d: &mut [Halves],
    ) -> Result<(), Refused> {
        let layout = self.checked(modifiers, lanes, [a.len(), b.len(), c.len(), d.len(), 0])?;
        layout.poison([a, b, c], None, d);
        Ok(())
    }

    /// The same of a sparse A, with its indices, and which halves of them nobody wrote.
    pub fn poison_sparse(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        [a, b, c]: [&[Halves]; 3],
        (index, unwritten): (&[u32; 64], Halves),
        d: &mut [Halves],
    ) -> Result<(), Refused> {
        let layout = self.checked(modifiers, lanes, [a.len(), b.len(), c.len(), d.len(), 1])?;
        layout.poison([a, b, c], Some((&layout.chosen(index), unwritten)), d);
        Ok(())
    }

    /// The registers and lanes that a lane of a register of D depends on, each once for each element that lies there.
    pub fn sources(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        register: usize,
        lane: usize,
    ) -> Result<Vec<(Operand, usize, usize)>, Refused> {
        Ok(self.checked(modifiers, lanes, self.own_registers(lanes))?.sources(register, lane))
    }

    /// The first lane of A or B that is no copy of the lane 16, 32 or 48 before it, where WMMA wants copies (RDNA 3, "Wave matrix
    /// multiply accumulate"; what comes out otherwise is not said); `None` for MFMA.
    #[must_use]
    pub fn unreplicated(&self, lanes: usize, a: &[[u32; 64]], b: &[[u32; 64]]) -> Option<(Operand, usize, usize)> {
        if self.unit != Unit::Copies {
            return None;
        }
        let are_copies = |values: &[u32; 64]| {
            let Some((first, others)) = values[..lanes.min(64)].as_chunks::<16>().0.split_first() else { return true };
            // Without a call of the library's comparison, which costs more than these few words.
            let apart =
                |other: &[u32; 16]| other.iter().zip(first).fold(0, |apart, (other, first)| apart | other ^ first);
            others.iter().all(|other| apart(other) == 0)
        };
        let find = |operand, registers: &[[u32; 64]]| {
            registers.iter().enumerate().filter(|(_, values)| !are_copies(values)).find_map(|(register, values)| {
                let lane = (16..lanes.min(64)).find(|&lane| values[lane] != values[lane % 16])?;
                Some((operand, register, lane))
            })
        };
        find(Operand::A, a).or_else(|| find(Operand::B, b))
    }

    /// The first lane that has a pair of indices whose second is not the larger one, where those in it that are used were written
    /// ("for this index pair, index 0 < index 1", CDNA 4, "Sparse matrices"); `None` for a dense A.
    pub fn disordered(
        &self,
        modifiers: Modifiers,
        lanes: usize,
        index: &[u32; 64],
        unwritten: Halves,
    ) -> Result<Option<usize>, Refused> {
        if !self.sparse {
            return Ok(None);
        }
        let layout = self.checked(modifiers, lanes, self.own_registers(lanes))?;
        Ok(layout.disordered(&layout.chosen(index), unwritten))
    }

    /// Of A, B, C, D, and of the indices.
    fn own_registers(&self, lanes: usize) -> [usize; 5] {
        [Operand::A, Operand::B, Operand::C, Operand::C, Operand::Index].map(|operand| self.registers(operand, lanes))
    }

    fn checked(&self, modifiers: Modifiers, lanes: usize, registers: [usize; 5]) -> Result<Layout, Refused> {
        let name = self.name;
        if lanes != 64 && !(lanes == 32 && self.is_wmma()) {
            return Err(Refused::Lanes { name, lanes });
        }
        let refuse = |modifier, value| Err(Refused::Modifier { name, modifier, value });
        let Modifiers { cbsz, abid, blgp, neg_lo, neg_hi, op_sel, clamp } = modifiers;
        let wmma = self.is_wmma();
        let integer = self.sum == Sum::Exact;
        let sets = if self.sparse { sparse::sets(self, lanes) } else { 1 };
        if self.sparse && !wmma {
            // "CBSZ[1:0]", and of ABID what there are sets; where there is one, both are ignored.
            if cbsz > 3 {
                return refuse("cbsz", cbsz);
            }
            if abid > 3 || cbsz == 0 && sets > 1 && usize::from(abid) >= sets {
                return refuse("abid", abid);
            }
        } else if cbsz > 0 && (!self.broadcasts_a || cbsz > 4 || 1 << cbsz > self.blocks) {
            return refuse("cbsz", cbsz);
        } else if abid >= 1 << cbsz {
            return refuse("abid", abid);
        }
        if blgp > 7 || blgp > 0 && self.pattern == Pattern::None {
            return refuse("blgp", blgp);
        }
        // Of a sparse A, C has no signs.
        let signs = if self.sparse { 3 } else { 7 };
        if neg_lo > signs || neg_lo > 0 && !wmma || neg_lo > 3 && integer {
            return refuse("neg_lo", neg_lo);
        }
        if neg_hi > signs || neg_hi > 0 && (!wmma || integer) {
            return refuse("neg_hi", neg_hi);
        }
        // Bits 0 and 1 have no meaning but for sets of indices.
        let halves = self.unit == Unit::Copies && self.result.bits() == 16;
        let chooses_set = self.sparse && wmma && usize::from(op_sel) < sets;
        if !chooses_set && (op_sel & !4 != 0 || op_sel > 0 && !halves) {
            return refuse("op_sel", op_sel);
        }
        if clamp && !(wmma && integer) {
            return refuse("clamp", 1);
        }
        let layout = Layout::of(self, lanes).modified(self, modifiers);
        let [a, b, c, d, index] = registers;
        for (operand, found, expected) in [
            (Operand::A, a, layout.a.registers),
            (Operand::B, b, layout.b.registers),
            (Operand::C, c, layout.result.registers),
            (Operand::C, d, layout.result.registers),
            (Operand::Index, index, usize::from(self.sparse)),
        ] {
            if found != expected {
                return Err(Refused::Registers { name, operand, found, expected });
            }
        }
        Ok(layout)
    }
}

#[cfg(test)]
mod tests;
