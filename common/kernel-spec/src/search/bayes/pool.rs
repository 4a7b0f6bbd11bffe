//! The points that a proposal chooses from: neighbours of the best candidates, and random points. Nothing else of a space is looked at,
//! whatever its size.

use std::collections::HashSet;

use bluefin_common::candidate::Candidate;
use bluefin_common::value::Value;

use super::coordinates::Coordinates;
use crate::error::SpecError;
use crate::search::analytic::{foreseen, least_cost, least_cost_of};
use crate::search::{Ask, Space};

/// Random points.
const RANDOM: usize = 1000;
/// Points that are looked at to find that many which satisfy the constraints.
const LOOKED_AT: u64 = 4096;
/// Values of one param that a neighbour may have instead: of a param with more, the nearest ones.
const VALUES: usize = 64;
/// Neighbours of one candidate that are looked at.
const NEIGHBOURS: usize = 1024;

/// Untried points, none twice.
#[derive(Debug, Default)]
pub struct Pool {
    /// The neighbours, then the random ones.
    pub candidates: Vec<Candidate>,
    /// Where each lies.
    pub places: Vec<Vec<f64>>,
    /// What an analytic model foresees of the target of each.
    pub foreseen: Vec<f64>,
    /// How many are neighbours.
    pub near: usize,
    /// Which are compiled already.
    pub compiled: Vec<bool>,
}

impl Pool {
    /// Neighbours of `best`, those of `elsewhere` and compiled ones that are points of this space as well, and random points of the space.
    ///
    /// # Errors
    /// A constraint that has no value for a point.
    pub fn of(
        ask: &Ask<'_>,
        best: &[&Candidate],
        elsewhere: &[&Candidate],
        coordinates: &Coordinates,
    ) -> Result<Self, SpecError> {
        let values = ordered_values(ask.space);
        let near = best.iter().flat_map(|best| {
            let point = |params| Candidate { solver: best.solver.clone(), params };
            neighbours(&best.params, &values).into_iter().map(point)
        });
        let near = near.chain(elsewhere.iter().copied().chain(ask.compiled).cloned());
        let near = near.filter(|candidate| ask.space.holds(candidate));
        let random = ask.space.draw(&seed(ask), RANDOM, LOOKED_AT)?;
        let mut known: HashSet<Candidate> = ask.known().into_iter().cloned().collect();
        let mut pool = Self::default();
        pool.add(near, &mut known, coordinates);
        pool.near = pool.candidates.len();
        pool.add(random, &mut known, coordinates);
        let costs: Vec<Option<f64>> = pool.candidates.iter().map(|one| ask.space.cost(one).ok().flatten()).collect();
        // Where nothing ran, others teach what is compared with the best of the pool.
        let has_run = ask.tried.iter().any(|tried| tried.result.is_ok());
        let least = if has_run { least_cost_of(ask.tried) } else { least_cost(costs.iter().copied()) };
        pool.foreseen = costs.into_iter().map(|cost| foreseen(cost, least)).collect();
        pool.compiled = pool.candidates.iter().map(|candidate| ask.compiled.contains(candidate)).collect();
        Ok(pool)
    }

