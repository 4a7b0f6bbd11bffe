//! What the release before this one wrote of it.

use serde::{Deserialize, Serialize};

use super::{ArtifactRef, Built, CodeObject, Launch, Packed};
use crate::description::SolverInfo;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KernelV2 {
    artifact: ArtifactRef,
    launches: Vec<Launch>,
    workspace: u64,
}

impl From<KernelV2> for Built {
    fn from(old: KernelV2) -> Self {
        let KernelV2 { artifact, launches, workspace } = old;
        Self { objects: vec![CodeObject::plain(artifact, "", "")], launches, workspace }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SolutionV2 {
    algorithm: String,
    workspace: u64,
    tunable: bool,
    kernels: Vec<KernelObjectV2>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KernelObjectV2 {
    file: String,
    options: String,
    blob: ArtifactRef,
    md5: String,
    size: u64,
}

impl SolutionV2 {
    pub(crate) fn info(&self, solver: &str) -> SolverInfo {
        SolverInfo {
            name: solver.to_string(),
            algorithm: Some(self.algorithm.clone()),
            tunable: self.tunable,
            ..SolverInfo::default()
        }
    }
}

impl From<SolutionV2> for Built {
    fn from(old: SolutionV2) -> Self {
        let object = |KernelObjectV2 { file, options, blob, md5, size }| CodeObject {
            artifact: blob,
            file,
            options,
            packed: Some(Packed { md5, size }),
        };
        Self { objects: old.kernels.into_iter().map(object).collect(), launches: Vec::new(), workspace: old.workspace }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum BuiltV2 {
    Kernel(KernelV2),
    Miopen(SolutionV2),
}

impl BuiltV2 {
    /// What it says of `solver`, if it says so.
    pub(crate) fn info(&self, solver: &str) -> Option<SolverInfo> {
        match self {
            Self::Kernel(_) => None,
            Self::Miopen(solution) => Some(solution.info(solver)),
        }
    }
}

impl From<BuiltV2> for Built {
    fn from(old: BuiltV2) -> Self {
        match old {
            BuiltV2::Kernel(kernel) => kernel.into(),
            BuiltV2::Miopen(solution) => solution.into(),
        }
    }
}
