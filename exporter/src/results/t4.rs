//! T4, the results format of the autotuning methodology community (schema 1.0.0 of `TuningSchema`): what its analyses, and those
//! of Kernel Tuner, read. `solver` is a member of each configuration, since choosing it is a part of tuning here; `problem`,
//! `stage`, `pruned` and `detail` stand beside what the schema has. The time of what was pruned is a lower bound. A reader takes a
//! file for one search space, so that one problem, and one solver where solvers have other params, is what to ask for.

use std::io::{self, Write as _};
use std::time::{Duration, UNIX_EPOCH};

use bluefin_common::failure::FailureKind;
use serde_json::{Map, Value, json};

use super::Write;
use super::row::{Came, Row};

/// Version of the schema.
const VERSION: &str = "1.0.0";

/// Writes one document.
pub struct T4Rows<O: io::Write> {
    out: io::BufWriter<O>,
    begun: bool,
}

impl<O: io::Write + Send + 'static> T4Rows<O> {
    pub fn new(out: O) -> Self {
        Self { out: io::BufWriter::with_capacity(1 << 16, out), begun: false }
    }
}

impl<O: io::Write + Send + 'static> Write for T4Rows<O> {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            let between: &[u8] = if self.begun { b",\n" } else { b"{\"results\":[\n" };
            self.out.write_all(between)?;
            self.begun = true;
            serde_json::to_writer(&mut self.out, &result(row))?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if !self.begun {
            self.out.write_all(b"{\"results\":[")?;
        }
        let metadata = json!({ "timeunit": "milliseconds", "tool": "bluefin" });
        write!(self.out, "\n],\"schema_version\":\"{VERSION}\",\"metadata\":{metadata}}}\n")?;
        self.out.flush()
    }
}

fn result(row: &Row) -> Value {
    let mut configuration = Map::new();
    configuration.insert("solver".to_string(), json!(row.solver));
    if let Ok(Value::Object(params)) = serde_json::from_str(&row.params_json()) {
        configuration.extend(params);
    }
    let invalidity = invalidity(row.result);
    // Of the whole job's, an even share.
    let compiled = row.compile_ms.unwrap_or(0) as f64 / f64::from(row.job_candidates.max(1));
    let mut measurements = Vec::new();
    let mut measured = |name: &str, value: Option<f64>, unit: &str| {
        if let Some(value) = value {
            measurements.push(json!({ "name": name, "value": value, "unit": unit }));
        }
    };
    measured("time", row.median_ms, "ms");
    measured("time_spread", row.spread_ms, "ms");
    measured("GFLOP/s", row.gflops, "GFLOP/s");
    measured("GB/s", row.gbytes_per_s, "GB/s");
    measured("clock", row.clock_mhz.map(f64::from), "MHz");
    let finished = UNIX_EPOCH + Duration::from_millis(row.finished_ms);
    json!({
        "timestamp": humantime::format_rfc3339_millis(finished).to_string(),
        "configuration": configuration,
        "objectives": ["time"],
        // What the schema calls compilation_time its readers call compilation.
        "times": {
            "compilation_time": compiled, "compilation": compiled, "runtimes": row.samples_ms,
            "framework": 0, "search_algorithm": 0, "validation": 0,
        },
        "invalidity": invalidity,
        "correctness": u8::from(invalidity == "correct"),
        "measurements": measurements,
        "problem": &*row.problem,
        "stage": row.stage.name(),
        "pruned": row.pruned,
        "detail": row.detail,
    })
}

/// The schema's word for it.
fn invalidity(result: Came) -> &'static str {
    use FailureKind as Kind;
    let kind = match result {
        Came::Timed | Came::Pruned => return "correct",
        Came::Failed(kind) => kind,
    };
    match kind {
        Kind::CompileTimeout | Kind::Hang | Kind::BudgetSpent => "timeout",
        Kind::CompileError | Kind::CompileCrash | Kind::WrongTarget | Kind::Uncompressed => "compile",
        Kind::WrongResult | Kind::OutputNotWritten | Kind::NotANumber => "correctness",
        Kind::InvalidLaunch | Kind::NotApplicable | Kind::UnknownSolver => "constraints",
        Kind::LoadError
        | Kind::LaunchFailure
        | Kind::Fault
        | Kind::OutOfMemory
        | Kind::Dead
        | Kind::DeviceLost
        | Kind::SolverError
        | Kind::InvalidTime
        | Kind::NoResult
        | Kind::MalformedOutput
        | Kind::ToolCrash
        | Kind::WrongBackend
        | Kind::KeyMismatch
        | Kind::MissingArtifact
        | Kind::CorruptArtifact => "runtime",
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{failed, row};
    use super::*;

    /// What the schema says, by hand: its types, what it requires, and the words that it knows.
    fn conforms(document: &Value) {
        let version: Vec<&str> = document["schema_version"].as_str().unwrap().split('.').collect();
        assert!(version.len() == 3 && version.iter().all(|part| part.parse::<u32>().is_ok()), "{version:?}");
        for result in document["results"].as_array().unwrap() {
            assert!(result["timestamp"].is_string() && result["configuration"].is_object(), "{result}");
            assert!(result["objectives"].is_array() && result["correctness"].is_number(), "{result}");
            for (name, time) in result["times"].as_object().unwrap() {
                assert!(if name == "runtimes" { time.is_array() } else { time.is_number() }, "{name}: {time}");
            }
            let words = ["timeout", "compile", "runtime", "correctness", "constraints", "correct"];
            assert!(words.contains(&result["invalidity"].as_str().unwrap()), "{result}");
            for measured in result["measurements"].as_array().unwrap() {
                assert!(measured["name"].is_string() && measured["unit"].is_string(), "{measured}");
                assert!(measured["value"].is_number(), "{measured}");
            }
        }
    }

    fn document(rows: &[Row]) -> Value {
        let mut out = T4Rows::new(Vec::new());
        out.rows(rows).unwrap();
        out.end().unwrap();
        serde_json::from_slice(out.out.get_ref()).unwrap()
    }

    #[test]
    fn documents_follow_the_schema() {
        let failures = FailureKind::ALL.into_iter().zip(4..).map(|(kind, index)| failed(index, kind, "why"));
        let rows: Vec<Row> = [row(3)].into_iter().chain(failures).collect();
        let document = document(&rows);
        conforms(&document);
        let first = &document["results"][0];
        assert_eq!(first["configuration"], json!({ "solver": "Tiled", "tile": 3, "order": "x\"y" }));
        assert_eq!(first["timestamp"], "2023-11-14T22:13:20.123Z");
        assert_eq!((&first["invalidity"], &first["correctness"]), (&json!("correct"), &json!(1)));
        assert_eq!(first["measurements"][0], json!({ "name": "time", "value": 97.0, "unit": "ms" }));
        assert_eq!(first["times"]["compilation_time"], json!(10.0));
        assert_eq!(first["pruned"], json!(false));
        assert_eq!(document["results"].as_array().unwrap().len(), 1 + FailureKind::ALL.len());
    }

    #[test]
    fn nothing_is_a_document_too() {
        let document = document(&[]);
        conforms(&document);
        assert_eq!(document["results"], json!([]));
    }
}
