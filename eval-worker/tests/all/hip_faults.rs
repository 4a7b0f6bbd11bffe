//! What becomes of a HIP device's child, and of the candidates after it, for one fault after the other.

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::failure::FailureKind;
use bluefin_common::session::Stage;
use bluefin_eval_worker::{DeviceWorker, Runnable};
use bluefin_test_support::hip::{Code, Effect, Fault, HipMachine};
use prometheus::Registry;

use crate::support::hip::{gpu, kernel, right};
use crate::support::{RIGHT, Test, block_on, evaluate, metrics, task};

pub const TESTS: &[Test] = &[
    ("after_each_fault_the_next_candidate_is_timed", after_each_fault_the_next_candidate_is_timed),
    ("absurd_times_are_no_times", absurd_times_are_no_times),
    ("finalists_outlive_one_that_breaks_the_device", finalists_outlive_one_that_breaks_the_device),
    ("a_slow_device_is_slow", a_slow_device_is_slow),
];

/// A candidate that goes wrong.
struct Case {
    what: &'static str,
    candidate: Runnable,
    /// What is asked of the stand-in; nothing where the candidate does it all.
    fault: Option<Fault>,
    kind: FailureKind,
    /// Why its child is of no use any more, for one that it costs.
    loss: Option<&'static str>,
}

impl Case {
    /// A right kernel that is hit by `effect`.
    fn hit(what: &'static str, effect: Effect, kind: FailureKind, loss: Option<&'static str>) -> Self {
        let fault = Some(Fault::kernel("bad", effect));
        Self { what, candidate: right("bad"), fault, kind, loss }
    }

    /// A kernel that is bad by itself.
    fn of(what: &'static str, candidate: Runnable, kind: FailureKind, loss: Option<&'static str>) -> Self {
        Self { what, candidate, fault: None, kind, loss }
    }
}

fn cases() -> Vec<Case> {
    let bad = |change: fn(&mut Runnable)| {
        let mut bad = right("bad");
        change(&mut bad);
        bad
    };
    let block = bad(|bad| bad.built.launches[0].block = [1025, 1, 1]);
    let workspace = bad(|bad| bad.built.workspace = 2 << 30);
    let name = bad(|bad| bad.built.launches[0].entry = "missing".to_string());
    let code = bad(|bad| {
        bad.code = b"no code object".as_slice().into();
        bad.built.objects[0].artifact = ArtifactRef::of(&bad.code);
    });
    let overrun = kernel("bad", "for (int64_t i = 0; ; ++i) ((volatile float *)y)[i] = 1;", "");
    let endless = kernel("bad", "for (;;) zero = 1;", "");
    let other = kernel("bad", RIGHT, "const char bluefin_standin_arch[] = \"gfx906\";");
    // The candidate's code; the next one's loads.
    let full = Fault::call("hipModuleLoadData", Effect::Error(Code::OUT_OF_MEMORY)).only(0, 1);
    let full =
        Case { fault: Some(full), ..Case::of("no memory for code", right("bad"), FailureKind::OutOfMemory, None) };
    let error = Effect::Error;
    let sticky = Effect::Sticky;
    vec![
        Case::of("a block that is too large", block, FailureKind::LaunchFailure, None),
        Case::hit("too many resources", error(Code::LAUNCH_OUT_OF_RESOURCES), FailureKind::LaunchFailure, None),
        Case::hit("an illegal address", sticky(Code::ILLEGAL_ADDRESS), FailureKind::Fault, Some("tainted")),
        Case::hit("an unspecified failure", sticky(Code::LAUNCH_FAILURE), FailureKind::Fault, Some("tainted")),
        Case::of("an overrun", overrun, FailureKind::Fault, Some("tainted")),
        Case::hit("a page fault as ROCm reports it", Effect::Abort, FailureKind::Fault, Some("signal")),
        Case::hit("a device that never answers", Effect::Hang, FailureKind::Hang, Some("hang")),
        Case::of("a kernel that never ends", endless, FailureKind::Hang, Some("hang")),
        Case::hit("an uncorrectable error", error(Code::ECC_NOT_CORRECTABLE), FailureKind::DeviceLost, Some("tainted")),
        Case::of("a workspace beyond the memory", workspace, FailureKind::OutOfMemory, None),
        full,
        Case::hit("a wrong result", Effect::Wrong, FailureKind::WrongResult, None),
        Case::hit("not a number", Effect::Nan, FailureKind::NotANumber, None),
        Case::hit("nothing written", Effect::Unwritten, FailureKind::OutputNotWritten, None),
        Case::of("code for another architecture", other, FailureKind::WrongTarget, None),
        Case::of("no code object", code, FailureKind::LoadError, None),
        Case::of("a missing kernel", name, FailureKind::LoadError, None),
    ]
}

