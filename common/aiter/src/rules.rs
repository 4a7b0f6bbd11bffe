//! What differs between versions of aiter: how its look-ups round, and which rows they drop. Read in the sources of a checkout;
//! what they do not tell is as in the commit [`ASSUMED`].

mod program;
mod source;

use std::path::{Path, PathBuf};

use program::{Program, RESULT};

/// The commit whose rules are taken for those of a checkout that is not there or can not be read.
pub const ASSUMED: &str = "e4048607 (22 August 2026)";

/// How look-ups go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Where they are from; `None`: [`ASSUMED`].
    from: Option<PathBuf>,
    /// What could not be read there.
    unread: Vec<&'static str>,
    gemm: Option<Program>,
    batched: Option<Program>,
    tokens: Option<Program>,
    /// How tables of mixtures of experts are looked up; `None`: as assumed.
    experts: Option<Experts>,
}

/// How a table of mixtures of experts is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Experts {
    /// Another activation's row is taken where there is none.
    pub(crate) any_activation: bool,
    /// Beyond 32768 tokens, a row of fewer is.
    pub(crate) smaller_tiers: bool,
    /// Rows with the tag `flydsl_fallback` are left out.
    pub(crate) drops_fallbacks: bool,
}

impl Rules {
    /// Those of a checkout, or of an installation: the folder that holds the package `aiter`.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        let read = |name: &str| std::fs::read_to_string(root.join(name)).ok();
        // What pip installs has the sources of kernels beside the package.
        let kernels = |name: &str| read(&format!("csrc/{name}")).or_else(|| read(&format!("aiter_meta/csrc/{name}")));
        let fused = read("aiter/fused_moe.py");
        let mut rules = Self {
            from: None,
            unread: Vec::new(),
            gemm: kernels("py_itfs_cu/gemm_common.cu").and_then(|text| source::gemm(&text)).filter(Program::is_whole),
            batched: kernels("ck_batched_gemm_a8w8/batched_gemm_a8w8.cu")
                .and_then(|text| source::batched(&text))
                .filter(Program::is_whole),
            tokens: fused.as_deref().and_then(source::tokens).filter(Program::is_whole),
            experts: fused.as_deref().map(source::experts),
        };
        let parts = [
            ("GEMMs", rules.gemm.is_some()),
            ("batched GEMMs", rules.batched.is_some()),
            ("tokens of MoE", rules.tokens.is_some()),
            ("activations of MoE", rules.experts.is_some()),
        ];
        if parts.iter().any(|(_, known)| *known) {
            rules.from = Some(root.to_path_buf());
            rules.unread = parts.iter().filter(|(_, known)| !known).map(|(part, _)| *part).collect();
        }
        rules
    }

    /// Those of the checkout that files lie in, as deep as `aiter/configs/model_configs` does.
    #[must_use]
    pub fn around(paths: &[PathBuf]) -> Self {
        let whole = paths.iter().filter_map(|path| std::path::absolute(path).ok());
        let roots: Vec<PathBuf> =
            whole.flat_map(|path| path.ancestors().map(Path::to_path_buf).collect::<Vec<_>>()).collect();
        let is_root =
            |root: &&PathBuf| root.join("aiter/configs").is_dir() && root.join("aiter/fused_moe.py").is_file();
        roots.iter().find(is_root).map_or_else(Self::default, |root| Self::of(root))
    }

    /// Whether nothing of them is from a checkout.
    #[must_use]
    pub const fn are_assumed(&self) -> bool {
        self.from.is_none()
    }

    /// What they are from, for people.
    #[must_use]
    pub fn said(&self) -> String {
        match &self.from {
            None => format!(
                "look-ups are taken to be those of aiter {ASSUMED}: found no checkout of it, expected --aiter to name one"
            ),
            Some(root) if self.unread.is_empty() => format!("look-ups are those of {}", root.display()),
            Some(root) => {
                let unread = self.unread.join(", ");
                format!(
                    "look-ups are those of {}; what it does with {unread} is not told there, and taken to be as in aiter {ASSUMED}",
                    root.display()
                )
            }
        }
    }

    /// The numbers of rows whose kernels a GEMM takes, in the order in which they are looked up: its own, and those up to which it
    /// is rounded.
    #[must_use]
    pub fn gemm(&self, m: i64, n: i64, k: i64) -> Vec<i64> {
        let mut rows = vec![m];
        for level in [0, 1] {
            let read = self.gemm.as_ref().map(|gemm| gemm.call(&[("M", m), ("N", n), ("K", k), ("gl", level)], RESULT));
            let padded = read.unwrap_or_else(|| assumed_gemm(m, n, level));
            rows.extend(padded.filter(|padded| !rows.contains(padded)));
        }
        rows
    }

    /// The same of a batch of GEMMs.
    #[must_use]
    pub fn batched(&self, m: i64, n: i64, k: i64) -> Vec<i64> {
        let read = self.batched.as_ref().map(|batched| batched.call(&[("M", m), ("N", n), ("K", k)], RESULT));
        let padded = read.unwrap_or_else(|| assumed_batched(m)).filter(|padded| *padded != m);
        std::iter::once(m).chain(padded).collect()
    }

    /// The number of tokens that a mixture of experts asks for in place of `tokens`.
    #[must_use]
    pub fn tokens(&self, tokens: i64) -> i64 {
        let read = self.tokens.as_ref().map(|program| program.call(&[("M", tokens)], RESULT));
        read.unwrap_or_else(|| assumed_tokens(tokens)).unwrap_or(tokens)
    }

    pub(crate) fn experts(&self) -> Experts {
        self.experts.unwrap_or(Experts { any_activation: true, smaller_tiers: true, drops_fallbacks: true })
    }
}

