//! `clang`: HIP-dialect C++ for GPUs. Where there is no clang, CUDA's own compiler stands in for it, see [`nvcc`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::arch::{self, Vendor};
use bluefin_common::failure::Attempt;
use bluefin_common::problem::DataType;

use super::nvcc::{self, Nvcc};
use super::program::{Program, Wanted, first_line, unknown_to, with_own_instructions};
use super::{Compiler, Kernels, Toolchain, tried};
use crate::error::Error;
use crate::unit::{Input, Shapes, Unit, checked_source};
use crate::workshop::{Made, Workshop};

static CLANG: Wanted = Wanted {
    toolchain: "clang",
    names: &["clang++-19", "clang++", "/opt/rocm/llvm/bin/clang++"],
    variable: "BLUEFIN_CLANG",
    install: "clang 19 or later with lld (Debian: apt install clang-19 lld-19), ROCm, or (NVIDIA only) CUDA",
};

/// Both ways out: AMD needs lld, NVIDIA only the compiler.
const TRIED: [&str; 2] = ["gfx90a", "sm_80"];
/// The backends, whose architectures are asked for.
const TRIPLES: [&str; 2] = ["--target=amdgcn-amd-amdhsa", "--target=nvptx64-nvidia-cuda"];
const TRIAL: &str = "extern \"C\" __attribute__((global)) void f(int *x) { *x = 1; }\n";

/// A clang that compiles for AMD and NVIDIA GPUs.
#[derive(Clone, Debug)]
pub struct Clang {
    program: Program,
    identity: String,
    /// The architectures that it knows, those with something behind their names among them.
    known: BTreeSet<String>,
}

/// The toolchain of the clang that is here, or of the nvcc in its place.
pub(super) async fn probe() -> Result<Arc<dyn Toolchain>, Error> {
    if nvcc::is_named() && !CLANG.is_named() {
        return with_nvcc().await;
    }
    match tried(Clang::probe).await {
        Ok(clang) => Ok(Arc::new(Kernels::new(clang))),
        Err(error @ Error::NoCompiler { .. }) if !CLANG.is_named() => match with_nvcc().await {
            Err(Error::NoCompiler { .. }) => Err(error),
            second => second,
        },
        Err(error) => Err(error),
    }
}

async fn with_nvcc() -> Result<Arc<dyn Toolchain>, Error> {
    Ok(Arc::new(Kernels::new(tried(Nvcc::probe).await?)))
}

impl Clang {
    /// Finds a clang, compiles something trivial with it and asks what it is.
    ///
    /// # Errors
    /// No compiler, or one that does not work, with what to install.
    pub fn probe() -> Result<Self, Error> {
        let mut clang = Self { program: CLANG.find()?, identity: String::new(), known: BTreeSet::new() };
        for arch in TRIED {
            clang.program.try_out(arch, ("trial.hip", TRIAL), |input| clang.command(input))?;
        }
        clang.identity = first_line(&clang.program.ask(&["--version"])?.0);
        for triple in TRIPLES {
            // What it prints to which of both has changed.
            let (out, error) = clang.program.ask(&[triple, "--print-supported-cpus"])?;
            clang.known.extend(listed(&out).chain(listed(&error)));
        }
        Ok(clang)
    }

    /// One that is not tried.
    #[cfg(test)]
    pub(crate) fn named(program: &str, identity: &str) -> Self {
        Self { program: Program::at(program, &CLANG), identity: identity.to_string(), known: BTreeSet::new() }
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let flags = input.flags.iter().cloned();
        if arch::vendor(input.arch) != Some(Vendor::Nvidia) {
            let gpu = format!("--offload-arch={}", input.arch);
            let own = [
                "-x",
                "hip",
                "--offload-device-only",
                &gpu,
                "-O3",
                "--no-gpu-bundle-output",
                "-nogpulib",
                "-nogpuinc",
                "-w",
            ];
            return self.program.line(&own, flags, input);
        }
        let gpu = format!("--cuda-gpu-arch={}", with_own_instructions(input.arch));
        let mut own = vec!["-x", "cuda", "--cuda-device-only", &gpu, "-nocudainc", "-nocudalib", "-S", "-O3", "-w"];
        let ptx =
            arch::of(input.arch).and_then(|known| known.ptx).map(|version| format!("--cuda-feature=+ptx{version}"));
        own.extend(ptx.as_deref());
        self.program.line(&own, flags, input)
    }
}

/// The names in what `--print-supported-cpus` prints, one a line.
fn listed(text: &str) -> impl Iterator<Item = String> {
    let names = text.lines().map(str::trim).filter(|line| arch::is_name(line));
    names.map(ToString::to_string).collect::<Vec<_>>().into_iter()
}

impl Shapes for Clang {
    fn name(&self) -> &'static str {
        CLANG.toolchain
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn with_checks(&self, source: &str, _generated: Option<&str>, _types: &[DataType]) -> Option<String> {
        Some(checked_source(source))
    }
}

#[async_trait]
impl Compiler for Clang {
    fn refusal(&self, arch: &str) -> Option<String> {
        let known = self.known.contains(&with_own_instructions(arch));
        (!known).then(|| unknown_to(&self.identity, arch))
    }

    fn program(&self) -> Option<&Path> {
        Some(self.program.path())
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        for arch in TRIED {
            workshop.try_out_on(arch, ("trial.hip", TRIAL), |input| self.command(input)).await?;
        }
        Ok(())
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        workshop.run(unit, |input| self.command(input)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_has_a_command_line() {
        let clang = Clang::named("clang++", "");
        let (flags, defines) = (["-Wno-x".to_string()], [("BM".to_string(), "64".to_string())]);
        let line = |arch| {
            let input = Input { arch, flags: &flags, defines: &defines, source: "k.hip", output: "k.out" };
            let words = clang.command(&input).into_iter().map(|word| word.into_string().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("gfx90a"),
            "clang++ -x hip --offload-device-only --offload-arch=gfx90a -O3 --no-gpu-bundle-output -nogpulib -nogpuinc -w \
             -Wno-x -DBM=64 k.hip -o k.out"
        );
        assert_eq!(
            line("sm_90"),
            "clang++ -x cuda --cuda-device-only --cuda-gpu-arch=sm_90a -nocudainc -nocudalib -S -O3 -w \
             --cuda-feature=+ptx85 -Wno-x -DBM=64 k.hip -o k.out"
        );
        assert!(line("sm_80").contains("--cuda-gpu-arch=sm_80 ") && !line("sm_80").contains("ptx85"));
    }
}
