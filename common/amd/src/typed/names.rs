//! Formats by number, and their names in LLVM's texts ("Data Format", "Buffer Format" of the instruction set documents).

use super::Numeric::{self, Float, Sint, Snorm, Sscaled, Uint, Unorm, Uscaled};
use super::{Format, MOST};
use crate::target::Generation;

const INTEGERS: &[Numeric] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint];
const ALL: &[Numeric] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint, Float];
const WIDE: &[Numeric] = &[Uint, Sint, Float];

/// gfx10's, from number 1 on. Sizes are named from the highest bits down.
const RDNA2: &[(&str, &[Numeric])] = &[
    ("8", INTEGERS),
    ("16", ALL),
    ("8_8", INTEGERS),
    ("32", WIDE),
    ("16_16", ALL),
    ("10_11_11", ALL),
    ("11_11_10", ALL),
    ("10_10_10_2", INTEGERS),
    ("2_10_10_10", INTEGERS),
    ("8_8_8_8", INTEGERS),
    ("32_32", WIDE),
    ("16_16_16_16", ALL),
    ("32_32_32", WIDE),
    ("32_32_32_32", WIDE),
];

/// Those of which gfx11 and gfx12 have fewer.
const RDNA3: &[(&str, &[Numeric])] =
    &[("10_11_11", &[Float]), ("11_11_10", &[Float]), ("10_10_10_2", &[Unorm, Snorm, Uint, Sint])];

/// gfx9's data formats.
const CDNA: [&str; 16] = [
    "INVALID",
    "8",
    "16",
    "8_8",
    "32",
    "16_16",
    "10_11_11",
    "11_11_10",
    "10_10_10_2",
    "2_10_10_10",
    "8_8_8_8",
    "32_32",
    "16_16_16_16",
    "32_32_32",
    "32_32_32_32",
    "RESERVED_15",
];

/// gfx9's number formats.
const NUMBERS: [(&str, Option<Numeric>); 8] = [
    ("UNORM", Some(Unorm)),
    ("SNORM", Some(Snorm)),
    ("USCALED", Some(Uscaled)),
    ("SSCALED", Some(Sscaled)),
    ("UINT", Some(Uint)),
    ("SINT", Some(Sint)),
    ("RESERVED_6", None),
    ("FLOAT", Some(Float)),
];

/// The number that a text leaves out: of bytes from 0 to 1.
const DEFAULT: u8 = 1;

fn is_cdna(generation: Generation) -> bool {
    matches!(generation, Generation::Cdna1 | Generation::Cdna2 | Generation::Cdna3 | Generation::Cdna4)
}

/// Sizes and number format of a number of gfx10 and later; `None` if it is reserved or invalid.
fn unified(number: u8, generation: Generation) -> Option<(&'static str, Numeric)> {
    let of = |(sizes, all): &(&'static str, &'static [Numeric])| {
        let fewer = RDNA3.iter().find(|(name, _)| generation != Generation::Rdna2 && name == sizes);
        let (sizes, numerics) = (*sizes, fewer.map_or(*all, |(_, fewer)| *fewer));
        numerics.iter().map(move |numeric| (sizes, *numeric))
    };
    RDNA2.iter().flat_map(of).nth(usize::from(number).checked_sub(1)?)
}

/// The format of a number; `None` if there is none.
pub(crate) fn format(number: u8, generation: Generation) -> Option<Format> {
    let (sizes, numeric) = if is_cdna(generation) {
        let sizes = CDNA.get(usize::from(number & 15))?;
        let (_, numeric) = NUMBERS.get(usize::from(number >> 4 & 7))?;
        let numeric = (*numeric)?;
        let (sizes, _) = RDNA2.iter().find(|(name, numerics)| name == sizes && numerics.contains(&numeric))?;
        (*sizes, numeric)
    } else {
        unified(number, generation)?
    };
    let mut bits = [0; MOST];
    for (bits, size) in bits.iter_mut().zip(sizes.rsplit('_')) {
        *bits = size.parse().ok()?;
    }
    Some(Format { bits, numeric })
}

