//! What was decided and what happened, with its time, so that a run that failed can be understood.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Written to standard output and to `chaos.log`.
pub struct Journal {
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    faults: BTreeMap<&'static str, u32>,
    notes: BTreeMap<String, u32>,
    violations: Vec<String>,
}

impl Journal {
    pub fn begin(folder: &Path) -> Self {
        let file = File::create(folder.join("chaos.log")).expect("the folder can be written to");
        let inner = Inner { file, faults: BTreeMap::new(), notes: BTreeMap::new(), violations: Vec::new() };
        Self { began: Instant::now(), inner: Mutex::new(inner) }
    }

    pub fn say(&self, what: impl Display) {
        let line = format!("{:8.3}  {what}", self.began.elapsed().as_secs_f64());
        // Together, so that the lines of both are in the same order.
        let mut inner = self.inner();
        println!("{line}");
        writeln!(inner.file, "{line}").expect("the log can be written");
    }

    /// A fault was made.
    pub fn fault(&self, name: &'static str) {
        *self.inner().faults.entry(name).or_default() += 1;
    }

    /// Something happened that is worth a line in the table, and no violation.
    pub fn note(&self, what: impl Into<String>) {
        *self.inner().notes.entry(what.into()).or_default() += 1;
    }

    /// Something does not hold.
    pub fn violation(&self, what: impl Display) {
        self.say(format_args!("VIOLATION: {what}"));
        self.inner().violations.push(what.to_string());
    }

    /// How often each fault was made.
    pub fn faults(&self) -> BTreeMap<&'static str, u32> {
        self.inner().faults.clone()
    }

    /// What else happened, and how often.
    pub fn notes(&self) -> BTreeMap<String, u32> {
        self.inner().notes.clone()
    }

    /// Everything that does not hold.
    pub fn violations(&self) -> Vec<String> {
        self.inner().violations.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding the lock")
    }
}
