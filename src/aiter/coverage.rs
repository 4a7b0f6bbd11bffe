//! `bluefin aiter coverage`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_aiter::coverage::{Covered, Presence, Shape, coverage, lacking, shapes_of, summary};
use bluefin_aiter::{Error, FamilyName, Sheet, read_all};
use bluefin_common::target::Target;
use bluefin_terminal::out;

use super::import::{read_logs, tell};

/// Tell which shapes are tuned, for which GPU
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin aiter coverage untuned/a8w8_untuned_gemm.csv --configs aiter/configs --gpu gfx942-304\n  \
    bluefin aiter coverage --misses server.log --configs aiter/configs --missing\n\n\
    Shapes are looked up as aiter does it: M of GEMMs, and tokens of MoE, are rounded, as the checkout says whose files --configs \
    are, or --aiter; what is found by that is padded. Tuned files are read as aiter reads them: where pandas takes a column for text, \
    or a cell has white space around it, rows are not found, and check says why. Exit code 1 with --missing if any shape is, if a file \
    does not say its family, and if one lacks a column that look-ups ask for."
)]
pub struct CoverageArgs {
    /// Untuned files, or folders of them
    #[arg(value_name = "FILE|DIR", required_unless_present = "misses")]
    shapes: Vec<PathBuf>,
    /// Logs with misses; - for standard input
    #[arg(long, value_name = "FILE")]
    misses: Vec<PathBuf>,
    /// Tuned files, or folders with all of theirs and those of their model_configs
    #[arg(long, value_name = "FILE|DIR", required = true, num_args = 1..)]
    configs: Vec<PathBuf>,
    /// aiter's repository, or the folder that it is installed in, whose look-ups are asked [default: the one around --configs]
    #[arg(long, value_name = "DIR")]
    aiter: Option<PathBuf>,
    /// GPUs that the shapes are for, such as gfx942-304 [default: those that the tuned files of each family name]
    #[arg(long, value_name = "GPU,...", value_delimiter = ',')]
    gpu: Vec<Target>,
    /// What the shapes are of
    #[arg(long, value_name = "NAME")]
    family: Option<FamilyName>,
    /// List what is missing
    #[arg(long)]
    missing: bool,
    /// Print as JSON, one object for each shape and GPU
    #[arg(long)]
    json: bool,
}

impl CoverageArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let untuned = read_all(&self.shapes, self.family.map(|family| family.0), super::pass_over)?;
        let mut left_out = super::say_torn(&untuned);
        let (unplaced, untuned): (Vec<Sheet>, Vec<Sheet>) = untuned.sheets.into_iter().partition(Sheet::is_of_any_gemm);
        for sheet in &unplaced {
            say!("not taken: {}", Error::AnyGemm { path: sheet.path().to_path_buf() });
        }
        let (lacks, untuned): (Vec<Sheet>, Vec<Sheet>) =
            untuned.into_iter().partition(|sheet| lacking(sheet).is_some());
        lacks.iter().filter_map(lacking).for_each(|error| say!("not taken: {error}"));
        left_out |= !lacks.is_empty();
        let mut shapes: Vec<Shape> = untuned.iter().flat_map(shapes_of).collect();
        let misses = read_logs(&self.misses, self.family)?;
        let all_taken = tell(&misses);
        shapes.extend(misses.shapes);
        let rules = super::rules(self.aiter.as_deref(), &self.configs)?;
        let configs = read_all(&self.configs, None, super::pass_over)?;
        left_out |= super::say_torn(&configs);
        let covered = coverage(&configs.sheets, &shapes, &self.gpu, &rules);
        let missing = |one: &&Covered| one.presence == Presence::Missing;
        if self.json {
            let listed: Vec<&Covered> = covered.iter().filter(|one| !self.missing || missing(one)).collect();
            out::json(&listed)?;
        } else {
            for ((family, gpu), counts) in summary(&covered) {
                out::line(format_args!("{family} {gpu}: {counts}"))?;
            }
            for one in covered.iter().filter(|one| self.missing && missing(one)) {
                out::line(format_args!("missing: {} {} {}", one.family, one.gpu, one.key))?;
            }
        }
        let failed =
            !all_taken || left_out || !unplaced.is_empty() || (self.missing && covered.iter().any(|one| missing(&one)));
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
