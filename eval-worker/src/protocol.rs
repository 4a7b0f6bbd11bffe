//! What the worker and its child say to each other: frames of a length (u32, little endian) and that many bytes. A frame
//! is a [`Request`] or a [`Reply`] in its wire envelope, or the plain bytes of an artifact that a request announced.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::AddAssign;
use std::time::Duration;

use bluefin_common::artifact::Built;
use bluefin_common::failure::Attempt;
use bluefin_common::outcome::{DeviceState, Resources, Timing};
use bluefin_common::task::Task;
use bluefin_common::wire::{self, Message, WireError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::timing::Limits;

/// Largest frame, in bytes: bounds what a length may make the reader allocate.
pub const MAX_FRAME: usize = 256 << 20;

/// From the worker to its child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The first request.
    Start { cpus: Cpus },
    /// Compiles code into what the device loads at once. One frame follows: the code.
    Translate,
    /// Makes `task` the current one. Frames follow: the reference's artifact, then the data of its buffers, as [`Task::data`] names it.
    Prepare { task: Task, seed: u64, limits: Limits },
    /// Checks and times candidates of the current task one after the other. Their artifacts follow, a frame each.
    Evaluate { candidates: Vec<Built>, incumbent_ms: Option<f64>, limits: Limits },
    /// Checks candidates of the current task and times them against each other. Their artifacts follow, a frame each.
    /// `careful`: one sample at a time, so that it is known whose failure it was if there is one.
    PlayOff { candidates: Vec<Built>, seed: u64, careful: bool, limits: Limits },
}

/// From the child to its worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Start`]: the device works.
    Started { device: Identity },
    /// To [`Request::Translate`]; `None` if the code is to be loaded as it is.
    Translated { image: Option<Vec<u8>> },
    /// What the child does from now on; proof that it is alive, and known by its parent when it dies.
    Working(Activity),
    /// What a candidate of [`Request::Evaluate`] or [`Request::PlayOff`] takes of the device, before it runs.
    Loaded { candidate: u32, resources: Resources },
    /// To [`Request::Evaluate`] and [`Request::PlayOff`]: what came of a candidate. It is not lost if a later one takes the
    /// child down.
    Evaluated {
        candidate: u32,
        result: Attempt<Timing>,
        spent: Spent,
        /// What a spin took, in milliseconds, where the device was warmed up: the same work each time.
        spin_ms: Option<f64>,
    },
    /// To [`Request::Prepare`]: how the reference ran. `tainted` as in [`Reply::Done`].
    Prepared { result: Attempt<Ready>, tainted: bool, spent: Spent },
    /// The end of [`Request::Evaluate`] and [`Request::PlayOff`]. Candidates without a result were not reached, or were timed
    /// together when that failed.
    Done {
        /// Something wrote where it should not have, or broke the device: this process is not to be trusted with another
        /// candidate.
        tainted: bool,
        /// The device right after the last one.
        state: DeviceState,
        spent: Spent,
    },
}

/// How a reference ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What its first run took.
    pub first_run: Duration,
    /// Outputs in which a second run with the same inputs differed.
    pub nondeterministic: Vec<String>,
}

/// Which CPUs a child runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cpus {
    /// This one, or the last one allowed: samples are best taken on one CPU.
    One(Option<u32>),
    /// All but those, which are others' to take samples on.
    Spare { taken: Vec<u32> },
}

/// Where the time of a child went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Making inputs, allocating, running references.
    pub prepare: Duration,
    /// Loading candidates.
    pub load: Duration,
    /// Their first runs, and what came of them.
    pub check: Duration,
    pub warm_up: Duration,
    /// Samples, and pauses between them.
    pub time: Duration,
    /// The part of check and time in which the device had something of a candidate to do.
    pub device: Duration,
    /// The part of that which the device says its samples took.
    pub samples: Duration,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.prepare += other.prepare;
        self.load += other.load;
        self.check += other.check;
        self.warm_up += other.warm_up;
        self.time += other.time;
        self.device += other.device;
        self.samples += other.samples;
    }
}

/// Which device a child has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Model and what else shapes its times.
    pub name: String,
    /// What it runs code for, as text.
    pub target: String,
    /// Empty where the device has none.
    pub uuid: String,
    /// Versions of its driver and of the library above; empty where it tells none.
    pub driver: String,
}

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub phase: Phase,
    /// Index of the candidate within its request; `None`: several of them.
    pub candidate: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Load,
    /// Its first run, or one more where something is wrong: the device does nothing else.
    Check,
    /// What it wrote is held against the answer.
    Compare,
    Time,
}

