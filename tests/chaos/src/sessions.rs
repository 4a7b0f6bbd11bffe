//! The sessions of a run: each follows from the seed and its number, and so does what must come of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bluefin_adapters::redis::RedisStore;
use bluefin_common::session::{SearchPlan, Session, Stage};
use bluefin_common::store::Sessions as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;

use crate::crew::{HOST, OTHER_TARGET, TARGET};
use crate::fleet::{Fleet, last_line, words};
use crate::journal::Journal;
use crate::servers::ARTIFACT_TTL;

/// Sessions of the usual device class that have work left before the next one begins.
const ENOUGH: usize = 3;
/// Sessions of the class that nobody serves: more jobs than the high water of compile workers.
const OF_OTHER_CLASS: usize = 3;
/// What a producer may take that nobody disturbs.
const PRODUCED: Duration = Duration::from_secs(120);
/// The exit code of `bluefin` for that.
const WRONG_USAGE: i32 = 2;
const PAUSE: Duration = Duration::from_millis(200);

/// What kind of session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Compiled by a real compiler.
    Compiled,
    /// Planned in rounds.
    Searched,
    OfOtherClass,
}

/// A session with its problems.
#[derive(Clone, Debug)]
pub struct Campaign {
    pub name: String,
    kind: Kind,
    problems: u32,
}

impl Campaign {
    /// That of `number`, in the run of `seed`.
    pub fn of(seed: u64, number: u32) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ (u64::from(number) << 32));
        let (kind, most) = match number % 6 {
            1 => (Kind::OfOtherClass, 30),
            2 => (Kind::Compiled, 6),
            4 => (Kind::Searched, 20),
            _ => (Kind::Plain, 50),
        };
        Self { name: format!("s{number}"), kind, problems: random.random_range(most / 3..=most) }
    }

    pub fn target(&self) -> &'static str {
        match self.kind {
            Kind::Plain | Kind::Searched => TARGET,
            Kind::Compiled => HOST,
            Kind::OfOtherClass => OTHER_TARGET,
        }
    }

    /// The command that enqueues it; what it reads is in the fleet's folder from now on.
    fn enqueue(&self, fleet: &Fleet) -> Vec<String> {
        // The specs that are shipped for the host are not for that type, whose kernels would really be compiled.
        let operation = if self.kind == Kind::Compiled { "convfp16" } else { "conv" };
        let problems = (1..=self.problems)
            .map(|k| format!("{operation} -n 1 -c 8 -H 14 -W 14 -k {k} -y 3 -x 3 -p 1 -q 1 -F 0\n"))
            .collect::<String>();
        let (file, spec) = (format!("{}.txt", self.name), self.spec(fleet));
        std::fs::write(fleet.path(&file), problems).expect("the folder can be written to");
        let command = ["enqueue", &file, "--session", &self.name, "--target", self.target(), "--budget", "all"];
        [words(&command), words(&["--kernel", &spec])].concat()
    }

    fn spec(&self, fleet: &Fleet) -> String {
        let noop = include_str!("../../kernels/noop_conv.toml");
        let (name, spec) = match self.kind {
            Kind::Compiled => {
                let spec = noop.replace("\"noop-conv\"", "\"cc-conv\"").replace("\"gfx000\"", "\"host\"");
                let spec = spec.replace("toolchain = \"noop\"", "toolchain = \"cc\"");
                // On the host a launch is a call.
                let launches =
                    |line: &&str| !line.trim_start().starts_with("grid") && !line.trim_start().starts_with("block");
                ("cc-conv", spec.lines().filter(launches).collect::<Vec<_>>().join("\n"))
            }
            _ => ("noop-conv", noop.to_string()),
        };
        std::fs::write(fleet.path("noop_conv.c"), "int noop(void) { return 0; }\n")
            .expect("the folder can be written to");
        std::fs::write(fleet.path(&format!("{name}.toml")), spec).expect("the folder can be written to");
        format!("{name}.toml")
    }

    /// What no command makes: a session that plans in rounds.
    async fn prepare(&self, store: &RedisStore) {
        if self.kind != Kind::Searched {
            return;
        }
        let target = self.target().parse().expect("it is a target");
        let name = self.name.parse().expect("it is a name");
        let search = Some(SearchPlan::new("fixed", 20));
        let session = Session { search, ..Session::of_kernels(name, target, "", &Stage::ALL, 1) };
        while store.create_session(&session).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Enqueues it undisturbed.
    ///
    /// # Errors
    /// Why it could not be.
    pub fn produce(&self, fleet: &Fleet) -> Result<(), String> {
        runtime().block_on(async { self.prepare(&store(fleet).await).await });
        fleet.ask("enqueue", &self.enqueue(fleet), PRODUCED).map(drop)
    }
}

