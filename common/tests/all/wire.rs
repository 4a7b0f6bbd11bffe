//! Golden bytes of every message, and what happens to bytes that are none.
//!
//! A golden file that no longer matches means that peers of the released version are no longer understood: raise the
//! message's version, keep the file of the old one, and read it ([`Message::of_previous`]). `BLUEFIN_BLESS=1` writes the files anew.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::artifact::{Argument, ArtifactRef, Built, CodeObject, CompileRecord, Launch, Packed};
use bluefin_common::candidate::Candidate;
use bluefin_common::course::Worked;
use bluefin_common::description::{Description, SolverInfo, UsefulWork};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, DeviceState, Disturbance, Outcome, Resources, Timing};
use bluefin_common::problem::{DataType, KernelProblem, Problem};
use bluefin_common::search_end::{SearchEnd, SolverEnd, Why};
use bluefin_common::session::{Budget, SearchPlan, Session, Stage};
use bluefin_common::structure::{Pointed, Pointer, Structure};
use bluefin_common::task::{Buffer, Content, Role, Task, TaskRef, Tolerance};
use bluefin_common::tensor::{Tensor, TensorMap};
use bluefin_common::value::Value;
use bluefin_common::wire::{Body, Message, WireError, decode, encode};
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::search::{Prior, PriorRows, Searched, Told};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

fn job() -> Job {
    let sizes = BTreeMap::from([("n".to_string(), (1_i64 << 20).into()), ("radius".to_string(), 3_i64.into())]);
    Job {
        session: "golden".parse().unwrap(),
        stage: Stage::Perf,
        target: "gfx90a-104".parse().unwrap(),
        problem: Problem::Kernel(KernelProblem::new("stencil".to_string(), sizes).unwrap()),
        method: Method::KERNELS,
        spec: Digest::of(b"spec"),
        toolchain: "clang".to_string(),
        candidates: vec![
            Candidate { solver: "Tiled".to_string(), params: vec![Value::Int(64), Value::Text("row".to_string())] },
            Candidate { solver: "Tiled".to_string(), params: vec![Value::Int(-1), Value::Bool(true)] },
        ],
        round: 0,
        lane: Lane::First,
    }
}

