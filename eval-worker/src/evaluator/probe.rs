//! Which of MIOpen's tools evaluate on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluefin_common::target::Target;
use bluefin_miopen::Tool;
use bluefin_miopen::detect::{self, Gpu, ROCR_VISIBLE, Versions};
use bluefin_miopen::disk::Disk;
use bluefin_miopen::fin::{Fin, Trouble};
use bluefin_miopen::process::Watch;
use bluefin_miopen::solver;

use super::driver::Driver;
use super::gpu_lock::GpuLock;
use super::miopen::{MiopenDevice, MiopenTool};
use crate::device::gpu::amd_driver;

/// Why a tool can not evaluate here.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("{tool}: {program}: {reason}", tool = .tool.name(), program = .program.display())]
    Broken { tool: Tool, program: PathBuf, reason: String },
    #[error("GPU {gpu:?}: found {found}, expected {expected}, which is what this worker is to evaluate for")]
    OtherTarget { gpu: String, found: Target, expected: Target },
    #[error("GPU {gpu:?}: not there; found {found}")]
    NoGpu { gpu: String, found: String },
}

/// A tool that is to be tried, and the GPU that it is to evaluate on.
#[derive(Clone, Debug)]
pub struct Probe<'a> {
    pub tool: Tool,
    pub program: &'a Path,
    /// Stands in front of the program; may be empty.
    pub launcher: Vec<OsString>,
    pub target: Target,
    /// By number or UUID; `None`: the first one.
    pub gpu: Option<&'a str>,
    /// Where the kernel driver describes its GPUs; where it says nothing, `target` is believed.
    pub topology: &'a Path,
}

impl MiopenDevice {
    /// Tries a tool.
    ///
    /// # Errors
    /// A tool that does not work or has no GPU; a GPU that is not the target.
    pub async fn probe(probe: Probe<'_>) -> Result<Self, ProbeError> {
        let Probe { tool, program, launcher, target, gpu, topology } = probe;
        let gpus = detect::gpus(topology);
        // The tools are shown what their runtime shows, of which HIP's variable is made anew.
        let below = std::env::var(ROCR_VISIBLE).ok();
        let uuid = match visible(&gpus, below.as_deref()) {
            Some(visible) => check_gpu(&visible, &target, gpu)?,
            None => String::new(),
        };
        let lock = GpuLock::among(&gpus, &uuid);
        let versions = Versions::of_program(program);
        let broken = |reason: String| ProbeError::Broken { tool, program: program.to_path_buf(), reason };
        let failed = |trouble: Trouble| broken(trouble.into_failure().detail);
        let (tool, identity): (Arc<dyn MiopenTool>, _) = match tool {
            Tool::Fin => {
                let fin = Fin::new(program, launcher);
                let solvers = fin.solvers().await.map_err(failed)?;
                fin.try_gpu(&target, gpu).await.map_err(failed)?;
                (Arc::new(fin), solver::identity(&versions, &solvers))
            }
            Tool::MiopenDriver if program.is_file() => {
                (Arc::new(Driver { program: program.to_path_buf(), launcher }), versions.to_string())
            }
            Tool::MiopenDriver => return Err(broken("not there".to_string())),
        };
        Ok(Self {
            tool,
            target,
            gpu: gpu.map(str::to_string),
            uuid,
            lock,
            identity,
            versions,
            driver: amd_driver().unwrap_or_default(),
            // Who waits for a GPU may spin, so processor time says nothing.
            watch: Watch { processor_counts: false, ..Watch::default() },
            disk: Disk::default(),
        })
    }
}

/// The GPUs that the runtime shows by `below`; `None`: it shows some that are not known here, and the tool's own trial has to do.
fn visible(gpus: &[Gpu], below: Option<&str>) -> Option<Vec<Gpu>> {
    let visible = detect::visible(gpus, below, None);
    if visible.is_empty() && !gpus.is_empty() {
        tracing::warn!(
            found = below,
            "{ROCR_VISIBLE}: found no GPU that is known here: it is not kept from other processes"
        );
        return None;
    }
    Some(visible)
}

/// The UUID of the GPU that is meant, if that is known.
fn check_gpu(gpus: &[Gpu], target: &Target, wanted: Option<&str>) -> Result<String, ProbeError> {
    if gpus.is_empty() {
        return Ok(String::new());
    }
    let name = wanted.unwrap_or("0");
    let meant = gpus.iter().find(|gpu| gpu.index.to_string() == name || gpu.uuid == name).ok_or_else(|| {
        let found: Vec<String> = gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.target)).collect();
        ProbeError::NoGpu { gpu: name.to_string(), found: found.join(", ") }
    })?;
    if meant.target != *target {
        let (found, expected) = (meant.target.clone(), target.clone());
        return Err(ProbeError::OtherTarget { gpu: name.to_string(), found, expected });
    }
    Ok(meant.uuid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_what_it_should_be() {
        let gpu =
            |index, target: &str, uuid: &str| Gpu { index, target: target.parse().unwrap(), uuid: uuid.to_string() };
        let gpus = [gpu(0, "gfx90a-104", "GPU-a"), gpu(1, "gfx942-304", "GPU-b")];
        let check = |target: &str, wanted| check_gpu(&gpus, &target.parse().unwrap(), wanted);
        assert_eq!(check("gfx90a-104", None).unwrap(), "GPU-a");
        assert_eq!(check("gfx942-304", Some("1")).unwrap(), "GPU-b");
        assert_eq!(check("gfx942-304", Some("GPU-b")).unwrap(), "GPU-b");
        // Another number of CUs is another target.
        let other = check("gfx90a-110", Some("0")).unwrap_err().to_string();
        assert!(other.contains("found gfx90a-104, expected gfx90a-110"), "{other}");
        assert!(matches!(check("gfx90a-104", Some("7")), Err(ProbeError::NoGpu { .. })));
        // Of those that the runtime shows.
        let below = visible(&gpus, Some("1")).unwrap();
        assert_eq!(check_gpu(&below, &"gfx942-304".parse().unwrap(), None).unwrap(), "GPU-b");
        assert_eq!(check_gpu(&below, &"gfx942-304".parse().unwrap(), Some("0")).unwrap(), "GPU-b");
        assert!(visible(&gpus, Some("7")).is_none());
        // Nobody says what is there: the tool's own trial has to do.
        assert_eq!(check_gpu(&[], &"gfx90a-104".parse().unwrap(), Some("3")).unwrap(), "");
    }
}
