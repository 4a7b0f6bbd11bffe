//! Whether this machine has what its workers need.

use std::time::Duration;

use bluefin_common::method::Method;
use bluefin_exporter::doctor::Report;
use tokio::time::timeout;

use crate::known::known;
use crate::machine::itself;
use crate::ports::FleetArgs;
use crate::usage::message;

/// How long a broker or a store may take to answer.
const REACH: Duration = Duration::from_secs(10);

/// What the workers of this machine would need: a broker and a store, where they are named, and a compiler.
pub async fn check_workers(fleet: &FleetArgs, report: &mut Report) {
    if fleet.names_a_broker() {
        match timeout(REACH, fleet.broker()).await {
            Ok(Ok(broker)) => {
                report.note("broker", "reached");
                broker.close().await;
            }
            Ok(Err(error)) => report.finding("broker", message(&error)),
            Err(_) => report.finding("broker", "no answer in 10 s"),
        }
    }
    if fleet.names_a_store() {
        match timeout(REACH, fleet.store()).await {
            Ok(Ok(_)) => report.note("store", "reached"),
            Ok(Err(error)) => report.finding("store", message(&error)),
            Err(_) => report.finding("store", "no answer in 10 s"),
        }
    }
    let compilers = compilers().await;
    let none = compilers.iter().all(|(_, found)| found.is_err());
    for (name, found) in compilers {
        report.note(format!("compiler {name}"), found.unwrap_or_else(|reason| format!("not usable: {reason}")));
    }
    if none {
        report.finding("compilers", "none that a compile worker could use");
    }
}

/// The compilers of kernels that bluefin knows: which one is here, or why it is not usable.
pub async fn compilers() -> Vec<(&'static str, Result<String, String>)> {
    let of_kernels = |name| Method::of_toolchain(name) == Some(Method::KERNELS);
    let mut compilers = Vec::new();
    // Without the path of this program there is no NVRTC.
    let programs = itself::programs().unwrap_or_default();
    for compiler in known().toolchains.usual().filter(|known| of_kernels(known.name)) {
        let found = (compiler.probe)(&programs).await;
        let found = found.map(|found| found.identity().to_string()).map_err(|error| error.to_string());
        compilers.push((compiler.name, found));
    }
    compilers
}
