//! The store in Redis: a private server for each test.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::redis::RedisStore;
use bluefin_common::digest::Digest;
use bluefin_common::store::{
    Artifacts as _, Blobs as _, JobState, Planned, Sessions as _, Store, StoreError, Work as _,
};
use bluefin_test_support::{Redis, RedisOptions, eventually, free_port, patience};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig};
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{group, job, name, noise, outcome, session};

pub const TTL: Duration = Duration::from_secs(3600);

pub struct OnRedis {
    pub store: Arc<RedisStore>,
    pub server: Redis,
}

/// A connection that waits for an answer for as long as it takes: beside other work that may be more than the client's half second.
pub async fn raw(server: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let patient = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

async fn set(server: &Redis, key: String, bytes: &[u8]) {
    let () = raw(server).await.set(key, bytes).await.unwrap();
}

impl Backend for OnRedis {
    type Store = RedisStore;

    async fn start() -> Self {
        let server = Redis::start(RedisOptions::DURABLE);
        let store = Arc::new(RedisStore::connect(&server.url(), None, TTL).await.unwrap());
        Self { store, server }
    }

    fn store(&self) -> &Arc<RedisStore> {
        &self.store
    }

    async fn spoil_artifact(&self, digest: Digest, bytes: Option<&[u8]>) {
        let key = format!("bluefin:cas:{digest}");
        let mut redis = raw(&self.server).await;
        assert_eq!(redis.del::<_, u64>(&key).await.unwrap(), 1, "the key is the documented one");
        if let Some(bytes) = bytes {
            let () = redis.set(key, bytes).await.unwrap();
        }
    }

    async fn spoil_blob(&self, digest: Digest, bytes: &[u8]) {
        set(&self.server, format!("bluefin:blob:{digest}"), bytes).await;
    }

    async fn spoil_compiled(&self, key: Digest, bytes: &[u8]) {
        set(&self.server, format!("bluefin:ac:{key}"), bytes).await;
    }
}

async fn keys(server: &Redis, pattern: &str) -> BTreeSet<String> {
    raw(server).await.keys(pattern).await.unwrap()
}

#[tokio::test]
async fn a_plan_is_kept_in_many_small_hashes() {
    let OnRedis { store, server } = OnRedis::start().await;
    let s = name("now");
    store.create_session(&session("now", "x")).await.unwrap();
    let jobs: Vec<_> = (0..40).map(|number| job(&s, number / 4, number)).collect();
    store.plan(&s, &jobs.iter().map(Planned::of).collect::<Vec<_>>()).await.unwrap();
    store.put_outcome(&outcome(&jobs[0])).await.unwrap();
    // One that nobody planned.
    store.put_outcome(&outcome(&job(&s, 99, 99))).await.unwrap();
    assert_eq!((store.progress(&s).await.unwrap().groups, store.groups(&s).await.unwrap().len()), (11, 11));
    assert_eq!(store.planned_jobs(&s).await.unwrap().len(), 39);
    let now = keys(&server, "bluefin:session:now:*").await;
    assert!(now.iter().filter(|key| key.contains(":plan:")).count() > 40, "{now:?}");
    let kinds: BTreeSet<_> =
        now.iter().filter(|key| !key.contains(":group:")).map(|key| key.split(':').nth(3).unwrap()).collect();
    assert_eq!(kinds, ["best", "plan", "stats", "unsettled"].into());
    store.remove_session(&s).await.unwrap();
    assert!(keys(&server, "bluefin:session:now:*").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_survives_sigkill() {
    let OnRedis { store, mut server } = OnRedis::start().await;
    let s = name("s");
    store.create_session(&session("s", "label")).await.unwrap();
    store.pin(&s, "toolchain.cc", "gcc 12").await.unwrap();
    let blob = store.put_blob(b"kernel").await.unwrap();
    let mut stored = BTreeSet::new();
    for round in 0..4 {
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (store, s) = (Arc::clone(&store), s.clone());
            writers.spawn(async move {
                let mut done = Vec::new();
                for number in 0..60 {
                    let job = job(&s, number % 5, round * 10_000 + writer * 1_000 + number);
                    store.plan(&s, &[Planned::of(&job)]).await.unwrap();
                    store.put_outcome(&outcome(&job)).await.unwrap();
                    done.push(job.id());
                }
                done
            });
        }
        // In the middle of it; the calls go on when the server is back.
        tokio::time::sleep(Duration::from_millis(15 * (round as u64 + 1))).await;
        server.kill();
        server.restart();
        stored.extend(writers.join_all().await.into_iter().flatten());
        server.kill();
        server.restart();
        let groups = store.groups(&s).await.unwrap();
        let found: BTreeSet<_> = store.outcomes(&s, &groups).await.unwrap().iter().map(|o| o.job_id()).collect();
        assert_eq!(found, stored);
        let progress = store.progress(&s).await.unwrap();
        assert_eq!((progress.planned["perf"], progress.done["perf"]), (stored.len() as u64, stored.len() as u64));
        for number in 0..5 {
            assert_eq!(store.open_jobs(&s, group(&s, number)).await.unwrap(), 0);
        }
    }
    assert_eq!(store.session(&s).await.unwrap(), Some(session("s", "label")));
    assert_eq!(store.pins(&s).await.unwrap()["toolchain.cc"], "gcc 12");
    assert_eq!(store.blob(blob).await.unwrap().as_deref(), Some(b"kernel".as_slice()));
    assert!(store.reconnects() >= 4, "{}", store.reconnects());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_an_error_in_bounded_time_and_then_over() {
    let OnRedis { store, mut server } = OnRedis::start().await;
    let s = name("s");
    let first = job(&s, 1, 1);
    store.put_outcome(&outcome(&first)).await.unwrap();

    server.kill();
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..50 {
        let (store, job) = (Arc::clone(&store), job(&s, 1, number));
        calls.spawn(async move { store.put_outcome(&outcome(&job)).await });
    }
    for result in calls.join_all().await {
        let error = result.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().contains("tried for 10s"), "{error}");
    }
    assert!(start.elapsed() < patience(Duration::from_secs(13)), "{:?}", start.elapsed());

    server.restart();
    assert_eq!(store.plan(&s, &[Planned::of(&first)]).await.unwrap(), [JobState::Done]);
    assert_eq!(store.progress(&s).await.unwrap().done["perf"], 1);
    assert!(store.reconnects() >= 1);

    // A server that hangs: the same.
    server.stop();
    let start = Instant::now();
    assert!(store.progress(&s).await.unwrap_err().is_transient());
    assert!(start.elapsed() < patience(Duration::from_secs(13)), "{:?}", start.elapsed());
    server.cont();
    assert_eq!(store.progress(&s).await.unwrap().done["perf"], 1);
}

#[tokio::test]
async fn scripts_forgotten_by_the_server_are_loaded_again() {
    let OnRedis { store, server } = OnRedis::start().await;
    let s = name("s");
    for number in 0..3 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw(&server).await).await.unwrap();
        let job = job(&s, 1, number);
        assert_eq!(store.plan(&s, &[Planned::of(&job)]).await.unwrap(), [JobState::Planned]);
    }
    assert_eq!(store.open_jobs(&s, group(&s, 1)).await.unwrap(), 3);
}

