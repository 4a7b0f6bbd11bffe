//! The processes that compile: each knows the files of one bundle, compiles one unit at a time, and is used again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bluefin_common::artifact::Argument;
use bluefin_common::child_file;
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::secrets;
use bluefin_common::tensor::{Tensor, TensorMap};
use bluefin_kernel_spec::Bundle;
use serde::Deserialize;

use super::{Greeting, write_files};
use crate::diagnose::{failure, timed_out};
use crate::error::Error;
use crate::lasting::{Answer, Lasting};
use crate::process::Ended;
use crate::workshop::{Workshop, not_taken};

/// Behind the name of a Python: no bytecode is written.
pub(super) const ARGUMENTS: [&str; 2] = ["-B", "server.py"];
/// What shapes code, and where Triton keeps what it makes: nowhere for long. `lines`: code objects get tables of the source's lines.
pub(super) fn variables(lines: bool) -> [(&'static str, &'static str); 6] {
    [
        ("TRITON_HOME", "."),
        ("TRITON_CACHE_DIR", "cache"),
        ("TRITON_DISABLE_LINE_INFO", if lines { "0" } else { "1" }),
        ("TRITON_DEFAULT_FP_FUSION", "1"),
        ("TRITON_STORE_BINARY_ONLY", "1"),
        ("PYTHONHASHSEED", "0"),
    ]
}
/// Pointers behind the arguments of a kernel: Triton has two.
const MAX_HIDDEN: usize = 16;
/// Bytes of scratch memory that a kernel gets for each block.
const MAX_SCRATCH: u64 = 1 << 20;
/// Characters of the name of a code object: an archive takes no longer one.
const MAX_NAME: usize = 15;
/// Characters of what native code said of an error.
const REASON: usize = 1000;
/// Around what native code says of each kernel.
const MARKS: [char; 2] = ['\u{1}', '\u{2}'];
/// Units after which a process makes room for another: Python gives little memory back.
const UNITS: u32 = 500;

/// Those that have nothing to do.
#[derive(Debug, Default)]
pub(super) struct Children(Mutex<Vec<Child>>);

/// One that compiles.
#[derive(Debug)]
pub(super) struct Child {
    process: Lasting,
    /// Of the files that it knows.
    files: Digest,
    units: u32,
}

/// What a unit was compiled into.
#[derive(Debug, Deserialize)]
pub(super) struct Compiled {
    pub(super) kernels: Vec<Kernel>,
}

/// What Triton says of a kernel.
#[derive(Debug, Deserialize)]
pub(super) struct Kernel {
    /// Name of the file with its code object, in the folder of the process.
    file: String,
    pub(super) entry: String,
    /// Of a block.
    pub(super) threads: u32,
    /// Bytes of a block.
    pub(super) shared: u32,
    /// Those of the launch that it takes, in their order.
    pub(super) arguments: Vec<KernelArgument>,
    /// Pointers behind them: to so many bytes for each block, or to nothing.
    pub(super) scratch: Vec<u64>,
}

/// What a kernel takes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum KernelArgument {
    /// The argument of this index.
    Whole(u16),
    /// A tensor descriptor.
    Tensor {
        /// Its index.
        tensor: u16,
        /// How many of the flags it takes that `descriptor::taken_apart` has.
        #[serde(default)]
        flags: u8,
        /// Where it is not taken apart.
        map: Option<TensorMap>,
    },
}

impl KernelArgument {
    /// What `Unit::complete` makes the argument of.
    pub(super) fn template(&self) -> Argument {
        match *self {
            Self::Whole(index) => Argument::I32(index.into()),
            Self::Tensor { tensor, flags, map } => {
                Argument::Tensor(Tensor { buffer: tensor, nan: flags > 0, tf32: flags > 1, map, ..Tensor::default() })
            }
        }
    }
}

/// What comes of a unit.
pub(super) enum Came {
    Compiled {
        compiled: Compiled,
        /// By name.
        files: BTreeMap<String, Vec<u8>>,
    },
    /// What Triton has against it.
    Refused(String),
    /// The process ended over it.
    Ended(Failure),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Compiled(Compiled),
    Refused { error: String },
}

impl Kernel {
    /// What Triton's own answers do not have.
    fn nonsense(&self) -> Option<String> {
        if self.scratch.len() > MAX_HIDDEN {
            return Some(format!("scratch: found {} pointers, expected at most {MAX_HIDDEN}", self.scratch.len()));
        }
        if let Some(bytes) = self.scratch.iter().find(|bytes| **bytes > MAX_SCRATCH) {
            return Some(format!("scratch: found {bytes} bytes for a block, expected at most {MAX_SCRATCH}"));
        }
        let named = self.file.len() <= MAX_NAME && self.file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (!named).then(|| format!("file: found {:.40?}, expected a name of at most {MAX_NAME} letters", self.file))
    }
}

impl Compiled {
    /// Reads a line of the program's; the inner error is what it has against the request.
    pub(super) fn parse(line: &str) -> Result<Result<Self, String>, serde_json::Error> {
        Ok(match serde_json::from_str(line)? {
            Reply::Compiled(compiled) => Ok(compiled),
            Reply::Refused { error } => Err(error),
        })
    }
}

/// The command that starts a process.
fn line(python: &Path) -> Vec<OsString> {
    std::iter::once(python.as_os_str().to_owned()).chain(ARGUMENTS.map(OsString::from)).collect()
}

