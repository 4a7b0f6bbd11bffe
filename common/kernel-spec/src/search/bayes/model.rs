//! What is to be expected where nothing was tried: a Gaussian process with a Matern 5/2 kernel and a length for each scale.

use super::coordinates::Coordinates;
use super::matrix::{Cholesky, add};

/// Points in columns: for each coordinate its value at every point.
#[derive(Clone, Debug)]
pub struct Columns {
    pub columns: Vec<Vec<f64>>,
    count: usize,
}

/// What decides how a model sees its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// For each scale the logarithm of its weight, the inverse of the square of its length.
    pub weights: Vec<f64>,
    /// The logarithm of the variance of the noise, compared with that of the targets.
    pub noise: f64,
}

/// A model of targets, whose mean is 0.
#[derive(Debug)]
pub struct Model {
    points: Columns,
    /// What each coordinate is multiplied by.
    factors: Vec<f64>,
    cholesky: Cholesky,
    /// What each point adds to the mean of those near it.
    weights: Vec<f64>,
    /// That of the targets, with which all other variances are compared.
    pub variance: f64,
    noise: f64,
}

/// What is not known of some points: the joint distribution of their targets, less the means, compared with the variance.
#[derive(Debug)]
pub struct Doubt {
    points: Columns,
    /// Row by row: what each known point says of all of them.
    known: Vec<f64>,
    pub variances: Vec<f64>,
    noise: f64,
}

impl Columns {
    /// Of points that have so many coordinates.
    pub fn of(places: &[&Vec<f64>], coordinates: usize) -> Self {
        let mut columns = vec![Vec::with_capacity(places.len()); coordinates];
        for place in places {
            columns.iter_mut().zip(*place).for_each(|(column, value)| column.push(*value));
        }
        Self { columns, count: places.len() }
    }

    fn scaled(&self, factors: &[f64]) -> Self {
        let scaled = |(column, factor): (&Vec<f64>, &f64)| column.iter().map(|value| value * factor).collect();
        Self { columns: self.columns.iter().zip(factors).map(scaled).collect(), count: self.count }
    }

    fn place(&self, at: usize) -> impl Iterator<Item = f64> {
        self.columns.iter().filter_map(move |column| column.get(at).copied())
    }

    /// The kernel between `place` and the points from `from` on.
    fn kernel(&self, place: impl Iterator<Item = f64>, from: usize, row: &mut [f64]) {
        row.fill(0.0);
        for (column, value) in self.columns.iter().zip(place) {
            for (sum, other) in row.iter_mut().zip(column.iter().skip(from)) {
                let apart = other - value;
                *sum += apart * apart;
            }
        }
        row.iter_mut().for_each(|value| *value = matern(*value).0);
    }

    /// The kernel between each of `others` and the points, row by row.
    fn kernels(&self, others: &Self) -> Vec<f64> {
        let mut rows = vec![0.0; others.count * self.count];
        for (at, row) in rows.chunks_exact_mut(self.count.max(1)).enumerate() {
            self.kernel(others.place(at), 0, row);
        }
        rows
    }
}

/// The Matern 5/2 kernel of a squared distance, and its derivative along that.
pub fn matern(squared: f64) -> (f64, f64) {
    let far = (5.0 * squared).sqrt();
    let tail = libm::exp(-far);
    ((1.0 + far + far * far / 3.0) * tail, -5.0 / 6.0 * (1.0 + far) * tail)
}

impl Model {
    /// Of `targets` at `points`. `None`: rounding leaves no model.
    pub fn of(points: &Columns, targets: &[f64], coordinates: &Coordinates, scales: &Scales) -> Option<Self> {
        let factor = |scale: &usize| scales.weights.get(*scale).map_or(0.0, |weight| libm::exp(weight / 2.0));
        let factors: Vec<f64> = coordinates.scale_of().iter().map(factor).collect();
        let points = points.scaled(&factors);
        let size = points.count;
        let noise = libm::exp(scales.noise);
        let mut rows = vec![0.0; size * size];
        for (at, row) in rows.chunks_exact_mut(size.max(1)).enumerate() {
            let upper = row.get_mut(at..).unwrap_or_default();
            points.kernel(points.place(at), at, upper);
            upper.iter_mut().take(1).for_each(|value| *value += noise);
        }
        let cholesky = Cholesky::of(rows, size)?;
        let (weights, variance) = cholesky.weights(targets);
        Some(Self { points, factors, cholesky, weights, variance, noise })
    }

