//! What a cubin says of its kernels' parameters, in the section `.nv.info.NAME` of each: attributes of a format, a number and a value, of which
//! those of parameters have an index, a place among the parameters, an offset and a size. NVIDIA documents none of it; `cuobjdump -elf` shows it as
//! `EIATTR_KPARAM_INFO`. Seen alike in what ptxas of CUDA 12.9 and 13.4 makes for sm_75 to sm_100.

use std::collections::BTreeMap;

use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader};

const SECTION: &[u8] = b".nv.info.";
/// Formats of attributes: a value of that many bytes follows, or one of two bytes.
const SIZED: u8 = 4;
const SHORT: [u8; 3] = [1, 2, 3];
/// `EIATTR_KPARAM_INFO`: the upper 14 bits of the last word are the size.
const PARAMETER: u8 = 0x17;
/// The same for kernels whose parameters are larger than those hold: the last word is the size.
const LARGE_PARAMETER: u8 = 0x45;

/// The bytes of each parameter of the kernels of a cubin, by their symbols; `None` if `code` is none. A kernel whose section is not
/// understood is left out.
pub(super) fn parameters(code: &[u8]) -> Option<BTreeMap<String, Vec<u32>>> {
    let header = FileHeader64::<LittleEndian>::parse(code).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != EM_CUDA {
        return None;
    }
    let sections = header.sections(endian, code).ok()?;
    let of = |section: &_| {
        let name = sections.section_name(endian, section).ok()?.strip_prefix(SECTION)?;
        let sizes = sizes(SectionHeader::data(section, endian, code).ok()?)?;
        Some((String::from_utf8(name.to_vec()).ok()?, sizes))
    };
    Some(sections.iter().filter_map(of).collect())
}

/// In the order of the parameters; `None` where an attribute is not understood, or a place is missing.
fn sizes(mut attributes: &[u8]) -> Option<Vec<u32>> {
    let mut found = BTreeMap::new();
    while let [format, attribute, low, high, rest @ ..] = attributes {
        let value;
        (value, attributes) = match *format {
            SIZED => rest.split_at_checked(u16::from_le_bytes([*low, *high]).into())?,
            format if SHORT.contains(&format) => (&[][..], rest),
            _ => return None,
        };
        if matches!(*attribute, PARAMETER | LARGE_PARAMETER) && *format == SIZED {
            let [_, _, _, _, place, place_high, _, _, size @ ..] = value else { return None };
            let size = u32::from_le_bytes(size.try_into().ok()?);
            let size = if *attribute == PARAMETER { size >> 18 } else { size };
            // Of two at one place none is known to be right.
            if found.insert(u16::from_le_bytes([*place, *place_high]), size).is_some() {
                return None;
            }
        }
    }
    // Places follow each other from the first on.
    (0..).zip(found).map(|(expected, (place, size))| (place == expected).then_some(size)).collect()
}

#[cfg(test)]
mod tests {
    use bluefin_test_support::data;
    use proptest::prelude::*;

    use super::*;

    /// `tests/data/cubin/step.ptx`, by ptxas.
    #[test]
    fn sizes_are_those_that_a_cubin_says() {
        for (file, last) in [("step_sm_75", 12), ("step_sm_90", 12), ("step_sm_100", 12), ("large_sm_90", 20000)] {
            let found = parameters(&data(&format!("cubin/{file}.cubin"))).unwrap();
            let expected = [("none", Vec::new()), ("step", vec![24, 8, 4, 1, last])];
            assert_eq!(found, expected.map(|(name, sizes)| (name.to_string(), sizes)).into(), "{file}");
        }
        assert_eq!(parameters(b"\x7fELF"), None);
        assert_eq!(parameters(b".version 7.0"), None);
    }

    proptest! {
        #[test]
        fn nothing_that_is_broken_is_understood_wrongly(at in 0..8000_usize, byte: u8) {
            let mut code = data("cubin/step_sm_90.cubin");
            let at = at % code.len();
            code[at] = byte;
            // Whatever comes of it, it ends, and nothing is made up.
            for (_, sizes) in parameters(&code).unwrap_or_default() {
                prop_assert!(sizes.len() <= 5);
            }
            code.truncate(at);
            let _ = parameters(&code);
        }
    }
}
