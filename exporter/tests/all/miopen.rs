//! Sessions of MIOpen's own solvers, from outcomes to databases.

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, Packed};
use bluefin_common::candidate::Candidate;
use bluefin_common::decision::follow_ups;
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Blobs as _, Sessions as _, Work as _};
use bluefin_common::value::Value;
use bluefin_exporter::{ExportRequest, export};
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelDb;
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::db::{compress, md5_hex};
use bluefin_miopen::key::batch_norm;

const ALGORITHM: &str = "miopenConvolutionFwdAlgoDirect";

fn session(method: Method) -> Session {
    let plain = Session::of_kernels("m".parse().unwrap(), "gfx90a-104".parse().unwrap(), "", &Stage::ALL, 0);
    Session { method, ..plain }
}

fn job(session: &Session, stage: Stage, candidate: Candidate) -> Job {
    let problem = Problem::Conv(ConvProblem::new(ConvShape::plain(Direction::Forward, DataType::Fp32)).unwrap());
    Job {
        session: session.name.clone(),
        stage,
        target: session.target.clone(),
        problem,
        method: session.method,
        spec: Digest::of(b""),
        toolchain: session.method.name.to_string(),
        candidates: vec![candidate],
        round: 0,
        lane: Lane::First,
    }
}

fn candidate(solver: &str, params: &str) -> Candidate {
    let params = if params.is_empty() { Vec::new() } else { vec![Value::from(params)] };
    Candidate { solver: solver.to_string(), params }
}

async fn kernel(store: &SqliteStore, file: &str) -> CodeObject {
    let code = file.repeat(200).into_bytes();
    let blob = compress(&code).unwrap();
    store.put_blob(&blob).await.unwrap();
    CodeObject {
        artifact: ArtifactRef::of(&blob),
        file: file.to_string(),
        options: " -Dx=1".to_string(),
        packed: Some(Packed { md5: md5_hex(&code), size: code.len() as u64 }),
    }
}

/// What a tool found, and whether its solver is tunable.
fn timed(found: Candidate, ms: f64, tunable: bool, objects: Vec<CodeObject>) -> (CandidateOutcome, bool) {
    let built = Built { objects, launches: Vec::new(), workspace: 64 };
    (CandidateOutcome::of(found, Some(built), Ok(Timing::single(ms))), tunable)
}

fn done(job: &Job, found: Vec<(CandidateOutcome, bool)>) -> Outcome {
    let solvers = found.iter().filter(|(outcome, _)| outcome.built.is_some()).map(|(outcome, tunable)| SolverInfo {
        name: outcome.candidate.solver.clone(),
        algorithm: Some(ALGORITHM.to_string()),
        tunable: *tunable,
        ..SolverInfo::default()
    });
    let description =
        Description { library: job.method.to_string(), solvers: solvers.collect(), ..Description::default() };
    Outcome::undone(job, description, found.into_iter().map(|(outcome, _)| outcome).collect(), 1)
}

async fn files(store: &SqliteStore, session: &Session) -> (FindDb, PerfDb, KernelDb, Vec<String>) {
    let out = tempfile::tempdir().unwrap();
    let request = ExportRequest::all(out.path().to_path_buf());
    let report = export(store, &session.name, &request).await.unwrap();
    let read = |name: &str| std::fs::read(out.path().join(name)).unwrap();
    (
        FindDb::parse("f", &read("gfx90a68.HIP.fdb.txt")).unwrap(),
        PerfDb::parse_text("p", &read("gfx90a68.db.txt")).unwrap(),
        KernelDb::parse("k", &read("gfx90a68.kdb")).unwrap(),
        report.warnings,
    )
}

#[tokio::test]
async fn what_fin_tuned_and_found_becomes_three_databases() {
    let (store, session) = (SqliteStore::in_memory().unwrap(), session(Method::FIN));
    store.create_session(&session).await.unwrap();
    // Two tuned solvers, of which one failed, and one that is not tunable.
    let perf = job(&session, Stage::Perf, candidate("ConvAsm1x1U", ""));
    let best = candidate("ConvAsm1x1U", "8,16,1");
    let perf = done(&perf, vec![timed(best.clone(), 3.0, true, Vec::new())]);
    let lost = job(&session, Stage::Perf, candidate("ConvAsm3x3U", ""));
    let hang = Err(Failure::new(FailureKind::Hang, "no end"));
    let hung = CandidateOutcome::of(candidate("ConvAsm3x3U", ""), None, hang);
    let lost = done(&lost, vec![(hung, false)]);
    let next = follow_ups(&session, &[perf.clone(), lost.clone()]);
    assert_eq!(
        next.iter().map(|job| job.candidates[0].clone()).collect::<Vec<_>>(),
        [best.clone(), candidate("ConvAsm3x3U", "")]
    );

    let fast = kernel(&store, "fast.s").await;
    let naive = job(&session, Stage::Find, candidate("ConvDirectNaiveConvFwd", ""));
    let slow = kernel(&store, "slow.cpp").await;
    let finals = [
        // Of params that were the best before more was tuned: it does not count.
        done(
            &job(&session, Stage::Find, candidate("ConvAsm1x1U", "1,1,1")),
            vec![timed(candidate("ConvAsm1x1U", "1,1,1"), 0.5, true, vec![slow.clone()])],
        ),
        done(&next[0], vec![timed(best, 2.0, true, vec![fast.clone()])]),
        done(&next[1], vec![timed(candidate("ConvAsm3x3U", "7,8"), 2.5, true, vec![slow.clone()])]),
        done(&naive, vec![timed(candidate("ConvDirectNaiveConvFwd", ""), 9.0, false, vec![slow])]),
    ];
    for outcome in [&perf, &lost].into_iter().chain(&finals) {
        store.put_outcome(outcome).await.unwrap();
    }
    store.settle_group(&session.name, perf.group()).await.unwrap();

    let (find, perf, kernels, warnings) = files(&store, &session).await;
    let entries = find.records.values().next().unwrap();
    let solvers: Vec<_> = entries.iter().map(|entry| (&*entry.solver, entry.time_ms, entry.workspace)).collect();
    assert_eq!(solvers, [("ConvAsm1x1U", 2.0, 64), ("ConvAsm3x3U", 2.5, 64), ("ConvDirectNaiveConvFwd", 9.0, 64)]);
    assert!(entries.iter().all(|entry| &*entry.algorithm == ALGORITHM));
    let params: Vec<_> = perf.records.values().next().unwrap().iter().map(|(s, p)| (&**s, &**p)).collect();
    assert_eq!(params, [("ConvAsm1x1U", "8,16,1"), ("ConvAsm3x3U", "7,8")]);
    let [row] = kernels.rows.as_slice() else { panic!("{kernels:?}") };
    assert_eq!((row.kernel.name.as_str(), row.kernel.args.as_str()), ("fast.s.o", " -Dx=1 -mcpu=gfx90a"));
    assert_eq!(Some(Packed { md5: row.hash.clone(), size: row.uncompressed_size }), fast.packed);
    assert_eq!(row.code().unwrap(), "fast.s".repeat(200).into_bytes());
    assert_eq!(warnings, [""; 0]);
}

