//! Chaos: a fleet of bluefin's processes tunes sessions on devices that do nothing, while everything that may go wrong does, at
//! random. In the end all is healed, and then it must come to what an undisturbed fleet comes to, down to the exported bytes:
//! nothing lost, nothing counted twice, nothing given up.
//!
//! All that is random follows from a seed, and everything that is done is in `chaos.log` with its time. What processes make of it
//! depends on their speed, so the same seed is the same storm and not the same run.
#![allow(clippy::indexing_slicing, reason = "part of tests: what is amiss here is to be seen at once")]
#![forbid(unsafe_code)]

mod crew;
mod damage;
mod faults;
mod fleet;
mod journal;
mod model;
mod report;
mod servers;
mod sessions;
mod storm;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bluefin_test_support::{Redis, RedisOptions};
use tokio::runtime::Runtime;

use crew::Crew;
use damage::{Strays, dead_letters, ids_in};
use fleet::Fleet;
use journal::Journal;
use model::{Found, Verdict};
use servers::Servers;
use sessions::{Campaign, Known, produce};
use storm::Storm;

/// For the first outcome, and for an undisturbed session.
const UNDISTURBED: Duration = Duration::from_secs(120);
/// For strays to come to where they belong, which is behind a delay of 25 s for some.
const STRAYED: Duration = Duration::from_secs(60);
/// What the monitor says of a queue that RabbitMQ came back with in name alone.
const MADE_ANEW: &str = "was there in name alone";

/// One run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program.
    pub bluefin: PathBuf,
    /// Where everything is written; it exists.
    pub folder: PathBuf,
    pub seed: u64,
    /// How long faults are made.
    pub lasts: Duration,
    /// How long nothing may be done, before everything has come to its end, once all is healed.
    pub patience: Duration,
}

/// Runs it and prints what came of it; whether all holds.
///
/// # Panics
/// If something fails that is not bluefin: a server that does not start, a folder that can not be written to.
#[must_use]
pub fn run(config: &Config) -> bool {
    println!("seed {}", config.seed);
    println!("logs in {}", config.folder.display());
    let journal = Journal::begin(&config.folder);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let mut servers = Servers::start();
    let disturbed = made(config, "disturbed", servers.through_links());
    let (campaigns, strays) = disturb(config, &journal, &runtime, &mut servers, &disturbed);
    let direct = Fleet { urls: servers.direct(), ..disturbed };

    let (store, cache) = (Redis::start(RedisOptions::DURABLE), Redis::start(RedisOptions::cache(256 << 20)));
    let reference = made(config, "reference", servers.reference(&store, &cache));
    journal.say(format_args!("{} sessions again, undisturbed", campaigns.len()));
    repeat(&journal, &runtime, &reference, &campaigns);

    let mut verdict = Verdict::default();
    let (found, expected) = (all(&runtime, &direct, &campaigns), all(&runtime, &reference, &campaigns));
    for ((campaign, found), expected) in campaigns.iter().zip(&found).zip(&expected) {
        verdict.add(&campaign.name, found, expected);
    }
    runtime.block_on(look_for(&journal, &direct, &strays));
    let holds = report::print(config, &journal, &campaigns, &verdict);
    if !holds {
        keep_logs(config, &servers);
    }
    holds
}

/// A fleet with a folder of its own.
fn made(config: &Config, name: &str, urls: servers::Urls) -> Fleet {
    let folder = config.folder.join(name);
    std::fs::create_dir_all(&folder).expect("the folder can be written to");
    Fleet { bluefin: config.bluefin.clone(), folder, urls }
}

