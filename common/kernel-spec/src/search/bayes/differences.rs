//! What tells problems apart, as coordinates beside those of a space. How much each of them matters is fitted as the lengths of params
//! are: a difference that does not change which candidates are fast is found to be none.

use std::collections::BTreeSet;

use bluefin_common::value::Value;

use crate::search::Variables;
use crate::search::others::doublings;

/// The most coordinates: each is one more length to be fitted.
const MOST: usize = 8;

/// The variables in which some problems differ.
#[derive(Debug)]
pub struct Differences(Vec<Difference>);

/// One of them.
#[derive(Debug)]
struct Difference {
    name: String,
    /// For sizes, the least logarithm and the range of all; `None` for what is no size.
    sizes: Option<(f64, f64)>,
    /// What `here` has: another text or truth value is at distance 1 from it.
    here: Value,
}

impl Differences {
    /// Those between the problem of `here` and `others`.
    pub fn of<'a>(here: &'a Variables, others: impl Iterator<Item = &'a Variables> + Clone) -> Self {
        let problems = || std::iter::once(here).chain(others.clone());
        let mut differences = Vec::new();
        let mut known: Vec<Vec<f64>> = Vec::new();
        for (name, value) in here {
            let values: BTreeSet<Option<&Value>> = problems().map(|variables| variables.get(name)).collect();
            if values.len() < 2 || differences.len() == MOST {
                continue;
            }
            let logs: Option<Vec<f64>> = values.iter().map(|value| doublings(value.as_ref()?)).collect();
            let sizes = logs.map(|logs| {
                let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
                let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (least, (most - least).max(f64::MIN_POSITIVE))
            });
            let difference = Difference { name: name.clone(), sizes, here: value.clone() };
            // Height and width of images and filters mostly say the same.
            let column: Vec<f64> = problems().map(|variables| difference.place(variables)).collect();
            if !known.contains(&column) {
                known.push(column);
                differences.push(difference);
            }
        }
        Self(differences)
    }

    /// Where the problem of `variables` is.
    pub fn place(&self, variables: &Variables) -> Vec<f64> {
        self.0.iter().map(|difference| difference.place(variables)).collect()
    }
}

impl Difference {
    fn place(&self, variables: &Variables) -> f64 {
        let value = variables.get(&self.name);
        match (self.sizes, value.and_then(doublings)) {
            (Some((least, range)), Some(log)) => (log - least) / range,
            _ => f64::from(u8::from(value != Some(&self.here))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(values: &[(&str, Value)]) -> Variables {
        values.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect()
    }

    #[test]
    fn only_what_differs_counts_and_none_twice() {
        let problem = |c: i64, h: i64, layout: &str| {
            let int = Value::Int;
            variables(&[("c", int(c)), ("h", int(h)), ("layout", layout.into()), ("n", int(4)), ("w", int(h))])
        };
        let (here, others) = (problem(63, 7, "NCHW"), [problem(3, 31, "NCHW"), problem(255, 127, "NHWC")]);
        let differences = Differences::of(&here, others.iter());
        assert_eq!(differences.place(&here), [4.0 / 6.0, 0.0, 0.0]);
        assert_eq!(differences.place(&others[0]), [0.0, 0.5, 0.0]);
        assert_eq!(differences.place(&others[1]), [1.0, 1.0, 1.0]);
        assert!(Differences::of(&here, [].iter()).place(&here).is_empty(), "alone");
    }
}
