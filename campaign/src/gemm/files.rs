//! tune_gemm.py's files: a YAML list with a flow mapping a line, of sizes or of sizes with a config, and a CSV of times. An output file is
//! an input file.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use bluefin_common::files::FileSet;
use serde::Serialize;
use yaml_rust2::yaml::{Hash, Yaml, YamlLoader};

use super::space::{Config, Space};

/// The keys of a config, in the order in which they are written. The last one is a text.
pub const CONFIG: [&str; 10] = [
    "BLOCK_SIZE_M",
    "BLOCK_SIZE_N",
    "BLOCK_SIZE_K",
    "GROUP_SIZE_M",
    "SPLIT_K",
    "num_warps",
    "num_stages",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
];
/// What configs of older files do not say.
pub(super) const DEFAULTS: [(&str, i64); 3] = [("waves_per_eu", 0), ("matrix_instr_nonkdim", 16), ("kpack", 1)];
/// The key of the last entry of a config, and what newer copies of the script call it.
const SCHEDULE: [&str; 2] = ["instruction_sched_variant", "schedule_hint"];
/// Largest size of a matrix.
const MAX_SIZE: i64 = i32::MAX as i64;

/// A matrix product to be tuned: C (m x n) = A (m x k) x B (k x n).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size {
    /// Rows of C.
    pub m: i64,
    /// Columns of C.
    pub n: i64,
    /// Columns of A.
    pub k: i64,
    /// Whether the elements of a row of A follow each other.
    pub row_a: bool,
    /// The same of B.
    pub row_b: bool,
}

/// `640x5120x2560 TN`
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, row_a, row_b } = *self;
        write!(f, "{m}x{n}x{k} {}{}", order(row_a), order(row_b))
    }
}

/// `T` is row major.
fn order(row: bool) -> char {
    if row { 'T' } else { 'N' }
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Of the product.
    pub size: Size,
    /// None where there are only sizes.
    pub config: Option<Config>,
}

/// Reads a file of sizes, of sizes with their configs, or of what a regression report says of configs. `note` is told which lines a
/// later one takes the place of: the script appends to its output.
///
/// # Errors
/// If it can not be read, or a line is none of these.
pub fn read(path: &Path, mut note: impl FnMut(String)) -> anyhow::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let told = |text: String| note(format!("{}: {text}", path.display()));
    parse(&text, told).with_context(|| path.display().to_string())
}

