//! What each family of architectures has in common: a constant for each, and for what several share. Sources are those of the table.

use super::MatrixUnit::{Mfma, Mma, Tcgen05, Wgmma, Wmma};
use super::Operand::{Bf16, Fp8 as Float8, Fp16, Fp32, Fp64, Int8, Tf32};
use super::{Architecture, AsyncCopy, CudaReleases, Fp8, Matrix, MatrixUnit, Operand, Vendor};

pub(super) const MIB: u64 = 1 << 20;

pub(super) const fn matrix(unit: MatrixUnit, operand: Operand, shapes: &'static [[u16; 3]]) -> Matrix {
    Matrix { unit, operand, shapes }
}

pub(super) const fn cuda(major: u16, minor: u16) -> Option<CudaReleases> {
    Some(CudaReleases { first: (major, minor), last: None })
}

/// CUDA 13 no longer compiles for what is older than Turing.
pub(super) const fn cuda_until_12(major: u16, minor: u16) -> Option<CudaReleases> {
    Some(CudaReleases { first: (major, minor), last: Some((12, 9)) })
}

pub(super) const TRITON: Option<(u16, u16)> = Some((3, 3));

// ---- Families of AMD

pub(super) const AMD: Architecture = Architecture {
    name: "gfx",
    products: &[],
    vendor: Vendor::Amd,
    family: "AMD",
    waves: &[64],
    shared_memory: 65_536,
    registers: 256,
    matrix: &[],
    async_copy: AsyncCopy::None,
    fp8: Fp8::Ocp,
    xcds: 1,
    memory_side_cache: 0,
    cus_of_unit: 1,
    machine: None,
    miopen_features: ":sram-ecc+:xnack-",
    miopen_instead: None,
    suffix: "",
    ptx: None,
    clang: None,
    nvcc: None,
    triton: None,
};

pub(super) const GCN5: Architecture = Architecture { name: "gfx9", family: "GCN 5", ..AMD };

pub(super) const CDNA1: Architecture = Architecture {
    name: "gfx908",
    family: "CDNA",
    // And 256 accumulators, which only matrix instructions use.
    registers: 256,
    matrix: &[
        matrix(Mfma, Fp32, &[[32, 32, 2], [16, 16, 4]]),
        matrix(Mfma, Fp16, &[[32, 32, 8], [16, 16, 16]]),
        matrix(Mfma, Bf16, &[[32, 32, 4], [16, 16, 8]]),
        matrix(Mfma, Int8, &[[32, 32, 8], [16, 16, 16]]),
    ],
    triton: TRITON,
    ..GCN5
};

pub(super) const CDNA2: Architecture = Architecture {
    name: "gfx90a",
    family: "CDNA 2",
    registers: 512,
    matrix: &[
        matrix(Mfma, Fp64, &[[16, 16, 4]]),
        matrix(Mfma, Fp32, &[[32, 32, 2], [16, 16, 4]]),
        matrix(Mfma, Fp16, &[[32, 32, 8], [16, 16, 16]]),
        matrix(Mfma, Bf16, &[[32, 32, 8], [16, 16, 16]]),
        matrix(Mfma, Int8, &[[32, 32, 8], [16, 16, 16]]),
    ],
    ..CDNA1
};

pub(super) const CDNA3: Architecture = Architecture {
    name: "gfx94",
    family: "CDNA 3",
    matrix: &[
        matrix(Mfma, Fp64, &[[16, 16, 4]]),
        matrix(Mfma, Fp32, &[[32, 32, 2], [16, 16, 4]]),
        matrix(Mfma, Tf32, &[[32, 32, 4], [16, 16, 8]]),
        matrix(Mfma, Fp16, &[[32, 32, 8], [16, 16, 16]]),
        matrix(Mfma, Bf16, &[[32, 32, 8], [16, 16, 16]]),
        matrix(Mfma, Float8, &[[32, 32, 16], [16, 16, 32]]),
        matrix(Mfma, Int8, &[[32, 32, 16], [16, 16, 32]]),
    ],
    fp8: Fp8::Fnuz,
    xcds: 8,
    memory_side_cache: 256 * MIB,
    ..CDNA2
};

