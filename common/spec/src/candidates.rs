//! Points of a solver's tuning space: the default, then the others in an order that is random but always the same.

use crate::error::SpecError;
use crate::expression::{Values, push};
use crate::permutation::Permutation;
use crate::{KernelSpec, Scope, Solver};
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::{CANDIDATE_ORDER, Digest};
use bluefin_common::value::Value;

/// Points that are looked at to count the valid ones, whatever the limit: spaces up to this size are counted exactly.
const COUNTED: u64 = 1024;
/// Points that are looked at at most, so that a space with hardly a valid point ends.
const MAX_WALK: u64 = 1 << 22;

/// Candidates of one solver for one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// Valid points. A larger limit yields the same ones and more behind them.
    pub points: Vec<Candidate>,
    /// How many points of the space satisfy the constraints.
    pub valid: u64,
    /// Whether `valid` was counted; else it is estimated from part of the space.
    pub exact: bool,
    /// Points of the space, valid or not.
    pub space: u64,
}

impl KernelSpec {
    /// Up to `limit` valid points: the default first if it is valid, then a pseudo-random order that depends on the
    /// solver alone. Nothing is enumerated beyond what `limit` asks for and the count needs.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn candidates(&self, solver: &Solver, scope: &Scope, limit: usize) -> Result<Candidates, SpecError> {
        let space = solver.space();
        // Not by problem: the layers of a network then try the same points, and share their artifacts.
        let seed = Digest::of_parts(CANDIDATE_ORDER, [solver.name.as_bytes()]);
        let order = Permutation::new(space, &seed.0);
        let mut values = scope.values.clone();
        let outer = values.len();
        let mut points = Vec::new();

        let default = solver.default_candidate();
        if limit > 0 && solver.accepts(&default.params, &mut values)? {
            points.push(default.clone());
        }
        let (mut walked, mut valid) = (0, 0_u64);
        while walked < space.min(MAX_WALK) && (points.len() < limit || walked < COUNTED) {
            let params = solver.point(order.at(walked));
            walked += 1;
            values.rewind(outer);
            if !solver.accepts(&params, &mut values)? {
                continue;
            }
            valid += 1;
            if points.len() < limit && params != default.params {
                points.push(Candidate { solver: solver.name.clone(), params });
            }
        }
        let exact = walked == space;
        if !exact {
            // The sample is random, so its share is the share of the space.
            let share = u128::from(valid) * u128::from(space) / u128::from(walked.max(1));
            valid = u64::try_from(share).unwrap_or(space).max(points.len() as u64);
        }
        Ok(Candidates { points, valid, exact, space })
    }
}

impl Solver {
    /// The point of that index: params as digits, the last one running fastest.
    fn point(&self, mut index: u64) -> Vec<Value> {
        let mut params = Vec::with_capacity(self.params.len());
        for param in self.params.iter().rev() {
            let count = param.values.len() as u64;
            let at = usize::try_from(index % count).unwrap_or_default();
            params.extend(param.values.get(at).cloned());
            index /= count;
        }
        params.reverse();
        params
    }

    /// Adds `params` to `values` and says whether all constraints hold.
    fn accepts(&self, params: &[Value], values: &mut Values) -> Result<bool, SpecError> {
        for (param, value) in self.params.iter().zip(params) {
            push(values, &param.name, value);
        }
        for constraint in &self.constraints {
            if !constraint.holds(values)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
