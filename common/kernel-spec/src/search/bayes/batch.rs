//! Which points of a pool are tried together: the largest expected improvement one after the other, each as if those before it were
//! known.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use bluefin_common::candidate::Candidate;

use super::coordinates::Coordinates;
use super::fit::{MOST_NOISE, fit};
use super::lessons::{KNOWN, Lesson, Lessons, pick};
use super::model::{Columns, Model};
use super::pool::Pool;
use super::risk::Risk;

/// Candidates that lengths are fitted to.
const FITTED: usize = 80;
/// Points of the pool with the least expected times, whose chance to run is computed.
const PROMISING: usize = 400;
/// Points whose joint distribution is computed.
const SHORTLIST: usize = 200;
/// Points of a batch of which one is random, as no model foresees an optimum that stands alone.
const RANDOM_OF: usize = 8;
/// Candidates that have to be measured before there is a model.
const LEAST_MEASURED: usize = 2;
/// What is gained by a candidate that has to be compiled counts so much beside one that is: a compiler takes several times as long for it as
/// the device does. `docs/search.md`
const TO_COMPILE: f64 = 0.25;
/// Random points of which the farthest is taken while there is no model.
const FARTHEST_OF: usize = 8;

/// What is tried together.
#[derive(Debug)]
pub struct Batch {
    pub candidates: Vec<Candidate>,
    /// By how much they are expected to be better than the best, as a logarithm of times. `None`: there is no model.
    pub gain: Option<f64>,
}

/// Up to `wanted` candidates of the pool, to be tried beside those that are `under_way` there.
pub fn choose(
    lessons: &Lessons<'_>,
    pool: &Pool,
    under_way: &[Vec<f64>],
    coordinates: &Coordinates,
    wanted: usize,
) -> Batch {
    let has_model = lessons.measured() >= LEAST_MEASURED && !pool.places.is_empty();
    let best = wanted - wanted / RANDOM_OF;
    let improving = has_model.then(|| improving(lessons, pool, under_way, coordinates, best)).flatten();
    let (improving, gain) = improving.unzip();
    let mut chosen = improving.unwrap_or_else(|| apart(lessons, pool, under_way, wanted));
    let random: Vec<usize> = (pool.near..pool.places.len()).filter(|at| !chosen.contains(at)).collect();
    chosen.extend(random.into_iter().take(wanted.saturating_sub(chosen.len())));
    Batch { candidates: chosen.into_iter().filter_map(|at| pool.candidates.get(at).cloned()).collect(), gain }
}

