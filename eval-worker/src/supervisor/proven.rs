//! What a device did before. Where a reference takes its child down, that tells whether the device is at fault: AMD's GPUs may keep memory
//! and fill it while no kernel ends any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::protocol::Request;

/// Bytes of frames, beyond which a task is not kept.
const LARGEST: usize = 16 << 20;

/// The last task that a device made ready, if it is small. Clones share it: it outlives the device's children.
#[derive(Clone, Debug, Default)]
pub struct Proven(Arc<Mutex<Option<Ready>>>);

/// A task that was made ready.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) request: Request,
    pub(super) frames: Vec<Bytes>,
    /// How long that took.
    pub(super) took: Duration,
}

impl Proven {
    /// The device made the task of `request` ready in the time `took`.
    pub(super) fn note(&self, request: &Request, frames: &[&Bytes], took: Duration) {
        if frames.iter().map(|frame| frame.len()).sum::<usize>() <= LARGEST {
            let frames = frames.iter().copied().cloned().collect();
            *self.lock() = Some(Ready { request: request.clone(), frames, took });
        }
    }

    /// What it did last.
    pub(super) fn last(&self) -> Option<Ready> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ready>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
