//! bluefin's calls of fin against a program that keeps to its protocol, and breaks it on demand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::target::Target;
use bluefin_miopen::fin::{Answer, CompiledItem, Done, Fin, Request, Step, Trouble, compiled, evaluated};
use bluefin_miopen::kernel::to_wire;
use bluefin_miopen::key::PerfDbKey;
use bluefin_miopen::place::Place;
use bluefin_miopen::process::Watch;
use bluefin_miopen::solver;
use bluefin_stand_ins::wrap;
use tempfile::TempDir;

const SOLVER: &str = "ConvAsm1x1U";

fn target() -> Target {
    "gfx90a-104".parse().unwrap()
}

fn conv(n: u32) -> ConvProblem {
    let shape = ConvShape { n, c: 64, k: 64, input: [1, 8, 8], ..ConvShape::plain(Direction::Forward, DataType::Fp16) };
    ConvProblem::new(shape).unwrap()
}

fn problem(n: u32) -> Problem {
    Problem::Conv(conv(n))
}

/// A fin with these variables; the folder must outlive it.
fn fin(variables: &[(&str, &str)]) -> (TempDir, Fin) {
    let folder = tempfile::tempdir().unwrap();
    let path = wrap(folder.path(), Path::new(env!("CARGO_BIN_EXE_fin")), variables);
    (folder, Fin::new(path, Vec::new()))
}

fn watch() -> Watch {
    Watch {
        time: Duration::from_secs(20),
        silence: Duration::from_secs(2),
        processor_counts: false,
        ..Watch::default()
    }
}

async fn ask(fin: &Fin, request: Request, place: &Place, watch: &Watch) -> Result<Answer, Trouble> {
    fin.call(&[request], place, watch).await.map(|(answers, _)| answers.into_iter().next().unwrap())
}

/// Compiles, then evaluates what was compiled, as two machines do.
async fn both(variables: &[(&str, &str)], steps: [Step; 2]) -> Result<(String, f64), Failure> {
    let with = |backend| [variables, &[("STAND_IN_BACKEND", backend)]].concat();
    let place = Place::new(None).unwrap();
    let (_folder, compiler) = fin(&with("HIPNOGPU"));
    let request = Request::compile(steps[0], &target(), &problem(1), SOLVER).unwrap();
    let answer = ask(&compiler, request, &place, &watch()).await.map_err(Trouble::into_failure)?;
    let solver = compiled(steps[0], answer, &problem(1), SOLVER)?;
    let item = CompiledItem {
        solver_name: SOLVER.to_string(),
        algorithm: solver.algorithm,
        workspace: solver.workspace,
        tunable: solver.tunable,
        done: if steps[0] == Step::FindCompile { Done::Find(true) } else { Done::Perf(true) },
        kernel_objects: solver.kernels.iter().map(|(kernel, stream)| to_wire(kernel, stream).unwrap()).collect(),
    };
    let request = Request::evaluate(steps[1], &target(), &problem(1), item).unwrap();
    let (_folder, evaluator) = fin(&with("HIP"));
    let answer = ask(&evaluator, request, &place, &watch()).await.map_err(Trouble::into_failure)?;
    evaluated(steps[1], answer, &problem(1), SOLVER).map(|result| (result.params, result.time_ms))
}

const PERF: [Step; 2] = [Step::PerfCompile, Step::PerfEval];
const FIND: [Step; 2] = [Step::FindCompile, Step::FindEval];

#[tokio::test]
async fn both_stages_in_both_generations() {
    for generation in ["2024", "2022"] {
        let variables = [("STAND_IN_GENERATION", generation)];
        let (params, time) = both(&variables, PERF).await.unwrap();
        assert!(!params.is_empty() && time > 0.0);
        assert_eq!(both(&variables, PERF).await.unwrap(), (params.clone(), time), "the same question, the same answer");
        let (default, slower) = both(&variables, FIND).await.unwrap();
        assert!(slower >= time, "{default} {slower} {params} {time}");
    }
}

#[tokio::test]
async fn what_goes_wrong_has_its_kind() {
    use FailureKind::*;
    let rows = [
        ("crash", ToolCrash),
        ("exit-code", ToolCrash),
        ("hang", Hang),
        ("empty-output", NoResult),
        ("garbage", MalformedOutput),
        ("no-key", NoResult),
        ("no-entry", NoResult),
        ("missing-reason", LoadError),
        ("reson", InvalidTime),
        ("zero-time", InvalidTime),
        ("negative-time", InvalidTime),
        ("legacy", NotApplicable),
        ("not-applicable", NotApplicable),
        ("exception", SolverError),
        ("corrupt-blob", CorruptArtifact),
        ("md5-mismatch", CorruptArtifact),
        ("uncompressed", Uncompressed),
        ("no-kernels", MissingArtifact),
        ("wrong-arch", WrongTarget),
        ("out-of-memory", OutOfMemory),
        ("leak-environment", ToolCrash),
        ("wrong-key", KeyMismatch),
    ];
    for (fault, kind) in rows {
        let variables = [("STAND_IN_FAULTS", fault), ("BLUEFIN_PASSWORD", "hunter2")];
        for steps in [PERF, FIND] {
            let failure = both(&variables, steps).await.expect_err(fault);
            assert_eq!(failure.kind, kind, "{fault}: {}", failure.detail);
            assert!(!failure.detail.contains("hunter2"), "{fault}: {}", failure.detail);
        }
    }
}

