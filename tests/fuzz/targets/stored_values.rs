//! A state file whose values are hostile: packed artifacts and specs, sessions, compile records and outcomes.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::digest::Digest;
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _, Store, Work as _};
use libfuzzer_sys::fuzz_target;
use rusqlite::Connection;
use tokio::runtime::{Builder, Runtime};

struct State {
    runtime: Runtime,
    path: PathBuf,
}

static STATE: LazyLock<State> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().build().expect("runtime");
    let path = std::env::temp_dir().join(format!("bluefin-fuzz-values-{}.db", std::process::id()));
    let _ = std::fs::remove_file(&path);
    runtime.block_on(async { SqliteStore::open(&path).await.expect("state file").close().await });
    State { runtime, path }
});

fuzz_target!(|bytes: &[u8]| {
    let State { runtime, path } = &*STATE;
    let key = Digest::of(b"key");
    let connection = Connection::open(path).expect("open");
    connection.pragma_update(None, "synchronous", "OFF").expect("pragma");
    connection
        .execute_batch("BEGIN; DELETE FROM sessions; DELETE FROM blobs; DELETE FROM cache; DELETE FROM outcomes;")
        .expect("empty");
    let put = |sql: &str| connection.execute(sql, (&key.0[..], bytes)).expect("put");
    put("INSERT INTO blobs VALUES (?1, ?2)");
    put("INSERT INTO cache VALUES (0, ?1, 0, 1, ?2)");
    put("INSERT INTO cache VALUES (1, ?1, 0, 1, ?2)");
    put("INSERT INTO outcomes VALUES ('fuzz', ?1, ?1, ?2)");
    connection.execute("INSERT INTO sessions VALUES ('fuzz', ?1)", [bytes]).expect("session");
    connection.execute_batch("COMMIT").expect("commit");
    drop(connection);

    runtime.block_on(async {
        let store = SqliteStore::open_read_only(path).await.expect("state file");
        let session = "fuzz".parse().expect("name");
        assert!(!matches!(store.blob(key).await, Ok(Some(blob)) if Digest::of(&blob) != key));
        for size in [0, 100, 1 << 20] {
            let _ = store.artifact(ArtifactRef { digest: key, size }).await;
        }
        let _ = store.compiled(key).await;
        let _ = store.sessions().await;
        let _ = store.outcomes(&session, &[key]).await;
        store.close().await;
    });
});
