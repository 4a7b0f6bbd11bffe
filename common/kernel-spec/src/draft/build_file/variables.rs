//! Variables of build files: `TILE = 16` and `-DTILE=$(TILE)`, `set(TILE 16)` and `-DTILE=${TILE}`.

use std::collections::BTreeMap;

/// Variables within variables.
const MOST_DEPTH: usize = 4;
/// Bytes that a line may come to.
const MOST_LINE: usize = 4096;

/// Values of variables, each of one word.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Those that `lines` set, which are all that are under no condition. The last value counts; one that a line adds to has none.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut found = BTreeMap::new();
        for line in lines {
            let (name, value) = match assigned(line).or_else(|| set(line)) {
                Some((name, value)) if is_name(name) => (name, value),
                _ => continue,
            };
            match value.filter(|value| !value.is_empty() && !value.contains(char::is_whitespace)) {
                Some(value) => _ = found.insert(name.to_string(), value.to_string()),
                None => _ = found.remove(name),
            }
        }
        Self(found)
    }

    /// `line` with what they stand for; one that is not known stays.
    pub(super) fn expanded(&self, line: &str) -> String {
        let mut line = line.to_string();
        for _ in 0..MOST_DEPTH {
            let changed = self.once(&line);
            if changed == line || changed.len() > MOST_LINE {
                break;
            }
            line = changed;
        }
        line
    }

    fn once(&self, line: &str) -> String {
        let (mut changed, mut rest) = (String::with_capacity(line.len()), line);
        while let Some((before, behind)) = rest.split_once('$') {
            changed.push_str(before);
            let named = match behind.chars().next() {
                Some('(') => behind.get(1..).and_then(|inner| inner.split_once(')')),
                Some('{') => behind.get(1..).and_then(|inner| inner.split_once('}')),
                _ => None,
            };
            match named.and_then(|(name, after)| Some((self.0.get(name.trim())?, after))) {
                Some((value, after)) => {
                    changed.push_str(value);
                    rest = after;
                }
                None => {
                    changed.push('$');
                    rest = behind;
                }
            }
        }
        changed + rest
    }
}

/// What a line of make's gives a variable: `A = 1`, `A := 1`, `A ?= 1`; without a value where it adds to one.
fn assigned(line: &str) -> Option<(&str, Option<&str>)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    if let Some(name) = name.strip_suffix('+') {
        return Some((name.trim_end(), None));
    }
    let name = name.strip_prefix("export ").unwrap_or(name);
    Some((name.trim_end_matches([':', '?']).trim(), Some(value.trim())))
}

/// What a line of CMake's sets: `set(A 1)`, `set(A 1 CACHE STRING "")`.
fn set(line: &str) -> Option<(&str, Option<&str>)> {
    let inner = line.trim().strip_prefix("set").or_else(|| line.trim().strip_prefix("SET"))?.trim_start();
    let (inner, _) = inner.strip_prefix('(')?.split_once(')')?;
    let mut words = inner.split_whitespace();
    let (name, value) = (words.next()?, words.next()?);
    let is_alone = words.next().is_none_or(|word| word == "CACHE");
    Some((name, is_alone.then(|| value.trim_matches('"'))))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|found| found.is_ascii_alphanumeric() || matches!(found, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_what_is_set() {
        let text = "TILE = 16\nSIDE := $(TILE)\nREAL ?= float\nCC = nvcc -O3\nROWS = 4\nROWS += 5\nexport K=2\nset(N 8)\nset(LIST a b)\n\
            set(M \"3\" CACHE INT \"m\")\nLOOP = $(LOOP)\nall: x\n\t./run -n=$(TILE)\n";
        let variables = Variables::of(text.lines());
        for (line, expected) in [
            ("-DT=$(TILE) -DS=${SIDE}", "-DT=16 -DS=16"),
            ("-DR=$(REAL) -DK=$(K)", "-DR=float -DK=2"),
            ("-DN=${N} -DM=${M} -DL=${LIST}", "-DN=8 -DM=3 -DL=${LIST}"),
            ("-DR=$(ROWS) $(CC) $(LOOP) $(NONE", "-DR=$(ROWS) $(CC) $(LOOP) $(NONE"),
        ] {
            assert_eq!(variables.expanded(line), expected);
        }
    }
}
