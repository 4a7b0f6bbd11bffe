//! Who won a group, and who is played off for it: pure functions of its outcomes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ptr;

use crate::candidate::Candidate;
use crate::description::Description;
use crate::job::Job;
use crate::method::FindJobs;
use crate::outcome::{CandidateOutcome, Outcome, Timing};
use crate::session::{Session, Stage};

/// Candidates that a play-off is filled up to: enough for the perf stage to be wrong by some places, and each costs a sample
/// in every round.
pub const FINALISTS: usize = 8;

/// How many times as long as the fastest of the perf stage a candidate may take there and still be the fastest: samples that
/// were not taken side by side differ by so much, through clocks, temperature and whatever else ran.
const CLOSE: f64 = 1.1;

/// How many times as long as on other devices a candidate may take on one that is off.
const OFF: f64 = 1.3;

/// A device that was slower yet tells nothing of how fast a candidate is.
const SLOWEST: f64 = 2.0;

/// Medians that are more than this many times apart are no tie, however noisy both are.
const FAR: f64 = 1.02;

/// Medians that are less than this many times apart are the same, however quiet both are: the next play-off has them the other way round.
const SAME: f64 = 1.002;

/// The find jobs that follow from the outcomes of all perf jobs of a group.
///
/// By [`FindJobs`] of the session's method: a play-off of the best candidate of every solver that has one, and of what may be
/// faster; or a job for each solver that was tuned, with its best params, or with the tool's own where tuning failed.
#[must_use]
pub fn follow_ups(session: &Session, outcomes: &[Outcome]) -> Vec<Job> {
    if !session.stages.contains(&Stage::Find) {
        return Vec::new();
    }
    let mut tuned = outcomes.iter().map(|outcome| &outcome.job).filter(|job| job.stage == Stage::Perf);
    match session.method.find {
        FindJobs::PlayOff => {
            let candidates: Vec<_> = finalists(outcomes).into_iter().cloned().collect();
            let job = tuned.next().filter(|_| !candidates.is_empty());
            job.map(|job| Job { stage: Stage::Find, candidates, ..job.clone() }).into_iter().collect()
        }
        FindJobs::EachSolver => {
            let best = best_of_each_solver(outcomes);
            let params = |asked: &Candidate| {
                let best = best.get(asked.solver.as_str());
                best.map_or_else(|| asked.clone(), |best| best.outcome.candidate.clone())
            };
            let find = |job: &Job| Job {
                stage: Stage::Find,
                candidates: job.candidates.iter().map(params).collect(),
                ..job.clone()
            };
            tuned.map(find).collect()
        }
        FindJobs::Planned => Vec::new(),
    }
}

/// Takes find outcomes out of those of a group that do not follow from its perf outcomes: they were planned from others, some of which
/// were lost with a store or are done again, and say nothing of these. In a session of one stage nothing follows: its jobs were given.
pub fn drop_void(session: &Session, outcomes: &mut Vec<Outcome>) {
    if !Stage::ALL.iter().all(|stage| session.stages.contains(stage)) {
        return;
    }
    let follows: Vec<bool> = {
        let following = match session.method.find {
            FindJobs::PlayOff | FindJobs::EachSolver => follow_ups(session, outcomes),
            FindJobs::Planned => return,
        };
        let tuned = best_of_each_solver(outcomes);
        let follows = |outcome: &Outcome| {
            outcome.job.stage == Stage::Perf
                || following.iter().any(|job| outcome.job.is(job))
                || session.method.find == FindJobs::EachSolver && is_of_no_tuned(&outcome.job, &tuned)
        };
        outcomes.iter().map(follows).collect()
    };
    let mut follows = follows.into_iter();
    outcomes.retain(|_| follows.next().unwrap_or(true));
}

/// Whether it is of solvers that were not tuned, and was planned at once.
fn is_of_no_tuned(job: &Job, tuned: &BTreeMap<&str, Timed<'_>>) -> bool {
    job.candidates.iter().all(|candidate| !tuned.contains_key(candidate.solver.as_str()))
}

