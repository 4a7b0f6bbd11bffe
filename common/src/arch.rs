//! What bluefin knows of GPU architectures: one table with a row for each ([`table`]). A new architecture is a new row. No
//! other file looks at what the name of an architecture begins with.

mod families;
mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

pub use table::ROWS;

use crate::value::Value;

/// Who makes a GPU, which decides the interface that runs its code (HIP, CUDA) and how code is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// HIP.
    Amd,
    /// CUDA.
    Nvidia,
}

impl Vendor {
    /// As kernel specs write it: `amd`, `nvidia`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Amd => "amd",
            Self::Nvidia => "nvidia",
        }
    }
}

/// A family of matrix instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixUnit {
    /// `v_mfma_*` of AMD's CDNA.
    Mfma,
    /// `v_wmma_*` of AMD's RDNA.
    Wmma,
    /// `mma.sync` of PTX, by a warp.
    Mma,
    /// `wgmma.mma_async` of PTX, by four warps.
    Wgmma,
    /// `tcgen05.mma` of PTX, with its sums in tensor memory.
    Tcgen05,
}

/// The type of the elements that a matrix instruction multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// IEEE 754 binary64.
    Fp64,
    /// IEEE 754 binary32.
    Fp32,
    /// 10 bits of mantissa in 32 bits: TF32 (NVIDIA), XF32 (AMD).
    Tf32,
    /// IEEE 754 binary16.
    Fp16,
    /// The upper half of a binary32.
    Bf16,
    /// Both types of 8 bits, encoded as [`Architecture::fp8`] says.
    Fp8,
    /// Signed, 8 bits.
    Int8,
}

/// Matrix instructions of one type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Which instructions.
    pub unit: MatrixUnit,
    /// What they multiply.
    pub operand: Operand,
    /// M, N and K. Of `wgmma` and `tcgen05`, whose N is a choice, the largest.
    pub shapes: &'static [[u16; 3]],
}

/// The best way to copy from memory into shared memory without registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AsyncCopy {
    /// None that bluefin's kernels could use.
    None,
    /// Up to 16 bytes a thread: `cp.async`.
    Threads,
    /// Whole tiles that a description lays out: `cp.async.bulk.tensor`.
    Tensors,
}

/// How FP8 and BF8 are encoded where matrix instructions take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fp8 {
    /// As the Open Compute Project's "8-bit Floating Point Specification" has it; where the hardware has none, that is what
    /// software has.
    Ocp,
    /// Without infinities and without -0, with a bias one larger.
    Fnuz,
}

/// The releases of CUDA whose compiler knows an architecture: major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaReleases {
    /// The first one.
    pub first: (u16, u16),
    /// The last one, if that is known.
    pub last: Option<(u16, u16)>,
}