pub(super) fn parse(text: &str, mut note: impl FnMut(String)) -> anyhow::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut seen = BTreeMap::new();
    for (number, entry) in items(text)? {
        if let Some(first) = seen.insert(entry.size, number) {
            note(format!("line {number} takes the place of line {first}, which is of the same size"));
            entries.retain(|earlier| earlier.size != entry.size);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// All items of the list, each with its line.
pub(super) fn items(text: &str) -> anyhow::Result<Vec<(usize, Entry)>> {
    let documents = YamlLoader::load_from_str(text).context("expected YAML")?;
    let list = match documents.as_slice() {
        [Yaml::Array(list)] => list,
        [] | [Yaml::Null] => bail!("found nothing, expected a list of sizes: - {{'M': 64, 'N': 64, 'K': 64}}"),
        _ => bail!("found no list, expected a list of sizes: - {{'M': 64, 'N': 64, 'K': 64}}"),
    };
    // The library tells of lines only where a text is no YAML.
    let lines: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.trim_start().starts_with('-'))
        .map(|(number, _)| number)
        .collect();
    let item = |(index, item): (usize, &Yaml)| {
        let number = lines.get(index).copied().unwrap_or(index + 1);
        Ok((number, entry(item).with_context(|| format!("line {number}"))?))
    };
    list.iter().enumerate().map(item).collect()
}

fn entry(item: &Yaml) -> anyhow::Result<Entry> {
    let Yaml::Hash(map) = item else { bail!("found {item:?}, expected a mapping of M, N and K") };
    // A report of a regression has the config beside its TFLOP/s.
    let map = match map.get(&Yaml::String("config".to_string())) {
        Some(Yaml::Hash(config)) => config,
        _ => map,
    };
    let get = |key: &str| map.get(&Yaml::String(key.to_string()));
    let dimension = |key: &str| match get(key) {
        Some(Yaml::Integer(value)) if (1..=MAX_SIZE).contains(value) => Ok(*value),
        Some(other) => bail!("{key}: found {}, expected a whole number from 1 to {MAX_SIZE}", shown(other)),
        None => bail!("{key}: found nothing, expected a whole number from 1 to {MAX_SIZE}"),
    };
    // 'T' is row major, anything else is not; v2 does not say it, and both are row major there.
    let row = |key: &str| get(key).is_none_or(|value| value.as_str() == Some("T"));
    let size = Size {
        m: dimension("M")?,
        n: dimension("N")?,
        k: dimension("K")?,
        row_a: row("rowMajorA"),
        row_b: row("rowMajorB"),
    };
    Ok(Entry { size, config: config(map)? })
}

fn config(map: &Hash) -> anyhow::Result<Option<Config>> {
    let get = |key: &str| map.get(&Yaml::String(key.to_string()));
    if CONFIG.iter().all(|key| get(key).is_none()) {
        return Ok(None);
    }
    let mut config = Config::new();
    for key in CONFIG {
        let default = DEFAULTS.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let value = match (get(key), default) {
            (Some(Yaml::Integer(value)), _) => *value,
            (None, Some(default)) => default,
            (Some(other), _) => bail!("{key}: found {}, expected a whole number", shown(other)),
            (None, None) => bail!("{key}: found nothing, expected a whole number"),
        };
        config.insert(key.to_string(), value);
    }
    if let Some(schedule) = SCHEDULE.iter().find_map(|key| get(key)) {
        anyhow::ensure!(
            matches!(schedule.as_str(), Some("none" | "")),
            "{}: found {}, expected none",
            SCHEDULE[0],
            shown(schedule)
        );
    }
    Ok(Some(config))
}

fn shown(value: &Yaml) -> String {
    match value {
        Yaml::Integer(value) => value.to_string(),
        Yaml::Real(text) | Yaml::String(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    }
}

/// TFLOP/s of a product of that size in so many microseconds.
pub fn tflops(size: &Size, us: f64) -> f64 {
    2.0 * size.m as f64 * size.n as f64 * size.k as f64 * 1e-12 / (us * 1e-6)
}

/// A number as the script writes it.
pub fn number(value: f64) -> String {
    if value < 1e-4 {
        // Python has at least two digits of an exponent.
        let text = format!("{value:.3e}");
        match text.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
            Some((digits, exponent)) => {
                format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            }
            None => text,
        }
    } else if value > 1000.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `{'M': 640, ...}` without the braces.
fn sizes(size: &Size) -> String {
    let Size { m, n, k, row_a, row_b } = *size;
    format!("'M': {m}, 'N': {n}, 'K': {k}, 'rowMajorA': '{}', 'rowMajorB': '{}'", order(row_a), order(row_b))
}

/// A line of an output file, without its end: as v2 writes it for its own space, where it can say the size.
#[must_use]
pub fn line(space: Space, size: &Size, config: &Config, us: f64) -> String {
    if space == Space::V2 && size.row_a && size.row_b {
        return line_of_v2(size, config, us);
    }
    let mut text = format!("- {{{}", sizes(size));
    for key in CONFIG {
        // What v2 compiles with.
        let of_space = (space == Space::V2 && key == "matrix_instr_nonkdim").then_some(32);
        let default = || Some(DEFAULTS.iter().find(|(name, _)| *name == key)?.1);
        let value = of_space.or_else(|| config.get(key).copied()).or_else(default);
        // Writing into memory does not fail.
        let _ = write!(text, ", '{key}': {}", value.unwrap_or_default());
    }
    let (tflops, us) = (number(tflops(size, us)), number(us));
    let _ = write!(text, ", '{}': 'none'}} # TFLOPS: {tflops} time(us): {us}", SCHEDULE[0]);
    text
}

/// Keys of a config that v2 knows, which are the first of [`CONFIG`].
const V2: usize = 7;

fn line_of_v2(size: &Size, config: &Config, us: f64) -> String {
    let Size { m, n, k, .. } = size;
    let mut text = format!("- {{'M': {m}, 'N': {n}, 'K': {k}");
    for key in CONFIG.iter().take(V2) {
        // Writing into memory does not fail.
        let _ = write!(text, ", '{key}': {}", config.get(*key).copied().unwrap_or_default());
    }
    let tflops = tflops(size, us);
    let tflops = if tflops < 1e-4 { number(tflops) } else { format!("{tflops:.2}") };
    let _ = write!(text, "}} # TFLOPS: {tflops} time(us): {us:.2}");
    text
}

/// The lines of an output file: those that are there and of other sizes, as they are, then the new ones.
pub fn merged(before: &str, new: &[(Size, String)]) -> String {
    let again = |line: &str| {
        let known = YamlLoader::load_from_str(line).ok().and_then(|documents| match documents.first() {
            Some(Yaml::Array(list)) => entry(list.first()?).ok(),
            _ => None,
        });
        known.is_some_and(|known| new.iter().any(|(size, _)| *size == known.size))
    };
    let kept = before.lines().filter(|line| !again(line)).chain(new.iter().map(|(_, line)| line.as_str()));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// A CSV of times: `TN,640,5120,2560,214.76,78.12`.
pub fn csv<'a>(times: impl Iterator<Item = (&'a Size, f64)>) -> String {
    let mut text = "trans,M,N,K,TFLOPS,us\n".to_string();
    for (size, us) in times {
        let Size { m, n, k, row_a, row_b } = *size;
        let (tflops, us) = (number(tflops(size, us)), number(us));
        // Writing into memory does not fail.
        let _ = writeln!(text, "{}{},{m},{n},{k},{tflops},{us}", order(row_a), order(row_b));
    }
    text
}

/// Puts a file in place at once.
pub fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().with_context(|| format!("{}: no file's name", path.display()))?.to_string_lossy();
    let mut files = FileSet::new(folder)?;
    let beside = files.add(&name)?;
    std::fs::write(&beside, text).with_context(|| path.display().to_string())?;
    files.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const OUTPUT: &str = "- {'M': 640, 'N': 5120, 'K': 2560, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': 128, \
        'BLOCK_SIZE_N': 64, 'BLOCK_SIZE_K': 64, 'GROUP_SIZE_M': 4, 'SPLIT_K': 1, 'num_warps': 4, 'num_stages': 2, \
        'waves_per_eu': 0, 'matrix_instr_nonkdim': 16, 'kpack': 2, 'instruction_sched_variant': 'none'} \
        # TFLOPS: 214.76 time(us): 78.12";

    #[test]
    fn an_output_line_is_read_and_written_back() {
        let entries = parse(OUTPUT, |_| {}).unwrap();
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((entry.size.m, entry.size.row_a, entry.size.row_b), (640, true, false));
        assert_eq!(line(Space::V3, &entry.size, entry.config.as_ref().unwrap(), 78.12), OUTPUT);
        assert_eq!(csv([(&entry.size, 78.12)].into_iter()), "trans,M,N,K,TFLOPS,us\nTN,640,5120,2560,214.76,78.12\n");
    }

    #[test]
    fn the_files_of_the_script_are_read() {
        let sizes = parse(include_str!("../../../tests/data/gemm/tuning_gemm_sizes.yaml"), |_| {}).unwrap();
        assert!(sizes.len() > 20 && sizes.iter().all(|entry| entry.config.is_none()));
        let packed = include_bytes!("../../../tests/data/gemm/fallback_tuned_configs.yaml.bz2");
        let mut text = String::new();
        bzip2::read::BzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
        let tuned = parse(&text, |_| {}).unwrap();
        assert!(tuned.len() > 20 && tuned.iter().all(|entry| entry.config.is_some()));
        // v2 has no orders, and its configs fewer keys.
        let old = "- {'M': 16, 'N': 32, 'K': 64, 'BLOCK_SIZE_M': 16, 'BLOCK_SIZE_N': 16, 'BLOCK_SIZE_K': 64, 'GROUP_SIZE_M': 1, \
                   'SPLIT_K': 2, 'num_warps': 1, 'num_stages': 0}";
        let [entry] = parse(old, |_| {}).unwrap().try_into().unwrap();
        assert!(entry.size.row_a && entry.size.row_b);
        let config = entry.config.unwrap();
        assert_eq!(config["kpack"], 1);
        // As it wrote it.
        assert_eq!(line(Space::V2, &entry.size, &config, 7.126), format!("{old} # TFLOPS: 0.01 time(us): 7.13"));
        let other = Size { row_b: false, ..entry.size };
        let line = line(Space::V2, &other, &config, 7.126);
        assert!(line.contains("'rowMajorB': 'N'") && line.contains("'matrix_instr_nonkdim': 32"), "{line}");
    }

    #[test]
    fn a_later_line_of_a_size_counts() {
        let text = format!("{OUTPUT}\n{}\n", OUTPUT.replace("'num_warps': 4", "'num_warps': 8"));
        let mut notes = Vec::new();
        let entries = parse(&text, |note| notes.push(note)).unwrap();
        assert_eq!((entries.len(), entries[0].config.as_ref().unwrap()["num_warps"]), (1, 8));
        assert_eq!(notes, ["line 2 takes the place of line 1, which is of the same size"]);
        let config = OUTPUT.trim_start_matches("- ").split(" #").next().unwrap();
        let report = parse(&format!("- config: {config}\n  tflops: 214.7\n"), |_| {}).unwrap();
        assert_eq!(report, parse(OUTPUT, |_| {}).unwrap(), "a report is a reference");
    }

    #[test]
    fn numbers_are_the_scripts() {
        for (value, text) in [(214.756, "214.76"), (1000.0, "1000.00"), (1234.56, "1234.6"), (0.00005, "5.000e-05")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn mistakes_name_the_line_and_the_key() {
        for (text, expected) in [
            ("", "found nothing, expected a list of sizes"),
            ("M: 1\n", "found no list"),
            ("- 3\n", "line 1: found Integer(3)"),
            ("# sizes\n- {'M': 1, 'N': 1}\n", "line 2: K: found nothing, expected a whole number"),
            ("- {'M': 0, 'N': 1, 'K': 1}\n", "line 1: M: found 0, expected a whole number from 1"),
            ("- {'M': '1', 'N': 1, 'K': 1}\n", "line 1: M: found \"1\""),
            ("- {'M': 1, 'M': 2, 'N': 1, 'K': 1}\n", "expected YAML"),
            ("- {'M': 1, 'N': 1, 'K': 1, 'BLOCK_SIZE_M': 16}\n", "BLOCK_SIZE_N: found nothing"),
            ("- {'M': 1\n", "expected YAML"),
        ] {
            let error = format!("{:#}", parse(text, |_| {}).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn new_lines_take_the_place_of_those_of_their_sizes() {
        let [entry] = parse(OUTPUT, |_| {}).unwrap().try_into().unwrap();
        let new = line(Space::V3, &entry.size, entry.config.as_ref().unwrap(), 70.0);
        let other = "- {'M': 1, 'N': 1, 'K': 1, 'rowMajorA': 'T', 'rowMajorB': 'N'}";
        let before = format!("# mine\n{OUTPUT}\n{other}\n");
        assert_eq!(merged(&before, &[(entry.size, new.clone())]), format!("# mine\n{other}\n{new}\n"));
    }
}
