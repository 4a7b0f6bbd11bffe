//! Keys of databases that MIOpen ships: each parses, prints back byte for byte, and is the key of the problem it gives.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use bluefin_common::problem::{ConvProblem, FindDbKey, KeyError, PerfDbKey};
use bzip2::read::MultiBzDecoder;

fn data(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("BLUEFIN_TEST_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")));
    let path = root.join("miopen").join(name);
    let Ok(bytes) = fs::read(&path) else {
        eprintln!("SKIP: {} is not there; set BLUEFIN_TEST_DATA", path.display());
        return None;
    };
    if !name.ends_with(".bz2") {
        return Some(bytes);
    }
    let mut plain = Vec::new();
    MultiBzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).unwrap();
    Some(plain)
}

/// Checks every key of a file and counts them.
fn check(name: &str, expected: usize) {
    let Some(bytes) = data(name) else { return };
    let text = String::from_utf8(bytes).unwrap();
    let mut keys = 0;
    for line in text.lines() {
        let (key, _) = line.split_once('=').unwrap();
        let parsed = FindDbKey::parse(key).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(parsed.to_string(), key);
        let problem = ConvProblem::from_find_db_key(&parsed).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(FindDbKey::from(&problem), parsed, "{key}");
        let perf = PerfDbKey::from(&problem);
        assert_eq!(perf.to_string().parse(), Ok(perf), "{key}");
        keys += 1;
    }
    assert_eq!(keys, expected, "{name}");
}

#[test]
fn gfx906() {
    check("gfx906_60.HIP.fdb.txt.bz2", 120_454);
}

#[test]
fn gfx942() {
    check("gfx942130.HIP.fdb.txt.bz2", 9_600);
}

#[test]
fn files_of_users() {
    check("old_gfx90a68.HIP.fdb.txt", 4);
    check("usr_gfx90a68.HIP.fdb.txt", 4);
}

#[test]
fn the_legacy_shape_is_reported_as_such() {
    for key in [
        "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F",
        "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-W_g2",
    ] {
        assert_eq!(FindDbKey::parse(key), Err(KeyError::LegacyShape));
    }
}
