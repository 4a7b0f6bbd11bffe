//! A fleet of simulated devices and compilers, which sleep for as long as a distribution says: how many devices broker and store
//! keep busy. And what a session of many jobs takes in Redis.

pub mod machine;
mod session;
mod times;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bluefin_campaign::machine::itself;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::broker::Broker;
use bluefin_common::clock::now_ms;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_kernel_spec::Bundle;
use bluefin_producer::enqueue::{Enqueuer, Publish};
use bluefin_producer::specs::LoadedSpec;
use bluefin_terminal::out;
use serde::Serialize;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use self::times::Times;
use super::enqueue::drain;
use super::jobs::{CHUNK, noop_jobs};
use super::pipeline::cpu_time;
use super::print;

/// Between two looks at what is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two small writes that tell how long one takes.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Where the messages go whose confirms are measured.
const PROBED: &str = "bluefin.bench.probe";
/// Without a new outcome for this long, and for the longest of what is simulated, the run has failed.
const STALLED: Duration = Duration::from_secs(30);
/// For a process to drain and end.
const ENDS_WITHIN: Duration = Duration::from_secs(40);
/// Compilers are so much faster than devices, so that these never wait for them.
const FASTER: f64 = 1.25;
/// The shares of the jobs between which the clock runs: before, workers connect; after, devices run out of jobs.
const FROM: f64 = 0.15;
const UNTIL: f64 = 0.9;

/// Arguments of `bluefin bench fleet`.
#[derive(clap::Args, Clone, Debug)]
pub struct FleetBenchArgs {
    /// Devices; a run is made for each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])]
    devices: Vec<usize>,
    /// What a job takes on a device: 100ms, uniform:100ms or exponential:100ms, of which that is the mean
    #[arg(long, value_name = "TIMES", default_value = "100ms")]
    device_time: Times,
    /// What the compilers of a job take
    #[arg(long, value_name = "TIMES", default_value = "50ms")]
    compile_time: Times,
    /// Compilers that run at a time [default: a quarter more than the devices need]
    #[arg(long, value_name = "N")]
    compilers: Option<usize>,
    /// Jobs that each device has in hand: GPUs have 2
    #[arg(long, value_name = "N", default_value_t = 2)]
    prefetch: u16,
    /// Processes that the devices, and the compilers, are spread over
    #[arg(long, value_name = "N", default_value_t = 4)]
    processes: usize,
    /// Jobs for as long as this, for each number of devices
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = humantime::parse_duration)]
    time: Duration,
    /// Measure a session of so many jobs in Redis instead: memory, and the times of status, progress and results
    #[arg(long, value_name = "N", conflicts_with_all = ["devices", "compilers", "processes"])]
    session_jobs: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// What so many devices came to.
#[derive(Debug, Serialize)]
struct Run {
    devices: usize,
    compilers: usize,
    jobs: u64,
    jobs_per_second: f64,
    /// Share of the devices' time in which they had a job, as long as that is meant to take.
    efficiency: f64,
    /// What a device waits between two jobs.
    gap_ms: f64,
    /// Share of this machine's CPUs that all processes took, broker and store included where they are on it; where the system tells.
    cpu: Option<f64>,
    cpu_us_per_job: Option<f64>,
    /// A small write to the store, and a small message until its confirm, beside.
    write_ms: Quantiles,
    confirm_ms: Quantiles,
    /// Mean of the jobs that waited to be compiled and to be evaluated: where there are none of the latter, devices wait for compilers.
    waiting_compile: f64,
    waiting_eval: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Quantiles {
    p50: f64,
    p95: f64,
}

impl Quantiles {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        Self { p50: at(0.5), p95: at(0.95) }
    }
}

impl FleetBenchArgs {
    pub(super) async fn run(&self) -> anyhow::Result<()> {
        if let Some(jobs) = self.session_jobs {
            return print(&session::measure(jobs, &self.fleet).await?, self.json);
        }
        let least = [self.processes, self.prefetch.into()].into_iter().chain(self.devices.iter().copied()).min();
        if least == Some(0) {
            return Err(bluefin_campaign::usage("--devices, --processes and --prefetch: found 0, expected at least 1"));
        }
        let mut runs = Vec::new();
        if !self.json {
            out::line(format_args!(
                "devices of {}, compilers of {}, {} jobs in hand each, {} processes",
                self.device_time, self.compile_time, self.prefetch, self.processes
            ))?;
            out::line(Run::HEAD)?;
        }
        for devices in &self.devices {
            let run = self.one(*devices).await.with_context(|| format!("{devices} devices"))?;
            if !self.json {
                out::line(run.row())?;
            }
            runs.push(run);
        }
        if self.json {
            out::json(&runs)?;
        }
        Ok(())
    }

