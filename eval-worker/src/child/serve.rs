//! The child's loop: a request, its artifacts, the replies.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use bluefin_common::artifact::{Prepared, Task};
use bluefin_common::digest::Digest;
use bluefin_common::outcome::{DeviceState, Failure, FailureKind, Timing};
use bluefin_common::wire;

use super::evaluation::{Checked, ask_reference, check};
use super::isolation::{Pipes, pin};
use super::posed::Posed;
use super::reporter::{Part, Reporter};
use crate::device::{Description, Device, DeviceError};
use crate::protocol::{Activity, FrameError, Identity, Reply, Request, Spent, Step, read_frame};
use crate::timing::{self, ClockWatch, Limits};

/// Tasks whose answers are kept.
const TASKS: usize = 4;
/// Bytes that they may take; the current one is kept whatever it takes.
const TASK_BYTES: usize = 1 << 30;
/// Requests between two looks at how fast the device is, if it never idles.
const SENTINEL_EVERY: u32 = 64;

/// Opens and probes the device, then answers requests until the parent closes the pipe.
pub(super) fn serve<D: Device>(pipes: Pipes, open: impl FnOnce() -> Result<D, DeviceError>) -> Result<(), ServeError> {
    let Pipes { mut requests, replies } = pipes;
    let Some((Request::Start { cpu }, _)) = read_request(&mut requests)? else {
        return Err(io::Error::other("expected to be started").into());
    };
    pin(cpu)?;
    let device = open()?;
    device.probe()?;
    let reporter = Reporter::new(replies);
    let Description { name, target, uuid, .. } = device.description().clone();
    reporter.answer(&Reply::Started { device: Identity { name, target: target.to_string(), uuid } })?;
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
            Request::Prepare { task, seed, limits } => {
                let code = read_artifact(requests)?;
                self.reporter.enter(Some(Part::Prepare));
                let result = self.prepare(key, task, seed, &code, &limits);
                // What the device did was for a reference.
                let spent = Spent { device: Duration::ZERO, ..self.reporter.take_spent() };
                Ok(Reply::Prepared { result, tainted: self.device.is_broken(), spent })
            }
            Request::Evaluate { candidate, incumbent_ms, limits } => {
                let codes = [read_artifact(requests)?];
                Ok(self.evaluate(&[candidate], &codes, |finalists, watch| {
                    finalists.iter_mut().map(|one| timing::measure(one, watch, incumbent_ms, &limits)).collect()
                }))
            }
            Request::PlayOff { candidates, seed, limits } => {
                let codes = candidates.iter().map(|_| read_artifact(requests)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.evaluate(&candidates, &codes, |finalists, watch| {
                    timing::play_off(finalists, watch, seed, &limits)
                }))
            }
        }
    }

    /// Makes `task` the current one. `key` tells it from others.
    fn prepare(&mut self, key: Digest, task: Task, seed: u64, code: &[u8], limits: &Limits) -> Result<(), Failure> {
        if self.tasks.front().is_some_and(|current| current.key == key) {
            return Ok(());
        }
        self.tasks.iter_mut().for_each(Posed::vacate);
        self.workspace = None;
        let known = self.tasks.iter().position(|posed| posed.key == key).and_then(|index| self.tasks.remove(index));
        let posed = match known {
            Some(mut posed) => {
                posed.occupy(&self.device, code, limits)?;
                posed
            }
            None => {
                let mut posed = Posed::new(key, task, seed)?;
                posed.occupy(&self.device, code, limits)?;
                self.grow_workspace(posed.task.reference.workspace)?;
                let workspace = self.workspace(posed.task.reference.workspace);
                self.reporter.working(Activity { step: Step::Check, candidate: 0 })?;
                ask_reference(&self.device, &mut posed, code, workspace, &self.reporter)?;
                posed
            }
        };
        self.tasks.push_front(posed);
        while self.tasks.len() > TASKS || self.tasks.len() > 1 && self.bytes() > TASK_BYTES {
            self.tasks.pop_back();
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.tasks.iter().map(Posed::bytes).sum()
    }

    fn grow_workspace(&mut self, bytes: u64) -> Result<(), Failure> {
        if self.workspace.as_ref().map_or(0, |(size, _)| *size) >= bytes {
            return Ok(());
        }
        self.workspace = None;
        let memory = self.device.allocate(bytes).map_err(Failure::from);
        let memory = memory.map_err(|failure| Failure::new(failure.kind, format!("workspace: {}", failure.detail)))?;
        self.workspace = Some((bytes, memory));
        Ok(())
    }

    /// The workspace for a candidate that needs `bytes`.
    fn workspace(&self, bytes: u64) -> Option<&D::Memory> {
        self.workspace.as_ref().filter(|_| bytes > 0).map(|(_, memory)| memory)
    }

    /// Checks `candidates`, then lets `measure` time those that are right.
    fn evaluate<F>(&mut self, candidates: &[Prepared], codes: &[Vec<u8>], measure: F) -> Reply
    where
        F: FnOnce(&mut [Checked<'_, D>], &mut ClockWatch) -> Vec<Result<Timing, Failure>>,
    {
        let mut results: Vec<Option<Result<Timing, Failure>>> =
            candidates.iter().map(|candidate| self.grow_workspace(candidate.workspace).err().map(Err)).collect();
        // One that can not be had takes away what the others share.
        let largest = candidates.iter().zip(&results).filter(|(_, result)| result.is_none());
        let largest = largest.map(|(candidate, _)| candidate.workspace).max().unwrap_or_default();
        let lost = self.grow_workspace(largest).err();
        let Some(posed) = self.tasks.front().filter(|_| lost.is_none()) else {
            let failure = lost.unwrap_or_else(|| Failure::new(FailureKind::LaunchFailure, "no problem was prepared"));
            return self.results(vec![Some(Err(failure)); candidates.len()], false);
        };

        let mut finalists = Vec::new();
        let mut places = Vec::new();
        for (index, (candidate, code)) in candidates.iter().zip(codes).enumerate() {
            let Some(place) = results.get_mut(index).filter(|place| place.is_none()) else { continue };
            let workspace = self.workspace(candidate.workspace);
            match check(&self.device, posed, index as u32, candidate, code, workspace, &self.reporter) {
                Ok(checked) => {
                    finalists.push(checked);
                    places.push(index);
                }
                Err(finding) => {
                    *place = Some(Err(finding.failure));
                    if finding.tainted || self.device.is_broken() {
                        return self.results(results, true);
                    }
                }
            }
        }
        let idle = self.active.is_none_or(|active| active.elapsed() > timing::MAX_IDLE);
        if !finalists.is_empty() && (idle || self.unmeasured >= SENTINEL_EVERY) {
            self.reporter.enter(Some(Part::WarmUp));
            // A device that can not even spin will say so when it times.
            let warmth = timing::warm_up(|| {
                self.reporter.working(Activity { step: Step::Time, candidate: 0 })?;
                self.device.spin().map_err(Failure::from)
            });
            if let Ok(warmth) = warmth {
                if self.watch.reference_mhz().is_none() {
                    self.watch = ClockWatch::new(warmth.clock_mhz);
                }
                self.spin_ms.set(Some(warmth.spin_ms));
                self.unmeasured = 0;
            }
            self.reporter.enter(Some(Part::Step(Step::Time)));
        }
        self.unmeasured += 1;
        for (index, result) in places.into_iter().zip(measure(&mut finalists, &mut self.watch)) {
            if let Some(place) = results.get_mut(index) {
                *place = Some(result);
            }
        }
        drop(finalists);
        self.active = Some(Instant::now());
        self.results(results, false)
    }

    fn results(&self, results: Vec<Option<Result<Timing, Failure>>>, tainted: bool) -> Reply {
        let reference_clock_mhz = self.watch.reference_mhz().map(|clock| clock.round() as u32);
        let state = DeviceState { reference_clock_mhz, ..self.device.state() };
        let tainted = tainted || self.device.is_broken();
        Reply::Results { results, tainted, state, spent: self.reporter.take_spent(), spin_ms: self.spin_ms.take() }
    }
}

/// A request and the digest of its frame.
fn read_request(requests: &mut File) -> Result<Option<(Request, Digest)>, FrameError> {
    let Some(frame) = read_frame(requests)? else { return Ok(None) };
    Ok(Some((wire::decode(&frame)?, Digest::of(&frame))))
}

fn read_artifact(requests: &mut File) -> Result<Vec<u8>, FrameError> {
    read_frame(requests)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
}
