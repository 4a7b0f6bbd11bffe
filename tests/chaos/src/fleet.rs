//! Running `bluefin` in a fleet.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bluefin_test_support::launch::Server;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::servers::Urls;

const POLL: Duration = Duration::from_millis(20);

/// Where a fleet meets, and the folder that its processes work in.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub bluefin: PathBuf,
    pub folder: PathBuf,
    pub urls: Urls,
}

/// A process of a fleet, killed when dropped, and with whoever started it.
pub struct Process(Server);

impl Fleet {
    /// Starts `bluefin arguments`; what it says goes to `LOG.log`.
    pub fn start(&self, log: &str, arguments: &[String]) -> Process {
        self.start_through(&[], log, arguments)
    }

    /// The same through `wrapper`, a command that becomes what follows it.
    pub fn start_through(&self, wrapper: &[String], log: &str, arguments: &[String]) -> Process {
        let bluefin = self.bluefin.display().to_string();
        let line: Vec<&String> = wrapper.iter().chain([&bluefin]).chain(arguments).collect();
        let (program, rest) = line.split_first().expect("there is bluefin at least");
        Process(Server::spawn(program, &self.log(log), |command| {
            self.prepare(command);
            command.args(rest);
        }))
    }

    /// Runs `bluefin arguments` to its end, for at most `patience`, and returns what it printed.
    ///
    /// # Errors
    /// How it ended otherwise, and what it said on standard error.
    pub fn ask(&self, name: &str, arguments: &[String], patience: Duration) -> Result<String, String> {
        let (printed, said) = (format!("{name}.printed"), format!("{name}.said"));
        for log in [&printed, &said] {
            // There is none the first time.
            let _ = std::fs::remove_file(self.log(log));
        }
        let wrapper =
            [&words(&["sh", "-c", r#"exec "$@" 2>>"$0""#])[..], &[self.log(&said).display().to_string()]].concat();
        let mut process = self.start_through(&wrapper, &printed, arguments);
        let read = |log: &str| std::fs::read_to_string(self.log(log)).unwrap_or_default();
        match process.wait(patience) {
            Some(status) if status.success() => Ok(read(&printed)),
            Some(status) => Err(format!("{status}: {}", read(&said).trim())),
            None => Err(format!("not ended after {patience:?}: {}", read(&said).trim())),
        }
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Where `name` is among what the fleet made.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn prepare(&self, command: &mut Command) {
        for (variable, url) in [
            ("BLUEFIN_AMQP_URL", &self.urls.amqp),
            ("BLUEFIN_REDIS_URL", &self.urls.redis),
            ("BLUEFIN_CACHE_URL", &self.urls.cache),
        ] {
            command.env(variable, url);
        }
        command.current_dir(&self.folder).env_remove("BLUEFIN_LOG");
    }
}

impl Process {
    /// To it alone; compilers and devices are processes of their own.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }

    pub fn signal_group(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.ended()
    }

    /// The same, waited for.
    pub fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() >= deadline {
                return ended;
            }
            sleep(POLL);
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }
}

/// The last line of a log, without colours.
pub fn last_line(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    text.lines().last().unwrap_or_default().chars().take(300).collect()
}

/// `words` as arguments.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}
