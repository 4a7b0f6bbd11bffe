//! The child's loop: a request, its artifacts, the replies.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::slice;
use std::time::{Duration, Instant};

use bluefin_common::artifact::Built;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::outcome::{DeviceState, Timing};
use bluefin_common::task::Task;
use bluefin_common::wire;

use super::evaluation::{Loaded, Stand, check, pose};
use super::isolation::{Pipes, settle};
use super::posed::Posed;
use super::reporter::{Part, Reporter};
use crate::device::{Description, Device, DeviceError};
use crate::protocol::{Activity, FrameError, Identity, Phase, Ready, Reply, Request, Spent, read_frame};
use crate::timing::{self, ClockWatch, Limits, Results, Rounds, better};

/// Tasks whose answers are kept, with the current one: jobs of many problems come by turns where many compilers are at work.
const TASKS: usize = 128;
/// The share of the device's memory that one copy of the buffers of each may take together, but the current one: one in so many.
const TASK_SHARE: u64 = 16;
/// As much is kept on a small device as well.
const TASK_BYTES: u64 = 1 << 30;
/// Requests between two looks at how fast the device is, if it never idles.
const SENTINEL_EVERY: u32 = 64;

/// Opens and probes the device, then answers requests until the parent closes the pipe.
pub(super) fn serve<D: Device>(pipes: Pipes, open: impl FnOnce() -> Result<D, DeviceError>) -> Result<(), ServeError> {
    let Pipes { mut requests, replies } = pipes;
    let Some((Request::Start { cpus }, _)) = read_request(&mut requests)? else {
        return Err(io::Error::other("expected to be started").into());
    };
    settle(&cpus)?;
    let device = open()?;
    device.probe()?;
    let reporter = Reporter::new(replies);
    let Description { name, target, uuid, .. } = device.description().clone();
    let driver = device.state().driver;
    reporter.answer(&Reply::Started { device: Identity { name, target: target.to_string(), uuid, driver } })?;
    let mut server = Server {
        device,
        reporter,
        tasks: VecDeque::new(),
        workspace: None,
        watch: ClockWatch::default(),
        active: None,
        spin_ms: Cell::new(None),
        unmeasured: 0,
    };
    while let Some((request, key)) = read_request(&mut requests)? {
        let reply = server.handle(request, key, &mut requests)?;
        server.reporter.answer(&reply)?;
    }
    Ok(())
}

/// Why a child ends before it is told to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServeError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("device: {0}")]
    Device(#[from] DeviceError),
}

struct Server<D: Device> {
    device: D,
    reporter: Reporter,
    /// The current one first.
    tasks: VecDeque<Posed<D>>,
    /// The largest workspace of the current task so far, with its size. Shared by all: what is in it is nobody's
    /// business, and a candidate that expects zeros is found out.
    workspace: Option<(u64, D::Memory)>,
    /// Holds the clock of each sample against that of the first warm-up.
    watch: ClockWatch,
    /// When the device last did something.
    active: Option<Instant>,
    /// What a spin took, until the parent is told.
    spin_ms: Cell<Option<f64>>,
    /// Requests since then.
    unmeasured: u32,
}

impl<D: Device> Server<D> {
    fn handle(&mut self, request: Request, key: Digest, requests: &mut File) -> Result<Reply, FrameError> {
        match request {
            Request::Start { .. } => Err(io::Error::other("started twice").into()),
            Request::Translate => {
                let code = read_artifact(requests)?;
                Ok(Reply::Translated { image: self.device.translate(&code) })
            }
            Request::Prepare { task, seed, limits } => {
                let code = read_artifact(requests)?;
                let data = task.data().map(|_| read_artifact(requests)).collect::<Result<Vec<_>, _>>()?;
                self.reporter.enter(Some(Part::Prepare));
                let result = self.prepare((key, task, seed), &data, &code, &limits);
                // What the device did was for a reference.
                let spent = Spent { device: Duration::ZERO, ..self.reporter.take_spent() };
                Ok(Reply::Prepared { result, tainted: self.device.is_broken(), spent })
            }
            Request::Evaluate { candidates, incumbent_ms, limits } => {
                let codes = read_artifacts(requests, &candidates)?;
                self.one_by_one(&candidates, &codes, incumbent_ms, &limits)
            }
            Request::PlayOff { candidates, seed, careful, limits } => {
                let codes = read_artifacts(requests, &candidates)?;
                let (results, tainted) = self.evaluate(0, &candidates, &codes, |stand, watch| {
                    timing::play_off(stand, stand.candidates.len(), watch, Rounds { seed, careful }, &limits)
                });
                for (index, result) in (0..).zip(results) {
                    self.tell(index, result)?;
                }
                Ok(self.done(tainted))
            }
        }
    }

