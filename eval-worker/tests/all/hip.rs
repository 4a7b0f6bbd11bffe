//! The HIP path through a real child, on GPUs that are not there: every fault becomes its kind, and the device is found
//! healthy, or not, by a new child.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::broker::Broker;
use bluefin_common::failure::FailureKind;
use bluefin_common::outcome::Resources;
use bluefin_common::session::Stage;
use bluefin_common::store::{Artifacts as _, Sessions as _, Store, Work as _};
use bluefin_common::target::Target;
use bluefin_eval_worker::inventory::Inventory;
use bluefin_eval_worker::{ChildConfig, Config, DeviceChild, DeviceError, DeviceWorker, Error, Runnable, run_all};
use bluefin_test_support::hip::{Code, Effect, Fault, HipMachine};
use bluefin_test_support::patience;
use tokio::task::JoinHandle;

use crate::support::hip::{gpu, inventory, kernel, right};
use crate::support::setting::Setting;
use crate::support::{RIGHT, Test, block_on, evaluate, evaluate_within, limits, metrics, patient, task};

pub const TESTS: &[Test] = &[
    ("a_gpu_is_found_and_named", a_gpu_is_found_and_named),
    ("why_there_is_none", why_there_is_none),
    ("kernels_are_timed", kernels_are_timed),
    (
        "what_a_kernel_takes_is_known_and_what_can_not_fit_does_not_run",
        what_a_kernel_takes_is_known_and_what_can_not_fit_does_not_run,
    ),
    ("every_fault_has_its_kind", every_fault_has_its_kind),
    ("code_for_another_device", code_for_another_device),
    ("a_child_has_the_device_that_it_should", a_child_has_the_device_that_it_should),
    ("a_lost_device_burns_no_candidate", a_lost_device_burns_no_candidate),
    ("a_quarantined_device_comes_back", a_quarantined_device_comes_back),
    ("the_others_go_on", the_others_go_on),
];

fn a_gpu_is_found_and_named() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104,gfx942-304");
        let inventory = inventory(&machine).await;
        let [first, second] = inventory.gpus.as_slice() else { panic!("{inventory:?}") };
        assert_eq!((first.device.as_str(), first.target.as_str()), ("hip:0", "gfx90a-104"));
        assert_eq!((second.target.as_str(), second.uuid.as_str()), ("gfx942-304", &*machine.uuid(1)));
        assert_eq!((first.name.as_str(), first.memory_bytes), ("AMD Instinct MI210", 1 << 30));
        assert!(first.runtime.starts_with("HIP 6.4."), "{first:?}");
        assert_eq!(inventory.host.as_ref().map(|host| host.target.as_str()), Some("host"));
    });
}

fn why_there_is_none() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let library = machine.library_without("hipMemsetD8Async");
        let mut command: Vec<std::ffi::OsString> = vec!["env".into()];
        command.push(format!("BLUEFIN_HIP_LIBRARY={}", library.display()).into());
        command.extend([std::env::current_exe().unwrap().into(), "eval-child".into(), "--list".into()]);
        let inventory = Inventory::take(&command).await;
        let wanted = format!("hip: {}: lacks hipMemsetD8Async", library.display());
        assert!(inventory.notes.contains(&wanted), "{inventory:?}");

        let empty = HipMachine::new("");
        let notes = crate::support::hip::inventory(&empty).await.notes;
        assert!(notes.iter().any(|note| note.starts_with("hip: ") && note.contains("device")), "{notes:?}");
        // A driver that takes the process down is a note as well.
        machine.set_faults(&[Fault::call("hipInit", Effect::Abort)]);
        let notes = crate::support::hip::inventory(&machine).await.notes;
        assert!(notes.iter().any(|note| note.contains("ended the process")), "{notes:?}");
    });
}

fn kernels_are_timed() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        assert!(worker.device().starts_with("AMD Instinct MI210 (gfx90a-104, 1 GiB"), "{}", worker.device());
        let reference = right("reference");
        let task = task(&reference);
        let candidates = [right("a"), right("b")];
        for stage in [Stage::Perf, Stage::Find] {
            for result in evaluate_within(patient(), &mut worker, stage, &task, &reference, &candidates).await {
                let timing = result.unwrap();
                // One that the machine held up looks much slower than the other.
                assert!(timing.median_ms > 0.0 && (timing.pruned || timing.samples_ms.len() >= 3), "{timing:?}");
            }
        }
        assert_eq!(worker.state().uuid, machine.uuid(0));
        assert!(worker.state().driver.contains("HIP 6.4."), "{:?}", worker.state());
    });
}

