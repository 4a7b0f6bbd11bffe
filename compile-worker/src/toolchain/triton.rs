//! `triton`: Triton's own compiler, for AMD and NVIDIA GPUs. It is Python that runs for as long as the worker does; a request
//! says what is compiled, with the types of all arguments and what is known of their values, as Triton's JIT would find them.

mod children;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::arch;
use bluefin_common::archive;
use bluefin_common::artifact::{Argument, ArtifactRef, Built, CodeObject, Launch};
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::problem::DataType;
use bluefin_kernel_spec::{ArgumentKind, Build, Bundle, Constant, Typed};
use serde::{Deserialize, Serialize};

use self::children::{Came, Children, Compiled};
use super::program::locate;
use super::{Compiler, Kernels, Toolchain, tried};
use crate::diagnose::exhausted;
use crate::error::{Error, Suspect};
use crate::process::environment;
use crate::unit::{Shapes, Unit};
use crate::workshop::{Made, Workshop, write_file};

const NAME: &str = "triton";
const VARIABLE: &str = "BLUEFIN_PYTHON";
const INSTALL: &str = "Triton 3.3 or later (pip install triton; tried up to 3.9)";

/// The program that compiles, and what goes beside the source of a reference.
const SERVER: &str = include_str!("triton/server.py");
const STUBS: &str = include_str!("triton/stubs.py");
const CHECKS: &str = include_str!("triton/check.py");

/// What always compiles.
const TRIAL: &str =
    "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef trial(x, n):\n    tl.store(x, n)\n";

/// Prints the folder of a package.
const PACKAGE: &str = "import importlib.util, sys\nfound = importlib.util.find_spec(sys.argv[1])\n\
    print(*[*(found and found.submodule_search_locations or [])][:1])";

/// A Python with Triton.
#[derive(Debug)]
pub struct Triton {
    python: PathBuf,
    identity: String,
    /// Of Triton.
    version: String,
    /// What it reads beside the folder of its program.
    readable: Vec<PathBuf>,
    children: Children,
}

/// What the program says when it starts.
#[derive(Debug, Deserialize)]
struct Greeting {
    triton: String,
    python: String,
    folders: Vec<PathBuf>,
}

/// What the program is asked, as its own words at the top say.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Request {
    target: (String, String, u32),
    source: String,
    defines: BTreeMap<String, String>,
    /// Values with their kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    constants: BTreeMap<String, Constant>,
    shared: u32,
    launches: Vec<RequestedLaunch>,
    /// The entries that check on a device are wanted for elements of these types, by [`DataType::code`].
    checks: BTreeSet<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RequestedLaunch {
    function: String,
    arguments: Vec<RequestedArgument>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RequestedArgument {
    r#type: String,
    unit: bool,
    divisible: bool,
    near: bool,
}

pub(super) async fn probe() -> Result<Arc<dyn Toolchain>, Error> {
    Ok(Arc::new(Kernels::new(tried(Triton::probe).await?)))
}

/// The folder of a Python package: that of the first Python of those that Triton is looked for in which has it. Nothing of it is run.
#[must_use]
pub fn package(name: &str) -> Option<PathBuf> {
    pythons().iter().find_map(|python| {
        let output = command(&locate(python)?, &["-c", PACKAGE, name]).stderr(Stdio::null()).output().ok()?;
        let folder = String::from_utf8(output.stdout).ok()?;
        Some(PathBuf::from(folder.trim_end_matches('\n'))).filter(|folder| folder.is_dir())
    })
}

/// The version of the Triton that is looked for first, as its package says; nothing of it is run.
#[must_use]
pub fn installed() -> Option<String> {
    let text = std::fs::read_to_string(package("triton")?.join("__init__.py")).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("__version__"))?;
    Some(line.trim_start_matches([' ', '=']).trim_matches(['\'', '"', ' ']).to_string())
}

