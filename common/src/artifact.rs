//! What a compile yields.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::Attempt;
use crate::structure::Structure;
use crate::tensor::Tensor;
use crate::wire::Message;

/// Names an artifact by content. Both fields are checked before every use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// BLAKE3 of the bytes in the Store.
    pub digest: Digest,
    /// Their number.
    pub size: u64,
}

impl ArtifactRef {
    /// Names `bytes` as they are.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { digest: Digest::of(bytes), size: bytes.len() as u64 }
    }
}

/// What a candidate was built into: all that it takes to run it for one problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// What is loaded on a device is one; a tool may need several, or none where it links what it runs.
    pub objects: Vec<CodeObject>,
    /// Run in order on one stream, they compute the problem; none where a tool launches by itself.
    pub launches: Vec<Launch>,
    /// Scratch memory in bytes.
    pub workspace: u64,
}

impl Built {
    /// The first version of messages that can say what its launches pass.
    pub(crate) fn version(&self) -> u8 {
        let arguments = self.launches.iter().flat_map(|launch| &launch.arguments);
        let versions = arguments.map(|argument| match argument {
            Argument::Buffer(_) | Argument::Workspace => 1,
            Argument::I32(_) | Argument::I64(_) | Argument::F32(_) | Argument::F64(_) => 1,
            Argument::BufferAt { .. } | Argument::WorkspaceAt(_) | Argument::Tensor(_) => 2,
            Argument::Structure(_) => 3,
        });
        versions.max().unwrap_or(1)
    }

    /// The artifact, where there is exactly one.
    #[must_use]
    pub fn artifact(&self) -> Option<ArtifactRef> {
        match self.objects.as_slice() {
            [object] => Some(object.artifact),
            _ => None,
        }
    }
}

/// A code object, and what a kernel db calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodeObject {
    /// The bytes in the Store: the code object, or what it is packed in.
    pub artifact: ArtifactRef,
    /// Source file, without `.o`: `conv1x1u_stride2.s`.
    pub file: String,
    /// Compiler options that tell it from others of that file, without `-mcpu`; the blank in front of the first one counts.
    pub options: String,
    /// Where the bytes in the Store are a bzip2 stream: what is in it.
    pub packed: Option<Packed>,
}

impl CodeObject {
    /// One that is in the Store as it was compiled.
    #[must_use]
    pub fn plain(artifact: ArtifactRef, file: impl Into<String>, options: impl Into<String>) -> Self {
        Self { artifact, file: file.into(), options: options.into(), packed: None }
    }
}

/// The code object in a bzip2 stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Packed {
    /// Lowercase hex MD5.
    pub md5: String,
    /// Bytes.
    pub size: u64,
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
    /// In the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
}

/// One kernel argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument {
    /// Index into [`Task::buffers`](crate::task::Task::buffers).
    Buffer(u16),
    /// Pointer to the scratch memory of [`Built::workspace`] bytes.
    Workspace,
    /// A signed 32-bit integer, by value.
    I32(i32),
    /// A signed 64-bit integer, by value.
    I64(i64),
    /// A 32-bit float, by value.
    F32(f32),
    /// A 64-bit float, by value.
    F64(f64),
    /// A buffer from a byte of it on.
    BufferAt {
        /// Index into [`Task::buffers`](crate::task::Task::buffers).
        buffer: u16,
        /// Bytes of it before what is pointed to.
        bytes: u64,
    },
    /// Pointer to this byte of the scratch memory.
    WorkspaceAt(u64),
    /// By value, as the device reads it; before it is compiled, whatever its kernel takes in place of it.
    Tensor(Tensor),
    /// A structure by value.
    Structure(Structure),
}

/// What the compile cache knows of one set of compiler inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileRecord {
    /// Of which inputs: one that is found under another key is none.
    pub key: Digest,
    /// What it is built into as far as the inputs tell, or why it is not. Only failures that would repeat are kept.
    pub result: Attempt<Built>,
    /// What the compiler took, in milliseconds.
    pub compile_ms: u32,
}

impl Message for CompileRecord {
    const KIND: u8 = 6;
    const VERSION: u8 = 1;
    const NAME: &'static str = "compile record";
}