/// For failure details: "while it was loaded".
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "while it was loaded",
            Self::Check => "in its first run",
            Self::Compare => "while its results were compared",
            Self::Time => "while it was timed",
        })
    }
}

impl Message for Request {
    const KIND: u8 = 32;
    const VERSION: u8 = 4;
    const NAME: &'static str = "request to a device's child process";
}

impl Message for Reply {
    const KIND: u8 = 33;
    const VERSION: u8 = 4;
    const NAME: &'static str = "reply of a device's child process";
}

/// What goes wrong on the pipes.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("frame: found {0} bytes, expected at most {MAX_FRAME}")]
    Size(usize),
}

fn length(bytes: usize) -> Result<u32, FrameError> {
    u32::try_from(bytes).ok().filter(|_| bytes <= MAX_FRAME).ok_or(FrameError::Size(bytes))
}

/// Writes a frame and flushes.
pub fn write_frame(out: &mut impl Write, bytes: &[u8]) -> Result<(), FrameError> {
    out.write_all(&length(bytes.len())?.to_le_bytes())?;
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Reads a frame; `None` at the end of the stream.
pub fn read_frame(input: &mut impl Read) -> Result<Option<Vec<u8>>, FrameError> {
    let mut head = [0; 4];
    match input.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let bytes = length(u32::from_le_bytes(head) as usize)?;
    let mut frame = Vec::new();
    input.take(u64::from(bytes)).read_to_end(&mut frame)?;
    if frame.len() != bytes as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(frame))
}

/// Sends a message, then plain frames.
pub async fn send(
    out: &mut (impl AsyncWrite + Unpin),
    request: &Request,
    artifacts: &[&[u8]],
) -> Result<(), FrameError> {
    let message = wire::encode(request)?;
    for frame in std::iter::once(message.as_slice()).chain(artifacts.iter().copied()) {
        out.write_all(&length(frame.len())?.to_le_bytes()).await?;
        out.write_all(frame).await?;
    }
    Ok(out.flush().await?)
}

/// Receives a message; `None` at the end of the stream.
pub async fn receive(input: &mut (impl AsyncRead + Unpin)) -> Result<Option<Reply>, FrameError> {
    let head = match input.read_u32_le().await {
        Ok(head) => head,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes = length(head as usize)?;
    let mut frame = Vec::new();
    input.take(u64::from(bytes)).read_to_end(&mut frame).await?;
    if frame.len() != bytes as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(wire::decode(&frame)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"bluefin").unwrap();
        write_frame(&mut pipe, b"").unwrap();
        let mut input = pipe.as_slice();
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), b"bluefin");
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), b"");
        assert!(read_frame(&mut input).unwrap().is_none());
    }

    #[test]
    fn hostile_frames() {
        assert!(matches!(read_frame(&mut [0xFF; 8].as_slice()), Err(FrameError::Size(_))));
        assert!(matches!(read_frame(&mut [9, 0, 0, 0, 1].as_slice()), Err(FrameError::Io(_))));
    }

    #[tokio::test]
    async fn both_ends_agree() {
        let request = Request::Start { cpus: Cpus::One(Some(3)) };
        let mut pipe = Vec::new();
        send(&mut pipe, &request, &[b"code"]).await.unwrap();
        let mut input = pipe.as_slice();
        let message = read_frame(&mut input).unwrap().unwrap();
        assert_eq!(wire::decode::<Request>(&message).unwrap(), request);
        assert_eq!(read_frame(&mut input).unwrap().unwrap(), b"code");

        let reply = Reply::Working(Activity { phase: Phase::Check, candidate: Some(7) });
        let mut pipe = Vec::new();
        write_frame(&mut pipe, &wire::encode(&reply).unwrap()).unwrap();
        let mut input = pipe.as_slice();
        assert_eq!(receive(&mut input).await.unwrap(), Some(reply));
        assert_eq!(receive(&mut input).await.unwrap(), None);
        assert!(matches!(receive(&mut b"\x03\0\0\0abc".as_slice()).await, Err(FrameError::Wire(_))));
        // Whoever was killed in between ended, and did not talk nonsense.
        let cut = receive(&mut b"\x04\0\0\0abc".as_slice()).await;
        assert!(matches!(cut, Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof));
    }
}
