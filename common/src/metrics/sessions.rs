//! Outcomes by session. Sessions come and go, and each of their series stays for as long as a process does: so only a bounded
//! number of them get series of their own.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{CounterVec, IntCounterVec, Opts, Registry};

use super::result_name;
use crate::outcome::Outcome;
use crate::session::SessionName;

/// Sessions with series of their own in one process.
const MAX_SESSIONS: usize = 32;
/// What all further ones are counted as. No session has this name: a name has no blank.
const OTHER: &str = "other sessions";

/// Metrics with the label `session`. Cheap to clone.
#[derive(Clone)]
pub(super) struct SessionMetrics {
    jobs: IntCounterVec,
    candidates: IntCounterVec,
    busy: CounterVec,
    known: Arc<Mutex<HashSet<SessionName>>>,
}

impl SessionMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let labels = ["session", "stage"];
        let metrics = Self {
            jobs: IntCounterVec::new(
                Opts::new(
                    "bluefin_session_jobs_total",
                    "Jobs whose outcome this process stored, by session and stage.",
                ),
                &labels,
            )?,
            candidates: IntCounterVec::new(
                Opts::new(
                    "bluefin_session_candidates_total",
                    "Candidates in these outcomes: timed, pruned, or the kind of their failure.",
                ),
                &["session", "stage", "result"],
            )?,
            busy: CounterVec::new(
                Opts::new("bluefin_session_busy_seconds_total", "Time that devices spent on these jobs."),
                &labels,
            )?,
            known: Arc::default(),
        };
        registry.register(Box::new(metrics.jobs.clone()))?;
        registry.register(Box::new(metrics.candidates.clone()))?;
        registry.register(Box::new(metrics.busy.clone()))?;
        Ok(metrics)
    }

    pub(super) fn outcome(&self, outcome: &Outcome) {
        let (session, stage) = (self.label(&outcome.job.session), outcome.job.stage.name());
        self.jobs.with_label_values(&[session, stage]).inc();
        self.busy.with_label_values(&[session, stage]).inc_by(outcome.busy_ms as f64 / 1000.0);
        for candidate in &outcome.candidates {
            self.candidates.with_label_values(&[session, stage, result_name(candidate)]).inc();
        }
    }

    /// The session's own name for the first of them.
    fn label<'a>(&self, session: &'a SessionName) -> &'a str {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(session) || known.len() < MAX_SESSIONS && known.insert(session.clone()) {
            session.as_str()
        } else {
            OTHER
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Candidate;
    use crate::description::Description;
    use crate::digest::Digest;
    use crate::job::Job;
    use crate::lane::Lane;
    use crate::method::Method;
    use crate::outcome::{CandidateOutcome, Timing};
    use crate::problem::{KernelProblem, Problem};
    use crate::session::Stage;
    use crate::target::Target;

    fn outcome(session: usize) -> Outcome {
        let candidate = Candidate { solver: "A".to_string(), params: Vec::new() };
        let job = Job {
            session: format!("s{session}").parse().unwrap(),
            stage: Stage::Find,
            target: Target::Host,
            problem: Problem::Kernel(KernelProblem::new("k".to_string(), Default::default()).unwrap()),
            method: Method::KERNELS,
            spec: Digest::of(b""),
            toolchain: "cc".to_string(),
            candidates: vec![candidate.clone()],
            round: 0,
            lane: Lane::First,
        };
        let timed = CandidateOutcome { candidate, built: None, result: Ok(Timing::single(1.0)), resources: None };
        Outcome { busy_ms: 1500, ..Outcome::undone(&job, Description::default(), vec![timed], 0) }
    }

    #[test]
    fn only_so_many_sessions_have_series() {
        let registry = Registry::new();
        let metrics = SessionMetrics::register(&registry).unwrap();
        for session in 0..MAX_SESSIONS + 5 {
            metrics.outcome(&outcome(session));
        }
        metrics.outcome(&outcome(3));
        let jobs = |session: &str| metrics.jobs.with_label_values(&[session, "find"]).get();
        assert_eq!((jobs("s3"), jobs("s31"), jobs(OTHER)), (2, 1, 5));
        assert_eq!(metrics.busy.with_label_values(&["s3", "find"]).get(), 3.0);
        assert_eq!(metrics.candidates.with_label_values(&["s3", "find", "timed"]).get(), 2);
        let families = registry.gather();
        let series = families.iter().find(|family| family.name() == "bluefin_session_jobs_total").unwrap();
        assert_eq!(series.get_metric().len(), MAX_SESSIONS + 1);
    }
}
