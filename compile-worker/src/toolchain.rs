//! The compilers: which program, which command line, and what a session pins of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bluefin_common::digest::Digest;

use crate::diagnose::limit_met;
use crate::error::Error;
use crate::process::{Limits, environment};

/// A compiler that was tried and works.
#[derive(Clone, Debug)]
pub struct Toolchain {
    kind: Kind,
    program: PathBuf,
    identity: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// C for the CPU that it runs on.
    Cc,
    /// HIP-dialect C++ for GPUs.
    Clang,
    /// The same by CUDA's own compiler, for NVIDIA GPUs only: where there is no clang.
    Nvcc,
    /// Compiles nothing: what is left is the pipeline.
    Noop,
}

impl Toolchain {
    /// Finds the compiler of the toolchain `name`, compiles a trivial kernel with it and asks what it is.
    ///
    /// # Errors
    /// An unknown name; no compiler, or one that does not work, with what to install.
    pub fn probe(name: &str) -> Result<Self, Error> {
        match name {
            "cc" => Self::probe_cc(),
            "clang" if named(Kind::Nvcc) && !named(Kind::Clang) => Self::probe_nvcc(),
            "clang" => Self::probe_clang().or_else(|error| match error {
                Error::NoCompiler { .. } if !named(Kind::Clang) => Self::probe_nvcc().map_err(|second| match second {
                    Error::NoCompiler { .. } => error,
                    broken => broken,
                }),
                _ => Err(error),
            }),
            "noop" => Ok(Self { kind: Kind::Noop, program: PathBuf::new(), identity: "noop 1".to_string() }),
            other => Err(Error::UnknownToolchain { name: other.chars().take(64).collect() }),
        }
    }