    async fn one(&self, devices: usize) -> anyhow::Result<Run> {
        let (store, broker) = (self.fleet.store().await?, self.fleet.broker().await?);
        let (device_s, compile_s) = (self.device_time.mean().as_secs_f64(), self.compile_time.mean().as_secs_f64());
        let needed = (devices as f64 * FASTER * compile_s / device_s).ceil() as usize;
        let compilers = self.compilers.unwrap_or(needed.max(1));
        // Queues of its own, so that nothing of one run is in another.
        let target: Target = format!("gfx000-{devices}").parse()?;
        let created_ms = now_ms();
        let name = format!("bench-fleet-{created_ms}-{devices}").parse()?;
        let session = Session::of_kernels(name, target.clone(), "bluefin bench fleet", &[Stage::Perf], created_ms);
        let jobs = (devices as f64 * self.time.as_secs_f64() / device_s).ceil() as u64;
        enqueue(&*store, &*broker, &session, jobs).await?;

        let mut machines = Vec::new();
        for index in 0..self.processes {
            let share = |all: usize| all / self.processes + usize::from(index < all % self.processes);
            if share(devices) + share(compilers) > 0 {
                machines.push(self.start(&target, share(devices), share(compilers))?);
            }
        }
        let watched =
            Watch { store: &*store, broker: &*broker, session: &session }.run(jobs, &mut machines, self).await;
        let ended = end(machines).await;
        drain(&*broker, PROBED, broker.depth(PROBED).await?).await?;
        broker.close().await;
        let watched = watched?;
        ended?;
        let Watched { jobs, took, cpu, writes, confirms, waiting } = watched;
        let rate = jobs as f64 / took.as_secs_f64();
        let efficiency = rate * device_s / devices as f64;
        let waiting = |queue: &str| {
            let depths = waiting.get(queue).map_or(&[][..], Vec::as_slice);
            depths.iter().sum::<u64>() as f64 / depths.len().max(1) as f64
        };
        Ok(Run {
            devices,
            compilers,
            jobs,
            jobs_per_second: rate,
            efficiency,
            gap_ms: (1.0 / efficiency - 1.0) * device_s * 1000.0,
            cpu: cpu.map(|cpu| cpu.as_secs_f64() / took.as_secs_f64() / itself::cpus() as f64),
            cpu_us_per_job: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / jobs as f64),
            write_ms: Quantiles::of(writes),
            confirm_ms: Quantiles::of(confirms),
            waiting_compile: waiting(COMPILE),
            waiting_eval: waiting(EVAL),
        })
    }

    /// Starts a process that ends when its standard input does.
    fn start(&self, target: &Target, devices: usize, compilers: usize) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "machine"]);
        let numbers = [devices, compilers, self.prefetch.into()].map(|number| number.to_string());
        let [devices, compilers, prefetch] = &numbers;
        let (target, device_time) = (target.to_string(), self.device_time.to_string());
        let compile_time = self.compile_time.to_string();
        for (flag, value) in [
            ("--target", &target),
            ("--devices", devices),
            ("--device-time", &device_time),
            ("--prefetch", prefetch),
            ("--compilers", compilers),
            ("--compile-time", &compile_time),
        ] {
            command.args([flag, value]);
        }
        let FleetArgs { amqp, redis, cache, .. } = &self.fleet;
        for (flag, url) in [("--amqp", amqp), ("--redis", redis), ("--cache", cache)] {
            if let Some(url) = url {
                command.args([flag, url]);
            }
        }
        command.stdin(Stdio::piped()).kill_on_drop(true).spawn().context("a process of the fleet")
    }
}

/// Enqueues `count` jobs, each with an artifact of its own.
async fn enqueue(store: &dyn Store, broker: &dyn Broker, session: &Session, count: u64) -> anyhow::Result<()> {
    let files = BTreeMap::from([("noop.c".to_string(), "void noop(void) {}\n".to_string())]);
    let spec =
        LoadedSpec::load(Bundle { toml: include_str!("fleet/fleet.toml").to_string(), files, ..Bundle::default() })?;
    store.put_blob(&spec.bundle.encode()?).await?;
    let mut enqueuer = Enqueuer::open(store, broker, session, Publish::Missing).await?;
    let mut planned = 0;
    while planned < count {
        let jobs = noop_jobs(session, &spec, planned, CHUNK.min(count - planned))?;
        planned += jobs.len() as u64;
        enqueuer.enqueue(jobs).await?;
    }
    Ok(())
}

/// Closes the standard input of all processes and waits for their end.
async fn end(mut machines: Vec<Child>) -> anyhow::Result<()> {
    for machine in &mut machines {
        drop(machine.stdin.take());
    }
    for machine in &mut machines {
        let status = timeout(ENDS_WITHIN, machine.wait()).await.context("a process of the fleet does not end")??;
        ensure!(status.success(), "a process of the fleet failed: {status}");
    }
    Ok(())
}

const COMPILE: &str = "compile";
const EVAL: &str = "eval";

/// Who watches a run.
struct Watch<'a> {
    store: &'a dyn Store,
    broker: &'a dyn Broker,
    session: &'a Session,
}

/// What was seen while the clock ran.
struct Watched {
    jobs: u64,
    took: Duration,
    cpu: Option<Duration>,
    /// Milliseconds.
    writes: Vec<f64>,
    confirms: Vec<f64>,
    waiting: BTreeMap<&'static str, Vec<u64>>,
}

