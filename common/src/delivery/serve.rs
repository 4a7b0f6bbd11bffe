//! The loop of a worker: takes deliveries of a queue while there is room for what becomes of them, each in a task of its own, and
//! drains when it is told to end or it is time to leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::pin::Pinned;
use super::{AtWork, Intake, Leaving, Patience, Role, live};
use crate::broker::{Broker, BrokerError};
use crate::metrics::PipelineMetrics;
use crate::roster::Presence;
use crate::standing::Standings;
use crate::store::Store;

/// As good as for ever.
const FOR_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// What handing back takes at most, once the grace period of a drain is over.
const LAST_CALL: Duration = Duration::from_secs(5);

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

/// Serves `queue` until the worker is to stop or to leave, or the broker is closed, then drains. Whatever ended it ends the worker:
/// the other queues of the context stop as well.
///
/// # Errors
/// If the queue can not be consumed.
pub async fn serve<R: Role>(role: &Arc<R>, queue: &str) -> Result<(), BrokerError> {
    let context = role.context();
    context.presence.takes_from(queue);
    let mut intake = Intake::new(&context.broker, queue, context.prefetch, context.endless());
    let mut tasks = JoinSet::new();
    let result = take(role, queue, &mut intake, &mut tasks).await;
    context.stop.cancel();
    intake.pause().await;
    drain(&mut tasks, context).await;
    result
}

async fn take<R: Role>(
    role: &Arc<R>,
    queue: &str,
    intake: &mut Intake,
    tasks: &mut JoinSet<()>,
) -> Result<(), BrokerError> {
    let Context { leaving, stop, patience, presence, .. } = role.context();
    let waiting = &patience.waiting;
    let (mut held_up, mut leaves, mut ready) = (false, false, false);
    loop {
        if held_up || leaves {
            intake.pause().await;
        } else if !intake.resume().await? {
            return Ok(());
        }
        if !ready {
            leaving.ready();
            ready = true;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            Some(done) = tasks.join_next() => if ended(done) {
                intake.proven().await;
            },
            // Of other queues of the worker too.
            () = leaving.nothing_in_hand(), if leaves => return Ok(()),
            () = async { role.goes_on().await; waiting.over().await }, if held_up => {
                presence.held_up(queue, None);
                held_up = false;
            },
            reason = role.held_up(), if !held_up => {
                presence.held_up(queue, Some(reason));
                held_up = true;
            },
            () = waiting.begins(), if !held_up => held_up = true,
            delivery = async { role.room().await; intake.next().await },
                if !held_up && !leaves && tasks.len() < intake.room() =>
            {
                let Some(delivery) = delivery else { return Ok(()) };
                let Some(in_hand) = leaving.take() else {
                    // Another queue had the last one. Where it can not be handed back, a drain waits no longer than it does.
                    tasks.spawn(async move {
                        if let Err(error) = delivery.hand_back(Duration::ZERO).await {
                            tracing::warn!(%error, "delivery not settled; it comes again");
                        }
                    });
                    leaves = true;
                    continue;
                };
                let (role, load) = (Arc::clone(role), role.load());
                let span = tracing::info_span!("job", message = delivery.message_id);
                let life = async move {
                    let trace = live(&*role, delivery).await;
                    tracing::trace!(?trace, "settled");
                    drop((load, in_hand));
                };
                tasks.spawn(life.instrument(span));
            }
            // Last: who is slow to look has not waited in vain.
            () = leaving.time(), if !leaves => {
                tracing::info!(queue, "it is time to leave: finishing what is under way");
                leaves = true;
            }
        }
    }
}

/// What became of a delivery's task; whether it got through. One that fell over loses its delivery, which comes again and is counted.
fn ended(done: Result<(), JoinError>) -> bool {
    done.inspect_err(|error| tracing::error!(%error, "a job was lost by its task")).is_ok()
}

/// Waits for what is in hand: for the grace period in peace; then patience expires, upon which it is handed back.
async fn drain(tasks: &mut JoinSet<()>, context: &Context) {
    let rest = async {
        while let Some(done) = tasks.join_next().await {
            ended(done);
        }
    };
    tokio::pin!(rest);
    if timeout(context.grace, &mut rest).await.is_ok() {
        return;
    }
    tracing::warn!("grace period is over; handing back what is in flight");
    context.patience.expired.cancel();
    if timeout(LAST_CALL, &mut rest).await.is_err() {
        // Their deliveries are dropped with them, so the broker gives them to others.
        tracing::warn!("not all was handed back in time; the broker delivers it again");
    }
}
