//! Toolchains: each compiles the jobs of compile queues of its own, one for each target. A [`Toolchain`] does so for whole jobs; a [`Compiler`] is
//! all that one for kernel specs takes. Each is a file of its own and a line of [`shipped`].

pub mod cc;
pub mod clang;
mod compiler;
pub mod cuda;
pub mod fin;
mod kernels;
mod layouts;
pub mod noop;
mod nvcc;
mod nvrtc;
mod program;
mod project;
pub mod settle;
mod trial;
pub mod triton;
pub mod types;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::description::Description;
use bluefin_common::failure::{Attempt, Failure};
use bluefin_common::job::Job;
use bluefin_common::method::CLANG_AND_TRITON;
use bluefin_common::outcome::Outcome;
use bluefin_common::search_end::SearchEnd;
use bluefin_common::session::{SearchPlan, Session};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_kernel_spec::search::{Others, Priors, Round, Strategies};
use futures_util::future::{BoxFuture, FutureExt as _};

use crate::error::Error;
use crate::workshop::Workshop;

pub use compiler::Compiler;
pub use fin::Fin;
pub use kernels::Kernels;

/// What compiles the jobs of a queue. It was tried and works.
#[async_trait]
pub trait Toolchain: Send + Sync + 'static {
    /// As jobs name it: it serves the compile queues of that name.
    fn name(&self) -> &str;

    /// What a session pins of it: a worker with another one leaves its jobs alone.
    fn pin(&self) -> &dyn Pin;

    /// What shapes its output, without paths.
    fn identity(&self) -> &str {
        self.pin().value()
    }

    /// Whether it compiles for `target`: otherwise it does not serve the queue of that.
    async fn serves(&self, target: &Target) -> Result<bool, Error>;

    /// Why it does not compile for `target`, and what does, where that is known at once; `None` where it may.
    fn refusal(&self, _target: &Target) -> Option<String> {
        None
    }

    /// Compiles something trivial, as it did when it was found: whether this machine still can.
    ///
    /// # Errors
    /// What is wrong with this machine.
    async fn try_out(&self, _workshop: &Workshop) -> Result<(), Error> {
        Ok(())
    }

    /// Waits for room on the disk that it writes to, where that is much.
    async fn roomy(&self) {}

    /// Whether its jobs only wait, for broker and store, so that many of them may be in flight.
    fn only_waits(&self) -> bool {
        false
    }

    /// Compiles a job. A candidate that can not be compiled is a [`Failure`] in its place.
    ///
    /// # Errors
    /// What is no candidate's fault: store, disk, processes, or a job that makes no sense.
    async fn compile(&self, work: CompileAssignment<'_>) -> Result<Compiled, Error>;

    /// The rounds that are under way in the search of a group, as [`Searching::current`](bluefin_kernel_spec::search::Searching::current) has them: for each
    /// solver the candidates that are tried next, those included that have outcomes by now. None: the search is over, as it is at once
    /// where tuning spaces are not known.
    ///
    /// # Errors
    /// What stands in the way of an answer.
    async fn next_rounds(&self, _ask: Ask<'_>) -> Result<NextRounds, Error> {
        Ok(NextRounds::default())
    }

    /// The compilers of kernel specs that it compiles with, if it does.
    fn compilers(&self) -> Vec<Arc<dyn Compiler>> {
        Vec::new()
    }
}

/// A job to be compiled.
#[derive(Clone, Copy)]
pub struct CompileAssignment<'a> {
    pub job: &'a Job,
    /// That the job is of.
    pub session: &'a Session,
    /// Of the worker that has it in hand.
    pub workshop: &'a Workshop,
}

/// What a job was compiled into: what becomes of its [`EvalJob`](bluefin_common::job::EvalJob).
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// What its candidates are checked by, where bluefin does that.
    pub task: TaskRef,
    pub description: Description,
    /// One for each candidate of the job, in their order.
    pub built: Vec<Attempt<Built>>,
}

