//! Runs one of MIOpen's tools: bounded in time and output, watched for signs of life, and ended with all its children.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::scrub::scrub;
use bluefin_common::control_group::ControlGroup;
use bluefin_common::process_group::ProcessGroup;

/// Bytes kept of what a tool prints, unless somebody wants more; its end says why it died.
const TAIL: usize = 16 << 10;
/// Between two looks at a running tool.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the last words of a tool that ended may take to arrive: a child of it may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Bounds of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Wall-clock time.
    pub time: Duration,
    /// Longest time without a sign of life: something printed, or processor time used where that counts.
    pub silence: Duration,
    /// Whether processor time is a sign of life. It is for a compiler; who waits for a GPU may spin.
    pub processor_counts: bool,
    /// Bytes of the file that it writes its answer to.
    pub output_bytes: u64,
    /// Bytes kept of the end of what it prints.
    pub tail_bytes: usize,
    /// Bytes kept of its beginning, where that counts as well.
    pub head_bytes: usize,
    /// What the files that tell of control groups are below: `/`.
    pub root: PathBuf,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            // MIOpen's own limit of one search is two hours.
            time: Duration::from_secs(3 * 3600),
            silence: Duration::from_secs(900),
            processor_counts: true,
            output_bytes: 512 << 20,
            tail_bytes: TAIL,
            head_bytes: 0,
            root: PathBuf::from("/"),
        }
    }
}

/// One run of a tool.
#[derive(Debug)]
pub struct Run {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    pub folder: PathBuf,
    /// The file whose size is bounded.
    pub output: Option<PathBuf>,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, or by a signal that was not sent here.
    Exited(ExitStatus),
    /// Killed: it ran for longer than it may.
    OutOfTime,
    /// Killed: no sign of life for too long.
    Silent,
    /// Killed: its answer grew too large.
    TooLarge,
    /// Killed by the kernel for want of memory: what there is too little of.
    Killed(String),
}

/// What is known of a run.
#[derive(Debug)]
pub struct Ran {
    pub ended: Ended,
    /// The end of what it printed, behind the beginning where that is kept, without what looks like its environment.
    pub tail: String,
    pub took: Duration,
}

impl Ran {
    /// Whether it exited with code 0, which says little: see the protocol of its tool.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self.ended, Ended::Exited(status) if status.success())
    }
}

tokio::task_local! {
    /// What tools of a task have open.
    static KEPT: Option<Arc<File>>;
}

/// What a tool that has a file open is started by: it has nothing to read, and the file by a number of its own.
const KEEPING: [&str; 4] = ["/bin/sh", "-c", "exec 9<&0 </dev/null; exec \"$@\"", "sh"];

/// Does `work`, whose tools have `file` open. A lock on it lasts as long as they do, even if this process is killed: they have it by the same opening.
pub async fn holding<T>(file: Option<Arc<File>>, work: impl Future<Output = T>) -> T {
    KEPT.scope(file, work).await
}

/// What a tool is started by, with what it has open.
fn command(run: &Run) -> io::Result<Command> {
    let (program, args) = run.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = match KEPT.try_with(Clone::clone).ok().flatten() {
        None => {
            let mut command = Command::new(program);
            command.stdin(Stdio::null());
            command
        }
        Some(file) => {
            find(program, run)?;
            let [shell, words @ ..] = KEEPING;
            let mut command = Command::new(shell);
            command.args(words).arg(program).stdin(file.try_clone()?);
            command
        }
    };
    command.args(args);
    Ok(command)
}