/// Where Triton is looked for.
fn pythons() -> Vec<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    let active = std::env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("bin/python"));
    match named {
        Some(named) => vec![named],
        None => active.into_iter().chain([PathBuf::from("python3")]).collect(),
    }
}

/// Whether the environment names a Python.
pub(super) fn is_named() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|named| !named.is_empty())
}

impl Triton {
    /// Finds a Python with Triton: the one that `BLUEFIN_PYTHON` names, that of the virtual environment that is active, `python3`. The
    /// first that has it compiles something trivial.
    ///
    /// # Errors
    /// None that has it, or one that does not work.
    pub fn probe() -> Result<Self, Error> {
        let mut looked_for = Vec::new();
        for python in pythons() {
            match locate(&python).map_or(Err(None), |python| Self::greet(&python)) {
                Ok(found) => return Ok(found),
                Err(Some(error)) => return Err(error),
                Err(None) => looked_for.push(python.display().to_string()),
            }
        }
        let looked_for = format!("Triton in {}", looked_for.join(", "));
        if is_named() {
            return Err(Error::NoCompiler { toolchain: NAME, looked_for, install: INSTALL, variable: VARIABLE });
        }
        let reason = format!(
            "toolchain {NAME}: no compiler found (looked for {looked_for}): install {INSTALL}, or name a Python in {VARIABLE}"
        );
        Err(Error::NoTool { reason })
    }

    /// The Python at `python`.
    ///
    /// # Errors
    /// It has no Triton, or one that does not work.
    pub fn at(python: &Path) -> Result<Self, Error> {
        Self::greet(python).map_err(|error| {
            let looked_for = format!("Triton in {}", python.display());
            error.unwrap_or(Error::NoCompiler { toolchain: NAME, looked_for, install: INSTALL, variable: VARIABLE })
        })
    }

    /// Starts the program once; nothing if there is no such Python, or no Triton in it.
    fn greet(python: &Path) -> Result<Self, Option<Error>> {
        let machine = |source| Some(Error::machine("temporary folder", source));
        let mut has = command(
            python,
            &["-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('triton') is None)"],
        );
        let has = has.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !has.is_ok_and(|status| status.success()) {
            return Err(None);
        }
        let folder = tempfile::Builder::new().prefix("bluefin-probe-").tempdir().map_err(machine)?;
        write_files(folder.path(), &trial_bundle()).map_err(machine)?;
        let request = trial_request().to_string();
        let input = folder.path().join("request");
        std::fs::write(&input, request + "\n").map_err(machine)?;
        let input = std::fs::File::open(&input).map_err(machine)?;
        let output = command(python, &children::ARGUMENTS)
            .current_dir(folder.path())
            .envs(children::variables(false))
            .stdin(input)
            .output();
        let broken = |reason: String| {
            let program = python.to_path_buf();
            Some(Error::BrokenCompiler { toolchain: NAME, program, reason, install: INSTALL })
        };
        let output = output.map_err(|error| broken(error.to_string()))?;
        // The end of a traceback says what is wrong.
        let said = || {
            let said: Vec<char> = String::from_utf8_lossy(&output.stderr).trim().chars().collect();
            broken(said.iter().skip(said.len().saturating_sub(600)).collect())
        };
        let answers = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut answers = answers.lines();
        let greeting = answers.next().and_then(|line| serde_json::from_str::<Greeting>(line).ok());
        let greeting = greeting.ok_or_else(said)?;
        match answers.next().map(Compiled::parse) {
            Some(Ok(Ok(_))) => {}
            Some(Ok(Err(reason))) => return Err(broken(reason)),
            Some(Err(_)) | None => return Err(said()),
        }
        let own =
            Digest::of_parts(digest::COMPILE, [SERVER.as_bytes(), STUBS.as_bytes(), CHECKS.as_bytes()]).to_string();
        let own: String = own.chars().take(8).collect();
        let identity = format!("Triton {}, Python {}, {own}", greeting.triton, greeting.python);
        Ok(Self {
            python: python.to_path_buf(),
            identity,
            version: greeting.triton,
            readable: greeting.folders,
            children: Children::default(),
        })
    }