/// Tokens from which on only these numbers are asked for.
pub(crate) const TIERS: [i64; 2] = [32768, 131_072];

fn next_power(number: i64) -> Option<i64> {
    u64::try_from(number).ok()?.checked_next_power_of_two()?.try_into().ok()
}

/// Up to a step that grows with it, then up to a power of two.
fn assumed_gemm(m: i64, n: i64, level: i64) -> Option<i64> {
    let step = match m {
        ..=256 => 16,
        257..=1024 => 32,
        1025..=4096 => 64,
        _ => 128,
    };
    match level {
        0 => m.checked_add(step - 1).map(|m| m / step * step),
        _ if m > 8192 && n > 4096 => Some(8192),
        _ => next_power(m),
    }
}

fn assumed_batched(m: i64) -> Option<i64> {
    match m {
        2..=16 => Some(16),
        ..=16384 => next_power(m),
        16385..=20480 => Some(20480),
        _ => Some(m),
    }
}

fn assumed_tokens(tokens: i64) -> Option<i64> {
    let [small, large] = TIERS;
    match tokens {
        _ if tokens >= large => Some(large),
        _ if tokens >= small => Some(small),
        _ => next_power(tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_rounded_up_twice() {
        let rules = Rules::default();
        for (m, expected) in [
            (1, vec![1, 16]),
            (9, vec![9, 16]),
            (16, vec![16]),
            (17, vec![17, 32]),
            (100, vec![100, 112, 128]),
            (300, vec![300, 320, 512]),
            (1025, vec![1025, 1088, 2048]),
            (5000, vec![5000, 5120, 8192]),
        ] {
            assert_eq!(rules.gemm(m, 512, 512), expected);
        }
        assert_eq!(rules.gemm(3, 512, 512), [3, 16, 4], "to 16 before the power of two");
        assert_eq!(rules.gemm(9000, 7168, 1), [9000, 9088, 8192], "what is large takes the kernel of fewer rows");
        assert_eq!(rules.gemm(9000, 512, 1), [9000, 9088, 16384]);
        assert_eq!(rules.gemm(i64::MAX, 512, 1), [i64::MAX]);
    }

    #[test]
    fn batches_and_tokens_are_rounded_once() {
        let rules = Rules::default();
        for (m, expected) in [
            (1, vec![1]),
            (2, vec![2, 16]),
            (16, vec![16]),
            (40, vec![40, 64]),
            (16385, vec![16385, 20480]),
            (30000, vec![30000]),
        ] {
            assert_eq!(rules.batched(m, 1, 1), expected);
        }
        let tokens = [1, 5, 96, 32767, 40000, 131_072, 1_000_000].map(|tokens| rules.tokens(tokens));
        assert_eq!(tokens, [1, 8, 128, 32768, 32768, 131_072, 131_072]);
    }

    #[test]
    fn a_checkout_says_how_it_rounds() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(Rules::of(root.path()).said().contains("expected --aiter to name one"));
        write(
            "csrc/py_itfs_cu/gemm_common.cu",
            "extern \"C\" int getPaddedM(int M, int N, int K, int gl) {\n  int padded_m = M; // as it is\n  if (gl == 0) {\n    \
            if (M < 16) {\n padded_m = nextPow2(M);\n }\n else { padded_m = (M + 15) / 16 * 16; }\n  }\n  return padded_m;\n}\n",
        );
        write(
            "aiter/fused_moe.py",
            "def get_padded_M(M):\n    if M <= 16:\n        return 16\n    return 1024\n\nother = 1\n",
        );
        std::fs::create_dir_all(root.path().join("aiter/configs")).unwrap();
        let rules = Rules::around(&[root.path().join("aiter/configs/model_configs")]);
        assert_eq!((rules.gemm(3, 1, 1), rules.gemm(17, 1, 1)), (vec![3, 4], vec![17, 32]));
        assert_eq!((rules.tokens(3), rules.tokens(17)), (16, 1024));
        assert_eq!(rules.batched(3, 1, 1), [3, 16]);
        // What names something unknown is not carried out by halves.
        write("aiter/fused_moe.py", "def get_padded_M(M):\n    return max(nextPow2(M), ELSEWHERE)\n");
        let odd = Rules::of(root.path());
        assert!(odd.said().contains("batched GEMMs, tokens of MoE is not told there"), "{}", odd.said());
        assert_eq!(odd.tokens(5), 8);
        let experts = rules.experts();
        assert!(!experts.any_activation && !experts.smaller_tiers && !experts.drops_fallbacks);
        assert!(rules.said().contains("batched GEMMs is not told there"), "{}", rules.said());
    }
}
