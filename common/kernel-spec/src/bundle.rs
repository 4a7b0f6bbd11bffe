//! Bundles from disk, and those that bluefin ships.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind::InvalidData, Read as _};
use std::path::Path;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::child_file::{self, ChildFileError};
use bluefin_common::store::{Store, StoreError};

use crate::Bundle;
use crate::data::{self, MAX_ALL_DATA, MAX_DATA};
use crate::error::SpecError;
use crate::format::RawSpec;
use crate::project::{MOST_ABOVE, project_root};
use crate::rules::{CLANG, TRITON};
use crate::shim::{self, Dialect};

/// Largest spec, in bytes.
const MAX_TOML: u64 = 2 << 20;
/// Largest source or include, in bytes.
const MAX_FILE: u64 = 2 << 20;
/// Most files of a bundle beside the spec.
pub(super) const MAX_FILES: usize = 256;
/// Of a name with its folders.
const MAX_NAME: usize = 128;
/// Most folders above a file.
const MAX_FOLDERS: usize = 8;
/// Why a file above a spec is not read.
const OUTSIDE: &str = "it lies outside the project of the spec: the folder above with .git or the like, or else the uppermost with a licence, a readme or a build file";
/// How files end that a spec may name in folders above its own: nothing else is read there.
const SOURCES: [&str; 14] = ["h", "hpp", "hh", "hxx", "cuh", "inl", "inc", "ipp", "tpp", "c", "cc", "cpp", "cu", "hip"];

macro_rules! kernel_file {
    ($name:literal) => {
        include_str!(concat!("../kernels/", $name))
    };
}

