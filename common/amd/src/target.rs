//! The targets: what differs between them besides the meaning of an instruction's name. A new one is a row of [`TARGETS`],
//! and whatever instructions it adds.

/// A family of instruction sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// gfx908 ("CDNA 1" instruction set document).
    Cdna1,
    /// gfx90a ("CDNA 2").
    Cdna2,
    /// gfx942 ("CDNA 3").
    Cdna3,
    /// gfx950 ("CDNA 4").
    Cdna4,
    /// gfx103x ("RDNA 2").
    Rdna2,
    /// gfx11 ("RDNA 3", "RDNA 3.5").
    Rdna3,
    /// gfx12 ("RDNA 4").
    Rdna4,
}

/// What code objects are executed for.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// As the compiler names it.
    pub name: &'static str,
    pub generation: Generation,
    /// EF_AMDGPU_MACH of the ELF header.
    pub(crate) machine: u32,
    /// Lanes of a wave where the kernel does not say otherwise.
    pub(crate) lanes: u32,
    /// LDS that a block may have.
    pub lds_bytes: u32,
    /// Where scratch is, is known to the hardware; otherwise a kernel gets it in user SGPRs and adds the wave's offset.
    pub(crate) architected_scratch: bool,
    /// Stores have a counter of their own (`vscnt`).
    pub(crate) counts_stores: bool,
    /// A 16-bit result clears the upper half of its register.
    pub(crate) clears_upper_half: bool,
    /// The three numbers of a thread are in one register, 10 bits each.
    pub(crate) packed_ids: bool,
}

const CDNA: Target = Target {
    name: "",
    generation: Generation::Cdna2,
    machine: 0,
    lanes: 64,
    lds_bytes: 65_536,
    architected_scratch: false,
    counts_stores: false,
    clears_upper_half: true,
    packed_ids: true,
};

const RDNA: Target = Target {
    generation: Generation::Rdna3,
    lanes: 32,
    architected_scratch: true,
    counts_stores: true,
    clears_upper_half: false,
    ..CDNA
};

/// All targets. The machine is EF_AMDGPU_MACH of LLVM's `ELF.h`.
pub static TARGETS: [Target; 10] = [
    Target { name: "gfx90a", machine: 0x3f, ..CDNA },
    Target { name: "gfx942", generation: Generation::Cdna3, machine: 0x4c, architected_scratch: true, ..CDNA },
    Target { name: "gfx1100", machine: 0x41, ..RDNA },
    Target {
        name: "gfx950",
        generation: Generation::Cdna4,
        machine: 0x4f,
        architected_scratch: true,
        lds_bytes: 163_840,
        ..CDNA
    },
    Target { name: "gfx1201", generation: Generation::Rdna4, machine: 0x4e, ..RDNA },
    Target { name: "gfx1200", generation: Generation::Rdna4, machine: 0x48, ..RDNA },
    Target { name: "gfx908", generation: Generation::Cdna1, machine: 0x30, packed_ids: false, ..CDNA },
    Target {
        name: "gfx1030",
        generation: Generation::Rdna2,
        machine: 0x36,
        architected_scratch: false,
        packed_ids: false,
        ..RDNA
    },
    Target { name: "gfx1150", machine: 0x43, ..RDNA },
    Target { name: "gfx1151", machine: 0x4a, ..RDNA },
];

impl Target {
    /// The target that the compiler calls so, features (`:xnack-`) aside.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = name.split(':').next().unwrap_or_default();
        TARGETS.iter().find(|target| target.name == plain)
    }

    pub(crate) fn of_machine(machine: u32) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.machine == machine)
    }

    /// What `lgkmcnt` counts up to.
    pub(crate) fn most_scalar(&self) -> usize {
        if self.is_gfx9() { 15 } else { 63 }
    }

    /// FP8 and BF8 are those of the Open Compute Project.
    pub(crate) fn has_ocp(&self) -> bool {
        matches!(self.generation, Generation::Cdna4 | Generation::Rdna4)
    }

    /// What is written is seen by other blocks only after it was written back (`buffer_wbl2`).
    pub(crate) fn writes_back(&self) -> bool {
        matches!(self.generation, Generation::Cdna3 | Generation::Cdna4)
    }

    pub(crate) fn is_gfx9(&self) -> bool {
        use Generation::{Cdna1, Cdna2, Cdna3, Cdna4};
        matches!(self.generation, Cdna1 | Cdna2 | Cdna3 | Cdna4)
    }

    /// A buffer descriptor has one bit for its swizzle ("Buffer resource descriptor", RDNA 2 and before).
    pub(crate) fn swizzles_by_a_bit(&self) -> bool {
        self.is_gfx9() || self.generation == Generation::Rdna2
    }

    /// What messages call a counter of gfx9's by: gfx12 has others ("S_WAIT_*CNT", RDNA 4). `scalar`: it is a scalar load that is waited for.
    pub(crate) fn counter(&self, name: &'static str, scalar: bool) -> &'static str {
        match name {
            _ if self.generation != Generation::Rdna4 => name,
            "vmcnt" => "loadcnt",
            "lgkmcnt" if scalar => "kmcnt",
            "lgkmcnt" => "dscnt",
            name => name,
        }
    }

    /// Vector registers of an operand that has several begin at an even one.
    pub(crate) fn aligns_vgprs(&self) -> bool {
        self.is_gfx9() && self.generation != Generation::Cdna1
    }
}