/// Who is played off: the best of each solver, whose time is wanted however slow it is, then, up to [`FINALISTS`] in all, the
/// fastest of each device, since one that is off says nothing against its own share, and the next fastest of any solver that were
/// measured to the end and are [`CLOSE`] to the fastest. How fast one may be is what its fastest sample says, and what it says for
/// a device that is not slower than usual: the other work of a machine makes samples slower, never faster. Beside them the default
/// params of solvers that may win, which a gain is said over. Ordered by name: the job does not depend on which of them was the fastest.
fn finalists(outcomes: &[Outcome]) -> BTreeSet<&Candidate> {
    let mut timed = in_order(outcomes, Stage::Perf);
    timed.sort_by(|a, b| a.timing.pruned.cmp(&b.timing.pruned).then_with(|| a.fastest_ms().total_cmp(&b.fastest_ms())));
    let close_ms = timed.first().map_or(0.0, |first| CLOSE * first.fastest_ms());
    let is_close = |timed: &Timed<'_>| !timed.timing.pruned && timed.fastest_ms() <= close_ms;
    let mut solvers = HashSet::new();
    let best = timed.iter().filter(|timed| solvers.insert(timed.solver()));
    let mut finalists: BTreeSet<_> = best.map(|timed| &timed.outcome.candidate).collect();
    let off_ms = OFF / CLOSE * close_ms;
    let may_be_off = timed.iter().filter(|timed| !timed.timing.pruned && timed.fastest_ms() <= off_ms);
    let mut devices = HashSet::new();
    let of_devices = may_be_off.filter(|timed| devices.insert(timed.device));
    for timed in of_devices.chain(timed.iter().filter(|timed| is_close(timed))) {
        if finalists.len() >= FINALISTS {
            break;
        }
        // Not always one more: a larger budget may have timed it twice.
        finalists.insert(&timed.outcome.candidate);
    }
    let may_win: HashSet<&str> = timed.iter().filter(|timed| is_close(timed)).map(Timed::solver).collect();
    let defaults = timed.iter().filter(|timed| may_win.contains(timed.solver()) && is_default(outcomes, timed));
    finalists.extend(defaults.map(|timed| &timed.outcome.candidate));
    finalists
}

/// Whether it has its solver's default params. One without params has none that could be left.
fn is_default(outcomes: &[Outcome], timed: &Timed<'_>) -> bool {
    let params = &timed.outcome.candidate.params;
    // What a play-off says of solvers must not change who belongs in it.
    let perf = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
    let mut known = perf.filter_map(|outcome| outcome.description.solver(timed.solver())?.default.as_ref());
    !params.is_empty() && known.next() == Some(params)
}

/// A candidate that has a time.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// Says what was timed, and what it was built into.
    pub outcome: &'a CandidateOutcome,
    /// The times in its result.
    pub timing: &'a Timing,
    /// How many times as slow as usual the device was, at most [`SLOWEST`].
    slowdown: f64,
    /// The UUID of the device that it was timed on; empty where that does not say.
    device: &'a str,
}

impl<'a> Timed<'a> {
    /// Name of its solver.
    #[must_use]
    pub fn solver(&self) -> &'a str {
        &self.outcome.candidate.solver
    }

    /// Workspace in bytes.
    #[must_use]
    pub fn workspace(&self) -> u64 {
        self.outcome.built.as_ref().map_or(0, |built| built.workspace)
    }

    /// How fast it may be: its fastest sample, on a device that is not slower than usual.
    fn fastest_ms(&self) -> f64 {
        self.timing.range_ms().0 / self.slowdown
    }

    /// Whether the two can not be told apart. That takes evidence: intervals of both medians
    /// ([`Timing::interval_ms`]) that overlap, samples that do, and medians that are at most [`FAR`] apart. One with few samples
    /// ties with nobody but itself.
    #[must_use]
    pub fn ties_with(&self, other: &Timed<'_>) -> bool {
        let overlap = |(a_low, a_high): (f64, f64), (b_low, b_high): (f64, f64)| a_low <= b_high && b_low <= a_high;
        let (own, others) = (self.timing.median_ms, other.timing.median_ms);
        let intervals = self.timing.interval_ms().zip(other.timing.interval_ms());
        ptr::eq(self.outcome, other.outcome)
            || own.max(others) <= FAR * own.min(others)
                && overlap(self.timing.range_ms(), other.timing.range_ms())
                && intervals.is_some_and(|(own, others)| overlap(own, others))
    }

    /// Whether it has samples enough to win against one that has.
    fn is_measured_well(&self) -> bool {
        self.timing.samples_ms.len() >= Timing::EVIDENCE
    }

    /// Total order for equal times: less workspace, then name of the solver, then params.
    fn preference(&self) -> (u64, &Candidate) {
        (self.workspace(), &self.outcome.candidate)
    }
}