    /// Leaves out `taken`, which a round has already.
    pub fn leave_out(&mut self, taken: &[Candidate]) {
        let stays: Vec<bool> = self.candidates.iter().map(|one| !taken.contains(one)).collect();
        self.near = stays.iter().take(self.near).filter(|stays| **stays).count();
        retain(&mut self.candidates, &stays);
        retain(&mut self.places, &stays);
        retain(&mut self.foreseen, &stays);
        retain(&mut self.compiled, &stays);
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

/// Those of `items` that stay.
fn retain<T>(items: &mut Vec<T>, stays: &[bool]) {
    let mut stays = stays.iter();
    items.retain(|_| stays.next().is_some_and(|stays| *stays));
}

/// Another one for each round.
fn seed(ask: &Ask<'_>) -> [u8; 32] {
    let mut seed = [0; 32];
    let words = [ask.seed, (ask.tried.len() + ask.under_way.len()) as u64].into_iter().flat_map(u64::to_le_bytes);
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

/// The points that differ from `point` in one param, or in two: by one step each, or with the same product, as blocks of another shape
/// that are as large. Whether they satisfy the constraints or not.
fn neighbours(point: &[Value], values: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let mut single: Vec<Change<'_>> = Vec::new();
    for (param, (from, values)) in point.iter().zip(values).enumerate() {
        let Ok(at) = values.binary_search(from) else { continue };
        let first = at.saturating_sub(VALUES / 2).min(values.len().saturating_sub(VALUES));
        for (other, to) in values.iter().enumerate().skip(first).take(VALUES).filter(|(other, _)| *other != at) {
            single.push(Change { param, from, to, is_step: other.abs_diff(at) == 1 });
        }
    }
    let pairs = single.iter().enumerate().flat_map(|(at, one)| {
        let others = single.iter().skip(at + 1).filter(|two| two.param != one.param);
        let near = others.filter(|two| (one.is_step && two.is_step) || one.keeps_product(two));
        near.map(|two| vec![*one, *two])
    });
    let changes = single.iter().map(|one| vec![*one]).chain(pairs);
    changes.take(NEIGHBOURS).map(|changes| changed(point, &changes)).collect()
}

/// Another value of a param.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    param: usize,
    from: &'a Value,
    to: &'a Value,
    /// The next one up or down.
    is_step: bool,
}

impl Change<'_> {
    /// Whether the product of both params stays what it is.
    fn keeps_product(&self, other: &Change<'_>) -> bool {
        let product = |one: &Value, two: &Value| match (one, two) {
            (Value::Int(one), Value::Int(two)) if *one > 0 && *two > 0 => one.checked_mul(*two),
            _ => None,
        };
        let before = product(self.from, other.from);
        before.is_some() && before == product(self.to, other.to)
    }
}

/// `point` with other values of some params.
fn changed(point: &[Value], changes: &[Change<'_>]) -> Vec<Value> {
    let mut point = point.to_vec();
    for change in changes {
        if let Some(value) = point.get_mut(change.param) {
            change.to.clone_into(value);
        }
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ_in_one_param_or_a_little_in_two() {
        let values: Vec<Vec<Value>> = [&[16, 32, 48, 64, 128][..], &[1, 2, 4, 8], &[0, 1]]
            .map(|values| values.iter().map(|value| Value::Int(*value)).collect())
            .to_vec();
        let near = neighbours(&[64, 2, 0].map(Value::Int), &values);
        let unlike =
            |other: &Vec<Value>| other.iter().zip([64, 2, 0]).filter(|(one, two)| **one != Value::Int(*two)).count();
        assert_eq!(near.iter().filter(|other| unlike(other) == 1).count(), 4 + 3 + 1);
        let mut pairs: Vec<[i64; 3]> = Vec::new();
        for other in near.iter().filter(|other| unlike(other) == 2) {
            pairs.push([0, 1, 2].map(|at| if let Value::Int(value) = other[at] { value } else { 0 }));
        }
        pairs.sort_unstable();
        let expected = [
            [16, 8, 0],
            [32, 4, 0],
            [48, 1, 0],
            [48, 2, 1],
            [48, 4, 0],
            [64, 1, 1],
            [64, 4, 1],
            [128, 1, 0],
            [128, 2, 1],
            [128, 4, 0],
        ];
        assert_eq!(pairs, expected, "steps, and blocks of 128");
    }

    #[test]
    fn a_param_with_many_values_has_the_nearest_as_neighbours() {
        let values = vec![(0..1000).map(Value::Int).collect::<Vec<_>>()];
        let near = neighbours(&[Value::Int(999)], &values);
        assert_eq!((near.len(), near.first()), (VALUES - 1, Some(&vec![Value::Int(1000 - VALUES as i64)])));
    }
}
