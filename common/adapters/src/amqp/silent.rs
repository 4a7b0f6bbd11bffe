//! Queues that are there in name alone.
//!
//! Seen with RabbitMQ 3.10.8, killed soon after a quorum queue was declared: the table of Raft members was not on disk yet, so the
//! queue comes back with a new member, without a log, that waits for ever for somebody to call an election. What it says of
//! itself is that it is empty, to be declared, bound and counted at once; nothing that is published to it is confirmed, and nobody
//! who consumes it is answered, also after further restarts. `queue.delete` ends it, after five seconds. One whose member can not
//! be started at all says that it is empty as well, and whoever consumes it loses the connection. RabbitMQ 4.0 has its table on
//! disk before it goes on.
//!
//! What such a queue is asked for is a message, which it has none of: so one that works is not disturbed. Each is asked, and made
//! anew, through a connection of its own, as the broker may end one over it.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use lapin::ErrorKind;
use lapin::options::{BasicGetOptions, BasicNackOptions, QueueDeleteOptions};
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::types::ShortString;
use tokio::time::{sleep_until, timeout};

use crate::amqp::Shared;
use crate::amqp::address::is_refusal;
use crate::amqp::session::{OpenError, Session};
use crate::amqp::topology::{Queue, with_delays};
use bluefin_common::broker::BrokerError;

/// Queues that are asked at a time.
const AT_A_TIME: usize = 8;

/// What there is to be said of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Answers,
    Silent,
    /// It is not there, or not for this user to ask.
    Unasked,
}

impl Shared {
    /// See [`Broker::silent`](bluefin_common::broker::Broker::silent).
    pub(super) async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        let names: Vec<String> = queues.iter().flat_map(|queue| with_delays(queue)).collect();
        let asked = stream::iter(names).map(|name| async move {
            let found = self.ask(&name).await?;
            Ok::<_, BrokerError>((name, found))
        });
        let told: Vec<_> = asked.buffer_unordered(AT_A_TIME).try_collect().await?;
        let answered = told.iter().any(|(_, found)| *found == Found::Answers);
        let silent: Vec<_> =
            told.into_iter().filter(|(_, found)| *found == Found::Silent).map(|(name, _)| name).collect();
        if !answered && !silent.is_empty() {
            return Err(self.address.unavailable(format!("none of its queues answers: {}", silent.join(", "))));
        }
        Ok(silent)
    }

    async fn ask(&self, name: &str) -> Result<Found, BrokerError> {
        let session = self.session_apart("asking").await?;
        let found = session.ask(name).await;
        session.close().await;
        found
    }

    /// See [`Broker::renew`](bluefin_common::broker::Broker::renew).
    pub(super) async fn renew(&self, name: ShortString) -> Result<(), BrokerError> {
        let session = self.session_apart("renewing").await?;
        let renewed = session.renew(Queue::of(name.clone())).await;
        session.close().await;
        renewed?;
        sleep_until(self.fresh.renewed(name.as_str())).await;
        Ok(())
    }

    async fn session_apart(&self, purpose: &str) -> Result<Session, BrokerError> {
        let session = Session::open(&self.address, &self.fresh, purpose).await;
        session.map_err(|error| match error {
            OpenError::Transient(reason) => self.address.unavailable(reason),
            OpenError::Refused(reason) => self.address.refused(reason),
        })
    }
}

impl Session {
    async fn ask(&self, name: &str) -> Result<Found, BrokerError> {
        match self.waiting(name).await? {
            None => return Ok(Found::Unasked),
            // One in name alone has none.
            Some(1..) => return Ok(Found::Answers),
            Some(0) => {}
        }
        let channel = self.channel().await?;
        match timeout(self.address.patience(), channel.basic_get(name.into(), BasicGetOptions::default())).await {
            Ok(Ok(None)) => Ok(Found::Answers),
            Ok(Ok(Some(message))) => {
                // It came just now. Where this is lost, the end of the connection does the same.
                let _ = message.acker.nack(BasicNackOptions { requeue: true, ..BasicNackOptions::default() }).await;
                Ok(Found::Answers)
            }
            Ok(Err(error)) if is_internal(&error) => Ok(Found::Silent),
            Ok(Err(error)) if is_refusal(&error) => Ok(Found::Unasked),
            Ok(Err(error)) => Err(self.address.failed(format!("asking queue {name}"), &error)),
            Err(_) if self.is_open() => Ok(Found::Silent),
            Err(_) => Err(self.address.silent()),
        }
    }

    async fn renew(&self, queue: Queue) -> Result<(), BrokerError> {
        let channel = self.channel().await?;
        let name = queue.name.clone();
        let deleting = channel.queue_delete(name.clone(), QueueDeleteOptions::default());
        self.answer(format!("deleting queue {name}"), deleting).await?;
        self.declare(&queue).await
    }
}

/// Whether the broker ended the connection over what it could not do.
fn is_internal(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(error.kind(), AMQPErrorKind::Hard(AMQPHardError::INTERNALERROR))
}
