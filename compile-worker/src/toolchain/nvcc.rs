//! CUDA's own compiler, for NVIDIA GPUs only: it serves the toolchain `clang` where there is no clang.

use std::ffi::OsString;
use std::path::Path;

use async_trait::async_trait;
use bluefin_common::failure::Attempt;
use bluefin_common::problem::DataType;

use super::Compiler;
use super::program::{Program, Wanted, first_line, with_own_instructions};
use crate::error::Error;
use crate::unit::{Input, Shapes, Unit, checked_source};
use crate::workshop::{Made, Workshop};

static NVCC: Wanted = Wanted {
    toolchain: "clang",
    names: &["nvcc", "/usr/local/cuda/bin/nvcc"],
    variable: "BLUEFIN_NVCC",
    install: "CUDA 12 or later, and gcc",
};

const TRIAL: &str = "extern \"C\" __global__ void f(int *x) { *x = 1; }\n";

/// An nvcc with its host compiler.
#[derive(Clone, Debug)]
pub struct Nvcc {
    program: Program,
    identity: String,
}

/// Whether the environment names it.
pub(super) fn is_named() -> bool {
    NVCC.is_named()
}

impl Nvcc {
    /// Finds nvcc, compiles something trivial with it and asks what it is.
    ///
    /// # Errors
    /// No compiler, or one that does not work, with what to install.
    pub fn probe() -> Result<Self, Error> {
        let mut nvcc = Self { program: NVCC.find()?, identity: String::new() };
        nvcc.program.try_out("sm_80", ("trial.hip", TRIAL), |input| nvcc.command(input))?;
        let version = nvcc.program.ask(&["--version"])?.0;
        let release = version.lines().find(|line| line.contains("release")).unwrap_or(&version);
        nvcc.identity = format!("nvcc: {}", first_line(release));
        Ok(nvcc)
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let gpu = with_own_instructions(input.arch);
        let compute = gpu.trim_start_matches("sm_");
        let gpu = format!("-gencode=arch=compute_{compute},code={gpu}");
        // It knows none of clang's warnings, and -w is silent about all.
        let flags = input.flags.iter().filter(|flag| !flag.starts_with("-W")).cloned();
        self.program.line(&["-x", "cu", "-std=c++17", "-cubin", &gpu, "-O3", "-w"], flags, input)
    }
}

impl Shapes for Nvcc {
    fn name(&self) -> &'static str {
        NVCC.toolchain
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn with_checks(&self, source: &str, _generated: Option<&str>, _types: &[DataType]) -> Option<String> {
        Some(checked_source(source))
    }
}

#[async_trait]
impl Compiler for Nvcc {
    fn serves(&self, arch: &str) -> bool {
        arch.starts_with("sm_")
    }

    fn program(&self) -> Option<&Path> {
        Some(self.program.path())
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        workshop.try_out_on("sm_80", ("trial.hip", TRIAL), |input| self.command(input)).await
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        workshop.run(unit, |input| self.command(input)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA's compiler is on few machines, so that its command line is also checked here.
    #[test]
    fn nvcc_is_told_what_clang_is() {
        let nvcc = Nvcc { program: Program::at("nvcc", &NVCC), identity: String::new() };
        assert!(nvcc.serves("sm_90") && !nvcc.serves("gfx90a"));
        assert_eq!(nvcc.name(), "clang");
        let flags = ["-Wno-pass-failed".to_string(), "-DX=1".to_string()];
        let defines = [("BM".to_string(), "64".to_string())];
        let input = Input { arch: "sm_90", flags: &flags, defines: &defines, source: "k.hip", output: "k.out" };
        let line = nvcc.command(&input);
        let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        let expected =
            "nvcc -x cu -std=c++17 -cubin -gencode=arch=compute_90a,code=sm_90a -O3 -w -DX=1 -DBM=64 k.hip -o k.out";
        assert_eq!(words.join(" "), expected);
        let older = Input { arch: "sm_80", flags: &[], defines: &[], ..input };
        assert!(nvcc.command(&older).contains(&"-gencode=arch=compute_80,code=sm_80".into()));
        match Nvcc::probe() {
            Ok(nvcc) => assert!(nvcc.identity().starts_with("nvcc: Cuda compilation tools"), "{}", nvcc.identity()),
            Err(error) => println!("SKIP: {error}"),
        }
    }
}
