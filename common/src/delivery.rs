//! What every worker does with a delivery before it knows the job in it.

use std::time::Duration;

use crate::broker::Delivery;
use crate::metrics::PipelineMetrics;
use crate::wire::{self, Message, WireError};

/// Before a message of another version of bluefin is offered again: until the fleet is upgraded.
const OTHER_VERSION: Duration = Duration::from_secs(25);

/// The message in `delivery`, which is then the caller's to settle. One of another version of bluefin is handed back at no cost,
/// for a worker of that version; what no version wrote goes to the dead letters. Both are logged, and come to `None`.
pub async fn open<M: Message>(delivery: Delivery, metrics: Option<&PipelineMetrics>) -> Option<(M, Delivery)> {
    let error = match wire::decode(&delivery.body) {
        Ok(message) => return Some((message, delivery)),
        Err(error) => error,
    };
    let (message, queue) = (delivery.message_id.clone(), delivery.queue.clone());
    let settled = if let WireError::Version { .. } = error {
        tracing::error!(message, queue, %error, "handed back to workers of that version");
        delivery.hand_back(OTHER_VERSION).await
    } else {
        tracing::error!(message, queue, %error, "no job; to the dead letters");
        if let Some(metrics) = metrics {
            metrics.undecodable();
        }
        delivery.dead(&error.to_string()).await
    };
    if let Err(error) = settled {
        tracing::warn!(message, %error, "delivery not settled; it comes again");
    }
    None
}
