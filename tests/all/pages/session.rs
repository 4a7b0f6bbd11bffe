//! A session in a state file that nobody has tuned, whose names are those of somebody who means ill.

use std::path::Path;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::candidate::Candidate;
use bluefin_common::course::{Course, Worked};
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::metrics::Step;
use bluefin_common::outcome::{CandidateOutcome, DeviceState, Outcome, Timing};
use bluefin_common::problem::{AiterProblem, Problem, driver};
use bluefin_common::roster::{EVERY, Presence};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Planned, Sessions as _, Work as _};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_common::waiting::Waiting;
use tokio_util::sync::CancellationToken;

/// What none of the pages may take for a part of itself; in pictures for readers, a word.
pub fn planted() -> &'static str {
    if std::env::var_os("BLUEFIN_TEST_SCREENSHOTS").is_some() { "example" } else { "<script>window.planted=1</script>" }
}

const BEGAN_MS: u64 = 1_760_000_000_000;

/// What is in a session.
struct Names {
    problems: Vec<Problem>,
    solvers: [String; 2],
    params: Vec<String>,
}

/// Writes `problems` problems with `candidates` each into a state file, session `planted`.
pub async fn write(path: &Path, problems: u64, candidates: u64) {
    let problem = |index| {
        let name = if index == 0 { planted().to_string() } else { format!("shape-{index}") };
        Problem::Aiter(AiterProblem::new("gemm".to_string(), vec![("M".to_string(), name)]).unwrap())
    };
    let streaming = format!("Streaming <b>{}</b>", planted()).replace("<b>example</b>", "");
    let names = Names {
        problems: (0..problems).map(problem).collect(),
        solvers: ["Tiled".to_string(), streaming.trim().to_string()],
        params: vec!["TILE".to_string(), format!("UNROLL{}", planted())],
    };
    fill(path, &names, candidates).await;
}

/// The same with the convolutions of ResNet-50, and names as long as those of the solvers that are shipped.
pub async fn write_resnet(path: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/resnet50.txt");
    let commands = std::fs::read_to_string(file).unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("./bin/MIOpenDriver "));
    let names = Names {
        problems: commands.flat_map(|line| driver::parse(line, None).unwrap()).collect(),
        solvers: ["BluefinConvBwdWeightsHostGemm", "BluefinConvBwdWeightsHostDirect"].map(str::to_string),
        params: ["VL", "TK", "TV", "KC", "NC", "ORDER"].map(str::to_string).into(),
    };
    fill(path, &names, 40).await;
}

async fn fill(path: &Path, names: &Names, candidates: u64) {
    let store = SqliteStore::open(path).await.unwrap();
    let label = format!("label {}", planted());
    let session = Session::of_kernels("planted".parse().unwrap(), Target::Host, &label, &[Stage::Perf], BEGAN_MS);
    store.create_session(&session).await.unwrap();
    store.pin(&session.name, "device.host", planted()).await.unwrap();
    for index in 0..names.problems.len() {
        let outcome = outcome(&session, names, index as u64, candidates);
        store.plan(&session.name, &[Planned::of(&outcome.job)]).await.unwrap();
        store.put_last_outcome(&outcome).await.unwrap();
    }
    let waiting = Waiting::default();
    let presence = Presence::new(Step::Eval, planted(), vec!["host".to_string()], EVERY, &waiting);
    let stop = CancellationToken::new();
    stop.cancel();
    presence.keep(&store, &stop).await;
    store.close().await;
}

fn outcome(session: &Session, names: &Names, index: u64, candidates: u64) -> Outcome {
    let params = |at: u64| {
        let values = [at / 2 % 8, 1 + at / 16].into_iter().chain(std::iter::repeat(144));
        values.take(names.params.len()).map(|value| Value::Int(value as i64)).collect::<Vec<_>>()
    };
    let solver = |name: &String| SolverInfo {
        name: name.clone(),
        params: names.params.clone(),
        default: Some(params(0)),
        ..SolverInfo::default()
    };
    let candidate = |at: u64| Candidate { solver: names.solvers[at as usize % 2].clone(), params: params(at) };
    let result = |at: u64| {
        if at % 29 == 7 {
            let detail = format!("error: no such register {}\nnote: {}", planted(), at % 3);
            return Err(Failure::new(FailureKind::CompileError, detail));
        }
        // Slower, then faster, with some noise that is the same each time.
        let noise = ((at * 2_654_435_761 + index * 97) % 1000) as f64 / 1000.0;
        let median_ms = 0.2 + index as f64 % 7.0 * 0.1 + noise + 3.0 / (1.0 + at as f64);
        let spread_ms = 0.01 * median_ms;
        Ok(Timing { spread_ms, clock_mhz: 1700 + (at % 50) as u32, cold: true, ..Timing::single(median_ms) })
    };
    let candidates: Vec<_> = (0..candidates).map(|at| CandidateOutcome::of(candidate(at), None, result(at))).collect();
    let job = Job {
        session: session.name.clone(),
        stage: Stage::Perf,
        target: Target::Host,
        problem: names.problems[index as usize].clone(),
        method: Method::KERNELS,
        spec: Digest::of(b"a spec"),
        toolchain: "cc".to_string(),
        candidates: candidates.iter().map(|one| one.candidate.clone()).collect(),
        round: 0,
        lane: Lane::First,
    };
    let begun_ms = BEGAN_MS + 1000 * index;
    let work = |worker: &str, from: u64, to: u64| {
        Some(Worked { worker: worker.to_string(), begun_ms: begun_ms + from, ended_ms: begun_ms + to })
    };
    let description = Description {
        library: format!("spec {}", planted()),
        reference: Some(candidate(2)),
        solvers: names.solvers.iter().map(solver).collect(),
        ..Description::default()
    };
    let state = DeviceState { temperature_c: Some(60), reference_clock_mhz: Some(1750), ..DeviceState::default() };
    let course = Course {
        enqueued_ms: begun_ms,
        recompiles: 0,
        compiled: work(&format!("compile-{}", index % 3), 100, 700),
        evaluated: work(&format!("eval {}", planted()), 800, 1700),
    };
    Outcome {
        task: None,
        candidates,
        device: "a device".to_string(),
        device_state: state,
        protocol: 1,
        busy_ms: 900,
        finished_ms: begun_ms + 1700,
        nondeterministic: Vec::new(),
        course,
        ..Outcome::undone(&job, description, Vec::new(), 0)
    }
}