/// Whether there is such a program, which a shell would tell by its exit code alone.
fn find(program: &OsStr, run: &Run) -> io::Result<()> {
    let is_there = |path: PathBuf| path.metadata().is_ok_and(|found| found.is_file());
    let path = || run.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let found = match program.as_encoded_bytes().contains(&b'/') {
        true => is_there(run.folder.join(program)),
        // Where none is said the shell has one of its own.
        false => path().is_none_or(|path| std::env::split_paths(&path).any(|folder| is_there(folder.join(program)))),
    };
    if found { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Runs a tool to its end. Dropping the future kills it.
///
/// # Errors
/// If it can not be started.
pub async fn run(run: &Run, watch: &Watch) -> io::Result<Ran> {
    let started = Instant::now();
    let control_group = ControlGroup::of_this_process(&watch.root);
    let kills = control_group.kills();
    let mut child = command(run)?
        .current_dir(&run.folder)
        .env_clear()
        .envs(run.environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let mut group = ProcessGroup::of(child.id());
    let printed = Arc::new(Printed { kept: watch.tail_bytes, kept_first: watch.head_bytes, ..Printed::default() });
    let mut readers = JoinSet::new();
    for pipe in [child.stdout.take().map(Pipe::Out), child.stderr.take().map(Pipe::Err)].into_iter().flatten() {
        let printed = Arc::clone(&printed);
        readers.spawn(async move {
            match pipe {
                Pipe::Out(pipe) => printed.read(pipe).await,
                Pipe::Err(pipe) => printed.read(pipe).await,
            }
        });
    }
    let ended = wait(&mut child, &group, run, watch, &printed, started).await?;
    // Also what it left behind: nothing of a group outlives its leader here.
    group.kill();
    if !matches!(ended, Ended::Exited(_)) {
        child.wait().await?;
    }
    group.disarm();
    let ended = match ended {
        Ended::Exited(status)
            if status.signal() == Some(Signal::KILL.as_raw()) && control_group.killed_since(kills) =>
        {
            Ended::Killed(control_group.to_string())
        }
        ended => ended,
    };
    let _ = timeout(LAST_WORDS, async { while readers.join_next().await.is_some() {} }).await;
    Ok(Ran { ended, tail: scrub(&String::from_utf8_lossy(&printed.text())), took: started.elapsed() })
}

async fn wait(
    child: &mut Child,
    group: &ProcessGroup,
    run: &Run,
    watch: &Watch,
    printed: &Printed,
    started: Instant,
) -> io::Result<Ended> {
    let mut life = (0, None);
    let mut alive_at = started;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return Ok(Ended::Exited(status?)),
            () = sleep(LOOK_EVERY) => {}
        }
        let processor = watch.processor_counts.then(|| processor_time(group));
        let now = (printed.bytes.load(Ordering::Relaxed), processor);
        if now != life {
            (life, alive_at) = (now, Instant::now());
        }
        if started.elapsed() >= watch.time {
            return Ok(Ended::OutOfTime);
        }
        if alive_at.elapsed() >= watch.silence {
            return Ok(Ended::Silent);
        }
        // Of what a link leads to nobody asks.
        let size = run.output.as_ref().and_then(|path| path.symlink_metadata().ok()).map_or(0, |found| found.len());
        if size > watch.output_bytes {
            return Ok(Ended::TooLarge);
        }
    }
}

/// How a process that ended by itself did so, for people.
#[must_use]
pub fn describe(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("exit code {}", status.code().unwrap_or_default());
    };
    match Signal::from_named_raw(signal) {
        Some(Signal::ABORT) => "killed by SIGABRT, which an uncaught exception ends in".to_string(),
        Some(Signal::SEGV) => "killed by SIGSEGV".to_string(),
        Some(Signal::BUS) => "killed by SIGBUS".to_string(),
        Some(Signal::XFSZ) => "killed by SIGXFSZ: the limit of file size".to_string(),
        Some(Signal::KILL) => {
            "killed by SIGKILL, not by bluefin; most likely the machine ran out of memory".to_string()
        }
        _ => format!("killed by signal {signal}"),
    }
}

enum Pipe {
    Out(tokio::process::ChildStdout),
    Err(tokio::process::ChildStderr),
}

/// What a tool has printed.
#[derive(Default)]
struct Printed {
    bytes: AtomicU64,
    /// At most so many of the end.
    kept: usize,
    /// And of the beginning.
    kept_first: usize,
    lines: Mutex<Lines>,
}

/// The lines that are kept.
#[derive(Default)]
struct Lines {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Bytes between the two.
    left_out: usize,
}

