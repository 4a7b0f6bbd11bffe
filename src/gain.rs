//! `bluefin gain`: a Python program with the Triton configs that were found for it, and without, in turns.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::gain::in_turns;
use bluefin_terminal::out;
use bluefin_terminal::sheet::{Sheet, TableArgs, cell, number, text};
use bluefin_triton::{Gained, Spread};

/// Measure what the Triton configs that were found give a program
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    bluefin gain --triton out --repeats 5 -- python3 bench.py\n\n\
    The program is run without and with the configs, in turns: with an empty cache of Triton's (cold), and again with what \
    that left (warm). Shown are the medians over the repeats, with the least and the most; of the launches behind the first of \
    each tuning key, the GPU's time.")]
pub struct GainArgs {
    /// The folder that `bluefin tune --triton` wrote
    #[arg(long, value_name = "DIR")]
    triton: PathBuf,
    /// How often: each is four runs of the program
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl GainArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| crate::usage("name a COMMAND behind --"))?;
        let rows = in_turns(&self.triton, (program, arguments), self.repeats).await?.gained();
        if self.json {
            out::line(serde_json::to_string(&rows)?)?;
        } else {
            TableArgs::default().print(&sheet(&rows))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn sheet(rows: &[Gained]) -> Sheet {
    let mut sheet = Sheet::new([text("what"), number("without"), number("with"), number("gain"), number("share")]);
    for Gained { what, unit, without, with, gain, share } in rows {
        let spread = |one: &Option<Spread>| shown(one.as_ref(), 3, &format!(" {unit}"));
        let share = share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        sheet.row([what.clone(), spread(without), spread(with), shown(gain.as_ref(), 2, "x"), share].map(cell));
    }
    sheet
}

/// The middle, and below it how far the others are apart, where there are some.
fn shown(spread: Option<&Spread>, decimals: usize, unit: &str) -> String {
    match spread {
        None => "–".to_string(),
        Some(Spread { least, middle, most }) if least == most => format!("{middle:.decimals$}{unit}"),
        Some(Spread { least, middle, most }) => {
            format!("{middle:.decimals$}{unit}\n{least:.decimals$} to {most:.decimals$}")
        }
    }
}
