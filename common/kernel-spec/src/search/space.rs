//! What there is to search: points of a solver's params.

use std::collections::{HashMap, HashSet};

use bluefin_common::candidate::Candidate;
use bluefin_common::digest::{CANDIDATE_ORDER, Digest};
use bluefin_common::value::Value;

use crate::error::SpecError;
use crate::permutation::Permutation;
use crate::{KernelSpec, Scope, Solver};

/// The tuning space of one solver for one problem.
#[derive(Debug)]
pub struct Space<'a>(Points<'a>);

#[derive(Debug)]
enum Points<'a> {
    /// A product of values, less what constraints forbid.
    Spec { spec: &'a KernelSpec, solver: &'a Solver, scope: &'a Scope },
    /// Those of a list.
    Listed(Listed),
}

#[derive(Debug)]
struct Listed {
    solver: String,
    params: Vec<(String, Vec<Value>)>,
    points: Vec<Vec<Value>>,
    /// The same, to be looked up.
    known: HashSet<Vec<Value>>,
    /// What a model says of each, where there is one.
    costs: HashMap<Vec<Value>, f64>,
    order: [u8; 32],
}

impl<'a> Space<'a> {
    /// That of `solver`, of `spec`, where the expressions have the values of `scope`.
    #[must_use]
    pub fn of(spec: &'a KernelSpec, solver: &'a Solver, scope: &'a Scope) -> Self {
        Self(Points::Spec { spec, solver, scope })
    }

    /// `points` of the params `names`, each of as many values. Another `seed` gives them another order.
    #[must_use]
    pub fn listed(solver: &str, names: &[String], points: Vec<Vec<Value>>, seed: u64) -> Self {
        let params = names.iter().enumerate().map(|(at, name)| {
            let mut values: Vec<Value> = points.iter().filter_map(|point| point.get(at).cloned()).collect();
            values.sort_unstable();
            values.dedup();
            (name.clone(), values)
        });
        let params = params.collect();
        let known = points.iter().cloned().collect();
        let order = Digest::of_parts(CANDIDATE_ORDER, [solver.as_bytes(), &seed.to_le_bytes()]).0;
        Self(Points::Listed(Listed { solver: solver.to_string(), params, points, known, costs: HashMap::new(), order }))
    }

    /// The same, where a model says of points what [`Solver::cost`] says of those of a spec.
    #[must_use]
    pub fn with_costs(mut self, of: HashMap<Vec<Value>, f64>) -> Self {
        if let Points::Listed(Listed { costs, .. }) = &mut self.0 {
            *costs = of;
        }
        self
    }

    /// What an analytic model says of `candidate`: [`Solver::cost`].
    ///
    /// # Errors
    /// If that has no value.
    pub fn cost(&self, candidate: &Candidate) -> Result<Option<f64>, SpecError> {
        match &self.0 {
            Points::Spec { solver, scope, .. } => solver.cost(&candidate.params, scope),
            Points::Listed(listed) => Ok(listed.costs.get(&candidate.params).copied()),
        }
    }

    /// The solver whose params they are.
    #[must_use]
    pub fn solver(&self) -> &str {
        match &self.0 {
            Points::Spec { solver, .. } => &solver.name,
            Points::Listed(listed) => &listed.solver,
        }
    }

    /// Names of the params and the values that each may have, in the order that points have them.
    pub fn params(&self) -> Box<dyn Iterator<Item = (&str, &[Value])> + '_> {
        match &self.0 {
            Points::Spec { solver, .. } => {
                Box::new(solver.params.iter().map(|param| (param.name.as_str(), param.values.as_slice())))
            }
            Points::Listed(listed) => {
                Box::new(listed.params.iter().map(|(name, values)| (name.as_str(), values.as_slice())))
            }
        }
    }

    /// The first `limit` candidates in the fixed order: that of [`KernelSpec::candidates`], which begins with the default; of a
    /// list a pseudo-random one.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn first(&self, limit: usize) -> Result<Vec<Candidate>, SpecError> {
        match &self.0 {
            Points::Spec { spec, solver, scope } => Ok(spec.candidates(solver, scope, limit)?.points),
            Points::Listed(listed) => Ok(listed.ordered(&listed.order, limit)),
        }
    }

    /// How many points there are; of a space that is too large to be walked through an estimate, as [`KernelSpec::candidates`] has it.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn valid(&self) -> Result<u64, SpecError> {
        match &self.0 {
            Points::Spec { spec, solver, scope } => Ok(spec.candidates(solver, scope, 0)?.valid),
            Points::Listed(listed) => Ok(listed.points.len() as u64),
        }
    }

    /// Points at random, none twice: up to `limit`, in the order that `seed` gives. No more than `looked_at` points are looked at for
    /// that, so that a space of any size takes no longer; of one that constraints leave little of, fewer come.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn draw(&self, seed: &[u8; 32], limit: usize, looked_at: u64) -> Result<Vec<Candidate>, SpecError> {
        match &self.0 {
            Points::Spec { solver, scope, .. } => solver.draw(scope, seed, limit, looked_at),
            Points::Listed(listed) => {
                Ok(listed.ordered(seed, limit.min(usize::try_from(looked_at).unwrap_or(usize::MAX))))
            }
        }
    }

    /// Whether `candidate` is a point of the space, for a strategy that makes its own: all constraints hold.
    #[must_use]
    pub fn holds(&self, candidate: &Candidate) -> bool {
        match &self.0 {
            Points::Spec { solver, scope, .. } => {
                candidate.solver == solver.name && solver.holds(&candidate.params, scope)
            }
            Points::Listed(listed) => candidate.solver == listed.solver && listed.known.contains(&candidate.params),
        }
    }
}

impl Listed {
    /// The first `limit` points in the order that `seed` gives.
    fn ordered(&self, seed: &[u8; 32], limit: usize) -> Vec<Candidate> {
        let order = Permutation::new(self.points.len() as u64, seed);
        let first = (0..self.points.len().min(limit)).filter_map(|at| {
            let at = usize::try_from(order.at(at as u64)).ok()?;
            let params = self.points.get(at)?.clone();
            Some(Candidate { solver: self.solver.clone(), params })
        });
        first.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_points_is_a_space() {
        let points: Vec<Vec<Value>> = (0..40_i64).map(|n| vec![Value::Int(n), Value::Int(n % 3)]).collect();
        let names = ["N", "M"].map(str::to_string);
        let space = |seed| Space::listed("S", &names, points.clone(), seed);
        let order = |seed| space(seed).first(usize::MAX).unwrap();
        let mut all = order(1);
        assert_eq!((all.len(), &all[..7]), (40, &*space(1).first(7).unwrap()));
        assert_ne!(all, order(2), "another seed, another order");
        assert!(all.iter().all(|candidate| space(1).holds(candidate)));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 40);
        let other = Candidate { solver: "S".to_string(), params: vec![Value::Int(4), Value::Int(2)] };
        assert!(!space(1).holds(&other), "each value is there, but not together");
        let params: Vec<_> = space(1).params().map(|(name, values)| (name.to_string(), values.len())).collect();
        assert_eq!(params, [("N".to_string(), 40), ("M".to_string(), 3)]);
    }
}
