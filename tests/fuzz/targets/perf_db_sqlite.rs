//! Perf databases in SQLite: any bytes are read or refused.
#![no_main]

use bluefin_miopen::db::perf_db::PerfDb;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(db) = PerfDb::parse_sqlite("fuzz", bytes) {
        let _ = db.write_text(&mut std::io::sink());
    }
});
