//! The store in a file: a folder for each test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::digest::Digest;
use bluefin_common::file_system::FileSystem;
use bluefin_common::store::{Artifacts as _, Blobs as _, JobState, Planned, Sessions as _, StoreError, Work as _};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{group, job, name, noise, outcome, planned, session};

pub struct OnSqlite {
    store: Arc<SqliteStore>,
    folder: TempDir,
}

fn state(folder: &TempDir) -> PathBuf {
    folder.path().join("bluefin.db")
}

/// The same where other machines may have the file as well.
pub struct OnNfs(OnSqlite);

impl OnSqlite {
    async fn start_on(file_system: FileSystem) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open_on(state(&folder), file_system).await.unwrap());
        Self { store, folder }
    }

    fn execute(&self, sql: &str, params: impl rusqlite::Params) {
        let connection = Connection::open(state(&self.folder)).unwrap();
        assert_eq!(connection.execute(sql, params).unwrap(), 1);
    }
}

impl Backend for OnSqlite {
    type Store = SqliteStore;

    async fn start() -> Self {
        Self::start_on(FileSystem::LOCAL).await
    }

    fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    async fn spoil_artifact(&self, digest: Digest, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.execute("UPDATE cache SET value = ?2 WHERE kind = 0 AND key = ?1", (digest.0, bytes));
            }
            None => self.execute("DELETE FROM cache WHERE kind = 0 AND key = ?1", [digest.0]),
        }
    }

    async fn spoil_blob(&self, digest: Digest, bytes: &[u8]) {
        self.execute("UPDATE blobs SET packed = ?2 WHERE digest = ?1", (digest.0, bytes));
    }

    async fn spoil_compiled(&self, key: Digest, bytes: &[u8]) {
        self.execute("UPDATE cache SET value = ?2 WHERE kind = 1 AND key = ?1", (key.0, bytes));
    }
}

impl Backend for OnNfs {
    type Store = SqliteStore;

    async fn start() -> Self {
        Self(OnSqlite::start_on(FileSystem::NFS).await)
    }

    fn store(&self) -> &Arc<SqliteStore> {
        &self.0.store
    }

    async fn spoil_artifact(&self, digest: Digest, bytes: Option<&[u8]>) {
        self.0.spoil_artifact(digest, bytes).await;
    }

    async fn spoil_blob(&self, digest: Digest, bytes: &[u8]) {
        self.0.spoil_blob(digest, bytes).await;
    }

