//! Which points of a pool are tried together: the largest expected improvement one after the other, each as if those before it were
//! known.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use bluefin_common::candidate::Candidate;

use super::coordinates::Coordinates;
use super::fit::{MOST_NOISE, fit};
use super::lessons::{Lesson, Lessons, pick};
use super::model::{Columns, Model};
use super::pool::Pool;
use super::risk::Risk;

/// Candidates that lengths are fitted to.
const FITTED: usize = 80;
/// Candidates that a model knows at most.
const KNOWN: usize = 200;
/// Points of the pool with the least expected times, whose chance to run is computed.
const PROMISING: usize = 400;
/// Points whose joint distribution is computed.
const SHORTLIST: usize = 200;
/// Points of a batch of which one is random, as no model foresees an optimum that stands alone.
const RANDOM_OF: usize = 8;
/// Candidates that have to be measured before there is a model.
const LEAST_MEASURED: usize = 2;
/// Random points of which the farthest is taken while there is no model.
const FARTHEST_OF: usize = 8;

/// Up to `wanted` candidates of the pool.
pub fn choose(lessons: &Lessons<'_>, pool: &Pool, coordinates: &Coordinates, wanted: usize) -> Vec<Candidate> {
    let enough = lessons.measured() >= LEAST_MEASURED;
    let improving = enough.then(|| improving(lessons, pool, coordinates, wanted - wanted / RANDOM_OF)).flatten();
    let mut chosen = improving.unwrap_or_else(|| apart(lessons, pool, wanted));
    let random: Vec<usize> = (pool.near..pool.places.len()).filter(|at| !chosen.contains(at)).collect();
    chosen.extend(random.into_iter().take(wanted.saturating_sub(chosen.len())));
    chosen.into_iter().filter_map(|at| pool.candidates.get(at).cloned()).collect()
}

/// Points far from each other and from what was tried: each the farthest of some random ones.
fn apart(lessons: &Lessons<'_>, pool: &Pool, wanted: usize) -> Vec<usize> {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let mut known: Vec<&[f64]> =
        lessons.ran.iter().chain(&lessons.failed).map(|lesson| lesson.place.as_slice()).collect();
    let mut chosen = Vec::new();
    let random: Vec<(usize, &Vec<f64>)> = pool.places.iter().enumerate().skip(pool.near).collect();
    for few in random.chunks(FARTHEST_OF).take(wanted) {
        let nearest = |place: &[f64]| known.iter().map(|known| distance(known, place)).fold(f64::INFINITY, f64::min);
        let farthest = few.iter().max_by(|a, b| nearest(a.1).total_cmp(&nearest(b.1)));
        let Some((at, place)) = farthest else { break };
        chosen.push(*at);
        known.push(place);
    }
    chosen
}

/// The points that may improve most on the best. `None`: nothing tells the candidates apart.
fn improving(lessons: &Lessons<'_>, pool: &Pool, coordinates: &Coordinates, wanted: usize) -> Option<Vec<usize>> {
    let (risk, in_region) = Risk::of(lessons, coordinates).unzip();
    let mut all = lessons.ran.clone();
    all.extend(in_region.unwrap_or_default());
    let (model, best) = model(&all, coordinates)?;
    let columns = |of: &[usize]| {
        let places: Vec<&Vec<f64>> = of.iter().filter_map(|at| pool.places.get(*at)).collect();
        Columns::of(&places, coordinates.count())
    };
    let everything: Vec<usize> = (0..pool.places.len()).collect();
    let mut promising: Vec<(f64, usize)> = model.means(&columns(&everything)).into_iter().zip(everything).collect();
    promising.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    promising.truncate(PROMISING);
    let promising_points: Vec<usize> = promising.iter().map(|(_, at)| *at).collect();
    let chances = match &risk {
        Some(risk) => risk.chances(&columns(&promising_points)),
        None => vec![1.0; promising.len()],
    };
    let mut short: Vec<(f64, f64, usize)> =
        promising.into_iter().zip(chances).map(|((mean, at), chance)| (mean, chance, at)).collect();
    // Stable: those that will rather fail are behind the others.
    short.sort_by_key(|(_, chance, _)| *chance < 0.5);
    short.truncate(SHORTLIST);
    let points: Vec<usize> = short.iter().map(|(_, _, at)| *at).collect();
    let mut doubt = model.doubt(&columns(&points));
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < wanted {
        let deviations = doubt.variances.iter().map(|variance| (model.variance * variance.max(0.0)).sqrt());
        let gains = short
            .iter()
            .zip(deviations)
            .map(|((mean, chance, _), deviation)| chance * improvement(best - mean, deviation));
        let open = gains.enumerate().filter(|(at, _)| !chosen.contains(at));
        let Some((at, _)) = open.reduce(|most, next| if next.1 > most.1 { next } else { most }) else { break };
        chosen.push(at);
        doubt.learn(at);
    }
    Some(chosen.into_iter().filter_map(|at| points.get(at).copied()).collect())
}

/// A model of the lessons, and the least target of one. `None`: all are alike.
fn model(lessons: &[Lesson<'_>], coordinates: &Coordinates) -> Option<(Model, f64)> {
    let known = pick(lessons, KNOWN);
    let count = known.len() as f64;
    let mean = known.iter().map(|lesson| lesson.target).sum::<f64>() / count;
    let squares = known.iter().map(|lesson| (lesson.target - mean) * (lesson.target - mean));
    let deviation = (squares.sum::<f64>() / count).sqrt();
    if deviation.is_nan() || deviation <= 0.0 {
        return None;
    }
    let parts = |lessons: &[&Lesson<'_>]| -> (Columns, Vec<f64>) {
        let places: Vec<&Vec<f64>> = lessons.iter().map(|lesson| &lesson.place).collect();
        let targets = lessons.iter().map(|lesson| (lesson.target - mean) / deviation);
        (Columns::of(&places, coordinates.count()), targets.collect())
    };
    let few: Vec<&Lesson<'_>> = pick(&known, FITTED).into_iter().copied().collect();
    let (points, targets) = parts(&few);
    let scales = fit(&points, &targets, coordinates, MOST_NOISE);
    let (points, targets) = parts(&known);
    let best = targets.iter().copied().fold(f64::INFINITY, f64::min);
    Some((Model::of(&points, &targets, coordinates, &scales)?, best))
}

/// The expected improvement of what is better by `gain` in the mean, with this deviation.
fn improvement(gain: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return gain.max(0.0);
    }
    let ratio = gain / deviation;
    let density = libm::exp(-ratio * ratio / 2.0) / TAU.sqrt();
    let share = libm::erfc(-ratio * FRAC_1_SQRT_2) / 2.0;
    deviation * (ratio * share + density)
}
