//! Golden bytes of every message, and what happens to bytes that are none.
//!
//! A golden file that no longer matches means that peers and stored values of the released version are no longer read: raise
//! the message's version. `BLUEFIN_BLESS=1` writes the files anew.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::artifact::{Argument, ArtifactRef, Buffer, Built, Launch, Prepared, Role, Task, Tolerance};
use bluefin_common::digest::Digest;
use bluefin_common::job::{CompileJob, Compiled, EvalJob, Job, Stage};
use bluefin_common::miopen::{KernelObject, Solution};
use bluefin_common::outcome::{Candidate, CandidateOutcome, DeviceState, Failure, FailureKind, Outcome, Timing};
use bluefin_common::problem::{DataType, KernelProblem, Problem};
use bluefin_common::session::{Budget, Session, Tuner};
use bluefin_common::spec::Bundle;
use bluefin_common::store::CompileRecord;
use bluefin_common::value::Value;
use bluefin_common::wire::{Message, WireError, decode, encode};
use proptest::prelude::*;

fn job() -> Job {
    let sizes = BTreeMap::from([("n".to_string(), 1 << 20), ("radius".to_string(), 3)]);
    Job {
        session: "golden".parse().unwrap(),
        stage: Stage::Perf,
        target: "gfx90a-104".parse().unwrap(),
        problem: Problem::Kernel(KernelProblem::new("stencil".to_string(), sizes).unwrap()),
        spec: Digest::of(b"spec"),
        toolchain: "clang".to_string(),
        candidates: vec![
            Candidate { solver: "Tiled".to_string(), params: vec![Value::Int(64), Value::Text("row".to_string())] },
            Candidate { solver: "Tiled".to_string(), params: vec![Value::Int(-1), Value::Bool(true)] },
        ],
    }
}

fn prepared() -> Prepared {
    Prepared {
        artifact: ArtifactRef::of(b"code object"),
        launches: vec![Launch {
            entry: "stencil".to_string(),
            grid: [4096, 1, 1],
            block: [256, 1, 1],
            shared: 1024,
            arguments: vec![
                Argument::Buffer(0),
                Argument::Workspace,
                Argument::I32(-7),
                Argument::I64(1 << 40),
                Argument::F32(0.5),
                Argument::F64(-0.25),
            ],
        }],
        workspace: 65_536,
    }
}

fn compile_job() -> CompileJob {
    CompileJob { job: job(), enqueued_ms: 1_790_000_000_000, recompiles: 2 }
}

fn eval_job() -> EvalJob {
    let buffer = Buffer { name: "x".to_string(), data_type: DataType::Fp16, length: 1 << 20, role: Role::Input };
    EvalJob {
        job: job(),
        enqueued_ms: 1_790_000_000_000,
        recompiles: 3,
        compiled: Compiled::Kernels {
            task: Task {
                buffers: vec![buffer],
                reference: prepared(),
                tolerance: Tolerance { absolute: 1e-3, relative: 1e-2 },
            },
            prepared: vec![Ok(prepared()), Err(Failure::new(FailureKind::CompileError, "line 3: no"))],
        },
    }
}

fn outcome() -> Outcome {
    let timing = Timing {
        median_ms: 1.25,
        spread_ms: 0.01,
        samples_ms: vec![1.25, 1.24, 1.5],
        pruned: false,
        cold: true,
        throttled: 1,
        clock_mhz: 1700,
    };
    let results = [Ok(timing), Err(Failure::new(FailureKind::WrongResult, "y[3]: got 1, want 2"))];
    let candidates = job()
        .candidates
        .into_iter()
        .zip(results)
        .map(|(candidate, result)| CandidateOutcome { candidate, built: Some(Built::Kernel(prepared())), result })
        .collect();
    Outcome {
        job: job(),
        candidates,
        device: "MI250X".to_string(),
        device_state: DeviceState {
            uuid: "GPU-1".to_string(),
            driver: "6.4".to_string(),
            temperature_c: Some(61),
            power_w: Some(400),
            reference_clock_mhz: Some(1700),
        },
        protocol: 2,
        busy_ms: 1234,
        finished_ms: 1_790_000_000_001,
    }
}

fn session() -> Session {
    Session {
        name: "golden".parse().unwrap(),
        target: "gfx90a-104".parse().unwrap(),
        label: "why".to_string(),
        stages: Stage::ALL.to_vec(),
        created_ms: 1_790_000_000_000,
        tuner: Tuner::MiopenDriver { exhaustive: true },
        budget: Budget { solver_ms: Some(600_000), tuning_patience: Some(50), ..Budget::default() },
        environment: BTreeMap::from([("MIOPEN_FIND_MODE".to_string(), "1".to_string())]),
    }
}

