//! Tuning spaces that are lists, as autotuners of other projects have them: points whose values belong together.

use std::collections::HashSet;
use std::sync::Arc;

use bluefin_common::value::Value;

use crate::Param;

/// The points of a space, each once. The first is the default.
#[derive(Clone, Debug)]
pub(super) struct Points(Arc<Listed>);

#[derive(Debug)]
struct Listed {
    points: Vec<Vec<Value>>,
    /// The same, to be looked up.
    known: HashSet<Vec<Value>>,
}

impl Points {
    /// Those that differ among `points`.
    pub(super) fn of(points: Vec<Vec<Value>>) -> Self {
        let mut known = HashSet::new();
        let points = points.into_iter().filter(|point| known.insert(point.clone())).collect();
        Self(Arc::new(Listed { points, known }))
    }

    /// Their params, called `names`: each with the values that points have, in the order in which they come first.
    pub(super) fn params(&self, names: &[String]) -> Vec<Param> {
        let param = |(at, name): (usize, &String)| {
            let mut seen = HashSet::new();
            let values = self.0.points.iter().filter_map(|point| point.get(at)).filter(|value| seen.insert(*value));
            let values: Vec<Value> = values.cloned().collect();
            let default = values.first().cloned().unwrap_or(Value::Int(0));
            Param { name: name.clone(), values, default, at_launch: false }
        };
        names.iter().enumerate().map(param).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.points.len()
    }

    pub(super) fn get(&self, index: u64) -> Option<&Vec<Value>> {
        usize::try_from(index).ok().and_then(|index| self.0.points.get(index))
    }

    pub(super) fn has(&self, point: &[Value]) -> bool {
        self.0.known.contains(point)
    }
}
