//! CUDA's compiler as a library, NVRTC: what nvcc makes of a kernel, in some 0.6 of the CPU time, since it reads none of the headers of the host
//! and starts no compiler of the host. It is in CUDA beside nvcc, and in the packages that PyTorch brings.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluefin_common::failure::Attempt;
use bluefin_kernel_spec::is_of_machine;

use super::nvcc::TOOLCHAIN;
use super::program::{Program, Wanted, finished, locate, with_own_instructions};
use super::triton;
use crate::error::Error;
use crate::shim::UNIT;
use crate::unit::{Input, SHIM_FOLDER, Unit};
use crate::workshop::{Made, Workshop};

static NVRTC: Wanted = Wanted {
    toolchain: TOOLCHAIN,
    names: &[],
    variable: "BLUEFIN_NVRTC",
    install: "CUDA 12 or later, or the Python packages nvidia-cuda-nvrtc and nvidia-cuda-runtime",
};

const TRIAL: &str = "extern \"C\" __global__ void f(int *x) { *x = 1; }\n";
/// The architecture of the trial, which all releases know.
const TRIED: &str = "sm_80";

/// The header that says which folder has CUDA's.
const HALF: &str = "cuda_fp16.h";
/// Headers of CUDA's that need none of the host.
const HEADERS: [&str; 4] = [HALF, "cuda_bf16.h", "cuda_fp8.h", "mma.h"];

/// Those of the host that CUDA's own include.
const OF_CUDA: [&str; 8] =
    ["assert.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"];

/// An NVRTC, and the program that calls it.
#[derive(Clone, Debug)]
pub(super) struct Nvrtc {
    program: Program,
    /// What is before the options in its command line.
    begin: Vec<OsString>,
    include: PathBuf,
    /// Folders of the library and of the headers.
    readable: Vec<PathBuf>,
    release: String,
    /// The architectures that it knows.
    known: BTreeSet<String>,
}

/// Whether the environment names one.
pub(super) fn is_named() -> bool {
    NVRTC.is_named()
}

impl Nvrtc {
    /// Finds the library that the environment names, else the one of the same release as `nvcc`, else any; compiles something trivial with
    /// it and asks what it is. `command` is the program that calls it.
    ///
    /// # Errors
    /// There is none, or it does not work.
    pub(super) fn probe(command: &[OsString], nvcc: Option<&Path>) -> Result<Self, Error> {
        let missing = |looked_for: String| Error::NoCompiler {
            toolchain: NVRTC.toolchain,
            looked_for,
            install: NVRTC.install,
            variable: NVRTC.variable,
        };
        let Some((program, begin)) = command.split_first() else { return Err(missing("libnvrtc.so".to_string())) };
        let library = match (NVRTC.named(), nvcc) {
            (Some(named), _) => locate(&named),
            (None, Some(nvcc)) => beside(nvcc).iter().find_map(|folder| library(folder)),
            (None, None) => everywhere().iter().find_map(|folder| library(folder)),
        };
        let sought = |named: PathBuf| format!("{} of {}", named.display(), NVRTC.variable);
        let library =
            library.ok_or_else(|| missing(NVRTC.named().map_or_else(|| "libnvrtc.so".to_string(), sought)))?;
        let include = headers(&library).ok_or_else(|| missing(format!("{HALF} for {}", library.display())))?;
        let folder = |of: &Path| of.parent().map(Path::to_path_buf);
        let readable =
            [library.canonicalize().ok().as_deref().and_then(folder), folder(&library), Some(include.clone())];
        let mut found = Self {
            program: NVRTC.program(program.into()),
            begin: begin.iter().cloned().chain([library.into_os_string()]).collect(),
            include,
            readable: readable.into_iter().flatten().collect(),
            release: String::new(),
            known: BTreeSet::new(),
        };
        found.program.try_out(TRIED, ("trial.hip", TRIAL), |input| found.command(input))?;
        let told = found.program.ask(&[&found.begin[..], &["--version".into()]].concat())?.0;
        let (release, known) = told.split_once('\n').unwrap_or((&told, ""));
        found.release = release.to_string();
        found.known = known.split_whitespace().map(ToString::to_string).collect();
        Ok(found)
    }

    pub(super) fn release(&self) -> &str {
        &self.release
    }

    pub(super) fn program(&self) -> &Path {
        self.program.path()
    }

    pub(super) fn knows(&self, arch: &str) -> bool {
        self.known.contains(arch)
    }

    /// What of `unit` only a compiler with headers and options of the host has, if anything.
    pub(super) fn lacks(unit: &Unit) -> Option<String> {
        let files = &unit.bundle.files;
        let texts = files.values().chain(unit.shim.as_ref());
        let mut headers = texts.flat_map(|text| text.lines()).filter_map(header);
        let is_here = |name: &str| HEADERS.contains(&name) || files.contains_key(name);
        let header = headers.find(|name| !is_here(name)).map(|name| format!("<{name}>"));
        header.or_else(|| unit.flags().iter().find(|flag| !is_known(flag)).cloned())
    }

