//! Makes faults, one after the other, and takes back each that lasts when its time is over.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::crew::Crew;
use crate::damage::Strays;
use crate::faults::{Fault, Link, OfRedis, Step, Subject, Which};
use crate::fleet::{Fleet, words};
use crate::journal::Journal;
use crate::servers::{Kept, Servers};

/// What `bluefin reconcile` may take before nobody waits for it any more.
const RECONCILED: Duration = Duration::from_secs(10);

/// A queue in which there are jobs alone, which can be published again, and no strays.
const RENEWED: &str = "bluefin.eval.host";

pub struct Storm<'a> {
    pub servers: &'a mut Servers,
    pub crew: &'a Crew<'a>,
    pub fleet: &'a Fleet,
    pub journal: &'a Journal,
    pub runtime: &'a tokio::runtime::Runtime,
    pub strays: Strays,
    raging: Vec<Raging>,
}

/// A fault that lasts.
struct Raging {
    step: Step,
    subjects: Vec<Subject>,
    over: Instant,
}

impl<'a> Storm<'a> {
    pub fn new(
        servers: &'a mut Servers,
        (crew, fleet, journal): (&'a Crew<'a>, &'a Fleet, &'a Journal),
        runtime: &'a tokio::runtime::Runtime,
        strays: Strays,
    ) -> Self {
        Self { servers, crew, fleet, journal, runtime, strays, raging: Vec::new() }
    }

    /// Makes faults for `lasts`, then takes back all of them.
    pub fn rage(&mut self, seed: u64, lasts: Duration) {
        let mut random = StdRng::seed_from_u64(seed);
        let (workers, end) = (self.crew.usual(), Instant::now() + lasts);
        while Instant::now() < end {
            let step = Step::draw(&mut random, &workers);
            self.make(step);
            self.pass(step.pause);
        }
        while let Some(raging) = self.raging.pop() {
            self.take_back(&raging);
        }
        self.crew.want(self.crew.of_other_class(), true);
        self.journal.say("all is healed");
    }

    /// Lets time pass, in which faults end.
    fn pass(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let next = self.raging.iter().map(|raging| raging.over).chain([until]).min().unwrap_or(until);
            sleep(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            while let Some(at) = self.raging.iter().position(|raging| raging.over <= now) {
                let raging = self.raging.swap_remove(at);
                self.take_back(&raging);
            }
            if now >= until {
                return;
            }
        }
    }

    fn make(&mut self, step: Step) {
        let subjects = self.subjects(&step);
        // What is in its way ends now.
        while let Some(at) =
            self.raging.iter().position(|raging| raging.subjects.iter().any(|on| subjects.contains(on)))
        {
            let raging = self.raging.swap_remove(at);
            self.take_back(&raging);
        }
        if step.fault == Fault::NoRoom && !self.crew.can_cramp {
            return;
        }
        let (lasts, worker) = (step.lasts.as_secs_f64(), self.crew.name(step.worker));
        let on = if subjects.contains(&Subject::Worker(step.worker)) { worker } else { "" };
        self.journal.fault(step.name);
        if self.begin(&step) {
            self.journal.say(format_args!("{} {on} for {lasts:.1} s", step.name));
            self.raging.push(Raging { step, subjects, over: Instant::now() + step.lasts });
        } else {
            self.journal.say(format_args!("{} {on}", step.name));
        }
    }

    /// What `step` is on, and what must be well for it.
    fn subjects(&self, step: &Step) -> Vec<Subject> {
        match step.fault {
            Fault::WorkerKilled | Fault::WorkerStopped | Fault::WorkerDrained | Fault::WorkerCrashLoop => {
                vec![Subject::Worker(step.worker)]
            }
            Fault::NoRoom => vec![Subject::Worker(self.crew.compiler())],
            Fault::OtherClassServed => vec![Subject::Worker(self.crew.of_other_class())],
            Fault::BrokerKilled
            | Fault::BrokerKilledWithNewQueue
            | Fault::BrokerStopped
            | Fault::BrokerClosesConnections
            | Fault::BrokerForbids
            | Fault::BrokerForbidsAndCloses
            | Fault::Sent(_) => vec![Subject::Broker],
            Fault::Redis(Which::Store, _) => vec![Subject::Store],
            Fault::Redis(Which::Cache, _) | Fault::CacheFlushed | Fault::CacheTiny => vec![Subject::Cache],
            Fault::LinkCut(link) | Fault::LinkFrozen(link) => vec![Subject::Link(link)],
            Fault::BothLinksCut => vec![Subject::Link(Link::Broker), Subject::Link(Link::Store)],
            Fault::Reconciled => Vec::new(),
        }
    }

