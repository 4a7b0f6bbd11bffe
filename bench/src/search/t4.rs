//! T4, the results format of the autotuning methodology community (`results-schema.json` of Kernel Tuner, version 1.0.0), as
//! Kernel Tuner and its benchmarks write it, and `bluefin results --t4`; and the names in a T1, the input that belongs to it.
//!
//! bluefin's own has several problems and solvers, each of which is a space of its own.

use anyhow::{Context as _, anyhow, bail, ensure};
use bluefin_common::failure::FailureKind;
use bluefin_common::problem::{Problem, driver};
use bluefin_common::value::Value;
use bluefin_kernel_spec::search::Time;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::space::{Measured, Reading, is_time};

#[derive(Deserialize)]
struct Document {
    results: Vec<Entry>,
    #[serde(default)]
    metadata: Json,
}

#[derive(Deserialize)]
struct Entry {
    configuration: Map<String, Json>,
    invalidity: String,
    #[serde(default)]
    objectives: Vec<String>,
    #[serde(default)]
    measurements: Vec<Measurement>,
    /// As bluefin says it, beside the schema. Only its perf stage tries points; the other one times the best of them again.
    stage: Option<String>,
    problem: Option<String>,
    #[serde(default)]
    pruned: bool,
}

#[derive(Deserialize)]
struct Measurement {
    name: String,
    value: Json,
    #[serde(default)]
    unit: String,
}

/// A space as it is read, and the problem and the solver that it is of.
struct Part {
    problem: Option<String>,
    solver: Option<String>,
    space: Reading,
}

/// # Errors
/// The field, what was found there, and what is expected.
pub fn read(name: &str, text: &str) -> anyhow::Result<Vec<Measured>> {
    let Document { results, metadata } = serde_json::from_str(text).context("T4 results")?;
    let of_bluefin = metadata.get("tool").and_then(Json::as_str) == Some("bluefin");
    let unit = metadata.get("timeunit").and_then(Json::as_str).unwrap_or("ms");
    let mut parts: Vec<Part> = Vec::new();
    for (index, entry) in results.into_iter().enumerate() {
        if entry.stage.as_deref().is_none_or(|stage| stage == "perf") {
            add(&mut parts, name, index, entry, of_bluefin, unit).with_context(|| format!("results[{index}]"))?;
        }
    }
    ensure!(!parts.is_empty(), "results: found none, expected one for each point");
    let several =
        |one: fn(&Part) -> &Option<String>| parts.iter().any(|part| Some(one(part)) != parts.first().map(one));
    let (problems, solvers) = (several(|part| &part.problem), several(|part| &part.solver));
    let ended = parts.into_iter().map(|part| {
        let mut space = part.space.end();
        let problem = part.problem.as_deref().and_then(|problem| driver::parse(problem, None).ok()?.into_iter().next());
        space.variables = problem.as_ref().map(Problem::variables).unwrap_or_default();
        space.problem = problem;
        for more in [part.solver.filter(|_| solvers), part.problem.filter(|_| problems)].into_iter().flatten() {
            space.name = format!("{} {more}", space.name);
        }
        space
    });
    Ok(ended.collect())
}

fn add(
    parts: &mut Vec<Part>,
    name: &str,
    index: usize,
    mut entry: Entry,
    of_bluefin: bool,
    unit: &str,
) -> anyhow::Result<()> {
    // Of other tools it may be a param like any other.
    let solver = if of_bluefin { entry.configuration.shift_remove("solver") } else { None };
    let solver = solver.as_ref().and_then(Json::as_str).map(str::to_string);
    let result = result(&entry, unit)?;
    let known = parts.iter().position(|part| part.problem == entry.problem && part.solver == solver);
    let known = known.unwrap_or_else(|| {
        let params = entry.configuration.keys().cloned().collect();
        let space = Reading::new(name, solver.as_deref().unwrap_or("points"), params);
        parts.push(Part { problem: entry.problem.take(), solver, space });
        parts.len() - 1
    });
    let Some(Part { space, .. }) = parts.get_mut(known) else { return Ok(()) };
    let mut params = Vec::new();
    for name in space.params() {
        let found = entry.configuration.shift_remove(name);
        let found =
            found.with_context(|| format!("configuration: found no {name}, expected it as in the results before"))?;
        params.push(value(&found).with_context(|| format!("configuration.{name}"))?);
    }
    if let Some(more) = entry.configuration.keys().next() {
        bail!("configuration: found {more}, expected no more params than in the results before");
    }
    let twice = |first| anyhow!("configuration: found that of results[{first}] again, expected each once");
    space.add(params, result, index).map_err(twice)
}

