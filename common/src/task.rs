//! What is the same for all candidates of a problem that a device evaluates: its buffers and the answer.

use serde::{Deserialize, Serialize};

use crate::artifact::Built;
use crate::digest::Digest;
use crate::problem::DataType;
use crate::wire::{Message, WireError};

/// Buffers, reference and tolerance of a problem. A blob of the Store, which its jobs name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Arguments of launches are indices into it.
    pub buffers: Vec<Buffer>,
    /// The solver whose output is right, compiled.
    pub reference: Built,
    /// `|got - want| <= absolute + relative * |want|`, for each element of each output.
    pub tolerance: Tolerance,
}

impl Message for Task {
    const KIND: u8 = 11;
    const VERSION: u8 = 1;
    const NAME: &'static str = "task";
}

/// Where the task of a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskRef {
    /// There is none: a tool knows what is asked.
    None,
    /// A blob of the Store, in its envelope.
    Blob(Digest),
    /// In the message itself: no other job of the group will ask for it.
    Inline(Box<Task>),
}

impl TaskRef {
    /// The blob's digest, if that is where it is.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Blob(digest) => Some(*digest),
            Self::None | Self::Inline(_) => None,
        }
    }
}

impl Task {
    /// Bytes as they are stored, and their digest.
    ///
    /// # Errors
    /// If it is too large for its envelope.
    pub fn encode(&self) -> Result<(Digest, Vec<u8>), WireError> {
        let bytes = crate::wire::encode(self)?;
        Ok((Digest::of(&bytes), bytes))
    }
}

/// One tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// As the kernel spec has it, for messages.
    pub name: String,
    /// Of each element.
    pub data_type: DataType,
    /// Elements.
    pub length: u64,
    /// Whether a kernel reads or writes it.
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
    /// In the unit of the output; decides where the reference is near zero.
    pub absolute: f64,
    /// As a fraction of the reference's magnitude.
    pub relative: f64,
}
