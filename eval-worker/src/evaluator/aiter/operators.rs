//! aiter's operators as users call them, before and after: with the rows that this aiter has, and with those that were just found.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bluefin_aiter::harvest::{Found, Verdict};
use bluefin_aiter::operator::{self, Comparison, Operator};
use bluefin_aiter::{COMPARE, Key, NamedCells};
use bluefin_common::problem::AiterProblem;
use bluefin_common::scratch::Scratch;
use bluefin_common::session::Session;

use super::batch::{Batch, PREFIX, end, last_words, untuned};
use super::modules::{MODULE_FOLDER, is_module};
use crate::evaluator::stop::Stop;

/// Whether operators are to be compared.
pub(super) fn is_asked(session: &Session) -> bool {
    session.environment.contains_key(COMPARE)
}

/// Modules for comparisons. An operator is built with its rows, so that each side has a folder of its own, which begins with links
/// to all that this aiter has; its own folder stays as it is.
pub(super) struct Operators {
    /// Where aiter has its modules.
    source: PathBuf,
    own: OnceLock<Scratch>,
}

impl Operators {
    pub(super) fn new(source: &Path) -> Self {
        Self { source: source.to_path_buf(), own: OnceLock::new() }
    }

    /// The folder of a side.
    fn folder(&self, side: &str) -> io::Result<PathBuf> {
        let own = match self.own.get() {
            Some(own) => own,
            None => {
                let made = Scratch::new(PREFIX)?;
                self.own.get_or_init(|| made)
            }
        };
        let folder = own.path().join(side);
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(&self.source).into_iter().flatten().flatten() {
            let link = folder.join(entry.file_name());
            let wanted = entry.file_name().to_str().is_some_and(is_module);
            // What was built here stands in place of a link.
            if wanted && link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(entry.path(), &link)?;
            }
        }
        Ok(folder)
    }
}

/// What came of a run: for each shape what its operator took.
type Measured = BTreeMap<Key, Operator>;

impl Batch<'_> {
    /// Each shape that was tuned with its operator, before and after.
    pub(super) async fn compare(
        &self,
        shapes: &[&AiterProblem],
        verdicts: &[Verdict],
        operators: &Operators,
    ) -> Result<Vec<Option<Comparison>>, Stop> {
        let mut tuned: Vec<(&AiterProblem, &Found)> = Vec::new();
        for (shape, verdict) in shapes.iter().zip(verdicts) {
            if let Verdict::Tuned(found) = verdict {
                tuned.extend(found.first().map(|best| (*shape, best)));
            }
        }
        if tuned.is_empty() {
            return Ok(shapes.iter().map(|_| None).collect());
        }
        let before = self.measure(&tuned, Side::Before, operators).await?;
        let after = self.measure(&tuned, Side::After, operators).await?;
        let compared = |(shape, verdict): (&&AiterProblem, &Verdict)| {
            let key = self.family.key_of(shape);
            let of = |measured: &Measured| measured.get(&key).cloned().unwrap_or_default();
            matches!(verdict, Verdict::Tuned(_)).then(|| Comparison { before: of(&before), after: of(&after) })
        };
        Ok(shapes.iter().zip(verdicts).map(compared).collect())
    }

    /// What the operator takes for each shape: all in one process, and alone where that says nothing of a shape.
    async fn measure(
        &self,
        tuned: &[(&AiterProblem, &Found)],
        side: Side,
        operators: &Operators,
    ) -> Result<Measured, Stop> {
        let (mut measured, _) = self.run_operators(tuned, side, operators).await?;
        for one in tuned {
            let Entry::Vacant(entry) = measured.entry(self.family.key_of(one.0)) else { continue };
            let (mut alone, reason) = self.run_operators(std::slice::from_ref(one), side, operators).await?;
            let operator = alone.remove(entry.key()).unwrap_or_else(|| Operator::failed(reason));
            entry.insert(operator);
        }
        Ok(measured)
    }

    /// One process, and what is to be said of shapes that it says nothing of.
    async fn run_operators(
        &self,
        tuned: &[(&AiterProblem, &Found)],
        side: Side,
        operators: &Operators,
    ) -> Result<(Measured, String), Stop> {
        let machine = |what: &str, error: io::Error| Stop::Machine(format!("{what}: {error}"));
        let folder = Scratch::new(PREFIX).map_err(|error| machine("folder of temporary files", error))?;
        let modules = operators.folder(side.name()).map_err(|error| machine("folder of aiter's modules", error))?;
        let input = folder.path().join("in.csv");
        let shapes: Vec<&AiterProblem> = tuned.iter().map(|(shape, _)| *shape).collect();
        std::fs::write(&input, untuned(&input, &shapes)).map_err(|error| machine("in.csv", error))?;
        let mut arguments: Vec<OsString> = self.arguments().map(OsString::from).collect();
        arguments.push("--run_config".into());
        if side == Side::After {
            let rows = folder.path().join("rows.csv");
            let target = &self.device.target;
            let cells = |(shape, found): &(&AiterProblem, &Found)| {
                self.family.row(target, shape, (&found.columns, &found.cells)).1
            };
            let cells: Vec<NamedCells> = tuned.iter().map(cells).collect();
            let table = self.family.table(&rows, cells.iter().map(Vec::as_slice));
            std::fs::write(&rows, table.to_bytes()).map_err(|error| machine("rows.csv", error))?;
            arguments.push(rows.into());
        }
        let variables = [(MODULE_FOLDER, modules.as_path())];
        let ran = self.process(folder.path(), arguments, &variables, tuned.len()).await?;
        let mut measured: Measured = operator::read(self.family, &ran.tail).into_iter().collect();
        let (_, how) = end(&ran);
        let reason = format!("aiter did not measure the operator: {how}: {}", last_words(&ran.tail));
        // It ends well too where it has nothing to measure an operator by, which no other run changes.
        if ran.is_success() && measured.is_empty() {
            measured.extend(shapes.iter().map(|shape| (self.family.key_of(shape), Operator::failed(reason.as_str()))));
        }
        Ok((measured, reason))
    }
}

/// With which rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}