/// How many children were lost, for any reason or for one.
fn losses(registry: &Registry, cause: Option<&str>) -> f64 {
    let families = registry.gather();
    let lost = families.iter().filter(|family| family.name() == "bluefin_child_losses_total");
    let series = lost.flat_map(|family| family.get_metric());
    let wanted =
        series.filter(|metric| cause.is_none_or(|cause| metric.get_label().iter().any(|it| it.value() == cause)));
    wanted.map(|metric| metric.get_counter().get_value()).sum()
}

fn after_each_fault_the_next_candidate_is_timed() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let (registry, metrics) = metrics();
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics).await.unwrap();
        let reference = right("reference");
        let task = task(&reference);
        // The reference is known, so that the first thing that is loaded is the candidate.
        let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &[right("good")]).await;
        assert!(results[0].is_ok(), "{results:?}");
        for Case { what, candidate, fault, kind, loss } in cases() {
            let faults: Vec<Fault> = fault.into_iter().collect();
            machine.set_faults(&faults);
            let before = (losses(&registry, None), losses(&registry, loss));
            let candidates = [candidate, right("good")];
            let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates).await;
            let failure = results[0].as_ref().expect_err(what);
            println!("{what}: {}: {}", failure.kind.name(), failure.detail);
            assert_eq!(failure.kind, kind, "{what}: {}", failure.detail);
            assert!(results[1].is_ok(), "after {what}: {:?}", results[1]);
            let after = (losses(&registry, None), losses(&registry, loss));
            let one = if loss.is_some() { 1.0 } else { 0.0 };
            assert_eq!((after.0 - before.0, after.1 - before.1), (one, one), "{what}: children lost");
            assert!(faults.iter().all(|fault| machine.hits(fault) > 0), "{what}: it happened");
        }
    });
}

fn absurd_times_are_no_times() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        let (task, candidates) = (task(&reference), [right("good")]);
        for ms in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            machine.set_faults(&[Fault::call("hipEventElapsedTime", Effect::Time(ms))]);
            let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates).await;
            assert!(results[0].is_err(), "{ms} ms: {results:?}");
            machine.set_faults(&[]);
            let results = evaluate(&mut worker, Stage::Perf, &task, &reference, &candidates).await;
            assert!(results[0].is_ok(), "after {ms} ms: {results:?}");
        }
    });
}

fn finalists_outlive_one_that_breaks_the_device() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        for effect in [Effect::Sticky(Code::ILLEGAL_ADDRESS), Effect::Abort, Effect::Hang] {
            machine.set_faults(&[Fault::kernel("bad", effect)]);
            let candidates = [right("one"), right("bad"), right("two")];
            let results = evaluate(&mut worker, Stage::Find, &task(&reference), &reference, &candidates).await;
            assert!(results[0].is_ok() && results[2].is_ok(), "{effect:?}: {results:?}");
            let expected = if effect == Effect::Hang { FailureKind::Hang } else { FailureKind::Fault };
            assert_eq!(results[1].as_ref().unwrap_err().kind, expected, "{effect:?}");
        }
    });
}

fn a_slow_device_is_slow() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        machine.set_faults(&[Fault::kernel("slow", Effect::Slow(20.0))]);
        let candidates = [right("slow")];
        let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates).await;
        let median_ms = results[0].as_ref().unwrap().median_ms;
        assert!(median_ms >= 20.0, "{median_ms}");
    });
}
