//! Points of a solver's tuning space: the default, then the others in an order that is random but always the same.

use std::collections::HashSet;

use crate::error::SpecError;
use crate::expression::{Values, push};
use crate::permutation::Permutation;
use crate::{KernelSpec, Param, Scope, Solver};
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::{CANDIDATE_ORDER, Digest};
use bluefin_common::value::Value;

/// Candidates of one job. Small enough that a job takes seconds and its progress shows; a larger budget adds jobs and leaves the
/// existing ones as they are.
pub const BATCH: usize = 8;
/// Points that are looked at to count the valid ones, whatever the limit: spaces up to this size are counted exactly.
const COUNTED: u64 = 1024;
/// Points of a solver whose launches pass params that are in random order, whatever of them is compiled alike: small budgets are to see
/// all of a space. A multiple of what a job holds.
pub const SCATTERED: usize = 8 * BATCH;
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
    /// solver alone. Behind the first [`SCATTERED`] points those that share a compile follow each other, since they differ in params that
    /// launches pass. Nothing is enumerated beyond what `limit` asks for and the count needs.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn candidates(&self, solver: &Solver, scope: &Scope, limit: usize) -> Result<Candidates, SpecError> {
        let space = solver.space();
        // Not by problem: the layers of a network then try the same points, and share their artifacts.
        let seed = Digest::of_parts(CANDIDATE_ORDER, [solver.name.as_bytes()]).0;
        let scattered = if solver.params.iter().any(|param| param.at_launch) { limit.min(SCATTERED) } else { limit };
        let order = Permutation::new(space, &seed);
        let mut walk = Walk::begin(solver, scope, limit)?;
        walk.go(scattered, |at| solver.point(order.at(at)))?;
        if limit > scattered && walk.points.len() == scattered {
            let variants = space / solver.compiles();
            let order = Permutation::new(solver.compiles(), &seed);
            walk.go(limit, |at| solver.variant(order.at(at / variants), at % variants))?;
        }
        let Walk { points, walked, mut valid, .. } = walk;
        let exact = walked == space;
        if !exact {
            // The sample is random, so its share is the share of the space.
            let share = u128::from(valid) * u128::from(space) / u128::from(walked.max(1));
            valid = u64::try_from(share).unwrap_or(space).max(points.len() as u64);
        }
        Ok(Candidates { points, valid, exact, space })
    }
}

/// A way through a space, on which valid points are found.
struct Walk<'a> {
    solver: &'a Solver,
    values: Values,
    /// How many values stand before those of params.
    outer: usize,
    points: Vec<Candidate>,
    /// Points that were looked at by the last order, and how many of them are valid.
    walked: u64,
    valid: u64,
}

impl<'a> Walk<'a> {
    /// At the default, unless it is not valid.
    fn begin(solver: &'a Solver, scope: &Scope, limit: usize) -> Result<Self, SpecError> {
        let mut values = scope.values.clone();
        let outer = values.len();
        let default = solver.default_candidate();
        let is_first = limit > 0 && solver.accepts(&default.params, &mut values)?;
        let points = is_first.then_some(default).into_iter().collect();
        Ok(Self { solver, values, outer, points, walked: 0, valid: 0 })
    }

    /// Adds valid points by an order of all, up to `limit` with those that are there.
    fn go(&mut self, limit: usize, at: impl Fn(u64) -> Vec<Value>) -> Result<(), SpecError> {
        let known: HashSet<Vec<Value>> = self.points.iter().map(|point| point.params.clone()).collect();
        let end = self.solver.space().min(MAX_WALK);
        // A list is counted whole.
        let counted = if self.solver.points.is_some() { end } else { COUNTED };
        (self.walked, self.valid) = (0, 0);
        while self.walked < end && (self.points.len() < limit || self.walked < counted) {
            let params = at(self.walked);
            self.walked += 1;
            self.values.rewind(self.outer);
            if !self.solver.accepts(&params, &mut self.values)? {
                continue;
            }
            self.valid += 1;
            if self.points.len() < limit && !known.contains(&params) {
                self.points.push(Candidate { solver: self.solver.name.clone(), params });
            }
        }
        Ok(())
    }
}

impl Solver {
    /// How many ways there are to compile it: points that differ in params that launches pass are one.
    fn compiles(&self) -> u64 {
        let compiled = self.params.iter().filter(|param| !param.at_launch);
        compiled.map(|param| param.values.len() as u64).product()
    }

    /// The point of that index: params as digits, the last one running fastest.
    fn point(&self, mut index: u64) -> Vec<Value> {
        if let Some(points) = &self.points {
            return points.get(index).cloned().unwrap_or_default();
        }
        let mut params: Vec<Value> = self.params.iter().rev().filter_map(|param| digit(param, &mut index)).collect();
        params.reverse();
        params
    }

    /// The point that is compiled as `compile` says and launched as `launch` says.
    fn variant(&self, mut compile: u64, mut launch: u64) -> Vec<Value> {
        let digit = |param: &Param| digit(param, if param.at_launch { &mut launch } else { &mut compile });
        let mut params: Vec<Value> = self.params.iter().rev().filter_map(digit).collect();
        params.reverse();
        params
    }

    /// Valid points in the pseudo-random order of `seed`, none twice: up to `limit` of them among the first `looked_at` of that order.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub(super) fn draw(
        &self,
        scope: &Scope,
        seed: &[u8; 32],
        limit: usize,
        looked_at: u64,
    ) -> Result<Vec<Candidate>, SpecError> {
        let order = Permutation::new(self.space(), seed);
        let mut values = scope.values.clone();
        let outer = values.len();
        let mut drawn = Vec::new();
        for at in 0..self.space().min(looked_at) {
            if drawn.len() == limit {
                break;
            }
            let params = self.point(order.at(at));
            values.rewind(outer);
            if self.accepts(&params, &mut values)? {
                drawn.push(Candidate { solver: self.name.clone(), params });
            }
        }
        Ok(drawn)
    }

    /// Whether `params` are a valid point, for one that comes from outside.
    pub(super) fn holds(&self, params: &[Value], scope: &Scope) -> bool {
        self.check_point(params).is_ok() && self.accepts(params, &mut scope.values.clone()).unwrap_or(false)
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

/// Takes the last digit off `index`: which value a param has.
fn digit(param: &Param, index: &mut u64) -> Option<Value> {
    let count = param.values.len() as u64;
    let at = usize::try_from(*index % count).ok()?;
    *index /= count;
    param.values.get(at).cloned()
}
