//! What a device did before. Where a reference takes its child down, that tells whether the device is at fault: AMD's GPUs may keep memory
//! and fill it while no kernel ends any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// It was not made ready again when that was tried.
    pub(super) doubted: bool,
}

impl Proven {
    /// The device made the task of `request` ready.
    pub(super) fn note(&self, request: &Request, frames: &[&Bytes]) {
        if frames.iter().map(|frame| frame.len()).sum::<usize>() <= LARGEST {
            let frames = frames.iter().copied().cloned().collect();
            *self.lock() = Some(Ready { request: request.clone(), frames, doubted: false });
        }
    }

    /// What it did last.
    pub(super) fn last(&self) -> Option<Ready> {
        self.lock().clone()
    }

    /// Whether that was done again, when it was tried.
    pub(super) fn tried(&self, works: bool) {
        if let Some(ready) = &mut *self.lock() {
            ready.doubted = !works;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ready>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