    async fn spoil_compiled(&self, key: Digest, bytes: &[u8]) {
        self.0.spoil_compiled(key, bytes).await;
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn refusal(path: &Path) -> String {
    let error = SqliteStore::open(path).await.err().expect("refused");
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_closed_file_is_one_file_that_opens_elsewhere() {
    let OnSqlite { store, folder } = OnSqlite::start().await;
    let s = name("s");
    store.create_session(&session("s", "label")).await.unwrap();
    let job = job(&s, 1, 1);
    store.put_outcome(&outcome(&job)).await.unwrap();
    let artifact = store.put_artifact(b"code").await.unwrap();
    assert!(names(folder.path()).contains(&"bluefin.db.lock".to_string()));
    store.close().await;
    store.close().await;
    assert!(store.progress(&s).await.unwrap_err().is_transient());
    assert_eq!(names(folder.path()), ["bluefin.db"]);

    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(state(&folder), state(&elsewhere)).unwrap();
    let store = SqliteStore::open(state(&elsewhere)).await.unwrap();
    assert_eq!(store.outcomes(&s, &[job.group()]).await.unwrap(), [outcome(&job)]);
    assert_eq!(store.artifact(artifact).await.unwrap().as_deref(), Some(b"code".as_slice()));
    drop(store);
    assert_eq!(names(elsewhere.path()), ["bluefin.db"], "dropped is closed");
}

/// How the file says that it is written, and what is beside it then.
fn journal(folder: &TempDir) -> (String, Vec<String>) {
    let mode =
        Connection::open(state(folder)).unwrap().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    (mode, names(folder.path()))
}

#[tokio::test]
async fn what_other_machines_may_have_needs_no_shared_memory() {
    let OnSqlite { store, folder } = OnSqlite::start_on(FileSystem::NFS).await;
    let blob = store.put_blob(b"from before").await.unwrap();
    // Beside its writer.
    let reader = SqliteStore::open_read_only(state(&folder)).await.unwrap();
    assert!(reader.blob(blob).await.unwrap().is_some());
    reader.close().await;
    assert_eq!(journal(&folder), ("delete".to_string(), vec!["bluefin.db".to_string(), "bluefin.db.lock".to_string()]));
    store.close().await;
    assert_eq!(names(folder.path()), ["bluefin.db"]);

    // A local file with the log of a killed writer, carried there.
    let local = SqliteStore::open_on(state(&folder), FileSystem::LOCAL).await.unwrap();
    let logged = local.put_blob(b"in the log").await.unwrap();
    let carried = tempfile::tempdir().unwrap();
    for name in ["bluefin.db", "bluefin.db-wal"] {
        std::fs::copy(folder.path().join(name), carried.path().join(name)).unwrap();
    }
    let store = SqliteStore::open_on(state(&carried), FileSystem::NFS).await.unwrap();
    assert!(store.blob(blob).await.unwrap().is_some() && store.blob(logged).await.unwrap().is_some());
    assert_eq!(
        journal(&carried),
        ("delete".to_string(), vec!["bluefin.db".to_string(), "bluefin.db.lock".to_string()])
    );
}

#[tokio::test]
async fn a_second_opener_is_told_who_has_it() {
    let OnSqlite { store, folder } = OnSqlite::start().await;
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(state(&folder), &link).unwrap();
    let who = format!("is in use by process {}", std::process::id());
    for path in [state(&folder), link] {
        let refusal = refusal(&path).await;
        assert!(refusal.contains(&who), "{refusal}");
    }
    store.put_blob(b"the first is not disturbed").await.unwrap();
    store.close().await;
    SqliteStore::open(state(&folder)).await.unwrap();
}

#[tokio::test]
async fn reading_goes_on_beside_a_writer() {
    let OnSqlite { store, folder } = OnSqlite::start().await;
    let s = name("s");
    let reader = SqliteStore::open_read_only(state(&folder)).await.unwrap();
    assert!(reader.groups(&s).await.unwrap().is_empty());
    store.put_outcome(&outcome(&job(&s, 1, 1))).await.unwrap();
    assert_eq!(reader.groups(&s).await.unwrap().len(), 1);
    let artifact = store.put_artifact(b"code").await.unwrap();
    assert!(reader.artifact(artifact).await.unwrap().is_some());
    let error = reader.put_outcome(&outcome(&job(&s, 1, 2))).await.unwrap_err();
    assert!(error.to_string().ends_with("open for reading only"), "{error}");
    assert!(reader.session(&s).await.unwrap().is_none(), "it still reads after that");
    reader.close().await;
    assert!(SqliteStore::open_read_only(folder.path().join("none.db")).await.is_err());
    assert!(!folder.path().join("none.db").exists());
}

#[tokio::test]
async fn a_reader_takes_back_what_a_killed_writer_left() {
    let OnSqlite { store, folder } = OnSqlite::start().await;
    let blob = store.put_blob(b"from before").await.unwrap();
    store.close().await;
    // As if it had been killed amid a transaction: the file and its journal as they are then.
    let writer = Connection::open(state(&folder)).unwrap();
    writer
        .execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE half(x); INSERT INTO half VALUES(zeroblob(200000))")
        .unwrap();
    let killed = tempfile::tempdir().unwrap();
    for name in ["bluefin.db", "bluefin.db-journal"] {
        std::fs::copy(folder.path().join(name), killed.path().join(name)).unwrap();
    }
    drop(writer);
    let reader = SqliteStore::open_read_only(state(&killed)).await.unwrap();
    assert_eq!(reader.blob(blob).await.unwrap().unwrap(), b"from before");
    reader.close().await;
    let tables = Connection::open(state(&killed)).unwrap();
    let half: i64 =
        tables.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'half'", [], |row| row.get(0)).unwrap();
    assert_eq!(half, 0);
}

#[tokio::test]
async fn a_file_that_is_no_state_is_refused_and_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, but long enough to look like one ".repeat(100)).unwrap();
    assert!(refusal(&text).await.contains("not a bluefin state file"));
    let found = refusal(text.parent().unwrap()).await;
    assert!(found.contains("found a folder"), "{found}");

    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1;").unwrap();
    let before = std::fs::read(&other).unwrap();
    assert!(refusal(&other).await.contains("another program's database"));
    assert!(std::fs::read(&other).unwrap() == before);

    let newer = folder.path().join("newer.db");
    SqliteStore::open(&newer).await.unwrap().close().await;
    Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(refusal(&newer).await.contains("found state of version 99, expected 1"));

    assert!(refusal(&folder.path().join("no/such/folder.db")).await.contains("folder.db"));
    assert_eq!(names(folder.path()), ["newer.db", "notes.txt", "other.db"]);
}

#[tokio::test]
async fn the_cache_is_pruned_from_its_oldest() {
    const SIZE: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(state(&folder)).await.unwrap().with_cache_limit(10 * SIZE as u64);
    let blob = store.put_blob(&noise(99, SIZE)).await.unwrap();
    let mut artifacts = Vec::new();
    for seed in 0..30 {
        artifacts.push(store.put_artifact(&noise(seed, SIZE)).await.unwrap());
    }
    let mut kept = Vec::new();
    for artifact in &artifacts {
        kept.push(store.artifact(*artifact).await.unwrap().is_some());
    }
    let count = kept.iter().filter(|kept| **kept).count();
    assert!((7..=10).contains(&count), "{count}");
    assert!(kept.is_sorted(), "the oldest are gone: {kept:?}");
    assert!(store.blob(blob).await.unwrap().is_some(), "blobs last");
    // Replacing what is there does not count twice.
    let last = artifacts[29];
    for _ in 0..30 {
        store.put_artifact(&noise(29, SIZE)).await.unwrap();
    }
    assert!(store.has_artifact(artifacts[28]).await.unwrap() && store.has_artifact(last).await.unwrap());
    drop(store);
    let size = std::fs::metadata(state(&folder)).unwrap().len();
    assert!(size < 20 * SIZE as u64, "{size}");
}

#[tokio::test]
async fn what_nobody_asks_for_any_more_is_waited_for_by_nobody() {
    let backend = OnSqlite::start().await;
    let (store, s) = (backend.store(), name("s"));
    let jobs = [job(&s, 1, 1), job(&s, 1, 2), job(&s, 2, 1), job(&s, 3, 1)];
    let others = [Planned::of(&job(&name("others"), 1, 1))];
    store.plan(&name("others"), &others).await.unwrap();
    store.plan(&s, &planned(&jobs)).await.unwrap();
    store.enqueued(&s, &[jobs[1].id()]).await.unwrap();
    store.put_outcome(&outcome(&jobs[0])).await.unwrap();
    store.forget_unfinished(&s).await.unwrap();

    let progress = store.progress(&s).await.unwrap();
    assert_eq!((&progress.planned, progress.unsettled_groups), (&progress.done, 0));
    assert!(progress.is_complete());
    assert_eq!(store.open_jobs(&s, jobs[1].group()).await.unwrap(), 0);
    // One that is asked for again is planned anew, and the one with an outcome stays done.
    let states = store.plan(&s, &planned(&jobs[..2])).await.unwrap();
    assert_eq!(states, [JobState::Done, JobState::Planned]);
    assert_eq!(store.open_jobs(&s, jobs[1].group()).await.unwrap(), 1);
    assert_eq!(store.progress(&s).await.unwrap().unsettled_groups, 1);
    // Nothing happened to another session.
    assert_eq!(store.progress(&name("others")).await.unwrap().unsettled_groups, 1);
}

#[tokio::test]
async fn memory_is_a_store_too() {
    let (store, s) = (SqliteStore::in_memory().unwrap(), name("s"));
    let job = job(&s, 1, 1);
    store.plan(&s, &[Planned::of(&job)]).await.unwrap();
    store.put_outcome(&outcome(&job)).await.unwrap();
    assert_eq!(store.outcomes(&s, &[job.group()]).await.unwrap(), [outcome(&job)]);
    store.close().await;
}

/// Where the writing child of [`what_was_stored_survives_sigkill`] writes.
const CHILD_STATE: &str = "BLUEFIN_TEST_CHILD_STATE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of what_was_stored_survives_sigkill"]
async fn writes_until_it_is_killed() {
    let path = std::env::var_os(CHILD_STATE).expect("started by its parent");
    let store = Arc::new(SqliteStore::open(PathBuf::from(path)).await.unwrap());
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let (s, offset) = (name("s"), i64::from(std::process::id()) * 1_000_000_000);
            for number in 0..i64::MAX {
                let job = job(&s, number % 5, offset + writer * 10_000_000 + number);
                store.plan(&s, &[Planned::of(&job)]).await.unwrap();
                store.put_outcome(&outcome(&job)).await.unwrap();
                println!("stored {}", job.id());
            }
        });
    }
    writers.join_all().await;
}

