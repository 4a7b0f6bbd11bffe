//! Planning and enqueueing from the outside: planners of one's own, and sessions that search.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker;
use bluefin_common::campaign;
use bluefin_common::candidate::Candidate;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::job::{CompileJob, CompileWork, GroupId, Job, JobId};
use bluefin_common::lane::Lane;
use bluefin_common::method::{EvaluatedBy, FindJobs, Method, MethodInfo};
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::Problem;
use bluefin_common::problem::driver;
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{Blobs as _, Store, Work as _};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_common::wire;
use bluefin_kernel_spec::search::{BATCH, Prior, PriorRows};
use bluefin_producer::enqueue::{Publish, Ways, enqueue};
use bluefin_producer::plan::{
    Asked, CandidateBudget, Plan, PlannedGroup, Planner, Planners, Planning, ProblemPlan, Selects,
    kernels::plan_problem,
};
use bluefin_producer::recall::Recall;
use bluefin_producer::request;
use bluefin_producer::specs::{LoadedSpec, Specs};
use bluefin_producer::{Metrics, PlanError};

/// An in-process queue and store.
struct Ground {
    store: SqliteStore,
    broker: EmbeddedBroker,
    metrics: Metrics,
}

impl Ground {
    fn new() -> Self {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        Self { store: SqliteStore::in_memory().unwrap(), broker: EmbeddedBroker::new(), metrics }
    }

    async fn enqueue(&self, planners: &Planners, session: &Session, asked: &Asked, publish: Publish) -> Plan {
        self.enqueue_some(planners, session, asked, publish, problems()).await
    }

    async fn enqueue_some(
        &self,
        planners: &Planners,
        session: &Session,
        asked: &Asked,
        publish: Publish,
        problems: Vec<Problem>,
    ) -> Plan {
        let planning = planners.begin(&self.store, session, asked).await.unwrap();
        let ways = Ways { store: &self.store, broker: &self.broker, metrics: &self.metrics, publish };
        enqueue(&ways, session, &*planning, problems).await.unwrap()
    }

    /// Takes what waits in `queue`.
    async fn take(&self, queue: &str) -> Vec<CompileJob> {
        let mut taken = Vec::new();
        let waiting = self.broker.depth(queue).await.unwrap();
        let mut consumer = self.broker.consume(queue, 100).await.unwrap();
        for _ in 0..waiting {
            let delivery = consumer.next().await.unwrap();
            taken.push(wire::decode(&delivery.body).unwrap());
            delivery.ack().await.unwrap();
        }
        consumer.stop().await;
        taken
    }
}

fn problems() -> Vec<Problem> {
    driver::parse("gemm -m 64 -n 64 -k 64", None).unwrap()
}

fn session(name: &str, target: Target) -> Session {
    Session::of_kernels(name.parse().unwrap(), target, "", &Stage::ALL, 1)
}

static TOY: MethodInfo = MethodInfo {
    name: "toy",
    about: "nothing",
    toolchains: &["toy"],
    evaluated_by: EvaluatedBy::Device,
    find: FindJobs::PlayOff,
};

/// The method, which stored sessions may name from now on.
fn toy() -> Method {
    Method::bring(vec![&TOY]);
    Method::of(&TOY)
}

struct Toys(Method);

#[async_trait]
impl Planner for Toys {
    fn method(&self) -> Method {
        self.0
    }

    fn tunes(&self) -> &'static str {
        "toys"
    }

    fn check(&self, _session: &Session) -> Result<(), PlanError> {
        Ok(())
    }

    async fn begin<'a>(
        &'a self,
        _store: &'a dyn Store,
        session: &Session,
        _asked: &'a Asked,
    ) -> Result<Box<dyn Planning + 'a>, PlanError> {
        Ok(Box::new(OfToys(session.clone())))
    }
}

struct OfToys(Session);

#[async_trait]
impl Planning for OfToys {
    fn selects(&self) -> Selects {
        Selects::Solvers
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        let plan = |problem: &Problem| {
            let job = Job {
                session: self.0.name.clone(),
                stage: Stage::Perf,
                target: self.0.target.clone(),
                problem: problem.clone(),
                method: self.0.method,
                spec: Digest::of(b"toy"),
                toolchain: "toy".to_string(),
                candidates: vec![Candidate { solver: "Toy".to_string(), params: Vec::new() }],
                round: 0,
                lane: Lane::First,
            };
            ProblemPlan::Jobs(vec![PlannedGroup::of(vec![job])])
        };
        Ok(problems.iter().map(plan).collect())
    }
}

