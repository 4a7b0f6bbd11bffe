//! Looks at the store now and then, once for all who look at the dashboard, and remembers what is not in the store: how fast things
//! went, and what happened.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bluefin_common::store::Store;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::feed::{Event, Feed};
use super::found::{Found, gather};
use super::history::{History, Point, STEP_MS};
use super::{Around, REACH};

/// Between two looks while somebody looks.
const WATCHED: Duration = Duration::from_secs(2);
/// And while nobody does.
const ALONE: Duration = Duration::from_millis(STEP_MS);

/// What a look came to.
pub struct Look {
    made: Instant,
    /// Why there is nothing in words.
    pub found: Result<Found, String>,
    pub points: Vec<Point>,
    pub events: Vec<Event>,
    /// Candidates a minute, and over how many milliseconds.
    pub rate: Option<(f64, u64)>,
    pub paces: Paces,
}

/// What is said of single sessions and workers beside what was found.
#[derive(Default)]
pub struct Paces {
    /// For each session that was found.
    pub sessions: Vec<Pace>,
    /// For each worker: how much of the last minutes it worked, in percent.
    pub workers: Vec<Option<f64>>,
}

/// How fast a session goes.
#[derive(Default)]
pub struct Pace {
    /// Candidates at each step of the last hour.
    pub steps: Vec<u64>,
    /// Milliseconds until it is done.
    pub left_ms: Option<u64>,
    /// Work is left, and somebody is at it.
    pub goes_on: bool,
    /// Work is left, and nobody is at it.
    pub waits: bool,
}

/// The one who looks.
pub struct Watch {
    store: Arc<dyn Store>,
    around: Arc<dyn Around>,
    looks: watch::Sender<Option<Arc<Look>>>,
    asked: Notify,
    memory: Mutex<(History, Feed)>,
}

impl Watch {
    pub fn new(store: Arc<dyn Store>, around: Arc<dyn Around>) -> Self {
        Self { store, around, looks: watch::Sender::new(None), asked: Notify::new(), memory: Mutex::default() }
    }

    /// Looks for as long as it is polled.
    pub async fn run(&self) {
        loop {
            self.look().await;
            let rest = if self.looks.receiver_count() > 0 { WATCHED } else { ALONE };
            let _ = timeout(rest, self.asked.notified()).await;
        }
    }

    /// Every look from now on, and the last.
    pub fn looks(&self) -> watch::Receiver<Option<Arc<Look>>> {
        let looks = self.looks.subscribe();
        self.asked.notify_one();
        looks
    }

    /// What is so now.
    pub async fn now(&self) -> Option<Arc<Look>> {
        let mut looks = self.looks.subscribe();
        let fresh = |look: &Option<Arc<Look>>| look.as_ref().is_some_and(|look| look.made.elapsed() < WATCHED);
        if !fresh(&looks.borrow_and_update()) {
            self.asked.notify_one();
            looks.wait_for(fresh).await.ok()?;
        }
        looks.borrow().clone()
    }

    async fn look(&self) {
        let found = match timeout(REACH, gather(&*self.store, &*self.around)).await {
            Ok(found) => found.map_err(|error| error.to_string()),
            Err(_) => Err(format!("store: no answer within {} s", REACH.as_secs())),
        };
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (history, feed) = &mut *memory;
        let mut paces = Paces::default();
        if let Ok(found) = &found {
            history.take(found);
            feed.take(found);
            for (session, progress) in &found.sessions {
                let (done, planned) = super::found::jobs(progress);
                let left = planned.saturating_sub(done);
                let left_ms = if progress.is_settled() { None } else { history.left_ms(&session.name, left) };
                let is_open = found.is_open(&session.name, progress);
                let goes_on = is_open && (found.has_worker(&session.name) || history.is_active(session, found.now_ms));
                let steps = history.steps(&session.name);
                paces.sessions.push(Pace { steps, left_ms, goes_on, waits: is_open && !goes_on });
            }
            paces.workers = found.workers.iter().map(|one| history.share(&one.worker, &one.serves)).collect();
        }
        let (points, events) = (history.points.iter().cloned().collect(), feed.events.iter().cloned().collect());
        let look = Look { made: Instant::now(), found, points, events, rate: history.rate(), paces };
        self.looks.send_replace(Some(Arc::new(look)));
    }
}
