//! Perf-db keys: what parses prints as it was.
#![no_main]

use bluefin_common::problem::PerfDbKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<PerfDbKey>() {
        assert_eq!(key.to_string(), text);
        drop(key.columns());
    }
});
