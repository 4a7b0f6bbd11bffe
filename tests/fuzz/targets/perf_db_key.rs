//! Perf-db keys: what parses prints as it was, and a problem of a key has this key.
#![no_main]

use bluefin_common::problem::{BatchNormProblem, ConvProblem, PerfDbKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<PerfDbKey>() {
        assert_eq!(key.to_string(), text);
        drop(key.columns());
        if let Ok(problem) = ConvProblem::from_perf_db_key(&key) {
            assert_eq!(PerfDbKey::from(&problem), key);
        }
    }
    if let Ok(problem) = BatchNormProblem::from_perf_db_key(text) {
        assert_eq!(problem.perf_db_key(), text);
    }
});