impl Compiled {
    /// No candidate of `job` was compiled, all for the same reason.
    #[must_use]
    pub fn failed(job: &Job, description: Description, failure: &Failure) -> Self {
        let built = job.candidates.iter().map(|_| Err(failure.clone())).collect();
        Self { task: TaskRef::None, description, built }
    }
}

/// A search that asks what it tries next.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// Any job of the group, without candidates.
    pub job: &'a Job,
    pub plan: &'a SearchPlan,
    /// The plan's is among them.
    pub strategies: &'a Strategies,
    /// Those of the group so far.
    pub outcomes: &'a Arc<[Outcome]>,
    /// What its rounds are told of other groups.
    pub others: &'a Arc<[Others]>,
    /// What first rounds of its session begin with, where it has any.
    pub priors: Option<&'a Arc<Priors>>,
    /// Rounds that are under way at a time.
    pub ahead: u32,
    pub workshop: &'a Workshop,
}

/// What the search of a group does next.
#[derive(Clone, Debug, Default)]
pub struct NextRounds {
    /// None: it is over.
    pub rounds: Vec<Round>,
    /// How it ended, if it is over.
    pub end: SearchEnd,
}

/// What a user says of the programs of this machine; nothing: they are looked for.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// MIOpen's fin.
    pub fin: Option<PathBuf>,
    /// What starts the inner side of the sandbox in front of fin, with its limits: `bluefin sandbox-exec --file-bytes N --`.
    pub launcher: Vec<OsString>,
    /// What calls NVRTC, with the library, its options, the source and the output behind it: `bluefin nvrtc`. Empty: nothing does.
    pub nvrtc: Vec<OsString>,
}

/// How a toolchain is found.
#[derive(Clone, Copy)]
pub struct Known {
    pub name: &'static str,
    /// For help texts, in a few words.
    pub about: &'static str,
    /// Whether it is served where nobody names one, if it is here.
    pub by_default: bool,
    /// Finds its program, compiles something trivial with it and asks what it is.
    pub probe: Probe,
    /// Whether a user says that it is here: then it has to work.
    pub is_named: fn(&Programs) -> bool,
}

/// # Errors
/// No program, or one that does not work, with what to install.
pub type Probe = for<'a> fn(&'a Programs) -> BoxFuture<'a, Result<Arc<dyn Toolchain>, Error>>;

static SHIPPED: [Known; 6] = [
    Known { name: "cc", about: "C for the CPU", by_default: true, probe: |_| cc::probe().boxed(), is_named: |_| false },
    Known {
        name: "clang",
        about: "GPUs",
        by_default: true,
        probe: |programs| clang::probe(programs).boxed(),
        is_named: |_| false,
    },
    Known {
        name: "fin",
        about: "MIOpen's own kernels",
        by_default: true,
        probe: |programs| fin::probe(programs).boxed(),
        is_named: |programs| programs.fin.is_some(),
    },
    Known {
        name: "triton",
        about: "Triton kernels for GPUs",
        by_default: true,
        probe: |_| triton::probe().boxed(),
        is_named: |_| triton::is_named(),
    },
    Known {
        name: CLANG_AND_TRITON,
        about: "kernels of both for one problem",
        // It is, where both are: see `with_pair`.
        by_default: false,
        probe: |programs| probe_pair(programs).boxed(),
        is_named: |_| false,
    },
    Known {
        name: "noop",
        about: "nothing, for benchmarks",
        by_default: false,
        probe: |_| noop::probe().boxed(),
        is_named: |_| false,
    },
];

/// The toolchains that a process knows.
#[derive(Clone)]
pub struct Toolchains(Vec<Known>);

impl Toolchains {
    /// Those that bluefin ships.
    #[must_use]
    pub fn shipped() -> Self {
        Self(SHIPPED.to_vec())
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, known: Known) -> Self {
        self.0.push(known);
        self
    }

    /// Those that are served where nobody names one, if they are here.
    pub fn usual(&self) -> impl Iterator<Item = &Known> {
        self.0.iter().filter(|known| known.by_default)
    }

