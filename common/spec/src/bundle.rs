//! Bundles from disk, and those that bluefin ships.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind::InvalidData, Read as _};
use std::path::Path;

use bluefin_common::child_file::{self, ChildFileError};

use crate::Bundle;
use crate::error::SpecError;
use crate::format::RawSpec;
use crate::rules::CLANG;
use crate::shim::{self, Dialect};

/// Largest spec, in bytes.
const MAX_TOML: u64 = 256 << 10;
/// Largest source or include, in bytes.
const MAX_FILE: u64 = 2 << 20;
/// Most files of a bundle beside the spec.
pub(super) const MAX_FILES: usize = 32;
const MAX_NAME: usize = 128;

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
    /// What cannot be read, is too large, is not UTF-8, or is not a file beside the spec.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let toml = read_text(path, MAX_TOML)?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let fail = |path: &Path, source| SpecError::Read { path: path.to_path_buf(), source };
        // Whoever names a spec may do so through links; what the spec names is beside it.
        let real = folder.canonicalize().map_err(|source| fail(folder, source))?;
        let mut files = BTreeMap::new();
        let spec = RawSpec::parse(&toml)?;
        for name in file_names(&spec)? {
            let beside = folder.join(&name);
            let shared = SHARED.iter().find(|(shared, _)| *shared == name);
            let bytes = match (child_file::read(&real, &name, MAX_FILE), shared) {
                (Err(ChildFileError::Missing { .. }), Some((_, text))) => text.as_bytes().to_vec(),
                (Err(error), _) => return Err(fail(&beside, error.into())),
                (Ok(bytes), _) => bytes,
            };
            let text = String::from_utf8(bytes).map_err(|error| fail(&beside, io::Error::new(InvalidData, error)))?;
            files.insert(name, text);
        }
        if spec.toolchain == CLANG {
            shim::complete(&mut files, &spec.source);
        }
        let bundle = Self { toml, files };
        bundle.check_size()?;
        Ok(bundle)
    }

    /// What its files are written in, if they include headers of HIP or CUDA, which bluefin's shim stands in for.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        shim::dialect(&self.files)
    }

    /// What its files include of other folders, where a spec has no files, so that it was left out.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        shim::left_out(&self.files)
    }

    /// The kernels that bluefin ships.
    #[must_use]
    pub fn shipped() -> Vec<Self> {
        let text = |files: &[(&str, &str)]| {
            files.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect::<BTreeMap<_, _>>()
        };
        SHIPPED.iter().map(|(toml, files)| Self { toml: (*toml).to_string(), files: text(files) }).collect()
    }

    /// The matrix product in Triton, whose problems are those of `bluefin tune-gemm`.
    #[must_use]
    pub fn gemm_in_triton() -> Self {
        let files = [("gemm.py".to_string(), kernel_file!("triton/gemm.py").to_string())];
        Self { toml: kernel_file!("triton/gemm.toml").to_string(), files: files.into() }
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
        }
        within("kernel spec with its files", self.files.values().map(String::len).sum(), 4 * MAX_FILE)
    }
}

/// Source, includes and the file of spaces, in the order in which they are named.
pub(super) fn file_names(spec: &RawSpec) -> Result<Vec<String>, SpecError> {
    let named = [&spec.source].into_iter().chain(&spec.includes).chain(&spec.spaces);
    let names: Vec<String> = named.take(MAX_FILES + 1).cloned().collect();
    names.iter().try_for_each(|name| check_name(name))?;
    Ok(names)
}

fn check_name(name: &str) -> Result<(), SpecError> {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if name.is_empty() || name.len() > MAX_NAME || name.starts_with(['.', '-']) || !plain {
        return Err(SpecError::FileName { found: name.chars().take(MAX_NAME).collect() });
    }
    Ok(())
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
