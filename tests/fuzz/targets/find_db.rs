//! Find databases: what was read can be written unless it is refused, and is then read back.
#![no_main]

use bluefin_miopen::db::find_db::FindDb;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(db) = FindDb::parse("fuzz", bytes) else { return };
    let mut text = Vec::new();
    if db.write(&mut text).is_ok() {
        let back = FindDb::parse("written", &text).expect("what was written is read");
        let mut again = Vec::new();
        back.write(&mut again).expect("what was written once is written again");
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&text));
    }
});
