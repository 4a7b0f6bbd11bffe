//! `bluefin aiter diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_aiter::diff::{Change, Diff, Limits, Status, diff, shown};
use bluefin_aiter::{FamilyName, read_all};
use bluefin_terminal::out;

/// Compare tuned files by key, the worst first, or word for word
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin aiter diff old/configs new/configs\n  \
    bluefin aiter diff old.csv new.csv --markdown >> $GITHUB_STEP_SUMMARY\n\n\
    REGRESS and WARN: the time of a key grew by more than the limits. NEW, REMOVED: there is no row to compare. SKIPPED: a row \
    has no time. Times are those of kernels, as tuners measure them. Exit code 1 if there is a REGRESS.")]
pub struct DiffArgs {
    /// A file, or a folder with all of its files and those of its model_configs
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// What to compare it with
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// What the files are of
    #[arg(long, value_name = "NAME")]
    family: Option<FamilyName>,
    /// Time after by time before above which a key is a WARN
    #[arg(long, value_name = "RATIO", default_value_t = 1.10)]
    warn: f64,
    /// Time after by time before above which a key is a REGRESS
    #[arg(long, value_name = "RATIO", default_value_t = 1.15)]
    regress: f64,
    /// Keys that are listed of each status
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Print every row that is other, marked as git diff --word-diff marks it
    #[arg(long, conflicts_with_all = ["markdown", "json"])]
    words: bool,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print as JSON, with every row that is other
    #[arg(long)]
    json: bool,
}

impl DiffArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let family = self.family.map(|family| family.0);
        let (before, after) =
            (read_all(&[self.before], family, super::pass_over)?, read_all(&[self.after], family, super::pass_over)?);
        // Rows of a torn file would be removed or new.
        let left_out = super::say_torn(&before) | super::say_torn(&after);
        let diff = diff(&before.sheets, &after.sheets, Limits { warn: self.warn, regress: self.regress });
        if self.json {
            out::json(&diff)?;
        } else if self.markdown {
            out::line(diff.markdown(self.top).trim_end())?;
        } else if self.words {
            print_words(&diff)?;
        } else {
            print(&diff, self.top)?;
        }
        Ok(if diff.regressions() > 0 || left_out { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print_words(diff: &Diff) -> anyhow::Result<()> {
    for Change { family, key, words, .. } in &diff.changes {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        out::line(format_args!("{family} {key}: {}", words.join(" ")))?;
    }
    Ok(())
}

fn print(diff: &Diff, top: usize) -> anyhow::Result<()> {
    out::line(format_args!("{:>8} the same", diff.same))?;
    for (status, count) in &diff.counts {
        out::line(format_args!("{count:>8} {}", status.name()))?;
    }
    for status in Status::ALL {
        for change in diff.changes.iter().filter(|change| change.status == status).take(top) {
            let Change { family, key, before, after, ratio, .. } = change;
            let ratio = ratio.map_or(String::new(), |ratio| format!(" x{ratio:.3}"));
            let (before, after, name) = (shown(*before), shown(*after), status.name());
            out::line(format_args!("{name}{ratio}: {family} {key}: {before} -> {after} us"))?;
        }
    }
    Ok(())
}
