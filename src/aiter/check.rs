//! `bluefin aiter check`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_aiter::check::{FileReport, Located, Rule, Strictness, check};
use bluefin_aiter::{FamilyName, read_all};
use bluefin_common::spelled::counted;
use bluefin_common::target::Target;
use bluefin_terminal::out;
use std::io::Write as _;

/// Check files, each by itself and against those that aiter puts together with it
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin aiter check aiter/configs --gpu gfx942-304 --allow error-ratio\n\n\
    One line a finding: FILE:LINE: severity rule: what was found, what was expected. Exit code 1 if there is an error or a \
    warning; notes are harmless. All tuned files of a family that are given are taken for those that aiter puts together. Of each \
    rule a thousand findings a file are printed, the rest are counted.")]
pub struct CheckArgs {
    /// Files, or folders with all of theirs and those of their model_configs
    #[arg(value_name = "FILE|DIR", required_unless_present = "rules")]
    files: Vec<PathBuf>,
    /// aiter's repository, or the folder that it is installed in, whose look-ups are asked [default: the one around the files]
    #[arg(long, value_name = "DIR")]
    aiter: Option<PathBuf>,
    /// The GPU that the files are to serve, such as gfx942-304 [default: any]
    #[arg(long, value_name = "GPU")]
    gpu: Option<Target>,
    /// The most that an output may differ [default: what the tuner of each family takes]
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    err_ratio: Option<f64>,
    /// What the files are of
    #[arg(long, value_name = "NAME")]
    family: Option<FamilyName>,
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
            for rule in Rule::ALL {
                out::line(format_args!("{:<14} {:<8} {}", rule.name(), rule.severity().to_string(), rule.about()))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let files = read_all(&self.files, self.family.map(|family| family.0), super::pass_over)?;
        let strictness = Strictness {
            allow: BTreeSet::from_iter(self.allow),
            deny: BTreeSet::from_iter(self.deny),
            error_limit: self.err_ratio,
            gpu: self.gpu,
            rules: super::rules(self.aiter.as_deref(), &self.files)?,
        };
        let reports = check(&files, &strictness);
        if self.json {
            out::json(&reports)?;
        } else {
            print(&reports)?;
        }
        Ok(if reports.iter().any(FileReport::has_findings) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn print(reports: &[FileReport]) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in reports {
        for finding in &file.findings {
            writeln!(out, "{}", Located(file, finding))?;
        }
        for (rule, count) in &file.counts {
            let printed = file.findings.iter().filter(|finding| finding.rule == *rule).count() as u64;
            if *count > printed {
                writeln!(out, "{}: {} more of {rule}", file.path.display(), count - printed)?;
            }
        }
        let findings: u64 = file.counts.values().sum();
        let (rows, findings) = (counted(file.rows, "row"), counted(findings, "finding"));
        writeln!(out, "{}: {}, {rows}, {findings}", file.path.display(), file.family)?;
    }
    Ok(out.flush()?)
}
