//! `bluefin aiter merge`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_aiter::merge::{Fate, Policy, Terms, merge};
use bluefin_aiter::{FamilyName, Sheet};
use bluefin_campaign::aiter::report::write;
use bluefin_common::spelled::counted;
use bluefin_terminal::out;
use clap::ValueEnum;

/// Merge files of one family into the first of them
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin aiter merge a8w8_tuned_gemm.csv new.csv --policy improved --min-improvement 5%\n  \
    bluefin aiter merge base.csv one.csv two.csv --policy fastest --output merged.csv\n\n\
    Rows that stay keep their bytes. New rows go where they belong if the rows are sorted as aiter sorts them, otherwise to the \
    end; a column that a new row has and the first file has not is put in. Rows without a time are refused, unless they are there \
    already. Exit code 1 if any is."
)]
pub struct MergeArgs {
    /// The file that is merged into
    base: PathBuf,
    /// The files that are merged into it, in this order
    #[arg(required = true)]
    newer: Vec<PathBuf>,
    /// Where to write [default: BASE]
    #[arg(short, long, visible_alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which of two rows of a key stands
    #[arg(long, value_enum, default_value_t)]
    policy: Which,
    /// How much less time a row must take with --policy improved
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = super::percent)]
    min_improvement: f64,
    /// Refuse rows whose output differs by more
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    err_ratio: Option<f64>,
    /// What the files are of
    #[arg(long, value_name = "NAME")]
    family: Option<FamilyName>,
    /// Print what became of each row as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Which {
    /// The later one, as aiter's tuners do it
    Newest,
    /// The one that takes less time
    Fastest,
    /// The later one, if it takes less time by --min-improvement
    #[default]
    Improved,
}

impl MergeArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let policy = match self.policy {
            Which::Newest => Policy::Newest,
            Which::Fastest => Policy::Fastest,
            Which::Improved => Policy::Improved(self.min_improvement),
        };
        let base = Sheet::read(&self.base, self.family.map(|family| family.0))?;
        let family = Some(base.family);
        let newer = self.newer.iter().map(|path| {
            let sheet = Sheet::read(path, self.family.map(|family| family.0));
            // What its name does not tell is of the base.
            sheet.or_else(|_| Sheet::read(path, family))
        });
        let newer = newer.collect::<Result<Vec<Sheet>, _>>()?;
        let (merged, told) = merge(base, &newer, Terms { policy, error_limit: self.err_ratio })?;
        let output = self.output.unwrap_or(self.base);
        write(&output, &merged.table)?;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for row in &told {
            *counts.entry(name(row.fate)).or_default() += 1;
        }
        if self.json {
            out::json(&told)?;
        } else {
            for row in told.iter().filter(|row| row.fate == Fate::Refused) {
                let reason = row.reason.as_deref().unwrap_or_default();
                say!("refused: {}:{}: {reason}", row.file.display(), row.line);
            }
            let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let rows = counted(merged.table.records().count(), "row");
            out::line(format_args!("wrote {}: {rows}; {}", output.display(), counts.join(", ")))?;
        }
        Ok(if told.iter().any(|row| row.fate == Fate::Refused) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::Added => "added",
        Fate::Replaced => "replaced",
        Fate::Kept => "not better by enough",
        Fate::Same => "the same",
        Fate::Refused => "refused",
    }
}
