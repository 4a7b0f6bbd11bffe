//! `bluefin db check`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::spelled::counted;
use bluefin_exporter::db::check::{CheckReport, CheckRequest, Located, Rule, check};
use bluefin_terminal::out;

use super::Bar;

/// Check databases, each by itself and against the others that are given
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin db check gfx90a68.HIP.fdb.txt gfx90a68.db.txt gfx90a68.kdb --allow order\n\n\
    One line a finding: FILE:LINE: severity rule: what was found, what was expected. LINE is a row's id in SQLite. \
    Exit code 1 if there is an error or a warning; notes are harmless. Of each rule a thousand findings a file are \
    printed, the rest are counted."
)]
pub struct CheckArgs {
    /// Databases; what they are is seen by name and content
    #[arg(value_name = "FILE", required_unless_present = "rules")]
    files: Vec<PathBuf>,
    /// Report nothing of these rules
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    allow: Vec<Rule>,
    /// Take findings of these rules for errors
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    deny: Vec<Rule>,
    #[arg(long, value_name = "FILE", help = crate::db::solvers_help())]
    solvers: Option<PathBuf>,
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
            list_rules()?;
            return Ok(ExitCode::SUCCESS);
        }
        let files = bluefin_terminal::db::databases(&self.files)?;
        if files.is_empty() {
            return Err(crate::usage("found no database in what was named"));
        }
        let request = CheckRequest {
            files,
            solvers: super::read_solvers(self.solvers)?,
            allow: BTreeSet::from_iter(self.allow),
            deny: BTreeSet::from_iter(self.deny),
        };
        let report = {
            let bar = Bar::start();
            check(&request, &|step| bar.show(step))
        };
        if self.json {
            out::json(&report)?;
        } else {
            print(&report)?;
        }
        Ok(if report.has_findings() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn list_rules() -> std::io::Result<()> {
    for rule in Rule::ALL {
        out::line(format_args!("{:<17} {:<8} {}", rule.name(), rule.severity().to_string(), rule.about()))?;
    }
    Ok(())
}

fn print(report: &CheckReport) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in &report.files {
        for finding in &file.findings {
            writeln!(out, "{}", Located(file, finding))?;
        }
        for (rule, count) in &file.counts {
            let printed = file.findings.iter().filter(|finding| finding.rule == *rule).count() as u64;
            if *count > printed {
                writeln!(out, "{}: {} more of {rule}", file.path.display(), count - printed)?;
            }
        }
        if let Some(kind) = file.kind {
            let findings: u64 = file.counts.values().sum();
            let (records, findings) = (counted(file.records, "record"), counted(findings, "finding"));
            writeln!(out, "{}: {kind}, {records}, {findings}", file.path.display())?;
        }
    }
    Ok(out.flush()?)
}