#[tokio::test]
async fn a_plan_that_ended_for_want_of_a_right_is_made_up_for() {
    let OnRedis { store, server } = OnRedis::start().await;
    let (s, mut redis) = (name("s"), raw(&server).await);
    let jobs = [Planned::of(&job(&s, 1, 1)), Planned::of(&job(&s, 1, 2))];
    // What the script writes first.
    for job in jobs {
        let () = redis.hset(format!("bluefin:session:{s}:jobs"), &job.id.0, "p").await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(store.plan(&s, &jobs).await.unwrap(), [JobState::Planned; 2]);
        assert_eq!(store.open_jobs(&s, group(&s, 1)).await.unwrap(), 2);
    }
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.unsettled_groups), (2, 1));
    // Twice in one call is once.
    let twice = Planned::of(&job(&s, 2, 3));
    store.plan(&s, &[twice, twice]).await.unwrap();
    assert_eq!(store.open_jobs(&s, group(&s, 2)).await.unwrap(), 1);
}

#[tokio::test]
async fn the_cache_may_be_elsewhere_and_has_a_ttl() {
    let (main, cache) = (Redis::start(RedisOptions::DURABLE), Redis::start(RedisOptions::cache(50 << 20)));
    let store = RedisStore::connect(&main.url(), Some(&cache.url()), Duration::from_secs(4)).await.unwrap();
    let bytes = noise(1, 20 << 20);
    let artifact = store.put_artifact(&bytes).await.unwrap();
    assert_eq!(raw(&main).await.keys::<_, Vec<String>>("*").await.unwrap(), Vec::<String>::new());
    // The buffer that the artifact came in counts until the server has freed it.
    eventually(Duration::from_secs(20), "the cache to be about 40 % full", async || {
        let fullness = store.fullness().await.unwrap();
        assert!(fullness.evicts);
        (0.4..0.6).contains(&fullness.ratio)
    })
    .await;
    assert!(store.has_artifact(artifact).await.unwrap());
    eventually(Duration::from_secs(20), "the artifact to go", async || {
        tokio::time::sleep(Duration::from_millis(4_100)).await;
        !store.has_artifact(artifact).await.unwrap()
    })
    .await;
    assert_eq!(store.artifact(artifact).await.unwrap(), None);
    // Full, it evicts instead of refusing.
    for seed in 0..5 {
        store.put_artifact(&noise(seed, 15 << 20)).await.unwrap();
    }
    assert!(RedisStore::connect(&main.url(), None, Duration::ZERO).await.is_err());
}

