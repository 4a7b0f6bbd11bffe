//! The loop of a worker: takes deliveries of a queue while there is room for what becomes of them, each in a task of its own, and
//! drains when it is told to end or it is time to leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::{Context, Intake, Role, live};
use crate::broker::BrokerError;

/// What handing back takes at most, once the grace period of a drain is over.
const LAST_CALL: Duration = Duration::from_secs(5);

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
                intake.proven();
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
    tracing::info!("grace period is over; handing back what is in flight");
    context.patience.expired.cancel();
    if timeout(LAST_CALL, &mut rest).await.is_err() {
        // Their deliveries are dropped with them, so the broker gives them to others.
        tracing::warn!("not all was handed back in time; the broker delivers it again");
    }
}
