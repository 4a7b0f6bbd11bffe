//! Whether this machine's devices do what bluefin needs of them: probe, refusals, known answers, timing.

mod known;

use std::time::Instant;

use bluefin_common::arch;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, Launch};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::Timing;
use bluefin_common::problem::DataType;
use bluefin_common::session::Stage;
use bluefin_common::task::{Buffer, Content, Role, Task, Tolerance};
use bluefin_eval_worker::inventory::{DeviceInfo, Inventory};
use bluefin_eval_worker::timing::Limits;
use bluefin_eval_worker::{DeviceChild, DeviceWorker, Metrics, Runnable, Work};
use bytes::Bytes;
use prometheus::Registry;
use serde::Serialize;

use self::known::Kernels;
use crate::machine::{devices, itself};
use crate::usage;

/// Rounds of a kernel against itself.
const TIES: usize = 10;
/// Rounds that must be ties: one in twenty may not be, and ten rounds are few.
const MIN_TIES: usize = 8;
/// Medians closer than this are a tie, whatever their spread.
const TIE: f64 = 0.01;
/// More memory than any device has, in bytes.
const TOO_MUCH: u64 = 1 << 46;

/// One thing that was tried.
#[derive(Serialize)]
pub struct Check {
    /// What it was.
    pub name: String,
    /// How it ended.
    pub result: SelftestVerdict,
    /// What was seen, or why it failed.
    pub detail: String,
    /// How long it took.
    pub seconds: f64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SelftestVerdict {
    /// It works.
    Passed,
    /// It does not.
    Failed,
    /// It could not be tried here.
    Skipped,
}

/// Tests the devices that `chosen` names, all if nothing does.
///
/// # Errors
/// If it names none, or this machine can not be asked.
pub async fn selftest(inventory: &Inventory, chosen: Option<&str>) -> anyhow::Result<Vec<Tested>> {
    let chosen = match chosen {
        Some(text) => text,
        None if inventory.gpus.is_empty() => "host",
        None => "gpu,host",
    };
    let selected = inventory.select(chosen).map_err(|error| usage(format!("--device: {error}")))?;
    let served = devices::serve(inventory, &selected, &itself::child()?)?;
    let mut tested = Vec::new();
    for (device, served) in selected.into_iter().zip(served) {
        tested.push(Tested { device: device.clone(), checks: test(served).await? });
    }
    Ok(tested)
}

/// A device, and what was tried on it.
#[derive(Serialize)]
pub struct Tested {
    /// As the inventory has it.
    pub device: DeviceInfo,
    /// In the order in which it was tried.
    pub checks: Vec<Check>,
}

/// All checks of one device.
async fn test(DeviceChild { target, child, .. }: DeviceChild) -> anyhow::Result<Vec<Check>> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    let mut checks = Vec::new();
    let began = Instant::now();
    let mut worker = match DeviceWorker::start(child, metrics).await {
        Ok(worker) => {
            checks.push(check("probe", began, Ok(worker.device().to_string())));
            worker
        }
        Err(error) => {
            checks.push(check("probe", began, Err(error.to_string())));
            return Ok(checks);
        }
    };
    for (name, kind, runnable) in refused(target.arch()) {
        let began = Instant::now();
        let task = task(&runnable);
        let results = evaluate(&mut worker, Stage::Perf, &task, &runnable.code, std::slice::from_ref(&runnable)).await;
        checks.push(check(name, began, results.and_then(|results| expect(kind, &results))));
    }
    match Kernels::prepare(&target).await? {
        Err(reason) => {
            for name in ["known answers", "a kernel against itself"] {
                checks.push(Check {
                    name: name.to_string(),
                    result: SelftestVerdict::Skipped,
                    detail: reason.clone(),
                    seconds: 0.0,
                });
            }
        }
        Ok(kernels) => {
            let mut right = None;
            for kernels in &kernels {
                let began = Instant::now();
                let result = match &kernels.posed {
                    Ok((task, reference, candidates)) => {
                        let results = evaluate(&mut worker, Stage::Perf, task, reference, candidates).await;
                        results.and_then(|results| kernels.judge(&results))
                    }
                    Err(failure) => Err(failure.clone()),
                };
                if result.is_ok() && right.is_none() {
                    right = kernels.posed.as_ref().ok();
                }
                checks.push(check(&kernels.name, began, result));
            }
            if let Some((task, reference, candidates)) = right {
                let began = Instant::now();
                let result = ties(&mut worker, task, reference, candidates).await;
                checks.push(check("a kernel against itself", began, result));
            }
        }
    }
    let state = worker.state();
    let heat = [
        state.temperature_c.map(|degrees| format!("{degrees} C")),
        state.power_w.map(|watts| format!("{watts} W")),
        state.reference_clock_mhz.map(|mhz| format!("{mhz} MHz")),
        Some(state.driver.clone()).filter(|driver| !driver.is_empty()),
    ];
    let heat: Vec<String> = heat.into_iter().flatten().collect();
    let began = Instant::now();
    if heat.is_empty() {
        let detail = "the device does not tell its temperature, power or clock".to_string();
        checks.push(Check { name: "telemetry".to_string(), result: SelftestVerdict::Skipped, detail, seconds: 0.0 });
    } else {
        checks.push(check("telemetry", began, Ok(heat.join(", "))));
    }
    Ok(checks)
}

