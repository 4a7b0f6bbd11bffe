//! `--list`: the candidates of a verb, without doing anything about them. It is the same for all verbs that plan candidates.

use std::process::ExitCode;

use crate::out;
use crate::sheet::{Sheet, TableArgs, cell, number, text};
use bluefin_campaign::listing::{Listed, Listing};

/// Whether candidates are listed alone.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ListArgs {
    /// Only print how many candidates there are of each problem and solver, with --json the configs as well: nothing is started, written or
    /// connected to
    #[arg(long)]
    pub list: bool,
}

/// Prints `listing`; exit code 1 where a problem has no candidates.
pub fn print(listing: &Listing, json: bool) -> anyhow::Result<ExitCode> {
    listing.rejects.iter().for_each(|reject| crate::say!("rejected: {reject}"));
    listing.left_out.iter().for_each(|line| crate::say!("{line}"));
    if json {
        out::json(listing)?;
    } else {
        TableArgs::default().print(&sheet(&listing.problems))?;
        out::prose(listing.sentence())?;
    }
    Ok(if listing.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sheet(problems: &[Listed]) -> Sheet {
    let mut sheet = Sheet::new([text("solver"), number("candidates"), number("of valid")]).headed("problem");
    for Listed { label, solvers, .. } in problems {
        sheet.heading(label);
        for one in solvers {
            let about = if one.exact { "" } else { "about " };
            sheet.row([cell(&one.solver), cell(one.candidates), cell(format!("{about}{}", one.valid_candidates))]);
        }
    }
    sheet
}
