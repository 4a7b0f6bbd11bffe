//! Perf-db keys: what parses prints as it was, and a problem of a key has this key.
#![no_main]

use bluefin_miopen::key::{PerfDbKey, batch_norm};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<PerfDbKey>() {
        assert_eq!(key.to_string(), text);
        drop(key.columns());
        if let Ok(problem) = key.problem() {
            assert_eq!(PerfDbKey::from(&problem), key);
        }
    }
    if let Ok(problem) = batch_norm::problem(text) {
        assert_eq!(batch_norm::perf_db_key(&problem), text);
    }
});
