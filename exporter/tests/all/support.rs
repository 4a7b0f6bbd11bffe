//! Sessions made up for tests, and a store that holds them in any order.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, CompileRecord};
use bluefin_common::candidate::Candidate;
use bluefin_common::decision::follow_ups;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{GroupId, Job, JobId};
use bluefin_common::lane::Lane;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_common::session::{Pins, Session, SessionName, Stage};
use bluefin_common::store::{
    Artifacts, Blobs, EncodedGroup, Fullness, JobState, Planned, Progress, Records, SessionSize, Sessions, Store,
    StoreError, Stored, Touched, Work,
};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bytes::Bytes;

/// A spec for convolutions of any direction, with three solvers. `VARIANT` bakes the batch size into the code.
pub const CONV: &str = r#"
name = "tiny-conv"
problem = "conv"
toolchain = "noop"
targets = ["gfx90a"]
source = "tiny.hip"
reference = "TinyReference"

[[buffer]]
name = "in"
type = "FP32"
length = "n * c * h * w"
role = "input"

[[buffer]]
name = "out"
type = "FP32"
length = "n * k * oh * ow"
role = "output"

[tolerance.FP32]
absolute = 1e-3
relative = 1e-3

[[solver]]
name = "TinyReference"
algorithm = "Direct"
[[solver.launch]]
entry = "reference"
arguments = ["in", "out"]
grid = [1]
block = [64]

[[solver]]
name = "TinyTiled"
algorithm = "ImplicitGEMM"
workspace = "1024 * TILE"
defines = { VARIANT = "n % 2000" }
[[solver.param]]
name = "TILE"
values = [1, 2, 4, 8, 16, 32, 64, 128]
default = 1
[[solver.param]]
name = "UNROLL"
values = [1, 2]
default = 1
[[solver.launch]]
entry = "tiled"
arguments = ["in", "out", "workspace"]
grid = [1]
block = [64]

[[solver]]
name = "TinyFft"
algorithm = "FFT"
[[solver.launch]]
entry = "fft"
arguments = ["in", "out"]
grid = [1]
block = [64]
"#;