impl Bundle {
    /// Reads the spec at `path` and the files beside it that it names. An include that is not there may be one that
    /// bluefin ships for all GPU kernels, such as `prelude.h`; headers of HIP and CUDA need not be named at all.
    ///
    /// # Errors
    /// What cannot be read, is too large, is no text, or is not a file beside the spec.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let toml = read_text(path, MAX_TOML)?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let fail = |path: &Path, source| SpecError::Read { path: path.to_path_buf(), source };
        // A user may name a spec through links; what the spec names is beside it.
        let real = folder.canonicalize().map_err(|source| fail(folder, source))?;
        let spec = RawSpec::parse(&toml)?;
        let root = project_root(&real);
        let mut files = BTreeMap::new();
        for NamedFile { name, up } in file_names(&spec)? {
            let beside = folder.join("../".repeat(up)).join(&name);
            let shared = SHARED.iter().find(|(shared, _)| *shared == name);
            let above = real.ancestors().nth(up).unwrap_or(Path::new("/"));
            if up > 0 && !root.as_ref().is_some_and(|root| above.starts_with(root)) {
                return Err(fail(&beside, io::Error::other(OUTSIDE)));
            }
            let bytes = match (child_file::read(above, &name, MAX_FILE), shared) {
                (Err(ChildFileError::Missing { .. }), Some((_, text))) => text.as_bytes().to_vec(),
                (Err(error), _) => return Err(fail(&beside, error.into())),
                (Ok(bytes), _) => bytes,
            };
            files.insert(name, source_text(bytes).map_err(|error| fail(&beside, error))?);
        }
        for (_, source) in spec.sources().filter(|(toolchain, _)| *toolchain == CLANG) {
            shim::complete(&mut files, source, &words_for_sources(&toml));
        }
        let mut bundle = Self { toml, files, ..Self::default() };
        bundle.check_size()?;
        for name in data_names(&spec)? {
            let bytes = data::read(&real, name)?;
            bundle.data.insert(name.to_string(), ArtifactRef::of(&bytes));
            bundle.contents.insert(name.to_string(), bytes);
            bundle.check_size()?;
        }
        Ok(bundle)
    }

    /// What its files are written in, if they include headers of HIP or CUDA, which bluefin's shim stands in for.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        shim::dialect(&self.files)
    }

    /// The headers of libraries for hosts, such as `cub/cub.cuh`, that its files include and of which bluefin has nothing, or a part.
    #[must_use]
    pub fn libraries(&self) -> Vec<String> {
        shim::libraries(&self.files)
    }

    /// What its files include in quotation marks and the spec does not have, so that it was left out.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        shim::left_out(&self.files)
    }

    /// What its files include in angle brackets and neither the spec nor bluefin has: a machine that compiles may have it.
    #[must_use]
    pub fn of_machine(&self) -> Vec<String> {
        shim::of_machine(&self.files)
    }

    /// The kernels that bluefin ships.
    #[must_use]
    pub fn shipped() -> Vec<Self> {
        let text = |files: &[(&str, &str)]| {
            files.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect::<BTreeMap<_, _>>()
        };
        let bundle =
            |(toml, files): &Embedded| Self { toml: (*toml).to_string(), files: text(files), ..Self::default() };
        SHIPPED.iter().map(bundle).collect()
    }

    /// The matrix product in Triton, whose problems are those of `bluefin tune-gemm`.
    #[must_use]
    pub fn gemm_in_triton() -> Self {
        let files = [("gemm.py", kernel_file!("triton/gemm.py")), ("tiles.toml", kernel_file!("triton/tiles.toml"))];
        let files = files.map(|(name, text)| (name.to_string(), text.to_string()));
        Self { toml: kernel_file!("triton/gemm.toml").to_string(), files: files.into(), ..Self::default() }
    }

    /// This one with the matrix product in Triton beside its solvers; `None` where it is not the shipped spec of that for GPUs.
    #[must_use]
    pub fn beside_triton(&self) -> Option<Self> {
        let mut bundle = (self.toml == GEMM).then(|| self.clone())?;
        bundle.toml += "\n[beside]\ntoolchain = \"triton\"\nsource = \"gemm.py\"\n";
        Some(bundle.and_triton())
    }

    /// The matrix product in Triton for types that no other shipped spec has.
    #[must_use]
    pub fn gemm_types_in_triton() -> Self {
        Self { toml: kernel_file!("triton/gemm_types.toml").to_string(), ..Self::default() }.and_triton()
    }

    /// The same with Triton's solvers of matrix products.
    fn and_triton(mut self) -> Self {
        for text in [kernel_file!("triton/gemm_solvers.toml"), kernel_file!("triton/tiles.toml")] {
            self.toml.push('\n');
            self.toml.push_str(text);
        }
        self.files.insert("gemm.py".to_string(), kernel_file!("triton/gemm.py").to_string());
        self
    }

    /// The same with the files alone that `toolchain` is given, where a spec has two: Triton's those of Python, the other one the rest. So what
    /// it makes is what it would make of the spec without the second one.
    #[must_use]
    pub fn for_toolchain(&self, toolchain: &str) -> Self {
        let mut bundle = self.clone();
        bundle.files.retain(|name, _| name.ends_with(".py") == (toolchain == TRITON));
        bundle
    }

    /// Puts it into `store`: the data of its buffers, then itself, since a worker that finds it looks for those.
    ///
    /// # Errors
    /// If that fails.
    pub async fn put(&self, store: &dyn Store) -> Result<(), StoreError> {
        for bytes in self.contents.values() {
            store.put_blob(bytes).await?;
        }
        let encoded = self.encode().map_err(|source| StoreError::Corrupt { key: "kernel spec".to_string(), source })?;
        store.put_blob(&encoded).await?;
        Ok(())
    }

    /// Bounds a bundle, wherever it came from.
    pub(super) fn check_size(&self) -> Result<(), SpecError> {
        let within = |what: &str, found: usize, limit: u64| {
            let found = found as u64;
            if found > limit { Err(SpecError::Size { what: what.to_string(), found, limit }) } else { Ok(()) }
        };
        within("kernel spec", self.toml.len(), MAX_TOML)?;
        for (name, text) in &self.files {
            if !shim::is_header(name) {
                check_name(name)?;
            }
            within(name, text.len(), MAX_FILE)?;
            // Files are written where compilers run.
            if self.files.keys().any(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))) {
                return Err(SpecError::FileName { found: format!("{name}, which is a folder of other files") });
            }
        }
        within("kernel spec with its files", self.files.values().map(String::len).sum(), 4 * MAX_FILE)?;
        let mut left = MAX_ALL_DATA;
        for (name, data) in &self.data {
            check_name(name)?;
            if data.size > MAX_DATA {
                return Err(SpecError::Size { what: name.clone(), found: data.size, limit: MAX_DATA });
            }
            left = left.checked_sub(data.size).ok_or_else(|| {
                let found = self.data.values().map(|data| data.size).fold(0, u64::saturating_add);
                SpecError::Size { what: "data files of the kernel spec".to_string(), found, limit: MAX_ALL_DATA }
            })?;
        }
        Ok(())
    }
}