fn bundle() -> Bundle {
    Bundle { toml: "name = \"x\"".to_string(), files: BTreeMap::from([("x.c".to_string(), "int x;\n".to_string())]) }
}

fn record() -> CompileRecord {
    CompileRecord { result: Ok(ArtifactRef::of(b"code object")), compile_ms: 250 }
}

fn check<T: Message + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = encode(value).unwrap();
    assert_eq!(decode::<T>(&bytes).unwrap(), *value);
    let name = format!("{}.v{}.hex", T::NAME.replace(' ', "_"), T::VERSION);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("BLUEFIN_BLESS").is_some() {
        std::fs::write(&path, format!("{hex}\n")).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(hex, golden.trim(), "{}: the bytes of a {} changed", path.display(), T::NAME);
    refuses_damage::<T>(&bytes);
}

fn refuses_damage<T: Message + std::fmt::Debug>(bytes: &[u8]) {
    for end in 0..bytes.len() {
        assert!(decode::<T>(&bytes[..end]).is_err(), "cut to {end} bytes");
    }
    let with = |index: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[index] = value;
        decode::<T>(&bytes).unwrap_err()
    };
    assert!(matches!(with(0, b'X'), WireError::Magic { .. }));
    assert!(matches!(with(2, 200), WireError::Kind { .. }));
    let version = with(3, 250);
    assert!(matches!(version, WireError::Version { .. }));
    assert!(version.to_string().contains("another version of bluefin"), "{version}");
    assert!(matches!(with(4, 9), WireError::Codec { .. }));
    let longer = [bytes, b"!"].concat();
    assert!(matches!(decode::<T>(&longer), Err(WireError::Trailing { extra: 1, .. })));
}

#[test]
fn golden_bytes() {
    check(&compile_job());
    check(&eval_job());
    check(&outcome());
    check(&session());
    check(&bundle());
    check(&record());
}

#[test]
fn what_fin_compiled_travels() {
    let kernel = KernelObject {
        file: "conv1x1u.s".to_string(),
        options: " -Wa,-defsym,a=1".to_string(),
        blob: ArtifactRef::of(b"BZh9"),
        md5: "d41d8cd98f00b204e9800998ecf8427e".to_string(),
        size: 145_576,
    };
    let algorithm = "miopenConvolutionFwdAlgoDirect".to_string();
    let solution = Solution { algorithm, workspace: 1 << 40, tunable: true, kernels: vec![kernel] };
    let failure = Failure::new(FailureKind::CorruptArtifact, "md5");
    let compiled = Compiled::Fin { solutions: vec![Ok(solution), Err(failure)] };
    let job = EvalJob { compiled, ..eval_job() };
    assert_eq!(decode::<EvalJob>(&encode(&job).unwrap()).unwrap(), job);
}

#[test]
fn a_length_that_lies_is_refused_without_allocating() {
    let mut bytes = encode(&bundle()).unwrap();
    bytes.truncate(5);
    // 253 introduces a 64-bit length in bincode's variable encoding.
    bytes.extend([253, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(decode::<Bundle>(&bytes), Err(WireError::Body { .. })));
}

#[test]
fn the_same_job_has_the_same_id() {
    let job = job();
    assert_eq!(job.id(), job.clone().id());
    let renamed = Job { session: "other".parse().unwrap(), ..job.clone() };
    assert_ne!(job.id(), renamed.id());
    let find = Job { stage: Stage::Find, ..job.clone() };
    assert_ne!(job.id(), find.id());
    assert_eq!(job.group(), find.group());
    let fewer = Job { candidates: job.candidates[..1].to_vec(), ..job.clone() };
    assert_ne!(job.id(), fewer.id());
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_error_or_a_value(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 1u8..=6, version in 1u8..=2) {
        let framed = [&[b'B', b'F', kind, version, 1], bytes.as_slice()].concat();
        let _ = decode::<CompileJob>(&framed);
        let _ = decode::<EvalJob>(&framed);
        let _ = decode::<Outcome>(&framed);
        let _ = decode::<Session>(&framed);
        let _ = decode::<Bundle>(&framed);
        let _ = decode::<CompileRecord>(&framed);
    }

    #[test]
    fn a_flipped_bit_never_panics(position in 0usize..300, bit in 0u8..8) {
        let mut bytes = encode(&eval_job()).unwrap();
        let position = position % bytes.len();
        bytes[position] ^= 1 << bit;
        let _ = decode::<EvalJob>(&bytes);
    }
}
