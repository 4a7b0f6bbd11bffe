//! What came of tuning, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use bluefin_aiter::diff::Diff;
use bluefin_aiter::merge::{Fate, Merged};
use bluefin_aiter::{Sheet, Table};
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::files::FileSet;
use bluefin_common::job::{GroupId, group_id};
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::store::Work;
use serde::Serialize;

use super::op_tests::{Test, Untested};
use super::operators::Measured;

/// Changes of each status that the summary lists.
const TOP: usize = 100;
/// Shapes whose outcomes are read at a time.
const AT_A_TIME: usize = 200;

/// What came of it.
#[derive(Serialize)]
pub struct Report {
    /// What was tuned for.
    pub target: String,
    /// That were to be tuned.
    pub shapes: usize,
    /// Those of them that no kernel was found for.
    pub failed: Vec<Failed>,
    /// What became of each row.
    pub merged: Vec<Merged>,
    /// Files of which nothing was read, and why.
    pub torn: Vec<String>,
    /// Why files were not merged or not written. Their rows are in `rows`, and the files as they should be in `configs`, if they
    /// could be merged.
    pub unmerged: Vec<String>,
    /// What operators take, where they are compared.
    pub operators: Vec<Measured>,
    /// What is other than before.
    pub diff: Diff,
    /// The tests, before and after.
    pub before: Vec<Test>,
    /// With new rows.
    pub after: Vec<Test>,
    /// Families whose operators have no test in this aiter, where tests are asked for.
    pub untested: Vec<Untested>,
}

/// A shape that has no row.
#[derive(Serialize)]
pub struct Failed {
    /// `aiter ck_gemm_a8w8 M=1 N=2 K=3 q_dtype_w=torch.int8`
    pub shape: String,
    /// How it failed.
    pub kind: FailureKind,
    /// What is known of it: the tool's last words.
    pub reason: String,
}

/// Those of `problems` that no kernel was found for.
pub async fn failed(store: &dyn Work, session: &Session, problems: &[Problem]) -> anyhow::Result<Vec<Failed>> {
    let mut failed = Vec::new();
    for problems in problems.chunks(AT_A_TIME) {
        let groups: Vec<GroupId> = problems.iter().map(|problem| group_id(problem, Digest::of(b""))).collect();
        let outcomes = store.outcomes(&session.name, &groups).await?;
        for problem in problems {
            let of_it = || outcomes.iter().filter(|outcome| outcome.job.problem == *problem);
            let mut candidates = of_it().flat_map(|outcome| &outcome.candidates);
            if candidates.clone().any(|candidate| candidate.result.is_ok()) {
                continue;
            }
            // What came of the shape stands in front of what came of each kernel.
            let failure = candidates.find_map(|candidate| candidate.result.as_ref().err());
            let (kind, reason) = failure.map_or((FailureKind::NoResult, "no outcome".to_string()), |failure| {
                (failure.kind, failure.detail.clone())
            });
            failed.push(Failed { shape: problem.canonical(), kind, reason });
        }
    }
    Ok(failed)
}

impl Report {
    /// Whether every shape was tuned, every row was merged, no operator fails with its new row, and every family was tested, by no test that
    /// fails and did not before, and no file was torn.
    pub fn is_fine(&self) -> bool {
        let works = |one: &Measured| one.comparison.after.us.is_some();
        self.failed.is_empty()
            && self.torn.is_empty()
            && self.unmerged.is_empty()
            && self.operators.iter().all(works)
            && self.broken().is_empty()
            && self.untested.is_empty()
    }

    /// Tests that fail and did not before.
    fn broken(&self) -> Vec<&Test> {
        let passed = |script: &str| self.before.iter().any(|test| test.script == script && test.passed);
        self.after.iter().filter(|test| !test.passed && passed(&test.script)).collect()
    }

