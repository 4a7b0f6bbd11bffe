//! A folder of one test, with the databases that MIOpen ships, or small ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bluefin_miopen::db::perf_db::PerfDb;

pub const FIND: &str =
    "64-56-56-1x1-64-56-56-16-0x0-1x1-1x1-0-NCHW-FP32-F=ConvAsm1x1U:0.05,0,miopenConvolutionFwdAlgoDirect\n";
pub const PERF: &str = "2x64x56x56x1x1x1x1x64x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm1x1U:1,16,1,64,2,1,1,4\n";

pub struct Here {
    folder: tempfile::TempDir,
}

impl Here {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// `bluefin` in this folder, with a home in it and none of the variables that it reads.
    pub fn bluefin(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bluefin"));
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("BLUEFIN_") || name.starts_with("MIOPEN_"))
        {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path()).env("HOME", self.path("home")).args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.bluefin(arguments).output().unwrap()
    }

    /// Standard output of a run that must end with `code`.
    pub fn ends(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (text, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}{error}");
        format!("{text}{error}")
    }

    pub fn json(&self, code: i32, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Puts a shipped database, unpacked, into the folder.
    pub fn shipped(&self, name: &str, to: &str) -> PathBuf {
        self.write(to, bluefin_test_support::data(&format!("miopen/{name}")))
    }

    /// Puts every fourth record of what MIOpen ships for gfx942 into `db`: what is done dozens of times takes a part of it.
    pub fn shipped_part(&self) -> [PathBuf; 2] {
        let find = bluefin_test_support::data_text("miopen/gfx942130.HIP.fdb.txt");
        let lines: String = find.lines().step_by(4).map(|line| format!("{line}\n")).collect();
        let find = self.write("db/gfx942130.HIP.fdb.txt", lines);
        let mut db = PerfDb::parse_sqlite("shipped", &bluefin_test_support::data("miopen/gfx942130.db")).unwrap();
        db.records = db.records.into_iter().step_by(4).collect();
        let perf = self.write("db/gfx942130.db", "");
        db.write_sqlite(&perf).unwrap();
        [find, perf]
    }

    /// A ROCm of this version, whose MIOpen has a build hash.
    pub fn rocm(&self, rocm: &str, miopen: [u32; 3]) -> PathBuf {
        let [major, minor, patch] = miopen;
        self.write("rocm/.info/version", format!("{rocm}-66\n"));
        let header = format!(
            "#define MIOPEN_VERSION_MAJOR {major}\n#define MIOPEN_VERSION_MINOR {minor}\n\
             #define MIOPEN_VERSION_PATCH {patch}\n#define MIOPEN_VERSION_TWEAK 2d1fd997\n"
        );
        self.write("rocm/include/miopen/version.h", header);
        self.path("rocm")
    }
}

/// Names and contents of the files of a folder, less those that begin with a dot.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let named =
        |path: PathBuf| (path.file_name().unwrap().to_str().unwrap().to_string(), std::fs::read(&path).unwrap());
    let mut files: Vec<_> = paths.map(named).filter(|(name, _)| !name.starts_with('.')).collect();
    files.sort();
    files
}

pub fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}
