//! Messages that nobody of bluefin sent: damaged ones, those of a release to come, and jobs that are done.

use std::collections::BTreeSet;
use std::time::Duration;

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_common::artifact::Built;
use bluefin_common::broker::{Broker as _, DEAD_QUEUE};
use bluefin_common::failure::Attempt;
use bluefin_common::job::{CompileJob, CompileWork, EvalJob};
use bluefin_common::outcome::Outcome;
use bluefin_common::task::TaskRef;
use bluefin_common::wire::{self, Message, WireError};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{sleep, timeout};

/// What publishing a message to a broker that is there may take, on a busy machine: its queue may have to be made anew first.
const PUBLISHED: Duration = Duration::from_secs(120);
/// Before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// Where the envelope holds the schema version.
const VERSION: usize = 3;

/// What was sent to a queue, and which of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// Some bits differ, or the end is missing.
    Damaged,
    /// Of a release to come.
    Newer,
    /// A job that is done.
    Repeated,
}

/// A real message and its queue.
struct Sample {
    queue: String,
    body: Vec<u8>,
    /// The newest that this release reads; what needs less is written as an older one.
    version: u8,
    decodes: fn(&[u8]) -> Result<(), WireError>,
}

/// Sends strays, and knows which.
pub struct Strays {
    samples: [Sample; 2],
    /// Message ids of what must come to be among the dead letters.
    pub damaged: BTreeSet<String>,
    /// And of what must stay in its queue.
    pub newer: BTreeSet<String>,
    sent: u32,
}

impl Strays {
    /// After a job that is done.
    pub fn after(outcome: &Outcome) -> Self {
        let job = outcome.job.clone();
        let built: Vec<Attempt<Built>> =
            outcome.candidates.iter().filter_map(|candidate| candidate.built.clone().map(Ok)).collect();
        let task = outcome.task.map_or(TaskRef::None, TaskRef::Blob);
        let description = outcome.description.clone();
        let (compile_queue, eval_queue) = (job.compile_queue(), job.eval_queue());
        let compile = CompileJob { job: job.clone(), enqueued_ms: 1, recompiles: 0, work: CompileWork::Candidates };
        let eval = EvalJob { job, enqueued_ms: 1, recompiles: 0, compiled: None, task, description, built };
        let samples = [Sample::of(compile_queue, &compile), Sample::of(eval_queue, &eval)];
        Self { samples, damaged: BTreeSet::new(), newer: BTreeSet::new(), sent: 0 }
    }

    /// Publishes one to `amqp`, where nothing is in its way; which follows from `salt`. Returns what it was.
    ///
    /// # Errors
    /// Why it could not be; it may be there nevertheless.
    pub async fn send(&mut self, amqp: &str, stray: Stray, salt: u64) -> Result<String, String> {
        let mut random = StdRng::seed_from_u64(salt);
        let sample = &self.samples[random.random_range(0..self.samples.len())];
        self.sent += 1;
        let (id, body) = match stray {
            Stray::Damaged => (format!("damaged-{}", self.sent), sample.damaged(&mut random)),
            Stray::Newer => (format!("newer-{}", self.sent), sample.newer()),
            Stray::Repeated => (format!("repeated-{}", self.sent), sample.body.clone()),
        };
        match stray {
            Stray::Damaged => self.damaged.insert(id.clone()),
            Stray::Newer => self.newer.insert(id.clone()),
            Stray::Repeated => false,
        };
        let publish = async || {
            let broker = AmqpBroker::connect(amqp).await?;
            let published = broker.publish(&sample.queue, &id, body.clone().into()).await;
            broker.close().await;
            published
        };
        let mut said = None;
        let published = async {
            while let Err(error) = publish().await {
                said = Some(error);
                sleep(PAUSE).await;
            }
        };
        match timeout(PUBLISHED, published).await {
            Ok(()) => Ok(format!("{id} to {}", sample.queue)),
            Err(_) => Err(format!("not published within {PUBLISHED:?}: {said:?}")),
        }
    }

    /// The queues that strays are sent to.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.samples.iter().map(|sample| sample.queue.as_str())
    }
}

impl Sample {
    fn of<M: Message>(queue: String, message: &M) -> Self {
        let body = wire::encode(message).expect("it was small enough before");
        Self { queue, body, version: M::VERSION, decodes: |bytes| wire::decode::<M>(bytes).map(drop) }
    }

    /// What no release reads. Where the bits that were changed leave a message that means something else, others are: nothing
    /// in a message tells that it is not what was sent.
    fn damaged(&self, random: &mut StdRng) -> Vec<u8> {
        loop {
            let mut body = self.body.clone();
            for _ in 0..random.random_range(1..=8) {
                let at = random.random_range(0..body.len());
                body[at] ^= 1 << random.random_range(0..8);
            }
            if random.random_range(0..4) == 0 {
                body.truncate(random.random_range(0..body.len()));
            }
            if (self.decodes)(&body).is_err_and(|error| !error.is_of_another_version()) {
                return body;
            }
        }
    }

    fn newer(&self) -> Vec<u8> {
        let mut body = self.body.clone();
        body[VERSION] = self.version + 1;
        body
    }
}

/// Message ids of what is in `queue`, of which at least those in `expected` are waited for, for at most `patience`. All of it
/// stays there.
pub async fn ids_in(amqp: &str, queue: &str, expected: &BTreeSet<String>, patience: Duration) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let look = async {
        let broker = AmqpBroker::connect(amqp).await.expect("the broker is there");
        let mut consumer = broker.consume(queue, u16::MAX).await.expect("the queue can be consumed");
        // Unsettled, so that they come back.
        let mut held = Vec::new();
        let quiet = Duration::from_secs(2);
        loop {
            match timeout(quiet, consumer.next()).await {
                Ok(Some(delivery)) => {
                    found.insert(delivery.message_id.clone());
                    held.push(delivery);
                }
                Ok(None) => return,
                Err(_) if expected.is_subset(&found) => return,
                Err(_) => {}
            }
        }
    };
    // What was found until then is what there is.
    let _ = timeout(patience, look).await;
    found
}

/// The same of the dead letters.
pub async fn dead_letters(amqp: &str, expected: &BTreeSet<String>, patience: Duration) -> BTreeSet<String> {
    ids_in(amqp, DEAD_QUEUE, expected, patience).await
}
