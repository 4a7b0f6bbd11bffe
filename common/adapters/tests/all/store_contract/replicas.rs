//! A Redis with a replica that may take over: what was acknowledged is there afterwards.

use std::time::Duration;

use bluefin_adapters::redis::{ConnectOptions, RedisStore};
use bluefin_common::outcome::Outcome;
use bluefin_common::store::{
    Artifacts as _, Blobs as _, Planned, Records as _, Sessions as _, StoreError, Stored, Work as _,
};
use bluefin_test_support::{Redis, RedisOptions, eventually};

use crate::store_contract::fixture::{job, name, outcome, session};
use crate::store_contract::redis::{TTL, raw};

/// Makes `replica` one of `primary`, and waits until it is.
pub async fn replicate(replica: &Redis, primary: &Redis) {
    let mut at_once = redis::cmd("CONFIG");
    at_once.arg("SET").arg("repl-diskless-sync-delay").arg(0);
    let () = at_once.query_async(&mut raw(primary).await).await.unwrap();
    let mut connection = raw(replica).await;
    let mut command = redis::cmd("REPLICAOF");
    command.arg("127.0.0.1").arg(primary.addr().port());
    let () = command.query_async(&mut connection).await.unwrap();
    eventually(Duration::from_secs(20), "the replica to be in step", async || {
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await.unwrap();
        info.contains("master_link_status:up")
    })
    .await;
    let mut connection = raw(primary).await;
    eventually(Duration::from_secs(20), "the primary to know", async || {
        let count: u64 = redis::cmd("WAIT").arg(1).arg(100).query_async(&mut connection).await.unwrap();
        count == 1
    })
    .await;
}

/// A store that waits for a replica.
async fn connect(primary: &Redis, patience: Duration) -> RedisStore {
    let options = ConnectOptions { patience, ..ConnectOptions::new(TTL) };
    RedisStore::connect_with(&format!("{}?replicas=1", primary.url()), None, options).await.unwrap()
}

/// As long as workers wait.
const LONG: Duration = Duration::from_secs(10);

/// No longer than a test has time for.
const SHORT: Duration = Duration::from_secs(2);

fn too_few<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    match result {
        Err(StoreError::Unavailable { reason, .. }) => assert!(reason.contains("0 of 1 replicas"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// As workers do.
async fn repeat(store: &RedisStore, outcome: &Outcome) -> Stored {
    loop {
        match store.put_outcome(outcome).await {
            Ok(stored) => return stored,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_lasts_is_acknowledged_before_a_replica_has_it() {
    let (mut primary, replica) = (Redis::start(RedisOptions::DURABLE), Redis::start(RedisOptions::DURABLE));
    replicate(&replica, &primary).await;
    let store = connect(&primary, LONG).await;
    let s = name("s");
    let jobs: Vec<_> = (0..3).map(|number| job(&s, 1, number)).collect();
    let plan: Vec<_> = jobs.iter().map(Planned::of).collect();
    store.plan(&s, &plan).await.unwrap();
    store.put_outcome(&outcome(&jobs[0])).await.unwrap();
    assert!(store.has_outcome(&s, plan[0].group, plan[0].id).await.unwrap());

    replica.stop();
    let store = connect(&primary, SHORT).await;
    too_few(store.put_outcome(&outcome(&jobs[1])).await);
    // The first one wrote it, so that this one and another process write nothing; it is as little safe as before.
    too_few(store.put_outcome(&outcome(&jobs[1])).await);
    let other = connect(&primary, SHORT).await;
    too_few(other.put_outcome(&outcome(&jobs[1])).await);
    too_few(other.has_outcome(&s, plan[1].group, plan[1].id).await);
    too_few(store.put_last_outcome(&outcome(&jobs[2])).await);
    too_few(store.plan(&s, &plan).await);
    too_few(store.enqueued(&s, &[plan[0].id]).await);
    too_few(store.settle_group(&s, plan[0].group).await);
    too_few(store.create_session(&session("s", "x")).await);
    too_few(store.pin(&s, "a", "1").await);
    too_few(store.put_blob(b"kernel").await);
    too_few(store.put_records("shelf", &[("key".into(), b"value".to_vec())]).await);
    too_few(store.claim_record("shelf", "key", b"other").await);
    too_few(store.remove_records("shelf", &["none".into()]).await);
    // Reading and the cache go on.
    assert_eq!(store.progress(&s).await.unwrap().done["perf"], 3);
    store.put_artifact(b"code").await.unwrap();

    replica.cont();
    assert_eq!(repeat(&store, &outcome(&jobs[1])).await, Stored { first: false, open: 0, settled: false });
    for number in 3..50 {
        repeat(&store, &outcome(&job(&s, 1, number))).await;
    }
    primary.kill();
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query_async(&mut raw(&replica).await).await.unwrap();
    let next = RedisStore::connect(&replica.url(), None, TTL).await.unwrap();
    assert_eq!(next.outcomes(&s, &[plan[0].group]).await.unwrap().len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_replicas_loads_the_script_it_needs() {
    let (primary, replica) = (Redis::start(RedisOptions::DURABLE), Redis::start(RedisOptions::DURABLE));
    replicate(&replica, &primary).await;
    let (store, s) = (connect(&primary, LONG).await, name("s"));
    for number in 0..2 {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut raw(&primary).await).await.unwrap();
        repeat(&store, &outcome(&job(&s, 1, number))).await;
        assert_eq!(store.progress(&s).await.unwrap().done["perf"], u64::try_from(number).unwrap() + 1);
    }
}

/// A server of today takes for what a connection wrote only what had an effect; without any, it would wait for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_changes_nothing_still_waits_for_what_others_changed() {
    let (primary, replica) = (Redis::start(RedisOptions::DURABLE), Redis::start(RedisOptions::DURABLE));
    replicate(&replica, &primary).await;
    let (store, s) = (connect(&primary, LONG).await, name("s"));
    let outcome = outcome(&job(&s, 1, 1));
    repeat(&store, &outcome).await;
    let mut connection = raw(&primary).await;
    let mut offset = async || -> u64 {
        let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await.unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")).unwrap();
        line.trim().parse().unwrap()
    };
    let before = offset().await;
    for _ in 0..10 {
        assert!(!repeat(&store, &outcome).await.first);
        assert!(store.has_outcome(&s, outcome.group(), outcome.job_id()).await.unwrap());
    }
    // More than the PING that a primary sends to its replicas now and then.
    let grown = offset().await - before;
    assert!(grown >= 20 * 30, "{grown}");
}