impl Printed {
    /// Keeps the last lines of a stream. Whole lines only: half of one does not tell whether it holds a secret, and what
    /// the tool prints to its other stream must not come in between.
    async fn read(&self, mut from: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 16 << 10];
        let mut line = Vec::new();
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            line.extend(chunk.iter().take(count));
            if let Some(last) = line.iter().rposition(|byte| *byte == b'\n') {
                let rest = line.split_off(last + 1);
                self.add(&line);
                line = rest;
            }
            // The beginning of an endless line says what it is.
            line.truncate(self.kept);
        }
        self.add(&line);
    }

    fn add(&self, lines: &[u8]) {
        let mut kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { head, tail, left_out } = &mut *kept;
        tail.extend(lines);
        let excess = tail.len().saturating_sub(self.kept);
        if excess > 0 {
            let end = tail.iter().skip(excess).position(|byte| *byte == b'\n').map_or(tail.len(), |at| excess + at + 1);
            let gone: Vec<u8> = tail.drain(..end).collect();
            for line in gone.split_inclusive(|byte| *byte == b'\n') {
                let is_first = *left_out == 0 && head.len() + line.len() <= self.kept_first;
                if is_first { head.extend(line) } else { *left_out += line.len() }
            }
        }
    }

    fn text(&self) -> Vec<u8> {
        let kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { head, tail, left_out } = &*kept;
        let between = match head.is_empty() || *left_out == 0 {
            true => String::new(),
            false => format!("[{left_out} bytes left out]\n"),
        };
        [head.as_slice(), between.as_bytes(), tail.as_slice()].concat()
    }
}

/// Clock ticks that its processes have used so far, as far as the system tells.
fn processor_time(group: &ProcessGroup) -> u64 {
    let Some(group) = group.leader() else { return 0 };
    let wanted = group.as_raw_nonzero().get().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let stats = processes
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    stats
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .map(|stat| ticks(&stat, &wanted))
        .sum()
}

