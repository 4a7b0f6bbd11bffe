//! Ports for programs whose work can wait: what broker and store can not do now is tried again until they can, and a line says
//! for what. The first signal ends the wait, and so does a refusal: somebody is there who asked for it, and is to know at once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::{ArtifactRef, CompileRecord};
use bluefin_common::broker::{Broker, BrokerError, Consumer};
use bluefin_common::delivery::{GivenUp, Passing, Patience};
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::{
    Artifacts, Blobs, EncodedGroup, Fullness, JobState, Planned, Progress, Records, Right, SessionSize, Sessions,
    Store, StoreError, Stored, Touched, Work,
};
use bluefin_common::waiting::Waiting;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

/// Longer than any outage, and short enough to be added to a point in time.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// For as long as it takes, until `shutdown`.
fn patience(shutdown: &CancellationToken) -> Patience {
    Patience { limit: FOR_EVER, expired: shutdown.clone(), waiting: Waiting::default() }
}

/// Waits for a port that is `made` once its server answers.
///
/// # Errors
/// If it refuses, or fails for good. `None`: `shutdown` came first.
pub async fn connected<T, E: Passing, F>(shutdown: &CancellationToken, made: impl Fn() -> F) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    unless_refused(&patience(shutdown), "connect", made).await.map_err(|(_, error)| error)?.map_err(Some)
}

/// Tries `call` until it succeeds, is refused, its error is here to stay, or `patience` ends.
async fn unless_refused<T, E: Passing, F>(
    patience: &Patience,
    what: &str,
    call: impl Fn() -> F,
) -> Result<Result<T, E>, (GivenUp, Option<E>)>
where
    F: Future<Output = Result<T, E>>,
{
    let try_once = || async {
        match call().await {
            Err(error) if error.is_refusal() => Ok(Err(error)),
            done => done.map(Ok),
        }
    };
    patience.with_error(what, try_once).await
}

/// The same, with one error whatever it was that ended it.
async fn again<T, E: Passing, F>(patience: &Patience, what: &str, ended: E, call: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    unless_refused(patience, what, call).await.map_err(|(_, error)| error.unwrap_or(ended)).flatten()
}

/// A broker that is waited for.
pub struct PatientBroker {
    broker: Arc<dyn Broker>,
    patience: Patience,
}

impl PatientBroker {
    /// `broker`, until `shutdown`.
    #[must_use]
    pub fn new(broker: Arc<dyn Broker>, shutdown: &CancellationToken) -> Self {
        Self { broker, patience: patience(shutdown) }
    }

    async fn with<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<T, BrokerError>
    where
        F: Future<Output = Result<T, BrokerError>>,
    {
        again(&self.patience, what, BrokerError::Closed, call).await
    }
}

#[async_trait]
impl Broker for PatientBroker {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.with("declare queue", || self.broker.declare(queue)).await
    }

    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError> {
        self.with("publish", || self.broker.publish(queue, message_id, body.clone())).await
    }

    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError> {
        self.with("publish", || self.broker.publish_after(delay, queue, message_id, body.clone())).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.with("consume", || self.broker.consume(queue, prefetch)).await
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.with("ask for depth", || self.broker.depth(queue)).await
    }

    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        self.with("ask queues", || self.broker.silent(queues)).await
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        self.with("renew queue", || self.broker.renew(queue)).await
    }

    fn reconnects(&self) -> u64 {
        self.broker.reconnects()
    }

    async fn close(&self) {
        self.broker.close().await;
    }
}

/// A store that is waited for.
pub struct PatientStore {
    store: Arc<dyn Store>,
    patience: Patience,
}

impl PatientStore {
    /// `store`, until `shutdown`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, shutdown: &CancellationToken) -> Self {
        Self { store, patience: patience(shutdown) }
    }

    async fn with<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let stopped =
            StoreError::Unavailable { store: "store".to_string(), reason: format!("{what}: stopped by a signal") };
        again(&self.patience, what, stopped, call).await
    }
}

/// Traits each of whose methods asks `self.store` until that has answered.
macro_rules! patient_store {
    ($($part:ident { $($method:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)* })*) => {
        $(
            #[async_trait]
            impl $part for PatientStore {
                $(
                    async fn $method(&self, $($argument: $kind),*) -> Result<$answer, StoreError> {
                        self.with(stringify!($method), || self.store.$method($($argument),*)).await
                    }
                )*
            }
        )*
    };
}

patient_store! {
    Sessions {
        create_session(session: &Session) -> Session;
        session(name: &SessionName) -> Option<Session>;
        sessions() -> Vec<Session>;
        pin(session: &SessionName, key: &str, value: &str) -> String;
        pins(session: &SessionName) -> Pins;
        unpin(session: &SessionName, keys: &[String]) -> ();
        touched(session: &SessionName) -> Touched;
        stand_unless_touched(session: &SessionName, seen: &Touched, standing: &[u8]) -> bool;
        remove_session(session: &SessionName) -> ();
        size(session: &SessionName) -> SessionSize;
        orphans(idle: Duration) -> Vec<SessionName>;
    }
    Records {
        put_records(shelf: &str, records: &[(String, Vec<u8>)]) -> ();
        claim_record(shelf: &str, key: &str, value: &[u8]) -> Vec<u8>;
        records_of(shelf: &str, keys: &[String]) -> Vec<Option<Vec<u8>>>;
        records(shelf: &str) -> Vec<(String, Vec<u8>)>;
        remove_records(shelf: &str, keys: &[String]) -> ();
    }
    Blobs {
        put_blob(bytes: &[u8]) -> Digest;
        blob(digest: Digest) -> Option<Vec<u8>>;
        blob_sizes(digests: &[Digest]) -> Vec<u64>;
        remove_blobs(digests: &[Digest]) -> ();
        idle_blobs(idle: Duration) -> Vec<Digest>;
    }
    Artifacts {
        put_artifact(bytes: &[u8]) -> ArtifactRef;
        artifact(artifact: ArtifactRef) -> Option<Bytes>;
        has_artifact(artifact: ArtifactRef) -> bool;
        put_compiled(record: &CompileRecord) -> ();
        compiled(key: Digest) -> Option<CompileRecord>;
        fullness() -> Fullness;
    }
    Work {
        plan(session: &SessionName, jobs: &[Planned]) -> Vec<JobState>;
        enqueued(session: &SessionName, jobs: &[JobId]) -> ();
        put_outcome(outcome: &Outcome) -> Stored;
        put_last_outcome(outcome: &Outcome) -> Stored;
        retract_outcome(outcome: &Outcome) -> bool;
        discard_outcome(outcome: &Outcome) -> bool;
        rewrite_outcomes(outcomes: &[Outcome]) -> ();
        has_outcome(session: &SessionName, group: GroupId, job: JobId) -> bool;
        open_jobs(session: &SessionName, group: GroupId) -> u64;
        open_groups(session: &SessionName) -> Vec<GroupId>;
        planned_jobs(session: &SessionName) -> Vec<(JobId, bool)>;
        groups(session: &SessionName) -> Vec<GroupId>;
        encoded_outcomes(session: &SessionName, groups: &[GroupId]) -> Vec<EncodedGroup>;
        settle_group(session: &SessionName, group: GroupId) -> ();
        progress(session: &SessionName) -> Progress;
        best_ms(session: &SessionName, group: GroupId) -> Option<f64>;
    }
}

#[async_trait]
impl Store for PatientStore {
    async fn may(&self, right: Right) -> Result<(), StoreError> {
        self.with("may", || self.store.may(right)).await
    }

    fn reconnects(&self) -> u64 {
        self.store.reconnects()
    }
}