    /// Compiles what `request` says with the files of `bundle`.
    async fn ask(&self, request: &str, bundle: &Bundle, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let mut child = match self.children.take(bundle) {
            Some(child) => child,
            None => self.children.start(&self.python, &self.readable, bundle, workshop).await?,
        };
        let made = match child.compile(request, workshop).await? {
            Came::Compiled { compiled, files } => Ok(made(&compiled, &files)),
            // By a program that it runs.
            Came::Refused(said) if exhausted(&said).is_some() => {
                let failure = Failure::new(FailureKind::CompileCrash, said);
                return Err(Error::Suspect(Box::new(Suspect { failure, says_so: true })));
            }
            Came::Refused(said) => Err(Failure::new(FailureKind::CompileError, said)),
            Came::Ended(failure) => return Ok(Err(failure)),
        };
        self.children.put_back(child, workshop.slots());
        Ok(made)
    }
}

/// A Python that reads no other files than its own, as compilers do.
fn command(python: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.args(arguments).env_clear().envs(environment()).stdin(Stdio::null());
    command
}

/// The code objects as one artifact, and how they are launched.
fn made(compiled: &Compiled, files: &BTreeMap<String, Vec<u8>>) -> Made {
    let launch = |kernel: &children::Kernel| {
        let arguments = kernel.arguments.iter().map(children::KernelArgument::template);
        let scratch = |bytes: &u64| if *bytes == 0 { Argument::I64(0) } else { Argument::WorkspaceAt(*bytes) };
        let hidden = kernel.scratch.iter().map(scratch);
        Launch {
            entry: kernel.entry.clone(),
            grid: [1; 3],
            block: [kernel.threads, 1, 1],
            shared: kernel.shared,
            arguments: arguments.chain(hidden).collect(),
        }
    };
    let code = archive::pack(files);
    let object = CodeObject::plain(ArtifactRef::of(&code), "", "");
    let launches = compiled.kernels.iter().map(launch).collect();
    Made { built: Built { objects: vec![object], launches, workspace: 0 }, code: vec![code] }
}

/// Writes what the program needs into its folder.
fn write_files(folder: &Path, bundle: &Bundle) -> std::io::Result<()> {
    std::fs::write(folder.join("server.py"), SERVER)?;
    std::fs::write(folder.join("stubs.py"), STUBS)?;
    std::fs::create_dir(folder.join("src"))?;
    std::fs::write(folder.join("src/bluefin_check.py"), CHECKS)?;
    bundle.files.iter().try_for_each(|(name, text)| write_file(&folder.join("src"), name, text))
}

fn trial_bundle() -> Bundle {
    Bundle { files: BTreeMap::from([("trial.py".to_string(), TRIAL.to_string())]), ..Bundle::default() }
}

fn trial_request() -> Request {
    let argument =
        |name: &str| RequestedArgument { r#type: name.to_string(), unit: false, divisible: false, near: false };
    let launch = RequestedLaunch { function: "trial".to_string(), arguments: ["*i32", "i32"].map(argument).into() };
    Request {
        target: arch::in_triton("gfx90a"),
        source: "trial.py".to_string(),
        defines: BTreeMap::new(),
        constants: BTreeMap::new(),
        shared: 0,
        launches: vec![launch],
        checks: BTreeSet::new(),
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

/// Major and minor version of `3.6.0`; the newest where it says something else.
fn version(text: &str) -> (u16, u16) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(u16::MAX));
    (numbers.next().unwrap_or(u16::MAX), numbers.next().unwrap_or(u16::MAX))
}

/// What Triton calls elements of a type. FP8 and BF8 are the ones that the architecture multiplies.
fn element(data_type: DataType, arch: &str) -> &'static str {
    match data_type.on(arch) {
        DataType::Fp64 => "fp64",
        DataType::Fp32 => "fp32",
        DataType::Fp16 => "fp16",
        DataType::Bf16 => "bf16",
        DataType::Int8 => "i8",
        DataType::Int32 => "i32",
        DataType::Int64 => "i64",
        DataType::Fp8 => "fp8e4nv",
        DataType::Fp8Fnuz => "fp8e4b8",
        DataType::Bf8 => "fp8e5",
        DataType::Bf8Fnuz => "fp8e5b16",
        DataType::Int16 => "i16",
        DataType::Uint8 => "u8",
        DataType::Uint16 => "u16",
        DataType::Uint32 => "u32",
        DataType::Uint64 => "u64",
        DataType::Bool => "i1",
    }
}

