//! Rules of a kernel db. Code objects are unpacked and verified side by side, as they are read: the file can be larger than
//! memory.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use bluefin_common::digest::Digest;
use bluefin_miopen::db::kernel_db::{KernelDb, KernelName, KernelReader, KernelRow};
use bluefin_miopen::db::sources::starts_with_blank;
use bluefin_miopen::db::tables;

use super::{Report, Rule};
use crate::db::{DbError, Progress, Source, Step};

/// Rows between two reports.
const REPORT_EVERY: u64 = 500;

/// Source files that are remembered: far more than MIOpen has.
const MAX_SOURCES: usize = 100_000;

/// What is wrong with a row: its id, the rule, and what was found.
type Wrong = (u64, Rule, String);

/// Checks a kernel db. Returns its source files.
pub(super) fn check(
    report: &mut Report<'_>,
    source: &Source,
    progress: Progress<'_>,
) -> Result<BTreeSet<String>, DbError> {
    if !tables(source.local()).map_err(|error| source.named(error))?.contains("idx_kern_db") {
        report.add(0, Rule::NoIndex, || "found no index idx_kern_db, expected one that is unique".to_string());
    }
    let device = source.name.as_ref().and_then(|name| name.device.as_ref());
    let arch = device.filter(|device| device.is_miopens()).map(|device| device.arch().to_string());
    let mut source_files = BTreeSet::new();
    let mut seen = HashSet::new();
    let total = KernelReader::open(source.local()).and_then(|db| db.count()).map_err(|error| source.named(error))?;
    let findings = verified(source.local(), |event| match event {
        Event::Row(id, kernel) => {
            report.file.records += 1;
            if report.file.records.is_multiple_of(REPORT_EVERY) {
                progress(Step { path: &source.path, done: report.file.records, total });
            }
            check_name(report, id, &kernel, arch.as_deref());
            let parts = [kernel.name.as_bytes(), kernel.args.as_bytes()];
            if !seen.insert(Digest::of_parts("kernel name", parts)) {
                report.add(id, Rule::DuplicateKernel, || format!("found {} twice, expected it once", shown(&kernel)));
            }
            if source_files.len() < MAX_SOURCES && !source_files.contains(&kernel.name) {
                source_files.insert(kernel.name);
            }
        }
        Event::Wrong((id, rule, message)) => report.add(id, rule, || message),
    });
    report.take(findings.map_err(|error| source.named(error))?);
    Ok(source_files)
}

enum Event {
    Row(u64, KernelName),
    Wrong(Wrong),
}

/// Reads all rows, and verifies them on every core.
fn verified(
    path: &Path,
    mut take: impl FnMut(Event),
) -> Result<bluefin_miopen::db::Findings, bluefin_miopen::db::ReadError> {
    let threads = thread::available_parallelism().map_or(2, NonZero::get);
    let (rows, queue) = mpsc::sync_channel::<(u64, KernelRow)>(threads);
    let (wrongs, found) = mpsc::channel::<Wrong>();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (queue, wrongs) = (&queue, wrongs.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((id, row)) = next else { break };
                    if let Some((rule, message)) = wrong_code(&row)
                        && wrongs.send((id, rule, message)).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(wrongs);
        let findings = KernelDb::scan(path, |id, row| {
            take(Event::Row(id, row.kernel.clone()));
            // The threads take rows until there are no more.
            let _ = rows.send((id, row));
            found.try_iter().for_each(|wrong| take(Event::Wrong(wrong)));
        });
        drop(rows);
        found.iter().for_each(|wrong| take(Event::Wrong(wrong)));
        findings
    })
}

/// What is wrong with a row's code object.
fn wrong_code(row: &KernelRow) -> Option<(Rule, String)> {
    let error = row.code().err()?;
    let rule = if error.reason.starts_with("kernel_hash") { Rule::KernelHash } else { Rule::KernelSize };
    Some((rule, error.to_string()))
}

/// Enough of a name to find it.
fn shown(kernel: &KernelName) -> String {
    format!("{}{}", kernel.name, kernel.args).chars().take(160).collect()
}

fn check_name(report: &mut Report<'_>, id: u64, kernel: &KernelName, arch: Option<&str>) {
    if let Err(error) = kernel.check() {
        report.add(id, Rule::Quote, || error.to_string());
    }
    let name = &kernel.name;
    let source = name.strip_suffix(".o").or_else(|| name.strip_suffix(".obj"));
    if source.is_none_or(|source| !source.contains('.')) {
        report.add(id, Rule::KernelName, || format!("kernel_name: found {name:?}, expected a source file and .o"));
    }
    let (found, expected) = (kernel.args.starts_with(' '), starts_with_blank(name));
    if !kernel.args.is_empty() && expected.is_some_and(|expected| found != expected) {
        let words = |blank| if blank { "a blank" } else { "no blank" };
        report.add(id, Rule::KernelArgs, || {
            format!("kernel_args of {}: found {} in front, expected {}", shown(kernel), words(found), words(!found))
        });
    }
    let Some(arch) = arch else { return };
    let last = kernel.args.rsplit(' ').next().unwrap_or_default();
    let found = kernel.args.split(' ').find_map(|word| word.strip_prefix("-mcpu="));
    if source.is_some_and(|source| source.ends_with(".mlir")) {
        if let Some(found) = found {
            report.add(id, Rule::Mcpu, || format!("kernel {name}: found -mcpu={found}, expected none for .mlir"));
        }
    } else if last.strip_prefix("-mcpu=") != Some(arch) {
        report.add(id, Rule::Mcpu, || {
            let found = found.map_or("no -mcpu".to_string(), |found| format!("-mcpu={found}"));
            format!("kernel {}: found {found}, expected -mcpu={arch} behind all options", shown(kernel))
        });
    }
}
