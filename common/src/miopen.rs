//! MIOpen's own tools: what they say of a solver in bluefin's terms, and how they are found, run and understood.

pub mod detect;
pub mod disk;
pub mod driver;
pub mod fin;
pub mod kernel;
pub mod place;
pub mod process;
mod scrub;
pub mod solver;

use serde::{Deserialize, Serialize};

use crate::artifact::ArtifactRef;
use crate::session::SessionName;
use crate::store::{Store, StoreError};

/// How a session reaches MIOpen's solvers. The name is that of the toolchain of its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// The fin executable: compiles and evaluates one solver at a time.
    Fin,
    /// MIOpenDriver: finds, tunes and compiles in one process, where the GPU is.
    MiopenDriver,
}

impl Tool {
    pub const ALL: [Self; 2] = [Self::Fin, Self::MiopenDriver];

    /// Name of the toolchain in jobs, queues and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::MiopenDriver => "miopendriver",
        }
    }

    /// Name of the executable.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::MiopenDriver => "MIOpenDriver",
        }
    }

    /// The tool that `toolchain` names, if it is one of MIOpen's.
    #[must_use]
    pub fn of_toolchain(toolchain: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == toolchain)
    }
}

/// The pin that says whose solvers a session tunes: versions, and a digest of the list where there is one.
pub const MIOPEN_PIN: &str = "miopen.library";

/// Pins `session` to the library of `identity` (`MIOpen 3.3.0, ROCm 6.3.0, ...`) unless it is pinned to another one, or was
/// made for other versions; returns what it is pinned to. A version that the session names less exactly (`6.3`) is any of it.
///
/// # Errors
/// If the store fails.
pub async fn pin_library(store: &dyn Store, session: &SessionName, identity: &str) -> Result<String, StoreError> {
    let pins = store.pins(session).await?;
    for (key, name) in [("miopen", "MIOpen"), ("rocm", "ROCm")] {
        let Some(version) = pins.get(key) else { continue };
        let wanted = format!("{name} {version}");
        let is_it =
            |part: &str| part.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']));
        if !identity.split(", ").any(is_it) {
            return Ok(wanted);
        }
    }
    store.pin(session, MIOPEN_PIN, identity).await
}

/// The candidate of a job that leaves the choice of solvers to MIOpen.
pub const ANY_SOLVER: &str = "*";

/// What MIOpen would run for one problem and one solver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solution {
    /// With the prefix of its direction: `miopenConvolutionFwdAlgoDirect`.
    pub algorithm: String,
    /// Scratch memory in bytes.
    pub workspace: u64,
    pub tunable: bool,
    /// Empty for solvers that launch no kernels of their own, such as GEMM through rocBLAS.
    pub kernels: Vec<KernelObject>,
}

/// A kernel that MIOpen compiled, as its kernel db holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KernelObject {
    /// Source file without `.o`: `conv1x1u_stride2.s`.
    pub file: String,
    /// Compiler options without `-mcpu`; the blank in front of the first one counts.
    pub options: String,
    /// The bzip2 stream of the code object, in the Store.
    pub blob: ArtifactRef,
    /// Lowercase hex MD5 of the code object, uncompressed.
    pub md5: String,
    /// Bytes of the code object, uncompressed.
    pub size: u64,
}
