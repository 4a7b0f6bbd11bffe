//! `bluefin serving check`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_serving::check::{FileReport, Located, Rule, Strictness, check, check_folders, listing, total};
use bluefin_serving::default::Gpu;
use bluefin_serving::files::{read_all, strange_folders};
use bluefin_serving::{Engine, Version};
use bluefin_terminal::out;

/// Check config files: are they found, loaded, launched, and right
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin serving check vllm/model_executor/layers/fused_moe/configs --triton 3.6.0 --allow gap\n\n\
    One line a finding: FILE: ROW: severity rule: what was found, what was expected; then a line with the totals. Exit code 1 if there is an error or a \
    warning; notes are harmless. Shared memory is told from the block sizes, without compiling anything."
)]
pub struct CheckArgs {
    /// Files, or folders with all of theirs and those of their triton_X_Y_Z
    #[arg(value_name = "FILE|DIR", required_unless_present = "rules")]
    files: Vec<PathBuf>,
    /// Whose the files are [default: told by place and name]
    #[arg(long, value_name = "vllm|sglang")]
    engine: Option<Engine>,
    /// The Triton that the engine runs with [default: any]
    #[arg(long, value_name = "VERSION")]
    triton: Option<Version>,
    /// What files are for whose device's name is of no one architecture, such as AMD_Radeon_Graphics
    #[arg(long, value_name = "ARCH", value_parser = Gpu::named)]
    target: Option<Gpu>,
    /// Report nothing of these rules
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    allow: Vec<Rule>,
    /// Take findings of these rules for errors
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    deny: Vec<Rule>,
    /// List the rules
    #[arg(long)]
    rules: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl CheckArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.rules {
            out::line(listing())?;
            return Ok(ExitCode::SUCCESS);
        }
        let files = read_all(&self.files, self.engine)?;
        let strictness = Strictness {
            allow: BTreeSet::from_iter(self.allow),
            deny: BTreeSet::from_iter(self.deny),
            triton: self.triton,
            gpu: self.target,
        };
        let mut reports = check(&files, &strictness);
        reports.extend(check_folders(&strange_folders(&self.files)?, &strictness));
        if self.json {
            out::json(&reports)?;
        } else {
            for (file, finding) in reports.iter().flat_map(|file| file.told().into_iter().map(move |one| (file, one))) {
                out::line(Located(file, &finding))?;
            }
            out::line(total(&reports))?;
        }
        Ok(if reports.iter().any(FileReport::has_findings) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
