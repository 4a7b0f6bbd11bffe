//! `bluefin capture --triton`: runs a Python program and writes down each kernel that the autotuners of Triton and of PyTorch's
//! Inductor meet in it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitStatus;

use bluefin_campaign::captured::{self, Capture};
use bluefin_common::spelled::counted;
use bluefin_terminal::failed::quoted;
use bluefin_triton::{Captured, Contents, Left, Process};
use serde_json::{Value as Json, json};

/// Runs the command, and leaves a folder for each key that it tuned in `folder`. Returns how it ended.
pub(super) async fn capture(
    folder: &Path,
    (contents, jit): (Contents, bool),
    command: &[OsString],
    as_json: bool,
) -> anyhow::Result<ExitStatus> {
    let (program, arguments) = command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
    let Capture { status, kernels, process, left } =
        captured::capture(folder, (contents, jit), (program, arguments)).await?;
    let mut text = String::new();
    if as_json {
        text = told(folder, &kernels, &process, &left).to_string() + "\n";
    } else {
        say(&mut text, folder, &kernels, &left)?;
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
    for one in captures {
        for (output, param) in &one.not_compared {
            writeln!(text, "bluefin: {}: {output} has a part for each {param}, and is not compared", one.name())?;
        }
        for config in &one.left_out {
            writeln!(
                text,
                "bluefin: {}: left out, with other partial sums than the config that ran: {config}",
                one.name()
            )?;
        }
    }
    if captures.is_empty() && !left.is_empty() {
        return writeln!(text, "bluefin: {shown}: no kernel was captured: all that the program tunes is named above");
    }
    if captures.is_empty() {
        return writeln!(
            text,
            "bluefin: {shown}: no kernel was captured: the program launched no function with @triton.autotune and more than one \
             config, none of torch.compile (mode=\"max-autotune\", or --jit) either, or ran as `python -I` or `-S`, or ended by a signal"
        );
    }
    let kernels = counted(captures.len() as u64, "kernel");
    // What has no autotuner has no list to choose from.
    let widen = if captures.iter().any(|one| one.configs() == 1) { " --widen" } else { "" };
    let named = quoted(&shown.to_string());
    writeln!(text, "bluefin: {shown}: {kernels} with {configs} configs\nnext: bluefin tune --triton {named}{widen}")
}

fn told(folder: &Path, captures: &[Captured], process: &Process, left: &[Left]) -> Json {
    let kernel = |captured: &Captured| {
        let counts = process.kernels.get(&captured.name()).copied().unwrap_or_default();
        json!({
            "name": captured.name(), "function": captured.function, "at": format!("{}:{}", captured.file, captured.line),
            "configs": captured.configs(), "calls": counts.calls, "ms": counts.ms, "not_widened": captured.not_widened,
            "not_compared": captured.not_compared, "left_out": captured.left_out,
        })
    };
    let left = left.iter().map(|one| json!({ "function": one.function, "at": one.at, "reason": one.reason }));
    json!({
        "folder": folder, "kernels": captures.iter().map(kernel).collect::<Vec<_>>(), "left": left.collect::<Vec<_>>(),
    })
}