/// The candidates of `outcomes` that were timed to the end, fastest first; equal times by workspace and name.
#[must_use]
pub fn ranked(outcomes: &[Outcome], stage: Stage) -> Vec<Timed<'_>> {
    let mut timed = in_order(outcomes, stage);
    timed.retain(|timed| !timed.timing.pruned);
    timed
}

/// All candidates with a time, fastest first; those that were only probed last.
fn in_order(outcomes: &[Outcome], stage: Stage) -> Vec<Timed<'_>> {
    let mut timed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.job.stage == stage)
        .flat_map(|outcome| outcome.candidates.iter().map(move |one| (outcome, one)))
        .filter_map(|(of, outcome)| {
            let timing = outcome.result.as_ref().ok().filter(|timing| timing.median_ms > 0.0)?;
            Some(Timed { outcome, timing, slowdown: slowdown(of), device: &of.device_state.uuid })
        })
        .collect();
    timed.sort_by(|a, b| {
        let pruned = a.timing.pruned.cmp(&b.timing.pruned);
        pruned
            .then_with(|| a.timing.median_ms.total_cmp(&b.timing.median_ms))
            .then_with(|| a.preference().cmp(&b.preference()))
    });
    timed
}

/// How many times as slow as usual the device was for the job; 1 where it does not say.
fn slowdown(outcome: &Outcome) -> f64 {
    outcome.device_state.disturbance.map_or(1.0, |seen| f64::from(seen.slowdown).clamp(1.0, SLOWEST))
}

/// The fastest candidate of each solver in the perf stage, by solver name. A solver that is far slower than the best of its
/// group has only probes; the best of those then stands for it, since its params are wanted all the same.
#[must_use]
pub fn best_of_each_solver(outcomes: &[Outcome]) -> BTreeMap<&str, Timed<'_>> {
    let mut best = BTreeMap::new();
    for timed in in_order(outcomes, Stage::Perf) {
        best.entry(timed.solver()).or_insert(timed);
    }
    best
}

/// The end of a group: who won.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// Each solver once, fastest first: the winner for its own, and for any other the fastest of its params as the play-off
    /// timed them. So what a database says of a solver's time, of its params and of the winner is of one candidate.
    pub solvers: Vec<Timed<'a>>,
    /// Index into `solvers`.
    pub winner: usize,
    /// Further candidates of the play-off that can not be told apart from the fastest, other params of its solver included;
    /// the winner is then one with default params, else of the least workspace, else the fastest or, of those that are as fast,
    /// the first by name.
    pub ties: usize,
    /// Those candidates, the fastest among them and the winner left out.
    pub tied: Vec<Timed<'a>>,
}

impl Decision<'_> {
    /// The fastest solver, or whom the method prefers among those that tie with it; `None` only if the index is wrong.
    #[must_use]
    pub fn winner(&self) -> Option<&Timed<'_>> {
        self.solvers.get(self.winner)
    }
}

/// What is known of the candidates of a group: what its outcomes say of them.
#[must_use]
pub fn description(outcomes: &[Outcome]) -> Description {
    let mut all = Description::default();
    outcomes.iter().for_each(|outcome| all.merge(&outcome.description));
    all
}

