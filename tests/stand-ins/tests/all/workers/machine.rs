//! What this machine does to a tool is no job's fault: nothing comes of it, nothing is given up, and it goes on when the machine
//! is mended.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{Job, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_common::shelf;
use bluefin_common::store::{Records as _, Work as _};
use bluefin_eval_worker::MiopenDevice;
use bluefin_miopen::Tool;
use bluefin_miopen::disk::Disk;

use crate::workers::setting::{Setting, problem, target};
use crate::workers::{TUNED, find_only, kinds};

const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(20);

/// The program of MIOpenDriver that an eval worker of `setting` has, and one job for it.
async fn driver(variables: &[(&str, &str)]) -> (Setting, MiopenDevice, PathBuf, Job) {
    let mut setting = Setting::new(Method::MIOPENDRIVER, find_only).await;
    setting.reprobe = Some(LOOK_EVERY);
    let device = setting.device(Tool::MiopenDriver, variables).await;
    let program = setting.folder.path().join("eval/bin/MIOpenDriver");
    let job = setting.job(&problem(4, Direction::Forward), Stage::Find, TUNED);
    (setting, device, program, job)
}

/// Has `script` run before the stand-in at `program`.
fn first(program: &Path, script: &str) {
    let wrapper = std::fs::read_to_string(program).unwrap();
    std::fs::write(program, wrapper.replacen("#!/bin/sh\n", &format!("#!/bin/sh\n{script}\n"), 1)).unwrap();
}

/// Nothing came of the job, and it is where others get it.
async fn assert_put_back(setting: &Setting, job: &Job) {
    assert!(setting.store.progress(&job.session).await.unwrap().done.is_empty());
    assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
    let back = async {
        while setting.broker.depth(&eval_queue(&target(), job.method)).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("the job is handed back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_not_there_is_waited_for() {
    let (mut setting, device, program, job) = driver(&[]).await;
    setting.eval_worker_on(device);
    let away = program.with_extension("away");
    std::fs::rename(&program, &away).unwrap();
    setting.enqueue(std::slice::from_ref(&job)).await;
    setting.waiting.begins().await;
    let reason = setting.waiting.reason().unwrap();
    assert!(reason.starts_with("waiting for the machine: ") && reason.contains("No such file"), "{reason}");
    assert_put_back(&setting, &job).await;
    // Installed again, though not for everybody yet.
    std::fs::set_permissions(&away, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::rename(&away, &program).unwrap();
    assert!(!setting.waiting.is_over());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(kinds(&setting.finish().await[0])[0], Ok(()));
    setting.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_finds_its_disk_full_is_waited_for() {
    for method in [Method::MIOPENDRIVER, Method::FIN] {
        let (mut setting, tool) = match method == Method::FIN {
            true => (Setting::new(method, |session| session.stages = vec![Stage::Perf]).await, Tool::Fin),
            false => (Setting::new(method, find_only).await, Tool::MiopenDriver),
        };
        let stage = setting.session.stages[0];
        if tool == Tool::Fin {
            setting.compile_worker(&[]).await;
        }
        setting.reprobe = Some(LOOK_EVERY);
        let device = setting.device(tool, &[]).await;
        let full = setting.folder.path().join("full");
        let says = format!("[ -e '{}' ] && {{ echo 'write: No space left on device' >&2; exit 1; }}", full.display());
        first(&setting.folder.path().join("eval/bin").join(tool.program()), &says);
        setting.eval_worker_on(device);
        let job = setting.job(&problem(4, Direction::Forward), stage, TUNED);
        std::fs::write(&full, "").unwrap();
        setting.enqueue(std::slice::from_ref(&job)).await;
        setting.waiting.begins().await;
        assert!(setting.waiting.reason().unwrap().contains("No space left on device"), "{:?}", setting.waiting);
        assert_put_back(&setting, &job).await;
        std::fs::remove_file(&full).unwrap();
        assert_eq!(kinds(&setting.finish().await[0])[0], Ok(()));
        setting.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_is_no_failure_where_nothing_can_be_written() {
    let (mut setting, mut device, _, job) = driver(&[("STAND_IN_FAULTS", "empty-output")]).await;
    let disk = setting.folder.path().join("disk");
    device.disk = Disk::new(&disk, 1.0, 0);
    setting.eval_worker_on(device);
    setting.enqueue(std::slice::from_ref(&job)).await;
    setting.waiting.begins().await;
    assert!(setting.waiting.reason().unwrap().contains("disk of "), "{:?}", setting.waiting);
    assert_put_back(&setting, &job).await;
    std::fs::create_dir(&disk).unwrap();
    assert_eq!(kinds(&setting.finish().await[0]), [Err(FailureKind::NoResult)]);
    setting.stop().await;
}

/// A service manager tells a tool to stop with its worker; the worker may have time to do it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_told_to_stop_costs_nothing() {
    for signal in ["TERM", "KILL"] {
        let (mut setting, device, program, job) = driver(&[]).await;
        let once = setting.folder.path().join("once");
        first(&program, &format!("[ -e '{0}' ] || {{ : > '{0}'; kill -{signal} $$; }}", once.display()));
        setting.eval_worker_on(device);
        setting.enqueue(std::slice::from_ref(&job)).await;
        assert_eq!(kinds(&setting.finish().await[0])[0], Ok(()), "{signal}");
        assert!(once.is_file());
        assert_eq!(setting.broker.depth(DEAD_QUEUE).await.unwrap(), 0);
        setting.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_always_killed_is_counted() {
    let (mut setting, device, program, job) = driver(&[]).await;
    let calls = setting.folder.path().join("calls");
    first(&program, &format!("echo x >> '{}'; kill -KILL $$", calls.display()));
    setting.eval_worker_on(device);
    setting.enqueue(std::slice::from_ref(&job)).await;
    let shelf = shelf::begun(&job.session);
    let counted = async {
        while setting.store.records(&shelf).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("it is counted");
    assert_eq!(setting.store.records(&shelf).await.unwrap(), [(job.id().to_string(), b"1".to_vec())]);
    assert_eq!(std::fs::read_to_string(calls).unwrap(), "x\nx\n", "twice in a row");
    assert!(setting.store.progress(&job.session).await.unwrap().done.is_empty());
    setting.stop().await;
}
