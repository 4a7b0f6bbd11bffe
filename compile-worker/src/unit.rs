//! Units: everything that one run of a compiler of kernel specs depends on.

use std::sync::Arc;

use bluefin_common::artifact::{Argument, Built, CodeObject, Launch};
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::problem::DataType;
use bluefin_kernel_spec::{Build, Bundle, KernelSpec};

use crate::{descriptor, entries, shim};

/// Where scratch memory begins, in bytes: Triton asks for 128.
const SCRATCH_ALIGNMENT: u64 = 256;
/// What goes before the source of a reference.
const CHECKS: &str = include_str!("check.hip");

/// Files of a bundle are found by `#include <...>` too, as those of bluefin's shim are included.
pub(crate) const SHIM_FOLDER: &str = "-I.";

/// The unit of a HIP source, or of the one that was `generated` for it, with its checks.
fn checked_source(source: &str, generated: Option<&str>) -> String {
    match generated {
        Some(generated) => format!("{CHECKS}{generated}"),
        None => format!("{CHECKS}#include \"{source}\"\n"),
    }
}

/// What of a compiler shapes what it is given, and what becomes of it.
pub trait Shapes: Send + Sync + 'static {
    /// As specs name it.
    fn name(&self) -> &'static str;

    /// What shapes its output, without paths.
    fn identity(&self) -> &str;

    /// The unit that is generated for a candidate, where it compiles more than a source with macros.
    fn generate(&self, _arch: &str, _source: &str, _build: &Build) -> Option<String> {
        None
    }

    /// Whether it compiles C++ whose kernels are named as a source names them, with bluefin's shim for HIP's and CUDA's headers.
    fn is_cpp(&self) -> bool {
        false
    }

    /// The unit that also has the entries by which an eval worker checks elements of `types` on the device, in place of the one that was
    /// `generated`; nothing for a compiler that can not have them. One of C++ has those of HIP.
    fn with_checks(&self, source: &str, generated: Option<&str>, _types: &[DataType]) -> Option<String> {
        self.is_cpp().then(|| checked_source(source, generated))
    }
}

/// What is compiled of a candidate, and what becomes of it for one problem.
#[derive(Clone, Debug)]
pub struct Unit {
    arch: String,
    pub(crate) bundle: Arc<Bundle>,
    source: String,
    flags: Vec<String>,
    defines: Vec<(String, String)>,
    /// The generated unit, for compilers that have one.
    pub(crate) shim: Option<String>,
    /// What a kernel db tells code objects of one source apart by.
    options: String,
    /// The compiler is told nothing of these but what is in the shim.
    launches: Vec<Launch>,
    /// The same of further draws, which come first.
    draws: Vec<Vec<Launch>>,
    workspace: u64,
}

/// What a command line of a compiler is made of. Source and output lie beside each other in its working folder.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub arch: &'a str,
    /// Those of the spec, behind the compiler's own.
    pub flags: &'a [String],
    /// Macros, by name.
    pub defines: &'a [(String, String)],
    pub source: &'a str,
    pub output: &'a str,
    /// Whether the code object gets a table of the source's lines, which changes no code.
    pub lines: bool,
}

impl Unit {
    /// What compiles a candidate of `spec`, of which `build` says how it is built for a problem.
    #[must_use]
    pub fn new(compiler: &dyn Shapes, arch: &str, bundle: Arc<Bundle>, spec: &KernelSpec, build: Build) -> Self {
        let options = build.options();
        let (source, flags) = spec.compiled_by(compiler.name());
        let (source, flags) = (source.to_string(), flags.to_vec());
        let shim = if compiler.is_cpp() {
            entries::unit(bundle.dialect(), &source, &build.launches)
        } else {
            compiler.generate(arch, &source, &build)
        };
        let Build { defines, constants: _, launches, draws, workspace, typed: _ } = build;
        Self { arch: arch.to_string(), bundle, source, flags, defines, shim, options, launches, draws, workspace }
    }

    /// The same with the entries by which an eval worker checks elements of `types` on the device, where the compiler takes them.
    #[must_use]
    pub fn with_checks(self, compiler: &dyn Shapes, types: &[DataType]) -> Self {
        match compiler.with_checks(&self.source, self.shim.as_deref(), types) {
            Some(checked) => Self { shim: Some(checked), ..self },
            None => self,
        }
    }

