//! A whole campaign with failures in a tenth of all calls.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::course::Course;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_common::store::Work as _;
use bluefin_miopen::Tool;

use crate::workers::setting::{SECRET, Setting, problem};
use crate::workers::{GEMM, PLAIN, TUNED};

/// The solvers that apply to a problem of each direction, and whether they are tunable.
const SOLVERS: [(Direction, &str, bool); 9] = [
    (Direction::Forward, TUNED, true),
    (Direction::Forward, "ConvAsm1x1UV2", true),
    (Direction::Forward, "ConvHipImplicitGemmV4R1Fwd", true),
    (Direction::Forward, PLAIN, false),
    (Direction::Forward, GEMM, false),
    (Direction::BackwardWeights, "ConvAsmBwdWrW1x1", true),
    (Direction::BackwardWeights, "ConvOclBwdWrW1x1", false),
    (Direction::BackwardWeights, "ConvDirectNaiveConvWrw", false),
    (Direction::BackwardWeights, "GemmWrwUniversal", false),
];

/// What is the same however a campaign gets there.
fn lasting(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes
        .into_iter()
        .map(|outcome| Outcome { busy_ms: 0, finished_ms: 0, course: Course::default(), ..outcome })
        .collect()
}

/// Failures in a tenth of all calls: every job is accounted for, and it makes no difference who was stopped in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_with_failures_comes_to_the_same_end_however_it_gets_there() {
    let log = LogBuffer::install();
    let mut ends = Vec::new();
    for disturbed in [false, true] {
        let mut setting = Setting::new(Method::FIN, |_| {}).await;
        let state = setting.folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let faults =
            [("STAND_IN_FAULTS", "any=0.1"), ("STAND_IN_SEED", "5"), ("STAND_IN_STATE", state.to_str().unwrap())];
        let jobs: Vec<Job> = (1..=4)
            .flat_map(|n| SOLVERS.map(|(direction, solver, tunable)| (problem(n, direction), solver, tunable)))
            .map(|(conv, solver, tunable)| setting.job(&conv, if tunable { Stage::Perf } else { Stage::Find }, solver))
            .collect();
        setting.enqueue(&jobs).await;
        for _ in 0..if disturbed { 4 } else { 0 } {
            setting.compile_worker(&faults).await;
            setting.eval_worker(Tool::Fin, &faults).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
            // As if their machine had lost its power: nothing is handed back.
            setting.kill().await;
        }
        setting.compile_worker(&faults).await;
        setting.eval_worker(Tool::Fin, &faults).await;
        let outcomes = setting.finish().await;
        let progress = setting.store.progress(&setting.session.name).await.unwrap();
        let find = jobs.iter().filter(|job| job.stage == Stage::Perf).count() as u64;
        assert_eq!(progress.done, progress.planned);
        assert_eq!(progress.done.values().sum::<u64>(), jobs.len() as u64 + find);
        let failed = outcomes.iter().filter(|outcome| outcome.candidates[0].result.is_err()).count();
        assert!((3..30).contains(&failed), "{failed} of {}", outcomes.len());
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
        ends.push(lasting(outcomes));
        setting.stop().await;
    }
    for (undisturbed, disturbed) in ends[0].iter().zip(&ends[1]) {
        assert_eq!(undisturbed, disturbed, "the two ends differ");
    }
    assert_eq!(ends[0].len(), ends[1].len());
    let log = log.text();
    assert!(log.contains("serving") && !log.contains(SECRET));
}

/// What the workers log.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl LogBuffer {
    fn install() -> Self {
        let buffer = Self::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
        let _ = subscriber.with_writer(move || writer.clone()).try_init();
        buffer
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
