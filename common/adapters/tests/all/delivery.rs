//! The parts of the life of a delivery: what an outage costs, who killed whom, and how much a worker holds.

mod life;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::pooled::PooledBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, Delivery};
use bluefin_common::delivery::pin::{Pinned, PlainPin};
use bluefin_common::delivery::{
    AtWork, Begun, GivenUp, Halt, Intake, Leave, Leaving, MAX_BEGUN, Patience, Turn, begin_again, spare,
};
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::session::Stage;
use bluefin_common::shelf;
use bluefin_common::store::{Records as _, Sessions as _, StoreError};
use bluefin_common::target::Target;
use bluefin_common::waiting::{On, Waiting};
use bluefin_test_support::Vhost;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "bluefin.eval.host";

fn patience(limit: Duration) -> Patience {
    Patience { limit, expired: CancellationToken::new(), waiting: Waiting::default() }
}

fn away(refuses: bool) -> StoreError {
    let (store, reason) = ("redis".to_string(), "NOAUTH".to_string());
    if refuses { StoreError::Refused { store, reason } } else { StoreError::Unavailable { store, reason } }
}

/// Two versions of a compiler at work, and a session that is unpinned amid it.
#[tokio::test(start_paused = true)]
async fn one_kind_of_worker_pins_again_what_was_unpinned() {
    let store = SqliteStore::in_memory().unwrap();
    let session = "s".parse().unwrap();
    let pin = |value: &str| PlainPin { key: "toolchain.cc".to_string(), value: value.to_string() };
    let (one, other) = (pin("12.8.1"), pin("12.8.2"));
    let (ones, others) = (Pinned::default(), Pinned::default());
    assert!(ones.allows(&store, &session, &one).await.unwrap());
    assert!(!others.allows(&store, &session, &other).await.unwrap());
    store.unpin(&session, &["toolchain.cc".to_string()]).await.unwrap();
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(others.allows(&store, &session, &other).await.unwrap());
    assert!(!ones.allows(&store, &session, &one).await.unwrap(), "both would be at work");
    assert_eq!(store.pins(&session).await.unwrap()["toolchain.cc"], "12.8.2");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_an_hour_is_waited_for_and_said() {
    for refuses in [false, true] {
        let patience = patience(Duration::from_secs(2 * 3600));
        let started = Instant::now();
        let waiting = patience.waiting.clone();
        let calls = AtomicUsize::new(0);
        let call = || async {
            calls.fetch_add(1, Ordering::Relaxed);
            if started.elapsed() > Duration::from_secs(3) {
                assert!(waiting.reason().unwrap().starts_with("waiting for the store: put outcome: "), "{waiting:?}");
            }
            if started.elapsed() < Duration::from_secs(3600) { Err(away(refuses)) } else { Ok(7) }
        };
        assert_eq!(patience.with("put outcome", call).await.unwrap(), 7);
        assert!(waiting.is_over());
        let calls = calls.into_inner();
        assert!((720..1000).contains(&calls), "{calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn what_lasts_longer_than_patience_is_handed_back_at_no_cost() {
    let patience = patience(Duration::from_secs(60));
    let given_up = patience.with("put outcome", || async { Err::<(), _>(away(true)) }).await.unwrap_err();
    assert!(matches!(&given_up, GivenUp::TooLong(reason) if reason.contains("NOAUTH")), "{given_up:?}");
    assert!(matches!(Halt::from(given_up), Halt::Later(_)));
    // Damage in the store does not pass, and is no reason to lose a job either.
    let damaged = StoreError::Tampered { what: "blob", digest: Digest::of(b"") };
    let damaged = std::sync::Mutex::new(Some(damaged));
    let call = || async { Err::<(), _>(damaged.lock().unwrap().take().unwrap()) };
    let given_up = patience.with("read", call).await.unwrap_err();
    assert!(matches!(given_up, GivenUp::Failed(_)), "{given_up:?}");
    assert!(matches!(Halt::from(given_up), Halt::Later(_)));
}

fn job() -> Job {
    Job {
        session: "s".parse().unwrap(),
        stage: Stage::Perf,
        target: Target::Host,
        problem: Problem::Kernel(KernelProblem::new("k".to_string(), Default::default()).unwrap()),
        method: Method::KERNELS,
        spec: Digest::of(b""),
        toolchain: "cc".to_string(),
        candidates: Vec::new(),
        round: 0,
        lane: Lane::First,
    }
}

async fn fill(broker: &dyn Broker, count: usize) {
    broker.declare(QUEUE).await.unwrap();
    for id in 0..count {
        broker.publish(QUEUE, &id.to_string(), Default::default()).await.unwrap();
    }
}

/// Of a worker that may hold eight.
async fn opened(broker: &Arc<dyn Broker>) -> Intake {
    let mut intake = Intake::new(broker, QUEUE, 8, patience(Duration::from_secs(60)));
    assert!(intake.resume().await.unwrap());
    intake
}

async fn next(intake: &mut Intake) -> Delivery {
    timeout(Duration::from_secs(5), intake.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn only_a_worker_that_worked_on_a_job_was_killed_by_it() {
    let (broker, store): (Arc<dyn Broker>, _) = (Arc::new(EmbeddedBroker::new()), SqliteStore::in_memory().unwrap());
    fill(&*broker, 1).await;
    let job = job();
    let mut intake = opened(&broker).await;
    // Dropped before anybody began: as often as you like.
    for _ in 0..MAX_BEGUN - 1 {
        drop(next(&mut intake).await);
    }
    let mut begun = 0;
    let too_often = loop {
        let delivery = next(&mut intake).await;
        match begin_again(&store, &delivery, &job).await.unwrap() {
            // Its worker is gone now.
            Begun::Now => begun += 1,
            Begun::TooOften(times) => break times,
            // A fresh copy takes the place of a worn message, which the broker would drop before long.
            Begun::Worn => delivery.hand_back(Duration::ZERO).await.unwrap(),
        }
    };
    assert_eq!(too_often, MAX_BEGUN);
    // The first times that a copy comes it is not counted.
    assert!((MAX_BEGUN..MAX_BEGUN + 10).contains(&begun), "{begun}");
    // Whoever lives to say so clears it.
    let delivery = next(&mut intake).await;
    assert!(delivery.redeliveries >= MAX_BEGUN);
    spare(&store, &delivery, &job).await.unwrap();
    assert_eq!(begin_again(&store, &delivery, &job).await.unwrap(), Begun::Now);
    delivery.ack().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_is_blamed_for_what_it_does_alone() {
    let (broker, store): (Arc<dyn Broker>, _) = (Arc::new(EmbeddedBroker::new()), SqliteStore::in_memory().unwrap());
    fill(&*broker, 2).await;
    let (job, soon) = (job(), Duration::from_secs(1));
    let mut intake = opened(&broker).await;
    // Killed a second after its start, fifty times.
    for _ in 0..50 {
        let (delivery, at_work) = (next(&mut intake).await, AtWork::default());
        if timeout(soon, at_work.turn(&delivery)).await.is_ok()
            && begin_again(&store, &delivery, &job).await.unwrap() == Begun::Worn
        {
            delivery.hand_back(Duration::ZERO).await.unwrap();
        }
    }
    let begun = shelf::begun(&job.session);
    assert!(store.records(&begun).await.unwrap().is_empty(), "no worker lived to begin it");

    // One that came so often waits until nobody is in its company, and has none then.
    let at_work = AtWork::default();
    let innocent = loop {
        let delivery = next(&mut intake).await;
        if delivery.redeliveries == 0 {
            break delivery;
        }
        delivery.hand_back(Duration::ZERO).await.unwrap();
    };
    let shared = at_work.turn(&innocent).await;
    assert!(matches!(shared, Turn::Shared(_)));
    let suspect = Delivery { redeliveries: MAX_BEGUN, ..innocent };
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, at_work.turn(&suspect)).await.is_err());
    drop(shared);
    let alone = timeout(minute, at_work.turn(&suspect)).await.unwrap();
    assert!(matches!(alone, Turn::Alone(_)));
    let other = Delivery { redeliveries: 0, ..suspect };
    assert!(timeout(minute, at_work.turn(&other)).await.is_err());
    // A count that somebody wrote gives up nothing that the broker has not seen so often.
    store.put_records(&begun, &[(job.id().to_string(), b"4000000000".to_vec())]).await.unwrap();
    let few = Delivery { redeliveries: MAX_BEGUN - 1, ..other };
    assert_eq!(begin_again(&store, &few, &job).await.unwrap(), Begun::Now);
    let many = Delivery { redeliveries: MAX_BEGUN, ..few };
    assert_eq!(begin_again(&store, &many, &job).await.unwrap(), Begun::TooOften(MAX_BEGUN));
    many.ack().await.unwrap();
}

#[tokio::test]
async fn a_worker_holds_one_job_until_it_has_done_one() {
    let broker: Arc<dyn Broker> = Arc::new(EmbeddedBroker::new());
    fill(&*broker, 20).await;
    let mut intake = opened(&broker).await;
    let first = next(&mut intake).await;
    assert_eq!((intake.room(), broker.depth(QUEUE).await.unwrap()), (1, 19));
    assert!(timeout(Duration::from_millis(50), intake.next()).await.is_err(), "it has one in hand");
    first.ack().await.unwrap();
    intake.proven();
    assert!(intake.resume().await.unwrap());
    assert_eq!(intake.room(), 8);
    let mut taken = Vec::new();
    for _ in 0..8 {
        taken.push(next(&mut intake).await);
    }
    // While it is paused it holds what it works on alone, and others get the rest.
    intake.pause().await;
    assert!(timeout(Duration::from_millis(50), intake.next()).await.is_err());
    let mut other = broker.consume(QUEUE, 100).await.unwrap();
    let mut got = BTreeSet::new();
    for _ in 0..11 {
        let delivery = timeout(Duration::from_secs(5), other.next()).await.unwrap().unwrap();
        assert_eq!(delivery.redeliveries, 0);
        got.insert(delivery.message_id.clone());
        delivery.ack().await.unwrap();
    }
    assert_eq!(got.len(), 11);
    other.stop().await;
    for delivery in taken {
        delivery.hand_back(Duration::ZERO).await.unwrap();
    }
    assert!(intake.resume().await.unwrap());
    assert_eq!(next(&mut intake).await.redeliveries, 0);
}

/// What it holds of other lanes goes back to a queue that is too new to be trusted for three and a half seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_done_one_job_has_the_next_ones_at_once() {
    let vhost = Vhost::fresh();
    fill(&AmqpBroker::connect(&vhost.url()).await.unwrap(), 20).await;
    for pooled in [false, true] {
        let mut broker: Arc<dyn Broker> = Arc::new(AmqpBroker::connect(&vhost.url()).await.unwrap());
        if pooled {
            broker = Arc::new(PooledBroker::new(broker, |_| None));
        }
        let mut intake = opened(&broker).await;
        let began = Instant::now();
        next(&mut intake).await.ack().await.unwrap();
        // Another one comes by the consumer of one at a time.
        sleep(Duration::from_millis(200)).await;
        intake.proven();
        assert!(intake.resume().await.unwrap());
        for _ in 0..3 {
            next(&mut intake).await.ack().await.unwrap();
        }
        let took = began.elapsed();
        assert!(took < bluefin_test_support::patience(Duration::from_secs(2)), "{took:?}");
        intake.pause().await;
        broker.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_when_it_is_idle_or_has_done_enough() {
    let idle = Leaving::new(Leave { when_idle: Some(Duration::from_secs(600)), after_jobs: None });
    let job = idle.take().unwrap();
    assert!(timeout(Duration::from_secs(3600), idle.time()).await.is_err(), "it works");
    let ended = Instant::now();
    drop(job);
    idle.time().await;
    let waited = ended.elapsed();
    assert!(waited >= Duration::from_secs(600) && waited < Duration::from_secs(601), "{waited:?}");

    let enough = Leaving::new(Leave { when_idle: None, after_jobs: Some(2) });
    drop(enough.take().unwrap());
    assert!(!enough.has_enough() && timeout(Duration::from_secs(9), enough.time()).await.is_err());
    drop(enough.take().unwrap());
    assert!(enough.has_enough());
    enough.time().await;

    let never = Leaving::new(Leave::default());
    assert!(timeout(Duration::from_secs(10 * 24 * 3600), never.time()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_let_go_when_all_of_it_is_over() {
    let waiting = Waiting::default();
    let guards = [waiting.on(On::Broker, "away"), waiting.on(On::Machine, "disk full")];
    let waiter = waiting.clone();
    let mut over = JoinSet::new();
    over.spawn(async move { waiter.over().await });
    for guard in guards {
        sleep(Duration::from_secs(1)).await;
        assert!(over.try_join_next().is_none());
        drop(guard);
    }
    over.join_next().await.unwrap().unwrap();
}
