//! The life of a delivery as a whole: every transition of its table happens, and what a job is blamed for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, DEAD_QUEUE, Delivery};
use bluefin_common::delivery::pin::Pinned;
use bluefin_common::delivery::{
    AtWork, Context, Event, Given, Halt, Leave, Leaving, MAX_BEGUN, Product, Role, State, Trace, live,
};
use bluefin_common::job::{EvalJob, Job};
use bluefin_common::metrics::{PipelineMetrics, Settled, Step};
use bluefin_common::outcome::Outcome;
use bluefin_common::roster::Presence;
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::shelf;
use bluefin_common::standing::{self, Standing, Standings};
use bluefin_common::store::{Records as _, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::wire;
use bluefin_common::wire::MAX_BODY;
use prometheus::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{QUEUE, job, patience};

/// A worker that says what it was told to say.
struct Scripted {
    context: Context,
    misfit: Option<String>,
    pins: bool,
    /// What the work comes to; handed back where nothing is said.
    work: Mutex<Option<Result<Product, Halt>>>,
    /// Why the job can not be given up, if so.
    kept: Mutex<Option<Halt>>,
}

#[async_trait]
impl Role for Scripted {
    type Order = EvalJob;
    type Load = ();
    const STEP: Step = Step::Eval;

    fn context(&self) -> &Context {
        &self.context
    }

    fn misfit(&self, _: &EvalJob) -> Option<String> {
        self.misfit.clone()
    }

    async fn pin(&self, _: Given<'_, EvalJob>) -> Result<bool, Halt> {
        Ok(self.pins)
    }

    async fn work(&self, _: Given<'_, EvalJob>) -> Result<Product, Halt> {
        self.work.lock().unwrap().take().unwrap_or(Err(Halt::Later(Duration::ZERO)))
    }

    async fn give_up(&self, given: Given<'_, EvalJob>, reason: &str) -> Result<Option<Outcome>, Halt> {
        match self.kept.lock().unwrap().take() {
            Some(halt) => Err(halt),
            None => Ok(Some(Outcome::dead(&given.order.job, reason, 1))),
        }
    }

    fn load(&self) {}
}

/// A queue with one message, of a job without candidates.
struct Ground {
    broker: Arc<EmbeddedBroker>,
    store: Arc<SqliteStore>,
    role: Scripted,
    job: Job,
    body: Vec<u8>,
    redeliveries: u32,
}

impl Ground {
    async fn new() -> Self {
        let (broker, store) =
            (Arc::new(EmbeddedBroker::with_max_depth(2)), Arc::new(SqliteStore::in_memory().unwrap()));
        let job = job();
        let session = Session::of_kernels(job.session.clone(), Target::Host, "", &[Stage::Perf], 0);
        store.create_session(&session).await.unwrap();
        let context = Context {
            broker: broker.clone(),
            store: store.clone(),
            metrics: PipelineMetrics::register(&Registry::new()).unwrap(),
            presence: Presence::default(),
            pinned: Pinned::default(),
            standings: Standings::default(),
            at_work: AtWork::default(),
            leaving: Leaving::new(Leave::default()),
            patience: patience(Duration::from_secs(60)),
            stop: CancellationToken::new(),
            prefetch: 1,
            grace: Duration::ZERO,
        };
        let role = Scripted { context, misfit: None, pins: true, work: Mutex::default(), kept: Mutex::default() };
        let body = wire::encode(&EvalJob::uncompiled(job.clone(), 0)).unwrap();
        Self { broker, store, role, job, body, redeliveries: 0 }
    }

    fn comes_to(&mut self, work: Result<Product, Halt>) {
        self.role.work = Mutex::new(Some(work));
    }

    async fn begun(&self, times: u32) {
        let count = (self.job.id().to_string(), times.to_string().into_bytes());
        self.store.put_records(&shelf::begun(&self.job.session), &[count]).await.unwrap();
    }

    async fn is_counted(&self) -> bool {
        !self.store.records(&shelf::begun(&self.job.session)).await.unwrap().is_empty()
    }

    async fn take(&self) -> Delivery {
        self.broker.declare(QUEUE).await.unwrap();
        self.broker.publish(QUEUE, &self.job.id().to_string(), self.body.clone().into()).await.unwrap();
        let mut consumer = self.broker.consume(QUEUE, 1).await.unwrap();
        let delivery = consumer.next().await.unwrap();
        consumer.stop().await;
        Delivery { redeliveries: self.redeliveries, ..delivery }
    }

    /// Has the message done, and looks where it is then.
    async fn live(&self) -> Trace {
        let trace = live(&self.role, self.take().await).await;
        let (state, event) = *trace.last().unwrap();
        let end = state.after(event).unwrap();
        let dead = self.broker.depth(DEAD_QUEUE).await.unwrap();
        assert_eq!(dead, u64::from(end == State::Dead), "{trace:?}");
        let mut consumer = self.broker.consume(QUEUE, 1).await.unwrap();
        let again = timeout(Duration::from_secs(200), consumer.next()).await;
        assert_eq!(again.is_ok(), end == State::HandedBack, "{trace:?}");
        if let Ok(Some(again)) = again {
            assert_eq!(again.redeliveries, 0, "handed back at no cost");
            again.ack().await.unwrap();
        }
        trace
    }
}

fn outcome() -> Result<Product, Halt> {
    Ok(Outcome::dead(&job(), "done", 1).into())
}

/// Whatever may happen to a delivery: where it ends its way, and how that comes about.
async fn ways() -> BTreeMap<(State, Event), Trace> {
    use Event::{Hopeless, Later, NothingToDo, Passes};
    let mut ways = BTreeMap::new();
    for way in [
        (State::Decode, Later),
        (State::Decode, Hopeless),
        (State::TakeUp, Later),
        (State::Steer, NothingToDo),
        (State::Steer, Later),
        (State::LookUp, NothingToDo),
        (State::LookUp, Later),
        (State::Pin, Later),
        (State::Pin, Hopeless),
        (State::Turn, Later),
        (State::Turn, Hopeless),
        (State::Work, NothingToDo),
        (State::Work, Later),
        (State::Work, Hopeless),
        (State::Store, Passes),
        (State::Store, Later),
        (State::Store, Hopeless),
        (State::Suspect, Later),
        (State::Suspect, Hopeless),
        (State::GiveUp, Passes),
        (State::GiveUp, Later),
        (State::GiveUp, Hopeless),
    ] {
        let mut ground = Ground::new().await;
        let (session, id) = (ground.job.session.clone(), ground.job.id());
        let store = ground.store.clone();
        let mut held = None;
        match way {
            (State::Decode, Later) => ground.body[3] = u8::MAX,
            (State::Decode, _) => ground.body = b"poison".to_vec(),
            (State::TakeUp, _) => held = ground.role.context.at_work.take_up(&ground.take().await),
            (State::Steer, _) => standing::set(&*store, &session, Standing::Paused).await.unwrap(),
            (State::LookUp, NothingToDo) => {
                store.put_outcome(&Outcome::dead(&ground.job, "done elsewhere", 1)).await.map(drop).unwrap();
            }
            (State::LookUp, _) => store.remove_session(&session).await.unwrap(),
            (State::Pin, Later) => ground.role.pins = false,
            (State::Pin, _) => ground.role.misfit = Some("of another queue".to_string()),
            (State::Turn, event) => {
                ground.redeliveries = 30;
                ground.begun(if event == Hopeless { MAX_BEGUN } else { 1 }).await;
            }
            (State::Work, NothingToDo) => ground.comes_to(Err(Halt::NothingToDo)),
            (State::Work, Hopeless) => ground.comes_to(Err(Halt::Hopeless("makes no sense".to_string()))),
            (State::Work, _) => ground.comes_to(Err(Halt::Later(Duration::ZERO))),
            (State::Store, event) => {
                ground.comes_to(outcome());
                if event == Hopeless {
                    let device = "x".repeat(MAX_BODY + 1);
                    ground.comes_to(Ok(Outcome { device, ..Outcome::dead(&job(), "done", 1) }.into()));
                }
                if event == Later {
                    // Its search goes on, in a queue that is full.
                    let search = Some(SearchPlan::new("fixed", 1));
                    let session = store.session(&session).await.unwrap().unwrap();
                    store.remove_session(&session.name).await.unwrap();
                    store.create_session(&Session { search, ..session }).await.unwrap();
                    let queue = ground.job.compile_queue();
                    for id in ["a", "b"] {
                        ground.broker.publish(&queue, id, Default::default()).await.unwrap();
                    }
                }
            }
            (State::Suspect, event) => {
                ground.comes_to(Err(Halt::Suspect("killed".to_string())));
                ground.begun(if event == Hopeless { MAX_BEGUN - 1 } else { 1 }).await;
            }
            (State::GiveUp, event) => {
                ground.role.misfit = Some("of another queue".to_string());
                ground.role.kept = Mutex::new(match event {
                    Later => Some(Halt::Later(Duration::ZERO)),
                    Hopeless => Some(Halt::Hopeless("no outcome: too large".to_string())),
                    _ => None,
                });
            }
            _ => unreachable!("no way ends there"),
        }
        if way == (State::Steer, Later) {
            // A worker that has read that it is paused, a moment before what is in the store is damaged.
            ground.role.context.standings.of(&*store, &session).await.unwrap();
            store.put_records(shelf::STANDINGS, &[(session.to_string(), b"damaged".to_vec())]).await.unwrap();
        }
        let trace = if held.is_some() {
            // The copy in hand comes beside it.
            live(&ground.role, ground.take().await).await
        } else {
            ground.live().await
        };
        let passed = trace.iter().rposition(|pair| *pair == way);
        assert!(passed.is_some(), "{way:?} did not happen: {trace:?}");
        let has_outcome = store.has_outcome(&session, ground.job.group(), id).await.unwrap();
        let end = trace.last().and_then(|(state, event)| state.after(*event));
        let is_given_up = trace.last() == Some(&(State::GiveUp, Passes));
        let expected = is_given_up || way.0 == State::Store || way == (State::LookUp, NothingToDo);
        assert_eq!(has_outcome, expected, "{trace:?} {end:?}");
        ways.insert(way, trace);
    }
    ways
}

#[tokio::test(start_paused = true)]
async fn every_transition_of_a_delivery_happens() {
    let ways = ways().await;
    let happened: BTreeSet<(State, Event)> = ways.values().flatten().copied().collect();
    let all = State::ALL.into_iter().flat_map(|state| Event::ALL.map(|event| (state, event)));
    let defined: BTreeSet<(State, Event)> = all.filter(|(state, event)| state.after(*event).is_some()).collect();
    assert_eq!(happened, defined);
    for trace in ways.values() {
        assert_eq!(trace[0].0, State::Decode);
        for pair in trace.windows(2) {
            assert_eq!(pair[0].0.after(pair[0].1), Some(pair[1].0));
        }
    }
}

#[test]
fn every_state_ends_at_no_cost_if_need_be_and_an_end_is_one() {
    let mut reached = BTreeSet::from([State::Decode]);
    // In their order: none leads back, so every delivery is settled.
    for state in State::ALL {
        assert!(reached.contains(&state), "nothing leads to {state:?}");
        for event in Event::ALL {
            match state.after(event) {
                Some(next) => {
                    assert!(!state.is_end() && next > state, "{state:?} {event:?} {next:?}");
                    reached.insert(next);
                }
                None => assert!(state.is_end() || event != Event::Later, "{state:?} can not be handed back"),
            }
        }
    }
    // Nobody is to blame for what was not worked on.
    let blamed = State::ALL.into_iter().filter(|state| state.after(Event::Suspect).is_some());
    assert_eq!(blamed.collect::<Vec<_>>(), [State::Work]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_worked_on_is_not_blamed_and_waits_for_nobody() {
    let mut ground = Ground::new().await;
    ground.role.pins = false;
    ground.redeliveries = MAX_BEGUN - 1;
    // A suspect that is to have its turn would wait for the end of this.
    let innocent = Ground::new().await.take().await;
    let _busy = ground.role.context.at_work.turn(&innocent).await;
    assert_eq!(ground.live().await.last(), Some(&(State::Pin, Event::Later)));
    assert!(!ground.is_counted().await);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_blamed_while_it_is_worked_on_and_no_longer() {
    for (work, counted) in [
        (outcome(), false),
        (Ok(Product::Passed(Settled::Recompile)), false),
        (Err(Halt::Later(Duration::ZERO)), false),
        (Err(Halt::Hopeless("makes no sense".to_string())), false),
        (Err(Halt::Suspect("killed".to_string())), true),
    ] {
        let mut ground = Ground::new().await;
        ground.redeliveries = 5;
        ground.comes_to(work);
        ground.live().await;
        assert_eq!(ground.is_counted().await, counted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_to_end_begins_nothing() {
    let ground = Ground::new().await;
    ground.role.context.stop.cancel();
    assert_eq!(ground.live().await.last(), Some(&(State::TakeUp, Event::Later)));
    // Nor one that waits for its turn by then.
    let mut ground = Ground::new().await;
    ground.redeliveries = 5;
    let innocent = Ground::new().await.take().await;
    let _busy = ground.role.context.at_work.turn(&innocent).await;
    let (trace, ()) = tokio::join!(ground.live(), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        ground.role.context.stop.cancel();
    });
    assert_eq!(trace.last(), Some(&(State::Turn, Event::Later)));
    assert!(!ground.is_counted().await);
}
