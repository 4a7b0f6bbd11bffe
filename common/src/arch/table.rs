//! The table of architectures: a row for each, which takes what it does not say from its family ([`super::families`]).
//!
//! Sources. AMD: LLVM's "User Guide for AMDGPU Backend" (processors, features, `EF_AMDGPU_MACH`), the instruction set documents
//! (matrix instructions, registers), ROCm's "GPU hardware specifications" (products, LDS, Infinity Cache), Triton's
//! `TargetUtils.cpp`, and MIOpen's `handle.hpp`. NVIDIA: "CUDA C++ Programming Guide", tables of compute capabilities (shared
//! memory, registers), "PTX ISA" (`mma`, `wgmma`, `tcgen05`, `cp.async`; the version that has each target), the architectures'
//! white papers (multiprocessors), release notes of CUDA, `OffloadArch` and `NVPTX.td` of LLVM, and Triton's README (compute capability 8.0
//! and later).

use super::Architecture;
use super::MatrixUnit::Mma;
use super::Operand::{Fp16, Int8};
use super::families::*;

const CLANG_15: Option<u16> = Some(15);

/// All architectures that are known, by vendor and age.
pub static ROWS: &[Architecture] = &[
    // ---- AMD
    Architecture {
        name: "gfx900",
        products: &[("mi25", 64), ("vega64", 64), ("vega56", 56)],
        machine: Some(0x2c),
        miopen_features: ":xnack-",
        clang: CLANG_15,
        ..GCN5
    },
    Architecture { name: "gfx902", machine: Some(0x2d), clang: CLANG_15, ..GCN5 },
    Architecture { name: "gfx904", machine: Some(0x2e), clang: CLANG_15, ..GCN5 },
    Architecture {
        name: "gfx906",
        products: &[("mi50", 60), ("mi60", 64), ("radeonvii", 60)],
        machine: Some(0x2f),
        clang: CLANG_15,
        ..GCN5
    },
    Architecture { name: "gfx908", products: &[("mi100", 120)], machine: Some(0x30), clang: CLANG_15, ..CDNA1 },
    Architecture { name: "gfx909", machine: Some(0x31), clang: CLANG_15, ..GCN5 },
    Architecture { name: "gfx90c", machine: Some(0x32), clang: CLANG_15, ..GCN5 },
    Architecture {
        name: "gfx90a",
        products: &[("mi210", 104), ("mi250", 104), ("mi250x", 110)],
        machine: Some(0x3f),
        clang: CLANG_15,
        ..CDNA2
    },
    Architecture { name: "gfx940", machine: Some(0x40), clang: CLANG_15, ..CDNA3 },
    Architecture { name: "gfx941", machine: Some(0x4b), clang: Some(17), ..CDNA3 },
    Architecture {
        name: "gfx942",
        products: &[("mi300x", 304), ("mi325x", 304), ("mi300a", 228), ("mi308x", 80)],
        miopen_instead: Some((304, 80)),
        machine: Some(0x4c),
        clang: Some(17),
        ..CDNA3
    },
    Architecture {
        name: "gfx950",
        products: &[("mi355x", 256), ("mi350x", 256), ("mi350p", 128)],
        machine: Some(0x4f),
        clang: Some(20),
        ..CDNA4
    },
    Architecture { name: "gfx1010", machine: Some(0x33), clang: CLANG_15, ..RDNA1 },
    Architecture { name: "gfx1011", machine: Some(0x34), clang: CLANG_15, ..RDNA1 },
    Architecture { name: "gfx1012", machine: Some(0x35), clang: CLANG_15, ..RDNA1 },
    Architecture { name: "gfx1013", machine: Some(0x42), clang: CLANG_15, ..RDNA1 },
    Architecture {
        name: "gfx1030",
        products: &[("rx6800xt", 36), ("rx6800", 30), ("rx6900xt", 40), ("rx6950xt", 40), ("w6800", 30), ("v620", 36)],
        machine: Some(0x36),
        clang: CLANG_15,
        ..RDNA2
    },
    Architecture { name: "gfx1031", machine: Some(0x37), clang: CLANG_15, ..RDNA2 },
    Architecture { name: "gfx1032", machine: Some(0x38), clang: CLANG_15, ..RDNA2 },
    Architecture { name: "gfx1033", machine: Some(0x39), clang: CLANG_15, ..RDNA2 },
    Architecture { name: "gfx1034", machine: Some(0x3e), clang: CLANG_15, ..RDNA2 },
    Architecture { name: "gfx1035", machine: Some(0x3d), clang: CLANG_15, ..RDNA2 },
    Architecture { name: "gfx1036", machine: Some(0x45), clang: CLANG_15, ..RDNA2 },
    Architecture {
        name: "gfx1100",
        products: &[("rx7900xtx", 48), ("rx7900xt", 42), ("rx7900gre", 40), ("w7900", 48), ("w7800", 35)],
        memory_side_cache: 96 * MIB,
        machine: Some(0x41),
        clang: CLANG_15,
        ..RDNA3
    },
    Architecture {
        name: "gfx1101",
        products: &[("rx7800xt", 30), ("rx7700xt", 27), ("w7700", 24), ("v710", 27)],
        memory_side_cache: 64 * MIB,
        machine: Some(0x46),
        clang: CLANG_15,
        ..RDNA3
    },
    Architecture {
        name: "gfx1102",
        products: &[("rx7600", 16), ("rx7600xt", 16), ("w7600", 16), ("w7500", 14)],
        memory_side_cache: 32 * MIB,
        machine: Some(0x47),
        clang: CLANG_15,
        ..RDNA3
    },
    Architecture {
        name: "gfx1103",
        products: &[("780m", 6), ("760m", 4)],
        memory_side_cache: 0,
        machine: Some(0x44),
        clang: CLANG_15,
        ..RDNA3
    },
    Architecture {
        name: "gfx1150",
        products: &[("890m", 8), ("880m", 6)],
        memory_side_cache: 0,
        machine: Some(0x43),
        clang: Some(17),
        ..RDNA3_5
    },
    Architecture {
        name: "gfx1151",
        products: &[("8060s", 20), ("8050s", 16)],
        memory_side_cache: 32 * MIB,
        machine: Some(0x4a),
        clang: Some(17),
        ..RDNA3_5
    },
    Architecture {
        name: "gfx1152",
        products: &[("860m", 4), ("840m", 2)],
        memory_side_cache: 0,
        machine: Some(0x55),
        clang: Some(19),
        ..RDNA3_5
    },
    Architecture {
        name: "gfx1200",
        products: &[("rx9060xt", 16), ("rx9060", 14)],
        memory_side_cache: 32 * MIB,
        machine: Some(0x48),
        clang: Some(18),
        ..RDNA4
    },
    Architecture {
        name: "gfx1201",
        products: &[("rx9070xt", 32), ("rx9070", 28), ("rx9070gre", 24), ("r9700", 32)],
        memory_side_cache: 64 * MIB,
        machine: Some(0x4e),
        clang: Some(18),
        ..RDNA4
    },
    // ---- NVIDIA
    Architecture {
        name: "sm_70",
        products: &[("v100", 80), ("titanv", 80)],
        family: "Volta",
        shared_memory: 98_304,
        matrix: &[matrix(Mma, Fp16, &[[8, 8, 4]])],
        ptx: Some(60),
        clang: CLANG_15,
        nvcc: cuda_until_12(9, 0),
        ..SM_7
    },
    Architecture {
        name: "sm_75",
        products: &[("t4", 40), ("rtx2080ti", 68), ("rtx2080", 46), ("rtx2070", 36), ("titanrtx", 72), ("rtx8000", 72)],
        family: "Turing",
        matrix: &[matrix(Mma, Fp16, &[[8, 8, 4], [16, 8, 8]]), matrix(Mma, Int8, &[[8, 8, 16]])],
        ptx: Some(63),
        clang: CLANG_15,
        nvcc: cuda(10, 0),
        ..SM_7
    },
    Architecture {
        name: "sm_80",
        products: &[("a100", 108), ("a800", 108), ("a30", 56)],
        family: "Ampere",
        shared_memory: 166_912,
        ptx: Some(70),
        clang: CLANG_15,
        nvcc: cuda(11, 0),
        ..SM_8
    },
    Architecture {
        name: "sm_86",
        products: &[
            ("rtx3090", 82),
            ("rtx3090ti", 84),
            ("rtx3080", 68),
            ("rtx3070", 46),
            ("rtx3060", 28),
            ("a40", 84),
            ("rtxa6000", 84),
            ("a10", 72),
        ],
        family: "Ampere",
        ptx: Some(71),
        clang: CLANG_15,
        nvcc: cuda(11, 1),
        ..SM_8
    },
    Architecture {
        name: "sm_87",
        products: &[("agxorin", 16), ("orinnx", 8), ("orinnano", 8)],
        family: "Ampere",
        shared_memory: 166_912,
        ptx: Some(74),
        clang: Some(16),
        nvcc: cuda(11, 4),
        ..SM_8
    },
    Architecture {
        name: "sm_89",
        products: &[
            ("rtx4090", 128),
            ("rtx4080", 76),
            ("rtx4070", 46),
            ("rtx4060", 24),
            ("l40s", 142),
            ("l40", 142),
            ("l20", 92),
            ("l4", 58),
            ("rtx6000ada", 142),
            ("rtx5880ada", 110),
        ],
        family: "Ada",
        matrix: MMA_WITH_FP8,
        ptx: Some(78),
        clang: Some(16),
        nvcc: cuda(11, 8),
        ..SM_8
    },
    Architecture {
        name: "sm_90",
        products: &[
            ("h100", 132),
            ("h100sxm", 132),
            ("h100pcie", 114),
            ("h200", 132),
            ("gh200", 132),
            ("h800", 132),
            ("h20", 78),
        ],
        matrix: HOPPER_MATRIX,
        suffix: "a",
        // The first PTX that describes tensors to the copy engine as it should; drivers from 555 on read it.
        ptx: Some(85),
        clang: Some(16),
        nvcc: cuda(11, 8),
        ..SM_9
    },
    Architecture {
        name: "sm_100",
        products: &[("b200", 148), ("gb200", 148)],
        matrix: BLACKWELL_MATRIX,
        ptx: Some(86),
        clang: Some(20),
        nvcc: cuda(12, 8),
        ..SM_10
    },
    Architecture {
        name: "sm_103",
        products: &[("b300", 148), ("gb300", 152)],
        matrix: BLACKWELL_MATRIX,
        ptx: Some(88),
        clang: Some(21),
        nvcc: cuda(12, 9),
        triton: Some((3, 6)),
        ..SM_10
    },
    Architecture {
        name: "sm_120",
        products: &[
            ("rtx5090", 170),
            ("rtx5080", 84),
            ("rtx5070ti", 70),
            ("rtx5070", 48),
            ("rtx5060ti", 36),
            ("rtx5060", 30),
            ("rtxpro6000", 188),
        ],
        ptx: Some(87),
        clang: Some(20),
        nvcc: cuda(12, 8),
        ..SM_12
    },
    Architecture {
        name: "sm_121",
        products: &[("gb10", 48), ("dgxspark", 48)],
        ptx: Some(88),
        clang: Some(21),
        nvcc: cuda(12, 9),
        triton: Some((3, 6)),
        ..SM_12
    },
];
