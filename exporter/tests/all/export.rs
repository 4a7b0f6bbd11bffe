//! Sessions exported whole, from made-up outcomes to files on disk.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::problem::Direction;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Blobs as _, Sessions as _, Store, Work as _};
use bluefin_common::value::Value;
use bluefin_exporter::summary::{summaries, summarize};
use bluefin_exporter::{ExportReport, ExportRequest, export};
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelDb;
use bluefin_miopen::db::perf_db::PerfDb;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;

use crate::support::{CONV, Sample, Spec, code, conv, outcomes, session};

/// A user's own kernel.
const USER: &str = r#"
name = "scale"
problem = "kernel"
toolchain = "noop"
targets = ["gfx90a"]
source = "scale.hip"
reference = "Scale"

[sizes]
n = 1000

[[buffer]]
name = "y"
type = "FP32"
length = "n"
role = "output"

[tolerance.FP32]
absolute = 1e-3
relative = 1e-3

[[solver]]
name = "Scale"
algorithm = "Direct"
[[solver.param]]
name = "BLOCK"
values = [64, 128]
default = 64
[[solver.launch]]
entry = "scale"
arguments = ["y"]
grid = ["ceil_div(n, BLOCK)"]
block = ["BLOCK"]
"#;

fn request(out: &Path) -> ExportRequest {
    ExportRequest::all(out.to_path_buf())
}

