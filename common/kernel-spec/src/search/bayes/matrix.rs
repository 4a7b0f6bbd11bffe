//! The little linear algebra that a Gaussian process takes. Sums are made in one order on every machine, so that two of them which plan
//! the same round plan the same jobs; loops run along rows, which compilers make vectors of without another order.
#![expect(clippy::indexing_slicing, reason = "sizes are those of the matrix")]

/// The upper factor U of a symmetric, positive definite matrix, which is transposed U times U.
#[derive(Debug)]
pub struct Cholesky {
    size: usize,
    /// Row by row; what is below the diagonal is not used.
    rows: Vec<f64>,
}

impl Cholesky {
    /// Of the matrix whose rows are in `rows`, of which the upper half is read. `None`: it is not positive definite.
    pub fn of(mut rows: Vec<f64>, size: usize) -> Option<Self> {
        for at in 0..size {
            let (done, rest) = rows.split_at_mut((at + 1) * size);
            let row = &mut done[at * size..];
            let pivot = row[at];
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            let scale = 1.0 / pivot.sqrt();
            row[at..].iter_mut().for_each(|value| *value *= scale);
            for (below, other) in (at + 1..size).zip(rest.chunks_exact_mut(size)) {
                add(&mut other[below..], -row[below], &row[below..]);
            }
        }
        Some(Self { size, rows })
    }

    fn row(&self, at: usize) -> &[f64] {
        &self.rows[at * self.size..(at + 1) * self.size]
    }

    /// The sum of the logarithms of the diagonal: half of that of the determinant.
    pub fn log_diagonal(&self) -> f64 {
        (0..self.size).map(|at| libm::log(self.row(at)[at])).sum()
    }

    /// The matrix inverted times `targets`, and their variance: the mean of their products with that.
    pub fn weights(&self, targets: &[f64]) -> (Vec<f64>, f64) {
        let mut weights = targets.to_vec();
        self.forward(&mut weights);
        let variance = weights.iter().map(|value| value * value).sum::<f64>() / self.size as f64;
        self.backward(&mut weights);
        (weights, variance)
    }

    /// x of transposed U x = `values`, in their place.
    fn forward(&self, values: &mut [f64]) {
        for at in 0..self.size {
            let row = self.row(at);
            let (done, rest) = values.split_at_mut(at + 1);
            done[at] /= row[at];
            add(rest, -done[at], &row[at + 1..]);
        }
    }

    /// X of transposed U X = `rows`, of which each has `width` values, in their place.
    pub fn forward_rows(&self, rows: &mut [f64], width: usize) {
        for at in 0..self.size {
            let row = self.row(at);
            let (done, rest) = rows.split_at_mut((at + 1) * width);
            let solved = &mut done[at * width..];
            let scale = 1.0 / row[at];
            solved.iter_mut().for_each(|value| *value *= scale);
            for (below, other) in (at + 1..self.size).zip(rest.chunks_exact_mut(width)) {
                add(other, -row[below], solved);
            }
        }
    }

    /// x of U x = `values`, in their place.
    fn backward(&self, values: &mut [f64]) {
        for at in (0..self.size).rev() {
            let row = self.row(at);
            let known: f64 = row[at + 1..].iter().zip(&values[at + 1..]).map(|(a, b)| a * b).sum();
            values[at] = (values[at] - known) / row[at];
        }
    }

    /// The upper half of the inverse of the matrix, row by row.
    pub fn inverse(&self) -> Vec<f64> {
        let size = self.size;
        // Transposed U inverted is lower triangular, so that each of its rows ends at the diagonal.
        let mut lower = vec![0.0; size * size];
        for at in 0..size {
            lower[at * size + at] = 1.0;
        }
        for at in 0..size {
            let row = self.row(at);
            let (done, rest) = lower.split_at_mut((at + 1) * size);
            let solved = &mut done[at * size..at * size + at + 1];
            let scale = 1.0 / row[at];
            solved.iter_mut().for_each(|value| *value *= scale);
            for (below, other) in (at + 1..size).zip(rest.chunks_exact_mut(size)) {
                add(&mut other[..=at], -row[below], solved);
            }
        }
        let mut inverse = vec![0.0; size * size];
        for (end, from) in (1..).zip(lower.chunks_exact(size)) {
            for (at, to) in inverse.chunks_exact_mut(size).take(end).enumerate() {
                add(&mut to[at..end], from[at], &from[at..end]);
            }
        }
        inverse
    }
}

/// Adds `factor` times `from` to `to`.
pub fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [[f64; 3]; 3] = [[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]];

    fn product(vector: &[f64]) -> Vec<f64> {
        ROWS.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
    }

    fn near(found: &[f64], expected: &[f64]) {
        let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(found.len() == expected.len() && off < 1e-12, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn what_is_solved_is_a_solution() {
        let cholesky = Cholesky::of(ROWS.as_flattened().to_vec(), 3).unwrap();
        let targets = [1.0, -2.0, 0.25];
        let (weights, variance) = cholesky.weights(&targets);
        near(&product(&weights), &targets);
        let expected = weights.iter().zip(&targets).map(|(a, b)| a * b).sum::<f64>() / 3.0;
        near(&[variance], &[expected]);
        // The determinant is 16.25.
        near(&[cholesky.log_diagonal()], &[16.25_f64.ln() / 2.0]);
    }

    #[test]
    fn the_inverse_is_one() {
        let cholesky = Cholesky::of(ROWS.as_flattened().to_vec(), 3).unwrap();
        let upper = cholesky.inverse();
        let at = |row: usize, column: usize| upper[row.min(column) * 3 + row.max(column)];
        for column in 0..3 {
            let mut unit = [0.0; 3];
            unit[column] = 1.0;
            near(&product(&[0, 1, 2].map(|row| at(row, column))), &unit);
        }
    }

    #[test]
    fn rows_are_solved_like_columns() {
        let cholesky = Cholesky::of(ROWS.as_flattened().to_vec(), 3).unwrap();
        let (mut one, mut two) = (vec![1.0, 2.0, 3.0], vec![0.0, -1.0, 5.0]);
        let mut rows: Vec<f64> = one.iter().zip(&two).flat_map(|(a, b)| [*a, *b]).collect();
        cholesky.forward(&mut one);
        cholesky.forward(&mut two);
        cholesky.forward_rows(&mut rows, 2);
        near(&rows, &one.iter().zip(&two).flat_map(|(a, b)| [*a, *b]).collect::<Vec<f64>>());
    }

    #[test]
    fn a_matrix_that_has_no_factor_is_refused() {
        assert!(Cholesky::of(vec![1.0, 2.0, 2.0, 1.0], 2).is_none());
        assert!(Cholesky::of(vec![f64::NAN], 1).is_none());
    }
}
