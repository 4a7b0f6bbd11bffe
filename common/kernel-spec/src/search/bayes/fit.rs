//! Lengths and noise under which targets are most likely, found by climbing the marginal likelihood. Always from the same start, so that
//! a model follows from its points alone.

use std::ops::RangeInclusive;

use super::coordinates::Coordinates;
use super::matrix::{Cholesky, add};
use super::model::{Columns, Scales, matern};

/// Where the climb starts: the weight of a scale, and the noise.
const WEIGHT: f64 = 4.0;
const NOISE: f64 = 0.02;
/// Bounds of the logarithm of a weight.
const WEIGHTS: RangeInclusive<f64> = -9.0..=7.0;
const LEAST_NOISE: f64 = 1e-4;
/// The most noise that times have, and that failures have: those may be pure chance.
pub const MOST_NOISE: f64 = 0.5;
pub const MOST_NOISE_OF_RISK: f64 = 10.0;
/// What a weight far from the start costs.
const PENALTY: f64 = 0.05;
const STEPS: usize = 15;
const FIRST_STEP: f64 = 0.5;
const LONGEST_STEP: f64 = 2.0;

/// The scales under which `targets` at `points` are most likely.
pub fn fit(points: &Columns, targets: &[f64], coordinates: &Coordinates, most_noise: f64) -> Scales {
    let likelihood = Likelihood::of(points, targets, coordinates);
    let start = Scales { weights: vec![libm::log(WEIGHT); coordinates.scales()], noise: libm::log(NOISE) };
    let Some((mut highest, mut slopes)) = likelihood.at(&start) else { return start };
    let (mut best, mut here) = (start.clone(), start);
    let mut steps = vec![FIRST_STEP; slopes.len()];
    let mut before = vec![0.0; slopes.len()];
    let noises = libm::log(LEAST_NOISE)..=libm::log(most_noise);
    for _ in 0..STEPS {
        // Each along its own slope: further while that keeps its sign, shorter where it turns (Rprop, Riedmiller and Braun 1993).
        for ((step, slope), before) in steps.iter_mut().zip(&slopes).zip(&before) {
            let turn = slope * before;
            let factor = if turn > 0.0 { 1.2 } else { 0.5 };
            if turn != 0.0 {
                *step = (*step * factor).min(LONGEST_STEP);
            }
        }
        let values = here.weights.iter_mut().map(|weight| (weight, &WEIGHTS)).chain([(&mut here.noise, &noises)]);
        for ((value, bounds), (step, slope)) in values.zip(steps.iter().zip(&slopes)) {
            if *slope != 0.0 {
                *value = (*value + step.copysign(*slope)).clamp(*bounds.start(), *bounds.end());
            }
        }
        let Some((height, next)) = likelihood.at(&here) else { break };
        before = std::mem::replace(&mut slopes, next);
        if height > highest {
            highest = height;
            best.clone_from(&here);
        }
    }
    best
}

/// What the likelihood of scales is computed from, again and again.
struct Likelihood<'a> {
    targets: &'a [f64],
    /// For each scale the squared distance of each pair of points, the first of which runs slowest.
    apart: Vec<Vec<f64>>,
}

impl<'a> Likelihood<'a> {
    fn of(points: &Columns, targets: &'a [f64], coordinates: &Coordinates) -> Self {
        let size = targets.len();
        let mut apart = vec![vec![0.0; size * size.saturating_sub(1) / 2]; coordinates.scales()];
        for (column, scale) in points.columns.iter().zip(coordinates.scale_of()) {
            let pairs =
                column.iter().enumerate().flat_map(|(at, one)| column.iter().skip(at + 1).map(move |two| one - two));
            let Some(apart) = apart.get_mut(*scale) else { continue };
            apart.iter_mut().zip(pairs).for_each(|(apart, pair)| *apart += pair * pair);
        }
        Self { targets, apart }
    }

