//! Find-db keys: what parses prints as it was, and the problem that it names has it.
#![no_main]

use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(key) = FindDbKey::parse(text) else { return };
    assert_eq!(key.to_string(), text);
    let perf_key = PerfDbKey::from(&key);
    assert_eq!(perf_key.to_string().parse::<PerfDbKey>().as_ref(), Ok(&perf_key));
    if let Ok(problem) = key.problem() {
        assert_eq!(FindDbKey::from(&problem).to_string(), text);
    }
});