/// User and system time of a line of `/proc/<pid>/stat`, its waited-for children included; 0 if it is of another group.
fn ticks(stat: &str, group: &str) -> u64 {
    // The name in front may hold blanks and brackets: fields are counted from behind it. See proc_pid_stat(5).
    let Some((_, fields)) = stat.rsplit_once(") ") else { return 0 };
    let fields: Vec<&str> = fields.split(' ').collect();
    if fields.get(2) != Some(&group) {
        return 0;
    }
    fields.iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        Run {
            command: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            folder: "/".into(),
            output: None,
        }
    }

    fn short() -> Watch {
        Watch { time: Duration::from_secs(30), silence: Duration::from_secs(30), ..Watch::default() }
    }

    #[tokio::test]
    async fn what_it_says_and_how_it_ends() {
        let ran = run(&shell("echo out; echo err >&2; exit 3"), &short()).await.unwrap();
        assert!(ran.tail.contains("out") && ran.tail.contains("err"), "{}", ran.tail);
        assert!(!ran.is_success());
        let Ended::Exited(status) = ran.ended else { panic!("{:?}", ran.ended) };
        assert_eq!(describe(status), "exit code 3");
        let ran = run(&shell("kill -ABRT $$"), &short()).await.unwrap();
        let Ended::Exited(status) = ran.ended else { panic!("{:?}", ran.ended) };
        assert!(describe(status).contains("SIGABRT"));
    }

    #[tokio::test]
    async fn a_kill_that_was_counted_was_for_want_of_memory() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let counter = root.path().join("proc/vmstat");
        std::fs::write(&counter, "oom_kill 6\n").unwrap();
        let watch = Watch { root: root.path().to_path_buf(), ..short() };
        let ran = run(&shell("kill -KILL $$"), &watch).await.unwrap();
        assert!(matches!(ran.ended, Ended::Exited(_)), "{:?}", ran.ended);
        let counted = shell(&format!("echo oom_kill 7 > {}; kill -KILL $$", counter.display()));
        let ran = run(&counted, &watch).await.unwrap();
        assert!(matches!(ran.ended, Ended::Killed(_)), "{:?}", ran.ended);
        let other = shell(&format!("echo oom_kill 8 > {}; kill -SEGV $$", counter.display()));
        let ran = run(&other, &watch).await.unwrap();
        assert!(matches!(ran.ended, Ended::Exited(_)), "{:?}", ran.ended);
    }

    #[tokio::test]
    async fn time_silence_and_size_end_it_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("child");
        let script = format!("(sleep 300 & echo $! > {}; wait) & wait", marker.display());
        let watch = Watch { silence: Duration::from_millis(600), ..short() };
        assert_eq!(run(&shell(&script), &watch).await.unwrap().ended, Ended::Silent);
        let child = std::fs::read_to_string(&marker).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z"), "{stat}");

        let watch = Watch { time: Duration::from_millis(300), ..short() };
        assert_eq!(run(&shell("while :; do echo .; sleep 0.05; done"), &watch).await.unwrap().ended, Ended::OutOfTime);
        // Who works is alive, where that counts.
        let watch = Watch { silence: Duration::from_millis(250), processor_counts: false, ..short() };
        assert_eq!(run(&shell("while :; do :; done"), &watch).await.unwrap().ended, Ended::Silent);

        let output = folder.path().join("output");
        let script = format!("while :; do echo 0123456789 >> {}; echo .; done", output.display());
        let large = Run { output: Some(output), ..shell(&script) };
        let watch = Watch { output_bytes: 1000, ..short() };
        assert_eq!(run(&large, &watch).await.unwrap().ended, Ended::TooLarge);
    }

    #[tokio::test]
    async fn the_tail_is_bounded_and_its_environment_is_its_own() {
        let ran = run(&shell("i=0; while [ $i -lt 4000 ]; do echo line number $i; i=$((i+1)); done"), &short())
            .await
            .unwrap();
        assert!(ran.tail.len() <= TAIL && ran.tail.trim_end().ends_with("3999"), "{}", ran.tail.len());
        let ran = run(&shell("env | sort; echo done"), &short()).await.unwrap();
        assert!(!ran.tail.contains("HOME") && ran.tail.contains("done"), "{}", ran.tail);
    }

    #[tokio::test]
    async fn what_is_held_is_open_and_not_read() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let ran = holding(Some(Arc::clone(&file)), run(&shell("cat; ls -l /proc/self/fd"), &short())).await.unwrap();
        let is_open =
            |number: u32, what: &str| ran.tail.lines().any(|line| line.contains(&format!(" {number} -> {what}")));
        assert!(is_open(0, "/dev/null") && is_open(9, "/"), "{}", ran.tail);
        let absent = Run { command: vec!["/nowhere/tool".into()], ..shell("") };
        assert!(holding(Some(file), run(&absent, &short())).await.is_err(), "as without");
    }

    #[tokio::test]
    async fn the_beginning_is_kept_where_it_counts() {
        let script = shell("echo first; i=0; while [ $i -lt 4000 ]; do echo line number $i; i=$((i+1)); done");
        let ran = run(&script, &Watch { head_bytes: 100, ..short() }).await.unwrap();
        assert!(ran.tail.starts_with("first\nline number 0\n") && ran.tail.ends_with("3999\n"), "{}", ran.tail);
        assert!(ran.tail.contains(" bytes left out]\n") && ran.tail.len() < TAIL + 200, "{}", ran.tail.len());
        let ran = run(&script, &Watch { head_bytes: 1 << 20, ..short() }).await.unwrap();
        assert_eq!(ran.tail.lines().count(), 4001, "nothing is missing, and nothing comes twice");
    }

    #[test]
    fn ticks_are_of_the_group() {
        let stat = "12 (a ) b) S 1 77 77 0 -1 4194560 100 0 0 0 5 7 1 2 20 0 1 0 100 200";
        assert_eq!((ticks(stat, "77"), ticks(stat, "12"), ticks("", "1")), (15, 0, 0));
    }
}