/// How far the sessions are, as far as anybody knows.
#[derive(Default)]
pub struct Known {
    /// Sessions with work left.
    pub usual: AtomicUsize,
    pub of_other_class: AtomicUsize,
}

/// Who enqueues sessions until `end`, one after the other, and is killed at it now and then. Returns those that were begun,
/// each of which is then enqueued whole.
pub fn produce(fleet: &Fleet, journal: &Journal, seed: u64, known: &Known, end: &AtomicBool) -> Vec<Campaign> {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(1));
    let (runtime, mut begun) = (runtime(), Vec::new());
    let store = runtime.block_on(store(fleet));
    for number in 0.. {
        let campaign = Campaign::of(seed, number);
        if campaign.kind == Kind::OfOtherClass && known.of_other_class.load(Ordering::Relaxed) >= OF_OTHER_CLASS {
            continue;
        }
        while known.usual.load(Ordering::Relaxed) >= ENOUGH && !end.load(Ordering::Relaxed) {
            sleep(PAUSE);
        }
        if end.load(Ordering::Relaxed) && number > 0 {
            break;
        }
        journal.say(format_args!("enqueueing {campaign:?}"));
        runtime.block_on(campaign.prepare(&store));
        let of = if campaign.kind == Kind::OfOtherClass { &known.of_other_class } else { &known.usual };
        // Until somebody has looked.
        of.fetch_add(1, Ordering::Relaxed);
        insist(fleet, journal, &campaign, &mut random, end);
        begun.push(campaign);
        sleep(Duration::from_millis(random.random_range(0..1500)));
    }
    begun
}

/// Runs the producer until it gets through.
fn insist(fleet: &Fleet, journal: &Journal, campaign: &Campaign, random: &mut StdRng, end: &AtomicBool) {
    let (arguments, mut calm) = (campaign.enqueue(fleet), None);
    for attempt in 0.. {
        // From when on nothing is in its way.
        if end.load(Ordering::Relaxed) && calm.get_or_insert_with(Instant::now).elapsed() > PRODUCED {
            let said = last_line(&fleet.log("producer"));
            journal.violation(format_args!("{} can not be enqueued within {PRODUCED:?}: {said}", campaign.name));
            return;
        }
        let mut process = fleet.start("producer", &arguments);
        let (fate, moment) = (random.random_range(0..4), Duration::from_millis(random.random_range(20..1500)));
        if attempt < 3 && fate < 3 && !end.load(Ordering::Relaxed) && process.wait(moment).is_none() {
            let (fault, signal) = [
                ("producer killed", Signal::KILL),
                ("producer told to end", Signal::TERM),
                ("producer stopped for a while", Signal::STOP),
            ][fate];
            journal.say(format_args!("{fault}, {moment:?} into {}", campaign.name));
            journal.fault(fault);
            process.signal_group(signal);
            if signal == Signal::STOP {
                sleep(moment);
                process.signal_group(Signal::CONT);
            }
        }
        match process.wait(PRODUCED) {
            Some(status) if status.success() => return,
            Some(status) if status.code() == Some(WRONG_USAGE) => {
                panic!("{}: {}", campaign.name, last_line(&fleet.log("producer")));
            }
            // Told to end, killed, or refused by a server.
            Some(_) => {}
            None => journal.note("producers that were waited for in vain"),
        }
        sleep(PAUSE);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built")
}

/// The store, once it is there.
async fn store(fleet: &Fleet) -> RedisStore {
    loop {
        match RedisStore::connect(&fleet.urls.redis, Some(&fleet.urls.cache), ARTIFACT_TTL).await {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
