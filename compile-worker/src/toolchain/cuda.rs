//! CUDA's own compilers, for NVIDIA GPUs only: they serve the toolchain `clang` where there is no clang. NVRTC compiles what it can, and
//! nvcc the rest.

use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use bluefin_common::failure::{Attempt, Failure};

use super::Compiler;
use super::nvcc::{self, Nvcc};
use super::nvrtc::{self, Nvrtc};
use super::program::unknown_to;
use crate::error::Error;
use crate::unit::{Shapes, Unit};
use crate::workshop::{Made, Workshop};

/// One of both, or both of one release.
#[derive(Clone, Debug)]
pub struct Cuda {
    nvcc: Option<Nvcc>,
    nvrtc: Option<Nvrtc>,
    identity: String,
}

/// Whether the environment names one.
pub(super) fn is_named() -> bool {
    nvcc::is_named() || nvrtc::is_named()
}

impl Cuda {
    /// Finds both, tries them and asks what they are. `command` is the program that calls NVRTC; without one nvcc does everything.
    ///
    /// # Errors
    /// There is neither, or one that the environment names does not work.
    pub fn probe(command: &[OsString]) -> Result<Self, Error> {
        let nvcc = match Nvcc::probe() {
            Ok(nvcc) => Ok(nvcc),
            Err(error @ Error::NoCompiler { .. }) if !nvcc::is_named() => Err(error),
            Err(error) => return Err(error),
        };
        let nvrtc = match Nvrtc::probe(command, nvcc.as_ref().ok().map(Nvcc::path)) {
            Ok(nvrtc) => Some(nvrtc),
            Err(error) if nvrtc::is_named() || error.is_exhausted() => return Err(error),
            Err(Error::NoCompiler { .. }) => None,
            Err(error) => {
                tracing::warn!(%error, "NVRTC is not used");
                None
            }
        };
        let nvcc = match nvcc {
            Err(error) if nvrtc.is_none() => return Err(error),
            nvcc => nvcc.ok(),
        };
        let of_nvcc = nvcc.as_ref().map(|nvcc| nvcc.identity().to_string());
        let identity = of_nvcc.into_iter().chain(nvrtc.as_ref().map(|nvrtc| format!("NVRTC {}", nvrtc.release())));
        Ok(Self { identity: identity.collect::<Vec<_>>().join("; "), nvcc, nvrtc })
    }
}

impl Shapes for Cuda {
    fn name(&self) -> &'static str {
        nvcc::TOOLCHAIN
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn is_cpp(&self) -> bool {
        true
    }
}

#[async_trait]
impl Compiler for Cuda {
    fn refusal(&self, arch: &str) -> Option<String> {
        let known = self.nvcc.as_ref().is_some_and(|nvcc| nvcc.knows(arch))
            || self.nvrtc.as_ref().is_some_and(|nvrtc| nvrtc.knows(arch));
        (!known).then(|| unknown_to(&self.identity, arch))
    }

    fn programs(&self) -> Vec<&Path> {
        self.nvcc.iter().map(Nvcc::path).chain(self.nvrtc.iter().map(Nvrtc::program)).collect()
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        if let Some(nvcc) = &self.nvcc {
            nvcc.try_out(workshop).await?;
        }
        match &self.nvrtc {
            Some(nvrtc) => nvrtc.try_out(workshop).await,
            None => Ok(()),
        }
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let lacks = Nvrtc::lacks(unit);
        match (&self.nvrtc, &self.nvcc) {
            (Some(nvrtc), Some(nvcc)) if lacks.is_some() || !nvrtc.knows(unit.arch()) => {
                nvcc.compile(unit, workshop).await
            }
            (Some(nvrtc), _) => {
                let made = nvrtc.compile(unit, workshop).await?;
                Ok(made.map_err(|failure| noted(failure, lacks.as_deref())))
            }
            (None, Some(nvcc)) => nvcc.compile(unit, workshop).await,
            // Probing finds one of both.
            (None, None) => Err(Error::NoToolchain),
        }
    }
}

/// `failure`, with what NVRTC lacks.
fn noted(failure: Failure, lacks: Option<&str>) -> Failure {
    let Some(lacks) = lacks else { return failure };
    let note =
        format!("note: NVRTC is here alone, and has nothing of the host, such as {lacks}: install nvcc or clang");
    let detail = format!("{}\n{note}", failure.detail.trim_end());
    Failure { detail, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_compiler_of_cuda_knows_is_refused_with_those_that_do() {
        let cuda = Cuda { nvcc: Some(Nvcc::of_12_4()), nvrtc: None, identity: "nvcc: release 12.4".to_string() };
        assert_eq!((cuda.refusal("sm_90"), cuda.refusal("sm_80"), cuda.name()), (None, None, "clang"));
        assert_eq!(
            cuda.refusal("gfx90a").unwrap(),
            "nvcc: release 12.4 does not know gfx90a, expected clang 15 or later (BLUEFIN_CLANG and BLUEFIN_NVCC name compilers)"
        );
        assert!(cuda.refusal("sm_120").unwrap().contains("expected clang 20 or later, or nvcc 12.8 or later"));
    }

    #[test]
    fn where_nothing_calls_nvrtc_there_has_to_be_nvcc() {
        match Cuda::probe(&[]) {
            Ok(cuda) => assert!(cuda.identity().starts_with("nvcc: Cuda compilation tools"), "{}", cuda.identity()),
            Err(error) => assert!(error.to_string().contains("nvcc"), "{error}"),
        }
    }
}
