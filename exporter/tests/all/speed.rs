//! How long a million outcomes take. Run it alone, in release:
//! `cargo nextest run --release -p bluefin-exporter --run-ignored only a_million_outcomes --no-capture`

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluefin_common::artifact::{ArtifactRef, CompileRecord};
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, Job, JobId, group_id};
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Direction;
use bluefin_common::session::{Pins, Session, SessionName, Stage};
use bluefin_common::store::{Fullness, JobState, Planned, Progress, SessionSize, Store, StoreError, Stored};
use bluefin_common::wire;
use bluefin_exporter::{ExportRequest, export};
use bytes::Bytes;

use crate::support::{CONV, Sample, Spec, conv, outcomes, session};

/// Each with 20 outcomes.
const GROUPS: u32 = 50_000;
/// Different code objects among their winners.
const KERNELS: usize = 2_000;

/// Decodes outcomes as a real store does, and makes those of group `n` from those of one group.
struct Repeated {
    sample: Sample,
    encoded: Vec<Vec<u8>>,
    batch_of: HashMap<GroupId, u32>,
    kernels: Vec<ArtifactRef>,
}

#[tokio::test]
#[ignore = "takes long, and means nothing in a debug build"]
async fn a_million_outcomes() {
    let session = session(&Stage::ALL);
    let spec = Spec::new(CONV);
    let times = |_: Stage, candidate: &Candidate| Ok(if candidate.params.is_empty() { 3.0 } else { 1.0 });
    let whole = outcomes(&session, &spec, &conv(Direction::Forward, 1), &times);
    // One candidate a job: as many outcomes as can be.
    let mut split = Vec::new();
    for outcome in whole {
        if outcome.job.stage == Stage::Find {
            split.push(outcome);
            continue;
        }
        for candidate in &outcome.candidates {
            let job = Job { candidates: vec![candidate.candidate.clone()], ..outcome.job.clone() };
            split.push(Outcome { job, candidates: vec![candidate.clone()], ..outcome.clone() });
        }
    }
    split.push(split[0].clone());
    let encoded: Vec<_> = split.iter().map(|outcome| wire::encode(outcome).unwrap()).collect();
    let mut sample = Sample::new(&session, &[&spec], Vec::new());
    let mut kernels = Vec::new();
    for variant in 0..KERNELS {
        let code: Vec<u8> = (0..600_u32)
            .flat_map(|i| Digest::of(&[i.to_le_bytes(), (variant as u32).to_le_bytes()].concat()).0.map(|b| b & 31))
            .collect();
        kernels.push(ArtifactRef::of(&code));
        sample.blobs.insert(Digest::of(&code), code);
    }
    let batch_of = (1..=GROUPS).map(|n| (group_id(&conv(Direction::Forward, n), spec.digest), n)).collect();
    let per_group = encoded.len();
    let store = Repeated { sample, encoded, batch_of, kernels };

    let out = tempfile::tempdir().unwrap();
    let request = ExportRequest::all(out.path().to_path_buf());
    let started = Instant::now();
    let report = export(&store, &session.name, &request).await.unwrap();
    let took = started.elapsed();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim();
    println!("{} outcomes of {per_group} a group in {took:.1?}, peak {peak}", report.outcomes);
    for file in &report.files {
        println!("{}: {} records, {} bytes", file.path.display(), file.records, file.bytes);
    }
    assert_eq!(report.outcomes, 1_000_000);
    assert_eq!(report.warnings, [""; 0]);
    assert!(took < Duration::from_secs(30), "{took:?}");
    let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 1 << 20, "{peak} kB");
}

#[async_trait]
impl Store for Repeated {
    async fn outcomes(&self, _: &SessionName, groups: &[GroupId]) -> Result<Vec<Outcome>, StoreError> {
        let mut all = Vec::with_capacity(groups.len() * self.encoded.len());
        for group in groups {
            let n = self.batch_of[group];
            let problem = conv(Direction::Forward, n);
            for bytes in &self.encoded {
                let mut outcome: Outcome = wire::decode(bytes).unwrap();
                outcome.job.problem = problem.clone();
                for candidate in &mut outcome.candidates {
                    for object in candidate.built.iter_mut().flat_map(|built| &mut built.objects) {
                        object.artifact = self.kernels[n as usize % KERNELS];
                    }
                }
                all.push(outcome);
            }
        }
        Ok(all)
    }
    async fn groups(&self, _: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        Ok(self.batch_of.keys().copied().collect())
    }
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError> {
        self.sample.create_session(session).await
    }
    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        self.sample.session(name).await
    }
    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.sample.sessions().await
    }
    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError> {
        self.sample.pin(session, key, value).await
    }
    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError> {
        self.sample.pins(session).await
    }
    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError> {
        self.sample.unpin(session, keys).await
    }
    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError> {
        self.sample.remove_session(session).await
    }
    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        self.sample.size(session).await
    }
    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError> {
        self.sample.blob_sizes(digests).await
    }
    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError> {
        self.sample.remove_blobs(digests).await
    }
    async fn retract_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        self.sample.retract_outcome(outcome).await
    }
    async fn rewrite_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError> {
        self.sample.rewrite_outcomes(outcomes).await
    }
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        self.sample.put_records(shelf, records).await
    }
    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.sample.claim_record(shelf, key, value).await
    }
    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.sample.records_of(shelf, keys).await
    }
    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.sample.records(shelf).await
    }
    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError> {
        self.sample.remove_records(shelf, keys).await
    }
    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        self.sample.put_blob(bytes).await
    }
    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.sample.blob(digest).await
    }
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError> {
        self.sample.put_artifact(bytes).await
    }
    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        self.sample.artifact(artifact).await
    }
    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError> {
        self.sample.has_artifact(artifact).await
    }
    async fn put_compiled(&self, key: Digest, record: &CompileRecord) -> Result<(), StoreError> {
        self.sample.put_compiled(key, record).await
    }
    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError> {
        self.sample.compiled(key).await
    }
    async fn fullness(&self) -> Result<Fullness, StoreError> {
        self.sample.fullness().await
    }
    async fn plan(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        self.sample.plan(session, jobs).await
    }
    async fn enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        self.sample.enqueued(session, jobs).await
    }
    async fn put_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        self.sample.put_outcome(outcome).await
    }
    async fn has_outcome(&self, session: &SessionName, group: GroupId, job: JobId) -> Result<bool, StoreError> {
        self.sample.has_outcome(session, group, job).await
    }
    async fn open_jobs(&self, session: &SessionName, group: GroupId) -> Result<u64, StoreError> {
        self.sample.open_jobs(session, group).await
    }
    async fn open_groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        self.sample.open_groups(session).await
    }
    async fn planned_jobs(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        self.sample.planned_jobs(session).await
    }
    async fn settle_group(&self, session: &SessionName, group: GroupId) -> Result<(), StoreError> {
        self.sample.settle_group(session, group).await
    }
    async fn progress(&self, session: &SessionName) -> Result<Progress, StoreError> {
        self.sample.progress(session).await
    }
    async fn best_ms(&self, session: &SessionName, group: GroupId) -> Result<Option<f64>, StoreError> {
        self.sample.best_ms(session, group).await
    }
    fn reconnects(&self) -> u64 {
        self.sample.reconnects()
    }
}
