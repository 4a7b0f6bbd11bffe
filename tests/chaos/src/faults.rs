//! The faults that there are, and how often each is made.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _};

use crate::crew::Worker;
use crate::damage::Stray;

/// What befalls the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    WorkerKilled,
    WorkerStopped,
    WorkerDrained,
    /// Dies soon after each of its starts.
    WorkerCrashLoop,
    /// The temporary folder of the worker that compiles has no room.
    NoRoom,
    /// The device class that nobody serves is served for a while.
    OtherClassServed,
    BrokerKilled,
    /// Somebody deletes a queue, it is declared again, and that is not on disk yet.
    BrokerKilledWithNewQueue,
    BrokerStopped,
    BrokerClosesConnections,
    BrokerForbids,
    /// Nobody may connect again, either.
    BrokerForbidsAndCloses,
    Redis(Which, OfRedis),
    CacheFlushed,
    CacheTiny,
    LinkCut(Link),
    LinkFrozen(Link),
    /// Those to broker and store at once.
    BothLinksCut,
    Sent(Stray),
    /// Somebody runs `bluefin reconcile`.
    Reconciled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Store,
    Cache,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfRedis {
    Killed,
    Stopped,
    ClosesConnections,
    WantsPassword,
    ReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Broker,
    Store,
    Cache,
}

/// What a fault is on, which bears one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Worker(Worker),
    Broker,
    Store,
    Cache,
    Link(Link),
}

use Fault::{LinkCut, LinkFrozen, Redis, Sent};
use OfRedis::{ClosesConnections, Killed, ReadOnly, Stopped, WantsPassword};
use Which::{Cache, Store};

/// With their weights and their names in the table. A broker takes long to boot and `rabbitmqctl` long to start, so that those
/// faults leave time for fewer others.
pub const FAULTS: [(Fault, u32, &str); 35] = [
    (Fault::WorkerKilled, 16, "worker killed"),
    (Fault::WorkerStopped, 6, "worker stopped for a while"),
    (Fault::WorkerDrained, 8, "worker drained"),
    (Fault::WorkerCrashLoop, 3, "worker crashes in a loop"),
    (Fault::NoRoom, 3, "no room in the temporary folder"),
    (Fault::OtherClassServed, 2, "other device class served"),
    (Fault::BrokerKilled, 2, "RabbitMQ killed"),
    (Fault::BrokerKilledWithNewQueue, 2, "RabbitMQ killed with a new queue"),
    (Fault::BrokerStopped, 4, "RabbitMQ stopped for a while"),
    (Fault::BrokerClosesConnections, 2, "RabbitMQ closes its connections"),
    (Fault::BrokerForbids, 3, "RabbitMQ permissions taken away"),
    (Fault::BrokerForbidsAndCloses, 3, "RabbitMQ permissions and connections taken away"),
    (Redis(Store, Killed), 4, "store killed"),
    (Redis(Store, Stopped), 4, "store stopped for a while"),
    (Redis(Store, ClosesConnections), 4, "store closes its connections"),
    (Redis(Store, WantsPassword), 4, "store wants a password"),
    (Redis(Store, ReadOnly), 4, "store is READONLY"),
    (Redis(Cache, Killed), 3, "cache killed"),
    (Redis(Cache, Stopped), 3, "cache stopped for a while"),
    (Redis(Cache, ClosesConnections), 3, "cache closes its connections"),
    (Redis(Cache, WantsPassword), 3, "cache wants a password"),
    (Redis(Cache, ReadOnly), 3, "cache is READONLY"),
    (Fault::CacheFlushed, 4, "cache flushed"),
    (Fault::CacheTiny, 3, "cache without memory"),
    (LinkCut(Link::Broker), 4, "link to RabbitMQ cut"),
    (LinkCut(Link::Store), 4, "link to the store cut"),
    (LinkCut(Link::Cache), 2, "link to the cache cut"),
    (LinkFrozen(Link::Broker), 3, "link to RabbitMQ frozen"),
    (LinkFrozen(Link::Store), 3, "link to the store frozen"),
    (LinkFrozen(Link::Cache), 2, "link to the cache frozen"),
    (Fault::BothLinksCut, 4, "links to RabbitMQ and store cut"),
    (Sent(Stray::Damaged), 4, "damaged message"),
    (Sent(Stray::Newer), 2, "message of a newer version"),
    (Sent(Stray::Repeated), 4, "job that is done sent again"),
    (Fault::Reconciled, 2, "session reconciled"),
];

/// A step of a storm. All of it is drawn at once, so that what is drawn depends on nothing that happens.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub fault: Fault,
    pub name: &'static str,
    /// One of the workers, where the fault is on one.
    pub worker: Worker,
    pub lasts: Duration,
    pub pause: Duration,
    pub salt: u64,
}

impl Step {
    pub fn draw(random: &mut StdRng, workers: &[Worker]) -> Self {
        let total: u32 = FAULTS.iter().map(|(_, weight, _)| weight).sum();
        let mut at = random.random_range(0..total);
        let drawn = FAULTS.iter().find(|(_, weight, _)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        let (fault, _, name) = drawn.expect("the weights add up");
        let (worker, long) = (workers[random.random_range(0..workers.len())], random.random_range(0..10) == 0);
        // Some last longer than callers wait for an answer.
        let lasts = Duration::from_millis(random.random_range(if long { 11_000..16_000 } else { 200..4000 }));
        let pause = Duration::from_millis(random.random_range(100..2500));
        Self { fault: *fault, name, worker, lasts, pause, salt: random.next_u64() }
    }
}