/// A number that is not whole stays a text: params have no other.
fn value(json: &Json) -> anyhow::Result<Value> {
    Ok(match json {
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => {
                let text = number.to_string();
                text.strip_suffix(".0").and_then(|whole| whole.parse().ok()).map_or(Value::Text(text), Value::Int)
            }
        },
        Json::Null | Json::Array(_) | Json::Object(_) => {
            bail!("found {json}, expected a number, a text or a truth value")
        }
    })
}

fn result(entry: &Entry, unit: &str) -> anyhow::Result<Result<Time, FailureKind>> {
    let kind = match entry.invalidity.as_str() {
        "correct" => None,
        "timeout" => Some(FailureKind::Hang),
        "compile" => Some(FailureKind::CompileError),
        "runtime" => Some(FailureKind::LaunchFailure),
        "correctness" => Some(FailureKind::WrongResult),
        "constraints" => Some(FailureKind::InvalidLaunch),
        other => {
            bail!(
                "invalidity: found {other:?}, expected correct, timeout, compile, runtime, correctness or constraints"
            )
        }
    };
    if let Some(kind) = kind {
        return Ok(Err(kind));
    }
    let named = entry.objectives.iter().find(|name| name.to_lowercase().contains("time"));
    let name = named.map_or("time", String::as_str);
    let measured = |name: &str| entry.measurements.iter().find(|measured| measured.name == name);
    let found = measured(name).with_context(|| {
        let names: Vec<&str> = entry.measurements.iter().map(|measured| measured.name.as_str()).collect();
        format!("measurements: found [{}], expected one of the name {name}", names.join(", "))
    })?;
    let median_ms = in_ms(found, unit)?;
    let spread_ms = measured("time_spread").and_then(|spread| in_ms(spread, unit).ok()).unwrap_or(0.0);
    Ok(Ok(Time { median_ms, spread_ms, pruned: entry.pruned }))
}

/// `unit` is that of the file, where the measurement has none.
fn in_ms(measured: &Measurement, unit: &str) -> anyhow::Result<f64> {
    let Measurement { name, value, unit: own } = measured;
    let unit = if own.is_empty() { unit } else { own };
    let factor = match unit.to_lowercase().as_str() {
        "s" | "sec" | "second" | "seconds" => 1e3,
        // The benchmarks of the community write it with one l.
        "ms" | "msec" | "millisecond" | "milliseconds" | "miliseconds" => 1.0,
        "us" | "µs" | "microsecond" | "microseconds" => 1e-3,
        "ns" | "nanosecond" | "nanoseconds" => 1e-6,
        _ => bail!("measurements, {name}: found the unit {unit:?}, expected s, ms, us or ns"),
    };
    let found = value.as_f64().map(|value| value * factor).filter(|ms| is_time(*ms));
    found.with_context(|| format!("measurements, {name}: found {value}, expected a number above zero"))
}

#[derive(Deserialize)]
struct Input {
    #[serde(rename = "ConfigurationSpace")]
    space: InputSpace,
}

#[derive(Deserialize)]
struct InputSpace {
    #[serde(rename = "TuningParameters")]
    params: Vec<InputParam>,
}

#[derive(Deserialize)]
struct InputParam {
    #[serde(rename = "Name")]
    name: String,
}

