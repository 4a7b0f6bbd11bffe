//! `bluefin serving coverage`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::usage;
use bluefin_serving::coverage::{Covered, Presence, coverage};
use bluefin_serving::files::read_all;
use bluefin_serving::{FileName, Version};
use bluefin_terminal::out;

use bluefin_campaign::serving::models::ModelArgs;

/// Tell which config files of a model are there, for which GPU and of which Triton
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin serving coverage config.json --engine vllm --tp 8 --gpu 'NVIDIA H200' --configs vllm/configs --triton 3.6.0\n\n\
    Files are looked for as the engine's loader does: by their names to the letter, folders in the order that they are given in, SGLang's of \
    --triton first and then of the newest. Without a file the engine takes its default row; a batch size without a row takes the nearest \
    one. Exit code 1 with --missing if a file is missing or broken."
)]
pub struct CoverageArgs {
    #[command(flatten)]
    models: ModelArgs,
    /// Files, or folders of them, as the engine has them
    #[arg(long, value_name = "FILE|DIR", required = true, num_args = 1..)]
    configs: Vec<PathBuf>,
    /// The Triton that the engine runs with
    #[arg(long, value_name = "VERSION")]
    triton: Option<Version>,
    /// Look for products with block-quantised weights as well
    #[arg(long)]
    gemms: bool,
    /// List what is missing, and no more
    #[arg(long)]
    missing: bool,
    /// Print as JSON, one object for each file
    #[arg(long)]
    json: bool,
}

impl CoverageArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let engine = self.models.engine;
        if self.models.gpu.is_empty() {
            return Err(usage(
                "--gpu: found none, expected the name of a GPU as its driver has it, such as 'NVIDIA H200'",
            ));
        }
        let spread = self.models.spread(self.gemms, |note| say!("{note}"))?;
        let mut wanted: Vec<FileName> = Vec::new();
        for name in self.models.gpu.iter().flat_map(|gpu| spread.iter().flat_map(|one| one.files(engine, gpu))) {
            if !wanted.contains(&name) {
                wanted.push(name);
            }
        }
        let files = read_all(&self.configs, Some(engine))?;
        let mut covered = coverage(engine, &files, &wanted, self.triton.as_ref());
        let is_missing = |one: &Covered| matches!(one.presence, Presence::Missing | Presence::Broken);
        let any_missing = covered.iter().any(is_missing);
        covered.retain(|one| !self.missing || is_missing(one));
        if self.json {
            out::json(&covered)?;
        } else {
            for one in &covered {
                print(one)?;
            }
        }
        Ok(if self.missing && any_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(Covered { name, presence, path, triton, gaps, reason }: &Covered) -> anyhow::Result<()> {
    let made_with = triton.as_ref().map_or(String::new(), |version| format!(", Triton {version}"));
    let place = path.as_ref().map_or(String::new(), |path| format!(": {}", path.display()));
    let gaps: Vec<String> = gaps.iter().filter(|_| path.is_some()).map(ToString::to_string).collect();
    let gaps =
        if gaps.is_empty() || reason.is_some() { String::new() } else { format!(", no rows for {}", gaps.join(", ")) };
    let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    Ok(out::line(format_args!("{name}: {presence}{made_with}{gaps}{place}{reason}"))?)
}
