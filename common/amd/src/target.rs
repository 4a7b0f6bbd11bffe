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
}

/// All targets.
pub static TARGETS: [Target; 3] = [
    Target {
        name: "gfx90a",
        generation: Generation::Cdna2,
        machine: 0x3f,
        lanes: 64,
        lds_bytes: 65_536,
        architected_scratch: false,
        counts_stores: false,
        clears_upper_half: true,
    },
    Target {
        name: "gfx942",
        generation: Generation::Cdna3,
        machine: 0x4c,
        lanes: 64,
        lds_bytes: 65_536,
        architected_scratch: true,
        counts_stores: false,
        clears_upper_half: true,
    },
    Target {
        name: "gfx1100",
        generation: Generation::Rdna3,
        machine: 0x41,
        lanes: 32,
        lds_bytes: 65_536,
        architected_scratch: true,
        counts_stores: true,
        clears_upper_half: false,
    },
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

    pub(crate) fn is_gfx9(&self) -> bool {
        use Generation::{Cdna1, Cdna2, Cdna3, Cdna4};
        matches!(self.generation, Cdna1 | Cdna2 | Cdna3 | Cdna4)
    }

    /// Vector registers of an operand that has several begin at an even one.
    pub(crate) fn aligns_vgprs(&self) -> bool {
        self.is_gfx9() && self.generation != Generation::Cdna1
    }
}