/// Points far from each other and from what was tried: each the farthest of some random ones.
fn apart(lessons: &Lessons<'_>, pool: &Pool, under_way: &[Vec<f64>], wanted: usize) -> Vec<usize> {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    let mut known: Vec<&[f64]> = lessons
        .ran
        .iter()
        .chain(&lessons.failed)
        .map(|lesson| &lesson.place)
        .chain(under_way)
        .map(Vec::as_slice)
        .collect();
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

/// A point of the pool that may improve on the best.
#[derive(Clone, Copy, Debug)]
struct Promising {
    /// Where the pool has it.
    at: usize,
    /// The target that is expected.
    mean: f64,
    /// The chance that it runs.
    chance: f64,
    is_compiled: bool,
}

/// The points that may improve most on the best, and by how much all of them are expected to. `None`: nothing tells the candidates apart.
fn improving(
    lessons: &Lessons<'_>,
    pool: &Pool,
    under_way: &[Vec<f64>],
    coordinates: &Coordinates,
    wanted: usize,
) -> Option<(Vec<usize>, f64)> {
    let (risk, in_region) = Risk::of(lessons, coordinates).unzip();
    let mut known = lessons.ran.clone();
    known.extend(in_region.unwrap_or_default());
    let Known { model, best, deviation: unit } = Known::of(&known, coordinates)?;
    let short = shortlist(&model, risk.as_ref(), pool, coordinates, unit);
    let mut doubt = model.doubt(&columns(&short, pool, under_way, coordinates));
    // What is under way will be known by the time that the choice is tried.
    (short.len()..short.len() + under_way.len()).for_each(|at| doubt.learn(at));
    let mut chosen: Vec<usize> = Vec::new();
    let mut expected = 0.0;
    while chosen.len() < wanted.min(short.len()) {
        let deviations = doubt.variances.iter().map(|variance| (model.variance * variance.max(0.0)).sqrt());
        let gains = short.iter().zip(deviations).map(|(one, deviation)| {
            let gain = one.chance * improvement(best - one.mean, deviation);
            (gain, if one.is_compiled { gain } else { gain * TO_COMPILE })
        });
        let open: Vec<(usize, (f64, f64))> = gains.enumerate().filter(|(at, _)| !chosen.contains(at)).collect();
        let most = open.iter().copied().reduce(|most, next| if next.1.1 > most.1.1 { next } else { most });
        let Some((at, _)) = most else { break };
        chosen.push(at);
        // Whether to go on is not asked of what is compiled alone.
        expected += open.iter().map(|(_, (gain, _))| *gain).fold(0.0, f64::max) * unit;
        doubt.learn(at);
    }
    Some((chosen.into_iter().filter_map(|at| short.get(at).map(|one| one.at)).collect(), expected))
}

/// The points of the pool with the least expected targets, those that will rather fail behind the others. Targets of the model are shares of
/// `unit`.
fn shortlist(model: &Model, risk: Option<&Risk>, pool: &Pool, coordinates: &Coordinates, unit: f64) -> Vec<Promising> {
    let all = pool.compiled.iter().enumerate();
    let mut short: Vec<Promising> =
        all.map(|(at, is_compiled)| Promising { at, mean: 0.0, chance: 1.0, is_compiled: *is_compiled }).collect();
    let means = model.means(&columns(&short, pool, &[], coordinates));
    short
        .iter_mut()
        .zip(means)
        .zip(&pool.foreseen)
        .for_each(|((one, mean), foreseen)| one.mean = mean + foreseen / unit);
    short.sort_by(|a, b| a.mean.total_cmp(&b.mean).then(a.at.cmp(&b.at)));
    short.truncate(PROMISING);
    if let Some(risk) = risk {
        let chances = risk.chances(&columns(&short, pool, &[], coordinates));
        short.iter_mut().zip(chances).for_each(|(one, chance)| one.chance = chance);
        short.sort_by_key(|one| one.chance < 0.5);
    }
    short.truncate(SHORTLIST);
    short
}

/// Where these points are, and behind them those that are `under_way`.
fn columns(points: &[Promising], pool: &Pool, under_way: &[Vec<f64>], coordinates: &Coordinates) -> Columns {
    let points = points.iter().filter_map(|one| pool.places.get(one.at));
    let places: Vec<&Vec<f64>> = points.chain(under_way).collect();
    Columns::of(&places, coordinates.count())
}

/// What is known of times.
struct Known {
    /// Of targets less what an analytic model foresees of them, which is no news.
    model: Model,
    /// The least target, what was foreseen included.
    best: f64,
    /// What the model's targets are shares of.
    deviation: f64,
}

impl Known {
    /// By these lessons. `None`: all are alike.
    fn of(lessons: &[Lesson<'_>], coordinates: &Coordinates) -> Option<Self> {
        let known = pick(lessons, KNOWN);
        let count = known.len() as f64;
        let news = |lesson: &Lesson<'_>| lesson.target - lesson.foreseen;
        let mean = known.iter().map(|lesson| news(lesson)).sum::<f64>() / count;
        let squares = known.iter().map(|lesson| (news(lesson) - mean) * (news(lesson) - mean));
        let deviation = (squares.sum::<f64>() / count).sqrt();
        if deviation.is_nan() || deviation <= 0.0 {
            return None;
        }
        let parts = |lessons: &[&Lesson<'_>]| -> (Columns, Vec<f64>) {
            let places: Vec<&Vec<f64>> = lessons.iter().map(|lesson| &lesson.place).collect();
            let targets = lessons.iter().map(|lesson| (news(lesson) - mean) / deviation);
            (Columns::of(&places, coordinates.count()), targets.collect())
        };
        let few: Vec<&Lesson<'_>> = pick(&known, FITTED).into_iter().copied().collect();
        let (points, targets) = parts(&few);
        let scales = fit(&points, &targets, coordinates, MOST_NOISE);
        let (points, targets) = parts(&known);
        let least = known.iter().map(|lesson| lesson.target).fold(f64::INFINITY, f64::min);
        let best = (least - mean) / deviation;
        Some(Self { model: Model::of(&points, &targets, coordinates, &scales)?, best, deviation })
    }
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
