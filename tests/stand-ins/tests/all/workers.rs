//! Both workers with MIOpen's tools: from enqueued jobs to outcomes.

mod campaign;
mod machine;
mod setting;

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::decision::decide;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{EvalJob, compile_queue, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::session::{Budget, Session, Stage};
use bluefin_common::store::{Blobs as _, Sessions as _, Work as _};
use bluefin_common::wire;
use bluefin_compile_worker::toolchain::Fin;
use bluefin_eval_worker::{MiopenDevice, Probe};
use bluefin_miopen::driver::{EVERYTHING, FIND_ENFORCE};
use bluefin_miopen::kernel::check;
use bluefin_miopen::key::FindDbKey;
use bluefin_miopen::{ANY_SOLVER, Tool};

use crate::workers::setting::{Setting, probe, problem, target};

const TUNED: &str = "ConvAsm1x1U";
const PLAIN: &str = "ConvDirectNaiveConvFwd";
const GEMM: &str = "GemmFwdRest";

fn find_only(session: &mut Session) {
    session.stages = vec![Stage::Find];
}

fn find<'a>(outcomes: &'a [Outcome], stage: Stage, solver: &str) -> &'a Outcome {
    let wanted = |outcome: &&Outcome| outcome.job.stage == stage && outcome.job.candidates[0].solver == solver;
    outcomes.iter().find(wanted).unwrap_or_else(|| panic!("no {} outcome of {solver}", stage.name()))
}

