//! Compilers, and launches with buffers.

use std::process::Command;

use bluefin_amd::{Failure, Generation, Launch, Memory, Options, Program, Report, TARGETS, Target, Verdict};

const CLANGS: [&str; 2] = ["clang-19", "clang"];

/// A clang that compiles for AMD GPUs, if one is here.
pub struct Tools {
    clang: &'static str,
}

impl Tools {
    /// `None`, said aloud, where something is missing.
    pub fn find() -> Option<Self> {
        let version = |name: &str| Command::new(name).arg("--version").output();
        let works = |name: &&str| version(name).is_ok_and(|output| output.status.success());
        let clang = CLANGS.into_iter().find(works);
        if clang.is_none() {
            // In CI it is there.
            assert!(std::env::var_os("CI").is_none(), "no clang");
            println!("SKIP: no clang");
        }
        Some(Self { clang: clang? })
    }

    /// Compiles HIP-dialect C++, or assembles, or compiles LLVM's intermediate text, where the name ends so.
    pub fn compile(&self, name: &str, source: &str, target: &Target, flags: &[&str]) -> Vec<u8> {
        let files = [(name.to_string(), source.to_string())];
        self.compile_files(&files, name, target, &flags.iter().map(|flag| flag.to_string()).collect::<Vec<_>>())
    }

    /// Compiles `name`, which is among `files`.
    pub fn compile_files<'a>(
        &self,
        files: impl IntoIterator<Item = &'a (String, String)>,
        name: &str,
        target: &Target,
        flags: &[String],
    ) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a source");
        }
        let output = folder.path().join("out");
        let mut command = Command::new(self.clang);
        if name.ends_with(".s") || name.ends_with(".ll") {
            command
                .arg("-O3")
                .args(["-target", "amdgcn-amd-amdhsa", "-nogpulib"])
                .arg(format!("-mcpu={}", target.name));
        } else {
            command.args([
                "-x",
                "hip",
                "--offload-device-only",
                "-O3",
                "--no-gpu-bundle-output",
                "-nogpulib",
                "-nogpuinc",
                "-w",
            ]);
            command.arg(format!("--offload-arch={}", target.name));
        }
        let made =
            command.args(flags).arg(folder.path().join(name)).arg("-o").arg(&output).output().expect("clang runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::read(output).expect("the code object")
    }

    pub fn load(&self, bytes: &[u8], target: &'static Target) -> Program {
        Program::load(bytes, target).expect("a program")
    }

    pub fn program(&self, source: &str, target: &'static Target) -> Program {
        self.load(&self.compile("kernel.hip", source, target, &[]), target)
    }
}

/// Arguments with their natural alignment.
#[derive(Default)]
pub struct Arguments(Vec<u8>);

impl Arguments {
    fn push(mut self, bytes: &[u8]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend(bytes);
        self
    }

    pub fn pointer(self, address: u64) -> Self {
        self.push(&address.to_le_bytes())
    }

    pub fn int(self, value: i32) -> Self {
        self.push(&value.to_le_bytes())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

pub fn floats(memory: &mut Memory, name: &str, values: &[f32]) -> u64 {
    let address = memory.allocate(name, values.len() * 4, 4);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    memory.write(address, &bytes).expect("a buffer");
    address
}

pub fn dwords(memory: &Memory, address: u64, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    memory.read(address, &mut bytes).expect("a buffer");
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

pub fn read_floats(memory: &Memory, address: u64, count: usize) -> Vec<f32> {
    dwords(memory, address, count).into_iter().map(f32::from_bits).collect()
}

/// A launch of one row of blocks.
pub fn launch<'a>(kernel: &'a str, blocks: u32, threads: u32, arguments: &'a Arguments) -> Launch<'a> {
    Launch { kernel, grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_lds: 0, arguments: arguments.bytes() }
}

pub fn run(program: &Program, memory: &mut Memory, launch: &Launch<'_>, seed: u64) -> Report {
    let options = Options { seed, ..Options::default() };
    match program.run(memory, launch, &options) {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    }
}

pub fn verdict(program: &Program, memory: &mut Memory, launch: &Launch<'_>) -> Verdict {
    let options = Options { seed: 1, max_instructions: 1_000_000, ..Options::default() };
    match program.run(memory, launch, &options) {
        Err(Failure::Verdict(verdict)) => *verdict,
        other => panic!("expected a verdict, found {other:?}"),
    }
}

/// The targets that the assembly of these tests is written for.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().take(3)
}

/// The targets that clang 19 compiles for.
pub fn compiled_targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().filter(|target| target.generation != Generation::Cdna4)
}
