//! `bluefin init`: a kernel spec, written from the signatures in a file.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_compile_worker::toolchain::types;
use bluefin_kernel_spec::draft::{Draft, Kernel, Language};
use bluefin_kernel_spec::source_text;
use bluefin_terminal::out;

/// Write a kernel spec from the signatures in a file, to be completed
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin init vector_add.hip\n  bluefin init reduction.cu --entry reduce -o reduce.toml\n  \
    bluefin init softmax.py\n\n\
    Pointers become buffers, inputs or outputs as the kernel's text has it; numbers become sizes; numbers of templates, \
    macros under #ifndef and constants of Triton's become params. What nobody can read from a signature has a remark: how long a buffer is, \
    the grid and the block, which solver is right, and the tolerance. Types are clang's where it compiles the file."
)]
pub struct InitArgs {
    /// A file with kernels: .hip, .cu, .cpp (GPUs), .c (the CPU), .py (Triton)
    file: PathBuf,
    /// The spec, beside the file [default: the file's name with .toml]
    #[arg(short, long, visible_alias = "out", value_name = "SPEC")]
    output: Option<PathBuf>,
    /// A kernel that becomes a solver, may be repeated [default: all of the file]
    #[arg(long, value_name = "NAME")]
    entry: Vec<String>,
}

impl InitArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let file = self.file.display();
        let language = Language::of(&self.file);
        let language =
            language.ok_or_else(|| crate::usage(format!("{file}: found no file of .hip .cu .cpp .c .py")))?;
        let output = self.output.clone().unwrap_or_else(|| self.file.with_extension("toml"));
        if folder(&output) != folder(&self.file) {
            return Err(crate::usage(format!(
                "{}: expected a file beside {file}, as a spec's source is beside it",
                output.display()
            )));
        }
        let text = read(&self.file).with_context(|| file.to_string())?;
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let beside = |name: &str| read(&folder(&self.file).join(name)).ok();
        let mut draft = Draft::new(language, name, &text, beside);
        anyhow::ensure!(!draft.kernels.is_empty(), "{file}: found no kernel, expected {}", language.wanted());
        self.choose(&mut draft)?;
        if language == Language::Gpu {
            let mut resolved = resolve(&mut draft)?;
            if !resolved.is_whole {
                if let Some((whole, of_whole)) = self.including(&draft, name)? {
                    (draft, resolved) = (whole, of_whole);
                } else if try_types(&mut draft)? {
                    resolved = resolve(&mut draft)?;
                }
            }
            resolved.remarks.iter().for_each(|remark| say!("{remark}"));
        }
        anyhow::ensure!(
            draft.has_buffers(),
            "{file}: found no kernel that takes a pointer, expected one: a spec has buffers"
        );
        write(&output, &draft.spec())?;
        let names: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        out::line(format!("{}: {}; complete what has a remark", output.display(), names.join(" ")))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The draft of the file beside this one that includes it and has what its kernels need, as it does not compile alone.
    fn including(&self, draft: &Draft, name: &str) -> anyhow::Result<Option<(Draft, Resolved)>> {
        let beside = |name: &str| read(&folder(&self.file).join(name)).ok();
        let kernels: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        for (source, text) in including(folder(&self.file), name) {
            let mut whole = Draft::new(Language::Gpu, &source, &text, beside);
            whole.kernels.retain(|kernel| kernels.contains(&kernel.name.as_str()));
            if whole.kernels.is_empty() {
                continue;
            }
            let mut resolved = resolve(&mut whole)?;
            if !resolved.is_whole && try_types(&mut whole)? {
                resolved = resolve(&mut whole)?;
            }
            if resolved.is_whole {
                say!("{name} does not compile alone: the spec's source is {source}, which includes it");
                return Ok(Some((whole, resolved)));
            }
        }
        Ok(None)
    }

    /// Leaves the kernels that were asked for.
    fn choose(&self, draft: &mut Draft) -> anyhow::Result<()> {
        for name in &self.entry {
            let known: Vec<&str> = draft.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            anyhow::ensure!(known.contains(&name.as_str()), "--entry {name}: expected one of {}", known.join(" "));
        }
        if !self.entry.is_empty() {
            draft.kernels.retain(|kernel| self.entry.contains(&kernel.name));
        }
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

fn read(path: &Path) -> std::io::Result<String> {
    source_text(std::fs::read(path)?)
}

/// The files of C++ in `folder` that include `name`, and their texts.
fn including(folder: &Path, name: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sources = entries.filter_map(|entry| {
        let source = entry.file_name().into_string().ok()?;
        let is_other = source != name && Language::of(Path::new(&source)) == Some(Language::Gpu);
        let text = if is_other { read(&entry.path()).ok()? } else { return None };
        bluefin_kernel_spec::draft::is_included(&text, name).then_some((source, text))
    });
    let mut sources: Vec<_> = sources.collect();
    sources.sort();
    sources
}

/// What clang says of a draft.
struct Resolved {
    /// Whether it compiles the file with all kernels, as far as anybody knows.
    is_whole: bool,
    remarks: Vec<String>,
}

/// Puts clang's types in the place of the text's.
fn resolve(draft: &mut Draft) -> anyhow::Result<Resolved> {
    let entries: Vec<String> = draft.kernels.iter().map(Kernel::instance).collect();
    match types::of_kernels(&draft.bundle(), draft.source(), draft.defines(), &entries) {
        Ok(found) => {
            found.types.iter().enumerate().for_each(|(index, types)| draft.set_types(index, types));
            Ok(Resolved { is_whole: found.is_whole, remarks: found.remarks })
        }
        Err(error) if error.is_exhausted() => Err(error.into()),
        Err(error) => {
            Ok(Resolved { is_whole: true, remarks: vec![format!("types are as the text spells them: {error}")] })
        }
    }
}

/// Types that a template may be for where it does not compile for float.
const TYPES: [&str; 4] = ["int", "float4", "float2", "float3"];

/// Looks for types with which the templates compile that do not compile with those that were taken. Whether a draft is another now.
fn try_types(draft: &mut Draft) -> anyhow::Result<bool> {
    let bundle = draft.bundle();
    let mut changed = false;
    for index in 0..draft.kernels.len() {
        let compiles = |draft: &Draft| {
            let entry: Vec<String> = draft.kernels.get(index).map(Kernel::instance).into_iter().collect();
            types::of_kernels(&bundle, draft.source(), draft.defines(), &entry).is_ok_and(|found| found.is_whole)
        };
        let before = draft.kernels.get(index).cloned();
        if !draft.set_unknown(index, "float") || compiles(draft) {
            continue;
        }
        let found = TYPES.iter().any(|one| draft.set_unknown(index, one) && compiles(draft));
        changed |= found;
        if let (false, Some(before), Some(kernel)) = (found, before, draft.kernels.get_mut(index)) {
            *kernel = before;
        }
    }
    Ok(changed)
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("{}: nothing was written", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}
