//! What goes wrong in a compile worker that is not a candidate's fault.

use std::io;
use std::path::PathBuf;

use bluefin_common::broker::BrokerError;
use bluefin_common::campaign::AdvanceError;
use bluefin_common::delivery::Passing;
use bluefin_common::limits::{self, LimitMet};
use bluefin_common::store::StoreError;

/// An error of the worker or of what it stands on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Advance(#[from] AdvanceError),
    #[error("toolchain {name}: unknown, expected {expected}")]
    UnknownToolchain { name: String, expected: String },
    #[error("no toolchain works on this machine")]
    NoToolchain,
    /// A program that few machines have.
    #[error("{reason}")]
    NoTool { reason: String },
    #[error(
        "toolchain {toolchain}: no compiler found (looked for {looked_for}): install {install}, or name one in {variable}"
    )]
    NoCompiler { toolchain: &'static str, looked_for: String, install: &'static str, variable: &'static str },
    #[error("toolchain {toolchain}: {program} does not work: {reason}: install {install}", program = program.display())]
    BrokenCompiler { toolchain: &'static str, program: PathBuf, reason: String, install: &'static str },
    /// This machine cannot run compilers now: no disk, no memory, no process.
    #[error("{what}: {source}")]
    Machine { what: String, source: io::Error },
    /// The same, as a compiler or its launcher says.
    #[error("this machine cannot compile now: {reason}")]
    Exhausted { reason: String },
    /// A limit that others set on this process, and that ends with it: no other job will fare better here.
    #[error("compiling: {0}")]
    Limit(LimitMet),
    /// The same, as the kernel says.
    #[error("the kernel killed a compiler for want of memory, which is no candidate's fault: {short_of}")]
    Killed { short_of: String },
    /// That again and again.
    #[error(
        "{last}. So it was {times} times with no job done in between: allow more memory, or run fewer compilers at a time"
    )]
    TooLittleMemory { last: Box<Self>, times: usize },
    /// The job makes no sense, and will not the next time.
    #[error("{reason}")]
    Job { reason: String },
    #[error("configuration: {field}: found {found}, expected {expected}")]
    Config { field: &'static str, found: String, expected: &'static str },
}

impl Error {
    /// Something of this machine that failed: `what`, for the reason `source`.
    pub(crate) fn machine(what: impl Into<String>, source: io::Error) -> Self {
        match limits::file_size_met() {
            Some(limit) if source.kind() == io::ErrorKind::FileTooLarge => Self::Limit(limit),
            _ => Self::Machine { what: what.into(), source },
        }
    }

    /// Whether this worker need not go on: what it needs is gone for as long as the process lives.
    #[must_use]
    pub fn ends_worker(&self) -> bool {
        match self {
            Self::Limit(_) | Self::TooLittleMemory { .. } => true,
            Self::Store(error) | Self::Advance(AdvanceError::Store(error)) => error.is_lost(),
            Self::Broker(_)
            | Self::Advance(_)
            | Self::UnknownToolchain { .. }
            | Self::NoToolchain
            | Self::NoTool { .. }
            | Self::NoCompiler { .. }
            | Self::BrokenCompiler { .. }
            | Self::Machine { .. }
            | Self::Exhausted { .. }
            | Self::Killed { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }

    /// Whether broker or store is away, which is the fault of no job and ends for all at once.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Store(_) | Self::Broker(_) | Self::Advance(_) => self.is_transient(),
            Self::UnknownToolchain { .. }
            | Self::NoToolchain
            | Self::NoTool { .. }
            | Self::NoCompiler { .. }
            | Self::BrokenCompiler { .. }
            | Self::Machine { .. }
            | Self::Exhausted { .. }
            | Self::Limit(_)
            | Self::Killed { .. }
            | Self::TooLittleMemory { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }

    /// Whether something in the store is of a newer release, so that the job is for a worker of that.
    #[must_use]
    pub fn is_of_another_version(&self) -> bool {
        matches!(
            self,
            Self::Store(StoreError::Corrupt { source, .. })
                | Self::Advance(AdvanceError::Store(StoreError::Corrupt { source, .. }))
                if source.is_of_another_version()
        )
    }

    /// Whether the same job may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            // A queue that is missing is declared before the next attempt.
            Self::Broker(BrokerError::Unroutable { .. }) => true,
            Self::Broker(error) => error.is_transient(),
            Self::Advance(error) => error.is_transient(),
            Self::Machine { .. } | Self::Exhausted { .. } | Self::Killed { .. } => true,
            Self::UnknownToolchain { .. }
            | Self::NoToolchain
            | Self::NoTool { .. }
            | Self::NoCompiler { .. }
            | Self::BrokenCompiler { .. }
            | Self::Limit(_)
            | Self::TooLittleMemory { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }
}

/// An outage is waited for with the job in hand; whatever else may pass is left to another attempt.
impl Passing for Error {
    fn is_transient(&self) -> bool {
        self.is_outage()
    }

    fn is_lost(&self) -> bool {
        self.ends_worker()
    }

    fn is_of_another_version(&self) -> bool {
        Self::is_of_another_version(self)
    }
}
