//! A search that learns: a Gaussian process says which times are to be expected, and what may improve most on the best is tried next.
//!
//! Everything is computed anew from the outcomes, in an order that does not depend on theirs, and without the mathematics of the machine's
//! own library: two workers that plan the same round plan the same jobs.

mod batch;
mod coordinates;
mod fit;
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
use self::lessons::Lessons;
use self::pool::Pool;
use super::{Ask, Search};
use crate::error::SpecError;

/// Bayesian optimization: the largest expected improvement over a Gaussian process. `docs/search.md`
#[derive(Clone, Copy, Debug, Default)]
pub struct Bayes;

impl Search for Bayes {
    fn name(&self) -> &'static str {
        "bayes"
    }

    fn next(&self, ask: &Ask<'_>) -> Result<Vec<Candidate>, SpecError> {
        let coordinates = Coordinates::of(ask.space.params().map(|(_, values)| values));
        let lessons = Lessons::of(ask.tried, &coordinates);
        let pool = Pool::of(ask, &lessons.incumbents(), &coordinates)?;
        let mut next = Vec::new();
        if ask.tried.is_empty() {
            // The default of a kernel spec.
            next = ask.space.first(1)?;
        }
        let wanted = ask.n.saturating_sub(next.len());
        next.extend(batch::choose(&lessons, &pool, &coordinates, wanted));
        if next.len() < ask.n {
            // Few points are left, or hard to meet at random: those in the fixed order, so that none is forgotten.
            next.extend(ask.space.first(ask.tried.len().saturating_add(ask.n))?);
        }
        let mut known: HashSet<Candidate> = ask.tried.iter().map(|tried| tried.candidate.clone()).collect();
        next.retain(|candidate| known.insert(candidate.clone()));
        next.truncate(ask.n);
        Ok(next)
    }
}
