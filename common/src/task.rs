//! What is the same for all candidates of a problem that a device evaluates: its buffers and the answer.

use serde::{Deserialize, Serialize};

use crate::artifact::{ArtifactRef, Built, Launch};
use crate::digest::Digest;
use crate::problem::DataType;
use crate::wire::{Body, Message, WireError};

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
    const VERSION: u8 = 3;
    const NAME: &'static str = "task";

    /// What a task of an older version has is written as it always was.
    fn version(&self) -> u8 {
        self.oldest_version()
    }

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        (1..Self::VERSION).contains(&version).then(|| body.read::<Self, Self>())
    }
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
    /// The first version of messages that can say all of it.
    pub(crate) fn oldest_version(&self) -> u8 {
        let of_buffer = |buffer: &Buffer| match (buffer.role, buffer.content) {
            (_, Content::Drawn { .. } | Content::Steps { .. }) => 3,
            (Role::InOut, _) => 2,
            (_, Content::Random) if !DataType::OF_BUFFERS.contains(&buffer.data_type) => 1,
            _ => 2,
        };
        self.buffers.iter().map(of_buffer).fold(self.reference.version(), u8::max)
    }

    /// How many draws of its routing a run of a candidate computes, one after the other: it takes as many times as long as one. Outputs hold
    /// what the last one wrote, which is the draw that the reference computes.
    #[must_use]
    pub fn draws(&self) -> u32 {
        let draws = self.buffers.iter().map(|buffer| match buffer.content {
            Content::Drawn { draws, .. } => draws,
            _ => 1,
        });
        draws.max().unwrap_or(1).max(1)
    }

    /// The launches of `built` that compute the draw which is compared. A reference that is no candidate has no others.
    #[must_use]
    pub fn last_draw<'a>(&self, built: &'a Built) -> &'a [Launch] {
        let launches = built.launches.as_slice();
        let own = (launches.len() / self.draws() as usize).max(1).min(launches.len());
        if *built == self.reference { launches } else { launches.get(launches.len() - own..).unwrap_or(launches) }
    }

    /// The data that its buffers hold before a launch, or are made by, in the order of the buffers that have some.
    pub fn data(&self) -> impl Iterator<Item = (&Buffer, ArtifactRef)> {
        self.buffers.iter().filter_map(|buffer| match buffer.content {
            Content::Data(data) | Content::Drawn { data, .. } | Content::Rows { rows: data, .. } => {
                Some((buffer, data))
            }
            Content::Random | Content::Uniform { .. } | Content::Fill(_) | Content::Steps { .. } => None,
        })
    }

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
#[serde(from = "Written", into = "Written")]
pub struct Buffer {
    /// As the kernel spec has it, for messages.
    pub name: String,
    /// Of each element.
    pub data_type: DataType,
    /// Elements.
    pub length: u64,
    /// Whether a kernel reads or writes it.
    pub role: Role,
    /// What it holds before a launch, where it is read.
    pub content: Content,
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
    /// Only read.
    Input,
    /// Poisoned before the check, written by the kernel, compared with the reference.
    Output,
    /// Read and written: filled anew before each launch, compared with the reference.
    InOut,
}

impl Role {
    /// Whether a kernel may write it, so that it is compared with what the reference wrote.
    #[must_use]
    pub fn is_written(self) -> bool {
        self != Self::Input
    }
}

/// What a buffer that is read holds before a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Content {
    /// Random values: floats in \[-1, 1\], integers between -4 and 4, none of them zero.
    #[default]
    Random,
    /// Random values between these two, both included.
    Uniform {
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
    /// One value for all.
    Fill(f64),
    /// The elements, little endian: a blob of the Store.
    Data(ArtifactRef),
    /// Rows of a buffer before it. One that is not there holds zeros.
    Rows {
        /// Index of the buffer.
        of: u16,
        /// Which rows, in their order: INT32, little endian, a blob of the Store.
        rows: ArtifactRef,
        /// Elements of a row.
        row: u32,
    },
    /// The elements of several draws of a routing, one after the other, the one that is compared first: a blob of the Store.
    Drawn {
        /// As those of [`Content::Data`].
        data: ArtifactRef,
        /// How many there are.
        draws: u32,
    },
    /// Whole numbers that ascend, as places where rows begin.
    Steps {
        /// The first.
        first: i64,
        /// How much each is more than the one before.
        step: u32,
    },
}

/// A buffer as it is written: what the first version could say has its bytes.
#[derive(Serialize, Deserialize)]
struct Written {
    name: String,
    data_type: DataType,
    length: u64,
    role: WrittenRole,
}

#[derive(Serialize, Deserialize)]
enum WrittenRole {
    Input,
    Output,
    InOut(Content),
    Filled(Content),
}

impl From<Buffer> for Written {
    fn from(buffer: Buffer) -> Self {
        let Buffer { name, data_type, length, role, content } = buffer;
        let role = match (role, content) {
            (Role::Output, _) => WrittenRole::Output,
            (Role::Input, Content::Random) => WrittenRole::Input,
            (Role::Input, content) => WrittenRole::Filled(content),
            (Role::InOut, content) => WrittenRole::InOut(content),
        };
        Self { name, data_type, length, role }
    }
}

impl From<Written> for Buffer {
    fn from(Written { name, data_type, length, role }: Written) -> Self {
        let (role, content) = match role {
            WrittenRole::Input => (Role::Input, Content::Random),
            WrittenRole::Output => (Role::Output, Content::Random),
            WrittenRole::InOut(content) => (Role::InOut, content),
            WrittenRole::Filled(content) => (Role::Input, content),
        };
        Self { name, data_type, length, role, content }
    }
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
