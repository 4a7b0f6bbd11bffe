//! What is wrong with a device.

use std::ffi::OsString;

use crate::protocol::Identity;

/// The device can not be used at all, whatever the candidate.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("child process {command:?}: {reason}")]
    Start { command: OsString, reason: String },
    #[error("the device does not answer: its child was {reason}")]
    Silent { reason: String },
    #[error("process {pid} can not be killed: it waits in the kernel for a device that does not answer")]
    Stuck { pid: u32 },
    #[error("device: found {found:?}, expected {expected:?}")]
    Changed { found: Box<Identity>, expected: Box<Identity> },
    #[error("device: gone, or not to be used any more: {reason}")]
    Lost { reason: String },
    /// Though its memory works.
    #[error("the device no longer does what it did before: {how}")]
    Broken { how: String },
    #[error(
        "the kernel killed the device's child process for want of memory, which is no candidate's fault: {short_of}. Allow \
         more memory, or run less beside it, such as fewer compilers"
    )]
    Killed { short_of: String },
    /// Again and again, with the same work at hand.
    #[error("somebody else ended the device's child process: it was {how}")]
    Ended { how: String },
}