    /// Makes a fault; whether it lasts.
    fn begin(&mut self, step: &Step) -> bool {
        let (crew, worker) = (self.crew, step.worker);
        match step.fault {
            Fault::WorkerKilled => crew.kill(worker),
            Fault::WorkerStopped => crew.stop(worker),
            Fault::WorkerDrained => crew.drain(worker),
            Fault::WorkerCrashLoop => crew.shorten(worker, Some(Duration::from_millis(20 + step.salt % 400))),
            Fault::NoRoom => crew.fill(crew.compiler()),
            Fault::OtherClassServed => crew.want(crew.of_other_class(), true),
            Fault::BrokerKilled => self.servers.broker.rabbit.kill(),
            Fault::BrokerKilledWithNewQueue => {
                self.runtime.block_on(self.servers.broker.renew(RENEWED));
                self.servers.broker.rabbit.kill();
            }
            Fault::BrokerStopped => self.servers.broker.rabbit.stop(),
            Fault::BrokerClosesConnections => self.servers.broker.close_connections(),
            Fault::BrokerForbids => self.servers.broker.forbid(),
            Fault::BrokerForbidsAndCloses => {
                self.servers.broker.forbid();
                self.servers.broker.close_connections();
            }
            Fault::Redis(which, of) => begin_redis(self.redis(which), of),
            Fault::CacheFlushed => self.servers.cache.flush(),
            Fault::CacheTiny => self.servers.cache.shrink(),
            Fault::LinkCut(link) => self.link(link).cut(),
            Fault::LinkFrozen(link) => self.link(link).pause(),
            Fault::BothLinksCut => {
                self.servers.broker.link.cut();
                self.servers.store.link.cut();
            }
            Fault::Sent(stray) => {
                let amqp = self.servers.direct().amqp;
                match self.runtime.block_on(self.strays.send(&amqp, stray, step.salt)) {
                    Ok(what) => self.journal.say(format_args!("sent {what}")),
                    Err(error) => {
                        self.journal.violation(format_args!("a broker that is there took no message: {error}"))
                    }
                }
            }
            Fault::Reconciled => {
                let said = self.fleet.ask("reconcile", &words(&["reconcile", "--session", "s0"]), RECONCILED);
                self.journal.say(format_args!("reconcile: {}", said.unwrap_or_else(|error| error).trim()));
            }
        }
        let at_once = matches!(
            step.fault,
            Fault::WorkerKilled
                | Fault::WorkerDrained
                | Fault::BrokerClosesConnections
                | Fault::Redis(_, OfRedis::ClosesConnections)
                | Fault::CacheFlushed
                | Fault::Sent(_)
                | Fault::Reconciled
        );
        !at_once
    }

    fn take_back(&mut self, raging: &Raging) {
        let (crew, worker) = (self.crew, raging.step.worker);
        match raging.step.fault {
            Fault::WorkerStopped => crew.cont(worker),
            Fault::WorkerCrashLoop => crew.shorten(worker, None),
            Fault::NoRoom => crew.clear(crew.compiler()),
            Fault::OtherClassServed => crew.want(crew.of_other_class(), false),
            Fault::BrokerKilled | Fault::BrokerKilledWithNewQueue => {
                if self.servers.broker.restart() {
                    self.journal.note("times that RabbitMQ came back with all queues down, and was started once more");
                }
            }
            Fault::BrokerStopped => self.servers.broker.rabbit.cont(),
            Fault::BrokerForbids | Fault::BrokerForbidsAndCloses => self.servers.broker.permit(),
            Fault::Redis(which, of) => end_redis(self.redis(which), of),
            Fault::CacheTiny => self.servers.cache.grow(),
            Fault::LinkCut(link) | Fault::LinkFrozen(link) => self.link(link).resume(),
            Fault::BothLinksCut => {
                self.servers.broker.link.resume();
                self.servers.store.link.resume();
            }
            // They do not last.
            Fault::WorkerKilled
            | Fault::WorkerDrained
            | Fault::BrokerClosesConnections
            | Fault::CacheFlushed
            | Fault::Sent(_)
            | Fault::Reconciled => {}
        }
        self.journal.say(format_args!("    over: {}", raging.step.name));
    }

    fn redis(&mut self, which: Which) -> &mut Kept {
        match which {
            Which::Store => &mut self.servers.store,
            Which::Cache => &mut self.servers.cache,
        }
    }

    fn link(&self, link: Link) -> &bluefin_test_support::Proxy {
        match link {
            Link::Broker => &self.servers.broker.link,
            Link::Store => &self.servers.store.link,
            Link::Cache => &self.servers.cache.link,
        }
    }
}

fn begin_redis(kept: &mut Kept, of: OfRedis) {
    match of {
        OfRedis::Killed => kept.redis.kill(),
        OfRedis::Stopped => kept.redis.stop(),
        OfRedis::ClosesConnections => kept.close_connections(),
        OfRedis::WantsPassword => kept.lock(),
        OfRedis::ReadOnly => kept.make_read_only(),
    }
}

fn end_redis(kept: &mut Kept, of: OfRedis) {
    match of {
        OfRedis::Killed => kept.redis.restart(),
        OfRedis::Stopped => kept.redis.cont(),
        OfRedis::ClosesConnections => {}
        OfRedis::WantsPassword => kept.unlock(),
        OfRedis::ReadOnly => kept.make_writable(),
    }
}