/// The format of an instruction as LLVM prints it, nothing for the first one.
pub(crate) fn text(number: u8, generation: Generation) -> String {
    if number == DEFAULT {
        return String::new();
    }
    if !is_cdna(generation) {
        let name = |numeric: Numeric| NUMBERS.iter().find(|(_, of)| *of == Some(numeric)).map_or("", |(name, _)| *name);
        return match unified(number, generation) {
            Some((sizes, numeric)) => format!(" format:[BUF_FMT_{sizes}_{}]", name(numeric)),
            None if number == 0 => " format:[BUF_FMT_INVALID]".into(),
            None => format!(" format:{number}"),
        };
    }
    let (data, numeric) = (number & 15, number >> 4 & 7);
    let mut parts = Vec::new();
    if data != DEFAULT {
        parts.extend(CDNA.get(usize::from(data)).map(|name| format!("BUF_DATA_FORMAT_{name}")));
    }
    if numeric != 0 {
        parts.extend(NUMBERS.get(usize::from(numeric)).map(|(name, _)| format!("BUF_NUM_FORMAT_{name}")));
    }
    format!(" format:[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As LLVM 19 numbers and names them.
    #[test]
    fn formats_have_llvms_numbers_and_names() {
        let name = |number, generation| text(number, generation);
        assert_eq!(name(36, Generation::Rdna2), " format:[BUF_FMT_10_11_11_FLOAT]");
        assert_eq!(name(77, Generation::Rdna2), " format:[BUF_FMT_32_32_32_32_FLOAT]");
        assert_eq!(name(78, Generation::Rdna2), " format:78");
        assert_eq!(name(30, Generation::Rdna3), " format:[BUF_FMT_10_11_11_FLOAT]");
        assert_eq!(name(35, Generation::Rdna4), " format:[BUF_FMT_10_10_10_2_SINT]");
        assert_eq!(name(63, Generation::Rdna4), " format:[BUF_FMT_32_32_32_32_FLOAT]");
        assert_eq!(name(64, Generation::Rdna3), " format:64");
        assert_eq!(name(0, Generation::Rdna3), " format:[BUF_FMT_INVALID]");
        assert_eq!(name(1, Generation::Rdna3), "");
        assert_eq!(name(37, Generation::Cdna1), " format:[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_USCALED]");
        assert_eq!(name(3, Generation::Cdna3), " format:[BUF_DATA_FORMAT_8_8]");
        assert_eq!(name(0x51, Generation::Cdna3), " format:[BUF_NUM_FORMAT_SINT]");
    }

    #[test]
    fn elements_are_as_their_names_say() {
        let found = |number, generation| format(number, generation).map(|format| (format.bits, format.numeric));
        assert_eq!(found(36, Generation::Rdna2), Some(([11, 11, 10, 0], Float)));
        assert_eq!(found(37, Generation::Rdna3), Some(([10, 10, 10, 2], Snorm)));
        assert_eq!(found(9 | 4 << 4, Generation::Cdna3), Some(([10, 10, 10, 2], Uint)));
        assert_eq!(found(13 | 7 << 4, Generation::Cdna2), Some(([32, 32, 32, 0], Float)));
        // No float of 8 bits, no fraction of 32.
        assert_eq!(found(1 | 7 << 4, Generation::Cdna2), None);
        assert_eq!(found(4, Generation::Cdna2), None);
        assert_eq!(found(0, Generation::Rdna4), None);
        let sizes = format(36, Generation::Rdna2).map(|format| (format.count(), format.bytes(), format.place(2)));
        assert_eq!(sizes, Some((3, 4, Some((22, 10)))));
        let sizes = format(6, Generation::Cdna1);
        assert_eq!(sizes.and_then(|format| format.place(3)), None);
    }
}
