//! Files of measured tuning spaces, of whatever format.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::space::Measured;
use super::{t4, tsv};

/// Bytes that a file may have, unpacked.
const LIMIT: u64 = 1 << 30;

const EXPECTED: &str = "expected T4 results, or tab-separated points with a header";

/// What one file holds.
#[derive(Debug)]
enum Content {
    Spaces(Vec<Measured>),
    /// The names of a space's params, and no times.
    T1(BTreeSet<String>),
}

/// The spaces of all `files`.
///
/// # Errors
/// The first file that can not be read or that no other one makes complete, with what was found there and what is expected.
pub fn read_all(files: &[impl AsRef<Path>]) -> anyhow::Result<Vec<Measured>> {
    let mut spaces = Vec::new();
    let mut inputs = Vec::new();
    for path in files.iter().map(AsRef::as_ref) {
        match content(path).with_context(|| path.display().to_string())? {
            Content::Spaces(of_file) => spaces.extend(with_times(path, of_file)?),
            Content::T1(params) => inputs.push((path, params)),
        }
    }
    for (path, params) in inputs {
        let of_input = |space: &Measured| space.params.iter().cloned().collect::<BTreeSet<_>>() == params;
        ensure!(
            spaces.iter().any(of_input),
            "{}: found a T1, which has no times, expected a T4 of its results beside it, with the params {}",
            path.display(),
            params.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(spaces)
}

/// Those of a file's spaces that can be searched. Of a session's results, some may have failed as a whole.
fn with_times(path: &Path, spaces: Vec<Measured>) -> anyhow::Result<Vec<Measured>> {
    let (searched, left_out): (Vec<_>, Vec<_>) = spaces.into_iter().partition(Measured::has_time);
    let points: usize = left_out.iter().map(|space| space.points.len()).sum();
    ensure!(
        !searched.is_empty(),
        "{}: found {points} points of which none has a time, expected one or more that have",
        path.display()
    );
    for Measured { name, points, .. } in left_out {
        eprintln!("{}: {name} is left out: none of its {} points has a time", path.display(), points.len());
    }
    Ok(searched)
}

fn content(path: &Path) -> anyhow::Result<Content> {
    let text = text(path)?;
    let name = name(path);
    if text.trim_start().starts_with('{') {
        return json(&name, &text);
    }
    let first = text.lines().next().unwrap_or_default();
    ensure!(first.contains('\t'), "line 1: found {:?}, {EXPECTED}", first.chars().take(40).collect::<String>());
    Ok(Content::Spaces(vec![tsv::read(&name, &text)?]))
}

/// The text of a file, unpacked.
fn text(path: &Path) -> anyhow::Result<String> {
    let mut file = BufReader::new(File::open(path)?);
    let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let mut bytes = Vec::new();
    if packed {
        MultiGzDecoder::new(file).take(LIMIT + 1).read_to_end(&mut bytes).context("gzip")?;
    } else {
        file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    }
    ensure!(bytes.len() as u64 <= LIMIT, "found more than {LIMIT} bytes, expected at most as many");
    String::from_utf8(bytes).ok().with_context(|| format!("found bytes that are no text, {EXPECTED}"))
}

/// The name of a file without what says its format.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let endings = [".tsv", ".json"];
    endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name).to_string()
}

/// The fields by which formats are told apart.
#[derive(Deserialize)]
struct Fields {
    results: Option<IgnoredAny>,
    #[serde(rename = "ConfigurationSpace")]
    configuration_space: Option<IgnoredAny>,
    cache: Option<IgnoredAny>,
}