fn check(name: &str, began: Instant, result: Result<String, String>) -> Check {
    let (result, detail) = match result {
        Ok(detail) => (SelftestVerdict::Passed, detail),
        Err(detail) => (SelftestVerdict::Failed, detail),
    };
    Check { name: name.to_string(), result, detail, seconds: began.elapsed().as_secs_f64() }
}

/// What a device must refuse, and as what.
fn refused(arch: &str) -> [(&'static str, FailureKind, Runnable); 3] {
    // An ELF header alone: AMD's machine and an architecture that is not this one.
    let others = arch::ROWS.iter().filter(|row| row.name != arch);
    let machine = others.filter_map(|row| row.machine).find_map(|machine| u8::try_from(machine).ok()).unwrap_or(0xff);
    let other: [u8; 64] = std::array::from_fn(|at| match at {
        0 => 0x7f,
        1 => b'E',
        2 => b'L',
        3 => b'F',
        18 => 224,
        48 => machine,
        _ => 0,
    });
    let mut greedy = runnable(b"never loaded".as_slice().into());
    greedy.built.workspace = TOO_MUCH;
    [
        ("code that is none", FailureKind::LoadError, runnable(b"this is no code object".as_slice().into())),
        ("code for another device", FailureKind::WrongTarget, runnable(Bytes::copy_from_slice(&other))),
        ("more memory than there is", FailureKind::OutOfMemory, greedy),
    ]
}

fn runnable(code: Bytes) -> Runnable {
    let launch =
        Launch { entry: "selftest".to_string(), grid: [1; 3], block: [1; 3], shared: 0, arguments: Vec::new() };
    let object = CodeObject::plain(ArtifactRef::of(&code), "", "");
    Runnable { built: Built { objects: vec![object], launches: vec![launch], workspace: 0 }, code, image: None }
}

/// A problem of one output, which `reference` is to solve.
fn task(reference: &Runnable) -> Task {
    Task {
        buffers: vec![Buffer {
            name: "y".to_string(),
            data_type: DataType::Fp32,
            length: 1024,
            role: Role::Output,
            content: Content::Random,
        }],
        reference: reference.built.clone(),
        tolerance: Tolerance { absolute: 0.0, relative: 0.0 },
    }
}

type Results = Vec<Result<Timing, Failure>>;

async fn evaluate(
    worker: &mut DeviceWorker,
    stage: Stage,
    task: &Task,
    reference: &Bytes,
    candidates: &[Runnable],
) -> Result<Results, String> {
    let limits = Limits::default();
    let work = Work { stage, task, reference, data: &[], candidates, seed: 1, incumbent_ms: None, limits };
    worker.evaluate(&work).await.map_err(|error| error.to_string())
}

fn expect(kind: FailureKind, results: &Results) -> Result<String, String> {
    match results.first() {
        Some(Err(failure)) if failure.kind == kind => Ok(format!("{}: {}", kind.name(), failure.detail)),
        other => Err(format!("found {other:?}, expected {}", kind.name())),
    }
}

/// Times one kernel under two names; they must tie.
async fn ties(
    worker: &mut DeviceWorker,
    task: &Task,
    reference: &Bytes,
    candidates: &[Runnable],
) -> Result<String, String> {
    let Some(one) = candidates.first() else { return Err("no kernel".to_string()) };
    let pair = [one.clone(), one.clone()];
    let (mut ties, mut worst) = (0, 0.0_f64);
    for _ in 0..TIES {
        let results = evaluate(worker, Stage::Find, task, reference, &pair).await?;
        let [Ok(a), Ok(b)] = results.as_slice() else { return Err(format!("{results:?}")) };
        let apart = (a.median_ms - b.median_ms).abs();
        worst = worst.max(apart / a.median_ms.min(b.median_ms));
        ties += usize::from(apart <= TIE * a.median_ms.min(b.median_ms) || apart <= a.spread_ms + b.spread_ms);
    }
    let said = format!("{ties} of {TIES} rounds are ties, medians at most {:.2} % apart", 100.0 * worst);
    if ties >= MIN_TIES { Ok(said) } else { Err(said) }
}