    /// The targets that are expected at `points`.
    pub fn means(&self, points: &Columns) -> Vec<f64> {
        let points = points.scaled(&self.factors);
        let mut means = vec![0.0; points.count];
        let mut row = vec![0.0; points.count];
        for (at, weight) in self.weights.iter().enumerate() {
            points.kernel(self.points.place(at), 0, &mut row);
            add(&mut means, *weight, &row);
        }
        means
    }

    /// What is expected at each of its own points, of `targets`, from all the others.
    pub fn left_out(&self, targets: &[f64]) -> Vec<f64> {
        let inverse = self.cholesky.inverse();
        let diagonal = inverse.iter().step_by(targets.len() + 1);
        let others = targets.iter().zip(&self.weights).zip(diagonal);
        others.map(|((target, weight), inverse)| target - weight / inverse).collect()
    }

    /// What it does not know of `points`.
    pub fn doubt(&self, points: &Columns) -> Doubt {
        let points = points.scaled(&self.factors);
        let width = points.count;
        let mut known = points.kernels(&self.points);
        self.cholesky.forward_rows(&mut known, width);
        let mut variances = vec![1.0; width];
        for row in known.chunks_exact(width.max(1)) {
            variances.iter_mut().zip(row).for_each(|(variance, known)| *variance -= known * known);
        }
        Doubt { points, known, variances, noise: self.noise }
    }
}

impl Doubt {
    /// As if the target of the point `at` were known.
    pub fn learn(&mut self, at: usize) {
        let width = self.points.count;
        let mut row = vec![0.0; width];
        self.points.kernel(self.points.place(at), 0, &mut row);
        for known in self.known.chunks_exact(width.max(1)) {
            add(&mut row, -known.get(at).copied().unwrap_or_default(), known);
        }
        let scale = 1.0 / (self.variances.get(at).copied().unwrap_or_default().max(0.0) + self.noise).sqrt();
        row.iter_mut().for_each(|value| *value *= scale);
        self.variances.iter_mut().zip(&row).for_each(|(variance, known)| *variance -= known * known);
        self.known.extend(row);
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::value::Value;

    use super::*;

    fn model(known: &[i64], targets: &[f64]) -> (Model, impl Fn(&[i64]) -> Columns) {
        let values: Vec<Value> = (0..=20_i64).map(Value::Int).collect();
        let coordinates = Coordinates::of([values.as_slice()].into_iter(), Vec::new());
        let scales = Scales { weights: vec![libm::log(20.0)], noise: libm::log(1e-3) };
        let place = |at: &i64| vec![*at as f64 / 20.0];
        let columns =
            move |at: &[i64]| Columns::of(&at.iter().map(place).collect::<Vec<_>>().iter().collect::<Vec<_>>(), 1);
        (Model::of(&columns(known), targets, &coordinates, &scales).unwrap(), columns)
    }

    #[test]
    fn it_knows_what_it_was_told_and_doubts_what_is_far() {
        let (model, columns) = model(&[0, 4, 8], &[1.0, -1.0, 0.5]);
        let means = model.means(&columns(&[0, 4, 8, 20]));
        for (found, expected) in means.iter().zip([1.0, -1.0, 0.5, 0.0]) {
            assert!((found - expected).abs() < 0.1, "{means:?}");
        }
        let doubt = model.doubt(&columns(&[4, 6, 20]));
        assert!(doubt.variances[0] < 0.01 && doubt.variances[1] < 0.3 && doubt.variances[2] > 0.9, "{doubt:?}");
    }

    #[test]
    fn what_is_learnt_is_what_a_model_of_more_points_knows() {
        let (few, columns) = model(&[0, 4], &[1.0, -1.0]);
        let (more, _) = model(&[0, 4, 12], &[1.0, -1.0, 0.0]);
        let mut doubt = few.doubt(&columns(&[12, 14]));
        doubt.learn(0);
        let expected = more.doubt(&columns(&[12, 14]));
        for (found, expected) in doubt.variances.iter().zip(&expected.variances) {
            assert!((found - expected).abs() < 1e-9, "{doubt:?}, expected {expected}");
        }
    }

    #[test]
    fn what_is_left_out_is_expected_from_the_others() {
        let targets = [1.0, -1.0, 0.5];
        let (all, columns) = model(&[0, 4, 8], &targets);
        let (others, _) = model(&[0, 8], &[1.0, 0.5]);
        let expected = others.means(&columns(&[4]))[0];
        let found = all.left_out(&targets)[1];
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    }
}
