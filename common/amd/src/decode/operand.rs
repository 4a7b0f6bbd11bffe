//! Operands by their text.

use super::Decoded;
use crate::instruction::{Change, Source};
use crate::operations::vector::Kind;
use crate::registers::{ACCUMULATION, EXEC, FLAT_SCRATCH, M0, NULL, TTMP, VCC, XNACK_MASK};
use crate::text::integer;

/// First and count of `7` or `[4:7]`.
fn range(text: &str) -> Option<(u16, u16)> {
    match text.strip_prefix('[') {
        Some(inner) => {
            let inner = inner.strip_suffix(']')?;
            let (first, last) = inner.split_once(':').unwrap_or((inner, inner));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            Some((first, last.checked_sub(first)? + 1))
        }
        None => Some((text.parse().ok()?, 1)),
    }
}

/// An operand without what is done to it.
fn bare(text: &str) -> (&str, Change) {
    let mut change = Change::default();
    let mut text = text;
    for (prefix, flag) in [("sext(", 0), ("neg(", 1), ("abs(", 2)] {
        if let Some(inner) = text.strip_prefix(prefix).and_then(|inner| inner.strip_suffix(')')) {
            text = inner;
            match flag {
                0 => change.extend = true,
                1 => change.negate = true,
                _ => change.absolute = true,
            }
        }
    }
    if let Some(inner) = text.strip_prefix('-').filter(|inner| !inner.starts_with(|first: char| first.is_ascii_digit()))
    {
        (text, change.negate) = (inner, true);
    }
    if let Some(inner) = text.strip_prefix('|').and_then(|inner| inner.strip_suffix('|')) {
        (text, change.absolute) = (inner, true);
    }
    for (suffix, high) in [(".l", false), (".h", true)] {
        if let Some(inner) = text.strip_suffix(suffix).filter(|inner| inner.starts_with('v')) {
            (text, change.high) = (inner, high);
        }
    }
    (text, change)
}

/// First and count of vector registers; accumulation registers are behind the others.
pub(crate) fn vgprs(text: &str) -> Option<(u16, u16)> {
    let (text, _) = bare(text);
    let (first, count, from) = match (text.strip_prefix('v'), text.strip_prefix('a')) {
        (Some(rest), _) => {
            let (first, count) = range(rest)?;
            (first, count, 0)
        }
        (_, Some(rest)) => {
            let (first, count) = range(rest)?;
            (first, count, ACCUMULATION)
        }
        _ => return None,
    };
    (first + count <= 256).then_some((first + from, count))
}

/// First and count of scalar registers.
pub(crate) fn sgprs(text: &str) -> Option<(u8, u8)> {
    let (text, _) = bare(text);
    let named = [
        ("vcc", VCC, 2),
        ("vcc_lo", VCC, 1),
        ("vcc_hi", VCC + 1, 1),
        ("exec", EXEC, 2),
        ("exec_lo", EXEC, 1),
        ("exec_hi", EXEC + 1, 1),
        ("m0", M0, 1),
        ("null", NULL, 1),
        ("flat_scratch", FLAT_SCRATCH, 2),
        ("flat_scratch_lo", FLAT_SCRATCH, 1),
        ("flat_scratch_hi", FLAT_SCRATCH + 1, 1),
        ("xnack_mask", XNACK_MASK, 2),
        ("xnack_mask_lo", XNACK_MASK, 1),
        ("xnack_mask_hi", XNACK_MASK + 1, 1),
    ];
    if let Some((_, at, count)) = named.iter().find(|(name, _, _)| *name == text) {
        return Some((*at, *count));
    }
    let (rest, from, end) = match text.strip_prefix("ttmp") {
        Some(rest) => (rest, TTMP, M0),
        None => (text.strip_prefix('s')?, 0, VCC),
    };
    let (first, count) = range(rest)?;
    let (first, count) = (u8::try_from(first).ok()?.checked_add(from)?, u8::try_from(count).ok()?);
    (first.checked_add(count)? <= end).then_some((first, count))
}

/// FP16 of the constants that an operand can be.
fn half_constant(value: f64) -> Option<u64> {
    let magnitude = match value.abs() {
        0.5 => 0x3800,
        1.0 => 0x3c00,
        2.0 => 0x4000,
        4.0 => 0x4400,
        // 1 / (2 * pi), "Inline Constants".
        value if (value - 0.159_154_94).abs() < 1e-6 => 0x3118,
        _ => return None,
    };
    Some(if value < 0.0 { magnitude | 0x8000 } else { magnitude })
}

/// How wide a constant's operand is, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub kind: Kind,
    /// 64 bits with a sign, which literals are extended by.
    pub signed: bool,
    /// Halves that are BF16.
    pub brain: bool,
}

impl From<Kind> for Wanted {
    fn from(kind: Kind) -> Self {
        Self { kind, signed: false, brain: false }
    }
}

