//! The lock of the GPU: jobs that share a process wait for it once.

use std::fs::{File, TryLockError};
use std::process::Stdio;
use std::time::Duration;

use bluefin_eval_worker::GpuLock;
use bluefin_test_support::hip::HipMachine;
use tokio::time::{sleep, timeout};

use super::{GPU, Machine, rows};
use crate::common::text;

#[tokio::test]
async fn jobs_whose_answer_is_there_do_not_wait_for_the_gpu() {
    let (machine, gpu) = (Machine::new(), HipMachine::new(GPU));
    machine.untuned(&[16, 32, 64, 128]);
    let lock = GpuLock::of(&gpu.uuid(0));
    let mut held = lock.hold().await;
    let mut tune = machine.tune(&[], &["--shapes", "ck_gemm_a8w8_blockscale", "--gpu", GPU]);
    tune.envs(gpu.environment()).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
        tune.env_remove(variable);
    }
    let mut running = tokio::process::Command::from(tune).kill_on_drop(true).spawn().unwrap();
    let next = File::open(format!("/tmp/bluefin-{}.next", gpu.uuid(0))).unwrap();
    let is_waited_for = || matches!(next.try_lock(), Err(TryLockError::WouldBlock));
    // The first job comes alone, the others together when it is done.
    for jobs in ["the first", "the others"] {
        timeout(Duration::from_secs(60), async {
            while !is_waited_for() {
                next.unlock().unwrap();
                sleep(Duration::from_millis(20)).await;
            }
            sleep(Duration::from_secs(1)).await;
        })
        .await
        .expect(jobs);
        let behind = lock.hold();
        tokio::pin!(behind);
        // Behind the job that waits, and before all that come later.
        assert!(timeout(Duration::from_millis(50), &mut behind).await.is_err());
        drop(held);
        held = timeout(Duration::from_secs(60), behind).await.expect(jobs);
    }
    let is_over = timeout(Duration::from_secs(30), running.wait()).await.is_ok();
    running.start_kill().unwrap();
    let output = running.wait_with_output().await.unwrap();
    assert!(is_over && output.status.success(), "its answers are there: {}", text(&output.stderr));
    drop(held);
    assert_eq!(rows(&machine.configs().join("a8w8_blockscale_tuned_gemm.csv")).len(), 4);
}
