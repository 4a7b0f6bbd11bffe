//! MIOpen's tools as evaluators: a process for each job, on one GPU, which it has for itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bluefin_common::miopen::Tool;
use bluefin_common::miopen::detect::{self, Gpu, Versions};
use bluefin_common::miopen::disk::Disk;
use bluefin_common::miopen::fin::{Fin, Trouble};
use bluefin_common::miopen::process::Watch;
use bluefin_common::miopen::solver;
use bluefin_common::target::Target;

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

/// One of MIOpen's tools and the GPU that it evaluates on.
#[derive(Clone, Debug)]
pub struct MiopenDevice {
    pub(crate) tool: Executable,
    pub(crate) target: Target,
    /// As `HIP_VISIBLE_DEVICES` takes it; `None`: the first one.
    pub(crate) gpu: Option<String>,
    pub(crate) uuid: String,
    pub(crate) identity: String,
    pub(crate) versions: Versions,
    /// Bounds of one process; a session's budget may tighten them.
    pub watch: Watch,
    /// Where it writes.
    pub disk: Disk,
}

/// A tool that was found.
#[derive(Clone, Debug)]
pub(crate) enum Executable {
    Fin(Fin),
    Driver { program: PathBuf, launcher: Vec<OsString> },
}

impl MiopenDevice {
    /// Tries `tool` at `program`, behind `launcher` if that is not empty, on the GPU that `gpu` names by number or UUID.
    /// `topology` is where the kernel driver describes its GPUs; where it says nothing, `target` is believed.
    ///
    /// # Errors
    /// A tool that does not work or has no GPU; a GPU that is not `target`.
    pub async fn probe(
        tool: Tool,
        program: &Path,
        launcher: Vec<OsString>,
        target: &Target,
        gpu: Option<&str>,
        topology: &Path,
    ) -> Result<Self, ProbeError> {
        let uuid = check_gpu(&detect::gpus(topology), target, gpu)?;
        let versions = Versions::of_program(program);
        let broken = |reason: String| ProbeError::Broken { tool, program: program.to_path_buf(), reason };
        let failed = |trouble: Trouble| broken(trouble.into_failure().detail);
        let (executable, identity) = match tool {
            Tool::Fin => {
                let fin = Fin::new(program, launcher);
                let solvers = fin.solvers().await.map_err(failed)?;
                fin.try_gpu(target, gpu).await.map_err(failed)?;
                (Executable::Fin(fin), solver::identity(&versions, &solvers))
            }
            Tool::MiopenDriver if program.is_file() => {
                (Executable::Driver { program: program.to_path_buf(), launcher }, versions.to_string())
            }
            Tool::MiopenDriver => return Err(broken("not there".to_string())),
        };
        Ok(Self {
            tool: executable,
            target: target.clone(),
            gpu: gpu.map(str::to_string),
            uuid,
            identity,
            versions,
            // Who waits for a GPU may spin, so processor time says nothing.
            watch: Watch { processor_counts: false, ..Watch::default() },
            disk: Disk::default(),
        })
    }

    #[must_use]
    pub fn tool(&self) -> Tool {
        match self.tool {
            Executable::Fin(_) => Tool::Fin,
            Executable::Driver { .. } => Tool::MiopenDriver,
        }
    }

    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What sessions are pinned to: versions, and the solvers of the library where the tool lists them.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
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
        // Nobody says what is there: the tool's own trial has to do.
        assert_eq!(check_gpu(&[], &"gfx90a-104".parse().unwrap(), Some("3")).unwrap(), "");
    }
}