/// A constant as bits of an operand.
///
/// An operand of halves, one or two, has 32 bits, of which each half is taken: an integer has its sign in the upper one; a float of an
/// operand of FP16 is in the lower one, the upper one being 0; a float of an operand of integers is the one of single precision.
pub(crate) fn constant(text: &str, wanted: Wanted) -> Option<u64> {
    if let Some(value) = integer(text) {
        // A literal has 32 bits, and is written so.
        let literal = text.contains('x') && value as u64 >> 32 == 0;
        return Some(match wanted.kind {
            Kind::U16 | Kind::F16 | Kind::U32 | Kind::F32 => value as u64 & 0xffff_ffff,
            // A literal is the upper half of FP64.
            Kind::F64 if literal => (value as u64) << 32,
            Kind::U64 if literal && wanted.signed => value as u32 as i32 as u64,
            Kind::U64 | Kind::F64 | Kind::Mask => value as u64,
        });
    }
    if !text.contains('.') {
        return None;
    }
    let single = || text.parse::<f32>().ok().map(|value| u64::from(value.to_bits()));
    match wanted.kind {
        Kind::F16 if wanted.brain => single().map(|bits| bits >> 16),
        Kind::F16 => half_constant(text.parse().ok()?),
        Kind::U16 | Kind::U32 | Kind::F32 => single(),
        Kind::U64 | Kind::F64 | Kind::Mask => text.parse::<f64>().ok().map(f64::to_bits),
    }
}

/// A source and what is done to it.
pub(crate) fn source(text: &str, wanted: impl Into<Wanted>) -> Decoded<(Source, Change)> {
    let (plain, change) = bare(text);
    let at = match plain {
        "scc" | "src_scc" => Source::Scc,
        "execz" | "src_execz" => Source::ExecZero,
        "vccz" | "src_vccz" => Source::VccZero,
        "src_shared_base" => Source::SharedBase,
        "src_private_base" => Source::PrivateBase,
        _ => {
            if let Some((at, _)) = vgprs(plain) {
                Source::Vgpr(at)
            } else if let Some((at, _)) = sgprs(plain) {
                Source::Sgpr(at)
            } else if let Some(value) = constant(plain, wanted.into()) {
                Source::Constant(value)
            } else {
                return Err(format!("operand {text}"));
            }
        }
    };
    Ok((at, change))
}

/// A vector register by itself.
pub(crate) fn vgpr(text: &str) -> Decoded<u16> {
    vgprs(text).map(|(at, _)| at).ok_or_else(|| format!("operand {text}, expected a vector register"))
}

/// A scalar register by itself.
pub(crate) fn sgpr(text: &str) -> Decoded<u8> {
    sgprs(text).map(|(at, _)| at).ok_or_else(|| format!("operand {text}, expected a scalar register"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_numbers() {
        assert_eq!(vgprs("v[4:7]"), Some((4, 4)));
        assert_eq!(vgprs("|v3|"), Some((3, 1)));
        assert_eq!(vgprs("a[0:15]"), Some((256, 16)));
        assert_eq!(vgprs("vcc"), None);
        assert_eq!(sgprs("s[8:11]"), Some((8, 4)));
        assert_eq!(sgprs("vcc"), Some((106, 2)));
        assert_eq!(sgprs("ttmp9"), Some((117, 1)));
        assert_eq!(sgprs("scc"), None);
        assert_eq!(sgprs("s106"), None);
    }

    #[test]
    fn sources_are_changed() {
        let (at, change) = source("-|v1|", Kind::F32).unwrap();
        assert_eq!((at, change.negate, change.absolute), (Source::Vgpr(1), true, true));
        let (at, change) = source("v5.h", Kind::F16).unwrap();
        assert_eq!((at, change.high), (Source::Vgpr(5), true));
        assert!(source("sext(v5)", Kind::U32).unwrap().1.extend);
        assert!(source("lds_direct", Kind::U32).is_err());
    }

    #[test]
    fn constants_are_of_their_kind() {
        let constant = |text, kind: Kind| constant(text, kind.into());
        assert_eq!(constant("-1", Kind::U32), Some(0xffff_ffff));
        assert_eq!(constant("-1", Kind::U64), Some(u64::MAX));
        assert_eq!(constant("-1", Kind::U16), Some(0xffff_ffff));
        assert_eq!(constant("1.0", Kind::F16), Some(0x3c00));
        assert_eq!(constant("1.0", Kind::U16), Some(0x3f80_0000));
        assert_eq!(constant("0.15915494", Kind::U16), Some(0x3e22_f983));
        assert_eq!(constant("-4.0", Kind::F32), Some(0xc080_0000));
        assert_eq!(constant("0.5", Kind::F64), Some(0x3fe0_0000_0000_0000));
        assert_eq!(constant("0x40280000", Kind::F64), Some(0x4028_0000_0000_0000));
        assert_eq!(constant("0.15915494", Kind::F32), Some(0x3e22_f983));
        assert_eq!(constant("0.15915494309189532", Kind::F64), Some(0x3fc4_5f30_6dc9_c882));
        assert_eq!(constant("0.15915494", Kind::F16), Some(0x3118));
    }

    #[test]
    fn literals_are_extended_by_a_sign_where_there_is_one() {
        let wanted = |signed| Wanted { signed, ..Kind::U64.into() };
        assert_eq!(constant("0x80000000", wanted(false)), Some(0x8000_0000));
        assert_eq!(constant("0x80000000", wanted(true)), Some(0xffff_ffff_8000_0000));
        assert_eq!(constant("0x7fffffff", wanted(true)), Some(0x7fff_ffff));
        let brain = Wanted { brain: true, ..Kind::F16.into() };
        assert_eq!(constant("-2.0", brain), Some(0xc000));
    }
}
