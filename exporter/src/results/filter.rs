//! Which candidates are asked for.

use std::collections::HashSet;

use bluefin_common::failure::FailureKind;
use bluefin_common::problem::Problem;
use bluefin_common::session::Stage;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};

use super::row::{Came, Row};

/// What a candidate must be; of what is `None` or `false`, anything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub failed: bool,
    pub kind: Option<FailureKind>,
    /// Name of the solver, with or without the `Bluefin` of bluefin's own, in any case.
    pub solver: Option<String>,
    pub problem: Option<ProblemFilter>,
    pub winner: bool,
    /// It failed, and was tried again.
    pub retried: bool,
    pub stage: Option<Stage>,
}

/// Problems by one of their names.
#[derive(Clone, Debug)]
pub enum ProblemFilter {
    /// These, and only these.
    Problems(HashSet<Problem>),
    /// Convolutions of this key in MIOpen's find db.
    FindDb(FindDbKey),
    /// Convolutions of this key in MIOpen's perf db.
    PerfDb(Box<PerfDbKey>),
    /// Those whose label or driver command has this in it, in any case; lower case here.
    Text(String),
}

/// Whether `wanted` names the solver `name`: in any case, with or without the `Bluefin` of bluefin's own.
#[must_use]
pub fn is_solver(wanted: &str, name: &str) -> bool {
    let short = |name: &str| name.to_lowercase().trim_start_matches("bluefin").to_string();
    short(wanted) == short(name)
}

impl ProblemFilter {
    /// Whether it names `problem`.
    #[must_use]
    pub fn takes(&self, problem: &Problem) -> bool {
        let key = || match problem {
            Problem::Conv(conv) => Some(FindDbKey::from(conv)),
            _ => None,
        };
        match self {
            Self::Problems(problems) => problems.contains(problem),
            Self::FindDb(wanted) => key().is_some_and(|key| key == *wanted),
            Self::PerfDb(wanted) => key().is_some_and(|key| PerfDbKey::from(&key) == **wanted),
            Self::Text(text) => {
                let has = |name: String| name.to_lowercase().contains(text);
                has(problem.label()) || has(problem.canonical())
            }
        }
    }
}

impl Filter {
    /// Whether candidates of the problem may be taken.
    pub(super) fn takes_problem(&self, problem: &Problem) -> bool {
        self.problem.as_ref().is_none_or(|filter| filter.takes(problem))
    }

    /// Whether the candidate is taken, of whatever problem.
    pub(super) fn takes(&self, row: &Row) -> bool {
        let of_kind = match row.result {
            Came::Failed(kind) => self.kind.is_none_or(|wanted| wanted == kind),
            Came::Timed | Came::Pruned => !self.failed && self.kind.is_none(),
        };
        of_kind
            && (!self.winner || row.winner)
            && self.stage.is_none_or(|stage| stage == row.stage)
            && self.solver.as_ref().is_none_or(|wanted| is_solver(wanted, &row.solver))
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};

    use super::super::row::tests::{failed, row};
    use super::*;

    #[test]
    fn what_is_asked_for_is_taken() {
        let broken = failed(1, FailureKind::Hang, "");
        let taken = |filter: &Filter| [filter.takes(&row(3)), filter.takes(&broken)];
        assert_eq!(taken(&Filter::default()), [true, true]);
        assert_eq!(taken(&Filter { failed: true, ..Filter::default() }), [false, true]);
        let kind = |kind| Filter { failed: true, kind: Some(kind), ..Filter::default() };
        assert_eq!(taken(&kind(FailureKind::Hang)), [false, true]);
        assert_eq!(taken(&kind(FailureKind::Fault)), [false, false]);
        assert_eq!(taken(&Filter { winner: true, ..Filter::default() }), [true, false]);
        assert_eq!(taken(&Filter { stage: Some(Stage::Find), ..Filter::default() }), [false, false]);
        for (name, found) in [("Tiled", true), ("bluefintiled", true), ("Direct", false)] {
            let filter = Filter { solver: Some(name.to_string()), ..Filter::default() };
            assert_eq!(filter.takes(&row(3)), found, "{name}");
        }
    }

    #[test]
    fn a_problem_is_found_by_all_of_its_names() {
        let of = |n| ConvProblem::new(ConvShape { n, ..ConvShape::plain(Direction::Forward, DataType::Fp32) }).unwrap();
        let (one, other) = (of(1), of(2));
        let key = FindDbKey::from(&one);
        let text = format!("-n {} ", 1);
        for filter in [
            ProblemFilter::Problems([Problem::Conv(one.clone())].into()),
            ProblemFilter::PerfDb(Box::new(PerfDbKey::from(&key))),
            ProblemFilter::FindDb(key),
            ProblemFilter::Text(text),
        ] {
            let filter = Filter { problem: Some(filter), ..Filter::default() };
            let found = [&one, &other].map(|conv| filter.takes_problem(&Problem::Conv(conv.clone())));
            assert_eq!(found, [true, false], "{filter:?}");
        }
    }
}
