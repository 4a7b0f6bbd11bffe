//! Jobs that cost nothing but the pipeline.

use std::collections::BTreeMap;

use bluefin_common::clock::now_ms;
use bluefin_common::job::Job;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::value::Value;
use bluefin_kernel_spec::Bundle;
use bluefin_producer::plan::CandidateBudget;
use bluefin_producer::plan::kernels::plan_problem;
use bluefin_producer::specs::LoadedSpec;

/// Jobs planned and enqueued at a time.
pub const CHUNK: u64 = 5000;

/// A spec whose compilation and evaluation do nothing.
pub fn noop_spec() -> anyhow::Result<LoadedSpec> {
    let files = BTreeMap::from([("noop.c".to_string(), "void noop(void) {}\n".to_string())]);
    Ok(LoadedSpec::load(Bundle { toml: include_str!("noop.toml").to_string(), files, ..Bundle::default() })?)
}

/// A session of its own for every run, so that each starts from nothing.
pub fn session(stages: &[Stage]) -> anyhow::Result<Session> {
    let created_ms = now_ms();
    let name = format!("bench-{created_ms}-{}", std::process::id()).parse()?;
    Ok(Session::of_kernels(name, "gfx000-1".parse()?, "bluefin bench", stages, created_ms))
}

/// A problem that no other `n` has.
pub fn noop_problem(spec: &LoadedSpec, n: u64) -> anyhow::Result<Problem> {
    let sizes = BTreeMap::from([("n".to_string(), Value::Int(i64::try_from(n)? + 1))]);
    Ok(spec.spec.problem(&sizes)?)
}

/// `count` jobs of as many problems, the ones from `first` on.
pub fn noop_jobs(session: &Session, spec: &LoadedSpec, first: u64, count: u64) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for n in first..first + count {
        let groups = plan_problem(session, &noop_problem(spec, n)?, [spec], CandidateBudget::QUICK, None)?;
        jobs.extend(groups.into_iter().flat_map(|group| group.jobs));
    }
    Ok(jobs)
}
