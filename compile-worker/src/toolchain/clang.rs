//! `clang`: HIP-dialect C++ for GPUs. Where there is no clang, CUDA's own compilers stand in for it, see [`cuda`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::arch::{self, Vendor};
use bluefin_common::failure::Attempt;

use super::cuda::{self, Cuda};
use super::program::{Program, Wanted, finished, first_line, unknown_to, with_own_instructions};
use super::{Compiler, Kernels, Programs, Toolchain, tried};
use crate::error::Error;
use crate::unit::{Input, SHIM_FOLDER, Shapes, Unit};
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
const TRIPLES: [&str; 2] = ["--target=amdgcn", "--target=nvptx64"];
/// What is no error to nvcc: a number that may lose digits in braces, and a variable that is to be in a register.
pub(super) const LENIENT: [&str; 2] = ["-Wno-narrowing", "-Wno-register"];
/// A table of the source's lines, and what has none said to have none.
const LINES: [&str; 3] = ["-gline-tables-only", "-mllvm", "-use-unknown-locations=Enable"];
const TRIAL: &str = "extern \"C\" __attribute__((global)) void f(int *x) { *x = 1; }\n";

/// A clang that compiles for AMD and NVIDIA GPUs.
#[derive(Clone, Debug)]
pub struct Clang {
    program: Program,
    identity: String,
    /// The architectures that it knows, those with something behind their names among them.
    known: BTreeSet<String>,
}

/// The toolchain of the clang that is here, or of CUDA's compilers in its place.
pub(super) async fn probe(programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
    if cuda::is_named() && !CLANG.is_named() {
        return with_cuda(programs).await;
    }
    match tried(Clang::probe).await {
        Ok(clang) => Ok(Arc::new(Kernels::new(clang))),
        Err(error @ Error::NoCompiler { .. }) if !CLANG.is_named() => match with_cuda(programs).await {
            Err(Error::NoCompiler { .. }) => Err(error),
            second => second,
        },
        Err(error) => Err(error),
    }
}

/// The clang that is here.
pub(super) fn find() -> Result<Program, Error> {
    CLANG.find()
}

async fn with_cuda(programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
    let command = programs.nvrtc.clone();
    Ok(Arc::new(Kernels::new(tried(move || Cuda::probe(&command)).await?)))
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
            match clang.program.ask(&[triple, "--print-supported-cpus"]) {
                // To which of both it prints has changed.
                Ok((out, error)) => clang.known.extend(listed(&out).chain(listed(&error))),
                Err(error) if error.is_exhausted() => return Err(error),
                // It works, as was just tried, and does not tell.
                Err(error) => tracing::debug!(%error, "clang does not list architectures"),
            }
        }
        Ok(clang)
    }

    /// One that is not tried, and lists no architectures.
    #[cfg(test)]
    pub(crate) fn named(program: &str, identity: &str) -> Self {
        Self { program: CLANG.program(program.into()), identity: identity.to_string(), known: BTreeSet::new() }
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let is_nvidia = arch::vendor(input.arch) == Some(Vendor::Nvidia);
        // What the compiler has moved would have the line of whatever is in front of it otherwise.
        let lines = if is_nvidia { &LINES[..1] } else { &LINES };
        let lines = lines.iter().filter(|_| input.lines).map(ToString::to_string);
        let flags = lines.chain(input.flags.iter().cloned());
        if !is_nvidia {
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
                LENIENT[0],
                LENIENT[1],
                SHIM_FOLDER,
            ];
            return self.program.line(&own, flags, input);
        }
        let gpu = format!("--cuda-gpu-arch={}", with_own_instructions(input.arch));
        let mut own = vec![
            "-x",
            "cuda",
            "--cuda-device-only",
            &gpu,
            "-nocudainc",
            "-nocudalib",
            "-S",
            "-O3",
            "-w",
            LENIENT[0],
            LENIENT[1],
            SHIM_FOLDER,
        ];
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

    fn is_cpp(&self) -> bool {
        true
    }
}

#[async_trait]
impl Compiler for Clang {
    fn refusal(&self, arch: &str) -> Option<String> {
        let vendor = arch::vendor(arch);
        let mut listed = self.known.iter().filter(|name| arch::vendor(name) == vendor).peekable();
        // One that lists none may know any.
        let refused = vendor.is_none() || listed.peek().is_some() && !self.known.contains(&with_own_instructions(arch));
        refused.then(|| unknown_to(&self.identity, arch))
    }

    fn programs(&self) -> Vec<&Path> {
        vec![self.program.path()]
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        for arch in TRIED {
            workshop.try_out_on(arch, ("trial.hip", TRIAL), &[], |input| self.command(input)).await?;
        }
        Ok(())
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let made = workshop.run(unit, &[], |input| self.command(input)).await?;
        Ok(finished(unit, made))
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
            let input =
                Input { arch, flags: &flags, defines: &defines, source: "k.hip", output: "k.out", lines: false };
            let words = clang.command(&input).into_iter().map(|word| word.into_string().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("gfx90a"),
            "clang++ -x hip --offload-device-only --offload-arch=gfx90a -O3 --no-gpu-bundle-output -nogpulib -nogpuinc -w -Wno-narrowing -Wno-register -I. \
             -Wno-x -DBM=64 k.hip -o k.out"
        );
        assert_eq!(
            line("sm_90"),
            "clang++ -x cuda --cuda-device-only --cuda-gpu-arch=sm_90a -nocudainc -nocudalib -S -O3 -w -Wno-narrowing -Wno-register -I. \
             --cuda-feature=+ptx85 -Wno-x -DBM=64 k.hip -o k.out"
        );
        assert!(line("sm_80").contains("--cuda-gpu-arch=sm_80 ") && line("sm_80").contains(" --cuda-feature=+ptx70 "));
        assert!(
            line("sm_120").contains("--cuda-gpu-arch=sm_120 ") && line("sm_120").contains(" --cuda-feature=+ptx87 ")
        );
    }

    #[test]
    fn one_that_is_too_old_says_what_is_not() {
        let printed =
            "Available CPUs for this target:\n\n\tgfx90a\n\tgfx9-generic\n\tsm_80\n\tsm_90\n\tsm_90a\n\nUse -mcpu";
        let silent = Clang::named("clang++", "clang version 19.1.7");
        let clang = Clang { known: listed(printed).collect(), ..silent.clone() };
        for arch in ["gfx90a", "sm_80", "sm_90"] {
            assert_eq!(clang.refusal(arch), None);
        }
        let mut older = clang.clone();
        assert!(
            older.known.remove("sm_90a") && older.refusal("sm_90").is_some(),
            "its kernels need the name with a suffix"
        );
        assert_eq!(
            clang.refusal("sm_120").unwrap(),
            "clang version 19.1.7 does not know sm_120, expected clang 20 or later, or nvcc 12.8 or later (BLUEFIN_CLANG and \
             BLUEFIN_NVCC name compilers)"
        );
        assert!(clang.refusal("gfx950").unwrap().contains("expected clang 20 or later ("));
        assert!(clang.refusal("gfx1250").unwrap().contains("expected a later release of bluefin"));
        assert!(clang.refusal("host").is_some() && silent.refusal("host").is_some());
        assert_eq!((silent.refusal("sm_120"), silent.refusal("gfx950")), (None, None), "it lists none");
    }
}
