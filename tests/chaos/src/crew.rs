//! The workers of a fleet and its monitor, each started again when it ends, as a service manager does.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bluefin_test_support::free_port;
use rustix::process::Signal;

use crate::fleet::{Fleet, Process, last_line, words};
use crate::journal::Journal;

/// Between two looks at the workers.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Before one that ended is started again.
const REST: Duration = Duration::from_millis(500);
/// A drain: the grace period of workers, what handing back takes then, and closing connections that are frozen.
const DRAIN: Duration = Duration::from_secs(90);
/// The temporary folder of one that has a small one, and how it comes to it.
const CONFINED: &str = "confined";
const MOUNT: &str = r#"mkdir -p "$0" && mount -t tmpfs -o size=2m tmpfs "$0" && TMPDIR="$0" exec "$@""#;
/// The exit code of a program of Rust that panicked.
const PANICKED: i32 = 101;

/// Device classes: the second is not served most of the time.
pub const TARGET: &str = "gfx000-1";
pub const OTHER_TARGET: &str = "gfx000-2";
/// Where compilers compile for what runs nothing.
pub const HOST: &str = "host";

/// The worker that runs compilers.
const COMPILER: &str = "compile-cc";

/// Everybody who works.
pub struct Crew<'a> {
    fleet: &'a Fleet,
    journal: &'a Journal,
    posts: Vec<Mutex<Post>>,
    /// Whether folders can be mounted here: then the worker that runs compilers has a small one.
    pub can_cramp: bool,
}

/// A worker's place, whoever has it now.
struct Post {
    name: &'static str,
    arguments: Vec<String>,
    /// Is to be served.
    wanted: bool,
    process: Option<Process>,
    started: Instant,
    /// Since when there is none.
    gone: Option<Instant>,
    /// It is to end, as it was told to.
    leaving: Leaving,
    stopped: bool,
    /// Is killed when it is as old as that.
    life: Option<Duration>,
    /// Its temporary folder is small, and nobody else's.
    confined: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Leaving {
    No,
    Killed,
    /// Since then.
    Drains(Instant),
}

/// What is meant by a worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker(pub usize);

impl<'a> Crew<'a> {
    /// Those who are started by [`tend`](Self::tend).
    pub fn new(fleet: &'a Fleet, journal: &'a Journal) -> Self {
        let compile = ["compile-worker", "--grace", "3s", "--high-water", "200", "--toolchain"];
        let eval = |target: &str| words(&["eval-worker", "--grace", "3s", "--device", &format!("noop:{target}")]);
        let monitor_at = format!("127.0.0.1:{}", free_port());
        let mends = ["--mend-after", "5s", "--renew-after", "5s"];
        let monitor = [&["monitor", "--every", "1s", "--admin-addr", &monitor_at][..], &mends].concat();
        let post = |name, arguments: Vec<String>| {
            let now = Instant::now();
            Mutex::new(Post {
                name,
                arguments,
                wanted: true,
                process: None,
                started: now,
                gone: None,
                leaving: Leaving::No,
                stopped: false,
                life: None,
                confined: false,
            })
        };
        let and = |arguments: Vec<String>, more: &[&str]| [arguments, words(more)].concat();
        let posts = vec![
            post("compile-1", and(words(&compile), &["noop"])),
            post("compile-2", and(words(&compile), &["noop", "--max-jobs", "2000"])),
            post(COMPILER, and(words(&compile), &["cc", "--slots", "1"])),
            post("eval-1", eval(TARGET)),
            post("eval-2", and(eval(TARGET), &["--exit-when-idle", "5s"])),
            post("eval-host", eval(HOST)),
            post("eval-other", eval(OTHER_TARGET)),
            post("monitor", words(&monitor)),
        ];
        let wrapper = confined(&fleet.path(CONFINED));
        let mounted = Command::new("unshare").args(wrapper.iter().skip(1)).arg("true").output();
        let can_cramp = mounted.is_ok_and(|output| output.status.success());
        posts.iter().for_each(|post| {
            let mut post = lock(post);
            post.confined = can_cramp && post.name == COMPILER;
        });
        Self { fleet, journal, posts, can_cramp }
    }

    /// All but who serves the other device class.
    pub fn usual(&self) -> Vec<Worker> {
        (0..self.posts.len()).map(Worker).filter(|worker| *worker != self.of_other_class()).collect()
    }

    pub fn of_other_class(&self) -> Worker {
        self.named("eval-other")
    }

    /// The one that runs compilers.
    pub fn compiler(&self) -> Worker {
        self.named(COMPILER)
    }

    pub fn name(&self, worker: Worker) -> &'static str {
        self.post(worker).name
    }

    fn named(&self, name: &str) -> Worker {
        Worker(self.posts.iter().position(|post| lock(post).name == name).expect("it is in the crew"))
    }

    // === what may befall them

    /// SIGKILL, with everything that it started.
    pub fn kill(&self, worker: Worker) {
        let mut post = self.post(worker);
        post.leaving = Leaving::Killed;
        post.signal_group(Signal::KILL);
    }

    pub fn stop(&self, worker: Worker) {
        let mut post = self.post(worker);
        post.stopped = true;
        post.signal_group(Signal::STOP);
    }

    pub fn cont(&self, worker: Worker) {
        let mut post = self.post(worker);
        post.stopped = false;
        post.signal_group(Signal::CONT);
        if let Leaving::Drains(since) = &mut post.leaving {
            *since = Instant::now();
        }
    }