pub(super) const CDNA4: Architecture = Architecture {
    name: "gfx95",
    family: "CDNA 4",
    shared_memory: 163_840,
    matrix: &[
        matrix(Mfma, Fp64, &[[16, 16, 4]]),
        matrix(Mfma, Fp32, &[[32, 32, 2], [16, 16, 4]]),
        matrix(Mfma, Fp16, &[[32, 32, 8], [16, 16, 16], [32, 32, 16], [16, 16, 32]]),
        matrix(Mfma, Bf16, &[[32, 32, 8], [16, 16, 16], [32, 32, 16], [16, 16, 32]]),
        matrix(Mfma, Float8, &[[32, 32, 16], [16, 16, 32], [32, 32, 64], [16, 16, 128]]),
        matrix(Mfma, Int8, &[[32, 32, 16], [16, 16, 32], [32, 32, 32], [16, 16, 64]]),
    ],
    fp8: Fp8::Ocp,
    ..CDNA3
};

/// What all from the tenth generation on have: waves of 32 or 64, and work-group processors of two compute units.
pub(super) const RDNA: Architecture = Architecture {
    name: "gfx1",
    family: "RDNA",
    waves: &[32, 64],
    // As much as any has, so that no cache holds what is to be cold.
    memory_side_cache: 128 * MIB,
    cus_of_unit: 2,
    miopen_features: "",
    miopen_instead: None,
    ..AMD
};

pub(super) const RDNA1: Architecture =
    Architecture { name: "gfx101", family: "RDNA 1", memory_side_cache: 0, triton: TRITON, ..RDNA };

pub(super) const RDNA2: Architecture = Architecture { name: "gfx103", family: "RDNA 2", triton: TRITON, ..RDNA };

pub(super) const RDNA3: Architecture = Architecture {
    name: "gfx11",
    family: "RDNA 3",
    matrix: &[
        matrix(Wmma, Fp16, &[[16, 16, 16]]),
        matrix(Wmma, Bf16, &[[16, 16, 16]]),
        matrix(Wmma, Int8, &[[16, 16, 16]]),
    ],
    triton: TRITON,
    ..RDNA
};

pub(super) const RDNA3_5: Architecture = Architecture { name: "gfx115", family: "RDNA 3.5", ..RDNA3 };

/// Its later members are no RDNA, and share neither matrix instructions nor shared memory with it.
pub(super) const GFX12: Architecture = Architecture { name: "gfx12", family: "the twelfth generation", ..RDNA };

pub(super) const RDNA4: Architecture = Architecture {
    name: "gfx120",
    family: "RDNA 4",
    matrix: &[
        matrix(Wmma, Fp16, &[[16, 16, 16]]),
        matrix(Wmma, Bf16, &[[16, 16, 16]]),
        matrix(Wmma, Float8, &[[16, 16, 16]]),
        matrix(Wmma, Int8, &[[16, 16, 16]]),
    ],
    triton: TRITON,
    ..RDNA
};

// ---- Families of NVIDIA

pub(super) const NVIDIA: Architecture = Architecture {
    name: "sm_",
    products: &[],
    vendor: Vendor::Nvidia,
    family: "NVIDIA",
    waves: &[32],
    shared_memory: 49_152,
    registers: 255,
    matrix: &[],
    async_copy: AsyncCopy::None,
    fp8: Fp8::Ocp,
    xcds: 1,
    memory_side_cache: 0,
    cus_of_unit: 1,
    machine: None,
    miopen_features: "",
    miopen_instead: None,
    suffix: "",
    ptx: None,
    clang: None,
    nvcc: None,
    triton: None,
};

/// Volta and Turing.
pub(super) const SM_7: Architecture =
    Architecture { name: "sm_7", family: "Volta and Turing", shared_memory: 65_536, ..NVIDIA };

