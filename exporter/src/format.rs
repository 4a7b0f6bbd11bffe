//! Formats: what results are exported to. Each is a file of its own; [`Formats`](crate::Formats) lists those that bluefin ships, and
//! a caller of [`export`](crate::export()) may bring another.

pub mod aiter;
pub mod find_db;
pub mod header;
pub mod kernel_db;
pub mod perf_db;
pub mod triton;
pub mod winners;

use std::any::Any;
use std::fmt;

use bluefin_common::decision::Timed;
use bluefin_common::job::Job;
use bluefin_common::method::CLANG_AND_TRITON;
use futures_util::future::BoxFuture;

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// Files that are made of a session's results.
pub trait Format: fmt::Debug + Send + Sync {
    /// On command lines and in plans: `find-db`.
    fn name(&self) -> &'static str;

    /// For help texts: what it is, and what it holds.
    fn about(&self) -> &'static str;

    /// The letter of its flag. One without is asked for by `--format` alone.
    fn flag(&self) -> Option<char> {
        None
    }

    /// What it keeps of groups, of none yet. Of one type, always.
    fn records(&self) -> AnyRecords;
}

/// What a format keeps of groups, and how that becomes files.
pub trait Records: Fold {
    /// Writes the files, all of them, even those that hold nothing; but for those whose names follow from what they hold.
    ///
    /// # Errors
    /// If one can not be written: then none will be there.
    fn write(self, out: &mut Output<'_>) -> impl Future<Output = Result<(), ExportError>> + Send;
}

/// The toolchain that compiled the winner of a group: of a spec with two, Triton's is that of Python.
fn toolchain_of<'a>(job: &'a Job, winner: &Timed<'_>) -> &'a str {
    if job.toolchain != CLANG_AND_TRITON {
        return &job.toolchain;
    }
    let objects = winner.outcome.built.iter().flat_map(|built| &built.objects);
    if objects.into_iter().any(|object| object.file.ends_with(".py")) { "triton" } else { "clang" }
}

/// The records of some format.
pub struct AnyRecords(Box<dyn Erased>);

impl AnyRecords {
    #[must_use]
    pub fn new(records: impl Records) -> Self {
        Self(Box::new(records))
    }

    pub(crate) async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        self.0.write(out).await
    }
}

/// One of each format that is asked for, in their order.
impl Fold for Vec<AnyRecords> {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        self.iter_mut().for_each(|records| records.0.add(group, warnings));
    }

    fn merge(&mut self, other: Self, warnings: &mut Warnings) {
        for (records, other) in self.iter_mut().zip(other) {
            records.0.merge(other.0, warnings);
        }
    }
}

/// [`Records`] whose type is forgotten.
trait Erased: Send {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings);
    fn merge(&mut self, other: Box<dyn Erased>, warnings: &mut Warnings);
    fn write<'a>(self: Box<Self>, out: &'a mut Output<'_>) -> BoxFuture<'a, Result<(), ExportError>>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<R: Records> Erased for R {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        Fold::add(self, group, warnings);
    }

    fn merge(&mut self, other: Box<dyn Erased>, warnings: &mut Warnings) {
        match other.into_any().downcast::<Self>() {
            Ok(other) => Fold::merge(self, *other, warnings),
            Err(_) => {
                warnings.insert("a format kept records of two types: those of the second are lost".to_string());
            }
        }
    }

    fn write<'a>(self: Box<Self>, out: &'a mut Output<'_>) -> BoxFuture<'a, Result<(), ExportError>> {
        Box::pin(Records::write(*self, out))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
