//! Shapes of one operator in the hands of aiter's tuner: in a folder of their own, under a limit, and one by one where a crash
//! took them together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use bluefin_aiter::harvest::{Remains, Verdict};
use bluefin_aiter::operator::PRINTED;
use bluefin_aiter::{ARGUMENTS, Family, Row, Sheet, Table};
use bluefin_common::child_file;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::AiterProblem;
use bluefin_common::scratch::Scratch;
use bluefin_common::session::Session;
use bluefin_miopen::detect::{HIP_VISIBLE, HIP_VISIBLE_ELSE, ROCR_VISIBLE};
use bluefin_miopen::process::{self, Ended, Run, Watch, describe};

use super::{AiterDevice, TIME};
use crate::evaluator::stop::Stop;
use crate::metrics::Metrics;

/// What the names of their folders begin with.
pub(super) const PREFIX: &str = "bluefin-aiter-";
/// What a tuner writes: the best of each shape, and all that it tried.
const TUNED: &str = "out.csv";
const PROFILE: &str = "all.csv";
/// Bytes of one of them, at most.
const MAX_TABLE: u64 = 512 << 20;
/// Processes that a shape may crash by itself.
const TRIES: u32 = 2;

/// What shapes of one session and family are tuned with.
pub(super) struct Batch<'a> {
    pub(super) device: &'a AiterDevice,
    pub(super) session: &'a Session,
    pub(super) family: &'static Family,
    pub(super) metrics: &'a Metrics,
}

impl Batch<'_> {
    /// What comes of each shape, in their order.
    pub(super) async fn tune(&self, shapes: &[&AiterProblem]) -> Result<Vec<Verdict>, Stop> {
        let mut verdicts = self.run(shapes).await?.verdicts;
        for (verdict, shape) in verdicts.iter_mut().zip(shapes) {
            if was_ended(verdict) {
                *verdict = self.alone(shape).await?;
            }
        }
        Ok(verdicts)
    }

    /// What comes of a shape that has a process for itself, or a second one if that crashes: then it is the shape.
    async fn alone(&self, shape: &AiterProblem) -> Result<Verdict, Stop> {
        let mut tries = 1;
        loop {
            let ran = self.run(&[shape]).await?;
            let verdict = ran.verdicts.into_iter().next().unwrap_or(Verdict::Missing);
            if was_ended(&verdict) && ran.end.kind != FailureKind::Hang && tries < TRIES {
                tries += 1;
                continue;
            }
            return Ok(if verdict == Verdict::Missing { Verdict::Failed(ran.end, Vec::new()) } else { verdict });
        }
    }

    /// One process for these shapes.
    async fn run(&self, shapes: &[&AiterProblem]) -> Result<Ran, Stop> {
        let machine = |what: &str, error: std::io::Error| Stop::Machine(format!("{what}: {error}"));
        let folder = Scratch::new(PREFIX).map_err(|error| machine("folder of temporary files", error))?;
        let path = |name: &str| folder.path().join(name);
        let (input, profile) = (path("in.csv"), path(PROFILE));
        std::fs::write(&input, untuned(&input, shapes)).map_err(|error| machine("in.csv", error))?;
        let mut arguments: Vec<OsString> = vec!["-o2".into(), (&profile).into()];
        // One GPU; and written after each shape, so that a crash takes no other with it.
        arguments.extend(["--mp", "1", "--batch", "1", "--timeout"].map(OsString::from));
        arguments.push(self.limit().as_secs().max(1).to_string().into());
        arguments.extend(self.arguments().map(OsString::from));
        let ran = self.process(folder.path(), arguments, &[], shapes.len()).await?;
        let (kind, how) = end(&ran);
        let read = |name: &str| {
            let bytes = child_file::read(folder.path(), name, MAX_TABLE).ok()?;
            Sheet::of(Table::parse(&path(name), bytes).ok()?, Some(self.family)).ok()
        };
        let (tuned, profile) = (read(TUNED), read(PROFILE));
        let remains = Remains {
            family: self.family,
            target: &self.device.target,
            tuned: tuned.as_ref(),
            profile: profile.as_ref(),
            error_limit: self.error_limit(),
        };
        let verdicts: Vec<Verdict> = shapes.iter().map(|shape| remains.of(&self.family.key_of(shape))).collect();
        if verdicts.contains(&Verdict::Missing) {
            self.metrics.child_lost(if kind == FailureKind::Hang { "hang" } else { "exit" });
        }
        let end = Failure::new(kind, format!("aiter's tuner wrote no row: {how}; it said: {}", last_words(&ran.tail)));
        Ok(Ran { verdicts, end })
    }

    /// A process of the family's tuner for `in.csv` in `folder`, with more `arguments` and other `variables`, for as long as so many
    /// `shapes` may take.
    pub(super) async fn process(
        &self,
        folder: &Path,
        arguments: Vec<OsString>,
        variables: &[(&str, &Path)],
        shapes: usize,
    ) -> Result<process::Ran, Stop> {
        let AiterDevice { launcher, python, root, .. } = self.device;
        let mut command: Vec<OsString> = launcher.clone();
        command.push(python.clone());
        if let Some(tuner) = &self.family.tuner {
            command.push(tuner.script.into());
            command.extend(tuner.arguments.iter().map(OsString::from));
        }
        for (flag, file) in [("-i", "in.csv"), ("-o", TUNED)] {
            command.extend([flag.into(), folder.join(file).into()]);
        }
        command.extend(arguments);
        // The first shape of a host builds the kernels of its family: that counts as one more.
        let time = self.limit() * (shapes as u32 + 1);
        let watch = Watch { time, silence: time, tail_bytes: PRINTED, ..Watch::default() };
        let environment = self.environment(folder, variables);
        let output = Some(folder.join(PROFILE));
        let run = Run { command, environment, folder: root.clone(), output };
        let ran = process::run(&run, &watch).await;
        let ran = ran.map_err(|error| Stop::Machine(format!("aiter's tuner does not start: {error}")))?;
        if let Ended::Killed(reason) = ran.ended {
            self.metrics.child_lost("outside");
            return Err(Stop::Suspect(reason));
        }
        Ok(ran)
    }

    /// Longest time for a shape.
    fn limit(&self) -> Duration {
        self.session.budget.solver_ms.map_or(TIME, Duration::from_millis)
    }

    /// What the session adds.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.session.environment.get(ARGUMENTS).map_or("", String::as_str).split_ascii_whitespace()
    }

    /// The one that the session asks for, or the tuner's own.
    fn error_limit(&self) -> f64 {
        let mut arguments = self.arguments();
        let asked = arguments.find(|argument| *argument == "--errRatio").and_then(|_| arguments.next());
        asked.and_then(|limit| limit.parse().ok()).unwrap_or(self.family.error_limit)
    }

    /// That of the worker, without what is bluefin's, and with one GPU. aiter sees what it is for by `rocminfo`, which heeds no
    /// other variable.
    fn environment(&self, folder: &Path, others: &[(&str, &Path)]) -> Vec<(OsString, OsString)> {
        let own = std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"BLUEFIN_"));
        let mut variables: BTreeMap<OsString, OsString> = own.collect();
        if let Some(gpu) = &self.device.gpu {
            // What is counted among the GPUs of the worker would show none of one.
            variables.retain(|name, _| ![HIP_VISIBLE, HIP_VISIBLE_ELSE].iter().any(|other| name == other));
            variables.insert(ROCR_VISIBLE.into(), gpu.into());
        }
        variables.insert("TMPDIR".into(), folder.into());
        variables.extend(others.iter().map(|(name, path)| (name.into(), path.into())));
        variables.into_iter().collect()
    }
}