    /// For the summary of a job.
    pub fn markdown(&self) -> String {
        let count = |fate| self.merged.iter().filter(|row| row.fate == fate).count();
        let mut text = format!("## aiter, tuned for {}\n\n", self.target);
        let (added, replaced, kept) =
            (count(Fate::Added), count(Fate::Replaced), count(Fate::Kept) + count(Fate::Same));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} shapes: {added} rows are new, {replaced} stand in place of slower ones, {kept} are not better by enough, {} \
            shapes have no row. Times are those of kernels, as aiter's tuners measure them, not of whole operators.\n",
            self.shapes,
            self.failed.len()
        );
        text += &self.diff.markdown(TOP);
        text += &self.operators();
        for failed in &self.failed {
            let Failed { shape, kind, reason } = failed;
            let _ = writeln!(text, "\n- not tuned: {shape}: {}: {}", kind.name(), reason.replace('\n', " "));
        }
        for reason in &self.torn {
            let _ = writeln!(text, "\n- not read: {reason}");
        }
        for reason in &self.unmerged {
            let _ = writeln!(text, "\n- not merged: {}; what was measured is in rows/", reason.replace('\n', " "));
        }
        for (when, tests) in [("before", &self.before), ("after", &self.after)] {
            for test in tests {
                let _ = writeln!(text, "\n- {} {when}: {}", test.script, test.end);
            }
        }
        for untested in &self.untested {
            let _ = writeln!(text, "\n- not tested: {untested}");
        }
        text
    }

    /// What whole operators take, those that lose the most first.
    fn operators(&self) -> String {
        let mut measured: Vec<(f64, &Measured)> =
            self.operators.iter().map(|one| (one.comparison.ratio().unwrap_or(0.0), one)).collect();
        if measured.is_empty() {
            return String::new();
        }
        measured.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut text = "\nWhole operators, from end to end, with the rows that aiter had and with the new one:\n\n\
            | family | shape | before us | after us | ratio | |\n| --- | --- | ---: | ---: | ---: | --- |\n"
            .to_string();
        for (_, Measured { family, shape, comparison }) in measured.iter().take(TOP) {
            let us = |us: Option<f64>| us.map_or_else(|| "-".to_string(), |us| format!("{us}"));
            let ratio = comparison.ratio().map_or_else(|| "-".to_string(), |ratio| format!("{ratio:.3}"));
            let reasons = [("before", &comparison.before), ("after", &comparison.after)];
            let reasons: Vec<String> = reasons
                .iter()
                .filter_map(|(when, side)| Some(format!("{when}: {}", cell(side.reason.as_ref()?))))
                .collect();
            let (before, after) = (us(comparison.before.us), us(comparison.after.us));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {family} | {shape} | {before} | {after} | {ratio} | {} |", reasons.join("; "));
        }
        if measured.len() > TOP {
            let _ = writeln!(text, "\n{} more are in what --json prints.", measured.len() - TOP);
        }
        text
    }

    /// Writes the summary, the difference word for word, and the files that are other than they were.
    pub fn write(&self, out: &Path, configs: &Path, changed: &[Sheet]) -> anyhow::Result<()> {
        let mut files = FileSet::new(out)?;
        let words = self.diff.changes.iter().map(|change| {
            let words: Vec<String> = change.words.iter().map(ToString::to_string).collect();
            format!("{} {}: {}\n", change.family, change.key, words.join(" "))
        });
        for (name, text) in [("summary.md", self.markdown()), ("diff.txt", words.collect())] {
            let path = files.add(name)?;
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        files.commit()?;
        for sheet in changed {
            let place = sheet.path().strip_prefix(configs).unwrap_or(sheet.path());
            write(&out.join("configs").join(place), &sheet.table)?;
        }
        Ok(())
    }
}

/// A text that fits into a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// A file whole in its place, or as it was.
pub fn write(path: &Path, table: &Table) -> anyhow::Result<()> {
    let name =
        path.file_name().with_context(|| format!("{}: found no name, expected that of a file", path.display()))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut files = FileSet::new(folder)?;
    let temporary = files.add(&name.to_string_lossy())?;
    std::fs::write(&temporary, table.to_bytes()).with_context(|| temporary.display().to_string())?;
    files.commit()?;
    Ok(())
}