pub struct Spec {
    pub spec: KernelSpec,
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

impl Spec {
    pub fn new(toml: &str) -> Self {
        let files = ["tiny.hip", "scale.hip"].into_iter().filter(|file| toml.contains(file));
        let files = files.map(|file| (file.to_string(), "// nothing".to_string())).collect();
        let bundle = Bundle { toml: toml.to_string(), files, ..Bundle::default() };
        let (bytes, digest) = (bundle.encode().unwrap(), bundle.digest().unwrap());
        Self { spec: KernelSpec::load(&bundle).unwrap(), bytes, digest }
    }
}

pub fn session(stages: &[Stage]) -> Session {
    Session::of_kernels("nightly".parse().unwrap(), "gfx90a-104".parse().unwrap(), "", stages, 77)
}

pub fn conv(direction: Direction, n: u32) -> Problem {
    let shape = ConvShape { n, c: 8, k: 16, input: [1, 14, 13], ..ConvShape::plain(direction, DataType::Fp32) };
    Problem::Conv(ConvProblem::new(shape).unwrap())
}

/// The code object of a candidate: compressible if it is a tiled one.
pub fn code(candidate: &Candidate) -> Vec<u8> {
    let text = format!("code of {candidate}");
    text.repeat(if candidate.params.is_empty() { 1 } else { 100 }).into_bytes()
}

/// What a candidate comes to in a stage: a median, or a failure.
pub type Times<'a> = &'a dyn Fn(Stage, &Candidate) -> Result<f64, FailureKind>;

/// All outcomes of a group, ordered by job id: one perf job for each solver, then the find job.
pub fn outcomes(session: &Session, spec: &Spec, problem: &Problem, times: Times<'_>) -> Vec<Outcome> {
    let scope = spec.spec.scope(problem, &session.target).unwrap().unwrap();
    let evaluate = |job: Job| {
        let candidates = job.candidates.iter().map(|candidate| {
            let build = spec.spec.build(candidate, &scope).unwrap();
            let object = CodeObject::plain(ArtifactRef::of(&code(candidate)), &spec.spec.source, build.options());
            let built = Built { objects: vec![object], launches: build.launches, workspace: build.workspace };
            let result = times(job.stage, candidate)
                .map(|median_ms| {
                    // As far apart as those of one kernel are at the least.
                    let samples_ms =
                        (-10..=10).map(|step| (median_ms * (1.0 + 0.0004 * f64::from(step))) as f32).collect();
                    Timing { samples_ms, ..Timing::single(median_ms) }
                })
                .map_err(|kind| Failure::new(kind, "made up"));
            CandidateOutcome::of(candidate.clone(), Some(built), result)
        });
        let candidates = candidates.collect();
        let described = spec.spec.describe(&job);
        Outcome { device: "device".into(), protocol: 1, ..Outcome::undone(&job, described, candidates, 5) }
    };
    let mut all = Vec::new();
    for solver in &spec.spec.solvers {
        all.push(evaluate(Job {
            session: session.name.clone(),
            stage: Stage::Perf,
            target: session.target.clone(),
            problem: problem.clone(),
            method: session.method,
            spec: spec.digest,
            toolchain: spec.spec.toolchain.clone(),
            candidates: spec.spec.candidates(solver, &scope, 100).unwrap().points,
            round: 0,
            lane: Lane::First,
        }));
    }
    for job in follow_ups(session, &all) {
        all.push(evaluate(job));
    }
    all.sort_by_key(Outcome::job_id);
    all
}

/// A store that only answers questions.
pub struct Sample {
    pub session: Session,
    pub groups: Vec<(GroupId, Vec<Outcome>)>,
    pub blobs: HashMap<Digest, Vec<u8>>,
    pub artifacts: HashMap<Digest, Vec<u8>>,
    pub unsettled: u64,
    /// Calls of [`Store::outcomes`] that succeed before all fail.
    pub calls: std::sync::atomic::AtomicU64,
}

impl Sample {
    pub fn new(session: &Session, specs: &[&Spec], groups: Vec<Vec<Outcome>>) -> Self {
        let mut blobs: HashMap<_, _> = specs.iter().map(|spec| (spec.digest, spec.bytes.clone())).collect();
        for candidate in groups.iter().flatten().flat_map(|outcome| &outcome.candidates) {
            let code = code(&candidate.candidate);
            blobs.insert(Digest::of(&code), code);
        }
        Self {
            session: session.clone(),
            groups: groups.into_iter().map(|outcomes| (outcomes[0].group(), outcomes)).collect(),
            blobs,
            artifacts: HashMap::new(),
            unsettled: 0,
            calls: u64::MAX.into(),
        }
    }
}

fn no<T>() -> Result<T, StoreError> {
    Err(StoreError::Misconfigured { reason: "a sample only answers questions".into() })
}

#[async_trait]
impl Sessions for Sample {
    async fn create_session(&self, _: &Session) -> Result<Session, StoreError> {
        no()
    }
    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        Ok((*name == self.session.name).then(|| self.session.clone()))
    }
    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        Ok(vec![self.session.clone()])
    }
    async fn pin(&self, _: &SessionName, _: &str, _: &str) -> Result<String, StoreError> {
        no()
    }
    async fn pins(&self, _: &SessionName) -> Result<Pins, StoreError> {
        no()
    }
    async fn unpin(&self, _: &SessionName, _: &[String]) -> Result<(), StoreError> {
        no()
    }
    async fn touched(&self, _: &SessionName) -> Result<Touched, StoreError> {
        no()
    }
    async fn stand_unless_touched(&self, _: &SessionName, _: &Touched, _: &[u8]) -> Result<bool, StoreError> {
        no()
    }
    async fn remove_session(&self, _: &SessionName) -> Result<(), StoreError> {
        no()
    }
    async fn size(&self, _: &SessionName) -> Result<SessionSize, StoreError> {
        no()
    }
    async fn orphans(&self, _: Duration) -> Result<Vec<SessionName>, StoreError> {
        no()
    }
}

