//! Rules of the house that no compiler knows: the size of the program itself, and tests that are left out.

use std::path::{Path, PathBuf};

/// Lines that `src/` stays below: verbs parse and print, and all else is in a crate.
const LINES: usize = 10_000;

/// The files in `folder` and below whose names end in `.rs`, but those that a build made.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_program_itself_is_small() {
    let lines: usize = read("src").iter().map(|(_, text)| text.lines().count()).sum();
    assert!((1_000..LINES).contains(&lines), "src/: found {lines} lines, expected fewer than {LINES}");
}

/// [`bluefin_test_support::left_out`] fails in CI: what says by itself that it is left out counts as passed there.
#[test]
fn a_test_that_is_left_out_fails_in_ci() {
    let says = concat!("!(\"SK", "IP");
    for (path, text) in read(".") {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.contains(says)) {
            let before = text.lines().take(at).last().unwrap_or_default();
            let fails = before.contains("var_os(\"CI\")") || path.ends_with("tests/support/src/left_out.rs");
            assert!(fails, "{}:{}: found {line:?}, expected bluefin_test_support::left_out", path.display(), at + 1);
        }
    }
}
