//! What failed in a session, and what of it nobody should overlook.

use std::collections::BTreeMap;

use bluefin_common::failure::{Failure, FailureKind, telling_line};
use bluefin_common::job::GroupId;
use bluefin_common::printable::printable;
use bluefin_common::session::Session;
use bluefin_common::store::Store;

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::shared::{Common, SharedParams, params, words};
use crate::stream;

/// Serious ones that are told in [`Troubles::lines`].
const TOLD: usize = 4;
/// Serious ones that are kept.
const MAX_SERIOUS: usize = 100;
/// Characters of a failure's words that are kept.
const MAX_WORDS: usize = 160;

/// Failures of some groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Candidates by kind of failure.
    pub failed: BTreeMap<&'static str, u64>,
    /// One of each problem, solver and kind, in the order of the groups; the first hundred.
    pub serious: Vec<Serious>,
    /// How many more there are.
    pub more: u64,
    /// What the failures of each kind and solver share.
    shared: SharedParams,
}

/// A failure that is no part of tuning: a result that was wrong, or a solver whose own default params fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serious {
    /// Label of the problem.
    pub problem: String,
    pub solver: String,
    pub kind: FailureKind,
    /// Its params, as `NAME=value ...`.
    pub params: String,
    /// Whether it is the default that failed.
    pub is_default: bool,
    /// The beginning of its words.
    pub words: String,
}

impl Troubles {
    /// For people, in few lines; none where nothing failed. `words` is the command that shows what each failure says.
    #[must_use]
    pub fn lines(&self, words: &str) -> Vec<String> {
        let Self { failed, serious, more, .. } = self;
        if failed.is_empty() {
            return Vec::new();
        }
        let kinds: Vec<String> = failed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let mut lines = vec![format!("failed: {}", kinds.join(", "))];
        lines.extend(self.shared_lines());
        for Serious { problem, solver, kind, params, is_default, words } in serious.iter().take(TOLD) {
            let which = match (is_default, params.as_str()) {
                (true, "") => "with its default params".to_string(),
                (true, params) => format!("with its default params ({params})"),
                (false, params) => format!("with {params}"),
            };
            let line = format!("  {}: {solver} {which} on {problem}: {words}", kind.name());
            lines.push(printable(&line).into_owned());
        }
        let left = serious.len().saturating_sub(TOLD) as u64 + more;
        if left > 0 {
            lines.push(format!("  {left} more wrong results or failed defaults"));
        }
        lines.push(format!("in their own words: {words}"));
        lines
    }
}

impl Troubles {
    /// What failures share that others of their solver do not have: `14 fault: all with TILE_C=128, of Tiled`.
    fn shared_lines(&self) -> impl Iterator<Item = String> {
        let line = |Common { kind, candidates, solver, params }: Common| {
            printable(&format!("  {candidates} {kind}: all with {params}, of {solver}")).into_owned()
        };
        self.shared.told().into_iter().take(TOLD).map(line)
    }
}

/// At most `most` characters of the line of `text` that [tells most](telling_line).
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    let line = telling_line(text);
    let line = line.trim();
    if line.chars().count() <= most {
        return line.to_string();
    }
    line.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Whether an output was not what it should be.
fn is_wrong(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::WrongResult | FailureKind::OutputNotWritten | FailureKind::NotANumber)
}

/// Whether a default may fail like that without anything being wrong with it.
fn is_usual(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NotApplicable | FailureKind::BudgetSpent)
}

impl Fold for Troubles {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let mut told: Vec<(&str, FailureKind)> = Vec::new();
        for of in group.outcomes.iter().flat_map(|outcome| &outcome.candidates) {
            let params = params(&group.description, &of.candidate);
            let failed = of.result.as_ref().err().map(|failure| failure.kind);
            self.shared.note(&of.candidate.solver, &params, failed);
            let Err(Failure { kind, detail }) = &of.result else { continue };
            *self.failed.entry(kind.name()).or_default() += 1;
            let solver = of.candidate.solver.as_str();
            let default = group.description.solver(solver).and_then(|solver| solver.default.as_ref());
            let is_default = default == Some(&of.candidate.params);
            if !is_wrong(*kind) && (!is_default || is_usual(*kind)) || told.contains(&(solver, *kind)) {
                continue;
            }
            told.push((solver, *kind));
            self.push(Serious {
                problem: group.problem.label(),
                solver: solver.to_string(),
                kind: *kind,
                params: words(&params),
                is_default,
                words: shortened(detail, MAX_WORDS),
            });
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (kind, count) in other.failed {
            *self.failed.entry(kind).or_default() += count;
        }
        self.more += other.more;
        self.shared.merge(other.shared);
        other.serious.into_iter().for_each(|serious| self.push(serious));
    }
}