fn what_a_kernel_takes_is_known_and_what_can_not_fit_does_not_run() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        let of = |name, block, shared| {
            let mut candidate = right(name);
            let launch = &mut candidate.built.launches[0];
            (launch.block, launch.shared) = ([block, 2, 1], shared);
            candidate
        };
        let candidates = [right("plain"), of("wide", 1024, 0), of("large", 128, 65_540), of("right", 128, 1024)];
        for stage in [Stage::Perf, Stage::Find] {
            let results = evaluate(&mut worker, stage, &task(&reference), &reference, &candidates).await;
            for (at, said) in [
                (1, "wide: a block has 2048 threads of 64 registers, expected at most 1024 of this kernel"),
                (2, "large: a block takes 65540 bytes of shared memory, expected at most 65536"),
            ] {
                let failure = results[at].as_ref().unwrap_err();
                assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::LaunchFailure, said));
            }
            let taken = |shared| Some(Resources { registers: 64, spilled: 0, shared, resident: None });
            assert_eq!(worker.resources(), [taken(0), None, None, taken(1024)]);
            assert!(results[0].is_ok() && results[3].is_ok(), "{results:?}");
        }
        // A driver that does not say it is as good as any other.
        machine.set_faults(&[Fault::call("hipFuncGetAttribute", Effect::Error(Code(1)))]);
        let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates[..1]).await;
        assert!(results[0].is_ok() && worker.resources() == [None], "{results:?}");
    });
}

fn every_fault_has_its_kind() {
    let code = |code| Effect::Error(Code(code));
    let cases = [
        ("refused", code(1), FailureKind::LaunchFailure),
        ("resources", code(701), FailureKind::LaunchFailure),
        ("illegal", Effect::Sticky(Code(700)), FailureKind::Fault),
        ("failed", Effect::Sticky(Code(719)), FailureKind::Fault),
        ("memory", code(2), FailureKind::OutOfMemory),
        ("lost", Effect::Lost, FailureKind::DeviceLost),
        ("ecc", code(214), FailureKind::DeviceLost),
        ("aborts", Effect::Abort, FailureKind::Fault),
        ("hangs", Effect::Hang, FailureKind::Hang),
        ("wrong", Effect::Wrong, FailureKind::WrongResult),
        ("nan", Effect::Nan, FailureKind::NotANumber),
        ("unwritten", Effect::Unwritten, FailureKind::OutputNotWritten),
    ];
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let faults: Vec<Fault> = cases.iter().map(|(name, effect, _)| Fault::kernel(name, *effect)).collect();
        machine.set_faults(&faults);
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        let mut candidates: Vec<Runnable> = cases.iter().map(|(name, _, _)| right(name)).collect();
        candidates.push(kernel("beyond", &format!("{RIGHT} ((volatile float *)y)[1 << 22] = 1;"), ""));
        candidates.push(right("good"));
        let start = Instant::now();
        let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates).await;
        for ((name, _, kind), result) in cases.iter().zip(&results) {
            let failure = result.as_ref().expect_err(name);
            assert_eq!(failure.kind, *kind, "{name}: {}", failure.detail);
        }
        let beyond = results[cases.len()].as_ref().unwrap_err();
        assert_eq!(beyond.kind, FailureKind::Fault, "{}", beyond.detail);
        assert!(results[cases.len() + 1].is_ok(), "{results:?}");
        // One hang of a second and a half, and eight children.
        assert!(start.elapsed() < patience(Duration::from_secs(60)));
    });
}

fn code_for_another_device() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        let reference = right("reference");
        let other = kernel("other", RIGHT, "const char bluefin_standin_arch[] = \"gfx942\";");
        let with_code = |code: &'static [u8]| {
            let mut runnable = right("any");
            runnable.code = code.into();
            runnable.built.objects[0].artifact = ArtifactRef::of(code);
            runnable
        };
        let mut absent = right("present");
        absent.built.launches[0].entry = "absent".to_string();
        let candidates = [other, with_code(b".version 7.8\n.target sm_90\n"), with_code(b"junk"), absent];
        let results = evaluate(&mut worker, Stage::Perf, &task(&reference), &reference, &candidates).await;
        let kinds: Vec<FailureKind> = results.iter().map(|result| result.as_ref().unwrap_err().kind).collect();
        let expected =
            [FailureKind::WrongTarget, FailureKind::WrongTarget, FailureKind::LoadError, FailureKind::LoadError];
        assert_eq!(kinds, expected, "{results:?}");
    });
}

