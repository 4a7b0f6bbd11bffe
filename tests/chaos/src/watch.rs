//! Somebody who asks how far it is, all the time. The answer comes soon, whatever is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::crew::OTHER_TARGET;
use crate::fleet::{Fleet, words};
use crate::journal::Journal;
use crate::sessions::Known;

/// Broker and store have three seconds each; the rest is for a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(20);

/// Asks until `end`, at random moments.
pub fn watch(fleet: &Fleet, journal: &Journal, seed: u64, known: &Known, end: &AtomicBool) {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(2));
    let mut slowest = Duration::ZERO;
    while !end.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(random.random_range(100..1500)));
        let asked = Instant::now();
        let answer = fleet.ask("status", &words(&["status", "--json"]), SOON);
        let took = asked.elapsed();
        journal.fault("status asked for");
        slowest = slowest.max(took);
        match answer {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(status) => learn(&status, known),
                Err(error) => journal.violation(format_args!("status printed no JSON: {error}: {text}")),
            },
            Err(_) if took >= SOON => {
                journal.violation(format_args!("status takes longer than {SOON:?}"));
            }
            // It says what is away.
            Err(_) => journal.note("times that status said that something is away"),
        }
    }
    journal.say(format_args!("the slowest status took {:.1} s", slowest.as_secs_f64()));
}

fn learn(status: &Value, known: &Known) {
    let open = status["sessions"].as_array().into_iter().flatten().filter(|session| session["complete"] != true);
    let (other, usual): (Vec<_>, Vec<_>) = open.partition(|session| session["target"] == OTHER_TARGET);
    known.usual.store(usual.len(), Ordering::Relaxed);
    known.of_other_class.store(other.len(), Ordering::Relaxed);
}