/// A row of the table, or what the members of a family have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// As compilers name it; of a family what the names of its members begin with.
    pub name: &'static str,
    /// GPUs that people buy, in lower case without blanks and hyphens, each with its compute units as a target counts them
    /// ([`Self::cus_of_unit`]). The first one is the usual one.
    pub products: &'static [(&'static str, u32)],
    /// Who makes it.
    pub vendor: Vendor,
    /// As its vendor calls it.
    pub family: &'static str,
    /// Threads that run in lockstep; the first one is what compilers take.
    pub waves: &'static [u32],
    /// Shared memory (LDS) that a block may have, in bytes.
    pub shared_memory: u32,
    /// Registers of 32 bits that a thread may have for whatever it likes.
    pub registers: u32,
    /// Its matrix instructions.
    pub matrix: &'static [Matrix],
    /// How data gets into shared memory.
    pub async_copy: AsyncCopy,
    /// What FP8 is.
    pub fp8: Fp8,
    /// Dies that blocks go to in turn, each with an L2 cache of its own.
    pub xcds: u32,
    /// The cache behind L2 that no attribute of a device tells of (AMD's Infinity Cache), in bytes.
    pub memory_side_cache: u64,
    /// Compute units in what HIP, MIOpen and a target count as one: 2 where a work-group processor is one. KFD counts compute
    /// units. (MIOpen `handle.hpp`, `GetMaxHardwareComputeUnits`)
    pub cus_of_unit: u32,
    /// `EF_AMDGPU_MACH` of code objects (LLVM `ELF.h`); `None` for NVIDIA's, whose driver knows its own.
    pub machine: Option<u32>,
    /// The features that MIOpen's kernels are built for, behind the name of the architecture.
    pub miopen_features: &'static str,
    /// A number of compute units, and how many or fewer take the databases of that instead, where MIOpen looks for the nearest. (MIOpen 3.6,
    /// the search for a system database)
    pub miopen_instead: Option<(u32, u32)>,
    /// What a compiler puts behind the name for instructions that this architecture alone has.
    pub suffix: &'static str,
    /// The version of PTX that clang is told to write, times ten: the first one that has the architecture, or a later one. clang 22 takes an older one
    /// by itself, and refuses that. `None`: it is told none.
    pub ptx: Option<u16>,
    /// The first clang that knows it. What is older than 15 is written as 15. `None`: no row, so nobody knows.
    pub clang: Option<u16>,
    /// The nvcc that knows it.
    pub nvcc: Option<CudaReleases>,
    /// The first Triton that compiles for it, none before 3.3, the oldest that is tried. `None`: none is known to.
    pub triton: Option<(u16, u16)>,
}

/// Variables of kernel specs that say what an architecture has. `targets` of a spec may name those that begin with `has_`.
pub const FEATURES: [&str; 13] = [
    "vendor",
    "shared_memory",
    "registers",
    "xcds",
    "has_mma",
    "has_mfma",
    "has_wide_mfma",
    "has_wmma",
    "has_wgmma",
    "has_async_copy",
    "has_tensor_copy",
    "has_tf32",
    "has_fp8",
];

/// What the variables of [`FEATURES`] are on the CPU.
fn on_host(feature: &str) -> Value {
    match feature {
        "vendor" => Value::from("host"),
        "shared_memory" | "registers" => Value::Int(0),
        "xcds" => Value::Int(1),
        _ => Value::Bool(false),
    }
}

impl Architecture {
    /// Whether it has a row of its own, and is not what a family has in common.
    #[must_use]
    pub fn has_row(&self) -> bool {
        self.clang.is_some()
    }

    /// Whether no family in the table has it either, so that it is but some GPU of its vendor.
    #[must_use]
    pub fn is_strange(&self) -> bool {
        ["gfx", "sm_"].contains(&self.name)
    }

    /// Threads that run in lockstep where a kernel does not choose.
    #[must_use]
    pub fn wave(&self) -> u32 {
        self.waves.first().copied().unwrap_or(1)
    }

    /// Compute units of the usual GPU.
    #[must_use]
    pub fn usual_units(&self) -> Option<u32> {
        self.products.first().map(|(_, units)| *units)
    }

    /// Whether it has matrix instructions for such elements.
    #[must_use]
    pub fn has(&self, operand: Operand) -> bool {
        self.matrix.iter().any(|matrix| matrix.operand == operand)
    }

    fn multiplies(&self, unit: MatrixUnit, operand: Operand, shape: [u16; 3]) -> bool {
        self.matrix
            .iter()
            .any(|matrix| matrix.unit == unit && matrix.operand == operand && matrix.shapes.contains(&shape))
    }