    /// The toolchain `name`, tried.
    ///
    /// # Errors
    /// An unknown name; no program, or one that does not work, with what to install.
    pub async fn probe(&self, name: &str, programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
        match self.0.iter().find(|known| known.name == name) {
            Some(known) => (known.probe)(programs).await,
            None => Err(Error::UnknownToolchain { name: name.chars().take(64).collect(), expected: self.names() }),
        }
    }

    /// All toolchains that work on this machine and need not be named. Warns of those that do not, unless they are rarely here.
    ///
    /// # Errors
    /// If there is none; if one does not work that `programs` names; if the machine is at its end, so that nobody can tell.
    pub async fn probe_all(&self, programs: &Programs) -> Result<Vec<Arc<dyn Toolchain>>, Error> {
        let mut found = Vec::new();
        for known in self.usual() {
            match (known.probe)(programs).await {
                Ok(toolchain) => found.push(toolchain),
                Err(error) if (known.is_named)(programs) || error.is_exhausted() => return Err(error),
                Err(Error::NoTool { .. }) => {}
                Err(error) => tracing::warn!(%error, "toolchain {} is not served", known.name),
            }
        }
        if found.is_empty() { Err(Error::NoToolchain) } else { Ok(found) }
    }

    /// `cc, clang, fin, triton, clang+triton or noop`
    fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|known| known.name).collect();
        match names.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => names.concat(),
        }
    }
}

/// Both compilers of [`CLANG_AND_TRITON`].
async fn probe_pair(programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
    let (clang, triton) = (clang::probe(programs).await?, triton::probe().await?);
    Ok(pair(&*clang, &*triton))
}

fn pair(clang: &dyn Toolchain, triton: &dyn Toolchain) -> Arc<dyn Toolchain> {
    Arc::new(Kernels::of([clang, triton].iter().flat_map(|toolchain| toolchain.compilers()).collect()))
}

/// `toolchains`, and [`CLANG_AND_TRITON`] where both of it are among them.
pub(crate) fn with_pair(mut toolchains: Vec<Arc<dyn Toolchain>>) -> Vec<Arc<dyn Toolchain>> {
    let named = |name: &str| toolchains.iter().find(|toolchain| toolchain.name() == name);
    if let (Some(clang), Some(triton), None) = (named("clang"), named("triton"), named(CLANG_AND_TRITON)) {
        toolchains.push(pair(&**clang, &**triton));
    }
    toolchains
}

/// The toolchain `name` of those that bluefin ships, tried.
///
/// # Errors
/// As [`Toolchains::probe`].
pub async fn probe(name: &str, programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
    Toolchains::shipped().probe(name, programs).await
}

/// Tries a program without keeping other tasks of this thread from their turn.
async fn tried<T: Send + 'static>(probe: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let tried = tokio::task::spawn_blocking(probe).await;
    tried.unwrap_or_else(|error| Err(Error::Exhausted { reason: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use bluefin_common::method::Method;

    use super::*;

    #[tokio::test]
    async fn unknown_toolchains_are_refused() {
        let error = probe("hipcc", &Programs::default()).await.err().expect("unknown").to_string();
        assert_eq!(error, "toolchain hipcc: unknown, expected cc, clang, fin, triton, clang+triton or noop");
    }

    #[test]
    fn jobs_of_every_method_that_compiles_have_their_toolchains() {
        let mut names: Vec<&str> = SHIPPED.iter().map(|known| known.name).collect();
        let mut of_methods = Method::toolchains();
        names.sort_unstable();
        of_methods.sort_unstable();
        assert_eq!(names, of_methods);
    }

    #[tokio::test]
    async fn a_program_that_is_named_has_to_be_there() {
        let programs = Programs { fin: Some("/nowhere/fin".into()), ..Programs::default() };
        let shipped = Toolchains::shipped();
        for error in [shipped.probe("fin", &programs).await.err(), shipped.probe_all(&programs).await.err()] {
            assert_eq!(error.expect("no file").to_string(), "/nowhere/fin: no file");
        }
    }
}
