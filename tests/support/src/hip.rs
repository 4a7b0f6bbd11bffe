//! A machine with AMD GPUs that are not there: the stand-in for HIP, set up in a folder of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

pub use hip_stand_in::Code;
use hip_stand_in::devices::{Gpu, uuid};
use hip_stand_in::faults::FaultFile;
pub use hip_stand_in::faults::{Effect, Fault, Place};
use hip_stand_in::{SYMBOLS, topology, variables};
use tempfile::TempDir;

/// Bytes of memory of each GPU.
const MEMORY: u64 = 1 << 30;

/// Machines of a process that can be told apart.
const MACHINES: u16 = 16;

/// GPUs, and faults in them.
pub struct HipMachine {
    folder: TempDir,
    number: u16,
    gpus: String,
    faults: FaultFile,
}

impl HipMachine {
    /// A machine with `gpus`, as targets: `gfx90a-104,gfx942-304`.
    pub fn new(gpus: &str) -> Self {
        let list = Gpu::list(gpus).unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let number = number();
        topology::write(&folder.path().join("topology"), number, &list, MEMORY).expect("the topology can be written");
        let faults = FaultFile::at(folder.path().join("faults"));
        Self { folder, number, gpus: gpus.to_string(), faults }
    }

    /// The UUID of the GPU at `index`.
    pub fn uuid(&self, index: usize) -> String {
        format!("GPU-{}", uuid(self.number, index))
    }

    /// What a process needs in its environment to see this machine's GPUs.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("BLUEFIN_HIP_LIBRARY", library().into()),
            ("BLUEFIN_KFD_TOPOLOGY", self.folder.path().join("topology").into()),
            (variables::DEVICES, OsString::from(&self.gpus)),
            (variables::MACHINE, self.number.to_string().into()),
            (variables::MEMORY, MEMORY.to_string().into()),
            (variables::FAULTS, self.faults.path().into()),
        ]
    }

    /// Replaces all faults, from the next call of any process on.
    pub fn set_faults(&self, faults: &[Fault]) {
        self.faults.set(faults).expect("the faults can be written");
    }

    /// How often a fault has hit, in all processes together.
    pub fn hits(&self, fault: &Fault) -> u64 {
        self.faults.hits(fault).expect("the hits can be read")
    }

    /// A library that loads and exports all entry points but `missing`; each returns 0 and does nothing.
    pub fn library_without(&self, missing: &str) -> PathBuf {
        let kept = SYMBOLS.iter().filter(|symbol| **symbol != missing);
        let source: String = kept.map(|symbol| format!("int {symbol}(void) {{ return 0; }}\n")).collect();
        let library = self.folder.path().join(format!("libamdhip64-without-{missing}.so"));
        let file = self.folder.path().join("entry_points.c");
        std::fs::write(&file, source).expect("a source can be written");
        let mut cc = Command::new("cc");
        let status = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).status();
        assert!(status.expect("the tests need a C compiler called cc").success());
        library
    }

    /// A folder for whatever belongs to this machine.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Of a new machine: who works on a GPU keeps it from all other processes of the host, also from tests that run at the same time. Those of
/// other slots of the test runner are in other processes. No more numbers than that: each leaves files behind.
fn number() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // A test that runs itself again on a machine means that one.
    if let Some(own) = std::env::var(variables::MACHINE).ok().and_then(|number| number.parse().ok()) {
        return own;
    }
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse().ok()).unwrap_or(0_u16);
    slot.wrapping_mul(MACHINES).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed) % MACHINES)
}

/// The stand-in, which cargo builds with every test that depends on this crate.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a process knows its program");
    let folders = test.ancestors().skip(1).take(2);
    let mut places = folders.flat_map(|folder| [folder.join("libamdhip64.so"), folder.join("deps/libamdhip64.so")]);
    places.find(|place| place.is_file()).unwrap_or_else(|| panic!("no libamdhip64.so beside {}", test.display()))
}