impl Troubles {
    fn push(&mut self, serious: Serious) {
        if self.serious.len() < MAX_SERIOUS {
            self.serious.push(serious);
        } else {
            self.more += 1;
        }
    }
}

/// What failed in `groups`.
///
/// # Errors
/// If the store fails, or a kernel spec in it can not be used.
pub async fn troubles(store: &dyn Store, session: &Session, groups: &[GroupId]) -> Result<Troubles, ExportError> {
    Ok(stream::fold(store, session, groups, None, Troubles::default).await?.records)
}

#[cfg(test)]
mod tests {
    use bluefin_common::candidate::Candidate;
    use bluefin_common::description::{Description, SolverInfo};
    use bluefin_common::digest::Digest;
    use bluefin_common::job::Job;
    use bluefin_common::method::Method;
    use bluefin_common::outcome::{CandidateOutcome, Outcome};
    use bluefin_common::problem::{KernelProblem, Problem};
    use bluefin_common::session::Stage;
    use bluefin_common::target::Target;

    use bluefin_common::lane::Lane;

    use super::*;

    #[test]
    fn wrong_results_and_broken_defaults_are_serious() {
        let session = Session::of_kernels("s".parse().unwrap(), Target::Host, "", &Stage::ALL, 0);
        let failed = |param: i64, kind| CandidateOutcome {
            candidate: Candidate { solver: "A".to_string(), params: vec![param.into()] },
            built: None,
            result: Err(Failure::new(kind, "\nfirst\nsecond")),
            resources: None,
        };
        let candidates = vec![
            failed(0, FailureKind::Fault),
            failed(1, FailureKind::Fault),
            failed(2, FailureKind::WrongResult),
            failed(3, FailureKind::WrongResult),
            failed(0, FailureKind::BudgetSpent),
        ];
        let job = Job {
            session: session.name.clone(),
            stage: Stage::Perf,
            target: Target::Host,
            problem: Problem::Kernel(
                KernelProblem::new("k".to_string(), [("n".to_string(), 1_i64.into())].into()).unwrap(),
            ),
            method: Method::KERNELS,
            spec: Digest::of(b"spec"),
            toolchain: "cc".to_string(),
            candidates: candidates.iter().map(|of| of.candidate.clone()).collect(),
            round: 0,
            lane: Lane::First,
        };
        let solver = SolverInfo { name: "A".to_string(), default: Some(vec![0_i64.into()]), ..SolverInfo::default() };
        let description = Description { library: "k".to_string(), solvers: vec![solver], ..Description::default() };
        let outcomes = [Outcome::undone(&job, description, candidates, 0)];
        let group = Group::new(&session, &outcomes).unwrap();
        let mut troubles = Troubles::default();
        troubles.add(&group, &mut Warnings::new());
        assert_eq!(troubles.failed, BTreeMap::from([("fault", 2), ("wrong_result", 2), ("budget_spent", 1)]));
        let serious: Vec<_> =
            troubles.serious.iter().map(|one| (one.kind, one.is_default, one.words.as_str())).collect();
        assert_eq!(serious, [(FailureKind::Fault, true, "first"), (FailureKind::WrongResult, false, "first")]);
    }

    #[test]
    fn words_are_cut_to_the_line_that_tells_most() {
        let words = "compile_error: In file included from a.c:1:\nb.h:2:3: error: no such type\nb.h:4: error: x";
        assert_eq!(shortened(words, 80), "b.h:2:3: error: no such type");
        assert_eq!(shortened("Traceback\n  line 3\nValueError: no", 80), "ValueError: no");
        assert_eq!(shortened(" \n a bc\nd", 4), "a bc");
        assert_eq!(shortened("äöüß", 3), "äö…");
    }

    #[test]
    fn few_lines_say_it() {
        let serious = |index: usize| Serious {
            problem: format!("p{index}"),
            solver: "A".to_string(),
            kind: FailureKind::WrongResult,
            params: "X=1".to_string(),
            is_default: index == 0,
            words: "y[3]: found 1\u{1b}".to_string(),
        };
        let troubles = Troubles {
            failed: [("wrong_result", 9)].into(),
            serious: (0..6).map(serious).collect(),
            more: 2,
            ..Troubles::default()
        };
        let lines = troubles.lines("bluefin results");
        assert_eq!(lines.len(), 1 + TOLD + 2);
        assert_eq!(lines[0], "failed: 9 wrong_result");
        assert_eq!(lines[1], "  wrong_result: A with its default params (X=1) on p0: y[3]: found 1\\u{1b}");
        assert_eq!(lines[2], "  wrong_result: A with X=1 on p1: y[3]: found 1\\u{1b}");
        assert_eq!(lines[5], "  4 more wrong results or failed defaults");
        assert_eq!(Troubles::default().lines(""), [""; 0]);
    }
}