async fn exported(store: &dyn Store, out: &Path) -> ExportReport {
    export(store, &"nightly".parse().unwrap(), &request(out)).await.unwrap()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.read_dir().unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// The larger the tile the faster, up to 32; the default (1, 1) takes 8 ms, the reference 40.
fn times(stage: Stage, candidate: &Candidate) -> Result<f64, FailureKind> {
    let find = if stage == Stage::Find { 0.01 } else { 0.0 };
    let median = match (candidate.solver.as_str(), candidate.params.as_slice()) {
        ("TinyReference", _) => 40.0,
        ("TinyFft" | "OtherFft", _) => 0.5,
        ("Scale", [Value::Int(block)]) => 100.0 / *block as f64,
        (_, [Value::Int(tile), Value::Int(unroll)]) if *tile <= 32 => 8.0 / (*tile * *unroll) as f64,
        (_, _) => 16.0,
    };
    Ok(median + find)
}

/// Two convolutions and a kernel.
fn sample(session: &Session) -> Sample {
    let (tiny, user) = (Spec::new(CONV), Spec::new(USER));
    let scale = user.spec.problem(&BTreeMap::new()).unwrap();
    let groups = vec![
        outcomes(session, &tiny, &conv(Direction::Forward, 4), &times),
        outcomes(session, &tiny, &conv(Direction::BackwardData, 4), &times),
        outcomes(session, &user, &scale, &times),
    ];
    Sample::new(session, &[&tiny, &user], groups)
}

const FIND: &str = "\
16-14-13-1x1-8-14-13-4-0x0-1x1-1x1-0-NCHW-FP32-B=TinyTiled:0.135,32768,miopenConvolutionBwdDataAlgoImplicitGEMM;\
TinyFft:0.51,0,miopenConvolutionBwdDataAlgoFFT;TinyReference:40.01,0,miopenConvolutionBwdDataAlgoDirect
8-14-13-1x1-16-14-13-4-0x0-1x1-1x1-0-NCHW-FP32-F=TinyTiled:0.135,32768,miopenConvolutionFwdAlgoImplicitGEMM;\
TinyFft:0.51,0,miopenConvolutionFwdAlgoFFT;TinyReference:40.01,0,miopenConvolutionFwdAlgoDirect
";
const PERF: &str = "\
2x16x14x13x1x1x1x1x8x4x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB=TinyTiled:32,2
2x8x14x13x1x1x1x1x16x4x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=TinyTiled:32,2
";

#[tokio::test]
async fn every_file_of_a_session() {
    let session = session(&Stage::ALL);
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("made/on/demand");
    let report = exported(&sample(&session), &folder).await;
    assert_eq!(report.warnings, [""; 0]);
    assert_eq!((report.groups, report.outcomes), (3, 10));

    let files = files(&folder);
    let told: BTreeMap<_, _> = report
        .files
        .iter()
        .map(|file| (file.path.file_name().unwrap().to_str().unwrap(), (file.records, file.bytes)))
        .collect();
    let size = |name: &str| files[name].len() as u64;
    let names = ["gfx90a68.HIP.fdb.txt", "gfx90a68.db", "gfx90a68.db.txt", "gfx90a68.kdb", "winners.json"];
    assert!(files.keys().eq(names), "{:?}", files.keys());
    for (name, records) in names.into_iter().zip([2, 2, 2, 2, 3]) {
        assert_eq!(told[name], (records, size(name)), "{name}");
    }

    let [find, perf, perf_text, kernels, winners] = names.map(|name| files[name].as_slice());
    assert_eq!(std::str::from_utf8(find).unwrap(), FIND);
    assert!(FindDb::parse("find", find).unwrap().findings.is_empty());
    assert_eq!(std::str::from_utf8(perf_text).unwrap(), PERF);
    assert_eq!(PerfDb::parse_sqlite("perf", perf).unwrap(), PerfDb::parse_text("perf", perf_text).unwrap());

    let kernels = KernelDb::parse("kernels", kernels).unwrap().rows;
    let named: Vec<_> = kernels.iter().map(|row| (row.kernel.name.as_str(), row.kernel.args.as_str())).collect();
    let tiled = " -DTILE=32 -DUNROLL=2 -DVARIANT=4 -mcpu=gfx90a";
    assert_eq!(named, [("scale.hip.o", " -DBLOCK=128 -mcpu=gfx90a"), ("tiny.hip.o", tiled)]);
    let winner = Candidate { solver: "TinyTiled".into(), params: vec![32_i64.into(), 2_i64.into()] };
    assert_eq!(kernels[1].code().unwrap(), code(&winner));
    assert!(kernels[1].uncompressed_size > kernels[1].blob.len() as u64);

    let winners: serde_json::Value = serde_json::from_slice(winners).unwrap();
    assert_eq!((&winners["session"], &winners["target"]), (&"nightly".into(), &"gfx90a-104".into()));
    let problems = winners["problems"].as_array().unwrap();
    let forward =
        problems.iter().find(|problem| problem["problem"] == conv(Direction::Forward, 4).canonical()).unwrap();
    let winner = serde_json::json!({
        "solver": "TinyTiled", "params": {"TILE": 32, "UNROLL": 2}, "median_ms": 0.135, "spread_ms": 0.0,
        "workspace": 32768, "gflops": 2.0 * 4.0 * 8.0 * 16.0 * 182.0 / 0.135e6, "ties": 0,
    });
    let mut found = forward["winner"].clone();
    // Where both were played off: 8.01 ms, and 40.01, beside 0.135.
    for (over, ratio) in [("default", 8.01 / 0.135), ("reference", 40.01 / 0.135)] {
        let name = format!("speedup_over_{over}");
        let fields = found.as_object_mut().unwrap();
        let (told, range) = (fields.remove(&name).unwrap(), fields.remove(&format!("{name}_range")).unwrap());
        assert!((told.as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{over}: {told}");
        let [low, high] = [0, 1].map(|end| range[end].as_f64().unwrap() / ratio);
        assert!((0.99..1.0).contains(&low) && (1.0..1.01).contains(&high), "{over}: {range}");
    }
    assert_eq!(found, winner);
    assert_eq!((&forward["tried"], &forward["failed"]), (&18.into(), &serde_json::json!({})));
    let keys: Vec<_> = problems.iter().map(|problem| problem["problem"].as_str().unwrap()).collect();
    assert!(keys.is_sorted());
}

#[tokio::test]
async fn the_same_outcomes_give_the_same_bytes() {
    let session = session(&Stage::ALL);
    let tiny = Spec::new(CONV);
    let other = Spec::new(&CONV.replace("tiny-conv", "other-conv"));
    let mut groups = Vec::new();
    for n in 1..60 {
        let slower = |stage: Stage, candidate: &Candidate| Ok(times(stage, candidate)? * (1.0 + f64::from(n) / 9.0));
        for direction in Direction::ALL {
            groups.push(outcomes(&session, &tiny, &conv(direction, n), &slower));
        }
        groups.push(outcomes(&session, &other, &conv(Direction::Forward, 60 - n), &slower));
    }
    let mut sample = Sample::new(&session, &[&tiny, &other], groups);
    let out = tempfile::tempdir().unwrap();
    let report = exported(&sample, out.path()).await;
    // No FFT for weights, which is said once for each problem.
    assert_eq!(report.warnings.len(), 59, "{:?}", report.warnings);
    let expected = files(out.path());

    let mut random = rand::rngs::SmallRng::seed_from_u64(7);
    for _ in 0..3 {
        sample.groups.shuffle(&mut random);
        sample.groups.iter_mut().for_each(|(_, outcomes)| outcomes.shuffle(&mut random));
        let out = tempfile::tempdir().unwrap();
        assert_eq!(exported(&sample, out.path()).await.warnings, report.warnings);
        assert!(files(out.path()) == expected, "another order gave other bytes");
    }

    let store = SqliteStore::in_memory().unwrap();
    store.create_session(&Session { created_ms: 99, ..session.clone() }).await.unwrap();
    for blob in sample.blobs.values() {
        store.put_blob(blob).await.unwrap();
    }
    for outcome in sample.groups.iter_mut().flat_map(|(_, outcomes)| outcomes) {
        (outcome.finished_ms, outcome.device) = (123, "another worker's".into());
        store.put_outcome(outcome).await.unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    exported(&store, out.path()).await;
    let found = files(out.path());
    assert!(found == expected, "another store gave other bytes");
    store.close().await;
}

#[tokio::test]
async fn specs_that_share_a_key_are_merged_and_the_best_kept() {
    let session = session(&Stage::ALL);
    let (tiny, other) =
        (Spec::new(CONV), Spec::new(&CONV.replace("tiny-conv", "other").replace("TinyFft", "OtherFft")));
    let slower = |stage: Stage, candidate: &Candidate| Ok(times(stage, candidate)? * 2.0);
    let problem = conv(Direction::Forward, 4);
    let groups = vec![outcomes(&session, &tiny, &problem, &slower), outcomes(&session, &other, &problem, &times)];
    let sample = Sample::new(&session, &[&tiny, &other], groups);
    let find = |top| {
        let sample = &sample;
        async move {
            let out = tempfile::tempdir().unwrap();
            let name = "nightly".parse().unwrap();
            export(sample, &name, &ExportRequest { top, ..request(out.path()) }).await.unwrap();
            let db = FindDb::parse("find", &files(out.path())["gfx90a68.HIP.fdb.txt"]).unwrap();
            let [entries] = db.records.into_values().collect::<Vec<_>>().try_into().unwrap();
            entries.into_iter().map(|entry| format!("{} {}", entry.solver, entry.time_ms)).collect::<Vec<_>>()
        }
    };
    assert_eq!(find(None).await, ["TinyTiled 0.135", "OtherFft 0.51", "TinyFft 1.02", "TinyReference 40.01"]);
    assert_eq!(find(Some(2)).await, ["TinyTiled 0.135", "OtherFft 0.51"]);
}

#[tokio::test]
async fn a_kernel_that_is_gone_is_told_and_the_rest_written() {
    let session = session(&Stage::ALL);
    let mut sample = sample(&session);
    let winner = Candidate { solver: "TinyTiled".into(), params: vec![32_i64.into(), 2_i64.into()] };
    let digest = Digest::of(&code(&winner));
    let lost = sample.blobs.remove(&digest).unwrap();
    let out = tempfile::tempdir().unwrap();
    let report = exported(&sample, out.path()).await;
    let [warning] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
    // Both directions have the same winner; the first of the two is named.
    let problems = [Direction::Forward, Direction::BackwardData].map(|direction| conv(direction, 4).canonical());
    let first = problems.iter().min().unwrap();
    assert!(warning.starts_with(first) && warning.contains("gone from the store"), "{warning}");
    let rows = KernelDb::parse("kernels", &files(out.path())["gfx90a68.kdb"]).unwrap().rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(files(out.path())["gfx90a68.HIP.fdb.txt"], FIND.as_bytes());

    // What is not kept for good may still be in the cache.
    sample.artifacts.insert(digest, lost);
    let out = tempfile::tempdir().unwrap();
    assert_eq!(exported(&sample, out.path()).await.warnings, [""; 0]);
}

#[tokio::test]
async fn groups_that_are_not_finished_are_counted() {
    let session = session(&Stage::ALL);
    let mut sample = sample(&session);
    for (_, outcomes) in &mut sample.groups {
        outcomes.retain(|outcome| outcome.job.stage == Stage::Perf);
    }
    sample.unsettled = 3;
    let out = tempfile::tempdir().unwrap();
    let report = exported(&sample, out.path()).await;
    assert_eq!(report.warnings, ["3 of 3 problems are not finished yet"]);
    let files = files(out.path());
    assert_eq!((files["gfx90a68.HIP.fdb.txt"].len(), files["gfx90a68.db.txt"].as_slice()), (0, PERF.as_bytes()));
}

#[tokio::test]
async fn a_session_without_a_find_stage_is_decided_by_its_perf_stage() {
    let session = session(&[Stage::Perf]);
    let out = tempfile::tempdir().unwrap();
    assert_eq!(exported(&sample(&session), out.path()).await.warnings, [""; 0]);
    let expected = FIND.replace("0.135", "0.125").replace("0.51", "0.5").replace("40.01", "40");
    assert_eq!(files(out.path())["gfx90a68.HIP.fdb.txt"], expected.as_bytes());
}

#[tokio::test]
async fn problems_without_a_winner_are_listed_with_their_failures() {
    let session = session(&Stage::ALL);
    let tiny = Spec::new(CONV);
    let failing = |_: Stage, candidate: &Candidate| {
        Err(if candidate.params.is_empty() { FailureKind::CompileError } else { FailureKind::WrongResult })
    };
    let (good, bad) = (conv(Direction::Forward, 1), conv(Direction::Forward, 2));
    let groups = vec![outcomes(&session, &tiny, &good, &times), outcomes(&session, &tiny, &bad, &failing)];
    let sample = Sample::new(&session, &[&tiny], groups);
    let wanted = [sample.groups[1].0, sample.groups[0].0];
    let [bad_summary, good_summary] = summaries(&sample, &session, &wanted).await.unwrap().try_into().unwrap();
    assert_eq!((bad_summary.problem, bad_summary.spec.as_str()), (bad.canonical(), "tiny-conv"));
    assert_eq!((bad_summary.winner, bad_summary.tried), (None, 18));
    let failed = [("compile_error".to_string(), 2), ("wrong_result".to_string(), 16)].into();
    assert_eq!(bad_summary.failed, failed);
    assert_eq!(good_summary.problem, good.canonical());
    assert_eq!(good_summary.winner.unwrap().solver, "TinyTiled");

    let out = tempfile::tempdir().unwrap();
    exported(&sample, out.path()).await;
    let winners: serde_json::Value = serde_json::from_slice(&files(out.path())["winners.json"]).unwrap();
    assert_eq!(winners["problems"][1]["failed"], serde_json::json!({"compile_error": 2, "wrong_result": 16}));
}

#[tokio::test]
async fn nothing_is_written_when_something_fails() {
    let session = session(&Stage::ALL);
    let out = tempfile::tempdir().unwrap();
    let name = "nightly".parse().unwrap();
    std::fs::write(out.path().join("gfx90a68.kdb"), "from before").unwrap();
    let untouched = || assert_eq!(files(out.path()), [("gfx90a68.kdb".to_string(), b"from before".to_vec())].into());

    let mut sample = sample(&session);
    sample.calls = 0.into();
    let error = export(&sample, &name, &request(out.path())).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    untouched();

    sample.calls = u64::MAX.into();
    let error = export(&sample, &"nigthly".parse().unwrap(), &request(out.path())).await.unwrap_err();
    assert_eq!(error.to_string(), "session nigthly: there is none of that name; did you mean nightly?");
    untouched();
}

#[tokio::test]
async fn probes_never_win_and_are_no_time_to_compare_with() {
    let session = session(&[Stage::Perf]);
    let tiny = Spec::new(CONV);
    let mut group = outcomes(&session, &tiny, &conv(Direction::Forward, 1), &times);
    for candidate in group.iter_mut().flat_map(|outcome| &mut outcome.candidates) {
        let timing = candidate.result.as_mut().unwrap();
        timing.pruned = candidate.candidate.solver == "TinyReference" || timing.median_ms < 0.2;
    }
    let summary = summarize(&session, &group).unwrap();
    let winner = summary.winner.unwrap();
    // 0.125 ms was only probed.
    assert_eq!((winner.solver.as_str(), winner.median_ms), ("TinyTiled", 0.25));
    assert_eq!(winner.speedup_over_reference, None, "a probe is no time");
    assert_eq!((summary.tried, summary.failed.len()), (18, 0));
    assert_eq!(summarize(&session, &[]), None);
}

#[tokio::test]
async fn one_name_for_two_code_objects_is_told() {
    let session = session(&Stage::ALL);
    let (tiny, other) = (Spec::new(CONV), Spec::new(&CONV.replace("tiny-conv", "other-conv")));
    let problem = conv(Direction::Forward, 4);
    let mut changed = outcomes(&session, &other, &problem, &times);
    let code = b"the code of another version of the source".to_vec();
    for candidate in changed.iter_mut().flat_map(|outcome| &mut outcome.candidates) {
        candidate.built.as_mut().unwrap().objects[0].artifact = ArtifactRef::of(&code);
    }
    let groups = vec![outcomes(&session, &tiny, &problem, &times), changed];
    let mut sample = Sample::new(&session, &[&tiny, &other], groups);
    sample.blobs.insert(Digest::of(&code), code);
    let out = tempfile::tempdir().unwrap();
    let report = exported(&sample, out.path()).await;
    let [warning] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
    assert!(warning.starts_with("kernel tiny.hip.o -DTILE=32 -DUNROLL=2 -DVARIANT=4 -mcpu=gfx90a: "), "{warning}");
    let first = files(out.path());
    sample.groups.reverse();
    exported(&sample, out.path()).await;
    assert!(files(out.path()) == first, "the order decides which one is kept");
}

#[tokio::test]
async fn an_empty_session_gives_empty_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let out = tempfile::tempdir().unwrap();
    let report = exported(&Sample::new(&session(&Stage::ALL), &[], Vec::new()), out.path()).await;
    assert_eq!((report.files.len(), report.warnings.len()), (5, 0));
    assert!(report.files.iter().all(|file| file.records == 0));
    let files = files(out.path());
    assert_eq!(PerfDb::parse_sqlite("perf", &files["gfx90a68.db"]).unwrap(), PerfDb::default());
    assert_eq!(KernelDb::parse("kernels", &files["gfx90a68.kdb"]).unwrap(), KernelDb::default());
    let winners: serde_json::Value = serde_json::from_slice(&files["winners.json"]).unwrap();
    assert_eq!(winners["problems"], serde_json::json!([]));
    // As readable as any file that its owner makes, unlike a temporary one.
    let plain = out.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert!(report.files.iter().all(|file| mode(&file.path) == mode(&plain)));
}
