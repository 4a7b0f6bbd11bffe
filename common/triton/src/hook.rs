//! What goes into a program by its environment: a folder first on `PYTHONPATH`, and what is asked of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bluefin_common::arch;
use serde_json::json;
use tempfile::TempDir;

use crate::error::Error;

const PATHS: &str = "PYTHONPATH";
const ASKED: &str = "BLUEFIN_TRITON";
const FILES: [(&str, &str); 14] = [
    ("sitecustomize.py", include_str!("hook/sitecustomize.py")),
    ("bluefin_triton.py", include_str!("hook/bluefin_triton.py")),
    ("bluefin_tuners.py", include_str!("hook/bluefin_tuners.py")),
    ("bluefin_capture.py", include_str!("hook/bluefin_capture.py")),
    ("bluefin_buffers.py", include_str!("hook/bluefin_buffers.py")),
    ("bluefin_hooks.py", include_str!("hook/bluefin_hooks.py")),
    ("bluefin_roles.py", include_str!("hook/bluefin_roles.py")),
    ("bluefin_around.py", include_str!("hook/bluefin_around.py")),
    ("bluefin_sources.py", include_str!("hook/bluefin_sources.py")),
    ("bluefin_cache.py", include_str!("hook/bluefin_cache.py")),
    ("bluefin_jit.py", include_str!("hook/bluefin_jit.py")),
    ("bluefin_inductor.py", include_str!("hook/bluefin_inductor.py")),
    ("bluefin_templates.py", include_str!("hook/bluefin_templates.py")),
    ("bluefin_apply.py", include_str!("hook/bluefin_apply.py")),
];

/// What of a tensor's elements is kept; of the rest mean and spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// All.
    All,
    /// Integers and bools: indices, masks.
    #[default]
    Integers,
    /// Nothing.
    Nothing,
}

impl Contents {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Integers => "integers",
            Self::Nothing => "none",
        }
    }
}

/// What a hook does.
#[derive(Clone, Copy, Debug)]
pub enum Mode<'a> {
    /// Writes down what is tuned, and with `jit` what is launched without an autotuner as well, into a folder that is there.
    Capture { folder: &'a Path, contents: Contents, jit: bool },
    /// Gives autotuners what was found, or `gives` them nothing, and writes down into `folder` what it gave, and, with `times`, how long
    /// launches took.
    Apply { tuned: &'a Path, gives: bool, folder: &'a Path, times: bool },
}

/// The files of the hook, for as long as a program needs them.
#[derive(Debug)]
pub struct Hook(TempDir);

impl Hook {
    /// Writes them.
    ///
    /// # Errors
    /// They can not be written.
    pub fn new() -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("bluefin-triton-").tempdir();
        let folder = folder.map_err(|source| Error::file(std::env::temp_dir(), source))?;
        for (name, text) in FILES {
            let path = folder.path().join(name);
            std::fs::write(&path, text).map_err(|source| Error::file(&path, source))?;
        }
        Ok(Self(folder))
    }

    /// The environment of a program that is to have it. Paths are those of this process, made absolute.
    ///
    /// # Errors
    /// The working directory is not known.
    pub fn environment(&self, mode: Mode<'_>) -> Result<[(&'static str, OsString); 2], Error> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(|source| Error::file(path, source));
        let asked = match mode {
            Mode::Capture { folder, contents, jit } => {
                let gpus = arch::ROWS.iter().filter(|row| row.known_to_triton((u16::MAX, 0)).is_ok());
                let gpus = gpus.map(|row| (row.name, arch::in_triton(row.name))).collect::<Vec<_>>();
                json!({
                    "mode": "capture", "folder": absolute(folder)?, "contents": contents.name(), "jit": jit, "gpus": gpus,
                })
            }
            Mode::Apply { tuned, gives, folder, times } => {
                let (tuned, folder) = (absolute(tuned)?, absolute(folder)?);
                json!({ "mode": "apply", "tuned": tuned, "gives": gives, "folder": folder, "times": times })
            }
        };
        let before = std::env::var_os(PATHS).filter(|paths| !paths.is_empty());
        let paths = std::iter::once(self.0.path().to_path_buf());
        let paths = paths.chain(before.iter().flat_map(std::env::split_paths)).collect::<Vec<PathBuf>>();
        let paths =
            std::env::join_paths(paths).map_err(|error| Error::file(self.0.path(), std::io::Error::other(error)))?;
        Ok([(PATHS, paths), (ASKED, asked.to_string().into())])
    }
}
