//! Winners of earlier work: what a first round tries beside the default. They are measured as all candidates are, and nothing of them
//! is believed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::problem::Problem;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::value::Value;
use bluefin_common::wire::{self, Message};
use serde::{Deserialize, Serialize};

use super::{Space, Variables, distance};

/// Winners that a first round has at most: the others of its eight candidates are the default, and what is far from all of these.
pub const MOST_PRIORS: usize = 5;
/// Winners of one problem among them.
const OF_ONE_PROBLEM: usize = 2;

/// A candidate that won before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Prior {
    pub problem: Problem,
    /// Name of the kernel spec.
    pub spec: String,
    pub solver: String,
    /// By name, in any order.
    pub params: Vec<(String, Value)>,
}

/// Those of a session, as its blob has them: of each problem and solver the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorRows(pub Vec<Prior>);

impl Message for PriorRows {
    const KIND: u8 = 16;
    const VERSION: u8 = 1;
    const NAME: &'static str = "winners of earlier work";
    const IS_PACKED: bool = true;
}

/// The same, ready to be chosen from.
#[derive(Debug, Default)]
pub struct Priors {
    problems: Vec<(Problem, Variables)>,
    /// By spec and solver.
    rows: HashMap<(String, String), Vec<Row>>,
    count: usize,
}

#[derive(Debug)]
struct Row {
    /// Its number among all.
    at: usize,
    /// Its number in `problems`.
    problem: usize,
    params: Vec<(String, Value)>,
}

/// What a first round of a solver begins with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Points of the space: winners of the same problem, then those of the most similar ones.
    pub candidates: Vec<Candidate>,
    /// What became of each row that was looked at, by its number.
    pub fates: BTreeMap<usize, Fate>,
}

/// What becomes of a row. The last one counts where there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// No solver of its name was planned.
    NoSolver,
    /// It has other params than the solver: why.
    Params(String),
    /// A value or a constraint is in the way.
    NoPoint(String),
    /// Winners of more similar problems were taken.
    Behind,
    /// It is a candidate of a first round.
    Served,
}

impl Priors {
    #[must_use]
    pub fn of(PriorRows(rows): PriorRows) -> Self {
        let mut priors = Self { count: rows.len(), ..Self::default() };
        let mut known: HashMap<Problem, usize> = HashMap::new();
        for (at, Prior { problem, spec, solver, params }) in rows.into_iter().enumerate() {
            let problems = &mut priors.problems;
            let problem = *known.entry(problem).or_insert_with_key(|problem| {
                problems.push((problem.clone(), problem.variables()));
                problems.len() - 1
            });
            priors.rows.entry((spec, solver)).or_default().push(Row { at, problem, params });
        }
        priors
    }

    /// The winners in the blob `digest`.
    ///
    /// # Errors
    /// If the store fails, or it holds something else.
    pub async fn read(store: &dyn Store, digest: Digest) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = store.blob(digest).await? else { return Ok(None) };
        let corrupt = |source| StoreError::Corrupt { key: format!("{} {digest}", PriorRows::NAME), source };
        Ok(Some(Self::of(wire::decode(&bytes).map_err(corrupt)?)))
    }

    /// How many rows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// What the first round of `space`, of a solver of the spec of that name, begins with for `problem`. How similar problems are is what
    /// [`distance`] says, as nothing is known yet that more could be learnt from.
    #[must_use]
    pub fn choose(&self, spec: &str, space: &Space<'_>, problem: &Problem) -> Chosen {
        let mut chosen = Chosen::default();
        let Some(rows) = self.rows.get(&(spec.to_string(), space.solver().to_string())) else { return chosen };
        let variables = problem.variables();
        let far = |row: &Row| {
            let of = self.problems.get(row.problem);
            of.map_or(f64::INFINITY, |(other, at)| if other == problem { -1.0 } else { distance(&variables, at) })
        };
        let mut near: Vec<(f64, &Row)> = rows.iter().map(|row| (far(row), row)).collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.problem.cmp(&b.1.problem)).then(a.1.at.cmp(&b.1.at)));
        let mut known = HashSet::new();
        let mut of_problem: HashMap<usize, usize> = HashMap::new();
        for (_, row) in near {
            let fate = match point(space, &row.params) {
                Err(fate) => fate,
                // Another row has served it.
                Ok(candidate) if known.contains(&candidate) => Fate::Served,
                Ok(candidate) => {
                    let taken = of_problem.entry(row.problem).or_default();
                    if chosen.candidates.len() < MOST_PRIORS && *taken < OF_ONE_PROBLEM {
                        *taken += 1;
                        known.insert(candidate.clone());
                        chosen.candidates.push(candidate);
                        Fate::Served
                    } else {
                        Fate::Behind
                    }
                }
            };
            chosen.fates.insert(row.at, fate);
        }
        chosen
    }
}