/// Names of the params of a T1.
///
/// # Errors
/// It is no T1.
pub fn params_of_t1(text: &str) -> anyhow::Result<Vec<String>> {
    let input: Input = serde_json::from_str(text).context("T1 input")?;
    Ok(input.space.params.into_iter().map(|param| param.name).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::space::{Point, time};
    use super::*;

    fn document(results: &Json) -> String {
        json!({ "results": results, "schema_version": "1.0.0", "metadata": { "timeunit": "miliseconds" } }).to_string()
    }

    fn correct(configuration: &Json, value: &Json) -> Json {
        json!({ "configuration": configuration, "invalidity": "correct", "objectives": ["time"], "correctness": 1,
            "times": { "runtimes": [1.0] }, "measurements": [{ "name": "time", "value": value, "unit": "" }] })
    }

    #[test]
    fn a_document_of_kernel_tuner() {
        let mut results = vec![correct(&json!({ "x": 16, "y": 0.5, "solver": "a" }), &json!(2.5))];
        for word in ["timeout", "compile", "runtime", "correctness", "constraints"] {
            results.push(json!({ "configuration": { "solver": word, "x": 16, "y": true }, "times": {}, "correctness": 0,
                "invalidity": word, "measurements": [{ "name": "time", "value": "RuntimeFailedConfig", "unit": "" }] }));
        }
        let spaces = read("conv", &document(&results.into())).unwrap();
        let [space] = spaces.as_slice() else { panic!("{spaces:?}") };
        assert_eq!((space.name.as_str(), space.params.join(" ").as_str()), ("conv", "x y solver"));
        let [first, failed @ ..] = space.points.as_slice() else { panic!("{space:?}") };
        let params = vec![Value::Int(16), Value::from("0.5"), Value::from("a")];
        assert_eq!(*first, Point { params, result: Ok(time(2.5)) });
        assert_eq!(
            failed.iter().map(|point| point.result.unwrap_err()).collect::<Vec<_>>(),
            [
                FailureKind::Hang,
                FailureKind::CompileError,
                FailureKind::LaunchFailure,
                FailureKind::WrongResult,
                FailureKind::InvalidLaunch
            ]
        );
        assert_eq!(failed[0].params[1], Value::Bool(true));
    }

    #[test]
    fn a_document_of_bluefin_is_a_space_for_each_solver_and_problem() {
        let row = |solver: &str, tile: i64, problem: &str, stage: &str, pruned: bool| {
            json!({ "configuration": { "solver": solver, "tile": tile }, "objectives": ["time"], "invalidity": "correct",
                "measurements": [{ "name": "time", "value": tile, "unit": "us" },
                    { "name": "time_spread", "value": 5, "unit": "us" }],
                "problem": problem, "stage": stage, "pruned": pruned, "detail": null })
        };
        let rows = [
            row("A", 1, "p", "perf", true),
            row("B", 2, "p", "perf", false),
            row("A", 3, "p", "perf", false),
            row("A", 4, "q", "perf", false),
            row("A", 3, "p", "find", false),
        ];
        let document = json!({ "results": rows, "metadata": { "tool": "bluefin", "timeunit": "milliseconds" } });
        let spaces = read("t", &document.to_string()).unwrap();
        let names: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
        assert_eq!(names, ["t A p", "t B p", "t A q"]);
        assert_eq!((spaces[0].solver.as_str(), spaces[0].params.as_slice()), ("A", ["tile".to_string()].as_slice()));
        let time = |median_ms, pruned| Ok(Time { median_ms, spread_ms: 0.005, pruned });
        assert_eq!(
            spaces[0].points.iter().map(|point| point.result).collect::<Vec<_>>(),
            [time(0.001, true), time(0.003, false)]
        );
        assert_eq!(spaces[0].optimum_ms(), 0.003, "what was pruned has no time");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        let fine = correct(&json!({ "x": 1 }), &json!(1));
        let with = |field: &str, value: Json| {
            let mut entry = fine.clone();
            entry[field] = value;
            entry
        };
        let measured = |measured: Json| with("measurements", json!([measured]));
        for (results, said) in [
            (json!([]), "results: found none"),
            (json!({}), "T4 results: invalid type: map, expected a sequence at line 1"),
            (json!([{}]), "T4 results: missing field `configuration` at line 1"),
            (json!([with("invalidity", json!("odd"))]), "results[0]: invalidity: found \"odd\", expected correct"),
            (json!([fine, fine]), "results[1]: configuration: found that of results[0] again"),
            (json!([fine, with("configuration", json!({ "y": 1 }))]), "results[1]: configuration: found no x"),
            (json!([fine, with("configuration", json!({ "x": 1, "y": 1 }))]), "results[1]: configuration: found y"),
            (json!([with("configuration", json!({ "x": [] }))]), "results[0]: configuration.x: found [], expected a n"),
            (json!([with("measurements", json!([]))]), "results[0]: measurements: found [], expected one of the name"),
            (
                json!([measured(json!({ "name": "time", "value": "RuntimeFailedConfig" }))]),
                "results[0]: measurements, time",
            ),
            (
                json!([measured(json!({ "name": "time", "value": 0 }))]),
                "results[0]: measurements, time: found 0, expec",
            ),
            (
                json!([measured(json!({ "name": "time", "value": 1, "unit": "J" }))]),
                "results[0]: measurements, time: found the unit \"J\"",
            ),
        ] {
            let error = format!("{:#}", read("x", &document(&results)).unwrap_err());
            assert!(error.starts_with(said), "{results}: {error}");
        }
    }
}
