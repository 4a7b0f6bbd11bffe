//! How a vector instruction is run: over all lanes at once, whatever EXEC says, by a loop that was made for it.

use crate::number::{Comparison, Mode};
use crate::registers::mask_where;

/// What a source or a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U16,
    F16,
    U32,
    F32,
    U64,
    F64,
    /// A bit for each lane, in scalar registers.
    Mask,
}

impl Kind {
    pub fn is_wide(self) -> bool {
        matches!(self, Self::U64 | Self::F64)
    }

    pub fn is_half(self) -> bool {
        matches!(self, Self::U16 | Self::F16)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }

    /// Its sign.
    pub fn sign(self) -> u64 {
        match self {
            Self::U16 | Self::F16 => 1 << 15,
            Self::U32 | Self::F32 => 1 << 31,
            Self::U64 | Self::F64 => 1 << 63,
            Self::Mask => 0,
        }
    }
}

/// All sources and the result of at most 32 bits; a 16-bit one is in the lower half of its element.
pub(crate) type Narrow = fn(&Mode, &mut [u32], [&[u32]; 3]);
/// The same where something has 64 bits; narrower ones are zero-extended.
pub(crate) type Wide = fn(&Mode, &mut [u64], [&[u64]; 3]);
/// With a mask in (0 if it has none) and a mask out.
pub(crate) type NarrowCarry = fn(&Mode, &mut [u32], [&[u32]; 3], u64) -> u64;
pub(crate) type WideCarry = fn(&Mode, &mut [u64], [&[u64]; 3], u64) -> u64;

/// How a comparison of integers goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Never,
    Less,
    Equal,
    LessEqual,
    Greater,
    NotEqual,
    GreaterEqual,
    Always,
}

#[derive(Clone, Copy)]
pub(crate) enum Run {
    Narrow(Narrow),
    Wide(Wide),
    NarrowCarry(NarrowCarry),
    WideCarry(WideCarry),
    /// On both halves of each source.
    Packed(Narrow),
    /// On both registers of each source.
    PackedPair(Narrow),
    /// V_PK_MOV_B32.
    PackedMove,
    /// V_MOV_B64.
    MovePair,
    /// V_FMA_MIX: sources of either width. What the result is.
    Mix(Kind),
    /// V_CNDMASK.
    Select,
    Compare {
        relation: Relation,
        signed: bool,
    },
    CompareFloat(Comparison),
    Class,
}

/// A vector ALU instruction.
#[derive(Clone, Copy)]
pub(crate) struct Definition {
    pub result: Kind,
    pub sources: &'static [Kind],
    pub run: Run,
    /// The destination is the last source as well.
    pub tied: bool,
    /// Each bit of the result is one of a source or a constant, given the shifts: halves that nobody wrote are followed.
    pub bitwise: bool,
    /// No bit of the result depends on higher bits of the sources: a lower half is not tainted by upper ones.
    pub upward: bool,
    /// A 16-bit result leaves the other half alone, on every target.
    pub keeps: bool,
    /// There is a mask of lanes among the results.
    pub mask_out: bool,
}

/// A loop over lanes: `lanes!(|mode, a, b, c| expression)`, elements being `u32`.
macro_rules! lanes {
    (|$mode:tt, $a:tt, $b:tt, $c:tt| $body:expr) => {{
        fn run(mode: &crate::number::Mode, out: &mut [u32], [a, b, c]: [&[u32]; 3]) {
            let $mode = mode;
            for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                let ($a, $b, $c): (u32, u32, u32) = (*a, *b, *c);
                *out = $body;
            }
        }
        crate::operations::vector::Run::Narrow(run)
    }};
}

/// The same with elements of 64 bits.
macro_rules! wide {
    (|$mode:tt, $a:tt, $b:tt, $c:tt| $body:expr) => {{
        fn run(mode: &crate::number::Mode, out: &mut [u64], [a, b, c]: [&[u64]; 3]) {
            let $mode = mode;
            for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                let ($a, $b, $c): (u64, u64, u64) = (*a, *b, *c);
                *out = $body;
            }
        }
        crate::operations::vector::Run::Wide(run)
    }};
}