    /// `cc`, `clang` or `noop`, as specs name it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// What shapes its output, without paths: a session pins it, and a worker with another one refuses.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    fn probe_cc() -> Result<Self, Error> {
        let program = find(Kind::Cc, &["cc", "gcc", "clang"])?;
        let trial = "#include <stdint.h>\n#include <string.h>\n#include <math.h>\nint32_t f(void) { return 1; }\n";
        let mut toolchain = Self { kind: Kind::Cc, program, identity: String::new() };
        toolchain.try_out("host", "trial.c", trial)?;
        let version = toolchain.ask(&["--version"])?.0;
        let machine = toolchain.ask(&["-dumpmachine"])?.0;
        let native = native_features(&toolchain.ask(&["-march=native", "-E", "-v", "-x", "c", "/dev/null"])?.1);
        toolchain.identity = format!(
            "{}; {}; native CPU {}",
            first_line(&version),
            first_line(&machine),
            Digest::of(native.as_bytes()).short()
        );
        Ok(toolchain)
    }

    fn probe_clang() -> Result<Self, Error> {
        let program = find(Kind::Clang, &["clang++-19", "clang++", "/opt/rocm/llvm/bin/clang++"])?;
        let trial = "extern \"C\" __attribute__((global)) void f(int *x) { *x = 1; }\n";
        let mut toolchain = Self { kind: Kind::Clang, program, identity: String::new() };
        // Both ways out: AMD needs lld, NVIDIA only the compiler.
        toolchain.try_out("gfx90a", "trial.hip", trial)?;
        toolchain.try_out("sm_80", "trial.hip", trial)?;
        toolchain.identity = first_line(&toolchain.ask(&["--version"])?.0);
        Ok(toolchain)
    }

    fn probe_nvcc() -> Result<Self, Error> {
        let program = find(Kind::Nvcc, &["nvcc", "/usr/local/cuda/bin/nvcc"])?;
        let trial = "extern \"C\" __global__ void f(int *x) { *x = 1; }\n";
        let mut toolchain = Self { kind: Kind::Nvcc, program, identity: String::new() };
        toolchain.try_out("sm_80", "trial.hip", trial)?;
        let version = toolchain.ask(&["--version"])?.0;
        let release = version.lines().find(|line| line.contains("release")).unwrap_or(&version);
        toolchain.identity = format!("nvcc: {}", first_line(release));
        Ok(toolchain)
    }

    /// Whether it compiles for that architecture; of another one, a worker leaves the jobs to others.
    #[must_use]
    pub fn serves(&self, arch: &str) -> bool {
        self.kind != Kind::Nvcc || arch.starts_with("sm_")
    }

    /// The command that compiles `source` to `output`, both beside each other in its working folder.
    pub(crate) fn command(
        &self,
        arch: &str,
        flags: &[String],
        defines: &[(String, String)],
        source: &str,
        output: &str,
    ) -> Vec<OsString> {
        let mut line = vec![self.program.as_os_str().to_owned()];
        let mut add = |words: &[&str]| line.extend(words.iter().map(OsString::from));
        match self.kind {
            Kind::Cc => add(&[
                "-x",
                "c",
                "-std=gnu11",
                "-O3",
                "-march=native",
                "-shared",
                "-fPIC",
                "-frandom-seed=bluefin",
                "-Werror=implicit-function-declaration",
                "-Wl,--build-id=none",
                "-s",
            ]),
            Kind::Clang if arch.starts_with("sm_") => {
                let gpu = format!("--cuda-gpu-arch={}", with_own_instructions(arch));
                add(&["-x", "cuda", "--cuda-device-only", &gpu, "-nocudainc", "-nocudalib", "-S", "-O3", "-w"]);
                if arch == "sm_90" {
                    // The first PTX that describes tensors to the copy engine as it should; drivers from 555 on read it.
                    add(&["--cuda-feature=+ptx85"]);
                }
            }
            Kind::Nvcc => {
                let gpu = with_own_instructions(arch);
                let compute = gpu.trim_start_matches("sm_");
                let gpu = format!("-gencode=arch=compute_{compute},code={gpu}");
                add(&["-x", "cu", "-std=c++17", "-cubin", &gpu, "-O3", "-w"]);
            }
            Kind::Clang | Kind::Noop => {
                let gpu = format!("--offload-arch={arch}");
                add(&[
                    "-x",
                    "hip",
                    "--offload-device-only",
                    &gpu,
                    "-O3",
                    "--no-gpu-bundle-output",
                    "-nogpulib",
                    "-nogpuinc",
                    "-w",
                ]);
            }
        }
        // nvcc knows none of clang's warnings, and -w is silent about all.
        let known = |flag: &&String| self.kind != Kind::Nvcc || !flag.starts_with("-W");
        line.extend(flags.iter().filter(known).map(OsString::from));
        line.extend(defines.iter().map(|(name, value)| OsString::from(format!("-D{name}={value}"))));
        line.extend([source, "-o", output].map(OsString::from));
        if self.kind == Kind::Cc {
            line.push("-lm".into());
        }
        line
    }

    /// Whether launches are called through a generated unit.
    pub(crate) fn needs_shim(&self) -> bool {
        self.kind == Kind::Cc
    }

    /// Whether it compiles the entries that check on the device.
    pub(crate) fn takes_checks(&self) -> bool {
        matches!(self.kind, Kind::Clang | Kind::Nvcc)
    }

    /// Whether nothing is run.
    pub(crate) fn is_noop(&self) -> bool {
        self.kind == Kind::Noop
    }

    fn try_out(&self, arch: &str, name: &str, source: &str) -> Result<(), Error> {
        let machine = |source| Error::machine("temporary folder", source);
        let folder = tempfile::Builder::new().prefix("bluefin-probe-").tempdir().map_err(machine)?;
        std::fs::write(folder.path().join(name), source).map_err(machine)?;
        let line = self.command(arch, &[], &[], name, "trial.out");
        let output = self.run(line.get(1..).unwrap_or_default(), folder.path())?;
        if output.status.success() {
            return Ok(());
        }
        // A limit that is too low even for this is not the compiler's fault.
        let asked = Limits::default();
        let said = String::from_utf8_lossy(&output.stderr);
        if let Some(limit) = limit_met(output.status, &said, &asked, &asked.in_force()) {
            return Err(Error::Limit(limit));
        }
        Err(self.broken(said.chars().take(600).collect()))
    }

    /// What it prints on standard output and standard error.
    fn ask(&self, args: &[&str]) -> Result<(String, String), Error> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let output = self.run(&args, Path::new("/"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok((text(&output.stdout), text(&output.stderr)));
        }
        Err(self.broken(text(&output.stderr).chars().take(600).collect()))
    }

    fn run(&self, args: &[OsString], folder: &Path) -> Result<Output, Error> {
        Command::new(&self.program)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs(environment())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.broken(error.to_string()))
    }

    fn broken(&self, reason: String) -> Error {
        let reason = reason.trim().to_string();
        Error::BrokenCompiler {
            toolchain: self.kind.name(),
            program: self.program.clone(),
            reason,
            install: self.kind.install(),
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cc => "cc",
            Self::Clang | Self::Nvcc => "clang",
            Self::Noop => "noop",
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Cc | Self::Noop => "BLUEFIN_CC",
            Self::Clang => "BLUEFIN_CLANG",
            Self::Nvcc => "BLUEFIN_NVCC",
        }
    }

    fn install(self) -> &'static str {
        match self {
            Self::Cc | Self::Noop => "gcc or clang with the C library's headers (Debian: apt install gcc libc6-dev)",
            Self::Clang => {
                "clang 19 or later with lld (Debian: apt install clang-19 lld-19), ROCm, or (NVIDIA only) CUDA"
            }
            Self::Nvcc => "CUDA 12 or later, and gcc",
        }
    }
}

