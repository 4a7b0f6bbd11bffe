//! What a compile yields, and what an eval worker needs to run and judge it.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::miopen::Solution;
use crate::problem::DataType;

/// Names an artifact by content. Both fields are checked before every use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// BLAKE3 of the code object's bytes.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

impl ArtifactRef {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { digest: Digest::of(bytes), size: bytes.len() as u64 }
    }
}

/// A candidate ready to run: its code object and how to launch it for one problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    pub artifact: ArtifactRef,
    /// Run in order on one stream; together they compute the problem.
    pub launches: Vec<Launch>,
    /// Scratch memory in bytes.
    pub workspace: u64,
}

/// What a candidate was built into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Built {
    /// A kernel of a spec.
    Kernel(Prepared),
    /// A solver of MIOpen's.
    Miopen(Solution),
}

impl Built {
    /// Scratch memory in bytes.
    #[must_use]
    pub fn workspace(&self) -> u64 {
        match self {
            Self::Kernel(prepared) => prepared.workspace,
            Self::Miopen(solution) => solution.workspace,
        }
    }

    /// The kernel of a spec, if it is one.
    #[must_use]
    pub fn kernel(&self) -> Option<&Prepared> {
        match self {
            Self::Kernel(prepared) => Some(prepared),
            Self::Miopen(_) => None,
        }
    }

    /// The solution of MIOpen's, if it is one.
    #[must_use]
    pub fn miopen(&self) -> Option<&Solution> {
        match self {
            Self::Kernel(_) => None,
            Self::Miopen(solution) => Some(solution),
        }
    }
}

/// One kernel launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The `extern "C"` symbol.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared: u32,
    pub arguments: Vec<Argument>,
}

/// One kernel argument.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument {
    /// Index into [`Task::buffers`].
    Buffer(u16),
    Workspace,
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
}

/// What is the same for all candidates of a problem: its buffers and the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub buffers: Vec<Buffer>,
    /// The solver whose output is right, compiled.
    pub reference: Prepared,
    /// `|got - want| <= absolute + relative * |want|`, for each element of each output.
    pub tolerance: Tolerance,
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    pub name: String,
    pub data_type: DataType,
    /// Elements.
    pub length: u64,
    pub role: Role,
}

impl Buffer {
    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length.saturating_mul(self.data_type.size() as u64)
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Filled with random values, only read.
    Input,
    /// Poisoned before the check, written by the kernel, compared with the reference.
    Output,
}

/// How far an output may be from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}
