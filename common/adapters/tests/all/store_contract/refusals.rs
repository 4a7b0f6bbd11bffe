//! A Redis that answers and refuses: somebody mends that, and calls go on where they were.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::redis::{ConnectOptions, RedisStore};
use bluefin_common::outcome::Outcome;
use bluefin_common::store::{Artifacts as _, Planned, Sessions as _, Store, StoreError, Stored, Work as _};
use bluefin_test_support::launch::Server;
use bluefin_test_support::{Redis, RedisOptions, eventually, free_port, patience};
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{job, name, outcome, session};
use crate::store_contract::redis::{OnRedis, TTL, raw};

/// A refusal needs no second try.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn admin(connection: &mut MultiplexedConnection, words: &str) {
    let mut words = words.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| _ = command.arg(word));
    let _: redis::Value = command.query_async(connection).await.unwrap();
}

/// The reason of a refusal that came at once.
async fn refused<T: std::fmt::Debug>(call: impl Future<Output = Result<T, StoreError>>) -> String {
    let start = Instant::now();
    let error = call.await.unwrap_err();
    assert!(start.elapsed() < patience(AT_ONCE), "{error}: {:?}", start.elapsed());
    assert!(error.is_transient(), "{error}");
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    match error {
        StoreError::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Repeats a call as a worker does, and tells when it is refused.
fn patient(store: &Arc<RedisStore>, outcome: Outcome) -> (JoinSet<Stored>, Arc<Notify>) {
    let refused = Arc::new(Notify::new());
    let (store, notify) = (Arc::clone(store), Arc::clone(&refused));
    let mut call = JoinSet::new();
    call.spawn(async move {
        loop {
            match store.put_outcome(&outcome).await {
                Ok(stored) => return stored,
                Err(StoreError::Refused { .. }) => notify.notify_one(),
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    (call, refused)
}

/// A user `worker` who may do everything, and a store of his.
async fn as_worker() -> (Redis, MultiplexedConnection, Arc<RedisStore>) {
    let server = Redis::start(RedisOptions::DURABLE);
    let mut root = raw(&server).await;
    admin(&mut root, "ACL SETUSER worker on >sesame ~* &* +@all").await;
    let store = RedisStore::connect(&format!("redis://worker:sesame@{}/", server.addr()), None, TTL).await.unwrap();
    (server, root, Arc::new(store))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_was_changed_and_changed_back_costs_nothing() {
    let OnRedis { server, .. } = OnRedis::start().await;
    let mut root = raw(&server).await;
    admin(&mut root, "CONFIG SET requirepass sesame").await;
    let url = format!("redis://:sesame@{}/", server.addr());
    let store = Arc::new(RedisStore::connect(&url, None, TTL).await.unwrap());
    let s = name("s");
    store.put_outcome(&outcome(&job(&s, 1, 1))).await.unwrap();

    admin(&mut root, "CONFIG SET requirepass other").await;
    admin(&mut root, "CLIENT KILL TYPE normal SKIPME yes").await;
    let reason = refused(store.put_outcome(&outcome(&job(&s, 1, 1)))).await;
    assert!(reason.contains("password"), "{reason}");
    refused(store.progress(&s)).await;
    refused(async { RedisStore::connect(&url, None, TTL).await.map(drop) }).await;
    let without = refused(async { RedisStore::connect(&server.url(), None, TTL).await.map(drop) }).await;
    assert!(without.contains("NOAUTH"), "{without}");

    let (mut call, was_refused) = patient(&store, outcome(&job(&s, 1, 2)));
    was_refused.notified().await;
    admin(&mut root, "CONFIG SET requirepass sesame").await;
    assert!(call.join_next().await.unwrap().unwrap().first);
    assert_eq!(store.progress(&s).await.unwrap().done["perf"], 2);
}

#[tokio::test]
async fn a_server_without_a_password_that_asks_for_one_is_entered_when_it_does_not() {
    let OnRedis { store, server } = OnRedis::start().await;
    let mut root = raw(&server).await;
    admin(&mut root, "CONFIG SET requirepass sesame").await;
    admin(&mut root, "CLIENT KILL TYPE normal SKIPME yes").await;
    let reason = refused(store.progress(&name("s"))).await;
    assert!(reason.contains("NOAUTH"), "{reason}");
    admin(&mut root, "ACL SETUSER default nopass").await;
    store.progress(&name("s")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_is_off_waits_until_he_is_on() {
    let (_server, mut root, store) = as_worker().await;
    let s = name("s");
    store.create_session(&session("s", "x")).await.unwrap();
    admin(&mut root, "ACL SETUSER worker off").await;
    admin(&mut root, "CLIENT KILL USER worker").await;
    let (mut call, was_refused) = patient(&store, outcome(&job(&s, 1, 1)));
    was_refused.notified().await;
    admin(&mut root, "ACL SETUSER worker on").await;
    assert!(call.join_next().await.unwrap().unwrap().first);
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let (_server, mut root, store) = as_worker().await;
    let (s, job) = (name("s"), job(&name("s"), 1, 1));
    store.plan(&s, &[Planned::of(&job)]).await.unwrap();
    for (denied, allowed, named) in [
        ("-evalsha", "+evalsha", "evalsha"),
        ("-hsetnx", "+hsetnx", "script"),
        ("resetkeys ~bluefin:blob:*", "~*", "key"),
    ] {
        admin(&mut root, &format!("ACL SETUSER worker {denied}")).await;
        let reason = refused(store.put_outcome(&outcome(&job))).await;
        assert!(reason.contains(named), "{denied}: {reason}");
        admin(&mut root, &format!("ACL SETUSER worker {allowed}")).await;
        assert_eq!(store.progress(&s).await.unwrap().done.len(), 0, "{denied}");
    }
    // One that is missing in the middle of a script.
    admin(&mut root, "ACL SETUSER worker -hdel").await;
    refused(store.put_outcome(&outcome(&job))).await;
    admin(&mut root, "ACL SETUSER worker +hdel").await;
    assert_eq!(store.put_outcome(&outcome(&job)).await.unwrap().open, 0);
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.done["perf"]), (1, 1));

    let () = redis::cmd("SET").arg("bluefin:session:s:pins").arg("x").query_async(&mut root).await.unwrap();
    let reason = refused(store.pins(&s)).await;
    assert!(reason.contains("WRONGTYPE"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_reads_only_is_tried_until_it_writes() {
    let OnRedis { store, server } = OnRedis::start().await;
    let (s, mut root) = (name("s"), raw(&server).await);
    store.pin(&s, "a", "1").await.unwrap();
    admin(&mut root, &format!("REPLICAOF 127.0.0.1 {}", free_port())).await;
    let before = store.reconnects();
    let mut calls = JoinSet::new();
    {
        let (store, s) = (Arc::clone(&store), s.clone());
        calls.spawn(async move {
            let outcome = outcome(&job(&s, 1, 1));
            tokio::join!(store.put_outcome(&outcome), store.pin(&s, "b", "2"))
        });
    }
    eventually(Duration::from_secs(5), "another connection", async || store.reconnects() > before + 2).await;
    assert!(calls.try_join_next().is_none());
    admin(&mut root, "REPLICAOF NO ONE").await;
    let (outcome, pin) = calls.join_next().await.unwrap().unwrap();
    assert!(outcome.unwrap().first);
    assert_eq!(pin.unwrap(), "2");
}

#[tokio::test]
async fn a_cluster_is_refused() {
    let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
    let _server = Server::spawn("redis-server", &folder.path().join("log"), |command| {
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--cluster-enabled", "yes"]);
        // Else it is 10,000 above the other, where connections have their ends.
        command.args(["--cluster-port", &free_port().to_string()]).arg("--dir").arg(folder.path());
    });
    let error = RedisStore::connect(&format!("redis://127.0.0.1:{port}/"), None, TTL).await.err().unwrap();
    assert!(
        matches!(&error, StoreError::Misconfigured { reason } if reason.contains("cluster mode is not supported")),
        "{error}"
    );
}

#[tokio::test]
async fn a_database_that_is_not_there_is_the_urls_fault() {
    let server = Redis::start(RedisOptions::DURABLE);
    let error = RedisStore::connect(&format!("{}999", server.url()), None, TTL).await.err().unwrap();
    assert!(matches!(&error, StoreError::Misconfigured { reason } if reason.contains("range")), "{error}");
}

#[tokio::test]
async fn whoever_only_looks_need_not_wait_long() {
    let server = Redis::start(RedisOptions::DURABLE);
    let options = ConnectOptions { patience: Duration::from_millis(200), ..ConnectOptions::new(TTL) };
    let store = RedisStore::connect_with(&server.url(), None, options).await.unwrap();
    server.stop();
    let start = Instant::now();
    assert!(store.sessions().await.unwrap_err().is_transient());
    assert!(store.progress(&name("s")).await.unwrap_err().is_transient());
    assert!(store.fullness().await.unwrap_err().is_transient());
    assert!(RedisStore::connect_with(&server.url(), None, options).await.err().unwrap().is_transient());
    assert!(start.elapsed() < patience(Duration::from_secs(4)), "{:?}", start.elapsed());
    server.cont();
    eventually(Duration::from_secs(5), "an answer", async || store.sessions().await.is_ok()).await;
}