    fn tell(&self, candidate: u32, result: Option<Attempt<Timing>>) -> Result<(), FrameError> {
        let Some(result) = result else { return Ok(()) };
        let (spent, spin_ms) = (self.reporter.take_spent(), self.spin_ms.take());
        self.reporter.answer(&Reply::Evaluated { candidate, result, spent, spin_ms })
    }

    /// Evaluates candidates until one breaks the device, each against the best so far.
    fn one_by_one(
        &mut self,
        candidates: &[Built],
        codes: &[Vec<u8>],
        mut incumbent_ms: Option<f64>,
        limits: &Limits,
    ) -> Result<Reply, FrameError> {
        for (index, (candidate, code)) in (0..).zip(candidates.iter().zip(codes)) {
            let one = (slice::from_ref(candidate), slice::from_ref(code));
            let (results, tainted) = self.evaluate(index, one.0, one.1, |stand, watch| {
                Ok(vec![Some(timing::measure(stand, watch, incumbent_ms, limits))])
            });
            for result in results {
                incumbent_ms = result.as_ref().map_or(incumbent_ms, |result| better(incumbent_ms, result));
                self.tell(index, result)?;
            }
            if tainted {
                return Ok(self.done(true));
            }
        }
        Ok(self.done(false))
    }

    /// Makes `task` the current one, and says how its reference ran. `key` tells it from others.
    fn prepare(
        &mut self,
        (key, task, seed): (Digest, Task, u64),
        data: &[Vec<u8>],
        code: &[u8],
        limits: &Limits,
    ) -> Result<Ready, Failure> {
        if let Some(current) = self.tasks.front().filter(|current| current.key == key && current.is_ready()) {
            return Ok(current.ready.clone());
        }
        if let Some(mut current) = self.tasks.pop_front()
            && current.pack(&self.device).is_ok()
        {
            self.tasks.push_front(current);
        }
        self.workspace = None;
        let known = self.tasks.iter().position(|posed| posed.key == key).and_then(|index| self.tasks.remove(index));
        while self.tasks.len() >= TASKS || self.bytes() > self.task_bytes() {
            self.tasks.pop_back();
        }
        let posed = match self.pose((key, task.clone(), seed), known, data, code, limits) {
            // What is kept of other problems is in the way.
            Err(failure) if failure.kind == FailureKind::OutOfMemory && !self.tasks.is_empty() => {
                self.tasks.clear();
                self.pose((key, task, seed), None, data, code, limits)?
            }
            posed => posed?,
        };
        let ready = posed.ready.clone();
        self.tasks.push_front(posed);
        Ok(ready)
    }

    /// Makes a task ready, anew or from what is `known` of it.
    fn pose(
        &mut self,
        (key, task, seed): (Digest, Task, u64),
        known: Option<Posed<D>>,
        data: &[Vec<u8>],
        code: &[u8],
        limits: &Limits,
    ) -> Result<Posed<D>, Failure> {
        if let Some(mut posed) = known {
            posed.unpack(&self.device, &self.device.load(code)?, seed, limits)?;
            return Ok(posed);
        }
        let wanted = task.reference.workspace;
        self.grow_workspace(wanted)?;
        let loaded = Loaded { code, workspace: self.workspace(wanted) };
        pose(&self.device, (key, task, seed), data, &loaded, limits, &self.reporter)
    }

    fn task_bytes(&self) -> u64 {
        (self.device.description().memory_bytes / TASK_SHARE).max(TASK_BYTES)
    }

    fn bytes(&self) -> u64 {
        self.tasks.iter().map(Posed::bytes).sum()
    }

    fn grow_workspace(&mut self, bytes: u64) -> Result<(), Failure> {
        if self.workspace.as_ref().map_or(0, |(size, _)| *size) >= bytes {
            return Ok(());
        }
        self.workspace = None;
        let memory = self.device.allocate(bytes).or_else(|error| {
            // What is kept of other problems is in the way.
            if self.tasks.len() < 2 {
                return Err(error);
            }
            self.tasks.truncate(1);
            self.device.allocate(bytes)
        });
        let memory = memory.map_err(Failure::from);
        let memory = memory.map_err(|failure| Failure::new(failure.kind, format!("workspace: {}", failure.detail)))?;
        self.workspace = Some((bytes, memory));
        Ok(())
    }

