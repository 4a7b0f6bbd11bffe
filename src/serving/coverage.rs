//! `bluefin serving coverage`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::usage;
use bluefin_serving::Version;
use bluefin_serving::coverage::{Covered, Presence, Wanted, coverage};
use bluefin_serving::files::{read_all, strange_folders};
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
        let wanted = Wanted::all(&spread, engine, &self.models.gpu);
        let (files, strange) = (read_all(&self.configs, Some(engine))?, strange_folders(&self.configs)?);
        let strange = strange.first().map(PathBuf::as_path);
        let mut covered = coverage(engine, &files, &wanted, self.triton.as_ref(), strange);
        let is_missing = |one: &Covered| matches!(one.presence, Presence::Missing | Presence::Broken);
        let any_missing = covered.iter().any(is_missing);
        covered.retain(|one| !self.missing || is_missing(one));
        if self.json {
            out::json(&covered)?;
        } else {
            covered.iter().try_for_each(out::line)?;
        }
        Ok(if self.missing && any_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