    /// The value of a variable of [`FEATURES`]; `None` for another name.
    #[must_use]
    pub fn feature(&self, name: &str) -> Option<Value> {
        let any = |unit: MatrixUnit| self.matrix.iter().any(|matrix| matrix.unit == unit);
        Some(match name {
            "vendor" => Value::from(self.vendor.name()),
            "shared_memory" => Value::from(self.shared_memory),
            "registers" => Value::from(self.registers),
            "xcds" => Value::from(self.xcds),
            // The shapes that bluefin's kernels use.
            "has_mma" => Value::Bool(self.multiplies(MatrixUnit::Mma, Operand::Fp16, [16, 8, 16])),
            "has_mfma" => Value::Bool(
                self.multiplies(MatrixUnit::Mfma, Operand::Fp16, [32, 32, 8])
                    && self.multiplies(MatrixUnit::Mfma, Operand::Fp16, [16, 16, 16]),
            ),
            "has_wide_mfma" => Value::Bool(self.multiplies(MatrixUnit::Mfma, Operand::Fp16, [16, 16, 32])),
            "has_wmma" => Value::Bool(any(MatrixUnit::Wmma)),
            "has_wgmma" => Value::Bool(any(MatrixUnit::Wgmma)),
            "has_async_copy" => Value::Bool(self.async_copy >= AsyncCopy::Threads),
            "has_tensor_copy" => Value::Bool(self.async_copy >= AsyncCopy::Tensors),
            "has_tf32" => Value::Bool(self.has(Operand::Tf32)),
            "has_fp8" => Value::Bool(self.has(Operand::Fp8)),
            _ => return None,
        })
    }

    /// Which compilers of C++ know it, for people: `clang 20 or later, or nvcc 12.8 or later`.
    #[must_use]
    pub fn known_to_cpp(&self) -> String {
        let clang = self.clang.map(|major| format!("clang {major} or later"));
        let nvcc = self.nvcc.map(|releases| releases.to_string());
        let known: Vec<String> = clang.into_iter().chain(nvcc).collect();
        if known.is_empty() {
            "a later release of bluefin, whose table has it".to_string()
        } else {
            known.join(", or ")
        }
    }

    /// Whether Triton of that version compiles for it: if not, which one does, for people. One without a row is left to Triton.
    ///
    /// # Errors
    /// `Triton 3.3 or later`
    pub fn known_to_triton(&self, version: (u16, u16)) -> Result<(), String> {
        match self.triton {
            Some(first) if version < first => Err(format!("Triton {}.{} or later", first.0, first.1)),
            None if self.has_row() => Err("another architecture: no Triton compiles for this one".to_string()),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CudaReleases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.first;
        match self.last {
            Some((last, of)) => write!(f, "nvcc {major}.{minor} to {last}.{of}"),
            None => write!(f, "nvcc {major}.{minor} or later"),
        }
    }
}

/// Whether `name` is spelled as an architecture is: `gfx` or `sm_`, then 1 to 16 letters and digits.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix("gfx").or_else(|| name.strip_prefix("sm_"));
    let plain = |rest: &str| (1..=16).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    rest.is_some_and(plain)
}

/// Who makes what is called so. What follows the name, such as features (`gfx90a:xnack-`) or a base name's compute units,
/// does not matter.
#[must_use]
pub fn vendor(name: &str) -> Option<Vendor> {
    of(name).map(|arch| arch.vendor)
}

/// The row of `name`, or what the family that it belongs to has in common; `None` for what is no GPU's.
#[must_use]
pub fn of(name: &str) -> Option<&'static Architecture> {
    let row = ROWS.iter().find(|row| row.name == name);
    row.or_else(|| {
        let families = families::FAMILIES.iter().filter(|family| name.starts_with(family.name));
        families.max_by_key(|family| family.name.len())
    })
}

/// The architecture whose code objects say `machine` ([`Architecture::machine`]).
#[must_use]
pub fn of_machine(machine: u32) -> Option<&'static Architecture> {
    ROWS.iter().find(|row| row.machine == Some(machine))
}

/// The number of NVIDIA's architecture `name` (90 of `sm_90a`), and whether letters behind it say that code is for it alone.
#[must_use]
pub fn compute_capability(name: &str) -> Option<(u32, bool)> {
    let number = name.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    Some((digits.parse().ok()?, digits.len() < number.len()))
}

