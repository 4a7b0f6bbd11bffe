//! The families. A new one is an entry here.

use std::fmt;
use std::str::FromStr;

use crate::family::{Duplicates, Family, Reading, Rounding, ShapeWork, Tuner};

const GFX_AND_CUS: &[&str] = &["gfx", "cu_num"];
const GEMM: &[&str] = &["M", "N", "K"];
const TYPED_GEMM: &[&str] = &["M", "N", "K", "q_dtype_w"];
const BATCHED_GEMM: &[&str] = &["B", "M", "N", "K"];
const MOE: &[&str] = &[
    "token",
    "model_dim",
    "inter_dim",
    "expert",
    "topk",
    "act_type",
    "dtype",
    "q_dtype_a",
    "q_dtype_w",
    "q_type",
    "use_g1u1",
    "doweight_stage1",
];
/// The same for all tuners that know one library.
const FOUND: &[&str] = &["kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio"];
/// The same for those that know several.
const FOUND_IN: &[&str] = &["libtype", "kernelId", "splitK", "us", "kernelName", "tflops", "bw", "errRatio"];

const BYTE_INPUTS: ShapeWork = ShapeWork::Gemm { bytes: [1.0, 1.0, 2.0], before: None };
/// What the base tuner counts with, whatever the inputs are.
const TWO_BYTES: ShapeWork = ShapeWork::Gemm { bytes: [2.0, 2.0, 2.0], before: None };

/// What entries of GEMMs begin with.
const PLAIN: Family = Family {
    name: "",
    file: "",
    gpu: GFX_AND_CUS,
    shape: GEMM,
    sometimes: &[],
    aside: &[],
    unasked: &[],
    results: FOUND_IN,
    optional: &[],
    sort: &["gfx", "cu_num", "N", "M", "K"],
    errors: &["errRatio"],
    error_limit: 0.05,
    work: BYTE_INPUTS,
    rounding: Rounding::Gemm,
    duplicates: Duplicates::Refused,
    uncounted: &[],
    reading: Reading::Typed,
    tuner: None,
};

