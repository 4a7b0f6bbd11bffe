//! Anything may die at any instant. A session on the device that does nothing is repeated while its workers, its producer,
//! RabbitMQ and Redis are killed at random moments; it must complete, count everything once, and export the same bytes as
//! an undisturbed run.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bluefin_test_support::{Rabbit, Redis, RedisOptions, Vhost, wait_until};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::fleet::{Fleet, many_problems, noop_spec};
use crate::common::{Running, expect, files, write};

const PATIENCE: Duration = Duration::from_secs(240);
/// Problems of the session, three directions each and six jobs for each of those.
const PROBLEMS: u32 = 120;
const ENQUEUE: [&str; 8] = ["enqueue", "problems.txt", "--session", "chaos", "--target", "gfx000-1", "--budget", "all"];
const COMPILE: [&str; 3] = ["compile-worker", "--toolchain", "noop"];
const EVAL: [&str; 3] = ["eval-worker", "--device", "noop:gfx000-1"];
const MONITOR: [&str; 9] =
    ["monitor", "--every", "1s", "--mend-after", "5s", "--renew-after", "5s", "--admin-addr", "127.0.0.1:0"];

/// A source of moments; its seed is printed so that a failure can be repeated.
fn random() -> StdRng {
    let seed = std::env::var("BLUEFIN_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("BLUEFIN_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

fn pause(random: &mut StdRng, most_ms: u64) {
    std::thread::sleep(Duration::from_millis(random.random_range(0..most_ms)));
}

/// What an undisturbed run exports, and how many jobs it has.
fn undisturbed() -> (BTreeMap<String, Vec<u8>>, u64) {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    write(fleet.folder.path(), "problems.txt", &many_problems(PROBLEMS));
    expect(&mut producer(&fleet), 0);
    let _workers = [fleet.worker(&COMPILE), fleet.worker(&EVAL)];
    fleet.wait_complete("chaos", PATIENCE);
    let jobs = jobs_done(&fleet);
    (files(&fleet.export("chaos", "out")), jobs)
}

/// Jobs that have an outcome by now.
fn outcomes(fleet: &Fleet) -> u64 {
    let status = fleet.status("chaos").unwrap_or_default();
    status["done"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

/// What `look` finds while `workers` stand still: on a slow machine they would be done before it has looked.
fn held<T>(workers: &[Immortal<'_>], look: impl FnOnce() -> T) -> T {
    let all = |signal| {
        for worker in workers {
            // One that has ended is started again by whoever kills it.
            let _ = kill_process(Pid::from_child(&worker.running.0), signal);
        }
    };
    all(Signal::STOP);
    let found = look();
    all(Signal::CONT);
    found
}

/// Jobs of a session that is complete, all stages.
fn jobs_done(fleet: &Fleet) -> u64 {
    let status = fleet.told("chaos");
    let done: u64 = status["done"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
    let planned: u64 = status["planned"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(done, planned, "{status}");
    let candidates = status["candidates"].as_object().unwrap();
    assert!(candidates.keys().all(|result| result == "timed"), "nothing failed: {status}");
    done
}

/// A worker that is started again whenever it is found dead.
struct Immortal<'a> {
    fleet: &'a Fleet,
    arguments: &'a [&'a str],
    running: Running,
}

impl<'a> Immortal<'a> {
    fn start(fleet: &'a Fleet, arguments: &'a [&'a str]) -> Self {
        Self { fleet, arguments, running: fleet.worker(arguments) }
    }

    fn kill(&mut self) {
        self.running = {
            self.running.signal(Signal::KILL);
            self.fleet.worker(self.arguments)
        };
    }
}

/// Disturbs while there is work, at most `rounds` times, then lets it complete, and compares.
fn survives(
    fleet: &Fleet,
    rounds: u32,
    random: &mut StdRng,
    mut disturb: impl FnMut(&mut [Immortal<'_>], &mut StdRng),
) {
    let (expected, jobs) = undisturbed();
    write(fleet.folder.path(), "problems.txt", &many_problems(PROBLEMS));
    let mut workers = [
        Immortal::start(fleet, &COMPILE),
        Immortal::start(fleet, &EVAL),
        Immortal::start(fleet, &COMPILE),
        Immortal::start(fleet, &EVAL),
    ];
    // The producer is one of those that die, until it gets through.
    let mut enqueued = false;
    let mut disturbed = 0;
    let started = Instant::now();
    for _ in 0..rounds {
        let most_ms = if enqueued { 700 } else { 8000 };
        let moment = Instant::now() + Duration::from_millis(random.random_range(0..most_ms));
        // However fast the machine is, a session is disturbed several times.
        let share = held(&workers, || outcomes(fleet)) + random.random_range(0..jobs / 8);
        let is_over = || Instant::now() >= moment || held(&workers, || outcomes(fleet)) >= share;
        if enqueued {
            while !is_over() {
                std::thread::sleep(Duration::from_millis(20));
            }
        } else {
            let mut producer = Running::start(producer(fleet).stdout(Stdio::null()).stderr(Stdio::null()));
            while !enqueued && !is_over() {
                std::thread::sleep(Duration::from_millis(20));
                enqueued = producer.0.try_wait().unwrap().is_some_and(|status| status.success());
            }
        }
        let now = held(&workers, || fleet.status("chaos"));
        if now.is_some_and(|status| status["complete"] == true) && enqueued {
            break;
        }
        disturb(&mut workers, random);
        disturbed += 1;
    }
    println!("disturbed {disturbed} times in {:?}, before the session was complete", started.elapsed());
    assert!(disturbed >= 3, "too fast to be disturbed: raise PROBLEMS");
    wait_until(PATIENCE, "the producer to get through", || producer(fleet).output().unwrap().status.success());
    fleet.wait_complete("chaos", PATIENCE);
    assert_eq!(jobs_done(fleet), jobs, "everything counted once");
    let found = files(&fleet.export("chaos", "out"));
    assert!(found == expected, "the exported bytes differ");
}

fn producer(fleet: &Fleet) -> Command {
    let mut command = fleet.bluefin(&ENQUEUE);
    command.arg("--kernel").arg(noop_spec());
    command
}

#[test]
fn killed_workers_and_producers_lose_nothing() {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    let mut random = random();
    survives(&fleet, 40, &mut random, |workers, random| {
        let victim = random.random_range(0..workers.len());
        workers[victim].kill();
    });
}

#[test]
fn killed_and_frozen_servers_lose_nothing() {
    let rabbit = std::cell::RefCell::new(Rabbit::start());
    let redis = std::cell::RefCell::new(Redis::start(RedisOptions::DURABLE));
    let fleet = Fleet::new(rabbit.borrow().url(), redis.borrow().url(), redis.borrow().url());
    // RabbitMQ before 4.0 that is killed soon after a queue was declared has it in name alone, and whoever hands a job back to it
    // is not answered. The monitor makes it anew.
    let _monitor = fleet.worker(&MONITOR);
    let mut random = random();
    survives(&fleet, 12, &mut random, |workers, random| match random.random_range(0..4) {
        0 => {
            rabbit.borrow_mut().kill();
            pause(random, 500);
            rabbit.borrow_mut().restart();
        }
        1 => {
            redis.borrow_mut().kill();
            pause(random, 500);
            redis.borrow_mut().restart();
        }
        2 => {
            redis.borrow().stop();
            pause(random, 3000);
            redis.borrow().cont();
        }
        _ => {
            rabbit.borrow().stop();
            pause(random, 3000);
            rabbit.borrow().cont();
            let victim = random.random_range(0..workers.len());
            workers[victim].kill();
        }
    });
}
