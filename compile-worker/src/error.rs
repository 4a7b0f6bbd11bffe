//! What goes wrong in a compile worker that is not a candidate's fault.

use std::io;
use std::path::PathBuf;

use bluefin_common::broker::BrokerError;
use bluefin_common::campaign::AdvanceError;
use bluefin_common::delivery::Passing;
use bluefin_common::failure::Failure;
use bluefin_common::limits::{self, LimitMet};
use bluefin_common::store::StoreError;
use bluefin_common::waiting::On;
use rustix::io::Errno;

/// What looks like the fault of a machine.
#[derive(Debug)]
pub struct Suspect {
    /// What it is if it is not.
    pub failure: Failure,
    /// Whether it says that the machine is at its end, instead of that the compiler crashed.
    pub says_so: bool,
}

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
    #[error(
        "the kernel killed a compiler for want of memory, which is no candidate's fault: {short_of}: allow more memory, or run \
         fewer compilers at a time"
    )]
    Killed { short_of: String },
    /// By somebody else: a signal that no compiler sends itself.
    #[error("a compiler was ended from outside, by {by}")]
    Interrupted { by: String },
    /// A failure that may be the machine's: believed once that was found well.
    #[error("{}", .0.failure.detail)]
    Suspect(Box<Suspect>),
    /// A failure that says of itself that it is the machine's, or somebody's, while the machine is well. Tried again, as far as
    /// that is to be believed: whoever wrote the unit may have had it say so.
    #[error("{reason}: this machine is well, and was {times} times")]
    Unproven { reason: String, times: u32 },
    /// The machine is not well, for longer than this worker waits.
    #[error("this machine cannot compile: {reason}")]
    Unfit { reason: String },
    /// A search that is given up has jobs under way, after which it can be.
    #[error("a round of the search is still open")]
    OpenRound,
    /// What a job names is not in the store, which must have lost it.
    #[error("{what}: not in the store")]
    Missing { what: String },
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
            Self::Limit(_) | Self::Unfit { .. } => true,
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
            | Self::Interrupted { .. }
            | Self::Suspect(_)
            | Self::Unproven { .. }
            | Self::OpenRound
            | Self::Missing { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }

    /// Whether broker or store is away, which is the fault of no job and ends for all at once.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            // A queue that is missing is declared before the next attempt.
            Self::Broker(BrokerError::Unroutable { .. }) => true,
            Self::Broker(error) => error.is_transient(),
            Self::Advance(error) => error.is_transient(),
            Self::UnknownToolchain { .. }
            | Self::NoToolchain
            | Self::NoTool { .. }
            | Self::NoCompiler { .. }
            | Self::BrokenCompiler { .. }
            | Self::Machine { .. }
            | Self::Exhausted { .. }
            | Self::Limit(_)
            | Self::Killed { .. }
            | Self::Interrupted { .. }
            | Self::Suspect(_)
            | Self::Unproven { .. }
            | Self::Unfit { .. }
            | Self::OpenRound
            | Self::Missing { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }

    /// Whether the job makes no sense, so that nobody will ever do it. Everything else is a matter of broker, store or machine.
    #[must_use]
    pub fn is_of_job(&self) -> bool {
        matches!(self, Self::Job { .. } | Self::Advance(AdvanceError::Wire(_)))
    }

    /// Whether this machine is to blame, or may be.
    #[must_use]
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::Machine { .. }
            | Self::Exhausted { .. }
            | Self::Killed { .. }
            | Self::Interrupted { .. }
            | Self::Suspect(_)
            | Self::Unproven { .. }
            | Self::NoCompiler { .. }
            | Self::BrokenCompiler { .. } => true,
            Self::Store(_)
            | Self::Broker(_)
            | Self::Advance(_)
            | Self::UnknownToolchain { .. }
            | Self::NoToolchain
            | Self::NoTool { .. }
            | Self::Limit(_)
            | Self::Unfit { .. }
            | Self::OpenRound
            | Self::Missing { .. }
            | Self::Job { .. }
            | Self::Config { .. } => false,
        }
    }

    /// Whether this machine is at its end: of disk, memory, processes or files. It may be well again later.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull, WouldBlock};
        match self {
            Self::Exhausted { .. } | Self::Killed { .. } => true,
            Self::Machine { source, .. } => {
                matches!(source.kind(), OutOfMemory | QuotaExceeded | StorageFull | WouldBlock)
                    || [Errno::MFILE, Errno::NFILE]
                        .iter()
                        .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
            }
            _ => false,
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
}

/// An outage is waited for with the job in hand; while the machine is not well it is better handed back.
impl Passing for Error {
    fn is_transient(&self) -> bool {
        self.is_outage()
    }

    fn on(&self) -> On {
        match self {
            Self::Store(error) => error.on(),
            Self::Broker(error) => error.on(),
            Self::Advance(error) => error.on(),
            _ => On::Machine,
        }
    }

    fn holds_up_all(&self) -> bool {
        match self {
            Self::Broker(error) => error.holds_up_all(),
            Self::Advance(error) => error.holds_up_all(),
            _ => true,
        }
    }

    fn is_lost(&self) -> bool {
        self.ends_worker()
    }

    fn is_of_another_version(&self) -> bool {
        Self::is_of_another_version(self)
    }
}
