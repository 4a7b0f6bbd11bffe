//! Sentinels that name the primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bluefin_adapters::redis::RedisStore;
use bluefin_common::store::{StoreError, Work as _};
use bluefin_test_support::launch::Server;
use bluefin_test_support::{Redis, RedisOptions, eventually, free_port};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::store_contract::fixture::{group, job, name, outcome};
use crate::store_contract::redis::{TTL, raw};
use crate::store_contract::replicas::replicate;

struct Sentinel {
    _server: Server,
    _folder: TempDir,
    port: u16,
}

impl Sentinel {
    /// One that watches `primary` as `main`. Everybody has the password `sesame`.
    fn start(primary: &Redis) -> Self {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let lines = [
            format!("bind 127.0.0.1\nport {port}\ndir {}\nrequirepass sesame", folder.path().display()),
            format!("sentinel monitor main 127.0.0.1 {} 1\nsentinel auth-pass main sesame", primary.addr().port()),
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n".to_string(),
        ];
        let path = folder.path().join("sentinel.conf");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let server = Server::spawn("redis-server", &folder.path().join("log"), |command| {
            command.arg(&path).arg("--sentinel");
        });
        Self { _server: server, _folder: folder, port }
    }

    async fn ask(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        let client = redis::Client::open(format!("redis://:sesame@127.0.0.1:{}/", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        redis::cmd("SENTINEL").arg(words).query_async(&mut connection).await
    }
}

async fn ask_for_a_password(server: &Redis) {
    let mut command = redis::cmd("CONFIG");
    command.arg("SET").arg("masterauth").arg("sesame").arg("requirepass").arg("sesame");
    let () = command.query_async(&mut raw(server).await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_on_through_a_failover() {
    let primary = Redis::start(RedisOptions::DURABLE);
    let replica = Redis::start(RedisOptions::DURABLE);
    replicate(&replica, &primary).await;
    for server in [&replica, &primary] {
        ask_for_a_password(server).await;
    }
    let sentinel = Sentinel::start(&primary);
    // The first of the two is away.
    let url =
        format!("redis+sentinel://:sesame@127.0.0.1:{},127.0.0.1:{}/main/0?replicas=1", free_port(), sentinel.port);
    let mut connected = None;
    eventually(Duration::from_secs(20), "the sentinel to answer", async || {
        connected = RedisStore::connect(&url, None, TTL).await.ok();
        connected.is_some()
    })
    .await;
    let store = Arc::new(connected.unwrap());

    let (s, stored, next) = (name("s"), Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let stop = tokio_util::sync::CancellationToken::new();
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (store, s, stored, next, stop) =
            (Arc::clone(&store), s.clone(), Arc::clone(&stored), Arc::clone(&next), stop.clone());
        writers.spawn(async move {
            while !stop.is_cancelled() {
                let outcome = outcome(&job(&s, 1, next.fetch_add(1, Ordering::Relaxed)));
                while let Err(error) = store.put_outcome(&outcome).await {
                    assert!(error.is_transient(), "{error}");
                }
                stored.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }
    eventually(Duration::from_secs(20), "outcomes", async || stored.load(Ordering::Relaxed) > 20).await;
    eventually(Duration::from_secs(30), "the sentinel to know the replica", async || {
        sentinel.ask(&["FAILOVER", "main"]).await.is_ok()
    })
    .await;
    let client = redis::Client::open(format!("redis://:sesame@{}/", replica.addr())).unwrap();
    let mut promoted = client.get_multiplexed_async_connection().await.unwrap();
    eventually(Duration::from_secs(30), "the replica to be the primary", async || {
        let info: redis::RedisResult<String> = redis::cmd("INFO").arg("replication").query_async(&mut promoted).await;
        match info {
            Ok(info) => info.contains("role:master"),
            Err(_) => {
                promoted = client.get_multiplexed_async_connection().await.unwrap();
                false
            }
        }
    })
    .await;
    let before = stored.load(Ordering::Relaxed);
    eventually(Duration::from_secs(60), "more outcomes", async || stored.load(Ordering::Relaxed) > before + 20).await;
    stop.cancel();
    writers.join_all().await;
    let all = stored.load(Ordering::Relaxed);
    let there = RedisStore::connect(&format!("redis://:sesame@{}/", replica.addr()), None, TTL).await.unwrap();
    assert_eq!(there.outcomes(&s, &[group(&s, 1)]).await.unwrap().len(), usize::try_from(all).unwrap());
    assert_eq!(there.progress(&s).await.unwrap().done["perf"], u64::try_from(all).unwrap());
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_and_a_password_it_does_not_take_are_refused() {
    let primary = Redis::start(RedisOptions::DURABLE);
    ask_for_a_password(&primary).await;
    let sentinel = Sentinel::start(&primary);
    eventually(Duration::from_secs(20), "the sentinel to answer", async || sentinel.ask(&["MASTERS"]).await.is_ok())
        .await;
    for (login, primary) in [(":sesame", "other"), (":wrong", "main"), ("", "main")] {
        let url = format!("redis+sentinel://{login}@127.0.0.1:{}/{primary}", sentinel.port);
        let error = RedisStore::connect(&url, None, TTL).await.err().unwrap();
        assert!(matches!(error, StoreError::Refused { .. }), "{login} {primary}: {error}");
        assert!(!error.to_string().contains("sesame"), "{error}");
    }
    let url = format!("redis+sentinel://:sesame@127.0.0.1:{}/main", sentinel.port);
    RedisStore::connect(&url, None, TTL).await.unwrap();
}