/// Whether the environment names the compiler.
fn named(kind: Kind) -> bool {
    std::env::var_os(kind.variable()).is_some_and(|named| !named.is_empty())
}

/// The compiler that the environment names, or the first of `names` that there is.
fn find(kind: Kind, names: &[&str]) -> Result<PathBuf, Error> {
    let missing = |looked_for: String| Error::NoCompiler {
        toolchain: kind.name(),
        looked_for,
        install: kind.install(),
        variable: kind.variable(),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let locate = |name: &Path| {
        if name.components().count() > 1 {
            return std::path::absolute(name).ok().filter(|file| file.is_file());
        }
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    if let Some(named) = std::env::var_os(kind.variable()).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return locate(&named).ok_or_else(|| missing(format!("{} of {}", named.display(), kind.variable())));
    }
    names.iter().find_map(|name| locate(Path::new(name))).ok_or_else(|| missing(names.join(", ")))
}

/// Hopper's own instructions (wgmma, setmaxnreg) need the architecture's feature-complete name. Its code runs on that
/// architecture alone, as a tuned kernel's does anyway.
fn with_own_instructions(arch: &str) -> &str {
    if arch == "sm_90" { "sm_90a" } else { arch }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}

/// What `-march=native` stands for here: the words of the compiler's inner command line, without paths.
fn native_features(verbose: &str) -> String {
    let inner = verbose.lines().filter(|line| line.contains("cc1") && line.contains("/dev/null"));
    let words = inner.flat_map(str::split_whitespace).filter(|word| !word.contains('/'));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_features_hold_no_path() {
        let verbose = "Using built-in specs.\nCOLLECT_GCC=cc\n /usr/lib/gcc/x86_64/12/cc1 -E -quiet -v /dev/null -march=znver3 \
                       -mmmx --param l1-cache-size=32\n#include <...> search starts here:\n /usr/include\n";
        assert_eq!(native_features(verbose), "-E -quiet -v -march=znver3 -mmmx --param l1-cache-size=32");
    }

    #[test]
    fn unknown_toolchains_are_refused() {
        assert!(matches!(Toolchain::probe("hipcc"), Err(Error::UnknownToolchain { .. })));
    }

    /// CUDA's compiler is on few machines, so that its command line is also checked here.
    #[test]
    fn nvcc_is_told_what_clang_is() {
        let nvcc = Toolchain { kind: Kind::Nvcc, program: "nvcc".into(), identity: String::new() };
        assert!(nvcc.serves("sm_90") && !nvcc.serves("gfx90a"));
        assert_eq!(nvcc.name(), "clang");
        let flags = ["-Wno-pass-failed".to_string(), "-DX=1".to_string()];
        let line = nvcc.command("sm_90", &flags, &[("BM".to_string(), "64".to_string())], "k.hip", "k.out");
        let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        let expected =
            "nvcc -x cu -std=c++17 -cubin -gencode=arch=compute_90a,code=sm_90a -O3 -w -DX=1 -DBM=64 k.hip -o k.out";
        assert_eq!(words.join(" "), expected);
        assert!(
            nvcc.command("sm_80", &[], &[], "k.hip", "k.out").contains(&"-gencode=arch=compute_80,code=sm_80".into())
        );
        match Toolchain::probe_nvcc() {
            Ok(nvcc) => assert!(nvcc.identity().starts_with("nvcc: Cuda compilation tools"), "{}", nvcc.identity()),
            Err(error) => println!("SKIP: {error}"),
        }
    }

    #[test]
    fn the_compiler_of_this_machine_has_an_identity() {
        let cc = Toolchain::probe("cc").unwrap();
        assert!(!cc.identity().contains('/') && cc.identity().contains("native CPU "), "{}", cc.identity());
        assert_eq!(cc.identity(), Toolchain::probe("cc").unwrap().identity());
        assert_ne!(Digest::of(b"").short(), cc.identity().rsplit(' ').next().unwrap(), "features were found");
    }
}
