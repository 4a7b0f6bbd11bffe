//! Jobs and outcomes for the tests.

use std::collections::BTreeMap;

use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::candidate::Candidate;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::{GroupId, Job};
use bluefin_common::lane::Lane;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::problem::{KernelProblem, Problem};
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::store::Planned;
use bluefin_common::target::Target;
use bluefin_common::value::Value;

pub fn name(text: &str) -> SessionName {
    text.parse().unwrap()
}

pub fn session(text: &str, label: &str) -> Session {
    Session::of_kernels(name(text), Target::Host, label, &Stage::ALL, 1)
}

/// Job `number` of group `group`.
pub fn job(session: &SessionName, group: i64, number: i64) -> Job {
    let sizes = BTreeMap::from([("n".to_string(), group.into())]);
    Job {
        session: session.clone(),
        stage: Stage::Perf,
        target: Target::Host,
        problem: Problem::Kernel(KernelProblem::new("saxpy".into(), sizes).unwrap()),
        method: Method::KERNELS,
        spec: Digest::of(b"spec"),
        toolchain: "cc".into(),
        candidates: (0..4)
            .map(|i| Candidate { solver: "saxpy".into(), params: vec![Value::Int(number), Value::Int(i)] })
            .collect(),
        round: 0,
        lane: Lane::First,
    }
}

/// Two candidates timed, one pruned, one failed.
pub fn outcome(job: &Job) -> Outcome {
    let object = CodeObject::plain(ArtifactRef::of(b"code"), "saxpy.c", "");
    let built = Built { objects: vec![object], ..Built::default() };
    let timing = |pruned| Timing { spread_ms: 0.1, samples_ms: vec![1.5; 12], pruned, ..Timing::single(1.5) };
    let results = [
        Ok(timing(false)),
        Ok(timing(false)),
        Ok(timing(true)),
        Err(Failure::new(FailureKind::WrongResult, "element 3")),
    ];
    let of = |(candidate, result): (&Candidate, _)| CandidateOutcome {
        candidate: candidate.clone(),
        built: Some(built.clone()),
        result,
        resources: None,
    };
    let candidates = job.candidates.iter().zip(results).map(of).collect();
    Outcome {
        device: "test".into(),
        protocol: 1,
        busy_ms: 30,
        ..Outcome::undone(job, Description::default(), candidates, 2)
    }
}

pub fn planned(jobs: &[Job]) -> Vec<Planned> {
    jobs.iter().map(Planned::of).collect()
}

pub fn group(session: &SessionName, number: i64) -> GroupId {
    job(session, number, 0).group()
}

/// Bytes that hardly compress, different for each seed.
pub fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(size)
    .collect()
}
