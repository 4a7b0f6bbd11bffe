//! This program again, as the processes that it starts.

use std::ffi::OsString;

use anyhow::Context;
use bluefin_compile_worker::Programs;
use bluefin_eval_worker::{ChildConfig, Deadlines};

/// A command line that runs `verb` of this program.
pub fn command(verb: &str) -> anyhow::Result<Vec<OsString>> {
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(vec![program.into(), verb.into()])
}

/// The programs of toolchains of which this program is one.
pub fn programs() -> anyhow::Result<Programs> {
    Ok(Programs { nvrtc: command("nvrtc")?, ..Programs::default() })
}

/// A child of a device, which is yet to be named.
pub fn child() -> anyhow::Result<ChildConfig> {
    Ok(ChildConfig::new(command("eval-child")?, Deadlines::default()))
}

/// CPUs that this program may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