/// Has `fleet` work in a storm until all that was begun is complete, or should be.
fn disturb(
    config: &Config,
    journal: &Journal,
    runtime: &Runtime,
    servers: &mut Servers,
    fleet: &Fleet,
) -> (Vec<Campaign>, Strays) {
    let (crew, known) = (Crew::new(fleet, journal), Known::default());
    if !crew.can_cramp {
        journal.say("nothing can be mounted here: no temporary folder is filled");
    }
    crew.want(crew.of_other_class(), false);
    let (calm, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = thread::scope(|scope| {
        // However this ends, also in a panic: those threads end too.
        let _ends = Ends([&calm, &over]);
        scope.spawn(|| crew.tend(&over));
        scope.spawn(|| watch::watch(fleet, journal, config.seed, &known, &over));
        let producing = scope.spawn(|| produce(fleet, journal, config.seed, &known, &calm));
        let store = runtime.block_on(model::store(&servers.direct()));
        let first = Campaign::of(config.seed, 0);
        let first = runtime.block_on(model::first_outcome(&store, &first, UNDISTURBED));
        let first = first.expect("an undisturbed fleet comes to an outcome");
        journal.say(format_args!("there is an outcome; faults begin, for {:?}", config.lasts));

        let mut storm = Storm::new(servers, (&crew, fleet, journal), runtime, Strays::after(&first));
        storm.rage(config.seed, config.lasts);
        let strays = storm.strays;
        calm.store(true, Ordering::Relaxed);
        let campaigns = producing.join().expect("the producer does not panic");
        let healed = Instant::now();
        // Anew: who was connected through the storm has seen a lot.
        let store = runtime.block_on(model::store(&servers.direct()));
        match runtime.block_on(model::completed(&store, &campaigns, config.patience)) {
            Ok(()) => journal.say(format_args!("all complete {:.1} s later", healed.elapsed().as_secs_f64())),
            Err(open) => {
                let depths =
                    servers.broker.rabbit.ctl(&["list_queues", "name", "messages_ready", "messages_unacknowledged"]);
                journal.say(format_args!("queues:\n{depths}"));
                for session in open {
                    journal
                        .violation(format_args!("not complete, and nothing done for {:?}: {session}", config.patience));
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        (campaigns, strays)
    });
    crew.dismiss();
    let monitor = std::fs::read_to_string(fleet.log("monitor")).unwrap_or_default();
    monitor.matches(MADE_ANEW).for_each(|_| journal.note("queues that were there in name alone and made anew"));
    result
}

/// Tells threads to end.
struct Ends<'a>([&'a AtomicBool; 2]);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|end| end.store(true, Ordering::Relaxed));
    }
}

/// Does the same with `fleet`, which nothing befalls.
fn repeat(journal: &Journal, runtime: &Runtime, fleet: &Fleet, campaigns: &[Campaign]) {
    let (crew, over) = (Crew::new(fleet, journal), AtomicBool::new(false));
    thread::scope(|scope| {
        let _ends = Ends([&over, &over]);
        scope.spawn(|| crew.tend(&over));
        for campaign in campaigns {
            campaign.produce(fleet).unwrap_or_else(|error| panic!("{}: {error}", campaign.name));
        }
        let store = runtime.block_on(model::store(&fleet.urls));
        let patience = UNDISTURBED + Duration::from_secs(5) * u32::try_from(campaigns.len()).unwrap_or(u32::MAX);
        if let Err(open) = runtime.block_on(model::completed(&store, campaigns, patience)) {
            journal.violation(format_args!("undisturbed, not complete, and nothing done for {patience:?}: {open:?}"));
        }
    });
    crew.dismiss();
}

fn all(runtime: &Runtime, fleet: &Fleet, campaigns: &[Campaign]) -> Vec<Found> {
    let store = runtime.block_on(model::store(&fleet.urls));
    campaigns.iter().map(|campaign| runtime.block_on(model::found(fleet, &store, campaign))).collect()
}

/// What was damaged is among the dead letters, and nothing else; what is for a release to come waits for it.
async fn look_for(journal: &Journal, fleet: &Fleet, strays: &Strays) {
    let amqp = &fleet.urls.amqp;
    let dead = dead_letters(amqp, &strays.damaged, STRAYED).await;
    for id in strays.damaged.difference(&dead) {
        journal.violation(format_args!("{id} is not among the dead letters"));
    }
    for id in dead.difference(&strays.damaged) {
        journal.violation(format_args!("{id} is among the dead letters, and was not damaged"));
    }
    let (mut missing, deadline) = (strays.newer.clone(), Instant::now() + STRAYED);
    while !missing.is_empty() && Instant::now() < deadline {
        for queue in strays.queues() {
            let found = ids_in(amqp, queue, &BTreeSet::new(), STRAYED).await;
            missing.retain(|id| !found.contains(id));
        }
    }
    for id in missing {
        journal.violation(format_args!("{id} is lost: it was to wait for a worker of its version"));
    }
}

/// Of the broker, whose folder goes with it.
fn keep_logs(config: &Config, servers: &Servers) {
    let (from, to) = (servers.broker.rabbit.folder().join("log"), config.folder.join("rabbitmq"));
    let _ = std::fs::create_dir_all(&to);
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        // What is missing there is no reason to say nothing of the rest.
        let _ = std::fs::copy(entry.path(), to.join(entry.file_name()));
    }
}
