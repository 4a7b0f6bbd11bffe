//! aiter's own tests of its operators: where this aiter has them, and how they end. Some versions have all in one folder, others have
//! folders by kind.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bluefin_aiter::Family;
use bluefin_miopen::process::{self, Ended, Run, Watch, describe};
use serde::Serialize;

use crate::machine::evaluators::AiterArgs;

/// The folder of tests in aiter's repository.
const FOLDER: &str = "op_tests";
/// Longest that a test of an operator may take.
const TIME: Duration = Duration::from_secs(3600);

/// A test that was run.
#[derive(Clone, Serialize)]
pub struct Test {
    /// In aiter's repository.
    pub script: String,
    /// Whether it ended well.
    pub passed: bool,
    /// How it ended.
    pub end: String,
}

/// A family whose operator has no test in this aiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Untested {
    /// By its name in aiter's CI.
    pub family: &'static str,
    /// Names of the scripts that were looked for.
    pub tests: &'static [&'static str],
}

/// `ck_gemm_a8w8: op_tests and its folders have no test_gemm_a8w8.py`
impl fmt::Display for Untested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {FOLDER} and its folders have no {}", self.family, self.tests.join(" or "))
    }
}

/// The tests of some families.
#[derive(Default)]
pub struct OpTests {
    /// Each once, in the order of the families, of which some share one.
    scripts: Vec<String>,
    /// Families without any.
    pub untested: Vec<Untested>,
}

impl OpTests {
    /// Looks for those of `families` in the aiter at `root`.
    #[must_use]
    pub fn find(root: &Path, families: &[&'static Family]) -> Self {
        let folders = folders(root);
        let mut found = Self::default();
        for family in families {
            let tests = family.tuner.as_ref().map_or(&[][..], |tuner| tuner.tests);
            let places = tests.iter().flat_map(|name| folders.iter().map(move |folder| format!("{folder}/{name}")));
            match places.into_iter().find(|script| root.join(script).is_file()) {
                Some(script) if found.scripts.contains(&script) => {}
                Some(script) => found.scripts.push(script),
                None => found.untested.push(Untested { family: family.name, tests }),
            }
        }
        found
    }

    /// Runs them; with kernels that are built anew if rows are `rebuilt` into them. `begin` is told of each.
    pub async fn run(&self, aiter: &AiterArgs, rebuilt: bool, begin: impl Fn(&str)) -> Vec<Test> {
        let mut tests = Vec::new();
        for script in &self.scripts {
            begin(script);
            let (passed, end) = run(script, aiter, rebuilt).await;
            tests.push(Test { script: script.clone(), passed, end });
        }
        tests
    }
}

/// The folder of tests, and those in it.
fn folders(root: &Path) -> Vec<String> {
    let entries = root.join(FOLDER).read_dir().into_iter().flatten().flatten();
    let is_folder = |path: &PathBuf| path.is_dir();
    let mut within: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(is_folder)
        .filter_map(|path| Some(format!("{FOLDER}/{}", path.file_name()?.to_str()?)))
        .collect();
    within.sort();
    within.insert(0, FOLDER.to_string());
    within
}

/// Whether a test ended well, and how.
async fn run(script: &str, aiter: &AiterArgs, rebuilt: bool) -> (bool, String) {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    if rebuilt {
        environment.push(("AITER_REBUILD".into(), "1".into()));
    }
    let command = vec![aiter.program(), script.into()];
    let run = Run { command, environment, folder: aiter.aiter.clone(), output: None };
    let watch = Watch { time: TIME, silence: TIME, ..Watch::default() };
    match process::run(&run, &watch).await {
        Err(error) => (false, error.to_string()),
        Ok(ran) if ran.is_success() => (true, "passed".to_string()),
        Ok(ran) => {
            let end = match &ran.ended {
                Ended::Exited(status) => describe(*status),
                ended => format!("{ended:?}"),
            };
            (false, format!("failed: {end}: {}", ran.tail.lines().last().unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use bluefin_aiter::FamilyName;

    use super::*;

    #[test]
    fn tests_are_found_in_either_layout() {
        let families: Vec<&'static Family> =
            ["ck_gemm_a8w8", "ck_gemm_a8w8_bpreshuffle", "ck_gemm_a4w4_blockscale", "gdn_k5"]
                .map(|name| name.parse::<FamilyName>().unwrap().0)
                .to_vec();
        let flydsl = "flydsl_tests/test_flydsl_linear_attention_prefill.py";
        let flat = ["test_gemm_a8w8.py", "test_gemm_a4w4.py", flydsl];
        for (layout, untested) in [
            (&flat[..], &[][..]),
            (&["gemm/test_gemm_a8w8.py"], &["ck_gemm_a4w4_blockscale", "gdn_k5"]),
            (&[], &["ck_gemm_a8w8", "ck_gemm_a8w8_bpreshuffle", "ck_gemm_a4w4_blockscale", "gdn_k5"]),
        ] {
            let root = tempfile::tempdir().unwrap();
            let scripts: Vec<String> = layout.iter().map(|name| format!("{FOLDER}/{name}")).collect();
            for script in &scripts {
                let path = root.path().join(script);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            }
            let found = OpTests::find(root.path(), &families);
            assert_eq!(found.scripts, scripts);
            assert_eq!(found.untested.iter().map(|one| one.family).collect::<Vec<_>>(), untested, "{layout:?}");
        }
        let found = OpTests::find(Path::new("/nowhere"), &families[2..3]);
        assert_eq!(
            found.untested[0].to_string(),
            "ck_gemm_a4w4_blockscale: op_tests and its folders have no test_gemm_a4w4_blockscale.py or test_gemm_a4w4.py"
        );
    }
}
