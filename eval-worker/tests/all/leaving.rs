//! How a worker ends: after enough jobs, when idle, when told to, and when its device is gone.

use std::sync::Arc;
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::delivery::Leave;
use bluefin_common::job::Job;
use bluefin_common::session::Stage;
use bluefin_eval_worker::{Config, DeviceChild, Error};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::setting::Setting;
use crate::support::{RIGHT, Test, block_on, child, kernel};

pub const TESTS: &[Test] = &[
    ("a_worker_leaves_after_its_jobs", a_worker_leaves_after_its_jobs),
    ("a_worker_leaves_when_idle", a_worker_leaves_when_idle),
    ("a_drain_finishes_what_it_can", a_drain_finishes_what_it_can),
    ("a_drain_hands_back_what_it_can_not_finish", a_drain_hands_back_what_it_can_not_finish),
    ("a_device_that_is_gone_hands_its_jobs_back", a_device_that_is_gone_hands_its_jobs_back),
];

fn a_worker_leaves_after_its_jobs() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let mut jobs = Vec::new();
        for size in 0..3 {
            let job = setting.job(size, Stage::Perf, 1);
            setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(RIGHT))]).await).await;
            jobs.push(job);
        }
        let worker = setting.work(|config| config.leave = Leave { after_jobs: Some(2), when_idle: None });
        worker.await.unwrap().unwrap();
        assert_eq!(setting.count_outcomes(&jobs).await, 2);
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 1);
    });
}

fn a_worker_leaves_when_idle() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        // Longer at work than it may be idle.
        let job = setting.job(1, Stage::Perf, 1);
        setting.publish(&setting.compiled(job.clone(), &[Ok(kernel(&format!("usleep(400000); {RIGHT}")))]).await).await;
        let idle = Duration::from_secs(1);
        let worker = setting.work(|config| config.leave = Leave { after_jobs: None, when_idle: Some(idle) });
        worker.await.unwrap().unwrap();
        assert_eq!(setting.count_outcomes(std::slice::from_ref(&job)).await, 1);
    });
}

/// Jobs that take half a second each, one of them on the device.
async fn busy(setting: &mut Setting, change: impl FnOnce(&mut Config)) -> (Vec<Job>, JoinHandle<Result<(), Error>>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("running");
    let mut jobs = Vec::new();
    for size in 0..3 {
        let job = setting.job(size, Stage::Perf, 1);
        let slow = kernel(&format!(
            "FILE *f = fopen(\"{}\", \"w\"); if (f) fclose(f); usleep(150000); {RIGHT}",
            file.display()
        ));
        setting.publish(&setting.compiled(job.clone(), &[Ok(slow)]).await).await;
        jobs.push(job);
    }
    let worker = setting.work(change);
    setting.until("a kernel runs", async || file.exists().then_some(())).await;
    (jobs, worker)
}

fn a_drain_finishes_what_it_can() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (jobs, worker) = busy(&mut setting, |_| {}).await;
        setting.stop(worker).await;
        assert_eq!(setting.count_outcomes(&jobs).await, 1, "the one on the device");
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 2);
    });
}

fn a_drain_hands_back_what_it_can_not_finish() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let (jobs, worker) = busy(&mut setting, |config| config.grace = Duration::from_millis(10)).await;
        setting.stop(worker).await;
        assert_eq!(setting.count_outcomes(&jobs).await, 0);
        assert_eq!(setting.broker.depth(&jobs[0].eval_queue()).await.unwrap(), 3);
        // Another worker does it all.
        setting.shutdown = CancellationToken::new();
        let worker = setting.work(|_| {});
        for job in &jobs {
            assert!(setting.outcome(job).await.candidates[0].result.is_ok());
        }
        setting.stop(worker).await;
    });
}

fn a_device_that_is_gone_hands_its_jobs_back() {
    block_on(async {
        let mut setting = Setting::new(&[Stage::Perf]).await;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("child");
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
        let job = setting.job(1, Stage::Perf, 2);
        let unlinks = kernel(&format!("unlink(\"{}\"); abort();", program.display()));
        setting.publish(&setting.compiled(job.clone(), &[Ok(unlinks), Ok(kernel(RIGHT))]).await).await;
        let worker = setting.work(|config| {
            let mut child = child();
            child.command[0] = program.clone().into();
            config.evaluator = Arc::new(DeviceChild::host(child));
        });
        let error = worker.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error}");
        assert_eq!(setting.count_outcomes(std::slice::from_ref(&job)).await, 0);
        assert_eq!(setting.broker.depth(&job.eval_queue()).await.unwrap(), 1);
    });
}
