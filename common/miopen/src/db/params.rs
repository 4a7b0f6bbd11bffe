//! What a tunable solver reads of its params (MIOpen 3.3, `Visit` of each solver's performance config): as many fields as it
//! declares, behind commas. Of fewer it refuses the row and runs with its defaults; what follows the last one it ignores; and a
//! field that is no number it takes for 0. The solvers of the composable kernels take the whole text for a kernel's name.

use std::fmt;

/// What one field is, by its letter in [`FIELDS`].
const WHOLE_NUMBER: u8 = b'i';
const SWITCH: u8 = b'b';

/// 32 numbers of an assembler kernel, between three words and its index.
const GTC: &str = "wwwiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiw";

/// As those of [`GTC`], with 28 numbers.
const GTC_VECTOR: &str = "wwwiiiiiiiiiiiiiiiiiiiiiiiiiiiiw";

/// Fields of each tunable solver: `i` a whole number, `b` 0 or 1, `w` a word. An empty text: the solver takes whatever stands
/// there. A name in front of `<` stands for all its variants. Those of shipped databases were counted there, in 169,154 rows; the
/// others are from the declarations.
const FIELDS: &[(&str, &str)] = &[
    ("BnCKBwdBackward", ""),
    ("BnCKFwdInference", ""),
    ("BnCKFwdTraining", ""),
    ("ConvAsm1x1U", "iiiiiiii"),
    ("ConvAsm1x1UV2", "iiiiiiiiii"),
    ("ConvAsm3x3U", "iii"),
    ("ConvAsmBwdWrW1x1", "iiiiiiiiii"),
    ("ConvAsmBwdWrW3x3", "iiiiii"),
    ("ConvAsmImplicitGemmGTCDynamicBwdXdlopsNHWC", GTC),
    ("ConvAsmImplicitGemmGTCDynamicFwdDlopsNCHWC", GTC_VECTOR),
    ("ConvAsmImplicitGemmGTCDynamicFwdXdlopsNHWC", GTC),
    ("ConvAsmImplicitGemmGTCDynamicWrwXdlopsNHWC", GTC),
    ("ConvBiasActivAsm1x1U", "iiiiiiii"),
    ("ConvBinWinogradRxSf2x3", "i"),
    ("ConvBinWinogradRxSf3x2", "i"),
    ("ConvCKIgemmFwdBiasActivFused", ""),
    ("ConvCKIgemmFwdBiasResAddActivFused", ""),
    ("ConvCkIgemmFwdV6r1DlopsNchw", "i"),
    ("ConvHipImplicitGemm3DGroupBwdXdlops", ""),
    ("ConvHipImplicitGemm3DGroupFwdXdlops", ""),
    ("ConvHipImplicitGemm3DGroupWrwXdlops", ""),
    ("ConvHipImplicitGemmBwdDataV1R1", "iiiiii"),
    ("ConvHipImplicitGemmBwdDataV1R1Xdlops", "iiiiiibb"),
    ("ConvHipImplicitGemmBwdDataV4R1", "iiiiii"),
    ("ConvHipImplicitGemmBwdDataV4R1Xdlops", "iiiiiibb"),
    ("ConvHipImplicitGemmBwdXdlops", ""),
    ("ConvHipImplicitGemmF16F8F16BwdXdlops", ""),
    ("ConvHipImplicitGemmF16F8F16FwdXdlops", ""),
    ("ConvHipImplicitGemmF16F8F16WrwXdlops", ""),
    ("ConvHipImplicitGemmForwardV4R4Xdlops", "iiiiiibbi"),
    ("ConvHipImplicitGemmForwardV4R4Xdlops_Padded_Gemm", "iiiiiiiiibbi"),
    ("ConvHipImplicitGemmForwardV4R5Xdlops", "iiiiiibbi"),
    ("ConvHipImplicitGemmFwdXdlops", ""),
    ("ConvHipImplicitGemmGroupBwdXdlops", ""),
    ("ConvHipImplicitGemmGroupFwdXdlops", ""),
    ("ConvHipImplicitGemmGroupWrwXdlops", ""),
    ("ConvHipImplicitGemmV4R1Fwd", "iiiiiiiiiiiiiiii"),
    ("ConvHipImplicitGemmV4R1WrW", "iiiiiiiiiiiiiiii"),
    ("ConvHipImplicitGemmV4R4Fwd", "iiiiii"),
    ("ConvHipImplicitGemmV4R4WrW", "iiiiii"),
    ("ConvHipImplicitGemmWrwV4R4Xdlops", "iiiiiibb"),
    ("ConvHipImplicitGemmWrwV4R4Xdlops_Padded_Gemm", "iiiiiiiiibb"),
    ("ConvMPBidirectWinograd_xdlops", "iiiiiibbi"),
    ("ConvMlirIgemmBwd", "iiiiii"),
    ("ConvMlirIgemmBwdXdlops", "iiiiiibb"),
    ("ConvMlirIgemmFwd", "iiiiii"),
    ("ConvMlirIgemmFwdXdlops", "iiiiiibb"),
    ("ConvMlirIgemmWrW", "iiiiii"),
    ("ConvMlirIgemmWrWXdlops", "iiiiiibb"),
    ("ConvOclBwdWrW2", "iiiii"),
    ("ConvOclDirectFwd", "iiiiiiiii"),
    ("ConvOclDirectFwd1x1", "iiiiiiiii"),
    ("ConvOclDirectFwdFused", "iiiiiiiii"),
];