/// The point of `space` that has these params.
fn point(space: &Space<'_>, params: &[(String, Value)]) -> Result<Candidate, Fate> {
    let mut values = Vec::new();
    for (name, of) in space.params() {
        let found = params.iter().find(|(found, _)| found == name);
        let Some((_, value)) = found else { return Err(Fate::Params(format!("found no {name}"))) };
        if !of.contains(value) {
            return Err(Fate::NoPoint(format!("{name}: found {value}, expected one of its values")));
        }
        values.push(value.clone());
    }
    if let Some((name, _)) = params.iter().find(|(name, _)| !space.params().any(|(known, _)| known == name)) {
        return Err(Fate::Params(format!("found {name}, which is none")));
    }
    let candidate = Candidate { solver: space.solver().to_string(), params: values };
    if space.holds(&candidate) { Ok(candidate) } else { Err(Fate::NoPoint("a constraint does not hold".to_string())) }
}

/// The winners of sessions, as they were read last. A blob never changes.
#[derive(Debug, Default)]
pub struct KnownPriors(Mutex<Option<(Digest, Arc<Priors>)>>);

impl KnownPriors {
    /// Those in the blob `digest`. `None`: it is not in the store.
    ///
    /// # Errors
    /// As [`Priors::read`].
    pub async fn get(&self, store: &dyn Store, digest: Digest) -> Result<Option<Arc<Priors>>, StoreError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, priors)) = known.filter(|(known, _)| *known == digest) {
            return Ok(Some(priors));
        }
        let Some(priors) = Priors::read(store, digest).await? else { return Ok(None) };
        let priors = Arc::new(priors);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((digest, Arc::clone(&priors)));
        Ok(Some(priors))
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::KernelProblem;

    use super::*;

    fn problem(n: i64) -> Problem {
        Problem::Kernel(KernelProblem::new("k".to_string(), [("n".to_string(), n.into())].into()).unwrap())
    }

    fn prior(n: i64, params: &[(&str, i64)]) -> Prior {
        let params = params.iter().map(|(name, value)| ((*name).to_string(), Value::Int(*value))).collect();
        Prior { problem: problem(n), spec: "k".to_string(), solver: "S".to_string(), params }
    }

    fn space() -> Space<'static> {
        let points = (0..100_i64).filter(|n| n % 7 != 3).map(|n| vec![Value::Int(n), Value::Int(n % 3)]).collect();
        Space::listed("S", &["N", "M"].map(str::to_string), points, 1)
    }

    #[test]
    fn the_same_problem_is_first_then_the_most_similar() {
        let row = |n, at: i64| prior(n, &[("M", at % 3), ("N", at)]);
        let rows = vec![
            row(4096, 1),
            row(1024, 2),
            row(64, 4),
            row(1000, 5),
            row(1000, 6),
            row(1000, 7),
            row(900, 5),
            row(500, 8),
            row(1, 9),
        ];
        let chosen = Priors::of(PriorRows(rows)).choose("k", &space(), &problem(1000));
        let params: Vec<String> = chosen.candidates.iter().map(Candidate::params_text).collect();
        // Its own two, 1024, 500 and 4096; that of 900 is one of its own.
        assert_eq!(params, ["5,2", "6,0", "2,2", "8,2", "1,1"]);
        let behind: Vec<usize> =
            chosen.fates.iter().filter(|(_, fate)| **fate == Fate::Behind).map(|(at, _)| *at).collect();
        assert_eq!((behind, chosen.fates.get(&6)), (vec![2, 5, 8], Some(&Fate::Served)));
    }

    #[test]
    fn what_is_no_point_of_the_space_is_left_out_and_why() {
        let rows = vec![
            prior(1, &[("N", 3), ("M", 0)]),
            prior(1, &[("N", 5), ("M", 9)]),
            prior(1, &[("N", 5)]),
            prior(1, &[("N", 5), ("M", 2), ("K", 1)]),
            Prior { solver: "T".to_string(), ..prior(1, &[]) },
        ];
        let priors = Priors::of(PriorRows(rows));
        let chosen = priors.choose("k", &space(), &problem(1));
        assert_eq!((chosen.candidates.len(), priors.count()), (0, 5));
        let fates: Vec<Fate> = chosen.fates.into_values().collect();
        let expected = [
            Fate::NoPoint("N: found 3, expected one of its values".to_string()),
            Fate::NoPoint("M: found 9, expected one of its values".to_string()),
            Fate::Params("found no M".to_string()),
            Fate::Params("found K, which is none".to_string()),
        ];
        assert_eq!(fates, expected);
        assert_eq!(priors.choose("other", &space(), &problem(1)), Chosen::default());
    }
}