#[tokio::test]
async fn a_full_server_refuses_for_now_and_changes_nothing() {
    let OnRedis { store, server } = OnRedis::start().await;
    let (s, mut redis) = (name("s"), raw(&server).await);
    let job = job(&s, 1, 1);
    store.plan(&s, &[Planned::of(&job)]).await.unwrap();
    let limit = async |redis: &mut MultiplexedConnection, bytes: u64| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query_async(redis).await.unwrap();
    };
    limit(&mut redis, 1).await;
    let start = Instant::now();
    for error in [
        store.put_outcome(&outcome(&job)).await.map(drop).unwrap_err(),
        store.put_blob(b"kernel").await.map(drop).unwrap_err(),
        store.create_session(&session("s", "x")).await.map(drop).unwrap_err(),
        store.plan(&s, &[Planned::of(&crate::store_contract::fixture::job(&s, 1, 2))]).await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Unavailable { reason, .. } if reason.contains("maxmemory")), "{error}");
    }
    assert!(start.elapsed() < patience(Duration::from_secs(5)), "it does not get better by waiting");
    limit(&mut redis, 0).await;
    let progress = store.progress(&s).await.unwrap();
    assert_eq!((progress.planned["perf"], progress.done.len()), (1, 0));
    assert_eq!(store.put_outcome(&outcome(&job)).await.unwrap().open, 0);
}

#[tokio::test]
async fn a_server_that_would_evict_outcomes_is_refused() {
    let server = Redis::start(RedisOptions::DURABLE);
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg("maxmemory-policy").arg("allkeys-lru");
    let () = config.query_async(&mut raw(&server).await).await.unwrap();
    let error = RedisStore::connect(&server.url(), None, TTL).await.err().unwrap();
    assert!(matches!(&error, StoreError::Misconfigured { reason } if reason.contains("allkeys-lru")), "{error}");
}

#[tokio::test]
async fn errors_do_not_tell_the_password() {
    let server = Redis::start(RedisOptions::DURABLE);
    let address = server.addr();
    let nobody = free_port();
    for url in [
        format!("redis://user:sesame@{address}/"),
        format!("redis://user:sesame@{address}/not-a-number"),
        format!("redis://user:sesame@127.0.0.1:{nobody}/"),
        format!("rediss://user:sesame@127.0.0.1:{nobody}/"),
        "redis://user:sesame@".to_string(),
        "http://user:sesame@host/".to_string(),
        "user:sesame".to_string(),
    ] {
        let error = RedisStore::connect(&url, None, TTL).await.err().unwrap();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        // Nobody there, and nobody of that name, may pass; a wrong URL does not.
        let is_wrong = !url.ends_with('/') || url.starts_with("http");
        assert_eq!(error.is_transient(), !is_wrong, "{error}");
    }
}
