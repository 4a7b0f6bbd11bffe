//! `bluefin apply`: runs a Python program whose Triton kernels get the configs that were found for them.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::given_back::tuned_in;
use bluefin_common::spelled::counted;
use bluefin_producer::capture::run_with;
use bluefin_triton::{Applied, Hook, Mode};
use serde_json::json;

/// Run a program with the Triton configs that were found for it
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    bluefin apply --triton out -- python3 train.py\n\n\
    Each function with @triton.autotune gets the config of its tuning key, else that of the nearest key of the same types; \
    kernels that were not tuned, or whose source changed, are left to Triton. Nothing of the program is edited. Its exit code, \
    or its death by a signal, is passed on.")]
pub struct ApplyArgs {
    /// The folder that `bluefin tune --triton` wrote
    #[arg(long, value_name = "DIR")]
    triton: PathBuf,
    /// Print what was given as one line of JSON on standard error
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl ApplyArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
        let tuned = tuned_in(&self.triton)?;
        let (hook, folder) = (Hook::new()?, tempfile::tempdir()?);
        let mode = Mode::Apply { tuned: &tuned, gives: true, folder: folder.path(), times: false };
        let status = run_with(program, arguments, hook.environment(mode)?).await?;
        let applied = Applied::read(folder.path())?;
        let text = if self.json {
            let given = applied
                .given
                .iter()
                .map(|(key, given)| json!({ "key": key, "from": given.from, "exact": given.exact }));
            let left = applied.left.iter().map(|(key, reason)| json!({ "key": key, "reason": reason }));
            json!({ "given": given.collect::<Vec<_>>(), "left": left.collect::<Vec<_>>() }).to_string() + "\n"
        } else {
            said(&applied)
        };
        io::stderr().write_all(text.as_bytes())?;
        crate::capture::end_like(status)
    }
}

fn said(applied: &Applied) -> String {
    let exact = applied.given.values().filter(|given| given.exact).count();
    let near = applied.given.len() - exact;
    let mut text = format!("bluefin: {} had the config that was found", counted(exact as u64, "tuning key"));
    if near > 0 {
        text += &format!(", {near} that of the nearest key");
    }
    if !applied.left.is_empty() {
        text += &format!(", {} left to Triton:", applied.left.len());
    }
    text.push('\n');
    for (key, reason) in &applied.left {
        text += &format!("  {key}: {reason}\n");
    }
    text
}
