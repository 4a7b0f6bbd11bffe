//! Kernel databases: any bytes are read or refused, and so is what their rows hold.
#![no_main]

use bluefin_miopen::db::kernel_db::{KernelDb, KernelName, KernelRow};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(db) = KernelDb::parse("fuzz", bytes) {
        db.rows.iter().for_each(|row| drop(row.code()));
    }
    // A row whose content is hostile in a file that is not.
    let kernel = KernelName { name: "a.cpp.o".to_string(), args: " -DA=1".to_string() };
    let row = KernelRow { kernel, blob: bytes.to_vec(), hash: String::new(), uncompressed_size: 1 << 20 };
    assert!(row.code().is_err(), "no content has an empty hash");
});
