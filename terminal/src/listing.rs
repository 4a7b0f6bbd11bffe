//! `--list`: the candidates of a verb, without doing anything about them. It is the same for all verbs that plan candidates.

use std::process::ExitCode;

use crate::{out, width};
use bluefin_campaign::listing::{Listed, Listing};
use comfy_table::CellAlignment;

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
    listing.rejects.iter().for_each(|reject| eprintln!("rejected: {reject}"));
    listing.left_out.iter().for_each(|line| eprintln!("{line}"));
    if json {
        out::json(listing)?;
    } else {
        out::line(table(&listing.problems))?;
        out::line(listing.sentence())?;
    }
    Ok(if listing.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(problems: &[Listed]) -> comfy_table::Table {
    let mut table = width::table();
    table.set_header(["problem", "solver", "candidates", "of valid"]);
    for Listed { label, solvers, .. } in problems {
        for one in solvers {
            let (candidates, about) = (one.candidates.to_string(), if one.exact { "" } else { "about " });
            table.add_row([label.as_str(), &one.solver, &candidates, &format!("{about}{}", one.valid_candidates)]);
        }
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
