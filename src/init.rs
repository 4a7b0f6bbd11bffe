//! `bluefin init`: a kernel spec, written from the kernels in a file.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_campaign::machine::reach::executed;
use bluefin_common::child_file::ChildFileError;
use bluefin_compile_worker::toolchain::settle::settle;
use bluefin_kernel_spec::draft::{Draft, Kernel, Language};
use bluefin_kernel_spec::{source_text, text_beside};
use bluefin_terminal::out;

use crate::waiting::with_signs_of_life;

/// Write a kernel spec from the kernels in a file, to be completed
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin init vector_add.hip\n  bluefin init reduction.cu --entry reduce -o reduce.toml\n  \
    bluefin init softmax.py\n\n\
    Pointers become buffers, inputs or outputs as the kernel's text has it; numbers become sizes; numbers of templates, \
    macros under #ifndef and constants of Triton's become params. Types are clang's where it compiles the file. HIP and CUDA kernels are \
    executed on the CPU, and buffers are as long as they go in them; where that fails, lengths are guesses. Grids and blocks are what the text \
    tells. What has a remark is for you to look at: which solver is right, the tolerance, guesses, how many blocks and threads."
)]
pub struct InitArgs {
    /// A file with kernels: .hip, .cu, .cuh, .cpp, .hpp (GPUs), .c (the CPU), .py (Triton)
    file: PathBuf,
    /// The spec, beside the file; where kernels take other buffers or compute other things, each such has
    /// one, with the kernel's name at its end [default: the file's name with .toml]
    #[arg(short, long, visible_alias = "out", value_name = "SPEC")]
    output: Option<PathBuf>,
    /// A kernel that becomes a solver, may be repeated [default: all of the file]
    #[arg(long, value_name = "NAME")]
    entry: Vec<String>,
}

impl InitArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let file = self.file.display();
        let language = Language::of(&self.file);
        let language =
            language.ok_or_else(|| crate::usage(format!("{file}: found no file of .hip .cu .cuh .cpp .hpp .c .py")))?;
        let output = self.output.clone().unwrap_or_else(|| self.file.with_extension("toml"));
        if folder(&output) != folder(&self.file) {
            return Err(crate::usage(format!(
                "{}: expected a file beside {file}, as a spec's source is beside it",
                output.display()
            )));
        }
        let text = read(&self.file).with_context(|| file.to_string())?;
        anyhow::ensure!(!output.exists(), "{}: nothing was written: it is there already", output.display());
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        text_beside(folder(&self.file), name).map_err(behind_link)?;
        let links = RefCell::new(Vec::new());
        let beside = |name: &str| {
            text_beside(folder(&self.file), name).unwrap_or_else(|error| {
                links.borrow_mut().push((name.to_string(), error));
                None
            })
        };
        let mut draft = Draft::new(language, name, &text, beside);
        // Neither what bluefin has itself nor a build file is a part of the spec.
        let missing = draft.missing();
        let is_missing = |name: &String| missing.iter().any(|include| include.ends_with(name.as_str()));
        if let Some((_, error)) = links.into_inner().into_iter().find(|(name, _)| is_missing(name)) {
            return Err(behind_link(error)).context(file.to_string());
        }
        anyhow::ensure!(!draft.kernels.is_empty(), "{file}: found no kernel, expected {}", language.wanted());
        self.choose(&mut draft)?;
        if language == Language::Gpu {
            settle(&mut draft, folder(&self.file))?.iter().for_each(|remark| say!("{remark}"));
        }
        if !draft.has_buffers() {
            let missing = draft.missing().join(" ");
            let missing = if missing.is_empty() { missing } else { format!("; not in its project: {missing}") };
            bail!("{file}: found no kernel whose text has a pointer, expected one: a spec has buffers{missing}");
        }
        // Who names kernels wants them together.
        let divides = self.entry.is_empty();
        let mut all = if divides { draft.groups() } else { vec![draft.clone().told_apart()] };
        if language == Language::Gpu {
            say!("executing on the CPU, to see how far they go in their buffers; kernels: {}", draft.kernels.len());
            let going_on = |since: Duration| {
                say!("still executing, {}s; a Ctrl-C ends that, and writes what the text tells", since.as_secs());
            };
            let executed = with_signs_of_life(executed(all.clone(), divides), going_on);
            let executed = tokio::select! {
                executed = executed => executed,
                _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("executing was stopped")),
            };
            match executed {
                Ok((drafts, remarks)) => {
                    all = drafts;
                    remarks.iter().for_each(|remark| say!("{remark}"));
                }
                Err(error) => say!("how long buffers are is a guess: {error:#}"),
            }
        }
        if language == Language::Python {
            say!(
                "lengths, strides and grids of Triton's kernels are guesses; of a program that runs on a GPU, bluefin capture --triton --jit takes \
                 all of it"
            );
        }
        Draft::set_files(&mut all, &output.file_stem().unwrap_or_default().to_string_lossy());
        let path = |draft: &Draft| output.with_file_name(draft.file());
        for path in all.iter().map(path) {
            anyhow::ensure!(!path.exists(), "{}: nothing was written: it is there already", path.display());
        }
        for draft in &all {
            let path = path(draft);
            write(&path, &draft.spec())?;
            let names: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            out::line(format!("{}: {}; complete what has a remark", path.display(), names.join(" ")))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Leaves the kernels that were asked for.
    fn choose(&self, draft: &mut Draft) -> anyhow::Result<()> {
        for name in &self.entry {
            let known: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            let is_known = draft.kernels.iter().any(|kernel| is_called(kernel, name));
            anyhow::ensure!(is_known, "--entry {name}: expected one of {}", known.join(" "));
        }
        if !self.entry.is_empty() {
            draft.kernels.retain(|kernel| self.entry.iter().any(|name| is_called(kernel, name)));
        }
        Ok(())
    }
}

/// Whether `name` is a kernel's, with or without its namespace.
fn is_called(kernel: &Kernel, name: &str) -> bool {
    kernel.name == name || kernel.plain_name() == name
}

/// A spec would be refused by what reads it.
fn behind_link(error: ChildFileError) -> anyhow::Error {
    anyhow::anyhow!("{error}: a spec reads through no links, so copy it, or name the file itself")
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

fn read(path: &Path) -> std::io::Result<String> {
    source_text(std::fs::read(path)?)
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("{}: nothing was written", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}
