//! Whether MIOpen can use what a database holds at all.

use std::collections::BTreeSet;
use std::path::Path;

use bluefin_miopen::db::solvers::is_own;

use super::SolverList;

/// Counts what MIOpen has and what it does not.
pub(super) struct Known<'a> {
    list: &'a SolverList<'a>,
    own_sources: &'a BTreeSet<String>,
    of_miopen: u64,
    own: Counted,
    other: Counted,
}

/// How many, and the first one.
#[derive(Default)]
struct Counted {
    count: u64,
    first: Option<String>,
}

impl Counted {
    fn add(&mut self, name: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| name.chars().take(120).collect());
    }
}

impl<'a> Known<'a> {
    pub(super) fn new(list: &'a SolverList<'a>, own_sources: &'a BTreeSet<String>) -> Self {
        Self { list, own_sources, of_miopen: 0, own: Counted::default(), other: Counted::default() }
    }

    /// Takes note of the solver of a record.
    pub(super) fn solver(&mut self, name: &str) {
        if is_own(name) {
            self.own.add(name);
        } else if self.list.solvers.get(name).is_some() {
            self.of_miopen += 1;
        } else {
            self.other.add(name);
        }
    }

    /// Takes note of a kernel: its source file and `.o`.
    pub(super) fn kernel(&mut self, name: &str) {
        let source = name.strip_suffix(".o").unwrap_or(name);
        if self.own_sources.contains(source) {
            self.own.add(name);
        } else {
            self.of_miopen += 1;
        }
    }

    /// Why the file at `path` would tune nothing, in whole or in part.
    pub(super) fn judge(self, warnings: &mut Vec<String>, path: &Path) -> Result<(), String> {
        let Self { list, of_miopen, own, other, .. } = self;
        if let Some(first) = own.first {
            let count = own.count;
            return Err(format!(
                "holds {count} records of bluefin's own kernels, such as {first}: MIOpen does not have them and ignores their \
                 records, so they would tune nothing"
            ));
        }
        match other.first {
            Some(first) if of_miopen == 0 && list.is_whole => Err(format!(
                "holds no record of a solver of MIOpen's (found such as {first}; the solvers are those of {}), so it would tune \
                 nothing",
                list.name
            )),
            Some(first) => {
                let text = format!("records of solvers that {} does not have, such as", list.name);
                let newer = if list.is_whole { "" } else { "; the MIOpen that will read them is newer, and may" };
                warnings.push(format!("{}: {} {text} {first}{newer}", path.display(), other.count));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
