//! A state file that someone else wrote: any bytes are read or refused.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::store::{Sessions as _, Store, Work as _};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().expect("runtime"));
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("bluefin-fuzz-state-{}.db", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*PATH, bytes).expect("temporary file");
    RUNTIME.block_on(async {
        let Ok(store) = SqliteStore::open_read_only(&*PATH).await else { return };
        for session in store.sessions().await.unwrap_or_default() {
            let _ = store.pins(&session.name).await;
            let _ = store.progress(&session.name).await;
            let groups = store.groups(&session.name).await.unwrap_or_default();
            let _ = store.outcomes(&session.name, &groups).await;
        }
        store.close().await;
    });
});