/// The files with the elements of buffers, in the order in which they are named.
pub(super) fn data_names(spec: &RawSpec) -> Result<Vec<&str>, SpecError> {
    let names: Vec<&str> = spec.buffer.iter().filter_map(|buffer| buffer.data.as_deref()).collect();
    names.iter().try_for_each(|name| check_name(name))?;
    Ok(names)
}

/// What of a spec may name something in its sources: entries, defines, values of params.
fn words_for_sources(toml: &str) -> String {
    let names_files_and_solvers = |line: &&str| {
        let field = line.split_once('=').map_or("", |(field, _)| field.trim());
        ["name", "reference", "source", "includes"].contains(&field)
    };
    toml.lines().filter(|line| !names_files_and_solvers(line)).collect::<Vec<_>>().join("\n")
}

/// A file that a spec names.
pub(super) struct NamedFile {
    /// What the bundle has it under: the path behind what leads up.
    pub(super) name: String,
    /// Folders above that of the spec.
    pub(super) up: usize,
}

/// Source, includes and the file of spaces, in the order in which they are named.
pub(super) fn file_names(spec: &RawSpec) -> Result<Vec<NamedFile>, SpecError> {
    let beside = |name: &String| {
        check_name(name)?;
        Ok(NamedFile { name: name.clone(), up: 0 })
    };
    let sources = spec.sources().map(|(_, source)| beside(source));
    // Others have no names for them.
    let is_of_clang = spec.sources().any(|(toolchain, _)| toolchain == CLANG);
    let includes =
        spec.includes.iter().take(MAX_FILES).map(|path| if is_of_clang { included(path) } else { beside(path) });
    let names: Vec<NamedFile> =
        sources.chain(includes).chain(spec.spaces.iter().map(beside)).collect::<Result<_, _>>()?;
    let is_hidden = |(at, file): (usize, &NamedFile)| {
        let others = names.get(..at).unwrap_or_default().iter();
        others.into_iter().any(|other| other.name == file.name && other.up != file.up)
    };
    match names.iter().enumerate().find(|one| is_hidden((one.0, one.1))) {
        Some((_, file)) => Err(SpecError::FileName { found: format!("{}, which is that of two files", file.name) }),
        None => Ok(names),
    }
}

/// Whether a spec may name the header at `path`, which may lead to a folder above its own, among its `includes`.
#[must_use]
pub fn may_be_include(path: &str) -> bool {
    included(path).is_ok()
}

/// An include, which may be a header of a folder above the spec's.
fn included(path: &str) -> Result<NamedFile, SpecError> {
    let name = shim::above(path);
    let up = (path.len() - name.len()) / "../".len();
    check_name(name)?;
    let is_source = name.rsplit_once('.').is_some_and(|(_, ending)| SOURCES.contains(&ending));
    if up > MOST_ABOVE || up > 0 && !is_source {
        return Err(SpecError::FileName { found: path.chars().take(MAX_NAME).collect() });
    }
    Ok(NamedFile { name: name.to_string(), up })
}

fn check_name(name: &str) -> Result<(), SpecError> {
    let plain = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+, ".contains(&b));
        plain && part.trim() == part && !part.is_empty() && !part.starts_with(['.', '-'])
    };
    let parts: Vec<&str> = name.split('/').collect();
    if name.len() > MAX_NAME || parts.len() > MAX_FOLDERS + 1 || !parts.into_iter().all(plain) {
        return Err(SpecError::FileName { found: name.chars().take(MAX_NAME).collect() });
    }
    Ok(())
}

/// The text of a source. Comments of older ones are in other encodings, which nothing that is compiled depends on.
///
/// # Errors
/// It is no text.
pub fn source_text(bytes: Vec<u8>) -> io::Result<String> {
    if bytes.contains(&0) || bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(io::Error::new(
            InvalidData,
            "found UTF-16 or no text, expected UTF-8 or another encoding that has ASCII's bytes",
        ));
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    // Behind other text, where a source is included, compilers do not know the mark.
    Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
}

/// The text of the file `name` in `folder`, as a spec that lies there would have it; `None` where a spec has nothing of it.
///
/// # Errors
/// What has the name is a link, or is behind one: a spec reads through none.
pub fn text_beside(folder: &Path, name: &str) -> Result<Option<String>, ChildFileError> {
    let Ok(folder) = folder.canonicalize() else { return Ok(None) };
    match child_file::read(&folder, name, MAX_FILE) {
        Ok(bytes) => Ok(source_text(bytes).ok()),
        // A part of the way that is a file is called so as well.
        Err(error @ ChildFileError::NotRegular { found: "a link", .. }) if folder.join(name).exists() => Err(error),
        Err(_) => Ok(None),
    }
}

