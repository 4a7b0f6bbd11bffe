//! A minute of everything that may go wrong, at random: see `tests/chaos`, which makes longer ones.

use std::path::PathBuf;
use std::time::Duration;

/// Of a storm with many kinds of faults in its first minute.
const SEED: u64 = 1;

#[test]
fn a_minute_of_chaos_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = bluefin_chaos::Config {
        bluefin: PathBuf::from(env!("CARGO_BIN_EXE_bluefin")),
        folder: folder.path().to_path_buf(),
        seed: SEED,
        lasts: Duration::from_secs(60),
        patience: Duration::from_secs(120),
    };
    if !bluefin_chaos::run(&config) {
        panic!("see {}", folder.keep().display());
    }
}
