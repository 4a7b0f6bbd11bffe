//! Messages and stored values: what decodes encodes to the same value, and is safe to use.
#![no_main]

use std::fmt::Debug;

use bluefin_common::artifact::CompileRecord;
use bluefin_common::job::{CompileJob, EvalJob, Job};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Session;
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::wire::{Message, decode, encode};
use bluefin_kernel_spec::Bundle;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read::<CompileJob>(bytes, |message| job(&message.job));
    read::<EvalJob>(bytes, |message| {
        job(&message.job);
        if let TaskRef::Inline(inline) = &message.task {
            task(inline);
        }
    });
    read::<Task>(bytes, task);
    read::<Outcome>(bytes, |outcome| {
        job(&outcome.job);
        outcome.candidates.iter().for_each(|one| drop(one.candidate.to_string()));
    });
    read::<Session>(bytes, |session| target(&session.target));
    read::<Bundle>(bytes, |_| {});
    read::<CompileRecord>(bytes, |_| {});
});

fn read<T: Message + Debug>(bytes: &[u8], check: impl FnOnce(&T)) {
    let Ok(value) = decode::<T>(bytes) else { return };
    check(&value);
    let again = encode(&value).expect("what was decoded is small enough");
    // NaN is not equal to itself, but its bytes are.
    let back = decode::<T>(&again).expect("what was encoded is decoded");
    assert_eq!(encode(&back).expect("twice"), again);
}

fn task(task: &Task) {
    task.buffers.iter().for_each(|buffer| drop(buffer.bytes()));
}

fn job(job: &Job) {
    target(&job.target);
    let problem = &job.problem;
    assert!(problem.flops() >= 0.0);
    drop((problem.label(), problem.canonical(), problem.variables()));
    drop((job.id(), job.group(), job.compile_queue(), job.eval_queue()));
}

/// It names queues and files.
fn target(target: &Target) {
    assert_eq!(target.to_string().parse::<Target>().as_ref().ok(), Some(target));
}
