//! `bluefin capture --triton`: runs a Python program and writes down each kernel that Triton's autotuner meets in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitStatus;

use anyhow::Context as _;
use bluefin_common::spelled::counted;
use bluefin_producer::capture::run_with;
use bluefin_triton::{Captured, Contents, Hook, Left, Mode, Process};
use serde_json::{Value as Json, json};

/// How often kernels were launched, and for how long.
const CALLS: &str = "calls.json";

/// Runs the command, and leaves a folder for each key that it tuned in `folder`. Returns how it ended.
pub(super) async fn capture(
    folder: &Path,
    (contents, jit): (Contents, bool),
    command: &[OsString],
    as_json: bool,
) -> anyhow::Result<ExitStatus> {
    let (program, arguments) = command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let hook = Hook::new()?;
    let environment = hook.environment(Mode::Capture { folder, contents, jit })?;
    let status = run_with(program, arguments, environment).await?;
    let process = Process::take(folder)?;
    let mut left = process.left.clone();
    let mut captures = Vec::new();
    for name in process.kernels.keys() {
        let captured = Captured::read(&folder.join(name))?;
        match captured.write_specs()? {
            Ok(()) => captures.push(captured),
            Err(reason) => {
                let at = format!("{}:{}", captured.file, captured.line);
                left.push(Left { function: captured.function, at, reason });
            }
        }
    }
    add_calls(&folder.join(CALLS), &process)?;
    let mut text = String::new();
    if as_json {
        text = told(folder, &captures, &process, &left).to_string() + "\n";
    } else {
        say(&mut text, folder, &captures, &left)?;
    }
    io::stderr().write_all(text.as_bytes())?;
    Ok(status)
}

fn say(text: &mut String, folder: &Path, captures: &[Captured], left: &[Left]) -> std::fmt::Result {
    use std::fmt::Write as _;

    let shown = folder.display();
    let configs: usize = captures.iter().map(Captured::configs).sum();
    for one in left {
        writeln!(text, "bluefin: not captured: {} ({}): {}", one.function, one.at, one.reason)?;
    }
    if captures.is_empty() && !left.is_empty() {
        return writeln!(text, "bluefin: {shown}: no kernel was captured: all that the program tunes is named above");
    }
    if captures.is_empty() {
        return writeln!(
            text,
            "bluefin: {shown}: no kernel was captured: the program launched no function with @triton.autotune and more than one \
             config, or ran as `python -I` or `-S`, or ended by a signal"
        );
    }
    let kernels = counted(captures.len() as u64, "kernel");
    // What has no autotuner has no list to choose from.
    let widen = if captures.iter().any(|one| one.configs() == 1) { " --widen" } else { "" };
    writeln!(text, "bluefin: {shown}: {kernels} with {configs} configs\nnext: bluefin tune --triton {shown}{widen}")
}

fn told(folder: &Path, captures: &[Captured], process: &Process, left: &[Left]) -> Json {
    let kernel = |captured: &Captured| {
        let counts = process.kernels.get(&captured.name()).copied().unwrap_or_default();
        json!({
            "name": captured.name(), "function": captured.function, "at": format!("{}:{}", captured.file, captured.line),
            "configs": captured.configs(), "calls": counts.calls, "ms": counts.ms, "not_widened": captured.not_widened,
        })
    };
    let left = left.iter().map(|one| json!({ "function": one.function, "at": one.at, "reason": one.reason }));
    json!({
        "folder": folder, "kernels": captures.iter().map(kernel).collect::<Vec<_>>(), "left": left.collect::<Vec<_>>(),
    })
}

/// Adds to what earlier captures counted.
fn add_calls(path: &Path, process: &Process) -> anyhow::Result<()> {
    let before = std::fs::read_to_string(path).ok();
    let before = before.and_then(|text| serde_json::from_str::<BTreeMap<String, Json>>(&text).ok());
    let mut all = before.unwrap_or_default();
    for (name, counts) in &process.kernels {
        let calls = all.get(name).and_then(|one| one["calls"].as_u64()).unwrap_or_default() + counts.calls;
        all.insert(name.clone(), json!({ "calls": calls, "ms": counts.ms }));
    }
    if !all.is_empty() {
        std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(())
}