/// All families, in the order in which messages name them.
pub static FAMILIES: [Family; 14] = [
    Family {
        name: "ck_gemm_a8w8",
        file: "a8w8_tuned_gemm",
        shape: TYPED_GEMM,
        results: FOUND,
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_a8w8/gemm_a8w8_tune.py",
            arguments: &[],
            tests: &["test_gemm_a8w8.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_gemm_a8w8_bpreshuffle",
        file: "a8w8_bpreshuffle_tuned_gemm",
        shape: TYPED_GEMM,
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_a8w8_bpreshuffle/gemm_a8w8_bpreshuffle_tune.py",
            arguments: &[],
            tests: &["test_gemm_a8w8.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_gemm_a8w8_blockscale",
        file: "a8w8_blockscale_tuned_gemm",
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py",
            arguments: &[],
            tests: &["test_gemm_a8w8_blockscale.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_gemm_a8w8_blockscale_bpreshuffle",
        file: "a8w8_blockscale_bpreshuffle_tuned_gemm",
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py",
            arguments: &["--preshuffle"],
            tests: &["test_gemm_a8w8_blockscale.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_gemm_a4w4_blockscale",
        file: "a4w4_blockscale_tuned_gemm",
        results: FOUND,
        work: ShapeWork::Gemm { bytes: [0.5, 0.5, 2.0], before: None },
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_a4w4_blockscale/gemm_a4w4_blockscale_tune.py",
            arguments: &[],
            tests: &["test_gemm_a4w4_blockscale.py", "test_gemm_a4w4.py"],
            by_default: false,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_batched_gemm_a8w8",
        file: "a8w8_tuned_batched_gemm",
        work: ShapeWork::Gemm { bytes: [1.0, 1.0, 2.0], before: Some([2.0, 2.0, 2.0]) },
        tuner: Some(Tuner {
            script: "csrc/ck_batched_gemm_a8w8/batched_gemm_a8w8_tune.py",
            arguments: &[],
            tests: &["test_batched_gemm_a8w8.py"],
            by_default: true,
        }),
        ..BATCHED
    },
    Family {
        name: "ck_batched_gemm_bf16",
        file: "bf16_tuned_batched_gemm",
        tuner: Some(Tuner {
            script: "csrc/ck_batched_gemm_bf16/batched_gemm_bf16_tune.py",
            arguments: &[],
            tests: &["test_batched_gemm_bf16.py"],
            by_default: true,
        }),
        ..BATCHED
    },
    Family {
        name: "gemm_a16w16",
        file: "bf16_tuned_gemm",
        shape: &["M", "N", "K", "bias", "dtype", "outdtype", "scaleAB", "bpreshuffle"],
        results: &["libtype", "solidx", "splitK", "us", "kernelName", "err_ratio", "tflops", "bw"],
        // Some untuned files are from before it was there.
        optional: &[("bpreshuffle", "False")],
        errors: &["err_ratio"],
        work: TWO_BYTES,
        tuner: Some(Tuner {
            script: "csrc/gemm_a16w16/gemm_tuner.py",
            arguments: &[],
            tests: &["test_gemm_a16w16.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "ck_gemm_moe_2stages_codegen",
        file: "tuned_fmoe",
        shape: MOE,
        sometimes: &["_tag"],
        unasked: &["_tag"],
        results: &[
            "block_m",
            "ksplit",
            "us1",
            "kernelName1",
            "err1",
            "us2",
            "kernelName2",
            "err2",
            "us",
            "run_1stage",
            "tflops",
            "bw",
        ],
        optional: &[("xbf16", "0"), ("flat", "0")],
        sort: &["gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk"],
        errors: &["err1", "err2"],
        error_limit: 0.1,
        work: ShapeWork::Moe,
        rounding: Rounding::Tokens,
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py",
            arguments: &[],
            tests: &["test_moe.py"],
            by_default: true,
        }),
        ..PLAIN
    },
    Family {
        name: "grouped_fmoe",
        file: "tuned_grouped_fmoe",
        shape: MOE,
        sometimes: &["gate_mode"],
        unasked: &["use_g1u1", "doweight_stage1", "gate_mode"],
        results: &[
            "max_m",
            "tile_m",
            "tile_n",
            "tile_k",
            "m_warp",
            "n_warp",
            "num_buffers",
            "grouped_persistent_m",
            "persistent_workers",
            "kernelName1",
            "kernelName2",
            "us",
            "tflops",
            "bw",
        ],
        // Of files that were not written by the tuner alone.
        optional: &[
            ("tile_m2", ""),
            ("tile_n2", ""),
            ("tile_k2", ""),
            ("m_warp2", ""),
            ("n_warp2", ""),
            ("num_buffer_stage2", ""),
            ("split_k1", ""),
            ("split_k2", ""),
            ("wave_specialized_tdm", ""),
            ("tdm_as_in_prologue", ""),
            ("cluster_n", ""),
            ("waves_per_tensor_tdm", ""),
            ("next_stage_prefetch", ""),
        ],
        sort: &["gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk"],
        errors: &[],
        error_limit: 0.1,
        work: ShapeWork::Unknown,
        rounding: Rounding::TokensOfAnyUnits,
        duplicates: Duplicates::Allowed,
        reading: Reading::Texts,
        tuner: Some(Tuner {
            script: "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py",
            arguments: &["--grouped-gemm"],
            tests: &["test_flydsl_grouped_gemm_gfx1250.py"],
            by_default: false,
        }),
        ..PLAIN
    },
    Family {
        name: "fhmoe",
        file: "tuned_fhmoe",
        shape: MOE,
        sometimes: &["shared_expert_id", "hidden_pad", "intermediate_pad", "gate_mode"],
        uncounted: &["shared_expert_id", "hidden_pad", "intermediate_pad", "gate_mode"],
        results: &["block_m", "ksplit", "kernelName1", "kernelName2"],
        sort: &["gfx", "cu_num", "token", "model_dim", "inter_dim", "expert", "topk"],
        errors: &[],
        error_limit: 0.1,
        work: ShapeWork::Unknown,
        rounding: Rounding::ExactTokens,
        ..PLAIN
    },
    Family {
        name: "gdn_k5",
        file: "chunk_gdn_h_opt_tuned",
        shape: &[
            "dtype",
            "K",
            "V",
            "BT",
            "H",
            "Hg",
            "is_varlen",
            "use_h0",
            "store_fs",
            "snapshot_bf16",
            "state_bf16",
            "T_flat",
            "N",
            "total_chunks",
            "max_seq_chunks",
        ],
        aside: &["dtype", "K", "BT", "T_flat", "N"],
        reading: Reading::Converted,
        results: &["BV", "us"],
        // Untuned files of models tell what many shapes have in common.
        optional: &[("snapshot_bf16", ""), ("state_bf16", ""), ("total_chunks", ""), ("max_seq_chunks", "")],
        sort: &["gfx", "cu_num", "H", "Hg", "V"],
        errors: &[],
        work: ShapeWork::Unknown,
        rounding: Rounding::No,
        tuner: Some(Tuner {
            script: "csrc/gdn_k5/chunk_gdn_h_opt_tune.py",
            arguments: &[],
            tests: &["test_flydsl_linear_attention_prefill.py"],
            by_default: false,
        }),
        ..PLAIN
    },
    Family {
        name: "batched_gemm_a8w8_mxscale",
        file: "batched_gemm_a8w8_blockscale_mxscale_tuned",
        gpu: &["gfx"],
        shape: &["b", "m", "n", "k"],
        sort: &["gfx", "b", "n", "m", "k"],
        error_limit: 0.02,
        duplicates: Duplicates::RefusedByLookUps,
        tuner: Some(Tuner {
            script: "csrc/opus_gemm/opus_bmm_mxscale_tune.py",
            arguments: &[],
            tests: &["test_opus_a8w8_bmm.py"],
            by_default: false,
        }),
        ..PLAIN
    },
    Family {
        name: "asm_gemm_a8w8",
        file: "asm_a8w8_gemm",
        gpu: &[],
        shape: &["M", "N", "K", "bias", "outdtype"],
        results: &["splitK", "us"],
        sort: &["N", "M", "K"],
        errors: &[],
        work: ShapeWork::Unknown,
        rounding: Rounding::No,
        ..PLAIN
    },
];

const BATCHED: Family = Family {
    shape: BATCHED_GEMM,
    results: FOUND,
    sort: &["gfx", "cu_num", "B", "N", "M", "K"],
    work: TWO_BYTES,
    rounding: Rounding::Batched,
    ..PLAIN
};

/// Of files that hold sizes and nothing that tells whose: several families tune those.
pub static ANY_GEMM: Family = Family { name: "gemm", file: "tuned_gemm", results: &[], errors: &[], ..PLAIN };

/// The name of a family, as people give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyName(pub &'static Family);

/// A name that is no family's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("family: found {found:?}, expected one of {expected}")]
pub struct UnknownFamily {
    found: String,
    expected: String,
}

impl FromStr for FamilyName {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = FAMILIES.iter().find(|family| family.name == name.trim());
        found.map(Self).ok_or_else(|| UnknownFamily {
            found: name.chars().take(64).collect(),
            expected: FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl fmt::Display for FamilyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_unknown_ones_told_with_the_list() {
        for family in &FAMILIES {
            let name: FamilyName = family.name.parse().unwrap();
            assert_eq!(name.to_string(), family.name);
            for column in family.sort.iter().chain(family.errors).chain(family.aside) {
                assert!(family.columns().any(|known| known == *column), "{name}: {column}");
            }
            for column in family.unasked {
                assert!(family.key().any(|known| known == *column) && !family.asks_for(column), "{name}: {column}");
            }
        }
        let gdn: FamilyName = "gdn_k5".parse().unwrap();
        let key: Vec<&str> = gdn.0.key().collect();
        let expected =
            "gfx,cu_num,V,H,Hg,is_varlen,use_h0,store_fs,snapshot_bf16,state_bf16,total_chunks,max_seq_chunks";
        assert_eq!(key.join(","), expected);
        let mxscale: FamilyName = "batched_gemm_a8w8_mxscale".parse().unwrap();
        assert!((mxscale.0.error_limit - 0.02).abs() < f64::EPSILON);
        let error = "ck_gemm".parse::<FamilyName>().unwrap_err().to_string();
        assert!(error.starts_with("family: found \"ck_gemm\", expected one of ck_gemm_a8w8, "), "{error}");
    }
}