/// As a spec's candidate is built.
fn built(file: &str, options: &str) -> Built {
    Built {
        objects: vec![CodeObject::plain(ArtifactRef::of(b"code object"), file, options)],
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

fn described() -> Built {
    built("stencil.hip", " -DBLOCK=64 -DORDER=row")
}

fn compile_job() -> CompileJob {
    CompileJob { job: job(), enqueued_ms: 1_790_000_000_000, recompiles: 2, work: CompileWork::Candidates }
}

fn task(reference: Built) -> Task {
    let buffer = Buffer {
        name: "x".to_string(),
        data_type: DataType::Fp16,
        length: 1 << 20,
        role: Role::Input,
        content: Content::Random,
    };
    Task { buffers: vec![buffer], reference, tolerance: Tolerance { absolute: 1e-3, relative: 1e-2 } }
}

fn description() -> Description {
    let reference = Candidate { solver: "Naive".to_string(), params: Vec::new() };
    let solver = SolverInfo {
        name: "Tiled".to_string(),
        algorithm: Some("miopenConvolutionFwdAlgoDirect".to_string()),
        tunable: true,
        params: vec!["BLOCK".to_string(), "ORDER".to_string()],
        default: Some(vec![Value::Int(64), Value::Text("row".to_string())]),
    };
    let work = UsefulWork { flops: Some(2e9), bytes: None };
    Description { library: "stencil".to_string(), reference: Some(reference), solvers: vec![solver], work }
}

fn compiler_says_no() -> Attempt<Built> {
    Err(Failure::new(FailureKind::CompileError, "line 3: no"))
}

fn worked(worker: &str, begun_ms: u64) -> Worked {
    Worked { worker: worker.to_string(), begun_ms, ended_ms: begun_ms + 5 }
}

fn eval_job() -> EvalJob {
    EvalJob {
        job: job(),
        enqueued_ms: 1_790_000_000_000,
        recompiles: 3,
        compiled: Some(worked("builder-1", 10)),
        task: TaskRef::Blob(Digest::of(b"task")),
        description: description(),
        built: vec![Ok(described()), compiler_says_no()],
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
    let taken = Resources { registers: 168, spilled: 16, shared: 49_152, resident: Some(1) };
    let candidates = job()
        .candidates
        .into_iter()
        .zip(results)
        .map(|(candidate, result)| {
            let resources = result.is_ok().then_some(taken);
            CandidateOutcome { candidate, built: Some(described()), result, resources }
        })
        .collect();
    Outcome {
        job: job(),
        task: Some(Digest::of(b"task")),
        description: description(),
        candidates,
        device: "MI250X".to_string(),
        device_state: DeviceState {
            uuid: "GPU-1".to_string(),
            driver: "6.4".to_string(),
            temperature_c: Some(61),
            power_w: Some(400),
            reference_clock_mhz: Some(1700),
            disturbance: Some(Disturbance { waiting: 0.25, stolen: 0.0, slowdown: 1.5 }),
        },
        protocol: 2,
        busy_ms: 1234,
        finished_ms: 1_790_000_000_001,
        course: eval_job().course(Some(worked("gpu-7", 20))),
        nondeterministic: Vec::new(),
    }
}

fn session() -> Session {
    let environment = [("MIOPEN_FIND_ENFORCE", "4"), ("MIOPEN_FIND_MODE", "1")];
    Session {
        name: "golden".parse().unwrap(),
        target: "gfx90a-104".parse().unwrap(),
        label: "why".to_string(),
        stages: Stage::ALL.to_vec(),
        created_ms: 1_790_000_000_000,
        method: Method::MIOPENDRIVER,
        budget: Budget { solver_ms: Some(600_000), tuning_patience: Some(50), ..Budget::default() },
        environment: environment.map(|(name, value)| (name.to_string(), value.to_string())).into(),
        search: Some(SearchPlan {
            seed: 7,
            options: [("length".to_string(), "0.5".to_string())].into(),
            patience: 100,
            ..SearchPlan::new("fixed", 16)
        }),
        priors: Some(Digest::of(b"priors")),
    }
}

fn bundle() -> Bundle {
    Bundle {
        toml: "name = \"x\"".to_string(),
        files: BTreeMap::from([("x.c".to_string(), "int x;\n".to_string())]),
        ..Bundle::default()
    }
}

fn record(file: &str, options: &str) -> CompileRecord {
    let objects = vec![CodeObject::plain(ArtifactRef::of(b"code object"), file, options)];
    CompileRecord { key: Digest::of(b"inputs"), result: Ok(Built { objects, ..Built::default() }), compile_ms: 250 }
}

fn golden(name: &str, version: u8) -> std::path::PathBuf {
    let file = format!("{}.v{version}.hex", name.replace(' ', "_"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

fn bytes_of(name: &str, version: u8) -> Vec<u8> {
    let path = golden(name, version);
    let hex = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let digits: Vec<char> = hex.trim().chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Head and body, unpacked: another release of zstd may pack the same otherwise.
fn content<T: Message>(bytes: &[u8]) -> Vec<u8> {
    let (head, body) = bytes.split_at(5);
    if T::IS_PACKED {
        return [head, &zstd::decode_all(body).unwrap()].concat();
    }
    bytes.to_vec()
}

fn check<T: Message + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = encode(value).unwrap();
    assert_eq!(decode::<T>(&bytes).unwrap(), *value);
    let path = golden(T::NAME, value.version());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if std::env::var_os("BLUEFIN_BLESS").is_some() {
        std::fs::write(&path, format!("{hex}\n")).unwrap();
    }
    let golden = bytes_of(T::NAME, value.version());
    let (now, then) = (content::<T>(&bytes), content::<T>(&golden));
    assert!(now == then, "{}: the bytes of a {} changed", path.display(), T::NAME);
    assert_eq!(decode::<T>(&golden).unwrap(), *value);
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
    // A newer one may have another codec.
    let newer = [&bytes[..3], &[250, 9], &bytes[5..]].concat();
    assert!(matches!(decode::<T>(&newer), Err(WireError::Version { .. })));
    assert!(matches!(with(4, 9), WireError::Codec { .. }));
    let longer = [bytes, b"!"].concat();
    assert!(matches!(decode::<T>(&longer), Err(WireError::Trailing { extra: 1, .. })));
}

#[test]
fn golden_bytes() {
    check(&compile_job());
    check(&eval_job());
    check(&Outcome { nondeterministic: vec!["y".to_string()], ..outcome() });
    check(&session());
    check(&bundle());
    check(&task(described()));
    check(&record("stencil.hip", " -DBLOCK=64"));
    let Job { problem, spec, .. } = job();
    check(&Searched { problem, spec, rounds: 2 });
    check(&Told(vec![(Digest::of(b"group"), 2)]));
    let end = SolverEnd {
        solver: "Tiled".to_string(),
        tried: 24,
        valid: 512,
        exact: true,
        left: Some(87),
        why: Why::Patience,
    };
    check(&SearchEnd(vec![end.clone(), SolverEnd { left: None, why: Why::Behind, ..end }]));
    let params = vec![("BLOCK".to_string(), Value::Int(64)), ("ORDER".to_string(), "row".into())];
    let (spec, solver) = ("stencil".to_string(), "Tiled".to_string());
    check(&PriorRows(vec![Prior { problem: job().problem, spec, solver, params }]));
}

#[test]
fn of_an_outcome_of_the_release_before_nobody_said_what_it_takes() {
    let mut before = outcome();
    before.candidates.iter_mut().for_each(|candidate| candidate.resources = None);
    assert_eq!(decode::<Outcome>(&bytes_of(Outcome::NAME, 1)).unwrap(), before);
}

#[test]
fn a_session_of_the_release_before_begins_with_defaults() {
    let before = Session { priors: None, ..session() };
    assert_eq!(decode::<Session>(&bytes_of(Session::NAME, 1)).unwrap(), before);
    refuses_damage::<Session>(&bytes_of(Session::NAME, 1));
}

/// What version 1 can not say is of a later one, and all else of version 1 still.
#[test]
fn golden_bytes_of_what_came_later() {
    let parts = Argument::BufferAt { buffer: 1, bytes: 256 };
    let mut with_parts = described();
    let map = TensorMap { element: 6, size: 2, swizzle: 3, padded: true, block: [64, 32, 0, 0, 0] };
    let (shape, strides, block) = ([80, 96, 0, 0, 0], [96, 1, 0, 0, 0], [128, 32, 0, 0, 0]);
    let tensor = Tensor { buffer: 1, bytes: 32, rank: 2, shape, strides, block, nan: true, tf32: true, map: Some(map) };
    with_parts.launches[0].arguments.extend([parts, Argument::WorkspaceAt(512), Argument::Tensor(tensor)]);
    let buffer = |name: &str, role, content| Buffer {
        name: name.to_string(),
        data_type: DataType::Uint8,
        length: 4,
        role,
        content,
    };
    let data = ArtifactRef::of(b"data");
    let task = Task {
        buffers: vec![
            buffer("u", Role::Input, Content::Uniform { low: -1.5, high: 2.0 }),
            buffer("d", Role::Input, Content::Data(data)),
            buffer("f", Role::InOut, Content::Fill(0.25)),
            buffer("r", Role::InOut, Content::Random),
            buffer("o", Role::Output, Content::Random),
        ],
        ..task(with_parts.clone())
    };
    check(&task);
    assert_eq!(task.data().map(|(buffer, data)| (buffer.name.as_str(), data)).collect::<Vec<_>>(), [("d", data)]);
    check(&EvalJob { built: vec![Ok(with_parts.clone())], ..eval_job() });
    assert_eq!(EvalJob { task: TaskRef::Inline(Box::new(task)), ..eval_job() }.version(), 2);
    let mut outcome = outcome();
    outcome.candidates[0].built = Some(with_parts);
    assert_eq!(decode::<Outcome>(&encode(&outcome).unwrap()).unwrap(), outcome);
    check(&Bundle { data: BTreeMap::from([("index.bin".to_string(), data)]), ..bundle() });
}

/// Structures by value and several draws of a routing are of version 3; what version 2 can say has its bytes.
#[test]
fn golden_bytes_of_structures_and_draws() {
    let pointer = |at, to| Pointer { at, to };
    let pointers = vec![pointer(0, Pointed::Buffer { buffer: 1, bytes: 256 }), pointer(8, Pointed::Workspace)];
    let structure = Structure { bytes: vec![0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9], pointers };
    let mut with_structure = described();
    with_structure.launches[0].arguments.push(Argument::Structure(structure));
    let data = ArtifactRef::of(b"data");
    let drawn = Buffer {
        name: "t".to_string(),
        data_type: DataType::Int32,
        length: 4,
        role: Role::Input,
        content: Content::Drawn { data, draws: 3 },
    };
    let mut with_draws = task(with_structure.clone());
    with_draws.buffers.push(drawn.clone());
    check(&with_draws);
    assert_eq!((with_draws.draws(), with_draws.data().last()), (3, Some((&drawn, data))));
    assert_eq!(Task { buffers: vec![drawn.clone()], ..task(described()) }.version(), 3);
    let steps = Buffer { content: Content::Steps { first: -1, step: 4 }, ..drawn };
    let of_steps = Task { buffers: vec![steps], ..task(described()) };
    let bytes = encode(&of_steps).unwrap();
    assert_eq!((of_steps.version(), decode::<Task>(&bytes).unwrap()), (3, of_steps));
    // The name, the type, the length and the role, then which content it is, the first number, and the step.
    assert!(bytes.windows(8).any(|part| part == [1, b't', 4, 4, 3, 6, 1, 4]), "{bytes:?}");
    check(&EvalJob { built: vec![Ok(with_structure.clone())], ..eval_job() });
    let mut outcome = outcome();
    outcome.candidates[0].built = Some(with_structure.clone());
    check(&outcome);
    let inline = EvalJob { task: TaskRef::Inline(Box::new(task(with_structure))), ..eval_job() };
    assert_eq!(inline.version(), 3);
}

/// Of version 2, which has a `label`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Toy {
    number: u32,
    label: String,
}

impl Message for Toy {
    const KIND: u8 = 99;
    const VERSION: u8 = 2;
    const NAME: &'static str = "toy";

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        let read = |number| Self { number, label: String::new() };
        (version == 1).then(|| body.read::<Self, u32>().map(read))
    }
}

#[test]
fn what_the_release_before_wrote_is_read() {
    let now = Toy { number: 7, label: "new".to_string() };
    assert_eq!(decode::<Toy>(&encode(&now).unwrap()).unwrap(), now);
    let before = [b'B', b'F', Toy::KIND, 1, 1, 7];
    assert_eq!(decode::<Toy>(&before).unwrap(), Toy { number: 7, label: String::new() });
    refuses_damage::<Toy>(&before);
    let older = [b'B', b'F', Toy::KIND, 0, 1, 7];
    assert!(matches!(decode::<Toy>(&older), Err(WireError::Version { found: 0, want: 2, .. })));
}

#[test]
fn a_method_that_is_not_known_is_of_another_release() {
    let bytes = encode(&compile_job()).unwrap();
    let at = bytes.windows(7).position(|window| window == b"kernels").unwrap();
    let mut newer = bytes.clone();
    newer[at..at + 7].copy_from_slice(b"kernel2");
    let error = decode::<CompileJob>(&newer).unwrap_err();
    assert!(error.is_of_another_version(), "{error}");
    assert!(error.to_string().contains("found \"kernel2\", expected one of kernels, fin"), "{error}");
}

#[test]
fn what_fin_compiled_travels() {
    let kernel = CodeObject {
        artifact: ArtifactRef::of(b"BZh9"),
        file: "conv1x1u.s".to_string(),
        options: " -Wa,-defsym,a=1".to_string(),
        packed: Some(Packed { md5: "d41d8cd98f00b204e9800998ecf8427e".to_string(), size: 145_576 }),
    };
    let solution = Built { objects: vec![kernel], launches: Vec::new(), workspace: 1 << 40 };
    let failure = Failure::new(FailureKind::CorruptArtifact, "md5");
    let job = EvalJob { task: TaskRef::None, built: vec![Ok(solution), Err(failure)], ..eval_job() };
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
    fn arbitrary_bytes_are_an_error_or_a_value(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 1u8..=11, version in 1u8..=5) {
        let framed = [&[b'B', b'F', kind, version, 1], bytes.as_slice()].concat();
        let _ = decode::<CompileJob>(&framed);
        let _ = decode::<EvalJob>(&framed);
        let _ = decode::<Outcome>(&framed);
        let _ = decode::<Session>(&framed);
        let _ = decode::<Bundle>(&framed);
        let _ = decode::<CompileRecord>(&framed);
        let _ = decode::<Task>(&framed);
    }

    #[test]
    fn a_flipped_bit_never_panics(position in 0usize..300, bit in 0u8..8) {
        let mut bytes = encode(&eval_job()).unwrap();
        let position = position % bytes.len();
        bytes[position] ^= 1 << bit;
        let _ = decode::<EvalJob>(&bytes);
    }

    #[test]
    fn a_flipped_bit_of_an_outcome_is_noticed(position in 5usize..2000, bit in 0u8..8) {
        let mut bytes = encode(&outcome()).unwrap();
        let position = 5 + position % (bytes.len() - 5);
        bytes[position] ^= 1 << bit;
        if let Ok(read) = decode::<Outcome>(&bytes) {
            prop_assert_eq!(read, outcome());
        }
    }
}
