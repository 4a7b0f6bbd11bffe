//! What a release left is carried on by those behind it: its sessions, compiled jobs and outcomes stand beside those of now. The first
//! is 0.1.0.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::job::compile_queue;
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::Stage;
use bluefin_common::store::{Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_compile_worker::carried::{Carried, Kept, Undone};
use bluefin_eval_worker::timing::Limits;
use bluefin_eval_worker::{self as eval_worker, Assignment, DeviceError, Evaluated, Evaluator, Running, Stop};
use bluefin_exporter::{ExportRequest, export};
use bluefin_test_support::data;
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Says that it is the device that the session is pinned to, and times nothing.
struct SameDevice(PlainPin);

#[async_trait]
impl Evaluator for SameDevice {
    fn name(&self) -> &str {
        "same"
    }

    fn target(&self) -> &Target {
        &Target::Host
    }

    fn method(&self) -> Method {
        Method::KERNELS
    }

    async fn start(&self, _: &eval_worker::Metrics) -> Result<Box<dyn Running>, DeviceError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

#[async_trait]
impl Running for SameDevice {
    fn identity(&self) -> &str {
        "the same device"
    }

    fn pins(&self, _: &Limits) -> Vec<Arc<dyn Pin>> {
        vec![Arc::new(self.0.clone())]
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let task = assignment.task().await?;
        assert_eq!(task.buffers.len(), 2, "read whole");
        let mut candidates = Vec::new();
        for (candidate, built) in assignment.job().candidates.iter().zip(&assignment.eval_job.built) {
            let (built, result) = match built {
                Ok(built) => {
                    let artifact = built.artifact().ok_or_else(|| Stop::Bury("no artifact".to_string()))?;
                    assignment.artifact(artifact, None).await?;
                    (Some(built.clone()), Ok(Timing::single(2.0 - candidate.to_string().len() as f64 / 100.0)))
                }
                Err(failure) => (None, Err(failure.clone())),
            };
            candidates.push(CandidateOutcome::of(candidate.clone(), built, result));
        }
        Ok(Evaluated { candidates, ran: true, ..Evaluated::default() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_session_of_a_release_comes_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interrupted.db");
    std::fs::write(&path, data("state/interrupted.db")).unwrap();
    let store = Arc::new(SqliteStore::open(&path).await.unwrap());
    let broker = Arc::new(EmbeddedBroker::new());
    let [session] = store.sessions().await.unwrap().try_into().unwrap();
    assert_eq!((session.method, session.search.as_ref()), (Method::KERNELS, None));
    let groups = store.groups(&session.name).await.unwrap();
    let before = store.outcomes(&session.name, &groups).await.unwrap();
    let progress = store.progress(&session.name).await.unwrap();
    assert_eq!((before.len(), progress.groups, progress.unsettled_groups), (7, 2, 2));

    let kept = Kept::load(&*store, &session.name).await.unwrap();
    assert_eq!(kept.jobs().filter(|kept| kept.job.stage == Stage::Perf).count(), 12);
    broker.declare(&compile_queue("cc", &session.target)).await.unwrap();
    let undone = Undone::default();
    let carried = Carried { store: &*store, broker: &*broker, session: &session, undone: &undone };
    let open = store.open_jobs_by_group(&session.name).await.unwrap();
    let published = carried.publish(&kept, &open).await.unwrap();
    assert_eq!((published, undone.groups()), (6, 0), "five of the perf stage, and a play-off that was planned before");

    let registry = Registry::new();
    let pipeline = PipelineMetrics::register(&registry).unwrap();
    let metrics = eval_worker::Metrics::register(&registry, pipeline).unwrap();
    let pins = store.pins(&session.name).await.unwrap();
    let pin = PlainPin { key: "device.host".to_string(), value: pins["device.host"].clone() };
    let config = eval_worker::Config::new("now", Arc::new(SameDevice(pin)));
    let stop = CancellationToken::new();
    let mut working = JoinSet::new();
    working.spawn(eval_worker::run(config, broker.clone(), store.clone(), metrics, stop.clone()));
    let complete = async {
        while !store.progress(&session.name).await.unwrap().is_complete() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), complete).await.expect("the session comes to its end");
    stop.cancel();
    working.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(broker.depth(DEAD_QUEUE).await.unwrap(), 0);
    assert_eq!(broker.depth(&compile_queue("cc", &session.target)).await.unwrap(), 0, "nothing was compiled again");

    let after = store.outcomes(&session.name, &groups).await.unwrap();
    let of_before = |outcome: &&Outcome| before.iter().any(|old| old == *outcome);
    assert_eq!((after.len(), after.iter().filter(of_before).count()), (14, 7));
    let out = tempfile::tempdir().unwrap();
    let report = export(&*store, &session.name, &ExportRequest::all(out.path().to_path_buf())).await.unwrap();
    assert_eq!(report.warnings, [""; 0]);
    let winners = std::fs::read_to_string(out.path().join("winners.json")).unwrap();
    let winners: serde_json::Value = serde_json::from_str(&winners).unwrap();
    for problem in winners["problems"].as_array().unwrap() {
        assert_eq!(problem["spec"], "stencil");
        assert!(
            problem["winner"]["params"].as_object().is_some_and(|params| params.contains_key("TILE_H")),
            "{problem}"
        );
        assert!(problem["winner"]["speedup_over_reference"].is_number(), "{problem}");
    }
}
