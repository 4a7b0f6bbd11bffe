//! CUDA's compiler that is a program, nvcc.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use bluefin_common::failure::Attempt;

use super::program::{Program, Wanted, finished, first_line, with_own_instructions};
use crate::error::Error;
use crate::unit::{Input, SHIM_FOLDER, Unit};
use crate::workshop::{Made, Workshop};

/// The toolchain that it serves.
pub(super) const TOOLCHAIN: &str = "clang";

static NVCC: Wanted = Wanted {
    toolchain: TOOLCHAIN,
    names: &["nvcc", "/usr/local/cuda/bin/nvcc"],
    variable: "BLUEFIN_NVCC",
    install: "CUDA 12 or later, and gcc",
};

const TRIAL: &str = "extern \"C\" __global__ void f(int *x) { *x = 1; }\n";

/// An nvcc with its host compiler.
#[derive(Clone, Debug)]
pub(super) struct Nvcc {
    program: Program,
    identity: String,
    /// The architectures that it knows, with what is behind their names.
    known: BTreeSet<String>,
}

/// Whether the environment names it.
pub(super) fn is_named() -> bool {
    NVCC.is_named()
}

impl Nvcc {
    /// One that is not tried, of CUDA 12.4.
    #[cfg(test)]
    pub(super) fn of_12_4() -> Self {
        let known = ["sm_80", "sm_90", "sm_90a"].map(String::from).into();
        Self { program: NVCC.program("nvcc".into()), identity: "nvcc: release 12.4".to_string(), known }
    }

    /// Finds nvcc, compiles something trivial with it and asks what it is.
    ///
    /// # Errors
    /// No compiler, or one that does not work, with what to install.
    pub(super) fn probe() -> Result<Self, Error> {
        let mut nvcc = Self { program: NVCC.find()?, identity: String::new(), known: BTreeSet::new() };
        nvcc.program.try_out("sm_80", ("trial.hip", TRIAL), |input| nvcc.command(input))?;
        let version = nvcc.program.ask(&["--version"])?.0;
        let release = version.lines().find(|line| line.contains("release")).unwrap_or(&version);
        nvcc.identity = format!("nvcc: {}", first_line(release));
        let known = nvcc.program.ask(&["--list-gpu-code"])?.0;
        nvcc.known = known.split_whitespace().map(ToString::to_string).collect();
        Ok(nvcc)
    }

    /// Its release.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    pub(super) fn path(&self) -> &Path {
        self.program.path()
    }

    pub(super) fn knows(&self, arch: &str) -> bool {
        // What needs a suffix is listed without it by the releases that know but one.
        self.known.contains(arch) || self.known.contains(&with_own_instructions(arch))
    }

    pub(super) async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        workshop.try_out_on("sm_80", ("trial.hip", TRIAL), &[], |input| self.command(input)).await
    }

    pub(super) async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let made = workshop.run(unit, &[], |input| self.command(input)).await?;
        Ok(finished(unit, made))
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let gpu = with_own_instructions(input.arch);
        let compute = gpu.split_once('_').map_or(&*gpu, |(_, number)| number);
        let gpu = format!("-gencode=arch=compute_{compute},code={gpu}");
        // It knows none of clang's warnings, and -w is silent about all.
        let flags = input.flags.iter().filter(|flag| !flag.starts_with("-W")).cloned();
        self.program.line(&["-x", "cu", "-std=c++17", "-cubin", &gpu, "-O3", "-w", SHIM_FOLDER], flags, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA's compiler is on few machines, so that its command line is also checked here.
    #[test]
    fn nvcc_is_told_what_clang_is() {
        let nvcc = Nvcc::of_12_4();
        assert!(nvcc.knows("sm_90") && nvcc.knows("sm_80") && !nvcc.knows("gfx90a") && !nvcc.knows("sm_120"));
        let flags = ["-Wno-pass-failed".to_string(), "-DX=1".to_string()];
        let defines = [("BM".to_string(), "64".to_string())];
        let input =
            Input { arch: "sm_90", flags: &flags, defines: &defines, source: "k.hip", output: "k.out", lines: false };
        let line = nvcc.command(&input);
        let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        let expected = "nvcc -x cu -std=c++17 -cubin -gencode=arch=compute_90a,code=sm_90a -O3 -w -I. -DX=1 -DBM=64 k.hip -o k.out";
        assert_eq!(words.join(" "), expected);
        let older = Input { arch: "sm_80", flags: &[], defines: &[], ..input };
        assert!(nvcc.command(&older).contains(&"-gencode=arch=compute_80,code=sm_80".into()));
        match Nvcc::probe() {
            Ok(nvcc) => assert!(nvcc.identity().starts_with("nvcc: Cuda compilation tools"), "{}", nvcc.identity()),
            Err(error) => bluefin_test_support::left_out_for_hardware(&error.to_string()),
        }
    }
}