/// Who won the group, by its find stage; by its perf stage in a session without one, which compares the best of each solver
/// only. `None` while that stage has not ended or if nothing ran. One of few samples does not win against one that was measured well.
/// Among ties one with its solver's default params comes first: what can not be told apart from it is no reason to leave it. Of others
/// with as much workspace the faster one is likelier the better one: names decide where both are [`SAME`].
#[must_use]
pub fn decide<'a>(session: &Session, outcomes: &'a [Outcome]) -> Option<Decision<'a>> {
    let mut timed = match session.method.find {
        FindJobs::PlayOff if session.stages.contains(&Stage::Find) => {
            let position = |play_off: &Job| outcomes.iter().position(|outcome| outcome.job.is(play_off));
            let find = follow_ups(session, outcomes).first().and_then(position)?;
            ranked(outcomes.get(find..=find)?, Stage::Find)
        }
        FindJobs::PlayOff => fastest_of_each_solver(outcomes),
        FindJobs::EachSolver | FindJobs::Planned => return fastest(session, outcomes),
    };
    let is_other = |timed: &Timed<'_>| !is_default(outcomes, timed);
    let fastest = *timed.iter().find(|timed| timed.is_measured_well()).or(timed.first())?;
    let tied: Vec<_> = timed.iter().copied().filter(|timed| timed.ties_with(&fastest)).collect();
    let rank = |timed: &Timed<'_>| (is_other(timed), timed.workspace());
    let first = tied.iter().map(rank).min()?;
    // Fastest first.
    let preferred: Vec<_> = tied.iter().filter(|timed| rank(timed) == first).collect();
    let same_ms = SAME * preferred.first()?.timing.median_ms;
    let same = preferred.into_iter().filter(|timed| timed.timing.median_ms <= same_ms);
    let best = *same.min_by(|a, b| a.outcome.candidate.cmp(&b.outcome.candidate))?;
    let ties = tied.len() - 1;
    let tied = tied.into_iter().filter(|timed| !ptr::eq(timed.outcome, best.outcome)).collect();
    let mut others = HashSet::from([best.solver()]);
    timed.retain(|timed| timed.outcome.candidate == best.outcome.candidate || others.insert(timed.solver()));
    let winner = timed.iter().position(|timed| timed.solver() == best.solver())?;
    Some(Decision { ties, tied, winner, solvers: timed })
}

/// The best of each solver in the perf stage that was measured to the end, fastest first.
fn fastest_of_each_solver(outcomes: &[Outcome]) -> Vec<Timed<'_>> {
    let mut best: Vec<_> = best_of_each_solver(outcomes).into_values().collect();
    best.retain(|timed| !timed.timing.pruned);
    best.sort_by(|a, b| a.timing.median_ms.total_cmp(&b.timing.median_ms));
    best
}

/// MIOpen takes the fastest of its find db, whatever the distance to the next: so that one has to be the winner.
fn fastest<'a>(session: &Session, outcomes: &'a [Outcome]) -> Option<Decision<'a>> {
    let mut solvers = if session.stages.contains(&Stage::Find) {
        let following = follow_ups(session, outcomes);
        let tuned = best_of_each_solver(outcomes);
        // One of params that were the best before more was tuned does not count any more.
        let counts =
            |outcome: &Outcome| following.iter().any(|job| outcome.job.is(job)) || is_of_no_tuned(&outcome.job, &tuned);
        let finals = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Find && counts(outcome));
        finals.flat_map(|outcome| ranked(std::slice::from_ref(outcome), Stage::Find)).collect()
    } else {
        fastest_of_each_solver(outcomes)
    };
    solvers.sort_by(|a: &Timed<'_>, b| {
        // As its find db holds them.
        let time = |timed: &Timed<'_>| timed.timing.median_ms as f32;
        time(a).total_cmp(&time(b)).then_with(|| a.solver().cmp(b.solver()))
    });
    let fastest = *solvers.first()?;
    let tied: Vec<_> = solvers.iter().skip(1).filter(|timed| timed.ties_with(&fastest)).copied().collect();
    Some(Decision { solvers, winner: 0, ties: tied.len(), tied })
}
