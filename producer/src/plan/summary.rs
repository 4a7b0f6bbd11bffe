//! What planning a session came to: for people, and as JSON for scripts.

use std::collections::BTreeMap;
use std::fmt;

use bluefin_common::job::{GroupId, Job};
use bluefin_common::problem::Problem;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::counted;
use serde::Serialize;

use super::{PlannedGroup, ProblemPlan, Selects};

/// Problems that are told one by one.
const MAX_TOLD: usize = 20;

/// What planning a session came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    pub session: String,
    pub problems: u64,
    /// Problems that no solver applies to.
    pub unsolved: Vec<LeftOut>,
    /// Where solvers are chosen.
    #[serde(flatten)]
    pub solvers: Option<ChosenSolvers>,
    /// Where candidates of tuning spaces are chosen.
    #[serde(flatten)]
    pub space: Option<Space>,
    /// What is planned, in the order of the problems.
    #[serde(skip)]
    pub groups: Vec<GroupId>,
    pub jobs: u64,
    /// Published now.
    pub enqueued: u64,
    /// In a queue or at a worker already.
    pub waiting: u64,
    /// With an outcome already.
    pub done: u64,
    /// Input lines that were not taken.
    pub rejects: Vec<String>,
}

/// What choosing solvers left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChosenSolvers {
    /// Problems of whose solvers none was chosen.
    pub passed_over: u64,
    /// The same with why, which is told where it leaves nothing to do.
    #[serde(skip)]
    pub why: Vec<LeftOut>,
    /// Problems whose solvers are not known.
    pub unknown: Vec<String>,
    /// What to do about them.
    #[serde(skip)]
    pub advice: Option<String>,
}

/// How much of the tuning spaces was chosen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Space {
    /// Candidates planned, of those that are valid.
    pub candidates: u64,
    pub valid_candidates: u64,
    /// For people: `at budget normal`.
    #[serde(skip)]
    pub within: String,
    /// How many solvers have so many valid candidates, over all problems.
    #[serde(skip)]
    pub sizes: BTreeMap<u64, u64>,
}

impl Space {
    /// Candidates, where each solver of each problem has at most so many.
    #[must_use]
    pub fn at_most(&self, candidates: u64) -> u64 {
        self.sizes
            .iter()
            .map(|(size, solvers)| size.saturating_mul(*solvers).min(candidates.saturating_mul(*solvers)))
            .sum()
    }
}

/// What enqueuing came to: how many jobs of a plan are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Published now.
    pub published: u64,
    /// In a queue or at a worker already.
    pub waiting: u64,
    /// With an outcome already.
    pub done: u64,
}

/// A problem that nothing is planned for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub problem: String,
    /// In one line.
    pub reason: String,
}

/// `conv -n 1 ...: why`
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.problem, self.reason)
    }
}

impl Plan {
    /// That of no problem yet.
    pub fn new(session: &SessionName, selects: Selects) -> Self {
        let plan = Self { session: session.to_string(), ..Self::default() };
        match selects {
            Selects::Candidates { within } => Self { space: Some(Space { within, ..Space::default() }), ..plan },
            Selects::Solvers => Self { solvers: Some(ChosenSolvers::default()), ..plan },
        }
    }

    /// Takes up what came of `problem`; returns its jobs.
    pub fn add(&mut self, problem: &Problem, plan: ProblemPlan) -> Vec<Job> {
        self.problems += 1;
        let left_out = |reason| LeftOut { problem: problem.to_string(), reason };
        match plan {
            ProblemPlan::Jobs(groups) => return groups.into_iter().flat_map(|group| self.add_group(group)).collect(),
            ProblemPlan::Unsolved(reason) => self.unsolved.push(left_out(reason)),
            ProblemPlan::PassedOver(reason) => {
                let solvers = self.solvers.get_or_insert_default();
                solvers.passed_over += 1;
                solvers.why.push(left_out(reason));
            }
            ProblemPlan::Unknown(advice) => {
                let solvers = self.solvers.get_or_insert_default();
                solvers.unknown.push(problem.to_string());
                solvers.advice.get_or_insert(advice);
            }
        }
        Vec::new()
    }