/// What Ampere and Ada have in common.
pub(super) const SM_8: Architecture = Architecture {
    name: "sm_8",
    family: "Ampere and Ada",
    shared_memory: 101_376,
    matrix: &[
        matrix(Mma, Fp64, &[[8, 8, 4]]),
        matrix(Mma, Tf32, &[[16, 8, 4], [16, 8, 8]]),
        matrix(Mma, Fp16, &[[16, 8, 8], [16, 8, 16]]),
        matrix(Mma, Bf16, &[[16, 8, 8], [16, 8, 16]]),
        matrix(Mma, Int8, &[[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
    ],
    async_copy: AsyncCopy::Threads,
    triton: TRITON,
    ..NVIDIA
};

/// The warp's instructions from Ada on.
pub(super) const MMA_WITH_FP8: &[Matrix] = &[
    matrix(Mma, Fp64, &[[8, 8, 4]]),
    matrix(Mma, Tf32, &[[16, 8, 4], [16, 8, 8]]),
    matrix(Mma, Fp16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Bf16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Float8, &[[16, 8, 16], [16, 8, 32]]),
    matrix(Mma, Int8, &[[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
];

/// Without what Hopper alone has.
pub(super) const SM_9: Architecture = Architecture {
    name: "sm_9",
    family: "Hopper",
    shared_memory: 232_448,
    matrix: MMA_WITH_FP8,
    async_copy: AsyncCopy::Tensors,
    ..SM_8
};

/// Blackwell of data centers, without what needs a name with a suffix.
pub(super) const SM_10: Architecture = Architecture { name: "sm_10", family: "Blackwell (data center)", ..SM_9 };

/// What was called sm_101 before CUDA 13.
pub(super) const SM_11: Architecture = Architecture { name: "sm_11", family: "Blackwell (Thor)", ..SM_9 };

pub(super) const SM_12: Architecture =
    Architecture { name: "sm_12", family: "Blackwell (workstation)", shared_memory: 101_376, ..SM_9 };

/// What an architecture without a row has: that of the longest name that its own begins with.
pub(super) static FAMILIES: [Architecture; 20] = [
    AMD,
    GCN5,
    CDNA3,
    CDNA4,
    RDNA,
    RDNA1,
    RDNA2,
    RDNA3,
    RDNA3_5,
    GFX12,
    RDNA4,
    NVIDIA,
    SM_7,
    SM_8,
    SM_9,
    SM_10,
    SM_11,
    SM_12,
    // Members of later steppings are what these are.
    Architecture { name: "gfx90a", ..CDNA2 },
    Architecture { name: "gfx908", ..CDNA1 },
];

/// What `wgmma` of Hopper multiplies, and the instructions of a warp.
pub(super) const HOPPER_MATRIX: &[Matrix] = &[
    matrix(Mma, Fp64, &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Tf32, &[[16, 8, 4], [16, 8, 8]]),
    matrix(Mma, Fp16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Bf16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Float8, &[[16, 8, 16], [16, 8, 32]]),
    matrix(Mma, Int8, &[[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
    matrix(Wgmma, Tf32, &[[64, 256, 8]]),
    matrix(Wgmma, Fp16, &[[64, 256, 16]]),
    matrix(Wgmma, Bf16, &[[64, 256, 16]]),
    matrix(Wgmma, Float8, &[[64, 256, 32]]),
    matrix(Wgmma, Int8, &[[64, 256, 32]]),
];

/// What `tcgen05` of Blackwell multiplies, and the instructions of a warp.
pub(super) const BLACKWELL_MATRIX: &[Matrix] = &[
    matrix(Mma, Fp64, &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Tf32, &[[16, 8, 4], [16, 8, 8]]),
    matrix(Mma, Fp16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Bf16, &[[16, 8, 8], [16, 8, 16]]),
    matrix(Mma, Float8, &[[16, 8, 16], [16, 8, 32]]),
    matrix(Mma, Int8, &[[8, 8, 16], [16, 8, 16], [16, 8, 32]]),
    matrix(Tcgen05, Tf32, &[[128, 256, 8]]),
    matrix(Tcgen05, Fp16, &[[128, 256, 16]]),
    matrix(Tcgen05, Bf16, &[[128, 256, 16]]),
    matrix(Tcgen05, Float8, &[[128, 256, 32]]),
];