/// Whether the process of a shape was ended before it wrote what it found; a row that was cut off is as none.
fn was_ended(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Missing => true,
        Verdict::Failed(failure, _) => failure.kind == FailureKind::MalformedOutput,
        Verdict::Tuned(_) => false,
    }
}

/// What came of a process.
struct Ran {
    verdicts: Vec<Verdict>,
    /// How it ended, for shapes of which there is nothing.
    end: Failure,
}

/// The shapes as the tuner reads them. All have the same columns.
pub(super) fn untuned(path: &Path, shapes: &[&AiterProblem]) -> Vec<u8> {
    let columns = shapes.first().map_or(&[][..], |shape| &shape.shape);
    let mut table = Table::new(path, columns.iter().map(|(column, _)| column.as_str()));
    table.rows.extend(shapes.iter().map(|shape| Row::of(shape.shape.iter().map(|(_, value)| value.as_str()))));
    table.to_bytes()
}

/// How a process ended, and what that says of a shape without a row.
pub(super) fn end(ran: &process::Ran) -> (FailureKind, String) {
    match &ran.ended {
        Ended::Exited(status) => (FailureKind::ToolCrash, describe(*status)),
        Ended::OutOfTime | Ended::Silent => (FailureKind::Hang, format!("killed after {} s", ran.took.as_secs())),
        Ended::TooLarge => (FailureKind::MalformedOutput, "killed: its profile grew too large".to_string()),
        Ended::Killed(reason) => (FailureKind::ToolCrash, reason.clone()),
    }
}

/// The end of what it printed.
pub(super) fn last_words(tail: &str) -> String {
    let lines: Vec<&str> = tail.lines().rev().filter(|line| !line.trim().is_empty()).take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
