//! A search that learns: a Gaussian process says which times are to be expected, and what may improve most on the best is tried next.
//!
//! Everything is computed anew from the outcomes, in an order that does not depend on theirs, and without the mathematics of the machine's
//! own library: two workers that plan the same round plan the same jobs.

mod batch;
mod cold;
mod coordinates;
mod differences;
mod fit;
mod left;
mod lessons;
mod matrix;
mod model;
mod pool;
mod risk;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use bluefin_common::candidate::Candidate;

use self::coordinates::Coordinates;
use self::differences::Differences;
use self::lessons::Lessons;
use self::pool::Pool;
use super::{Ask, Other, Proposal, Search, Tried, distance};
use crate::error::SpecError;

/// Candidates of each other problem that are looked at here.
const BEST_ELSEWHERE: usize = 3;
/// Candidates of each solver in the first rounds, where solvers compete.
const TRIAL: usize = 4;
/// Candidates of a problem before its times say more than a model of the architecture does, or than what was best for other problems.
const BEGUN: usize = 2;
/// The best of so many of the most similar problems are tried then.
const SIMILAR: usize = 2;
/// And in each round that could be the last one, as the others went on meanwhile: of those that a round is told of, the most similar one first.
/// Before that it costs more than it gives: what was best of few candidates of one problem is no better for another one than what the model of
/// both proposes.
const LATER: usize = 1;
/// Candidates of a problem that have to be tried before its best is one that others begin with.
const LEAST_TRIED: usize = 4;

/// Bayesian optimization: the largest expected improvement over a Gaussian process. `docs/search.md`
#[derive(Clone, Copy, Debug, Default)]
pub struct Bayes;

impl Search for Bayes {
    fn name(&self) -> &'static str {
        "bayes"
    }

    fn trial(&self) -> usize {
        TRIAL
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn estimates(&self) -> bool {
        true
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        Ok(self.propose(ask)?.candidates)
    }

    fn propose(&self, ask: &Ask<'_>) -> Result<Proposal, SpecError> {
        let is_first = ask.tried.is_empty() && ask.under_way.is_empty();
        if is_first && ask.n == 1 {
            return Ok(Proposal { candidates: ask.space.first(1)?, ..Proposal::default() });
        }
        let mut others: Vec<&Other<'_>> = ask.others.iter().collect();
        others.sort_by(|a, b| a.variables.cmp(&b.variables));
        let differences = Differences::of(ask.variables, others.iter().map(|other| &other.variables));
        let coordinates =
            Coordinates::of(ask.space.params().map(|(_, values)| values), differences.place(ask.variables));
        let own = Lessons::of(ask.tried, &coordinates, coordinates.here());
        let (has_begun, may_stop) = (ask.tried.len() >= BEGUN, left::is_known(ask.tried));
        let most = if may_stop { LATER } else { SIMILAR };
        let similar = if may_stop || !has_begun { similar(ask, &others, most) } else { Vec::new() };
        let owes = may_stop && !similar.is_empty();
        let others: Vec<Lessons<'_>> = others
            .into_iter()
            .map(|other| Lessons::of(&other.tried, &coordinates, &differences.place(&other.variables)))
            .collect();
        let mut pool = Pool::of(ask, &own.incumbents(), &elsewhere(&others), &coordinates)?;
        let lessons = own.with(&others);
        // The default of a kernel spec.
        let mut next = if is_first { ask.space.first(1)? } else { Vec::new() };
        if !has_begun && similar.is_empty() {
            next.extend(cold::promising(ask.space, &pool, ask.n.saturating_sub(next.len()))?);
        }
        next.extend(similar);
        pool.leave_out(&next);
        let wanted = ask.n.saturating_sub(next.len());
        let under_way: Vec<Vec<f64>> =
            ask.under_way.iter().filter_map(|candidate| coordinates.place(&candidate.params)).collect();
        let batch = batch::choose(&lessons, &pool, &under_way, &coordinates, wanted);
        // Without a model all that ran are alike, or too few did.
        let left = match may_stop {
            true => left::left(ask.tried, ask.space.valid()?, batch.gain.unwrap_or(0.0)),
            false => None,
        };
        next.extend(batch.candidates);
        if next.len() < ask.n {
            // Few points are left, or hard to meet at random: those in the fixed order, so that none is forgotten.
            next.extend(ask.space.first(ask.known().len().saturating_add(ask.n))?);
        }
        let mut known: HashSet<Candidate> = ask.known().into_iter().cloned().collect();
        next.retain(|candidate| known.insert(candidate.clone()));
        next.truncate(ask.n);
        Ok(Proposal { candidates: next, left, owes })
    }
}

/// What was best for the most similar of the other problems, as far as it is a point here and new, of `most` of them.
fn similar(ask: &Ask<'_>, others: &[&Other<'_>], most: usize) -> Vec<Candidate> {
    let mut near: Vec<(f64, &Candidate)> = Vec::new();
    for other in others.iter().filter(|other| other.tried.len() >= LEAST_TRIED) {
        let whole = other.tried.iter().filter(|tried| tried.result.is_ok_and(|time| !time.pruned));
        let time = |tried: &Tried<'_>| tried.result.map_or(f64::INFINITY, |time| time.median_ms);
        let best = whole.min_by(|a, b| time(a).total_cmp(&time(b)).then_with(|| a.candidate.cmp(b.candidate)));
        near.extend(best.map(|best| (distance(ask.variables, &other.variables), best.candidate)));
    }
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut known = ask.known();
    let new = near.into_iter().filter(|(_, one)| ask.space.holds(one) && known.insert(one));
    new.take(most).map(|(_, candidate)| candidate.clone()).collect()
}

/// Candidates that were best for other problems.
fn elsewhere<'a>(others: &[Lessons<'a>]) -> Vec<&'a Candidate> {
    others.iter().flat_map(|other| other.incumbents().into_iter().take(BEST_ELSEWHERE)).collect()
}
