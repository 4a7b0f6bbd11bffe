//! What a worker waits for that is no job's fault: everything that stands still says so here, in one place that the loop, the
//! log, `/ready` and the metrics look at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Before the log says again that something is waited for.
const SAY_EVERY: Duration = Duration::from_secs(30);

/// What may be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// The queues: not reachable, full, or refusing.
    Broker,
    /// The store of what lasts, or of artifacts.
    Store,
    /// This machine: its disk, memory, compiler or device.
    Machine,
}

impl On {
    /// Everything that may be waited for; each has a series in the metrics.
    pub const ALL: [Self; 3] = [Self::Broker, Self::Store, Self::Machine];

    /// Value of the label `on`, and what the log says.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Store => "store",
            Self::Machine => "machine",
        }
    }
}

/// Everything that one worker waits for. Clones share it.
#[derive(Clone, Debug)]
pub struct Waiting(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waits: Mutex<BTreeMap<On, Wait>>,
    /// How many things are waited for.
    changed: watch::Sender<usize>,
    /// What this is a part of.
    whole: Option<Waiting>,
}

#[derive(Debug)]
struct Wait {
    /// Tasks that wait.
    tasks: usize,
    since: Instant,
    said: Instant,
    reason: String,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::within(None)
    }
}

impl Waiting {
    fn within(whole: Option<Self>) -> Self {
        Self(Arc::new(Inner { waits: Mutex::default(), changed: watch::Sender::new(0), whole }))
    }

    /// What one of several workers of a process waits for: all of it is waited for here as well, and nothing of what others do.
    #[must_use]
    pub fn part(&self) -> Self {
        Self::within(Some(self.clone()))
    }

    /// Where it is said what holds up one job or queue, and not all of them: the whole that this is a part of.
    #[must_use]
    pub fn aside(&self) -> &Self {
        self.0.whole.as_ref().unwrap_or(self)
    }

    /// Waits for `on` until the guard is dropped. Said in the log once for all tasks that do so, and again every half a minute.
    #[must_use]
    pub fn on(&self, on: On, reason: impl Into<String>) -> Guard {
        let (reason, now) = (reason.into(), Instant::now());
        let whole = self.0.whole.as_ref().map(|whole| Box::new(whole.on(on, reason.clone())));
        let mut waits = self.waits();
        let wait = waits.entry(on).or_insert_with(|| {
            if whole.is_none() {
                tracing::warn!(on = on.name(), reason, "waiting; nothing is lost, and nothing new is taken");
            }
            Wait { tasks: 0, since: now, said: now, reason: String::new() }
        });
        wait.tasks += 1;
        wait.reason = reason;
        self.0.changed.send_replace(waits.len());
        Guard { waiting: self.clone(), on, whole }
    }

    /// Returns once something is waited for.
    pub async fn begins(&self) {
        let _ = self.0.changed.subscribe().wait_for(|waits| *waits > 0).await;
    }

    /// Returns once nothing is waited for.
    pub async fn over(&self) {
        // The sender is as old as this.
        let _ = self.0.changed.subscribe().wait_for(|waits| *waits == 0).await;
    }

    /// Whether anything is waited for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waits().is_empty()
    }

    /// For how long `on` has been waited for; zero if it is not.
    #[must_use]
    pub fn lasts(&self, on: On) -> Duration {
        self.waits().get(&on).map(|wait| wait.since.elapsed()).unwrap_or_default()
    }

    /// What is waited for and why, for people; `None` if nothing is.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let waits = self.waits();
        let said: Vec<_> =
            waits.iter().map(|(on, wait)| format!("waiting for the {}: {}", on.name(), wait.reason)).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    fn still(&self, on: On, reason: String) {
        if let Some(wait) = self.waits().get_mut(&on) {
            wait.reason = reason;
            if self.0.whole.is_none() && wait.said.elapsed() >= SAY_EVERY {
                wait.said = Instant::now();
                let (seconds, tasks) = (wait.since.elapsed().as_secs(), wait.tasks);
                tracing::warn!(on = on.name(), reason = wait.reason, seconds, tasks, "still waiting");
            }
        }
    }

    fn done(&self, on: On) {
        let mut waits = self.waits();
        if let Some(wait) = waits.get_mut(&on) {
            wait.tasks = wait.tasks.saturating_sub(1);
            if wait.tasks == 0 {
                if self.0.whole.is_none() {
                    tracing::info!(
                        on = on.name(),
                        seconds = wait.since.elapsed().as_secs(),
                        "waited for, and there again"
                    );
                }
                waits.remove(&on);
            }
        }
        self.0.changed.send_replace(waits.len());
    }

    fn waits(&self) -> MutexGuard<'_, BTreeMap<On, Wait>> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task waits for as long as it has one.
#[derive(Debug)]
pub struct Guard {
    waiting: Waiting,
    on: On,
    whole: Option<Box<Guard>>,
}

impl Guard {
    /// What is waited for.
    #[must_use]
    pub fn on(&self) -> On {
        self.on
    }

    /// It waits still, now for `reason`.
    pub fn still(&self, reason: impl Into<String>) {
        let reason = reason.into();
        if let Some(whole) = &self.whole {
            whole.still(reason.clone());
        }
        self.waiting.still(self.on, reason);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.waiting.done(self.on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_over_when_the_last_task_goes_on() {
        let waiting = Waiting::default();
        waiting.over().await;
        let first = waiting.on(On::Store, "away");
        let second = waiting.on(On::Store, "refuses");
        assert_eq!(waiting.reason().unwrap(), "waiting for the store: refuses");
        second.still("full");
        drop(first);
        assert!(!waiting.is_over() && waiting.reason().unwrap().ends_with("full"));
        assert!(waiting.lasts(On::Store) > Duration::ZERO && waiting.lasts(On::Broker) == Duration::ZERO);
        tokio::join!(waiting.over(), async { drop(second) });
        assert_eq!(waiting.reason(), None);
    }

    #[tokio::test]
    async fn a_part_waits_for_its_own() {
        let whole = Waiting::default();
        let (first, second) = (whole.part(), whole.part());
        let ((), guard) = tokio::join!(first.begins(), async { first.on(On::Machine, "disk full") });
        assert!(second.is_over() && !first.is_over());
        guard.still("disk read-only");
        assert_eq!(whole.reason().unwrap(), "waiting for the machine: disk read-only");
        drop(guard);
        assert!(whole.is_over() && first.is_over());
    }
}