    fn add_group(&mut self, group: PlannedGroup) -> Vec<Job> {
        self.groups.extend(group.jobs.first().map(Job::group));
        self.jobs += group.jobs.len() as u64;
        if let Some(space) = &mut self.space {
            space.candidates += group.jobs.iter().map(|job| job.candidates.len() as u64).sum::<u64>();
            for valid in group.valid.values() {
                space.valid_candidates += valid.count;
                *space.sizes.entry(valid.count).or_default() += 1;
            }
        }
        group.jobs
    }

    pub(crate) fn set_enqueued(&mut self, Enqueued { published, waiting, done }: Enqueued) {
        (self.enqueued, self.waiting, self.done) = (published, waiting, done);
    }

    /// What to do first, where of no problem at all it is known which solvers apply.
    pub(crate) fn advice(&self) -> Option<&String> {
        let solvers = self.solvers.as_ref().filter(|solvers| solvers.unknown.len() as u64 == self.problems)?;
        solvers.advice.as_ref()
    }

    fn unknown(&self) -> &[String] {
        self.solvers.as_ref().map_or(&[], |solvers| &solvers.unknown)
    }

    /// One line for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { session, problems, jobs, enqueued, waiting, done, .. } = self;
        let mut text = format!(
            "session {session}: {}, {} ({enqueued} enqueued now, {waiting} waiting, {done} done)",
            counted(*problems, "problem"),
            counted(*jobs, "job")
        );
        if let Some(ChosenSolvers { passed_over: count @ 1.., .. }) = &self.solvers {
            text.push_str(&format!("; with none of the chosen solvers: {}", counted(*count, "problem")));
        }
        if let Some(Space { candidates, valid_candidates, within, .. }) = &self.space {
            text.push_str(&format!("; {candidates} of {valid_candidates} candidates {within}"));
        }
        text
    }

    /// Whether there is something to do, and nothing was left out.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.jobs > 0 && self.unsolved.is_empty() && self.unknown().is_empty() && self.rejects.is_empty()
    }

    /// The input lines that were not taken, for people.
    #[must_use]
    pub fn rejected(&self) -> Vec<String> {
        self.rejects.iter().map(|reject| format!("rejected: {reject}")).collect()
    }

    /// The problems that nothing is planned for, for people: a line for each, and how many more there are. What leaves nothing
    /// to do is told at the end.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut told = lines("skipped, no solver applies", &self.unsolved);
        told.extend(lines("not known which solvers apply", self.unknown()));
        if self.jobs == 0 {
            let why = match &self.solvers {
                Some(solvers) => {
                    told.extend(lines("skipped", &solvers.why));
                    "no solver was planned for any problem"
                }
                None if self.problems == 0 => "no problems",
                None => "no solver applies to any problem",
            };
            told.push(format!("nothing to do: {why}"));
        }
        told
    }
}

fn lines(why: &str, left_out: &[impl fmt::Display]) -> Vec<String> {
    let mut lines: Vec<String> = left_out.iter().take(MAX_TOLD).map(|one| format!("{why}: {one}")).collect();
    let more = left_out.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        lines.push(format!("{why}: {more} more problems"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(plan: &Plan) -> Vec<String> {
        let value = serde_json::to_value(plan).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn a_long_list_is_cut() {
        let one = LeftOut { problem: "conv -n 1".to_string(), reason: "no".to_string() };
        assert_eq!(lines("skipped", std::slice::from_ref(&one)), ["skipped: conv -n 1: no"]);
        let told = lines("skipped", &vec![one; 1000]);
        assert_eq!(told.len(), 21);
        assert_eq!(told[20], "skipped: 980 more problems");
    }

    /// Scripts read them.
    #[test]
    fn a_plan_has_the_keys_of_what_it_selects() {
        let session = "s".parse().unwrap();
        let candidates = Plan::new(&session, Selects::Candidates { within: "at budget normal".to_string() });
        let counts = ["jobs", "enqueued", "waiting", "done", "rejects"];
        let expected = [&["session", "problems", "unsolved", "candidates", "valid_candidates"], &counts[..]].concat();
        assert_eq!(keys(&candidates), expected);
        assert!(candidates.sentence().ends_with("0 done); 0 of 0 candidates at budget normal"));
        assert_eq!(candidates.left_out(), ["nothing to do: no problems"]);

        let solvers = Plan::new(&session, Selects::Solvers);
        let expected = [&["session", "problems", "unsolved", "passed_over", "unknown"], &counts[..]].concat();
        assert_eq!(keys(&solvers), expected);
        assert!(solvers.sentence().ends_with("0 done)"));
        assert!(!solvers.is_fine());
    }
}
