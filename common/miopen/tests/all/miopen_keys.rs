//! Keys of databases that MIOpen ships: each parses, prints back byte for byte, and is the key of the problem it gives.

use bluefin_miopen::key::{FindDbKey, KeyError, PerfDbKey};
use bluefin_test_support::data_text;

/// Checks every key of a file and counts them.
fn check(name: &str, expected: usize) {
    let mut keys = 0;
    for line in data_text(&format!("miopen/{name}")).lines() {
        let (key, _) = line.split_once('=').unwrap();
        let parsed = FindDbKey::parse(key).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(parsed.to_string(), key);
        let problem = parsed.problem().unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(FindDbKey::from(&problem), parsed, "{key}");
        let perf = PerfDbKey::from(&problem);
        assert_eq!(perf.to_string().parse(), Ok(perf), "{key}");
        keys += 1;
    }
    assert_eq!(keys, expected, "{name}");
}

#[test]
fn gfx906() {
    check("gfx906_60.HIP.fdb.txt", 120_454);
}

#[test]
fn gfx942() {
    check("gfx942130.HIP.fdb.txt", 9_600);
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
