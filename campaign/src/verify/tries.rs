//! What processes of other programs tell of a side of a row, and what is done about rows by it.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context as _, bail};
use bluefin_common::files::FileSet;
use bluefin_miopen::process::{Ended, Ran, describe};
use bluefin_serving::files::name_of;

use super::verdict::{Came, Time};
use super::{Judged, Verified};
use crate::carry::Watch;

/// Signals by which a machine ends processes, or whoever uses it: SIGHUP, SIGINT, SIGKILL, SIGTERM. Rows do not end them so.
const OUTER: [i32; 4] = [1, 2, 9, 15];

/// How far the rows of a file are, for who watches.
pub(super) struct Steps<'a> {
    watch: &'a mut dyn Watch,
    done: u64,
    all: u64,
}

impl<'a> Steps<'a> {
    /// Of so many rows.
    pub(super) fn new(watch: &'a mut dyn Watch, rows: usize, turns: u32) -> Self {
        Self { watch, done: 0, all: rows as u64 * u64::from(turns) }
    }

    /// Tells what begins.
    pub(super) fn begin(&mut self, what: &str) {
        self.watch.in_turn(self.done, self.all, what);
    }

    /// So many turns of rows are over, or need not be.
    pub(super) fn end(&mut self, turns: usize) {
        self.done += turns as u64;
    }
}

/// What one process tells of a side.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Try {
    /// Microseconds.
    Timed(f64),
    /// It computes what is wrong.
    Failed(String),
    /// It takes its process with it.
    Ended(String),
    /// It says nothing that can be read, or did not come to its end.
    Unmeasured(String),
}

/// What all processes of a side tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tries {
    samples_us: Vec<f64>,
    failures: Vec<String>,
    unmeasured: Option<String>,
    /// Whether a failure was of the operator, in a process that came to its end.
    has_told: bool,
    /// How processes with other rows end, where those with its own do not.
    apart: Option<String>,
}

impl Tries {
    pub(super) fn add(&mut self, came: Try) {
        match came {
            Try::Timed(us) => self.samples_us.push(us),
            Try::Failed(reason) => {
                self.failures.push(reason);
                self.has_told = true;
            }
            Try::Ended(reason) => self.failures.push(reason),
            Try::Unmeasured(reason) => self.unmeasured = Some(reason),
        }
    }

    /// Whether another process may tell more, of so many in all.
    pub(super) fn is_open(&self, turns: u32) -> bool {
        self.unmeasured.is_none() && !self.fails(turns)
    }

    /// Whether a process failed.
    pub(super) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Why nothing runs, where every process failed.
    pub(super) fn dead(&self) -> Option<&str> {
        self.failures.first().filter(|_| self.samples_us.is_empty()).map(String::as_str)
    }

    /// Why every process ended before it told anything.
    pub(super) fn ended(&self) -> Option<&str> {
        self.dead().filter(|_| !self.has_told)
    }

    /// It is known by its own rows alone: how processes with others end.
    pub(super) fn set_apart(&mut self, end: String) {
        self.apart.get_or_insert(end);
    }

    /// How processes with other rows end, where it is known by its own alone.
    pub(super) fn apart(&self) -> Option<&str> {
        self.apart.as_deref()
    }

    /// Asks no more: nothing runs on any side.
    pub(super) fn give_up(&mut self) {
        self.unmeasured = self.dead().map(|reason| format!("no side runs: {reason}"));
    }

    /// What is known by all of them, of so many that were to be. A failure counts where it came in most: one may be the machine's.
    pub(super) fn came(&self, turns: u32) -> Came {
        let count = self.failures.len();
        match (&self.unmeasured, self.failures.first()) {
            (Some(reason), _) => Came::Unmeasured(reason.clone()),
            (None, Some(reason)) if self.fails(turns) => Came::Fails(reason.clone()),
            (None, Some(reason)) => {
                let all = count + self.samples_us.len();
                Came::Unmeasured(format!("{count} of {all} processes failed: {reason}"))
            }
            (None, None) => Time::of_samples(&self.samples_us)
                .map_or_else(|| Came::Unmeasured("too few times".to_string()), Came::Timed),
        }
    }

    fn fails(&self, turns: u32) -> bool {
        2 * self.failures.len() > usize::try_from(turns).unwrap_or(usize::MAX)
    }
}

