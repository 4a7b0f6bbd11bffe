//! Where the points of a tuning space lie, so that points which a device treats alike are near each other. A model of times is as good
//! as its coordinates, which is why they are a file of their own.

use std::collections::BTreeSet;
use std::f64::consts::FRAC_1_SQRT_2;

use bluefin_common::value::Value;

/// The highest power of two that is told apart: what divides by more is aligned for every device.
const MAX_ALIGNMENT: u32 = 7;
/// Values without an order that are told apart, each as far from each other; more are taken in their order.
const MAX_UNORDERED: usize = 32;
/// Params of which the products of pairs are coordinates.
const MAX_FACTORS: usize = 8;

/// The coordinates of a space: some for each of its params, and one for each pair of sizes.
#[derive(Debug)]
pub struct Coordinates {
    params: Vec<Axis>,
    products: Vec<Product>,
    count: usize,
    scales: usize,
    /// Which scale each coordinate has: those of a param without an order have one in common.
    scale_of: Vec<usize>,
    /// Where the problem is among others: the last coordinates of each of its points.
    here: Vec<f64>,
}

/// What a value of one param adds to a point's coordinates.
#[derive(Debug)]
struct Axis {
    /// In order.
    values: Vec<Value>,
    /// For each value, its coordinates.
    rows: Vec<Vec<f64>>,
    /// Whether the values have an order; if not, their coordinates have one scale.
    ordered: bool,
    /// For each value its binary logarithm, where all are sizes.
    logs: Option<Vec<f64>>,
}

/// The product of two params, as a logarithm from 0 to 1.
#[derive(Debug)]
struct Product {
    first: usize,
    second: usize,
    least: f64,
    range: f64,
}

impl Coordinates {
    /// Those of a space whose params have these values, of a problem that is `here`.
    pub fn of<'a>(params: impl Iterator<Item = &'a [Value]>, here: Vec<f64>) -> Self {
        let params: Vec<Axis> = params.map(Axis::of).collect();
        let mut scale_of = Vec::new();
        let mut scales = 0;
        for axis in &params {
            let width = axis.rows.first().map_or(0, Vec::len);
            for _ in 0..width {
                scale_of.push(scales);
                scales += usize::from(axis.ordered);
            }
            scales += usize::from(!axis.ordered && width > 0);
        }
        let products = products(&params);
        for _ in 0..products.len() + here.len() {
            scale_of.push(scales);
            scales += 1;
        }
        Self { params, products, count: scale_of.len(), scales, scale_of, here }
    }

    /// How many coordinates a point has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many scales they have.
    pub fn scales(&self) -> usize {
        self.scales
    }

    /// Which scale each coordinate has.
    pub fn scale_of(&self) -> &[usize] {
        &self.scale_of
    }

    /// Where the problem is.
    pub fn here(&self) -> &[f64] {
        &self.here
    }

    /// Where a point is. `None`: a value that its param does not have.
    pub fn place(&self, point: &[Value]) -> Option<Vec<f64>> {
        self.place_of(point, &self.here)
    }

    /// Where a point of a problem is that is `there`.
    pub fn place_of(&self, point: &[Value], there: &[f64]) -> Option<Vec<f64>> {
        let mut place = Vec::with_capacity(self.count);
        let mut at = Vec::with_capacity(self.params.len());
        for (axis, value) in self.params.iter().zip(point) {
            let index = axis.values.binary_search(value).ok()?;
            place.extend(axis.rows.get(index)?);
            at.push(axis.logs.as_ref().and_then(|logs| logs.get(index).copied()).unwrap_or_default());
        }
        for product in &self.products {
            let log = at.get(product.first)? + at.get(product.second)?;
            place.push((log - product.least) / product.range);
        }
        place.extend(there);
        (place.len() == self.count).then_some(place)
    }
}

impl Axis {
    fn of(values: &[Value]) -> Self {
        let mut values = values.to_vec();
        values.sort_unstable();
        values.dedup();
        let numbers: Option<Vec<i64>> = values.iter().map(number).collect();
        let logs = numbers.as_ref().filter(|numbers| numbers.len() > 2).and_then(|numbers| logs(numbers));
        let ordered = numbers.is_some() || values.len() > MAX_UNORDERED;
        let rows = match (values.len(), &logs) {
            (0 | 1, _) => vec![Vec::new(); values.len()],
            (_, Some(logs)) => sizes(numbers.as_deref().unwrap_or_default(), logs),
            (count, None) if ordered => (0..count).map(|at| vec![level(at, count)]).collect(),
            (count, None) => unordered(count),
        };
        Self { values, rows, ordered, logs }
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Bool(bool) => Some(i64::from(*bool)),
        Value::Text(_) => None,
    }
}

