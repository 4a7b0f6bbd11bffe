//! The states of a delivery, and what follows from what happens in each: one table, which [`live`](super::live) goes by and
//! tests walk through.

use super::Halt;

/// Where a delivery is on its way through a worker: what is done with it next, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its message is read.
    Decode,
    /// The process makes sure that it does not work on it already.
    TakeUp,
    /// Its session is looked at: does it run?
    Steer,
    /// The store is asked for its outcome.
    LookUp,
    /// Its session is pinned to the versions of this worker.
    Pin,
    /// It waits for its turn, and is counted if it is a suspect.
    Turn,
    /// The job is done.
    Work,
    /// What came of it is made to last.
    Store,
    /// What worked on it was killed, which is counted.
    Suspect,
    /// Its outcome says that it is given up.
    GiveUp,
    /// Acknowledged: what it caused is durable.
    Done,
    /// Acknowledged: there was nothing to do.
    Skipped,
    /// In its queue again, at no cost.
    HandedBack,
    /// Among the dead letters.
    Dead,
}

/// What came of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// It is done with, and went well.
    Passes,
    /// [`Halt::NothingToDo`].
    NothingToDo,
    /// [`Halt::Later`].
    Later,
    /// [`Halt::Hopeless`].
    Hopeless,
    /// [`Halt::Suspect`].
    Suspect,
}

impl State {
    /// The first is where a delivery begins.
    pub const ALL: [Self; 14] = [
        Self::Decode,
        Self::TakeUp,
        Self::Steer,
        Self::LookUp,
        Self::Pin,
        Self::Turn,
        Self::Work,
        Self::Store,
        Self::Suspect,
        Self::GiveUp,
        Self::Done,
        Self::Skipped,
        Self::HandedBack,
        Self::Dead,
    ];

    /// The state that follows; `None` where that can not happen.
    ///
    /// A job is counted as begun after it was pinned: handed back by a worker that is not what its session wants, it was never
    /// worked on, so it can not have killed anybody, and nobody waits until such a suspect has a worker for itself.
    #[must_use]
    pub fn after(self, event: Event) -> Option<Self> {
        use Event::{Hopeless, Later, NothingToDo, Passes};
        Some(match (self, event) {
            (Self::Decode, Passes) => Self::TakeUp,
            (Self::Decode, Hopeless) => Self::Dead,
            (Self::TakeUp, Passes) => Self::Steer,
            (Self::Steer, Passes) => Self::LookUp,
            (Self::LookUp, Passes) => Self::Pin,
            (Self::Steer | Self::LookUp | Self::Work, NothingToDo) => Self::Skipped,
            (Self::Pin, Passes) => Self::Turn,
            (Self::Turn, Passes) => Self::Work,
            (Self::Work, Passes) => Self::Store,
            (Self::Work, Event::Suspect) => Self::Suspect,
            // What is stored, or what follows from it, may be too large for its envelope.
            (Self::Pin | Self::Turn | Self::Work | Self::Store | Self::Suspect, Hopeless) => Self::GiveUp,
            (Self::Store, Passes) => Self::Done,
            // A session does not wait for what is among the dead letters: its outcome is there first, if there can be one.
            (Self::GiveUp, Passes | Hopeless) => Self::Dead,
            (state, Later) if !state.is_end() => Self::HandedBack,
            _ => return None,
        })
    }

    /// Whether the delivery is settled now.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Skipped | Self::HandedBack | Self::Dead)
    }
}

impl Event {
    /// Everything that may happen.
    pub const ALL: [Self; 5] = [Self::Passes, Self::NothingToDo, Self::Later, Self::Hopeless, Self::Suspect];

    pub(super) fn of(result: &Result<(), Halt>) -> Self {
        match result {
            Ok(()) => Self::Passes,
            Err(Halt::NothingToDo) => Self::NothingToDo,
            Err(Halt::Later(_)) => Self::Later,
            Err(Halt::Hopeless(_)) => Self::Hopeless,
            Err(Halt::Suspect(_)) => Self::Suspect,
        }
    }
}