#[tokio::test]
async fn a_tool_that_talks_and_never_ends_is_ended() {
    let (_folder, fin) = fin(&[("STAND_IN_BACKEND", "HIPNOGPU"), ("STAND_IN_FAULTS", "babble")]);
    let request = Request::compile(Step::FindCompile, &target(), &problem(1), SOLVER).unwrap();
    let short = Watch { time: Duration::from_millis(700), ..watch() };
    let trouble = ask(&fin, request, &Place::new(None).unwrap(), &short).await.unwrap_err();
    let failure = trouble.into_failure();
    assert_eq!(failure.kind, FailureKind::Hang);
    assert!(failure.detail.contains("the time that it may take"), "{}", failure.detail);
}

#[tokio::test]
async fn a_disk_that_fails_once_is_tried_again() {
    let state = tempfile::tempdir().unwrap();
    let variables = [("STAND_IN_FAULTS", "disk-io"), ("STAND_IN_STATE", state.path().to_str().unwrap())];
    assert!(both(&variables, FIND).await.is_ok());
    // And again and again is this machine's trouble, and nobody's failure.
    let (_folder, fin) = fin(&[("STAND_IN_BACKEND", "HIPNOGPU"), ("STAND_IN_FAULTS", "disk-io")]);
    let request = Request::compile(Step::FindCompile, &target(), &problem(1), SOLVER).unwrap();
    let trouble = ask(&fin, request, &Place::new(None).unwrap(), &watch()).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Machine(_)), "{trouble:?}");
}

#[tokio::test]
async fn the_tuned_params_are_found_under_both_names() {
    let key = PerfDbKey::from(&conv(1));
    for form in ["text", "sqlite"] {
        let (_folder, fin) = fin(&[("STAND_IN_BACKEND", "HIPNOGPU"), ("STAND_IN_PERF_DB", form)]);
        let compile = async |place: &Place| {
            let request = Request::compile(Step::FindCompile, &target(), &problem(1), SOLVER).unwrap();
            let answer = ask(&fin, request, place, &watch()).await.unwrap();
            answer.miopen_find_compile_result.unwrap().remove(0).params.unwrap()
        };
        let default = compile(&Place::new(None).unwrap()).await;
        let mut tuned = Place::new(None).unwrap();
        tuned.tuned(&target(), key.clone(), SOLVER, "4,2,16,77").unwrap();
        assert_eq!(compile(&tuned).await, "4,2,16,77", "{form}");
        assert_ne!(default, "4,2,16,77");
    }
}

#[tokio::test]
async fn solvers_and_what_they_apply_to() {
    let (_folder, fin_of_2024) = fin(&[("STAND_IN_BACKEND", "HIPNOGPU")]);
    let all = fin_of_2024.solvers().await.unwrap();
    assert!(
        all.iter().any(|solver| solver.name == "ConvWinograd3x3MultipassWrW<3-4>" && solver.dynamic && !solver.tunable)
    );
    let (_folder2, fin_of_2022) = fin(&[("STAND_IN_GENERATION", "2022")]);
    assert_eq!(fin_of_2022.solvers().await.unwrap().len(), bluefin_stand_ins::solvers().count());
    let (_folder3, lacking) = fin(&[("STAND_IN_LACKS", SOLVER)]);
    assert_ne!(solver::digest(&lacking.solvers().await.unwrap()), solver::digest(&all));

    let problems: Vec<Problem> = (1..=7).map(problem).collect();
    let place = Place::new(None).unwrap();
    let found = fin_of_2024.applicability(&target(), &problems, &place, &watch()).await.unwrap();
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|solvers| solvers.as_ref().unwrap().contains(&SOLVER.to_string())));
}

#[tokio::test]
async fn one_bad_problem_spoils_no_batch() {
    let calls = tempfile::NamedTempFile::new().unwrap();
    // A seed with which some of the problems crash the process.
    let variables =
        [("STAND_IN_FAULTS", "crash=0.2"), ("STAND_IN_SEED", "3"), ("STAND_IN_CALLS", calls.path().to_str().unwrap())];
    let (_folder, fin) = fin(&variables);
    let problems: Vec<Problem> = (1..=16).map(problem).collect();
    let found = fin.applicability(&target(), &problems, &Place::new(None).unwrap(), &watch()).await.unwrap();
    let failed = found.iter().filter(|found| found.is_err()).count();
    assert!((1..16).contains(&failed), "{failed} of 16");
    for failure in found.iter().filter_map(|found| found.as_ref().err()) {
        assert_eq!(failure.kind, FailureKind::ToolCrash);
    }
    assert!(std::fs::read_to_string(calls.path()).unwrap().lines().count() > 16);
}

#[tokio::test]
async fn builds_are_told_apart_by_what_they_can_do() {
    let none: PathBuf = "/nowhere/fin".into();
    assert!(matches!(Fin::new(none, Vec::new()).solvers().await, Err(Trouble::Machine(_))));
    let (_a, compiler) = fin(&[("STAND_IN_BACKEND", "HIPNOGPU")]);
    let (_b, evaluator) = fin(&[("STAND_IN_BACKEND", "HIP")]);
    let (_c, blind) = fin(&[("STAND_IN_BACKEND", "HIP"), ("STAND_IN_GPU", "none")]);
    assert_eq!(compiler.try_compile(&target()).await, Ok(()));
    assert!(matches!(evaluator.try_compile(&target()).await, Err(Trouble::WrongBackend(_))));
    assert!(matches!(compiler.try_compile(&"gfx1201-32".parse().unwrap()).await, Err(Trouble::WrongTarget(_))));
    assert_eq!(evaluator.try_gpu(&target(), Some("0")).await, Ok(()));
    assert!(matches!(compiler.try_gpu(&target(), None).await, Err(Trouble::WrongBackend(_))));
    assert!(matches!(blind.try_gpu(&target(), None).await, Err(Trouble::NoDevice(_))));
}