    /// The logarithm of the likelihood, less a constant, and its slope along each weight and the noise. `None`: there is none.
    fn at(&self, scales: &Scales) -> Option<(f64, Vec<f64>)> {
        let size = self.targets.len();
        let factors: Vec<f64> = scales.weights.iter().map(|weight| libm::exp(*weight)).collect();
        let mut pairs = vec![0.0; size * size.saturating_sub(1) / 2];
        for (apart, factor) in self.apart.iter().zip(&factors) {
            add(&mut pairs, *factor, apart);
        }
        let (kernel, mut slopes): (Vec<f64>, Vec<f64>) = pairs.into_iter().map(matern).unzip();
        let noise = libm::exp(scales.noise);
        let cholesky = Cholesky::of(square(size, 1.0 + noise, &kernel), size)?;
        let (weights, variance) = cholesky.weights(self.targets);
        let off = scales.weights.iter().map(|weight| weight - libm::log(WEIGHT));
        let penalty: f64 = off.clone().map(|off| PENALTY * off * off).sum();
        let height = -0.5 * size as f64 * libm::log(variance) - cholesky.log_diagonal() - penalty;
        let of_noise = weigh(&mut slopes, &weights, variance, &cholesky.inverse());
        let slope =
            |((apart, factor), off): ((&Vec<f64>, &f64), f64)| factor * dot(apart, &slopes) - 2.0 * PENALTY * off;
        let slopes = self.apart.iter().zip(&factors).zip(off).map(slope);
        Some((height, slopes.chain([noise * of_noise]).collect()))
    }
}

/// A symmetric matrix of which the upper half is filled, row by row.
fn square(size: usize, diagonal: f64, pairs: &[f64]) -> Vec<f64> {
    let mut rows = vec![0.0; size * size];
    let mut pairs = pairs.iter();
    for (at, row) in rows.chunks_exact_mut(size.max(1)).enumerate() {
        let mut upper = row.iter_mut().skip(at);
        upper.next().into_iter().for_each(|value| *value = diagonal);
        upper.zip(&mut pairs).for_each(|(value, pair)| *value = *pair);
    }
    rows
}

/// Multiplies the slope of each pair by what the likelihood gains where the kernel of that pair grows. What it gains where the diagonal
/// does.
fn weigh(slopes: &mut [f64], weights: &[f64], variance: f64, inverse: &[f64]) -> f64 {
    let mut slopes = slopes.iter_mut();
    let mut diagonal = 0.0;
    for ((at, row), one) in inverse.chunks_exact(weights.len().max(1)).enumerate().zip(weights) {
        let mut gains = row.iter().zip(weights).skip(at).map(|(inverse, two)| one * two / variance - inverse);
        diagonal += gains.next().unwrap_or_default() / 2.0;
        gains.zip(&mut slopes).for_each(|(gain, slope)| *slope *= gain);
    }
    diagonal
}

/// The sum of products, as four sums, which compilers make vectors of.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use bluefin_common::value::Value;

    use super::*;

    /// A wave along the first of two params.
    fn wave() -> (Coordinates, Columns, Vec<f64>) {
        let values: Vec<Value> = (0..12_i64).map(Value::Int).collect();
        let coordinates = Coordinates::of([values.as_slice(), &values].into_iter(), Vec::new());
        let points: Vec<[i64; 2]> = (0..30).map(|at| [at * 5 % 12, at * 7 % 11]).collect();
        let places: Vec<Vec<f64>> =
            points.iter().map(|point| coordinates.place(&point.map(Value::Int)).unwrap()).collect();
        let targets = points.iter().map(|point| (point[0] as f64 / 2.0).sin()).collect();
        let points = Columns::of(&places.iter().collect::<Vec<_>>(), coordinates.count());
        (coordinates, points, targets)
    }

    #[test]
    fn slopes_are_those_of_the_likelihood() {
        let (coordinates, points, targets) = wave();
        let likelihood = Likelihood::of(&points, &targets, &coordinates);
        let height = |values: &[f64]| {
            let scales = Scales { weights: values[..2].to_vec(), noise: values[2] };
            likelihood.at(&scales).unwrap()
        };
        let here = [1.0, 0.5, -2.0];
        let (_, slopes) = height(&here);
        for at in 0..3 {
            let moved = |by: f64| {
                let mut values = here;
                values[at] += by;
                height(&values).0
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slopes[at] - expected).abs() < 1e-6, "{at}: {}, expected {expected}", slopes[at]);
        }
    }

    #[test]
    fn what_matters_gets_a_short_length() {
        let (coordinates, points, targets) = wave();
        let scales = fit(&points, &targets, &coordinates, MOST_NOISE);
        assert!(scales.weights[0] > scales.weights[1] + 2.0, "{scales:?}");
        assert!(scales.noise < libm::log(NOISE), "{scales:?}");
    }
}