/// What is measured beside, while the clock runs.
#[derive(Default)]
struct Beside {
    writes: Vec<f64>,
    confirms: Vec<f64>,
    waiting: BTreeMap<&'static str, Vec<u64>>,
}

impl Watch<'_> {
    /// Waits until `count` jobs have outcomes.
    async fn run(&self, count: u64, machines: &mut [Child], args: &FleetBenchArgs) -> anyhow::Result<Watched> {
        let beside = Mutex::new(None);
        let stalled = STALLED + args.device_time.mean() * 20 + args.compile_time.mean() * 20;
        tokio::select! {
            watched = self.clock(count, machines, stalled, &beside) => watched,
            ended = self.probe(&beside) => {
                let Err(error) = ended;
                Err(error)
            }
        }
    }

    async fn clock(
        &self,
        count: u64,
        machines: &mut [Child],
        stalled: Duration,
        beside: &Mutex<Option<Beside>>,
    ) -> anyhow::Result<Watched> {
        let beside = || beside.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, until) = ((count as f64 * FROM).ceil() as u64, (count as f64 * UNTIL).ceil() as u64);
        let (mut done, mut moved) = (0, Instant::now());
        let (mut first, mut watched) = (None, None);
        loop {
            let now = done_of(self.store, &self.session.name).await?;
            if now > done {
                (done, moved) = (now, Instant::now());
            }
            match &first {
                None if done >= from => {
                    *beside() = Some(Beside::default());
                    first = Some((done, moved, cpu_time()));
                }
                Some((before, started, cpu)) if watched.is_none() && done >= until => {
                    let Beside { writes, confirms, waiting } = beside().take().unwrap_or_default();
                    watched = Some(Watched {
                        jobs: done - before,
                        took: moved.duration_since(*started),
                        cpu: cpu_time().zip(*cpu).map(|(now, then)| now.saturating_sub(then)),
                        writes,
                        confirms,
                        waiting,
                    });
                }
                _ => {}
            }
            if done >= count
                && let Some(watched) = watched.take()
            {
                return Ok(watched);
            }
            if let Some(status) = machines.iter_mut().find_map(|machine| machine.try_wait().ok().flatten()) {
                bail!("a process of the fleet ended: {status}");
            }
            ensure!(moved.elapsed() < stalled, "stalled at {done} of {count} jobs");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Measures what a write and a confirm take, and what waits, while somebody wants to know. Ends with an error alone.
    async fn probe(&self, beside: &Mutex<Option<Beside>>) -> anyhow::Result<Infallible> {
        let (shelf, record) = ("bench", [("probe".to_string(), b"probe".to_vec())]);
        let Session { target, method, .. } = self.session;
        let queues = [(COMPILE, compile_queue("noop", target)), (EVAL, eval_queue(target, *method))];
        loop {
            let write = async {
                let started = Instant::now();
                self.store.put_records(shelf, &record).await?;
                anyhow::Ok(started.elapsed().as_secs_f64() * 1000.0)
            };
            let confirm = async {
                let started = Instant::now();
                self.broker.publish(PROBED, "probe", bytes::Bytes::new()).await?;
                anyhow::Ok(started.elapsed().as_secs_f64() * 1000.0)
            };
            let (write, confirm) = tokio::try_join!(write, confirm)?;
            let mut depths = Vec::new();
            for (what, queue) in &queues {
                depths.push((*what, self.broker.depth(queue).await?));
            }
            if let Some(beside) = &mut *beside.lock().unwrap_or_else(PoisonError::into_inner) {
                beside.writes.push(write);
                beside.confirms.push(confirm);
                for (what, depth) in depths {
                    beside.waiting.entry(what).or_default().push(depth);
                }
            }
            sleep(PROBE_EVERY).await;
        }
    }
}

async fn done_of(store: &dyn Store, session: &SessionName) -> anyhow::Result<u64> {
    Ok(store.progress(session).await?.done.values().sum())
}

impl Run {
    const HEAD: &'static str = "devices compilers    jobs/s  efficiency  gap ms   CPU  us/job  write ms p50 p95  confirm ms p50 p95  waiting: compile    eval";

    fn row(&self) -> String {
        let Self { devices, compilers, write_ms, confirm_ms, .. } = self;
        format!(
            "{devices:>7} {compilers:>9} {:>9.1} {:>9.1} % {:>7.1} {:>3.0} % {:>7.0} {:>12.1} {:>4.1} {:>15.1} {:>4.1} {:>16.0} {:>7.0}",
            self.jobs_per_second,
            100.0 * self.efficiency,
            self.gap_ms,
            100.0 * self.cpu.unwrap_or(f64::NAN),
            self.cpu_us_per_job.unwrap_or(f64::NAN),
            write_ms.p50,
            write_ms.p95,
            confirm_ms.p50,
            confirm_ms.p95,
            self.waiting_compile,
            self.waiting_eval,
        )
    }
}