fn argument(typed: &Typed, arch: &str) -> RequestedArgument {
    let r#type = match typed.kind {
        ArgumentKind::Pointer(data_type) => format!("*{}", element(data_type, arch)),
        ArgumentKind::Tensor(data_type, rank, block) => {
            let block: Vec<u32> = block.into_iter().take(rank.into()).collect();
            format!("tensordesc<{}{block:?}>", element(data_type, arch))
        }
        ArgumentKind::Workspace => "*i8".to_string(),
        ArgumentKind::None => "none".to_string(),
        // As Triton's JIT calls a Python bool.
        ArgumentKind::I1 => "u1".to_string(),
        ArgumentKind::I32 => "i32".to_string(),
        ArgumentKind::I64 => "i64".to_string(),
        ArgumentKind::U32 => "u32".to_string(),
        ArgumentKind::U64 => "u64".to_string(),
        ArgumentKind::F32 => "fp32".to_string(),
        ArgumentKind::F64 => "fp64".to_string(),
    };
    RequestedArgument { r#type, unit: typed.unit, divisible: typed.divisible, near: typed.near }
}

impl Shapes for Triton {
    fn name(&self) -> &'static str {
        NAME
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn generate(&self, arch: &str, source: &str, build: &Build) -> Option<String> {
        let launch = |(launch, typed): (&Launch, &Vec<Typed>)| RequestedLaunch {
            function: launch.entry.clone(),
            arguments: typed.iter().map(|typed| argument(typed, arch)).collect(),
        };
        let request = Request {
            target: arch::in_triton(arch),
            source: source.to_string(),
            defines: build.defines.iter().cloned().collect(),
            constants: build.constants.iter().cloned().collect(),
            shared: arch::of(arch).map_or(0, |known| known.shared_memory),
            launches: build.launches.iter().zip(&build.typed).map(launch).collect(),
            checks: BTreeSet::new(),
        };
        Some(request.to_string())
    }

    fn with_checks(&self, _source: &str, generated: Option<&str>, types: &[DataType]) -> Option<String> {
        let request: Request = serde_json::from_str(generated?).ok()?;
        Some(Request { checks: types.iter().map(|data_type| data_type.code()).collect(), ..request }.to_string())
    }
}

#[async_trait]
impl Compiler for Triton {
    fn refusal(&self, arch: &str) -> Option<String> {
        let refused =
            |expected: String| format!("Triton {} does not compile for {arch}, expected {expected}", self.version);
        match arch::of(arch) {
            Some(known) => known.known_to_triton(version(&self.version)).err().map(refused),
            None => Some(refused("a GPU".to_string())),
        }
    }

    fn programs(&self) -> Vec<&Path> {
        vec![&self.python]
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        let child = self.children.start(&self.python, &self.readable, &trial_bundle(), workshop).await;
        let said = match child?.compile(&trial_request().to_string(), workshop).await? {
            Came::Compiled { .. } => return Ok(()),
            Came::Refused(said) => said,
            Came::Ended(failure) => failure.detail,
        };
        let said: String = said.chars().take(600).collect();
        Err(Error::Exhausted { reason: format!("Triton does not compile what it always does: {}", said.trim()) })
    }

    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let request = unit.shim.as_deref().unwrap_or_default();
        self.ask(request, &unit.bundle, workshop).await
    }
}