#[async_trait]
impl Records for Sample {
    async fn put_records(&self, _: &str, _: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        no()
    }
    async fn claim_record(&self, _: &str, _: &str, _: &[u8]) -> Result<Vec<u8>, StoreError> {
        no()
    }
    async fn records_of(&self, _: &str, _: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        no()
    }
    async fn records(&self, _: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        no()
    }
    async fn remove_records(&self, _: &str, _: &[String]) -> Result<(), StoreError> {
        no()
    }
}

#[async_trait]
impl Blobs for Sample {
    async fn blob_sizes(&self, _: &[Digest]) -> Result<Vec<u64>, StoreError> {
        no()
    }
    async fn remove_blobs(&self, _: &[Digest]) -> Result<(), StoreError> {
        no()
    }
    async fn put_blob(&self, _: &[u8]) -> Result<Digest, StoreError> {
        no()
    }
    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.blobs.get(&digest).cloned())
    }
    async fn idle_blobs(&self, _: Duration) -> Result<Vec<Digest>, StoreError> {
        no()
    }
}

#[async_trait]
impl Artifacts for Sample {
    async fn put_artifact(&self, _: &[u8]) -> Result<ArtifactRef, StoreError> {
        no()
    }
    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        Ok(self.artifacts.get(&artifact.digest).cloned().map(Bytes::from))
    }
    async fn has_artifact(&self, _: ArtifactRef) -> Result<bool, StoreError> {
        no()
    }
    async fn put_compiled(&self, _: &CompileRecord) -> Result<(), StoreError> {
        no()
    }
    async fn compiled(&self, _: Digest) -> Result<Option<CompileRecord>, StoreError> {
        no()
    }
    async fn fullness(&self) -> Result<Fullness, StoreError> {
        no()
    }
}

#[async_trait]
impl Work for Sample {
    async fn retract_outcome(&self, _: &Outcome) -> Result<bool, StoreError> {
        no()
    }
    async fn discard_outcome(&self, _: &Outcome) -> Result<bool, StoreError> {
        no()
    }
    async fn rewrite_outcomes(&self, _: &[Outcome]) -> Result<(), StoreError> {
        no()
    }
    async fn plan(&self, _: &SessionName, _: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        no()
    }
    async fn enqueued(&self, _: &SessionName, _: &[JobId]) -> Result<(), StoreError> {
        no()
    }
    async fn put_outcome(&self, _: &Outcome) -> Result<Stored, StoreError> {
        no()
    }
    async fn has_outcome(&self, _: &SessionName, _: GroupId, _: JobId) -> Result<bool, StoreError> {
        no()
    }
    async fn open_jobs(&self, _: &SessionName, _: GroupId) -> Result<u64, StoreError> {
        no()
    }
    async fn open_groups(&self, _: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        no()
    }
    async fn planned_jobs(&self, _: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        no()
    }
    async fn groups(&self, _: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        Ok(self.groups.iter().map(|(id, _)| *id).collect())
    }
    async fn encoded_outcomes(&self, _: &SessionName, groups: &[GroupId]) -> Result<Vec<EncodedGroup>, StoreError> {
        use std::sync::atomic::Ordering::SeqCst;
        if self.calls.fetch_sub(1, SeqCst) == 0 {
            self.calls.store(0, SeqCst);
            return Err(StoreError::Unavailable { store: "sample".into(), reason: "gone".into() });
        }
        let by_id: BTreeMap<_, _> = self.groups.iter().map(|(id, outcomes)| (*id, outcomes)).collect();
        let encode = |outcome: &Outcome| (outcome.job_id(), bluefin_common::wire::encode(outcome).unwrap().into());
        let of = |group: &GroupId| by_id[group].iter().map(encode).collect();
        Ok(groups.iter().map(|group| EncodedGroup { group: *group, outcomes: of(group) }).collect())
    }
    async fn settle_group(&self, _: &SessionName, _: GroupId) -> Result<(), StoreError> {
        no()
    }
    async fn progress(&self, _: &SessionName) -> Result<Progress, StoreError> {
        Ok(Progress { unsettled_groups: self.unsettled, groups: self.groups.len() as u64, ..Progress::default() })
    }
    async fn best_ms(&self, _: &SessionName, _: GroupId) -> Result<Option<f64>, StoreError> {
        no()
    }
}

#[async_trait]
impl Store for Sample {
    fn reconnects(&self) -> u64 {
        0
    }
}