fn json(name: &str, text: &str) -> anyhow::Result<Content> {
    let fields: Fields = serde_json::from_str(text).context("JSON")?;
    match fields {
        Fields { results: Some(_), .. } => Ok(Content::Spaces(t4::read(name, text)?)),
        Fields { configuration_space: Some(_), .. } => Ok(Content::T1(t4::params_of_t1(text)?.into_iter().collect())),
        Fields { cache: Some(_), .. } => {
            bail!("found a cache of Kernel Tuner, expected T4 results, which its store_output_file writes")
        }
        _ => bail!("found JSON without results, {EXPECTED}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const TSV: &str = "x\tmedian_ms\n1\t2\n2\t1\n";
    const T4: &str = r#"{"results": [{"configuration": {"x": 1}, "invalidity": "correct",
        "measurements": [{"name": "time", "value": 2, "unit": "ms"}]}]}"#;
    const T1: &str = r#"{"General": {}, "ConfigurationSpace": {"TuningParameters": [
        {"Name": "x", "Type": "int", "Values": "[1, 2]"}]}, "KernelSpecification": {}}"#;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// The spaces of files that have these contents, or the error without the folder.
    fn read(contents: &[(&str, &[u8])]) -> Result<Vec<Measured>, String> {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = contents.iter().map(|(name, _)| folder.path().join(name)).collect();
        for (path, (_, content)) in paths.iter().zip(contents) {
            std::fs::write(path, content).unwrap();
        }
        let before = format!("{}/", folder.path().display());
        read_all(&paths).map_err(|error| format!("{error:#}").replace(&before, ""))
    }

    #[test]
    fn formats_are_told_apart_by_content() {
        let spaces = read(&[
            ("a.json", TSV.as_bytes()),
            ("b.tsv.gz", &packed(TSV)),
            ("c.tsv", T4.as_bytes()),
            ("d.json.gz", T4.as_bytes()),
            ("t1.json", T1.as_bytes()),
            ("e", &packed(T4)),
        ]);
        let spaces = spaces.unwrap();
        let names: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "e"]);
        assert!(spaces.iter().all(|space| space.params == ["x"] && (space.solver == "points")));
        assert_eq!((spaces[1].points.len(), spaces[4].points.len()), (2, 1));
    }

    #[test]
    fn what_failed_as_a_whole_is_left_out() {
        let entry = |solver: &str, invalidity: &str| {
            format!(
                r#"{{"configuration": {{"solver": "{solver}", "x": 1}}, "invalidity": "{invalidity}",
                    "measurements": [{{"name": "time", "value": 2, "unit": "ms"}}]}}"#
            )
        };
        let t4 = |entries: &[String]| {
            format!(r#"{{"metadata": {{"tool": "bluefin"}}, "results": [{}]}}"#, entries.join(","))
        };
        let spaces = read(&[("a", t4(&[entry("A", "compile"), entry("B", "correct")]).as_bytes())]).unwrap();
        let names: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
        assert_eq!(names, ["a B"]);
        let error = read(&[("a", t4(&[entry("A", "compile"), entry("B", "runtime")]).as_bytes())]).unwrap_err();
        assert_eq!(error, "a: found 2 points of which none has a time, expected one or more that have");
    }

    #[test]
    fn what_is_no_space_is_refused() {
        let mut broken = packed(TSV);
        broken.truncate(20);
        for (name, content, said) in [
            ("a", b"".as_slice(), "a: line 1: found \"\", expected T4 results, or tab-separated points with a header"),
            ("a", b"conv -n 1\n", "a: line 1: found \"conv -n 1\", expected"),
            ("a", b"\xff\tx", "a: found bytes that are no text"),
            ("a.gz", &broken, "a.gz: gzip: "),
            ("a", b"{\"results\": [,]}", "a: JSON: expected value at line 1 column 14"),
            ("a", b"{}", "a: found JSON without results"),
            ("a", b"{\"cache\": {}}", "a: found a cache of Kernel Tuner, expected T4 results"),
            ("a", b"{\"ConfigurationSpace\": {}}", "a: T1 input: missing field `TuningParameters` at line 1"),
            ("a", b"x\tmedian_ms\n", "a: found 0 points of which none has a time"),
            ("a", b"x\tmedian_ms\n1\tfail:InvalidConfig\n", "a: found 1 points of which none has a time"),
            (
                "a.json",
                T1.as_bytes(),
                "a.json: found a T1, which has no times, expected a T4 of its results beside it, with",
            ),
        ] {
            let error = read(&[(name, content)]).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let other = T1.replace("\"x\"", "\"y\"");
        let error = read(&[("t4", T4.as_bytes()), ("t1", other.as_bytes())]).unwrap_err();
        assert!(error.starts_with("t1: found a T1") && error.ends_with("with the params y"), "{error}");
        let error = read_all(&["/nowhere"]).unwrap_err();
        assert_eq!(format!("{error:#}"), "/nowhere: No such file or directory (os error 2)");
    }
}