/// Binary logarithms of sizes; `None` if one is not above zero.
fn logs(numbers: &[i64]) -> Option<Vec<f64>> {
    numbers.iter().map(|number| (*number > 0).then(|| libm::log2(*number as f64))).collect()
}

/// How far up a value is, from 0 to 1.
fn level(at: usize, count: usize) -> f64 {
    at as f64 / (count - 1) as f64
}

/// Coordinates of sizes: how far up, and what power of two divides them.
fn sizes(numbers: &[i64], logs: &[f64]) -> Vec<Vec<f64>> {
    let least = logs.first().copied().unwrap_or_default();
    let range = logs.last().copied().unwrap_or_default() - least;
    let up = logs.iter().enumerate().map(|(at, log)| f64::midpoint(level(at, logs.len()), (log - least) / range));
    let alignments = numbers.iter().map(|number| number.trailing_zeros().min(MAX_ALIGNMENT));
    // Where all are powers of two, their alignment says what their logarithm says.
    let says_more =
        alignments.clone().collect::<BTreeSet<u32>>().len() > 2 && numbers.iter().any(|number| number.count_ones() > 1);
    let alignments = alignments.map(|alignment| f64::from(alignment) / f64::from(MAX_ALIGNMENT));
    up.zip(alignments).map(|(up, alignment)| if says_more { vec![up, alignment] } else { vec![up] }).collect()
}

/// Coordinates of values without an order: each as far from each other, at distance 1.
fn unordered(count: usize) -> Vec<Vec<f64>> {
    let row = |at| (0..count).map(|other| if other == at { FRAC_1_SQRT_2 } else { 0.0 }).collect();
    (0..count).map(row).collect()
}

fn products(params: &[Axis]) -> Vec<Product> {
    let sizes = params.iter().enumerate().filter_map(|(at, axis)| Some((at, axis.logs.as_ref()?)));
    let sizes: Vec<_> = sizes.take(MAX_FACTORS).collect();
    let mut products = Vec::new();
    for (at, (first, a)) in sizes.iter().enumerate() {
        for (second, b) in sizes.iter().skip(at + 1) {
            let least = a.first().zip(b.first()).map_or(0.0, |(a, b)| a + b);
            let most = a.last().zip(b.last()).map_or(1.0, |(a, b)| a + b);
            products.push(Product { first: *first, second: *second, least, range: most - least });
        }
    }
    products
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[i64]) -> Vec<Value> {
        values.iter().map(|value| Value::Int(*value)).collect()
    }

    #[test]
    fn sizes_have_an_alignment_and_products() {
        let params = [values(&[16, 32, 48, 64, 80]), values(&[1, 2, 4]), values(&[3]), values(&[0, 1])];
        let coordinates = Coordinates::of(params.iter().map(Vec::as_slice), Vec::new());
        // Two of the first, one of the second, none of a constant, one of a switch, one product.
        assert_eq!((coordinates.count(), coordinates.scales()), (5, 5));
        let place = |point: &[i64]| coordinates.place(&values(point)).unwrap();
        assert_eq!(place(&[16, 1, 3, 0]), [0.0, 4.0 / 7.0, 0.0, 0.0, 0.0]);
        assert_eq!(place(&[80, 4, 3, 1]), [1.0, 4.0 / 7.0, 1.0, 1.0, 1.0]);
        let (one, two) = (place(&[64, 1, 3, 0]), place(&[32, 2, 3, 0]));
        assert_eq!((one[1], two[1]), (6.0 / 7.0, 5.0 / 7.0));
        assert!((one[4] - two[4]).abs() < 1e-12, "as many threads");
        assert!(coordinates.place(&values(&[17, 1, 3, 0])).is_none());
    }

    #[test]
    fn what_has_no_order_is_equally_far_and_has_one_scale() {
        let texts: Vec<Value> = ["c", "a", "b"].map(Value::from).to_vec();
        let coordinates = Coordinates::of([texts.as_slice(), &values(&[-1, 0])].into_iter(), Vec::new());
        assert_eq!((coordinates.count(), coordinates.scale_of()), (4, [0, 0, 0, 1].as_slice()));
        let place = |text: &str| coordinates.place(&[text.into(), Value::Int(0)]).unwrap();
        let apart = |one, two| place(one).iter().zip(place(two)).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        for (one, two) in [("a", "b"), ("a", "c"), ("b", "c")] {
            assert!((apart(one, two) - 1.0).abs() < 1e-12);
        }
        let many: Vec<Value> = (0..4000).map(|at| Value::Text(format!("{at:04}"))).collect();
        assert_eq!(Coordinates::of([many.as_slice()].into_iter(), Vec::new()).count(), 1);
    }
}
