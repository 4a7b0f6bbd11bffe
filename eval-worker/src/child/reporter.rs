//! The child's voice, and its book on where its time went.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::time::{Duration, Instant};

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::outcome::Resources;
use bluefin_common::wire;

use crate::protocol::{Activity, FrameError, Phase, Reply, Spent, write_frame};

/// How often a parent is told that the same activity goes on.
const BEAT: Duration = Duration::from_millis(250);

/// Sends replies.
pub(super) struct Reporter {
    replies: RefCell<File>,
    /// What the parent was told last, and when.
    last: Cell<Option<(Activity, Instant)>>,
    /// What time is spent on now, and since when.
    part: Cell<Option<(Part, Instant)>>,
    spent: Cell<Spent>,
}

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Prepare,
    Phase(Phase),
    WarmUp,
}

impl Reporter {
    pub(super) fn new(replies: File) -> Self {
        Self { replies: RefCell::new(replies), last: Cell::new(None), part: Cell::new(None), spent: Cell::default() }
    }

    /// Sends an answer.
    pub(super) fn answer(&self, reply: &Reply) -> Result<(), FrameError> {
        self.last.set(None);
        write_frame(&mut *self.replies.borrow_mut(), &wire::encode(reply)?)
    }

    /// Tells the parent what this process is about to do, if that is new or was not said for a while.
    pub(super) fn working(&self, activity: Activity) -> Result<(), Failure> {
        // The steps of a reference are a part of its task's preparation, and spins are no samples.
        if self.part.get().is_none_or(|(part, _)| !matches!(part, Part::Prepare | Part::WarmUp)) {
            self.enter(Some(Part::Phase(activity.phase)));
        }
        let now = Instant::now();
        if self.last.get().is_some_and(|(last, when)| last == activity && now - when < BEAT) {
            return Ok(());
        }
        let sent = self.answer(&Reply::Working(activity));
        self.last.set(Some((activity, now)));
        // Nobody will read this.
        sent.map_err(|error| Failure::new(FailureKind::LaunchFailure, format!("parent: {error}")))
    }

    /// Tells the parent what a candidate takes of the device.
    pub(super) fn loaded(&self, candidate: u32, resources: Resources) -> Result<(), Failure> {
        let sent = self.answer(&Reply::Loaded { candidate, resources });
        sent.map_err(|error| Failure::new(FailureKind::LaunchFailure, format!("parent: {error}")))
    }

    /// From now on time is spent on `part`.
    pub(super) fn enter(&self, part: Option<Part>) {
        let now = Instant::now();
        let Some((last, since)) = self.part.replace(part.map(|part| (part, now))) else { return };
        let mut spent = self.spent.get();
        let account = match last {
            Part::Prepare => &mut spent.prepare,
            Part::WarmUp => &mut spent.warm_up,
            Part::Phase(Phase::Load) => &mut spent.load,
            Part::Phase(Phase::Check | Phase::Compare) => &mut spent.check,
            Part::Phase(Phase::Time) => &mut spent.time,
        };
        *account += now - since;
        self.spent.set(spent);
    }

    /// Does what the device has to do for a candidate.
    pub(super) fn on_device<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let mut spent = self.spent.get();
        spent.device += start.elapsed();
        self.spent.set(spent);
        done
    }

    /// The device says that its last samples took this long.
    pub(super) fn sampled(&self, all_ms: f64) {
        let mut spent = self.spent.get();
        spent.samples += Duration::try_from_secs_f64(all_ms / 1000.0).unwrap_or_default();
        self.spent.set(spent);
    }

    /// Where the time went since the last call.
    pub(super) fn take_spent(&self) -> Spent {
        self.enter(None);
        self.spent.take()
    }
}