fn a_child_has_the_device_that_it_should() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104,gfx90a-104");
        let second = gpu(&machine, 1).await;
        let worker = DeviceWorker::start(second.clone(), metrics().1).await.unwrap();
        drop(worker);
        let wrong = ChildConfig { uuid: machine.uuid(0), ..second };
        let Err(error) = DeviceWorker::start(wrong, metrics().1).await else { panic!("it has another device") };
        assert!(matches!(error, DeviceError::Changed { .. }), "{error}");
    });
}

fn a_lost_device_burns_no_candidate() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut worker = DeviceWorker::start(gpu(&machine, 0).await, metrics().1).await.unwrap();
        machine.set_faults(&[Fault::lost(0)]);
        let reference = right("reference");
        let (task, candidates) = (task(&reference), [right("a")]);
        let work = bluefin_eval_worker::Work {
            stage: Stage::Perf,
            task: &task,
            reference: &reference.code,
            data: &[],
            candidates: &candidates,
            seed: 1,
            incumbent_ms: None,
            limits: limits(),
        };
        let error = worker.evaluate(&work).await.expect_err("nobody can be blamed");
        assert!(error.to_string().contains("hipErrorNoDevice"), "{error}");
    });
}

/// A worker of all GPUs of `machine`, with jobs for a `gfx90a-104`.
async fn fleet(setting: &mut Setting, machine: &HipMachine, gpus: usize) -> JoinHandle<Result<(), Error>> {
    let target: Target = "gfx90a-104".parse().unwrap();
    let mut configs = Vec::new();
    for index in 0..gpus {
        let child = gpu(machine, index).await;
        let device = format!("hip:{index}");
        let mut config = Config::new("test", Arc::new(DeviceChild { device, target: target.clone(), child }));
        config.limits = limits();
        config.reprobe = Some(Duration::from_millis(100));
        configs.push(config);
    }
    let (registry, metrics) = metrics();
    setting.registry = registry;
    let broker = Arc::clone(&setting.broker) as Arc<dyn Broker>;
    let store = Arc::clone(&setting.store) as Arc<dyn Store>;
    setting.tasks.spawn(run_all(configs, broker, store, metrics, setting.shutdown.clone()))
}

async fn published(setting: &Setting, size: i64) -> bluefin_common::job::Job {
    let mut job = setting.job(size, Stage::Perf, 1);
    job.target = "gfx90a-104".parse().unwrap();
    let reference = right("reference");
    setting.store.put_artifact(&reference.code).await.unwrap();
    let eval_job = setting.compiled_with(&reference, job.clone(), &[Ok(right("candidate"))]).await;
    setting.publish(&eval_job).await;
    job
}

fn a_quarantined_device_comes_back() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104");
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let worker = fleet(&mut setting, &machine, 1).await;
        let first = published(&setting, 1).await;
        assert!(setting.outcome(&first).await.candidates[0].result.is_ok());
        let pins = setting.store.pins(&first.session).await.unwrap();
        assert!(pins["driver.gfx90a-104"].contains("HIP "), "{pins:?}");

        machine.set_faults(&[Fault::lost(0)]);
        let second = published(&setting, 2).await;
        let quarantined = || setting.metric("bluefin_device_quarantined", &[("device", "hip:0")]);
        setting.until("quarantine", async || (quarantined() == 1.0).then_some(())).await;
        assert!(!setting.store.has_outcome(&second.session, second.group(), second.id()).await.unwrap());

        machine.set_faults(&[]);
        assert!(setting.outcome(&second).await.candidates[0].result.is_ok(), "at no cost");
        assert_eq!(quarantined(), 0.0);

        machine.set_faults(&[Fault::lost(0)]);
        published(&setting, 3).await;
        setting.until("quarantine", async || (quarantined() == 1.0).then_some(())).await;
        setting.shutdown.cancel();
        let error = worker.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Quarantined { .. }), "{error}");
    });
}

fn the_others_go_on() {
    block_on(async {
        let machine = HipMachine::new("gfx90a-104,gfx90a-104");
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let worker = fleet(&mut setting, &machine, 2).await;
        machine.set_faults(&[Fault::lost(1)]);
        for size in 0..8 {
            let job = published(&setting, size).await;
            assert!(setting.outcome(&job).await.candidates[0].result.is_ok());
        }
        machine.set_faults(&[]);
        setting.stop(worker).await;
    });
}
