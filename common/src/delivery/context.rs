//! What the deliveries of a worker have in common.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pin::Pinned;
use super::{AtWork, Leaving, Patience};
use crate::broker::Broker;
use crate::metrics::PipelineMetrics;
use crate::roster::Presence;
use crate::standing::Standings;
use crate::store::Store;

/// As good as for ever.
const FOR_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What the deliveries of a worker share, whatever queue they come from.
pub struct Context {
    /// Where deliveries come from, and what follows from them goes.
    pub broker: Arc<dyn Broker>,
    /// Where sessions and outcomes are.
    pub store: Arc<dyn Store>,
    /// What becomes of deliveries is counted there.
    pub metrics: PipelineMetrics,
    /// What the worker has in hand is said there.
    pub presence: Presence,
    /// Which sessions take the worker.
    pub pinned: Pinned,
    /// How sessions stand.
    pub standings: Standings,
    /// What the process works on: its workers share this.
    pub at_work: AtWork,
    /// When the worker ends by itself.
    pub leaving: Leaving,
    /// With a job in hand. It has expired when the grace period of a drain is over; nothing is taken while it is waited for anything.
    pub patience: Patience,
    /// Nothing is taken, and no job is begun any more.
    pub stop: CancellationToken,
    /// Deliveries of one queue that are in hand at a time, at most.
    pub prefetch: u16,
    /// What is in hand when a drain begins may take this long to end.
    pub grace: Duration,
}

impl Context {
    /// For the broker and the store while nothing is in hand: there is nothing else to do than to wait.
    #[must_use]
    pub fn endless(&self) -> Patience {
        Patience { limit: FOR_YEARS, expired: self.stop.clone(), ..self.patience.clone() }
    }
}