    /// SIGTERM.
    pub fn drain(&self, worker: Worker) {
        self.post(worker).drain();
    }

    /// From now on it is killed whenever it is as old as `life`; `None`: no more.
    pub fn shorten(&self, worker: Worker, life: Option<Duration>) {
        self.post(worker).life = life;
    }

    /// Fills the temporary folder of one that is [confined](Self::can_cramp), while it works.
    pub fn fill(&self, worker: Worker) {
        let Some(filler) = self.filler(worker) else { return };
        let Ok(mut file) = File::create(filler) else { return };
        // Until there is no room.
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Makes room again.
    pub fn clear(&self, worker: Worker) {
        if let Some(filler) = self.filler(worker) {
            // A worker that was started since has a folder of its own.
            let _ = std::fs::remove_file(filler);
        }
    }

    /// A file in the temporary folder of a worker, as it sees it.
    fn filler(&self, worker: Worker) -> Option<PathBuf> {
        let id = self.post(worker).process.as_ref().map(Process::id)?;
        let folder = self.fleet.path(CONFINED);
        let seen = Path::new("/proc").join(id.to_string()).join("root").join(folder.strip_prefix("/").ok()?);
        Some(seen.join("filler"))
    }

    /// Whether somebody is to be there.
    pub fn want(&self, worker: Worker, wanted: bool) {
        self.post(worker).wanted = wanted;
    }

    // === their service manager

    /// Starts whoever is missing, until `end`.
    pub fn tend(&self, end: &AtomicBool) {
        while !end.load(Ordering::Relaxed) {
            for post in &self.posts {
                self.look(&mut lock(post));
            }
            sleep(LOOK_EVERY);
        }
    }

    fn look(&self, post: &mut Post) {
        if let Some(status) = post.process.as_mut().and_then(Process::ended) {
            let (name, life) = (post.name, post.started.elapsed().as_secs_f64());
            let (code, died) = (status.code(), last_line(&self.fleet.log(name)));
            match post.leaving {
                _ if code == Some(PANICKED) => self.journal.violation(format_args!("{name} panicked: {died}")),
                Leaving::Killed => {}
                Leaving::Drains(_) if code == Some(0) => {}
                Leaving::Drains(_) => {
                    self.journal.say(format_args!("{name} was drained and ended with {status}: {died}"));
                    self.journal.note("drains that ended with an error");
                }
                Leaving::No if code == Some(0) => self.journal.note("workers that left by themselves, in order"),
                Leaving::No => {
                    self.journal.say(format_args!("{name} ended by itself after {life:.1} s with {status}: {died}"));
                    self.journal.note("workers that ended by themselves, with an error");
                }
            }
            (post.process, post.stopped, post.leaving) = (None, false, Leaving::No);
            post.gone = Some(Instant::now());
        }
        if post.process.is_some() {
            if post.life.is_some_and(|life| post.started.elapsed() >= life) {
                post.leaving = Leaving::Killed;
                post.signal_group(Signal::KILL);
            } else if !post.wanted && post.leaving == Leaving::No {
                post.drain();
            }
            if let Leaving::Drains(since) = post.leaving
                && !post.stopped
                && since.elapsed() > DRAIN
            {
                self.journal.violation(format_args!("{} does not drain within {DRAIN:?}", post.name));
                post.leaving = Leaving::Killed;
                post.signal_group(Signal::KILL);
            }
            return;
        }
        let rest = if post.life.is_some() { Duration::ZERO } else { REST };
        if post.wanted && post.gone.is_none_or(|gone| gone.elapsed() >= rest) {
            let wrapper = if post.confined { confined(&self.fleet.path(CONFINED)) } else { Vec::new() };
            post.process = Some(self.fleet.start_through(&wrapper, post.name, &post.arguments));
            // Whatever befell nobody is over.
            (post.started, post.leaving) = (Instant::now(), Leaving::No);
        }
    }

    /// Ends everybody in order; whoever does not is named.
    pub fn dismiss(&self) {
        for post in &self.posts {
            let mut post = lock(post);
            post.wanted = false;
            post.drain();
        }
        for post in &self.posts {
            let mut post = lock(post);
            let ended = post.process.as_mut().map(|process| process.wait(DRAIN));
            match ended {
                Some(Some(status)) if !status.success() => {
                    self.journal.violation(format_args!("{} was told to end and ended with {status}", post.name));
                }
                Some(None) => self.journal.violation(format_args!("{} does not drain within {DRAIN:?}", post.name)),
                _ => {}
            }
            post.process = None;
        }
    }

    fn post(&self, worker: Worker) -> MutexGuard<'_, Post> {
        lock(self.posts.get(worker.0).expect("workers are of this crew"))
    }
}

impl Post {
    fn signal_group(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal_group(signal);
        }
    }

    fn drain(&mut self) {
        // A second signal ends at once, which is another story.
        if self.leaving == Leaving::No
            && let Some(process) = &self.process
        {
            process.signal(Signal::TERM);
            self.leaving = Leaving::Drains(Instant::now());
        }
    }
}

fn lock(post: &Mutex<Post>) -> MutexGuard<'_, Post> {
    post.lock().expect("nobody panics while holding the lock")
}

/// What gives a process a small temporary folder in a name space of mounts of its own.
fn confined(folder: &Path) -> Vec<String> {
    [words(&["unshare", "-m", "sh", "-c", MOUNT]), vec![folder.display().to_string()]].concat()
}
