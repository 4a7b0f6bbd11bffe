//! Perf databases in their text form: what was read can be written unless it is refused, and is then read back.
#![no_main]

use bluefin_miopen::db::perf_db::PerfDb;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(db) = PerfDb::parse_text("fuzz", bytes) else { return };
    let mut text = Vec::new();
    if let Ok(rows) = db.write_text(&mut text) {
        assert_eq!(rows, db.rows());
        let back = PerfDb::parse_text("written", &text).expect("what was written is read");
        assert_eq!(back.rows(), rows);
        let mut again = Vec::new();
        back.write_text(&mut again).expect("what was written once is written again");
        assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&text));
    }
});