fn kinds(outcome: &Outcome) -> Vec<Result<(), FailureKind>> {
    let kinds = outcome
        .candidates
        .iter()
        .map(|candidate| candidate.result.as_ref().map(|_| ()).map_err(|failure| failure.kind));
    kinds.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn from_perf_to_find() {
    let mut setting = Setting::new(Method::FIN, |_| {}).await;
    setting.compile_worker(&[]).await;
    setting.eval_worker(Tool::Fin, &[]).await;
    let conv = problem(4, Direction::Forward);
    let jobs = [(Stage::Perf, TUNED), (Stage::Find, PLAIN), (Stage::Find, GEMM)];
    setting.enqueue(&jobs.map(|(stage, solver)| setting.job(&conv, stage, solver))).await;
    let outcomes = setting.finish().await;
    assert_eq!(outcomes.len(), 4);
    let tuned = find(&outcomes, Stage::Perf, TUNED);
    let params = tuned.candidates[0].candidate.params_text();
    assert!(!params.is_empty());
    assert!(tuned.busy_ms > 0 && tuned.device == "gfx90a-104 through fin");
    assert!(tuned.candidates[0].built.as_ref().unwrap().objects.is_empty(), "kernels of the perf stage do not last");
    // The find stage ran with the tuned params, and what it ran with lasts.
    let found = find(&outcomes, Stage::Find, TUNED);
    assert_eq!(found.job.candidates[0].params_text(), params);
    assert_eq!(found.candidates[0].candidate.params_text(), params);
    let best = |outcome: &Outcome| outcome.candidates[0].result.as_ref().unwrap().median_ms;
    assert_eq!(best(found), best(tuned), "the stand-in measures the same params alike");
    for solver in [TUNED, PLAIN] {
        let built = find(&outcomes, Stage::Find, solver).candidates[0].built.clone().unwrap();
        assert!(!built.objects.is_empty(), "{solver}");
        for kernel in built.objects {
            let stream = setting.store.blob(kernel.artifact.digest).await.unwrap().expect("the kernel lasts");
            check(&kernel, &stream).unwrap();
        }
    }
    assert!(find(&outcomes, Stage::Find, GEMM).candidates[0].built.as_ref().unwrap().objects.is_empty());
    for outcome in &outcomes {
        let known = outcome.description.solver(&outcome.job.candidates[0].solver).unwrap();
        assert_eq!(outcome.description.library, "fin");
        assert!(known.algorithm.as_ref().unwrap().starts_with("miopenConvolutionFwdAlgo"), "{known:?}");
        assert_eq!(known.tunable, known.name == TUNED, "{known:?}");
    }
    let decision = decide(&setting.session, &outcomes).unwrap();
    assert_eq!(decision.solvers.len(), 3);
    let pins = setting.store.pins(&setting.session.name).await.unwrap();
    assert!(pins["miopen.library"].contains("ROCm 6.3.0") && pins["miopen.library"].contains("solvers "), "{pins:?}");
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_failure_is_an_outcome_of_its_kind() {
    use FailureKind::*;
    // Faults, and what they come to: where the compile step fails, and where evaluation does.
    let rows = [
        ("crash/miopen_perf_compile", ToolCrash),
        ("hang/miopen_perf_compile", Hang),
        ("empty-output/miopen_perf_compile", NoResult),
        ("uncompressed", Uncompressed),
        ("md5-mismatch", CorruptArtifact),
        ("no-kernels", MissingArtifact),
        ("wrong-key/miopen_perf_compile", KeyMismatch),
        ("crash/miopen_perf_eval", ToolCrash),
        ("hang/miopen_perf_eval", Hang),
        ("leak-environment/miopen_perf_eval", ToolCrash),
        ("missing-reason", LoadError),
        ("reson", InvalidTime),
        ("out-of-memory/miopen_perf_eval", OutOfMemory),
    ];
    for (fault, kind) in rows {
        let mut setting = Setting::new(Method::FIN, |session| session.stages = vec![Stage::Perf]).await;
        setting.compile_worker(&[("STAND_IN_FAULTS", fault)]).await;
        setting.eval_worker(Tool::Fin, &[("STAND_IN_FAULTS", fault)]).await;
        let job = setting.job(&problem(4, Direction::Forward), Stage::Perf, TUNED);
        setting.enqueue(&[job]).await;
        let outcomes = setting.finish().await;
        assert_eq!(kinds(&outcomes[0]), [Err(kind)], "{fault}: {:?}", outcomes[0].candidates[0].result);
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
        setting.stop().await;
    }
}

/// Tuning that fails leaves MIOpen's own params to the find stage; a solver that there is not is a failure.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_tuned_is_still_found() {
    let mut setting = Setting::new(Method::FIN, |_| {}).await;
    setting.compile_worker(&[]).await;
    setting.eval_worker(Tool::Fin, &[("STAND_IN_FAULTS", "crash/miopen_perf_eval")]).await;
    let conv = problem(4, Direction::Forward);
    let jobs = [(Stage::Perf, TUNED), (Stage::Find, "ConvNoSuchSolver"), (Stage::Find, "ConvAsmBwdWrW1x1")];
    setting.enqueue(&jobs.map(|(stage, solver)| setting.job(&conv, stage, solver))).await;
    let outcomes = setting.finish().await;
    assert_eq!(kinds(find(&outcomes, Stage::Find, TUNED)), [Ok(())]);
    assert_eq!(kinds(find(&outcomes, Stage::Find, "ConvNoSuchSolver")), [Err(FailureKind::UnknownSolver)]);
    assert_eq!(kinds(find(&outcomes, Stage::Find, "ConvAsmBwdWrW1x1")), [Err(FailureKind::NotApplicable)]);
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_end_what_runs_and_keep_the_rest_from_beginning() {
    let budget = Budget { solver_ms: Some(700), problem_ms: Some(600), ..Budget::default() };
    let mut setting = Setting::new(Method::FIN, |session| {
        session.budget = budget;
        session.stages = vec![Stage::Perf];
    })
    .await;
    setting.compile_worker(&[]).await;
    setting.eval_worker(Tool::Fin, &[("STAND_IN_FAULTS", "babble/miopen_perf_eval")]).await;
    let conv = problem(4, Direction::Forward);
    setting.enqueue(&[setting.job(&conv, Stage::Perf, TUNED)]).await;
    let first = setting.finish().await;
    let failure = first[0].candidates[0].result.as_ref().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Hang);
    assert!(failure.detail.starts_with("budget solver_ms"), "{}", failure.detail);
    assert!(first[0].busy_ms >= 700);
    setting.enqueue(&[setting.job(&conv, Stage::Perf, "ConvOclDirectFwd")]).await;
    let all = setting.finish().await;
    let second = find(&all, Stage::Perf, "ConvOclDirectFwd");
    assert_eq!((kinds(second), second.busy_ms), (vec![Err(FailureKind::BudgetSpent)], 0));
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_library_is_refused_at_no_cost() {
    let mut setting = Setting::new(Method::FIN, |_| {}).await;
    setting.compile_worker(&[]).await;
    let pinned = "MIOpen of another build";
    setting.store.pin(&setting.session.name, "miopen.library", pinned).await.unwrap();
    let job = setting.job(&problem(4, Direction::Forward), Stage::Perf, TUNED);
    setting.enqueue(&[job]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let progress = setting.store.progress(&setting.session.name).await.unwrap();
    assert_eq!((progress.done.len(), setting.broker.depth(DEAD_QUEUE).await.unwrap()), (0, 0));
    assert_eq!(setting.broker.depth(&eval_queue(&target(), Method::FIN)).await.unwrap(), 0);
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_is_gone_ends_its_worker_and_no_job() {
    let mut setting = Setting::new(Method::FIN, |session| session.stages = vec![Stage::Perf]).await;
    setting.compile_worker(&[]).await;
    // Seen when the worker starts, and gone with the first job.
    let gone = setting.folder.path().join("eval");
    let device = setting.device(Tool::Fin, &[]).await;
    setting.tool("eval", env!("CARGO_BIN_EXE_fin"), &[("STAND_IN_GPU", "none")]);
    assert!(gone.is_dir());
    setting.eval_worker_on(device);
    let job = setting.job(&problem(4, Direction::Forward), Stage::Perf, TUNED);
    setting.enqueue(&[job]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(setting.store.progress(&setting.session.name).await.unwrap().done.is_empty());
    // Another machine takes it.
    setting.eval_worker(Tool::Fin, &[]).await;
    assert_eq!(kinds(&setting.finish().await[0]), [Ok(())]);
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_kernel_is_compiled_again() {
    let mut setting = Setting::new(Method::FIN, |session| session.stages = vec![Stage::Perf]).await;
    setting.compile_worker(&[]).await;
    let job = setting.job(&problem(4, Direction::Forward), Stage::Perf, TUNED);
    setting.enqueue(std::slice::from_ref(&job)).await;
    // Stands in for a cache that dropped it: an eval job that names a kernel nobody has.
    let queue = eval_queue(&target(), Method::FIN);
    let mut consumer = setting.broker.consume(&queue, 1).await.unwrap();
    let delivery = consumer.next().await.unwrap();
    let mut eval: EvalJob = wire::decode(&delivery.body).unwrap();
    eval.built[0].as_mut().unwrap().objects[0].artifact = ArtifactRef::of(b"gone");
    delivery.ack().await.unwrap();
    consumer.stop().await;
    drop(consumer);
    let body = wire::encode(&eval).unwrap();
    setting.broker.publish(&queue, &job.id().to_string(), body.into()).await.unwrap();
    setting.eval_worker(Tool::Fin, &[]).await;
    assert_eq!(kinds(&setting.finish().await[0]), [Ok(())]);
    setting.stop().await;
}

/// What fin compiled is there for every session whose results it would shape alike.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_compiled_for_one_session_is_not_compiled_for_the_next() {
    let mut setting = Setting::new(Method::FIN, |_| {}).await;
    let calls = setting.folder.path().join("calls");
    setting.compile_worker(&[("STAND_IN_CALLS", calls.to_str().unwrap())]).await;
    setting.eval_worker(Tool::Fin, &[]).await;
    let conv = problem(4, Direction::Forward);
    let key = match &conv {
        Problem::Conv(conv) => FindDbKey::from(conv).to_string(),
        other => panic!("{other}"),
    };
    let (mut compiled, mut ends) = (Vec::new(), Vec::new());
    for (name, tuning) in [("one", None), ("two", None), ("three", Some("1"))] {
        setting.session.name = name.parse().unwrap();
        setting
            .session
            .environment
            .extend(tuning.map(|value| ("MIOPEN_DEBUG_CONV_GEMM".to_string(), value.to_string())));
        setting.store.create_session(&setting.session).await.unwrap();
        let jobs = [(Stage::Perf, TUNED), (Stage::Find, PLAIN), (Stage::Find, GEMM)];
        setting.enqueue(&jobs.map(|(stage, solver)| setting.job(&conv, stage, solver))).await;
        let outcomes = setting.finish().await;
        let said =
            |outcome: &Outcome| format!("{:?} {:?} {:?}", outcome.job.stage, outcome.candidates, outcome.description);
        let mut end: Vec<String> = outcomes.iter().map(said).collect();
        end.sort();
        ends.push(end);
        let calls = std::fs::read_to_string(&calls).unwrap();
        compiled.push(calls.lines().filter(|call| call.contains("_compile") && call.ends_with(&key)).count());
    }
    assert_eq!(ends[0], ends[1]);
    // Two that find by themselves, and one of each stage for the solver that is tuned.
    assert_eq!(compiled, [4, 4, 8]);
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_can_not_do_the_work_are_not_taken() {
    let setting = Setting::new(Method::FIN, |_| {}).await;
    let gpu_build = setting.tool("a", env!("CARGO_BIN_EXE_fin"), &[]);
    let error = Fin::probe(&gpu_build, Vec::new()).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("HIPNOGPU"), "{error}");
    let refusal = async |variables: &[(&str, &str)]| {
        let program = setting.tool("b", env!("CARGO_BIN_EXE_fin"), variables);
        let probe = Probe { gpu: None, ..probe(Tool::Fin, &program) };
        MiopenDevice::probe(probe).await.map(|_| ()).unwrap_err().to_string()
    };
    assert!(refusal(&[("STAND_IN_BACKEND", "HIPNOGPU")]).await.contains("backend"));
    assert!(refusal(&[("STAND_IN_GPU", "none")]).await.contains("no ROCm-capable device"));
}

#[tokio::test(flavor = "multi_thread")]
async fn miopendriver_finds_tunes_and_is_harvested() {
    for (enforced, form) in [(None, "text"), (Some(EVERYTHING), "sqlite")] {
        let mut setting = Setting::new(Method::MIOPENDRIVER, |session| {
            session.stages = vec![Stage::Find];
            session.environment.extend(enforced.map(|value| (FIND_ENFORCE.to_string(), value.to_string())));
        })
        .await;
        setting.eval_worker(Tool::MiopenDriver, &[("STAND_IN_PERF_DB", form)]).await;
        let conv = problem(4, Direction::Forward);
        setting.enqueue(&[setting.job(&conv, Stage::Find, ANY_SOLVER)]).await;
        let outcomes = setting.finish().await;
        let found: BTreeMap<&str, String> = outcomes[0]
            .candidates
            .iter()
            .map(|found| (found.candidate.solver.as_str(), found.candidate.params_text()))
            .collect();
        assert!(found.len() > 3 && !found[TUNED].is_empty() && found[GEMM].is_empty(), "{found:?}");
        let winner = &outcomes[0].candidates[0];
        let built = winner.built.as_ref().unwrap();
        assert!(!built.objects.is_empty());
        for kernel in &built.objects {
            assert!(!kernel.options.contains("-mcpu") && !kernel.file.ends_with(".o"), "{kernel:?}");
            check(kernel, &setting.store.blob(kernel.artifact.digest).await.unwrap().unwrap()).unwrap();
        }
        let description = &outcomes[0].description;
        assert_eq!((description.library.as_str(), description.solvers.len()), ("miopendriver", found.len()));
        for known in &description.solvers {
            assert!(known.algorithm.as_ref().unwrap().starts_with("miopenConvolutionFwdAlgo"), "{known:?}");
            assert_eq!(known.tunable, !found[known.name.as_str()].is_empty(), "{known:?}");
        }
        assert_eq!(decide(&setting.session, &outcomes).unwrap().solvers.len(), found.len());
        assert_eq!(setting.broker.depth(&compile_queue("miopendriver", &setting.session.target)).await.unwrap(), 0);
        setting.stop().await;
    }
}

/// The kernels of solvers that lost, and of params that did, were compiled for the search; they do not go along with the winner. Where
/// it can not be run alone, it is what its source files were compiled into.
#[tokio::test(flavor = "multi_thread")]
async fn miopendrivers_kernels_are_those_that_the_winner_uses() {
    for faults in ["", "crash/driver-alone"] {
        let mut setting = Setting::new(Method::MIOPENDRIVER, find_only).await;
        setting.eval_worker(Tool::MiopenDriver, &[("STAND_IN_FAULTS", faults)]).await;
        let three = |n| {
            let shape = ConvShape {
                n,
                c: 64,
                k: 64,
                input: [1, 8, 8],
                filter: [1, 3, 3],
                ..ConvShape::plain(Direction::Forward, DataType::Fp32)
            };
            Problem::Conv(ConvProblem::new(shape).unwrap())
        };
        setting.enqueue(&[1, 2, 3, 4].map(|n| setting.job(&three(n), Stage::Find, ANY_SOLVER))).await;
        let outcomes = setting.finish().await;
        assert_eq!(outcomes.len(), 4);
        let mut tuned = 0;
        for outcome in &outcomes {
            assert!(outcome.candidates.iter().any(|found| found.candidate.solver == "ConvAsm3x3U"));
            let winner = &outcome.candidates[0];
            let solver = bluefin_stand_ins::solvers().find(|known| known.name == winner.candidate.solver).unwrap();
            let Problem::Conv(conv) = &outcome.job.problem else { panic!("{}", outcome.job.problem) };
            let key = FindDbKey::from(conv).to_string();
            let names = |params: &str| {
                let kernels = solver.kernels(&key, params, "gfx90a").into_iter();
                kernels.map(|kernel| (kernel.file, kernel.options)).collect::<Vec<_>>()
            };
            let objects = &winner.built.as_ref().unwrap().objects;
            let found: Vec<_> = objects.iter().map(|kernel| (kernel.file.clone(), kernel.options.clone())).collect();
            let own = names(&winner.candidate.params_text());
            let tried = solver.space(&key);
            if faults.is_empty() {
                assert_eq!(found, own, "{}", solver.name);
            }
            let compiled = tried.iter().flat_map(|params| names(params));
            let left_behind = compiled.filter(|kernel| !found.contains(kernel)).count();
            let lost = if faults.is_empty() { tried.len().saturating_sub(1) } else { 0 };
            assert_eq!(left_behind, lost, "{}", solver.name);
            tuned += u32::from(tried.len() > 1);
        }
        assert!(tuned > 0, "no winner has params that lost");
        setting.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn miopendriver_fails_by_kind() {
    use FailureKind::*;
    for (fault, kind) in [
        ("crash", ToolCrash),
        ("exit-code", ToolCrash),
        ("hang", Hang),
        ("empty-output", NoResult),
        ("wrong-key", KeyMismatch),
        ("out-of-memory", OutOfMemory),
        ("leak-environment", ToolCrash),
        ("zero-time", InvalidTime),
    ] {
        let mut setting = Setting::new(Method::MIOPENDRIVER, find_only).await;
        setting.eval_worker(Tool::MiopenDriver, &[("STAND_IN_FAULTS", fault)]).await;
        let mut job = setting.job(&problem(4, Direction::Forward), Stage::Find, TUNED);
        job.candidates[0].solver = TUNED.to_string();
        setting.enqueue(&[job]).await;
        let outcomes = setting.finish().await;
        assert_eq!(kinds(&outcomes[0]), [Err(kind)], "{fault}: {:?}", outcomes[0].candidates);
        setting.stop().await;
    }
    // A solver that was asked for and does not apply.
    let mut setting = Setting::new(Method::MIOPENDRIVER, find_only).await;
    setting.eval_worker(Tool::MiopenDriver, &[]).await;
    let mut job = setting.job(&problem(4, Direction::Forward), Stage::Find, TUNED);
    job.candidates
        .push(setting.job(&problem(4, Direction::Forward), Stage::Find, "ConvAsmBwdWrW1x1").candidates.remove(0));
    setting.enqueue(&[job]).await;
    assert_eq!(kinds(&setting.finish().await[0]), [Ok(()), Err(NoResult)]);
    setting.stop().await;
}