/// What is to be said of what a process told nothing of: how it ended, and the last `lines` that it printed.
pub(super) fn untold(ran: &Ran, lines: usize, what: &str) -> Try {
    let how = match &ran.ended {
        Ended::Exited(status) => describe(*status),
        Ended::OutOfTime | Ended::Silent => format!("killed after {} s", ran.took.as_secs()),
        Ended::TooLarge => "killed: it wrote too much".to_string(),
        Ended::Killed(reason) => format!("killed for want of memory: {reason}"),
    };
    let words: Vec<&str> = ran.tail.lines().rev().filter(|line| !line.trim().is_empty()).take(lines).collect();
    let words: Vec<&str> = words.into_iter().rev().collect();
    let told = format!("{what}: {how}: {}", words.join(" | "));
    // One that ended well had nothing to say, and one that was killed might have had.
    let is_failure = |status: ExitStatus| {
        // Shells tell the signal of a child by their own code.
        let signal = status.signal().or_else(|| status.code().map(|code| code - 128));
        !status.success() && signal.is_none_or(|signal| !OUTER.contains(&signal))
    };
    match ran.ended {
        Ended::Exited(status) if is_failure(status) => Try::Ended(told),
        _ => Try::Unmeasured(told),
    }
}

/// Says of the rows that lose, and of all with their keys, that `none` is in their places. Returns their keys. Those stay of which `stays` says
/// why, by all keys that lose.
pub(super) fn take_out<'a, K: Ord>(
    keys: &'a [K],
    judged: &mut [Judged],
    none: &str,
    stays: impl Fn(&K, &BTreeSet<&K>) -> Option<String>,
) -> BTreeSet<&'a K> {
    let loses = |row: &Judged| row.worth.verdict.loses() && row.worth.default.is_some();
    let lost: BTreeSet<&K> = keys.iter().zip(judged.iter()).filter(|(_, row)| loses(row)).map(|(key, _)| key).collect();
    let mut gone = lost.clone();
    for (key, row) in keys.iter().zip(judged).filter(|(key, _)| lost.contains(key)) {
        match stays(key, &lost) {
            None => row.replaced_by = Some(none.to_string()),
            Some(reason) => {
                gone.remove(key);
                row.worth.reason = Some(reason);
            }
        }
    }
    gone
}

/// What came of a file. One of which nothing was measured is no better than one that loses.
pub(super) fn verified(rows: Vec<Judged>) -> Verified {
    let replaced = rows.iter().any(|row| row.replaced_by.is_some());
    let loses = rows.iter().any(|row| row.worth.verdict.loses() && row.replaced_by.is_none());
    let mut verified = Verified { rows, replaced, loses };
    verified.loses |= verified.is_unknown();
    verified
}

/// Replaces the file, whole or not at all, if it is still what was read.
pub(super) fn replace(path: &Path, was: &[u8], new: &[u8]) -> anyhow::Result<()> {
    let real = path.canonicalize().with_context(|| path.display().to_string())?;
    if std::fs::read(&real).with_context(|| path.display().to_string())? != was {
        bail!("{}: found another text than was read, expected the same; nothing was written", path.display());
    }
    let mut files = FileSet::new(real.parent().unwrap_or(Path::new("/")))?;
    let beside = files.add(&name_of(&real))?;
    std::fs::write(&beside, new).with_context(|| path.display().to_string())?;
    files.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failure_counts_where_it_came_in_most_processes() {
        let mut tries = Tries::default();
        (0..6).for_each(|_| tries.add(Try::Timed(10.0)));
        assert!(matches!(tries.came(7), Came::Timed(_)) && tries.is_open(7));
        tries.add(Try::Failed("out of memory".to_string()));
        let Came::Unmeasured(reason) = tries.came(7) else { panic!("{tries:?}") };
        assert_eq!(reason, "1 of 7 processes failed: out of memory");
        let mut tries = Tries::default();
        (0..3).for_each(|_| tries.add(Try::Failed("mismatch".to_string())));
        assert!(matches!(tries.came(6), Came::Unmeasured(_)) && tries.is_open(6));
        tries.add(Try::Failed("mismatch".to_string()));
        assert!(matches!(tries.came(6), Came::Fails(_)) && !tries.is_open(6));
        tries.add(Try::Unmeasured("nothing".to_string()));
        assert!(matches!(tries.came(6), Came::Unmeasured(_)));
    }

    #[test]
    fn what_is_killed_from_outside_says_nothing_of_a_row() {
        let came = |raw: i32| {
            let (ended, took) = (Ended::Exited(ExitStatus::from_raw(raw)), Duration::default());
            untold(&Ran { ended, took, tail: "last words\n".to_string() }, 1, "no time")
        };
        for outer in OUTER.iter().flat_map(|signal| [*signal, (128 + signal) << 8]) {
            assert!(matches!(came(outer), Try::Unmeasured(_)), "{outer}");
        }
        for own in [6, 11, 1 << 8, 134 << 8] {
            assert!(matches!(came(own), Try::Ended(_)), "{own}");
        }
        assert!(matches!(came(0), Try::Unmeasured(_)));
    }

    #[test]
    fn a_file_is_replaced_where_it_is_what_was_read_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"old", b"new").unwrap();
        assert!(link.is_symlink() && std::fs::read(&file).unwrap() == b"new");
        assert!(replace(&link, b"old", b"other").unwrap_err().to_string().contains("nothing was written"));
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
    }
}
