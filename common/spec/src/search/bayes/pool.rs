//! The points that a proposal chooses from: neighbours of the best candidates, and random points. Nothing else of a space is looked at,
//! whatever its size.

use std::collections::HashSet;

use bluefin_common::candidate::Candidate;
use bluefin_common::value::Value;

use super::coordinates::Coordinates;
use crate::error::SpecError;
use crate::search::{Ask, Space};

/// Random points.
const RANDOM: usize = 1000;
/// Points that are looked at to find that many which satisfy the constraints.
const LOOKED_AT: u64 = 8192;
/// Values of one param that a neighbour may have instead: of a param with more, the nearest ones.
const VALUES: usize = 64;
/// Neighbours of one candidate that are looked at.
const NEIGHBOURS: usize = 1024;

/// Untried points, none twice.
#[derive(Debug)]
pub struct Pool {
    /// The neighbours, then the random ones.
    pub candidates: Vec<Candidate>,
    /// Where each lies.
    pub places: Vec<Vec<f64>>,
    /// How many are neighbours.
    pub near: usize,
}

impl Pool {
    /// Neighbours of `best`, and random points of the space.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn of(ask: &Ask<'_>, best: &[&Candidate], coordinates: &Coordinates) -> Result<Self, SpecError> {
        let values = ordered_values(ask.space);
        let near = best.iter().flat_map(|best| {
            let point = |params| Candidate { solver: best.solver.clone(), params };
            neighbours(&best.params, &values).into_iter().map(point)
        });
        let near = near.filter(|candidate| ask.space.holds(candidate));
        let random = ask.space.draw(&seed(ask), RANDOM, LOOKED_AT)?;
        let mut known: HashSet<Candidate> = ask.tried.iter().map(|tried| tried.candidate.clone()).collect();
        let mut pool = Self { candidates: Vec::new(), places: Vec::new(), near: 0 };
        pool.add(near, &mut known, coordinates);
        pool.near = pool.candidates.len();
        pool.add(random, &mut known, coordinates);
        Ok(pool)
    }

    fn add(
        &mut self,
        candidates: impl IntoIterator<Item = Candidate>,
        known: &mut HashSet<Candidate>,
        coordinates: &Coordinates,
    ) {
        for candidate in candidates {
            if let Some(place) = coordinates.place(&candidate.params)
                && known.insert(candidate.clone())
            {
                self.candidates.push(candidate);
                self.places.push(place);
            }
        }
    }
}

/// Another one for each round.
fn seed(ask: &Ask<'_>) -> [u8; 32] {
    let mut seed = [0; 32];
    let words = [ask.seed, ask.tried.len() as u64].into_iter().flat_map(u64::to_le_bytes);
    seed.iter_mut().zip(words).for_each(|(byte, word)| *byte = word);
    seed
}

/// The values of each param, in order.
fn ordered_values(space: &Space<'_>) -> Vec<Vec<Value>> {
    let ordered = |(_, values): (&str, &[Value])| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    space.params().map(ordered).collect()
}

/// The points that differ from `point` in one param, or in two by one step each, whether they satisfy the constraints or not.
fn neighbours(point: &[Value], values: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut single: Vec<(usize, &Value)> = Vec::new();
    let mut steps: Vec<(usize, &Value)> = Vec::new();
    for (param, (value, values)) in point.iter().zip(values).enumerate() {
        let Ok(at) = values.binary_search(value) else { continue };
        let from = at.saturating_sub(VALUES / 2).min(values.len().saturating_sub(VALUES));
        for (other, value) in values.iter().enumerate().skip(from).take(VALUES).filter(|(other, _)| *other != at) {
            single.push((param, value));
            if other.abs_diff(at) == 1 {
                steps.push((param, value));
            }
        }
    }
    let pairs = steps.iter().enumerate().flat_map(|(at, first)| {
        let others = steps.iter().skip(at + 1).filter(|second| second.0 != first.0);
        others.map(|second| vec![*first, *second])
    });
    let changes = single.iter().map(|change| vec![*change]).chain(pairs);
    changes.take(NEIGHBOURS).map(|changes| changed(point, &changes)).collect()
}

/// `point` with other values of some params.
fn changed(point: &[Value], changes: &[(usize, &Value)]) -> Vec<Value> {
    let mut point = point.to_vec();
    for (param, value) in changes {
        if let Some(to) = point.get_mut(*param) {
            (*value).clone_into(to);
        }
    }
    point
}
