//! A compiler that is a program: how it is found and tried, and asked what it is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bluefin_common::arch::{self, Architecture};
use bluefin_common::failure::Attempt;

use crate::diagnose::{exhausted, limit_met};
use crate::error::Error;
use crate::process::{Limits, environment};
use crate::unit::{Input, Unit};
use crate::workshop::Made;

/// What is known of a compiler before it is found.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of the toolchain that it makes up.
    pub(super) toolchain: &'static str,
    /// That it may have, the first one first.
    pub(super) names: &'static [&'static str],
    /// Of the environment, which may name it.
    pub(super) variable: &'static str,
    pub(super) install: &'static str,
}

impl Wanted {
    /// Whether the environment names it.
    pub(super) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    /// What the environment names.
    pub(super) fn named(&self) -> Option<PathBuf> {
        std::env::var_os(self.variable).filter(|named| !named.is_empty()).map(PathBuf::from)
    }

    /// The program at `path`, which was found in another way.
    pub(super) fn program(&'static self, path: PathBuf) -> Program {
        Program { path, wanted: self }
    }

    /// The program that the environment names, or the first of its names that there is.
    pub(super) fn find(&'static self) -> Result<Program, Error> {
        let missing = |looked_for: String| Error::NoCompiler {
            toolchain: self.toolchain,
            looked_for,
            install: self.install,
            variable: self.variable,
        };
        let path = match self.named() {
            Some(named) => {
                locate(&named).ok_or_else(|| missing(format!("{} of {}", named.display(), self.variable)))?
            }
            None => {
                let mut names = self.names.iter();
                names.find_map(|name| locate(Path::new(name))).ok_or_else(|| missing(self.names.join(", ")))?
            }
        };
        Ok(Program { path, wanted: self })
    }
}

/// The file `name`, in PATH if that is no path.
pub(super) fn locate(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return std::path::absolute(name).ok().filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(super) struct Program {
    path: PathBuf,
    wanted: &'static Wanted,
}

impl Program {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A command line: the program with `own` arguments, the spec's flags and defines, then source and output.
    pub(super) fn line<S: AsRef<OsStr>>(
        &self,
        own: &[S],
        flags: impl Iterator<Item = String>,
        input: &Input<'_>,
    ) -> Vec<OsString> {
        let mut line = vec![self.path.as_os_str().to_owned()];
        line.extend(own.iter().map(OsString::from));
        line.extend(flags.map(OsString::from));
        line.extend(input.defines.iter().map(|(name, value)| OsString::from(format!("-D{name}={value}"))));
        line.extend([input.source, "-o", input.output].map(OsString::from));
        line
    }

    /// Compiles the `text` of a file `name` for `arch`, by the command line that `command` makes.
    pub(super) fn try_out(
        &self,
        arch: &str,
        (name, text): (&str, &str),
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<(), Error> {
        let machine = |source| Error::machine("temporary folder", source);
        let folder = tempfile::Builder::new().prefix("bluefin-probe-").tempdir().map_err(machine)?;
        std::fs::write(folder.path().join(name), text).map_err(machine)?;
        let line = command(&Input { arch, flags: &[], defines: &[], source: name, output: "trial.out", lines: false });
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
        if let Some(line) = exhausted(&said) {
            let reason = format!("{}: {}", self.path.display(), line.chars().take(300).collect::<String>());
            return Err(Error::Exhausted { reason });
        }
        Err(self.broken(said.chars().take(600).collect()))
    }

    /// What it prints on standard output and standard error.
    pub(super) fn ask<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<(String, String), Error> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let output = self.run(&args, Path::new("/"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok((text(&output.stdout), text(&output.stderr)));
        }
        Err(self.broken(text(&output.stderr).chars().take(600).collect()))
    }

    /// Runs it in `folder`, in the environment that compilers have.
    pub(super) fn run(&self, args: &[OsString], folder: &Path) -> Result<Output, Error> {
        Command::new(&self.path)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs(environment())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| match Error::machine(self.path.display().to_string(), error) {
                error if error.is_exhausted() => error,
                error => self.broken(error.to_string()),
            })
    }

    fn broken(&self, reason: String) -> Error {
        let reason = reason.trim().to_string();
        let Wanted { toolchain, install, .. } = *self.wanted;
        Error::BrokenCompiler { toolchain, program: self.path.clone(), reason, install }
    }
}

/// What a compiler of C++ `made` of `unit`, with the symbols of its entries.
pub(super) fn finished(unit: &Unit, made: Attempt<Made>) -> Attempt<Made> {
    let mut made = made.map_err(|failure| unit.with_note(failure))?;
    if let Some(code) = made.code.first() {
        made.built.launches = unit.symbols(code)?;
    }
    Ok(made)
}

/// The first line of what a program says.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}

/// The architecture as a compiler is told it. Instructions that it alone has (Hopper's wgmma, setmaxnreg) need its
/// feature-complete name. Code for that runs on it alone, as a tuned kernel's does anyway.
pub(super) fn with_own_instructions(arch: &str) -> String {
    format!("{arch}{}", arch::of(arch).map_or("", |known| known.suffix))
}

/// Why a compiler of C++ that calls itself `identity` refuses `arch`, which is not among those that it knows.
pub(super) fn unknown_to(identity: &str, arch: &str) -> String {
    let expected = arch::of(arch).map(Architecture::known_to_cpp).unwrap_or_default();
    format!("{identity} does not know {arch}, expected {expected} (BLUEFIN_CLANG and BLUEFIN_NVCC name compilers)")
}