    pub(super) async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        workshop.try_out_on(TRIED, ("trial.hip", TRIAL), &self.readable, |input| self.command(input)).await
    }

    pub(super) async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
        let unit = &with_headers(unit);
        let made = workshop.run(unit, &self.readable, |input| self.command(input)).await?;
        Ok(finished(unit, made))
    }

    fn command(&self, input: &Input<'_>) -> Vec<OsString> {
        let gpu = format!("--gpu-architecture={}", with_own_instructions(input.arch));
        let include = |folder: &Path| {
            let mut include = OsString::from("-I");
            include.push(folder);
            include
        };
        // CUDA 13 has C++'s library for kernels in a folder of its own.
        let library = Some(self.include.join("cccl")).filter(|folder| folder.is_dir());
        let includes = [Some(include(&self.include)), library.as_deref().map(include)].into_iter().flatten();
        // Kernels know the compilers of CUDA by this macro.
        let own = ["-D__NVCC__=1", &gpu, "-std=c++17", "-w", SHIM_FOLDER].map(OsString::from);
        let own: Vec<OsString> = self.begin.iter().cloned().chain(own).chain(includes).collect();
        // Functions that say nothing of where they run are left of a file only where kernels reach them.
        let own = own.into_iter().chain((input.source == UNIT).then(|| "--device-as-default-execution-space".into()));
        let own: Vec<OsString> = own.collect();
        // Without a word for it, it optimizes as -O3 has it.
        let flags = input.flags.iter().filter(|flag| !flag.starts_with("-W") && *flag != "-O3").cloned();
        self.program.line(&own, flags, input)
    }
}

/// Whether NVRTC takes a flag of a spec, or can do without.
fn is_known(flag: &str) -> bool {
    ["-D", "-U", "-W", "-std=c++"].iter().any(|known| flag.starts_with(known)) || flag == "-O3"
}

/// `unit` with something for the headers of the host that it includes: what kernels use of C's, and CUDA's own in place of C++'s, where that
/// is installed.
fn with_headers(unit: &Unit) -> Unit {
    let mut unit = unit.clone();
    if unit.shim.is_none() {
        return unit;
    }
    let names = unit.bundle.files.values().flat_map(|text| text.lines()).filter_map(header).chain(OF_CUDA);
    let missing = names.filter(|name| is_of_machine(name) && !unit.bundle.files.contains_key(*name));
    let missing: BTreeSet<String> = missing.map(ToString::to_string).collect();
    let files = missing.into_iter().map(|name| {
        let own = format!(
            "#pragma once\n#include \"bluefin/rtc.h\"\n#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n\
             namespace cuda {{ namespace std {{}} }}\nnamespace std {{ using namespace cuda::std; }}\n#endif\n"
        );
        (name, own)
    });
    let files: Vec<(String, String)> = files.collect();
    Arc::make_mut(&mut unit.bundle).files.extend(files);
    unit
}

/// The file that a line includes as `<file>`.
fn header(line: &str) -> Option<&str> {
    let behind = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    Some(behind.strip_prefix('<')?.split_once('>')?.0)
}

/// Folders of libraries that belong to the nvcc at `path`.
fn beside(path: &Path) -> Vec<PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let Some(prefix) = path.parent().and_then(Path::parent) else { return Vec::new() };
    [
        "lib64",
        "lib",
        "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib",
        "lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu",
    ]
    .map(|folder| prefix.join(folder))
    .to_vec()
}

/// Folders where it may be without nvcc: those of a CUDA without one, and of Python packages, older ones last.
fn everywhere() -> Vec<PathBuf> {
    let mut folders = beside(Path::new("/usr/local/cuda/bin/nvcc"));
    folders.extend(beside(Path::new("/usr/bin/nvcc")));
    if let Some(packages) = triton::package("nvidia") {
        folders.extend(["cu13/lib", "cuda_nvrtc/lib"].map(|folder| packages.join(folder)));
    }
    folders
}

/// The library in `folder`: without a release behind its name, or the first of those with one.
fn library(folder: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("libnvrtc.so")).min().map(|name| folder.join(name))
}

