//! The process group of a child: ended as a whole, so that nothing that it started outlives it.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The signal that ended a process, if it is one that others send: a service manager, an administrator, whoever guards the
/// memory. A program that fails by itself gets others.
#[must_use]
pub fn ended_from_outside(status: ExitStatus) -> Option<Signal> {
    let signal = status.signal().and_then(Signal::from_named_raw)?;
    [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal).then_some(signal)
}

/// The numbers of those that are to be killed when this process ends.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Kills what is in all process groups that there are, for a process that ends at once and drops nothing.
pub fn kill_all() {
    for group in groups().iter().filter_map(|number| Pid::from_raw(*number)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process group that is killed when this is dropped, also if the future that has it is.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group that the child of that number leads, which was started with `process_group(0)`. Nothing for one that has ended.
    #[must_use]
    pub fn of(child: Option<u32>) -> Self {
        let leader = child.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        groups().extend(leader.map(|leader| leader.as_raw_nonzero().get()));
        Self(leader)
    }

    /// The number of its leader.
    #[must_use]
    pub fn leader(&self) -> Option<Pid> {
        self.0
    }

    /// Kills whatever is in it.
    pub fn kill(&self) {
        if let Some(group) = self.0 {
            // It may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Kills nothing any more: its leader was waited for, so that its number may be another group's from now on.
    pub fn disarm(&mut self) {
        if let Some(leader) = self.0.take() {
            groups().remove(&leader.as_raw_nonzero().get());
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        self.disarm();
    }
}
