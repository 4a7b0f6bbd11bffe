//! Macros that a build file beside a source gives a value on the command line of its compiler, `-DREAL=double`: a source that names them
//! does not compile without them.

use std::collections::BTreeSet;

use crate::host_code;

/// Build files, the first of which that is there is read.
pub(super) const NAMES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"];

/// The macros with their values in a build file, of those that one of `texts` names and none defines anew. What is under a condition
/// is for some builds alone and left out, and so is a value that is no number and no name.
pub(super) fn defines<'a>(build_file: &str, texts: impl Iterator<Item = &'a str> + Clone) -> Vec<(String, String)> {
    let mut conditions = 0_usize;
    let mut found: Vec<(String, String)> = Vec::new();
    for line in build_file.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_start();
        let lower = line.to_lowercase();
        if lower.starts_with("endif") {
            conditions = conditions.saturating_sub(1);
        } else if lower.starts_with("if") {
            conditions += 1;
        }
        if conditions > 0 {
            continue;
        }
        let words = line.split(|found: char| found.is_whitespace() || matches!(found, '(' | ')' | '"'));
        let words = words.filter_map(|word| word.strip_prefix("-D")?.split_once('='));
        for (name, value) in words.filter(|(name, value)| is_word(name) && is_value(value)) {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name.to_string(), value.to_string()));
            }
        }
    }
    let named: BTreeSet<&str> = texts.clone().flat_map(words).collect();
    let defined: BTreeSet<String> = texts.clone().flat_map(host_code::macros).collect();
    let defaults: BTreeSet<String> = texts.flat_map(host_code::defaults).map(|(name, _)| name).collect();
    let wanted = |name: &String| named.contains(name.as_str()) && (!defined.contains(name) || defaults.contains(name));
    found.retain(|(name, _)| wanted(name));
    found
}

/// The words of a text, those of its preprocessor's lines among them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|found: char| !found.is_ascii_alphanumeric() && found != '_').filter(|word| !word.is_empty())
}

fn is_word(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn is_value(text: &str) -> bool {
    is_word(text) || text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_of_a_build_file() {
        let build = "CFLAGS := $(EXTRA) -DREAL=double -DN=64 -DUNKNOWN=1 -DOWN=2 -DTEXT=\\\"a\\\" -DPLAIN -DPATH=a/b # -DM=1\n\
            ifeq ($(DEBUG),yes)\n  CFLAGS += -DM=3\nendif\nadd_definitions(-DTILE=8)\nCFLAGS += -DN=1\n";
        let texts = ["REAL x[N]; OWN TEXT PATH PLAIN\n#define OWN 1\n", "#ifndef TILE\n#define TILE 16\n#endif\nM"];
        let pairs = [("REAL", "double"), ("N", "64"), ("TILE", "8")];
        let expected: Vec<(String, String)> = pairs.map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(defines(build, texts.into_iter()), expected);
    }
}
