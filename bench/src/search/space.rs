//! What a search is tried on: a tuning space of which every point was measured before.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bluefin_common::failure::FailureKind;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_kernel_spec::search::{Prior, Time, Variables};
use bluefin_producer::specs::LoadedSpec;

/// A tuning space with the result of every point.
#[derive(Debug, PartialEq)]
pub struct Measured {
    /// That of its file, with the solver where the file has several spaces.
    pub name: String,
    pub solver: String,
    /// Names, in the order in which points have their values.
    pub params: Vec<String>,
    /// What the problem is that it is of; none where the file does not say.
    pub variables: Variables,
    /// The same, whole.
    pub problem: Option<Problem>,
    /// What a model says of points, where one is asked.
    pub costs: HashMap<Vec<Value>, f64>,
    pub points: Vec<Point>,
}

#[derive(Debug, PartialEq)]
pub struct Point {
    pub params: Vec<Value>,
    pub result: Result<Time, FailureKind>,
}

impl Point {
    /// Its time, where it was measured to the end.
    pub fn time_ms(&self) -> Option<f64> {
        self.result.as_ref().ok().filter(|time| !time.pruned).map(|time| time.median_ms)
    }
}

impl Measured {
    /// The time of the best point.
    pub fn optimum_ms(&self) -> f64 {
        self.points.iter().filter_map(Point::time_ms).fold(f64::INFINITY, f64::min)
    }

    /// The best `count` points as winners of earlier work; none where nobody says what the problem is.
    pub fn winners(&self, count: usize) -> Vec<Prior> {
        let Some(problem) = &self.problem else { return Vec::new() };
        let mut best: Vec<(f64, &Point)> =
            self.points.iter().filter_map(|point| Some((point.time_ms()?, point))).collect();
        best.sort_by(|a, b| a.0.total_cmp(&b.0));
        let prior = |(_, point): (f64, &Point)| Prior {
            problem: problem.clone(),
            spec: String::new(),
            solver: self.solver.clone(),
            params: self.params.iter().cloned().zip(point.params.iter().cloned()).collect(),
        };
        best.into_iter().take(count).map(prior).collect()
    }

    /// What the model of the one of `specs` that has the solver says of each point on `target`; none where no such spec is for the problem.
    ///
    /// # Errors
    /// An expression of the spec that has no value.
    pub fn costs(&self, specs: &[LoadedSpec], target: &Target) -> anyhow::Result<HashMap<Vec<Value>, f64>> {
        let mut costs = HashMap::new();
        let Some(problem) = &self.problem else { return Ok(costs) };
        for LoadedSpec { spec, .. } in specs {
            let (Some(solver), Some(scope)) = (spec.solver(&self.solver), spec.scope(problem, target)?) else {
                continue;
            };
            let place = |name: &String| self.params.iter().position(|known| known == name);
            let places: Option<Vec<usize>> = solver.params.iter().map(|param| place(&param.name)).collect();
            let Some(places) = places else { continue };
            for Point { params, .. } in &self.points {
                let ordered: Vec<Value> = places.iter().filter_map(|at| params.get(*at).cloned()).collect();
                costs.extend(solver.cost(&ordered, &scope)?.map(|cost| (params.clone(), cost)));
            }
        }
        Ok(costs)
    }

    /// Whether there is anything to be found.
    pub fn has_time(&self) -> bool {
        self.points.iter().any(|point| point.time_ms().is_some())
    }

    /// Points that have no time.
    pub fn failed(&self) -> usize {
        self.points.iter().filter(|point| point.result.is_err()).count()
    }
}

/// A space of which points are read one after the other.
#[derive(Debug)]
pub struct Reading {
    space: Measured,
    /// Where each point was found: a line, or an index.
    places: HashMap<Vec<Value>, usize>,
}

impl Reading {
    pub fn new(name: &str, solver: &str, params: Vec<String>) -> Self {
        let (name, solver) = (name.to_string(), solver.to_string());
        let space = Measured {
            name,
            solver,
            params,
            variables: Variables::new(),
            problem: None,
            costs: HashMap::new(),
            points: Vec::new(),
        };
        Self { space, places: HashMap::new() }
    }

    pub fn params(&self) -> &[String] {
        &self.space.params
    }

    /// Adds a point that was found at `place`.
    ///
    /// # Errors
    /// The place where the same params were found before.
    pub fn add(&mut self, params: Vec<Value>, result: Result<Time, FailureKind>, place: usize) -> Result<(), usize> {
        match self.places.entry(params.clone()) {
            Entry::Occupied(before) => Err(*before.get()),
            Entry::Vacant(new) => {
                new.insert(place);
                self.space.points.push(Point { params, result });
                Ok(())
            }
        }
    }

    pub fn end(self) -> Measured {
        self.space
    }
}

/// How long a point took, where no more than a median is known.
pub fn time(median_ms: f64) -> Time {
    Time { median_ms, spread_ms: 0.0, pruned: false }
}

/// Whether it can be the time of a kernel.
pub fn is_time(median_ms: f64) -> bool {
    median_ms.is_finite() && median_ms > 0.0
}