/// A loop whose body yields a result and a bit; the last argument is a bit of the mask that comes in.
macro_rules! carry {
    ($variant:ident $type:ty, |$mode:tt, $a:tt, $b:tt, $c:tt, $bit:tt| $body:expr) => {{
        fn run(mode: &crate::number::Mode, out: &mut [$type], [a, b, c]: [&[$type]; 3], mask: u64) -> u64 {
            use crate::registers::{BITS, LANES};
            const HALF: usize = LANES / 2;
            let ($mode, mut carries) = (mode, 0);
            let halves = out.chunks_mut(HALF).zip(a.chunks(HALF)).zip(b.chunks(HALF)).zip(c.chunks(HALF));
            for (half, (((out, a), b), c)) in halves.enumerate() {
                let (mask, mut bits) = ((mask >> (HALF * half)) as u32, 0);
                for ((((out, a), b), c), bit) in out.iter_mut().zip(a).zip(b).zip(c).zip(&BITS) {
                    let ($a, $b, $c): ($type, $type, $type) = (*a, *b, *c);
                    let $bit = mask & bit != 0;
                    let (value, carry): ($type, bool) = $body;
                    *out = value;
                    bits |= if carry { *bit } else { 0 };
                }
                carries |= u64::from(bits) << (HALF * half);
            }
            carries
        }
        crate::operations::vector::Run::$variant(run)
    }};
}

/// `define!(F32 [F32 F32] flags; run)`.
macro_rules! define {
    ($result:ident [$($source:ident)*] $($flag:ident)*; $run:expr) => {{
        #[allow(unused_mut, reason = "not every operation has a flag")]
        let mut definition = crate::operations::vector::Definition {
            result: crate::operations::vector::Kind::$result,
            sources: &[$(crate::operations::vector::Kind::$source),*],
            run: $run,
            tied: false,
            bitwise: false,
            upward: false,
            keeps: false,
            mask_out: false,
        };
        $(definition.$flag = true;)*
        definition
    }};
}

pub(crate) use {carry, define, lanes, wide};

/// A comparison by name: `cmp_lt_u32`, `cmpx_class_f16`.
pub(crate) fn comparison(name: &str) -> Option<Definition> {
    let rest = name.strip_prefix("cmp_").or_else(|| name.strip_prefix("cmpx_"))?;
    let (condition, kind) = rest.rsplit_once('_')?;
    let (sources, signed): (&'static [Kind], bool) = match kind {
        "i16" => (&[Kind::U16, Kind::U16], true),
        "u16" => (&[Kind::U16, Kind::U16], false),
        "i32" => (&[Kind::U32, Kind::U32], true),
        "u32" => (&[Kind::U32, Kind::U32], false),
        "i64" => (&[Kind::U64, Kind::U64], true),
        "u64" => (&[Kind::U64, Kind::U64], false),
        "f16" => (&[Kind::F16, Kind::F16], true),
        "f32" => (&[Kind::F32, Kind::F32], true),
        "f64" => (&[Kind::F64, Kind::F64], true),
        _ => return None,
    };
    let float = sources[0].is_float();
    let (sources, run): (&'static [Kind], Run) = match (condition, sources[0]) {
        ("class", Kind::F16) => (&[Kind::F16, Kind::U32], Run::Class),
        ("class", Kind::F32) => (&[Kind::F32, Kind::U32], Run::Class),
        ("class", Kind::F64) => (&[Kind::F64, Kind::U32], Run::Class),
        (condition, _) if float => (sources, Run::CompareFloat(Comparison::named(condition)?)),
        (condition, _) => {
            let relation = match condition {
                "f" => Relation::Never,
                "lt" => Relation::Less,
                "eq" => Relation::Equal,
                "le" => Relation::LessEqual,
                "gt" => Relation::Greater,
                "ne" | "lg" => Relation::NotEqual,
                "ge" => Relation::GreaterEqual,
                "t" | "tru" => Relation::Always,
                _ => return None,
            };
            (sources, Run::Compare { relation, signed })
        }
    };
    Some(Definition {
        result: Kind::Mask,
        sources,
        run,
        tied: false,
        bitwise: false,
        upward: false,
        keeps: false,
        mask_out: false,
    })
}

/// The lanes in which a relation holds.
pub(crate) fn compare_integers<T: Copy + PartialOrd>(relation: Relation, a: &[T], b: &[T]) -> u64 {
    match relation {
        Relation::Never => 0,
        Relation::Less => mask_where(a, b, |a, b| a < b),
        Relation::Equal => mask_where(a, b, |a, b| a == b),
        Relation::LessEqual => mask_where(a, b, |a, b| a <= b),
        Relation::Greater => mask_where(a, b, |a, b| a > b),
        Relation::NotEqual => mask_where(a, b, |a, b| a != b),
        Relation::GreaterEqual => mask_where(a, b, |a, b| a >= b),
        Relation::Always => mask_where(a, b, |_, _| true),
    }
}
