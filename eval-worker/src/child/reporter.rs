//! The child's voice.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::time::{Duration, Instant};

use bluefin_common::outcome::{Failure, FailureKind};
use bluefin_common::wire;

use crate::protocol::{Activity, FrameError, Reply, write_frame};

/// How often a parent is told that the same activity goes on.
const BEAT: Duration = Duration::from_millis(250);

/// Sends replies.
pub(super) struct Reporter {
    replies: RefCell<File>,
    /// What the parent was told last, and when.
    last: Cell<Option<(Activity, Instant)>>,
}

impl Reporter {
    pub(super) fn new(replies: File) -> Self {
        Self { replies: RefCell::new(replies), last: Cell::new(None) }
    }

    /// Sends an answer.
    pub(super) fn answer(&self, reply: &Reply) -> Result<(), FrameError> {
        self.last.set(None);
        write_frame(&mut *self.replies.borrow_mut(), &wire::encode(reply)?)
    }

    /// Tells the parent what this process is about to do, if that is new or was not said for a while.
    pub(super) fn working(&self, activity: Activity) -> Result<(), Failure> {
        let now = Instant::now();
        if self.last.get().is_some_and(|(last, when)| last == activity && now - when < BEAT) {
            return Ok(());
        }
        let sent = self.answer(&Reply::Working(activity));
        self.last.set(Some((activity, now)));
        // Nobody will read this.
        sent.map_err(|error| Failure::new(FailureKind::LaunchFailure, format!("parent: {error}")))
    }
}