/// What Triton calls the architecture `name`: its backend, its number or name there, and the lanes of a warp.
#[must_use]
pub fn in_triton(name: &str) -> (String, String, u32) {
    let wave = of(name).map_or(1, Architecture::wave);
    match compute_capability(name) {
        Some((number, _)) => ("cuda".to_string(), number.to_string(), wave),
        None => ("hip".to_string(), name.to_string(), wave),
    }
}

/// The architecture that Triton calls so ([`in_triton`]); what follows an AMD name, such as `:xnack-`, does not matter.
#[must_use]
pub fn of_triton(backend: &str, name: &str) -> String {
    match backend {
        "cuda" => format!("sm_{name}"),
        _ => name.split(':').next().unwrap_or(name).to_string(),
    }
}

/// The architecture and the compute units of a GPU that people buy: `RTX 4090`, `mi300x`, `h100-pcie`.
#[must_use]
pub fn product(text: &str) -> Option<(&'static Architecture, u32)> {
    let plain: String =
        text.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    let products = ROWS.iter().flat_map(|row| row.products.iter().map(move |(name, units)| (row, *name, *units)));
    products.filter(|(_, name, _)| *name == plain).map(|(row, _, units)| (row, units)).next()
}

/// Where the name of the architecture ends that `text` begins with, as base names of MIOpen's databases do (`gfx90a68`): behind
/// the name of a row, else where names of its kind end.
#[must_use]
pub fn end_of_name(text: &str) -> Option<usize> {
    let row = ROWS.iter().filter(|row| text.starts_with(row.name)).map(|row| row.name.len()).max();
    row.or_else(|| match vendor(text)? {
        Vendor::Nvidia => Some(text.rfind('_').filter(|at| *at >= "sm_".len()).unwrap_or("sm_90".len())),
        // Four digits from the tenth generation on.
        Vendor::Amd if text.starts_with("gfx1") => Some("gfx1030".len()),
        Vendor::Amd => Some("gfx90a".len()),
    })
}

/// The value of a variable of [`FEATURES`] on `arch`, which may be `host`.
#[must_use]
pub fn feature(arch: &str, name: &str) -> Value {
    of(arch).and_then(|arch| arch.feature(name)).unwrap_or_else(|| on_host(name))
}

/// Whether `word` is a group of architectures that `targets` of a kernel spec may name: a vendor, or a feature that an
/// architecture has or has not.
#[must_use]
pub fn is_group(word: &str) -> bool {
    let vendor = [Vendor::Amd, Vendor::Nvidia].iter().any(|vendor| vendor.name() == word);
    vendor || FEATURES.iter().any(|feature| *feature == word && matches!(on_host(feature), Value::Bool(_)))
}

/// Whether `arch` is what `word` of a kernel spec's `targets` says: its name, its vendor, or a feature that it has. One of a family that
/// nobody knows is for specs that name it alone: what kernels take for granted may not be so there.
#[must_use]
pub fn is_meant(word: &str, arch: &str) -> bool {
    let Some(known) = of(arch).filter(|known| !known.is_strange()) else { return word == arch };
    word == arch || word == known.vendor.name() || known.feature(word) == Some(Value::Bool(true))
}

/// Says once in this process that `arch` has no row, and what it is taken for.
pub fn warn_of_unknown(arch: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(known) = of(arch).filter(|known| !known.has_row()) else { return };
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(arch.to_string()) {
        tracing::warn!("{}", said_of(arch, known));
    }
}

fn said_of(arch: &str, known: &Architecture) -> String {
    if known.is_strange() {
        return format!(
            "{arch} is not in bluefin's table of architectures, nor is a family that it could be of: kernel specs that name it \
             are for it, and no others"
        );
    }
    format!(
        "{arch} is not in bluefin's table of architectures; it is taken for what {}… have in common ({}): waves of {}, {} bytes \
         of shared memory, no kernels for instructions beyond those",
        known.name,
        known.family,
        known.wave(),
        known.shared_memory
    )
}

#[cfg(test)]
mod tests;