/// Why a solver does not take its params as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Fields are missing: it refuses them all.
    Missing { found: usize, expected: usize },
    /// A field, from 1, that it reads as another one, or not at all.
    Field { place: usize, found: String, expected: &'static str },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { found, expected } => write!(f, "found {found} fields, expected {expected}"),
            Self::Field { place, found, expected } => write!(f, "field {place}: found {found:?}, expected {expected}"),
        }
    }
}

/// The fields of a solver's params: a letter each, `i` for a whole number, `b` for 0 or 1, `w` for a word; none where it takes
/// them as one text. `None`: not known, or not tunable.
#[must_use]
pub fn fields(solver: &str) -> Option<&'static str> {
    let name = solver.split('<').next().unwrap_or(solver);
    FIELDS.binary_search_by_key(&name, |(name, _)| name).ok().and_then(|at| FIELDS.get(at)).map(|(_, fields)| *fields)
}

/// Whether `solver` takes its params as one text, so that blanks and line ends are part of it.
#[must_use]
pub fn is_one_text(solver: &str) -> bool {
    fields(solver).is_none_or(str::is_empty)
}

/// What of `params` the solver would refuse or misread; `None` where it reads what is written, or it is not known.
#[must_use]
pub fn wrong(solver: &str, params: &str) -> Option<Wrong> {
    let fields = fields(solver)?.as_bytes();
    // A comma at the end begins no field, and of nothing there is none.
    let written = params.strip_suffix(',').unwrap_or(params);
    let found = if written.is_empty() { 0 } else { written.split(',').count() };
    if found < fields.len() {
        return Some(Wrong::Missing { found, expected: fields.len() });
    }
    let wrong = |((kind, text), place): ((&u8, &str), usize)| {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let expected = match *kind {
            WHOLE_NUMBER if text.parse::<i32>().is_err() => "a whole number",
            SWITCH if !["0", "1"].contains(&text) => "0 or 1",
            _ => return None,
        };
        Some(Wrong::Field { place, found: text.chars().take(40).collect(), expected })
    };
    fields.iter().zip(written.split(',')).zip(1..).find_map(wrong)
}

#[cfg(test)]
mod tests {
    use bluefin_test_support::data;

    use super::*;
    use crate::db::perf_db::PerfDb;
    use crate::db::solvers::Solvers;

    #[test]
    fn the_table_is_sorted_and_names_every_tunable_solver() {
        assert!(FIELDS.is_sorted_by_key(|(name, _)| name));
        let unknown: Vec<&str> = Solvers::shipped()
            .names()
            .filter(|name| Solvers::shipped().is_tunable(name))
            .filter(|name| fields(name).is_none())
            .collect();
        assert_eq!(unknown, [""; 0]);
        for (name, _) in FIELDS {
            assert!(Solvers::shipped().names().any(|known| known.split('<').next() == Some(name)), "{name}");
        }
    }

    #[test]
    fn what_a_solver_would_refuse_is_told() {
        for (solver, params, expected) in [
            ("ConvAsm3x3U", "7,8,4", None),
            ("ConvAsm3x3U", "7,8,4,9", None),
            ("ConvAsm3x3U", "7,8,4\r", None),
            ("ConvAsm3x3U", "6", Some("found 1 fields, expected 3")),
            ("ConvAsm3x3U", "7,8,", Some("found 2 fields, expected 3")),
            ("ConvAsm3x3U", "", Some("found 0 fields, expected 3")),
            ("ConvAsm3x3U", "7,x,4", Some("field 2: found \"x\", expected a whole number")),
            ("ConvAsm3x3U", "7,,4", Some("field 2: found \"\", expected a whole number")),
            ("ConvHipImplicitGemmWrwV4R4Xdlops", "64,64,4,32,32,4,1,2", Some("field 8: found \"2\", expected 0 or 1")),
            ("ConvOclBwdWrW2<4>", "1,7,1,1", Some("found 4 fields, expected 5")),
            ("ConvHipImplicitGemmFwdXdlops", "", None),
            (
                "ConvAsmImplicitGemmGTCDynamicFwdDlopsNCHWC",
                "fwd,nchwc_kcyxc,fp16,0",
                Some("found 4 fields, expected 32"),
            ),
            ("ConvNoSuch", "", None),
        ] {
            assert_eq!(
                wrong(solver, params).map(|wrong| wrong.to_string()).as_deref(),
                expected,
                "{solver}:{params:?}"
            );
        }
    }

    #[test]
    fn what_is_shipped_is_read_as_it_is_written() {
        for name in ["gfx942130.db", "gfx906_60.db"] {
            let db = PerfDb::parse_sqlite(name, &data(&format!("miopen/{name}"))).unwrap();
            for (solver, params) in db.records.values().flatten() {
                assert_eq!(wrong(solver, params), None, "{solver}:{params}");
            }
        }
    }
}