    /// The workspace for a candidate that needs `bytes`.
    fn workspace(&self, bytes: u64) -> Option<&D::Memory> {
        self.workspace.as_ref().filter(|_| bytes > 0).map(|(_, memory)| memory)
    }

    /// Checks `candidates`, the first of which is at `first` in the request, then lets `measure` time those that are right.
    /// Returns a result for each that was reached, and whether this process is of no more use.
    fn evaluate<F>(
        &mut self,
        first: u32,
        candidates: &[Built],
        codes: &[Vec<u8>],
        measure: F,
    ) -> (Results<Failure>, bool)
    where
        F: FnOnce(&mut Stand<'_, D>, &mut ClockWatch) -> Result<Results<Failure>, Failure>,
    {
        let mut results: Results<Failure> =
            candidates.iter().map(|candidate| self.grow_workspace(candidate.workspace).err().map(Err)).collect();
        // One that can not be had takes away what the others share.
        let largest = candidates.iter().zip(&results).filter(|(_, result)| result.is_none());
        let largest = largest.map(|(candidate, _)| candidate.workspace).max().unwrap_or_default();
        let lost = self.grow_workspace(largest).err();
        let Some(posed) = self.tasks.front().filter(|_| lost.is_none()) else {
            let failure = lost.unwrap_or_else(|| Failure::new(FailureKind::LaunchFailure, "no problem was prepared"));
            return (vec![Some(Err(failure)); candidates.len()], self.device.is_broken());
        };

        let mut finalists = Vec::new();
        let mut places = Vec::new();
        for (index, (candidate, code)) in candidates.iter().zip(codes).enumerate() {
            let Some(place) = results.get_mut(index).filter(|place| place.is_none()) else { continue };
            let of_request = first + index as u32;
            let loaded = Loaded { code, workspace: self.workspace(candidate.workspace) };
            match check(&self.device, posed, (of_request, candidate), &loaded, &self.reporter) {
                Ok(checked) => {
                    finalists.push(checked);
                    places.push(index);
                }
                Err(finding) => {
                    *place = Some(Err(finding.failure));
                    if finding.tainted || self.device.is_broken() {
                        return (results, true);
                    }
                }
            }
        }
        if finalists.is_empty() {
            return (results, false);
        }
        let idle = self.active.is_none_or(|active| active.elapsed() > timing::MAX_IDLE);
        if idle || self.unmeasured >= SENTINEL_EVERY {
            self.reporter.enter(Some(Part::WarmUp));
            // A device that can not even spin will say so when it times.
            let warmth = timing::warm_up(|| {
                self.reporter.working(Activity { phase: Phase::Time, candidate: None })?;
                self.device.spin().map_err(Failure::from)
            });
            if let Ok(warmth) = warmth {
                if self.watch.reference_mhz().is_none() {
                    self.watch = ClockWatch::new(warmth.clock_mhz);
                }
                self.spin_ms.set(Some(warmth.spin_ms));
                self.unmeasured = 0;
            }
            self.reporter.enter(Some(Part::Phase(Phase::Time)));
        }
        self.unmeasured += 1;
        let (device, reporter) = (&self.device, &self.reporter);
        let mut stand = Stand { device, posed, candidates: &finalists, reporter };
        // What fails several at once is nobody's: they are left open.
        let timings = measure(&mut stand, &mut self.watch).unwrap_or_default();
        for (index, result) in places.into_iter().zip(timings) {
            if let Some(place) = results.get_mut(index) {
                *place = result;
            }
        }
        self.active = Some(Instant::now());
        (results, self.device.is_broken())
    }

    fn done(&self, tainted: bool) -> Reply {
        let reference_clock_mhz = self.watch.reference_mhz().map(|clock| clock.round() as u32);
        let state = DeviceState { reference_clock_mhz, ..self.device.state() };
        Reply::Done { tainted, state, spent: self.reporter.take_spent() }
    }
}

/// A request and the digest of its frame.
fn read_request(requests: &mut File) -> Result<Option<(Request, Digest)>, FrameError> {
    let Some(frame) = read_frame(requests)? else { return Ok(None) };
    Ok(Some((wire::decode(&frame)?, Digest::of(&frame))))
}

/// A frame for each candidate.
fn read_artifacts(requests: &mut File, candidates: &[Built]) -> Result<Vec<Vec<u8>>, FrameError> {
    candidates.iter().map(|_| read_artifact(requests)).collect()
}

fn read_artifact(requests: &mut File) -> Result<Vec<u8>, FrameError> {
    read_frame(requests)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
}