/// A regular file of at most `limit` bytes.
fn read_text(path: &Path, limit: u64) -> Result<String, SpecError> {
    let fail = |source| SpecError::Read { path: path.to_path_buf(), source };
    // Checked before it is opened: opening a FIFO would wait for its writer.
    if !path.metadata().map_err(fail)?.is_file() {
        return Err(fail(io::Error::other("not a regular file")));
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_string(&mut text)).map_err(fail)?;
    if read as u64 > limit {
        return Err(SpecError::Size { what: path.display().to_string(), found: read as u64, limit });
    }
    Ok(text)
}

/// Text of a spec and its files, as (name, text).
type Embedded = (&'static str, &'static [(&'static str, &'static str)]);

macro_rules! shipped {
    ($($toml:literal with $($file:literal)+;)*) => {
        /// Names of the shipped specs, for the test that none is forgotten.
        #[cfg(test)]
        pub(super) const SHIPPED_NAMES: &[&str] = &[$($toml),*];
        const SHIPPED: &[Embedded] = &[$((kernel_file!($toml), &[$(($file, kernel_file!($file))),+])),*];
    };
}

/// Includes that any spec may name without having them beside it.
const SHARED: &[(&str, &str)] = &[("prelude.h", PRELUDE)];
/// The spec of matrix products on GPUs.
const GEMM: &str = kernel_file!("gemm_gpu.toml");
/// What kernels of GPUs stand on that are written for bluefin.
pub(super) const PRELUDE: &str = kernel_file!("prelude.h");

shipped! {
    "conv_fwd_host.toml" with "conv_fwd_host.c" "host.h" "tile_host.h" "conv_host.h";
    "conv_bwd_host.toml" with "conv_bwd_host.c" "host.h" "tile_host.h" "conv_host.h";
    "conv_wrw_host.toml" with "conv_wrw_host.c" "host.h" "tile_host.h" "conv_host.h";
    "gemm_host.toml" with "gemm_host.c" "host.h" "tile_host.h";
    "conv_fwd_gpu.toml" with "conv_fwd_gpu.hip" "tile_spaces_gpu.toml" "prelude.h" "tile_operands_gpu.hip" "conv_operands_gpu.hip"
        "vector_tile_gpu.hip" "slice_mover_gpu.hip" "matrix_tile_gpu.hip" "warpgroup_gpu.hip"
        "warpgroup_sums_gpu.hip" "warpgroup_tile_gpu.hip"
        "tensor_copy_gpu.hip" "stream_tile_gpu.hip" "conv_stream_gpu.hip" "conv_channels_gpu.hip";
    "conv_bwd_gpu.toml" with "conv_bwd_gpu.hip" "tile_spaces_gpu.toml" "prelude.h" "tile_operands_gpu.hip" "conv_operands_gpu.hip"
        "vector_tile_gpu.hip" "slice_mover_gpu.hip" "matrix_tile_gpu.hip" "warpgroup_gpu.hip"
        "warpgroup_sums_gpu.hip" "warpgroup_tile_gpu.hip"
        "tensor_copy_gpu.hip" "stream_tile_gpu.hip" "conv_stream_gpu.hip" "conv_channels_gpu.hip";
    "conv_wrw_gpu.toml" with "conv_wrw_gpu.hip" "tile_spaces_gpu.toml" "prelude.h" "tile_operands_gpu.hip" "conv_operands_gpu.hip" "conv_channels_gpu.hip"
        "vector_tile_gpu.hip" "slice_mover_gpu.hip" "matrix_tile_gpu.hip" "warpgroup_gpu.hip"
        "warpgroup_sums_gpu.hip" "warpgroup_tile_gpu.hip";
    "gemm_gpu.toml" with "gemm_gpu.hip" "tile_spaces_gpu.toml" "prelude.h" "tile_operands_gpu.hip" "vector_tile_gpu.hip"
        "slice_mover_gpu.hip" "matrix_tile_gpu.hip" "warpgroup_gpu.hip"
        "warpgroup_sums_gpu.hip" "warpgroup_tile_gpu.hip" "tensor_copy_gpu.hip" "stream_tile_gpu.hip";
}
