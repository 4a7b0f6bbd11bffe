//! `triton.json`: the `triton.Config` that won each problem, by the sizes of the problem, and `triton_configs.py`, which loads it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::value::Value;
use serde_json::{Map, Value as Json, json};

use super::{AnyRecords, Format, Records, toolchain_of};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;
use crate::summary::Summary;

/// The toolchain whose kernels are told of.
const TOOLCHAIN: &str = "triton";
/// Version of the document; changes when a field changes its meaning.
const FORMAT: u32 = 1;
/// What `triton.Config` takes beside the keyword arguments of a kernel. Options of AMD's backend are among those.
const OPTIONS: [&str; 4] = ["num_warps", "num_stages", "num_ctas", "maxnreg"];
const SNIPPET: &str = include_str!("triton_configs.py");

/// `triton.json` and `triton_configs.py`.
#[derive(Clone, Copy, Debug)]
pub struct TritonFormat;

impl Format for TritonFormat {
    fn name(&self) -> &'static str {
        "triton"
    }

    fn about(&self) -> &'static str {
        "triton.json: the triton.Config that won each problem, and triton_configs.py, which loads it; nothing where no kernel is Triton's"
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(TritonRecords::default())
    }
}

/// Configs by kernel spec and sizes.
#[derive(Debug, Default)]
pub struct TritonRecords(BTreeMap<String, BTreeMap<String, Json>>);

impl Fold for TritonRecords {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let decision = group.decision.as_ref().and_then(|decision| decision.winner());
        let job = group.outcomes.first().map(|outcome| &outcome.job);
        let of_triton = job.zip(decision).is_some_and(|(job, winner)| toolchain_of(job, winner) == TOOLCHAIN);
        let Some(winner) = Summary::of(group).winner.filter(|_| of_triton) else { return };
        let Problem::Kernel(kernel) = group.problem else { return };
        let sizes: Vec<String> = kernel.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let (mut options, mut arguments) = (Map::new(), Map::new());
        for (name, value) in &winner.params {
            let value = match value {
                Value::Int(value) => json!(value),
                // As Triton's kernels see it.
                Value::Text(value) if value == "None" => Json::Null,
                Value::Text(value) => json!(value),
                Value::Bool(value) => json!(value),
            };
            let place = if OPTIONS.contains(&name.as_str()) { &mut options } else { &mut arguments };
            place.insert(name.clone(), value);
        }
        let mut config = json!({ "solver": winner.solver, "median_ms": winner.median_ms, "kwargs": arguments });
        if let Some(config) = config.as_object_mut() {
            config.extend(winner.speedup_over_default.map(|ratio| ("speedup_over_default".to_string(), json!(ratio))));
            config.extend(options);
        }
        self.0.entry(kernel.kernel.clone()).or_default().insert(sizes.join(","), config);
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (kernel, configs) in other.0 {
            self.0.entry(kernel).or_default().extend(configs);
        }
    }
}

impl Records for TritonRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let session = out.session.clone();
        out.text("triton.json", move |out| document(out, &session, &self.0))?;
        out.text("triton_configs.py", |out| {
            out.write_all(SNIPPET.as_bytes())?;
            io::Result::Ok(1)
        })
    }
}

/// Writes the document, a problem a line. Returns the number of problems.
fn document(
    out: &mut impl Write,
    session: &Session,
    kernels: &BTreeMap<String, BTreeMap<String, Json>>,
) -> io::Result<u64> {
    let (name, target) = (session.name.as_str(), session.target.to_string());
    // Both are plain, and so are names of specs and of sizes: they need no escapes.
    write!(out, "{{\n\"format\": {FORMAT},\n\"session\": \"{name}\",\n\"target\": \"{target}\",\n\"kernels\": {{")?;
    let mut count = 0;
    for (index, (kernel, configs)) in kernels.iter().enumerate() {
        write!(out, "{}\"{kernel}\": {{", if index == 0 { "\n" } else { ",\n" })?;
        for (index, (sizes, config)) in configs.iter().enumerate() {
            write!(out, "{}\"{sizes}\": {config}", if index == 0 { "\n" } else { ",\n" })?;
            count += 1;
        }
        write!(out, "\n}}")?;
    }
    writeln!(out, "\n}}\n}}")?;
    Ok(count)
}