#[tokio::test]
async fn a_planner_of_ones_own_plans_the_sessions_of_its_method() {
    let ground = Ground::new();
    let method = toy();
    let toys = Session { method, ..session("toys", Target::Host) };
    let shipped = Planners::shipped(Default::default());
    let error = shipped.begin(&ground.store, &toys, &Asked::default()).await.err().unwrap();
    assert_eq!(error.to_string(), "tuner toy: nothing here plans its sessions");
    let planners = shipped.with(Arc::new(Toys(method)));
    let plan = ground.enqueue(&planners, &toys, &Asked::default(), Publish::Missing).await;
    assert_eq!((plan.problems, plan.jobs, plan.enqueued), (1, 1, 1));
    assert_eq!(ground.take("bluefin.compile.toy.host").await[0].job.method, method);
    // A session of that name is not taken for one of another method.
    let kernels = session("toys", Target::Host);
    let error = planners.begin(&ground.store, &kernels, &Asked::default()).await.err().unwrap();
    assert_eq!(error.to_string(), "session toys: its tuner is toy, found kernels; use another session name");
}

#[tokio::test]
async fn what_was_asked_for_has_to_fit_the_session() {
    let ground = Ground::new();
    let planners = Planners::shipped(Default::default());
    let of = |method, stages: &[Stage]| Session {
        method,
        stages: stages.to_vec(),
        ..session("s", "gfx90a-104".parse().unwrap())
    };
    let asked = |stages: &[Stage], target: Option<&str>| Asked {
        stages: stages.to_vec(),
        target: target.map(|target| target.parse().unwrap()),
        ..Asked::default()
    };
    for (session, asked, usage, reason) in [
        (of(Method::FIN, &[Stage::Perf]), asked(&[Stage::Find], None), true, "--stage find: session s has perf"),
        (of(Method::FIN, &Stage::ALL), asked(&[], Some("host")), true, "--target host: session s is for gfx90a-104"),
        (of(Method::FIN, &Stage::ALL), asked(&[], None), false, "run bluefin solvers update --session s"),
        (of(Method::KERNELS, &Stage::ALL), asked(&[Stage::Find], None), true, "--stage find needs perf"),
        (of(Method::KERNELS, &Stage::ALL), asked(&[], None), false, "no kernel spec is for target gfx90a-104"),
    ] {
        let error = planners.begin(&ground.store, &session, &asked).await.err().unwrap();
        assert_eq!(error.is_usage(), usage, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    for (method, stages, reason) in [
        (Method::MIOPENDRIVER, &Stage::ALL[..], "--stage: MIOpenDriver tunes and finds at once, expected find"),
        (Method::KERNELS, &[Stage::Find], "--stage find needs perf"),
    ] {
        let error = planners.get(method).unwrap().check(&of(method, stages)).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(reason), "{error}");
    }
}

fn specs() -> Specs {
    Specs::for_target(LoadedSpec::shipped().unwrap(), &Target::Host)
}

fn done(job: &Job) -> Outcome {
    let candidates = job.candidates.iter().map(|candidate| CandidateOutcome {
        candidate: candidate.clone(),
        built: None,
        result: Ok(Timing::single(1.0)),
        resources: None,
    });
    Outcome::undone(job, Description::default(), candidates.collect(), 1)
}

/// Workers plan the rounds after the first. Whoever plans the session again neither plans one twice nor forgets one.
#[tokio::test]
async fn a_session_that_searches_is_planned_round_by_round() {
    let ground = Ground::new();
    let planners = Planners::shipped(Default::default());
    let search = SearchPlan::new("fixed", 2 * BATCH as u64);
    let searching = Session { search: Some(search), ..session("it", Target::Host) };
    let asked = Asked { specs: specs(), ..Asked::default() };
    let counts = |plan: &Plan| (plan.enqueued, plan.waiting, plan.done);

    let first = ground.enqueue(&planners, &searching, &asked, Publish::Missing).await;
    assert_eq!(counts(&first), (first.jobs, 0, 0));
    assert!(first.sentence().ends_with("candidates so far, of at most 16 for each solver by the strategy fixed"));
    let jobs = ground.take("bluefin.compile.cc.host").await;
    assert_eq!(jobs.len() as u64, first.jobs);
    assert!(jobs.iter().all(|job| job.work == CompileWork::Candidates && job.job.candidates.len() <= BATCH));
    let again = ground.enqueue(&planners, &searching, &asked, Publish::Missing).await;
    assert_eq!(counts(&again), (0, first.jobs, 0));

    // Where the first round is done the second follows, the same whoever plans it.
    for job in &jobs {
        ground.store.put_outcome(&done(&job.job)).await.unwrap();
    }
    let second = ground.enqueue(&planners, &searching, &asked, Publish::Missing).await;
    assert!(second.enqueued > 0, "{second:?}");
    assert_eq!((second.waiting, second.done), (0, first.jobs));
    let more = ground.take("bluefin.compile.cc.host").await;
    assert!(more.iter().all(|new| jobs.iter().all(|old| old.job.id() != new.job.id())));
    // Lost in its queue, it is published again.
    let again = ground.enqueue(&planners, &searching, &asked, Publish::Unfinished).await;
    assert_eq!(counts(&again), counts(&second));
    ground.take("bluefin.compile.cc.host").await;

    // When the budget is spent the search ends, and play-offs follow.
    for job in &more {
        ground.store.put_outcome(&done(&job.job)).await.unwrap();
    }
    let last = ground.enqueue(&planners, &searching, &asked, Publish::Missing).await;
    assert_eq!(counts(&last), (0, 0, second.jobs));
    let progress = ground.store.progress(&searching.name).await.unwrap();
    assert!(progress.planned["find"] > 0 && !progress.is_settled(), "{progress:?}");
    // No worker was there to say how it ended.
    let groups = ground.store.groups(&searching.name).await.unwrap();
    let ends = SearchEnd::of(&ground.store, &searching.name, &groups).await.unwrap();
    let solvers: Vec<&SolverEnd> = ends.values().flat_map(|SearchEnd(solvers)| solvers).collect();
    assert_eq!(ends.len(), groups.len());
    let as_many = |end: &&SolverEnd| end.tried == end.valid.min(2 * BATCH as u64) && end.left.is_none();
    assert!(solvers.iter().all(as_many), "{ends:?}");
    assert!(solvers.iter().any(|end| end.why == Why::Budget), "{ends:?}");
    // More are tried where more are asked for, and only those.
    let unlimited = SearchPlan::new("fixed", 0);
    let searching = Session { search: Some(unlimited), ..session("grows", Target::Host) };
    let within = |budget| Asked { budget: CandidateBudget::Candidates(budget), specs: specs(), ..Asked::default() };
    for (budget, expected) in [(3, 3), (BATCH, BATCH), (3, BATCH), (BATCH + 2, BATCH + 2)] {
        loop {
            ground.enqueue(&planners, &searching, &within(budget), Publish::Missing).await;
            let jobs = ground.take("bluefin.compile.cc.host").await;
            if jobs.is_empty() {
                break;
            }
            for job in &jobs {
                ground.store.put_outcome(&done(&job.job)).await.unwrap();
            }
        }
        let groups = ground.store.groups(&searching.name).await.unwrap();
        let mut tried: BTreeMap<(GroupId, String), usize> = BTreeMap::new();
        for outcome in ground.store.outcomes(&searching.name, &groups).await.unwrap() {
            for one in outcome.candidates.iter().filter(|_| outcome.job.stage == Stage::Perf) {
                *tried.entry((outcome.group(), one.candidate.solver.clone())).or_default() += 1;
            }
        }
        assert_eq!(tried.into_values().max(), Some(expected), "budget {budget}");
    }
    // That is a matter of each problem.
    let other = driver::parse("gemm -m 32 -n 32 -k 32", None).unwrap();
    ground.enqueue_some(&planners, &searching, &within(2), Publish::Missing, other).await;
    let jobs = ground.take("bluefin.compile.cc.host").await;
    let tried = jobs.iter().map(|job| job.job.candidates.len()).max();
    assert_eq!(tried, Some(2));
    let searching = Session { search: Some(SearchPlan::new("fixed", 2 * BATCH as u64)), ..session("it", Target::Host) };

    // Workers go by the search that is stored, so that nobody plans by another.
    let other = Session { search: None, ..searching.clone() };
    let error = planners.begin(&ground.store, &other, &asked).await.err().unwrap();
    let expected =
        format!("session it: its search is fixed:{}, seed 0, found none; use another session name", 2 * BATCH);
    assert_eq!(error.to_string(), expected);
}

/// Some winners of the tiled GEMM of the CPU, for this problem and another one, and one that is no point of its space.
async fn priors(ground: &Ground) -> (Digest, Vec<Candidate>) {
    let all = plan_problem(&session("all", Target::Host), &problems()[0], &specs().here, CandidateBudget::All, None);
    let jobs: Vec<Job> = all.unwrap().into_iter().flat_map(|group| group.jobs).collect();
    let tunable = |job: &&Job| !job.candidates[0].params.is_empty();
    let solver = jobs.iter().find(tunable).unwrap().candidates[0].solver.clone();
    let points = jobs.iter().flat_map(|job| &job.candidates).filter(|one| one.solver == solver);
    let points: Vec<Candidate> = points.skip(100).step_by(7).take(3).cloned().collect();
    let loaded = specs();
    let spec = loaded.here.iter().find(|loaded| loaded.spec.solver(&solver).is_some()).unwrap();
    let names = |one: &Candidate| {
        let names = spec.spec.solver(&solver).unwrap().params.iter().map(|param| param.name.clone());
        names.zip(one.params.iter().cloned()).collect::<Vec<_>>()
    };
    let other = driver::parse("gemm -m 64 -n 64 -k 128", None).unwrap().remove(0);
    let prior = |problem: &Problem, params| Prior {
        problem: problem.clone(),
        spec: spec.spec.name.clone(),
        solver: solver.clone(),
        params,
    };
    let mut rows = vec![prior(&other, names(&points[2]))];
    rows.extend(points[..2].iter().map(|point| prior(&problems()[0], names(point))));
    rows.push(prior(&problems()[0], vec![("NONE".to_string(), Value::Int(1))]));
    let blob = ground.store.put_blob(&wire::encode(&PriorRows(rows)).unwrap()).await.unwrap();
    (blob, points)
}

#[tokio::test]
async fn winners_of_earlier_work_come_behind_the_default_whatever_the_search() {
    let (ground, planners) = (Ground::new(), Planners::shipped(Default::default()));
    let (blob, expected) = priors(&ground).await;
    let first = async |search: Option<SearchPlan>, priors, name: &str| {
        let session = Session { search, priors, ..session(name, Target::Host) };
        let asked = Asked { specs: specs(), ..Asked::default() };
        ground.enqueue(&planners, &session, &asked, Publish::Missing).await;
        let jobs = ground.take("bluefin.compile.cc.host").await;
        let of = |job: &CompileJob| job.job.candidates[0].solver == expected[0].solver;
        jobs.into_iter().find(of).unwrap().job.candidates
    };
    for (at, search) in ["", "fixed", "bayes"].into_iter().enumerate() {
        let search = (!search.is_empty()).then(|| SearchPlan::new(search, 2 * BATCH as u64));
        let plain = first(search.clone(), None, &format!("plain{at}")).await;
        let begun = first(search, Some(blob), &format!("begun{at}")).await;
        assert_eq!((&begun[0], &begun[1..4]), (&plain[0], expected.as_slice()), "the default, then the winners");
        // A job is as large with winners as without: of a contest they fill its first one.
        assert_eq!(begun.len(), plain.len());
        assert_eq!(begun[4..], plain[1..=begun.len() - 4], "then what there would be otherwise");
    }
    // Workers go by what is stored.
    let other = Session { priors: None, ..session("begun0", Target::Host) };
    let error = planners.begin(&ground.store, &other, &Asked::default()).await.err().unwrap();
    let expected = format!(
        "session begun0: its beginning (--from) is winners {}, found defaults; use another session name",
        blob.short()
    );
    assert_eq!(error.to_string(), expected);
    let gone = Session { priors: Some(Digest::of(b"gone")), ..session("gone", Target::Host) };
    let asked = Asked { specs: specs(), ..Asked::default() };
    let error = planners.begin(&ground.store, &gone, &asked).await.err().unwrap().to_string();
    assert!(error.starts_with("session gone: the winners that it begins with, "), "{error}");
}

#[tokio::test]
async fn a_strategy_that_is_not_known_is_named() {
    let ground = Ground::new();
    let search = SearchPlan::new("luck", 8);
    let searching = Session { search: Some(search), ..session("it", Target::Host) };
    let asked = Asked { specs: specs(), ..Asked::default() };
    let error = Planners::shipped(Default::default()).begin(&ground.store, &searching, &asked).await.err().unwrap();
    assert_eq!(error.to_string(), "search: found strategy \"luck\", expected one of fixed, bayes");
}

/// All that waits is found again by what was asked, though the store knows ids alone: rounds of a search and play-offs included.
#[tokio::test]
async fn what_an_open_job_is_follows_from_what_was_asked() {
    let (ground, planners) = (Ground::new(), Planners::shipped(Default::default()));
    let search = SearchPlan::new("fixed", 2 * BATCH as u64);
    let (blob, _) = priors(&ground).await;
    for (session, asked) in [
        (session("plain", Target::Host), Asked { specs: specs(), ..Asked::default() }),
        (
            Session { search: Some(search.clone()), priors: Some(blob), ..session("begun", Target::Host) },
            Asked { specs: specs(), ..Asked::default() },
        ),
        (
            Session { search: Some(search), ..session("rounds", Target::Host) },
            Asked { specs: specs(), ..Asked::default() },
        ),
    ] {
        request::keep(&ground.store, &session, &asked, &problems()).await.unwrap();
        let mut seen = BTreeSet::new();
        loop {
            ground.enqueue(&planners, &session, &asked, Publish::Missing).await;
            let open = open_ids(&ground, &session).await;
            if open.is_empty() {
                break;
            }
            let mut wanted = open.clone();
            // Nobody asked for this one.
            wanted.insert(Digest::of(b"other"));
            let recall = Recall::open(&ground.store, &planners, &session).await.unwrap();
            let mut found = Vec::new();
            let told = async |jobs: Vec<Job>| {
                found.extend(jobs);
                ControlFlow::Continue(())
            };
            recall.find(&mut wanted, |_| true, told).await.unwrap();
            assert_eq!(wanted, HashSet::from([Digest::of(b"other")]));
            assert_eq!(found.iter().map(Job::id).collect::<HashSet<_>>(), open);
            for job in &found {
                seen.insert(job.stage.name());
                let stored = ground.store.put_outcome(&done(job)).await.unwrap();
                campaign::advance(&ground.store, &ground.broker, job, stored.open).await.unwrap();
            }
        }
        assert_eq!(Vec::from_iter(seen), ["find", "perf"]);
    }
}

async fn open_ids(ground: &Ground, session: &Session) -> HashSet<JobId> {
    ground.store.planned_jobs(&session.name).await.unwrap().into_iter().map(|(id, _)| id).collect()
}

/// Toys are planned, and their session is deleted meanwhile.
struct DeletedMeanwhile<'a>(&'a SqliteStore, OfToys);

#[async_trait]
impl Planning for DeletedMeanwhile<'_> {
    fn selects(&self) -> Selects {
        self.1.selects()
    }

    async fn plan(&self, problems: &[Problem]) -> Result<Vec<ProblemPlan>, PlanError> {
        standing::set(self.0, &self.1.0.name, Standing::Deleted).await?;
        self.1.plan(problems).await
    }
}

#[tokio::test]
async fn what_is_enqueued_into_a_session_that_is_deleted_is_not_confirmed() {
    let Ground { store, broker, metrics } = &Ground::new();
    let session = Session { method: toy(), ..session("gone", Target::Host) };
    let planning = DeletedMeanwhile(store, OfToys(session.clone()));
    let ways = Ways { store, broker, metrics, publish: Publish::Missing };
    let error = enqueue(&ways, &session, &planning, problems()).await.unwrap_err();
    assert!(error.to_string().contains("it was deleted while its jobs were enqueued"), "{error}");
}