#[tokio::test]
async fn what_was_stored_survives_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let s = name("s");
    let mut stored = std::collections::BTreeSet::new();
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store_contract::sqlite::writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(CHILD_STATE, state(&folder))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = 0;
        // Ends some way into its work, wherever that is.
        while told < 100 + 130 * round {
            let line = lines.next().expect("the child writes until it is killed").unwrap();
            told += usize::from(note(&line, &mut stored));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            note(&line.unwrap(), &mut stored);
        }
        let store = SqliteStore::open(state(&folder)).await.unwrap();
        let groups = store.groups(&s).await.unwrap();
        let found: std::collections::BTreeSet<String> =
            store.outcomes(&s, &groups).await.unwrap().iter().map(|o| o.job_id().to_string()).collect();
        assert!(stored.is_subset(&found), "{} of {} are lost", stored.difference(&found).count(), stored.len());
        let progress = store.progress(&s).await.unwrap();
        assert_eq!(progress.done["perf"], found.len() as u64);
        let mut open = 0;
        for number in 0..5 {
            open += store.open_jobs(&s, group(&s, number)).await.unwrap();
        }
        assert_eq!(progress.planned["perf"], found.len() as u64 + open);
        tokio::time::timeout(Duration::from_secs(10), store.close()).await.unwrap();
    }
}

/// Takes down what a complete line says was stored.
fn note(line: &str, stored: &mut std::collections::BTreeSet<String>) -> bool {
    // The test runner's own words may be on the same line, before it.
    match line.rsplit_once("stored ") {
        Some((_, id)) if id.len() == 64 => stored.insert(id.to_string()),
        _ => false,
    }
}