/// The folder of CUDA's headers that belongs to `library`.
fn headers(library: &Path) -> Option<PathBuf> {
    let above: Vec<&Path> = library.ancestors().skip(2).take(3).collect();
    let toolkit = above.iter().map(|folder| folder.join("include"));
    let package = above.iter().map(|folder| folder.join("cuda_runtime/include"));
    toolkit.chain(package).find(|folder| folder.join(HALF).is_file())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bluefin_kernel_spec::{Build, Bundle, KernelSpec};

    use super::super::clang::Clang;
    use super::*;

    const SPEC: &str = r#"
name = "k"
problem = "kernel"
toolchain = "clang"
targets = ["nvidia"]
source = "k.hip"
reference = "K"
flags = ["-Wno-pass-failed", "-DX=1"]
sizes = { n = 4 }
buffer = [{ name = "y", type = "FP32", length = "n", role = "output" }]
tolerance = { FP32 = { absolute = 0, relative = 0 } }
solver = [{ name = "K", algorithm = "Direct", launch = [{ entry = "k", arguments = ["y"], grid = [1], block = [1] }] }]
"#;

    fn unit(toml: &str, source: &str) -> Unit {
        let files = BTreeMap::from([("k.hip".to_string(), source.to_string())]);
        let bundle = Bundle { toml: toml.to_string(), files, ..Bundle::default() };
        let spec = KernelSpec::load(&bundle).unwrap();
        Unit::new(&Clang::named("clang", "clang"), "sm_90", Arc::new(bundle), &spec, Build::default())
    }

    fn lacks(toml: &str, source: &str) -> Option<String> {
        Nvrtc::lacks(&unit(toml, source))
    }

    #[test]
    fn headers_and_options_of_the_host_are_left_to_nvcc() {
        assert_eq!(
            lacks(SPEC, "#include <cuda_fp16.h>\n#  include <k.hip>\n#include \"k.hip\"\n// #include <cmath>\n"),
            None
        );
        assert_eq!(lacks(SPEC, "int x;\n  # include <cub/cub.cuh>\n").unwrap(), "<cub/cub.cuh>");
        let flags = SPEC.replace("-DX=1", "-fno-strict-aliasing");
        assert_eq!(lacks(&flags, "").unwrap(), "-fno-strict-aliasing");
    }

    #[test]
    fn headers_of_the_host_are_stood_in_for() {
        let source = "#include <cuda_runtime.h>\n#include <cstdint>\n#include <sys/time.h>\n#include <thrust/sort.h>\n";
        let mut asked = unit(SPEC, source);
        asked.shim = Some(String::new());
        let found = with_headers(&asked).bundle.files.clone();
        assert!(found["cstdint"].contains("#include <cuda/std/cstdint>"), "{}", found["cstdint"]);
        assert!(found["sys/time.h"].starts_with("#pragma once\n#include \"bluefin/rtc.h\"\n"));
        assert!(found.contains_key("stdlib.h"), "CUDA's own include it");
        assert!(
            !found.contains_key("cuda_runtime.h") && !found.contains_key("thrust/sort.h"),
            "no headers of the machine"
        );
        let own = [("cstdint".to_string(), "int own;\n".to_string())];
        Arc::make_mut(&mut asked.bundle).files.extend(own);
        assert_eq!(with_headers(&asked).bundle.files["cstdint"], "int own;\n");
        let as_it_is = with_headers(&unit(SPEC, source));
        assert!(!as_it_is.bundle.files.contains_key("cstdint"), "bluefin's own kernels need none");
    }

    #[test]
    fn it_is_told_what_nvcc_is_without_warnings() {
        let nvrtc = Nvrtc {
            program: NVRTC.program("bluefin".into()),
            begin: ["nvrtc", "/cuda/lib64/libnvrtc.so"].map(OsString::from).to_vec(),
            include: "/cuda/include".into(),
            readable: Vec::new(),
            release: "13.0".to_string(),
            known: ["sm_90".to_string()].into(),
        };
        let flags = ["-Wno-pass-failed".to_string(), "-O3".to_string(), "-DX=1".to_string()];
        let defines = [("BM".to_string(), "64".to_string())];
        let input =
            Input { arch: "sm_90", flags: &flags, defines: &defines, source: "k.hip", output: "k.out", lines: false };
        let line = nvrtc.command(&input);
        let words: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        let expected = "bluefin nvrtc /cuda/lib64/libnvrtc.so -D__NVCC__=1 --gpu-architecture=sm_90a -std=c++17 -w -I. -I/cuda/include \
                        -DX=1 -DBM=64 k.hip -o k.out";
        assert_eq!(words.join(" "), expected);
        let of_file = nvrtc.command(&Input { source: UNIT, ..input });
        assert!(of_file.contains(&"--device-as-default-execution-space".into()), "{of_file:?}");
    }

    #[test]
    fn libraries_and_headers_are_found_where_cuda_and_pythons_packages_have_them() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        let toolkit = [
            "cuda/bin/nvcc",
            "cuda/lib64/libnvrtc.so.13",
            "cuda/lib64/libnvrtc-builtins.so.13",
            "cuda/include/cuda_fp16.h",
        ];
        let [nvcc, library, _, header] = toolkit.map(file);
        let found = beside(&nvcc).iter().find_map(|folder| super::library(folder));
        assert_eq!(found.as_ref(), Some(&library));
        assert_eq!(headers(&library).as_deref(), header.parent());
        let library = file("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        assert_eq!(headers(&library), None);
        let header = file("nvidia/cuda_runtime/include/cuda_fp16.h");
        assert_eq!(headers(&library).as_deref(), header.parent());
    }
}