#[tokio::test]
async fn what_miopendriver_left_becomes_the_same_and_a_wrong_kernel_is_told() {
    let (store, session) = (SqliteStore::in_memory().unwrap(), session(Method::MIOPENDRIVER));
    store.create_session(&session).await.unwrap();
    let found = job(&session, Stage::Find, candidate("*", ""));
    let mut bad = kernel(&store, "bad.s").await;
    bad.packed.as_mut().unwrap().md5 = "0".repeat(32);
    let outcome = done(
        &found,
        vec![
            timed(candidate("ConvAsm1x1U", "1,2"), 1.0, true, vec![bad]),
            timed(candidate("GemmFwdRest", ""), 4.0, false, Vec::new()),
        ],
    );
    store.put_outcome(&outcome).await.unwrap();
    store.settle_group(&session.name, outcome.group()).await.unwrap();
    let (find, perf, kernels, warnings) = files(&store, &session).await;
    assert_eq!(find.records.values().next().unwrap().len(), 2);
    assert_eq!(perf.rows(), 1);
    assert!(kernels.rows.is_empty());
    assert!(
        warnings.len() == 1 && warnings[0].contains("bad.s.o") && warnings[0].contains("kernel_hash"),
        "{warnings:?}"
    );
}

/// Of batch norms MIOpen has a perf db of their own, and no find db.
#[tokio::test]
async fn what_was_tuned_of_a_batch_norm_becomes_a_perf_db_of_batch_norms() {
    let (store, session) = (SqliteStore::in_memory().unwrap(), session(Method::FIN));
    store.create_session(&session).await.unwrap();
    let key = "2x256x1024x14x14x1x0x0x1xNHWCxBwdxFP16x1";
    let norm = Problem::BatchNorm(batch_norm::problem(key).unwrap());
    let asked = job(&session, Stage::Perf, candidate("BnCKBwdBackward", ""));
    let found = done(
        &Job { problem: norm, ..asked },
        vec![timed(candidate("BnCKBwdBackward", "Kernel<1, 2>"), 1.0, true, Vec::new())],
    );
    store.put_outcome(&found).await.unwrap();
    store.settle_group(&session.name, found.group()).await.unwrap();
    let out = tempfile::tempdir().unwrap();
    export(&store, &session.name, &ExportRequest::all(out.path().to_path_buf())).await.unwrap();
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    assert_eq!(read("batchnorm_gfx90a68.db.txt"), format!("{key}=BnCKBwdBackward:Kernel<1, 2>\n"));
    assert_eq!((read("gfx90a68.HIP.fdb.txt"), read("gfx90a68.db.txt")), (String::new(), String::new()));
}

/// What MIOpen has no solver for is in the files, and whoever installs them would gain nothing.
#[tokio::test]
async fn records_that_miopen_ignores_are_told() {
    let (store, session) = (SqliteStore::in_memory().unwrap(), session(Method::FIN));
    store.create_session(&session).await.unwrap();
    let asked = job(&session, Stage::Find, candidate("BluefinConvFwdGpuDirect", ""));
    let found = done(&asked, vec![timed(candidate("BluefinConvFwdGpuDirect", ""), 1.0, false, Vec::new())]);
    store.put_outcome(&found).await.unwrap();
    store.settle_group(&session.name, found.group()).await.unwrap();
    let out = tempfile::tempdir().unwrap();
    let report = export(&store, &session.name, &ExportRequest::all(out.path().to_path_buf())).await.unwrap();
    let [note] = report.notes.as_slice() else { panic!("{report:?}") };
    assert!(note.starts_with("1 solvers such as BluefinConvFwdGpuDirect are bluefin's own: MIOpen"), "{note}");
    assert_eq!(report.warnings, [""; 0]);
}