    /// Equal keys mean equal artifacts.
    #[must_use]
    pub fn key(&self, compiler: &dyn Shapes) -> Digest {
        let mut parts: Vec<String> = vec![compiler.name().into(), compiler.identity().into(), self.arch.clone()];
        // Lengths in front keep one list from running into the next.
        parts.push(self.flags.len().to_string());
        parts.extend(self.flags.iter().cloned());
        parts.push(self.defines.len().to_string());
        parts.extend(self.defines.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        parts.extend([self.source.clone(), self.shim.clone().unwrap_or_default()]);
        let files = self.bundle.files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        Digest::of_parts(digest::COMPILE, parts.iter().map(String::as_bytes).chain(files))
    }

    /// What it is compiled for.
    pub(crate) fn arch(&self) -> &str {
        &self.arch
    }

    /// Those of the spec.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Its launches with the symbols in `code` that their entries name; none where each is a symbol itself.
    pub(crate) fn symbols(&self, code: &[u8]) -> Attempt<Vec<Launch>> {
        if self.shim.is_none() { Ok(Vec::new()) } else { entries::symbols(code, &self.launches) }
    }

    /// `failure` to compile it, with what was left out of its files, and with the libraries that it names and that nobody has here.
    pub(crate) fn with_note(&self, failure: Failure) -> Failure {
        if failure.kind != FailureKind::CompileError {
            return failure;
        }
        let left_out = self.bundle.left_out();
        let of_machine = self.bundle.of_machine();
        let named = |library: &String| {
            let word = library.split(['/', '.', '_']).next().unwrap_or_default();
            failure.detail.contains(word)
        };
        let libraries: Vec<String> = self.bundle.libraries().into_iter().filter(named).collect();
        let mut detail = failure.detail.trim_end().to_string();
        if !left_out.is_empty() {
            detail += &format!("\nnote: left out, as the spec has no such file beside it: {}", left_out.join(" "));
        }
        if !of_machine.is_empty() {
            detail += &format!(
                "\nnote: neither the spec nor bluefin has, and this machine may not have: {}",
                of_machine.join(" ")
            );
        }
        if !libraries.is_empty() {
            detail += &format!(
                "\nnote: nothing, or a part, is here of the libraries of {}: kernels that use more compile with nvcc alone (BLUEFIN_NVCC)",
                libraries.join(" ")
            );
        }
        Failure { detail, ..failure }
    }

    /// What a command line that compiles it to `output` is made of.
    pub(crate) fn input<'a>(&'a self, output: &'a str) -> Input<'a> {
        let source = if self.shim.is_some() { shim::UNIT } else { &self.source };
        Input { arch: &self.arch, flags: &self.flags, defines: &self.defines, source, output, lines: false }
    }

    /// `compiled`, which the cache has for all problems and under whatever name it was compiled first, for this one.
    pub(crate) fn complete(&self, compiled: Built) -> Built {
        let named = |object| CodeObject { file: self.source.clone(), options: self.options.clone(), ..object };
        let mut launches: Vec<Launch> = Vec::new();
        let mut workspace = self.workspace;
        for draw in self.draws.iter().chain([&self.launches]) {
            let first = launches.len();
            launches.extend_from_slice(draw);
            for (launch, compiled) in launches.iter_mut().skip(first).zip(&compiled.launches) {
                // They run one after the other, and share what lies behind the spec's own.
                let (fitted, end) = fitted(launch, compiled, self.workspace);
                (*launch, workspace) = (fitted, workspace.max(end));
            }
        }
        Built { objects: compiled.objects.into_iter().map(named).collect(), launches, workspace }
    }
}

/// `launch` as the kernel has it that it was compiled into, of which a compiler that decides such things says the entry, the block, the
/// shared memory, and where each of its arguments comes from: an `I32` is an index among those of `launch`, a tensor is the one that its
/// `buffer` is the index of, with the map that it has, or taken apart with the flags that are set in it, anything else is passed as it is. One
/// without threads says the entry alone. Scratch memory that the compiler
/// wants for each block lies behind the first `workspace` bytes; where it ends is returned.
fn fitted(launch: &Launch, compiled: &Launch, workspace: u64) -> (Launch, u64) {
    if compiled.block == [0; 3] {
        return (Launch { entry: compiled.entry.clone(), ..launch.clone() }, workspace);
    }
    let blocks = launch.grid.iter().fold(1, |product: u64, size| product.saturating_mul((*size).into()));
    let mut end = workspace;
    let argument = |template: &Argument| match template {
        Argument::I32(index) => {
            usize::try_from(*index).ok().and_then(|index| launch.arguments.get(index)).into_iter().cloned().collect()
        }
        Argument::Tensor(asked) => match (launch.arguments.get(usize::from(asked.buffer)), asked.map) {
            (Some(Argument::Tensor(tensor)), Some(map)) => descriptor::mapped(*tensor, map),
            (Some(Argument::Tensor(tensor)), None) => {
                descriptor::taken_apart(*tensor, usize::from(asked.nan) + usize::from(asked.tf32))
            }
            _ => Vec::new(),
        },
        Argument::WorkspaceAt(bytes) => {
            let at = end.next_multiple_of(SCRATCH_ALIGNMENT);
            end = at.saturating_add(bytes.saturating_mul(blocks));
            vec![Argument::WorkspaceAt(at)]
        }
        other => vec![other.clone()],
    };
    let arguments = compiled.arguments.iter().flat_map(argument).collect();
    (Launch { grid: launch.grid, arguments, ..compiled.clone() }, end)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use bluefin_common::artifact::ArtifactRef;

    use super::*;
    use crate::toolchain::{clang, noop};

    const SPEC: &str = r#"
name = "copy"
problem = "kernel"
toolchain = "clang"
targets = ["gfx90a"]
source = "copy.hip"
flags = ["-ffast-math"]
reference = "Copy"

[sizes]
n = 8

[[buffer]]
name = "out"
type = "FP32"
length = "n"
role = "output"

[tolerance.FP32]
absolute = 0.0
relative = 0.0

[[solver]]
name = "Copy"
algorithm = "Direct"
defines = { AB = 2, A = 1 }
  [[solver.launch]]
  entry = "copy"
  arguments = ["out"]
  grid = ["n"]
  block = [64]
"#;

    pub(crate) fn unit(compiler: &dyn Shapes) -> Unit {
        let files = BTreeMap::from([("copy.hip".to_string(), "// nothing\n".to_string())]);
        let bundle = Bundle { toml: SPEC.to_string(), files, ..Bundle::default() };
        let spec = KernelSpec::load(&bundle).unwrap();
        let arguments = vec![Argument::Buffer(0)];
        let launch = Launch { entry: "copy".to_string(), grid: [1; 3], block: [64, 1, 1], shared: 0, arguments };
        let defines = [("A", "1"), ("AB", "2")].map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let build = Build { defines, launches: vec![launch], workspace: 3, ..Build::default() };
        Unit::new(compiler, "gfx90a", Arc::new(bundle), &spec, build)
    }

    /// The artifacts of the releases before are found under these keys.
    #[test]
    fn keys_are_what_they_always_were() {
        let clang = clang::Clang::named("clang++", "clang version 19.1.7");
        let plain = unit(&clang);
        assert_eq!(plain.key(&clang).to_string(), "e910825d60ffa9986b84d3f09f0548de57ceb1893447735a2b8d6f96c50cd634");
        assert_eq!(
            unit(&noop::Noop).key(&noop::Noop).to_string(),
            "80ff56bfb0e287e58c0a827d755d4c985366ac42312907f3a1472b02e9d390e3"
        );
        let checked = plain.clone().with_checks(&clang, &[]);
        assert_ne!(checked.key(&clang), plain.key(&clang));
        assert!(checked.input("x").source != "copy.hip" && plain.input("x").source == "copy.hip");
    }

    #[test]
    fn each_draw_is_launched_as_the_compiler_says() {
        let mut unit = unit(&noop::Noop);
        let with = |bytes| {
            let arguments = vec![Argument::BufferAt { buffer: 0, bytes }, Argument::I32(7)];
            vec![Launch { arguments, ..unit.launches[0].clone() }]
        };
        unit.draws = vec![with(256), with(512)];
        // The second argument alone, and scratch memory behind the spec's own.
        let arguments = vec![Argument::I32(0), Argument::WorkspaceAt(4)];
        let kernel = Launch { entry: "made".to_string(), block: [128, 1, 1], arguments, ..unit.launches[0].clone() };
        let built = unit.complete(Built { launches: vec![kernel], ..Built::default() });
        let at = |launch: &Launch| (launch.entry.clone(), launch.block[0], launch.arguments[0].clone());
        let of = |argument| ("made".to_string(), 128, argument);
        let first = unit.launches[0].arguments[0].clone();
        let expected = [256, 512].map(|bytes| of(Argument::BufferAt { buffer: 0, bytes }));
        assert_eq!(built.launches.iter().map(at).collect::<Vec<_>>(), [&expected[..], &[of(first)]].concat());
        let scratch: Vec<_> = built.launches.iter().map(|launch| launch.arguments[1].clone()).collect();
        assert!(scratch.iter().all(|one| *one == scratch[0] && matches!(one, Argument::WorkspaceAt(_))), "{scratch:?}");
    }

    #[test]
    fn what_the_cache_has_is_completed_for_the_problem() {
        let unit = unit(&noop::Noop);
        let cached = CodeObject::plain(ArtifactRef::of(b"code"), "other.hip", " -DA=2");
        let built = unit.complete(Built { objects: vec![cached], ..Built::default() });
        assert_eq!((built.workspace, built.launches.len()), (3, 1));
        let [object] = built.objects.as_slice() else { panic!("{built:?}") };
        assert_eq!(object.artifact, ArtifactRef::of(b"code"));
        // As kernel dbs sort them.
        assert_eq!((object.file.as_str(), object.options.as_str()), ("copy.hip", " -DA=1 -DAB=2"));
    }
}
