//! A state file whose values are hostile: packed artifacts and specs, sessions, compile records and outcomes.
#![no_main]

use std::sync::{LazyLock, Mutex};

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::digest::Digest;
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _, Work as _};
use libfuzzer_sys::fuzz_target;
use rusqlite::Connection;
use tokio::runtime::{Builder, Runtime};

struct State {
    runtime: Runtime,
    store: SqliteStore,
    connection: Mutex<Connection>,
}

// Both stay open: to open a file takes longer than to read all that is in it.
static STATE: LazyLock<State> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().build().expect("runtime");
    let path = std::env::temp_dir().join(format!("bluefin-fuzz-values-{}.db", std::process::id()));
    let _ = std::fs::remove_file(&path);
    runtime.block_on(async { SqliteStore::open(&path).await.expect("state file").close().await });
    let connection = Connection::open(&path).expect("open");
    connection.pragma_update(None, "synchronous", "OFF").expect("pragma");
    let store = runtime.block_on(SqliteStore::open_read_only(&path)).expect("state file");
    State { runtime, store, connection: Mutex::new(connection) }
});

fuzz_target!(|bytes: &[u8]| {
    let State { runtime, store, connection } = &*STATE;
    let key = Digest::of(b"key");
    let connection = connection.lock().expect("no thread has panicked");
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

    runtime.block_on(async {
        let session = "fuzz".parse().expect("name");
        assert!(!matches!(store.blob(key).await, Ok(Some(blob)) if Digest::of(&blob) != key));
        for size in [0, 100, 1 << 20] {
            let _ = store.artifact(ArtifactRef { digest: key, size }).await;
        }
        let _ = store.compiled(key).await;
        let _ = store.sessions().await;
        let _ = store.outcomes(&session, &[key]).await;
    });
});
