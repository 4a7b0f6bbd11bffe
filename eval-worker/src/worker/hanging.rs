//! Solvers whose kernels hang: what is left of them to try waits until nothing else does.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bluefin_common::failure::FailureKind;
use bluefin_common::job::{Job, JobId};
use bluefin_common::outcome::CandidateOutcome;
use bluefin_common::session::{SessionName, Stage};
use lru::LruCache;

/// Hangs of a solver after which it waits.
const MANY: u32 = 2;
/// Sessions that are remembered.
const SESSIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Between two looks at whether others still wait: first, and after so many times.
const SOON: Duration = Duration::from_secs(5);
const LATER: (u32, Duration) = (12, Duration::from_secs(25));
/// After so many a job is evaluated whoever waits: its group is to come to its end.
const LOOKS: u32 = 100;

/// What hung in this worker, which serves one target.
#[derive(Debug)]
pub(super) struct Hanging {
    sessions: Mutex<LruCache<SessionName, OfSession>>,
}

#[derive(Debug, Default)]
struct OfSession {
    hangs: HashMap<String, u32>,
    /// How often a job has been handed back for it.
    looks: HashMap<JobId, u32>,
}

impl Default for Hanging {
    fn default() -> Self {
        Self { sessions: Mutex::new(LruCache::new(SESSIONS)) }
    }
}

impl Hanging {
    /// Remembers what came of a job.
    pub(super) fn note(&self, job: &Job, candidates: &[CandidateOutcome]) {
        let hung = |one: &&CandidateOutcome| matches!(&one.result, Err(failure) if failure.kind == FailureKind::Hang);
        let mut hung = candidates.iter().filter(hung).peekable();
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sessions.get_mut(&job.session) {
            known.looks.remove(&job.id());
        }
        if hung.peek().is_some() {
            let known = sessions.get_or_insert_mut(job.session.clone(), OfSession::default);
            for one in hung {
                *known.hangs.entry(one.candidate.solver.clone()).or_default() += 1;
            }
        }
    }

    /// Whether all that `job` would try is of solvers that hang. A play-off is of what has run.
    pub(super) fn is_suspect(&self, job: &Job) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = sessions.get(&job.session).filter(|_| job.stage == Stage::Perf) else { return false };
        let hangs = |solver: &String| known.hangs.get(solver).is_some_and(|hangs| *hangs >= MANY);
        job.candidates.iter().all(|candidate| hangs(&candidate.solver))
    }

    /// How long a suspect waits, given how many messages are in its queue: not if nothing else is. `None`: it is its turn.
    pub(super) fn waits(&self, job: &Job, in_queue: u64) -> Option<Duration> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions.get_mut(&job.session)?;
        let others = known.looks.keys().filter(|id| **id != job.id()).count() as u64;
        let looks = known.looks.entry(job.id()).or_default();
        if in_queue <= others || *looks >= LOOKS {
            return None;
        }
        *looks += 1;
        Some(if *looks > LATER.0 { LATER.1 } else { SOON })
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::candidate::Candidate;
    use bluefin_common::digest::Digest;
    use bluefin_common::failure::Failure;
    use bluefin_common::method::Method;
    use bluefin_common::problem::{KernelProblem, Problem};
    use bluefin_common::target::Target;

    use super::*;

    fn job(session: &str, solver: &str, round: u32) -> Job {
        Job {
            session: session.parse().unwrap(),
            target: Target::Host,
            method: Method::KERNELS,
            stage: Stage::Perf,
            round,
            problem: Problem::Kernel(KernelProblem::new("toy".to_string(), [].into()).unwrap()),
            spec: Digest::of(b""),
            toolchain: "cc".to_string(),
            candidates: vec![Candidate { solver: solver.to_string(), params: vec![i64::from(round).into()] }],
            lane: bluefin_common::lane::Lane::First,
        }
    }

    fn ends(kind: FailureKind, job: &Job) -> Vec<CandidateOutcome> {
        CandidateOutcome::all_failed(job, &Failure::new(kind, ""))
    }

    #[test]
    fn what_is_left_of_a_solver_that_hangs_waits_while_others_do() {
        let hanging = Hanging::default();
        let left = job("it", "Hangs", 9);
        for (round, kind) in [(1, FailureKind::Hang), (2, FailureKind::Fault), (3, FailureKind::Hang)] {
            assert!(!hanging.is_suspect(&left), "{round}");
            let job = job("it", "Hangs", round);
            hanging.note(&job, &ends(kind, &job));
        }
        assert!(hanging.is_suspect(&left));
        assert!(!hanging.is_suspect(&Job { stage: Stage::Find, ..left.clone() }));
        assert!(!hanging.is_suspect(&job("it", "Runs", 9)) && !hanging.is_suspect(&job("another", "Hangs", 9)));
        let both = [left.candidates.clone(), job("it", "Runs", 9).candidates].concat();
        assert!(!hanging.is_suspect(&Job { candidates: both, ..left.clone() }));

        // Two of it are in a queue of three, then alone.
        let second = job("it", "Hangs", 10);
        assert_eq!((hanging.waits(&left, 2), hanging.waits(&second, 2)), (Some(SOON), Some(SOON)));
        assert_eq!(hanging.waits(&left, 1), None);
        hanging.note(&left, &ends(FailureKind::Hang, &left));
        assert_eq!((hanging.waits(&second, 1), hanging.waits(&second, 0)), (Some(SOON), None));
    }

    #[test]
    fn nothing_waits_for_ever() {
        let hanging = Hanging::default();
        let left = job("it", "Hangs", 9);
        hanging.note(&left, &[ends(FailureKind::Hang, &left), ends(FailureKind::Hang, &left)].concat());
        let waited: Vec<Duration> = std::iter::from_fn(|| hanging.waits(&left, 7)).take(1000).collect();
        assert_eq!(waited.len(), LOOKS as usize);
        assert_eq!((waited[11], waited[12]), (SOON, LATER.1));
    }
}