fn digest_of(bundle: &Bundle) -> Digest {
    Digest::of_parts(digest::COMPILE, bundle.files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]))
}

impl Children {
    /// One that knows the files of `bundle`, if there is one.
    pub(super) fn take(&self, bundle: &Bundle) -> Option<Child> {
        let files = digest_of(bundle);
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle.iter().position(|child| child.files == files)?;
        Some(idle.swap_remove(found))
    }

    /// One that may be of use again. At most `slots` wait: those that waited for longest make room.
    pub(super) fn put_back(&self, child: Child, slots: usize) {
        if child.units >= UNITS {
            return;
        }
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(child);
        let most = idle.len().saturating_sub(slots);
        idle.drain(..most);
    }

    /// A new one.
    pub(super) async fn start(
        &self,
        python: &Path,
        readable: &[PathBuf],
        bundle: &Bundle,
        workshop: &Workshop,
    ) -> Result<Child, Error> {
        let folder = workshop.folder()?;
        write_files(folder.path(), bundle).map_err(|source| Error::machine("temporary folder", source))?;
        let mut process = workshop.lasting(&line(python), &variables(workshop.has_lines()), readable, folder)?;
        // Nothing of the bundle has run by then: what is wrong is wrong with this machine.
        let greeting = match process.ask(None, workshop.limits().time).await? {
            Answer::Line(line) => serde_json::from_str::<Greeting>(&line).map_err(|error| error.to_string()),
            Answer::Ended(ended) => Err(judge(ended, workshop)?.detail),
            Answer::TooLong => Err("an answer without an end".to_string()),
        };
        match greeting {
            Ok(_) => Ok(Child { process, files: digest_of(bundle), units: 0 }),
            Err(reason) => {
                Err(Error::Exhausted { reason: format!("{} does not start: {}", python.display(), reason.trim()) })
            }
        }
    }
}

/// What native code said of an error: an exception of Triton's has nothing of that.
fn reason_in(words: &str) -> String {
    let lines = words.lines().skip_while(|line| !line.contains(": error: ") && !line.starts_with("error: "));
    let mut lines: Vec<_> = lines.collect();
    // One for each operand.
    lines.dedup();
    let reason = lines.join("\n");
    let shown: String = reason.chars().filter(|each| !MARKS.contains(each)).take(REASON).collect();
    let shown = shown.trim_end();
    if shown.is_empty() { String::new() } else { format!("\n{shown}") }
}

/// What native code said of an error in a kernel that Triton made nevertheless, as LLVM does where an assembler's operand has no register.
fn error_in(words: &str) -> String {
    let [begin, end] = MARKS;
    let compiled = words.split(begin).skip(1).map(|said| said.split(end).next().unwrap_or_default());
    compiled.map(reason_in).find(|reason| !reason.is_empty()).unwrap_or_default()
}

impl Child {
    /// Compiles what `request` says.
    pub(super) async fn compile(&mut self, request: &str, workshop: &Workshop) -> Result<Came, Error> {
        self.units += 1;
        let line = match self.process.ask(Some(request), workshop.limits().time).await? {
            Answer::Line(line) => line,
            Answer::Ended(ended) => return Ok(Came::Ended(judge(ended, workshop)?)),
            Answer::TooLong => return Ok(nonsense("no end")),
        };
        // Whatever is wrong from here on, a kernel's file has done it: it runs in the same process.
        let compiled = match Compiled::parse(&line) {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(said)) => {
                let reason = reason_in(&self.process.words().await);
                return Ok(Came::Refused(secrets::scrub(&format!("{said}{reason}"))));
            }
            Err(error) => return Ok(nonsense(&error.to_string())),
        };
        let error = error_in(&self.process.words().await);
        if !error.is_empty() {
            let what = "the compiler met an error, and Triton went on without it:";
            return Ok(Came::Refused(secrets::scrub(&format!("{what}{error}"))));
        }
        if let Some(what) = compiled.kernels.iter().find_map(Kernel::nonsense) {
            return Ok(nonsense(&what));
        }
        let mut files = BTreeMap::new();
        // Of all together.
        let mut left = workshop.limits().file_bytes;
        for kernel in &compiled.kernels {
            // The file of a kernel that is launched twice is read once.
            if let Entry::Vacant(free) = files.entry(kernel.file.clone()) {
                match child_file::read(self.process.folder(), &kernel.file, left) {
                    Ok(code) => {
                        left -= code.len() as u64;
                        free.insert(code);
                    }
                    Err(error) => return not_taken(error).map(Came::Ended),
                }
            }
        }
        Ok(Came::Compiled { compiled, files })
    }
}

/// An answer that Triton does not give.
fn nonsense(what: &str) -> Came {
    Came::Ended(Failure::new(FailureKind::CompileCrash, format!("the compiler's answer makes no sense: {what}")))
}

/// Why a process ended that should have answered.
fn judge(ended: Ended, workshop: &Workshop) -> Result<Failure, Error> {
    let limits = workshop.limits();
    match ended {
        Ended::TimedOut => Ok(timed_out(limits)),
        Ended::Stopped => Err(Error::Interrupted { by: "SIGSTOP".to_string() }),
        Ended::Killed { short_of } => Err(Error::Killed { short_of }),
        Ended::Exited { status, output } => failure(status, &output, limits, &limits.in_force()),
    }
}
