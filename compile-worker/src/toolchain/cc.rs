//! `cc`: C for the CPU that it runs on.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::digest::Digest;
use bluefin_common::failure::Attempt;
use bluefin_common::target::Target;
use bluefin_kernel_spec::Build;

use super::program::{Program, Wanted, first_line};
use super::{Compiler, Kernels, Toolchain, tried};
use crate::error::Error;
use crate::shim;
use crate::unit::{Input, Shapes, Unit};
use crate::workshop::{Made, Workshop};

static CC: Wanted = Wanted {
    toolchain: "cc",
    names: &["cc", "gcc", "clang"],
    variable: "BLUEFIN_CC",
    install: "gcc or clang with the C library's headers (Debian: apt install gcc libc6-dev)",
};

/// What every kernel for the host may include, and the least that must compile.
const TRIAL: &str = "#include <stdint.h>\n#include <string.h>\n#include <math.h>\nint32_t f(void) { return 1; }\n";

const FLAGS: [&str; 11] = [
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
];

/// A C compiler.
#[derive(Clone, Debug)]
pub struct Cc {
    program: Program,
    identity: String,
}

/// The toolchain of the C compiler that is here.
pub(super) async fn probe() -> Result<Arc<dyn Toolchain>, Error> {
    Ok(Arc::new(Kernels::new(tried(Cc::probe).await?)))
}

impl Cc {
    /// Finds a C compiler, compiles something trivial with it and asks what it is.
    ///
    /// # Errors
    /// No compiler, or one that does not work, with what to install.
    pub fn probe() -> Result<Self, Error> {
        let mut cc = Self { program: CC.find()?, identity: String::new() };
        cc.program.try_out("host", ("trial.c", TRIAL), |input| cc.command(input))?;
        let version = cc.program.ask(&["--version"])?.0;
        let machine = cc.program.ask(&["-dumpmachine"])?.0;
        let native = native_features(&cc.program.ask(&["-march=native", "-E", "-v", "-x", "c", "/dev/null"])?.1);
        cc.identity = format!(
            "{}; {}; native CPU {}",
            first_line(&version),
            first_line(&machine),
            Digest::of(native.as_bytes()).short()
        );
        Ok(cc)
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let mut line = self.program.line(&FLAGS, input.flags.iter().cloned(), input);
        line.push("-lm".into());
        line
    }
}

impl Shapes for Cc {
    fn name(&self) -> &'static str {
        CC.toolchain
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn generate(&self, _arch: &str, source: &str, build: &Build) -> Option<String> {
        // Each launch has an entry of its own, by its place.
        Some(shim::unit(source, build.in_order()))
    }
}

#[async_trait]
impl Compiler for Cc {
    fn refusal(&self, arch: &str) -> Option<String> {
        (arch != Target::Host.arch()).then(|| format!("{} compiles for host, found {arch}", self.identity))
    }

    fn programs(&self) -> Vec<&Path> {
        vec![self.program.path()]
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        workshop.try_out_on("host", ("trial.c", TRIAL), &[], |input| self.command(input)).await
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        workshop.run(unit, &[], |input| self.command(input)).await
    }
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
    fn the_compiler_of_this_machine_has_an_identity() {
        let cc = Cc::probe().unwrap();
        assert!(!cc.identity().contains('/') && cc.identity().contains("native CPU "), "{}", cc.identity());
        assert_eq!(cc.identity(), Cc::probe().unwrap().identity());
        assert_ne!(Digest::of(b"").short(), cc.identity().rsplit(' ').next().unwrap(), "features were found");
    }

    #[test]
    fn the_command_line_is_part_of_what_the_cache_is_keyed_by() {
        let cc = Cc { program: CC.program("cc".into()), identity: String::new() };
        let (flags, defines) = (["-DX=1".to_string()], [("BM".to_string(), "64".to_string())]);
        let input =
            Input { arch: "host", flags: &flags, defines: &defines, source: "k.c", output: "k.out", lines: false };
        let line = cc.command(&input);
        let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "cc -x c -std=gnu11 -O3 -march=native -shared -fPIC -frandom-seed=bluefin \
             -Werror=implicit-function-declaration -Wl,--build-id=none -s -DX=1 -DBM=64 k.c -o k.out -lm"
        );
    }
}
