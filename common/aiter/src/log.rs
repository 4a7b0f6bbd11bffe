//! What aiter logs when a look-up finds nothing.

use crate::coverage::{Shape, gathered};
use crate::families::FAMILIES;
use crate::{Family, Key, Value};

/// What a log tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Misses {
    /// Each once, in the order in which they first come.
    pub shapes: Vec<Shape>,
    /// Misses whose line does not say whose they are, each once: families of batches log alike.
    pub unplaced: Vec<String>,
    /// Lines that tell of a miss and can not be read.
    pub unread: u64,
}

/// Reads the log of whatever runs aiter. Misses that do not say whose they are count as those of `family`.
#[must_use]
pub fn read(log: &str, family: Option<&'static Family>) -> Misses {
    let mut misses = Misses::default();
    let (mut shapes, mut again) = (Vec::new(), Vec::new());
    for line in log.lines() {
        match miss(line) {
            Some(Miss::Of(placed, key)) => shapes.push(Shape { family: placed, key, times: 1 }),
            Some(Miss::Again(placed, key)) => again.push(Shape { family: placed, key, times: 1 }),
            Some(Miss::Unplaced(fields)) => match family {
                Some(family) => shapes.push(Shape { family, key: key_of(family, &fields), times: 1 }),
                None => {
                    let text =
                        fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
                    if !misses.unplaced.contains(&text) {
                        misses.unplaced.push(text);
                    }
                }
            },
            Some(Miss::Unread) => misses.unread += 1,
            None => {}
        }
    }
    misses.shapes = told_once(gathered(shapes), gathered(again));
    misses
}

/// Leaves out misses of `again` that another line tells as well, as one of both may be of a level that is not logged.
fn told_once(mut shapes: Vec<Shape>, again: Vec<Shape>) -> Vec<Shape> {
    for shape in again {
        let told = shape.key.without(shape.family.gpu);
        let is_it = |known: &&mut Shape| {
            let is_told = told.0.iter().all(|(column, value)| known.key.get(column) == Some(value));
            known.family.name == shape.family.name && is_told
        };
        match shapes.iter_mut().find(is_it) {
            Some(known) => known.times = known.times.max(shape.times),
            None => shapes.push(shape),
        }
    }
    shapes
}

/// Names and values as a line has them.
type Fields<'a> = Vec<(&'a str, &'a str)>;

/// What a line tells of a miss.
enum Miss<'a> {
    Of(&'static Family, Key),
    /// Of a line that stands beside another one of the same miss, or by itself.
    Again(&'static Family, Key),
    Unplaced(Fields<'a>),
    Unread,
}

impl Miss<'_> {
    fn again(self) -> Self {
        match self {
            Self::Of(family, key) => Self::Again(family, key),
            other => other,
        }
    }
}

/// What is behind a mark in a line of mixtures of experts that says a miss once more.
const EXPERTS_AGAIN: [&str; 2] = ["[fused_moe] no tuned FlyDSL config for ", "Fmoe tuning not support for "];

fn miss(line: &str) -> Option<Miss<'_>> {
    if let Some((_, values)) = EXPERTS_AGAIN.iter().find_map(|mark| line.split_once(mark)) {
        return Some(moe(values).unwrap_or(Miss::Unread).again());
    }
    if let Some((_, values)) = line.split_once("no grouped CSV config matched ") {
        return Some(grouped_defaults(values).unwrap_or(Miss::Unread));
    }
    if let Some((name, values)) =
        line.split_once("[gfx1250] gemm_a8w8_").and_then(|(_, rest)| rest.split_once(" untuned "))
    {
        return Some(gfx1250(name, values).unwrap_or(Miss::Unread));
    }
    // It says neither the type of the output nor how it went on: it did not.
    if line.contains("no solution for M=") && line.contains(" bpreshuffle=") {
        return Some(Miss::Unread);
    }
    if let Some((_, rest)) = line.split_once("[fused_moe] using ") {
        // Of a row that was found it names the kernels.
        let (_, values) = rest.split_once(" default for ")?;
        return Some(moe(values).unwrap_or(Miss::Unread));
    }
    if let Some((_, values)) = line.split_once("requires an exact tuned config row for ") {
        return Some(moe(values).unwrap_or(Miss::Unread));
    }
    if let Some((_, values)) = line.split_once("[grouped-gemm-debug] no grouped CSV config match for ") {
        return Some(grouped(values).unwrap_or(Miss::Unread));
    }
    let (told, table) = line.split_once("not found tuned")?;
    let (_, told) = told.split_once("shape is ")?;
    let fields = fields(told);
    let has = |wanted: &str| fields.iter().any(|(name, _)| *name == wanted);
    if !(has("M") && has("N") && has("K")) {
        return Some(Miss::Unread);
    }
    // Those of 16 bits have said so since there are such lines.
    let is_bf16 = told.contains("dtype is bf16");
    let family = match has("B") && table.contains("CKGEMM") {
        true if is_bf16 => named("ck_batched_gemm_bf16"),
        true => named("ck_batched_gemm_a8w8"),
        false => whose(table),
    };
    Some(match family {
        Some(family) => Miss::Of(family, key_of(family, &fields)),
        None => Miss::Unplaced(fields),
    })
}

fn named(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

/// The family of the file in which nothing was found. One says which kernels it knows instead.
fn whose(table: &str) -> Option<&'static Family> {
    if table.contains("asmGEMM") {
        return named("ck_gemm_a4w4_blockscale");
    }
    let (_, path) = table.split_once(" in ")?;
    let path = path.split([',', ' ']).next()?;
    let stem = path.rsplit('/').next()?.strip_suffix(".csv")?;
    FAMILIES.iter().filter(|family| stem.contains(family.file)).max_by_key(|family| family.file.len())
}

/// `M:1, N:2, dtype='torch.bfloat16' bias=False, `
fn fields(told: &str) -> Fields<'_> {
    let fields = told.split([',', ' ']).filter_map(|word| word.split_once([':', '=']));
    fields.map(|(name, value)| (name, value.trim_matches(['\'', '"']))).filter(|(_, value)| !value.is_empty()).collect()
}

/// The columns of the family that are told.
fn key_of(family: &'static Family, fields: &[(&str, &str)]) -> Key {
    let value = |column: &str| {
        let means = |name: &str| name == column || (name == "otype" && column == "outdtype");
        // Files of one family have sizes in small letters, and its log has not.
        let found = fields.iter().find(|(name, _)| means(name) || (column.len() == 1 && name.to_lowercase() == column));
        found.map(|(_, value)| Value::of(value))
    };
    Key(family.key().filter_map(|column| Some((column, value(column)?))).collect())
}

/// `('gfx950', 256, 1, ..., <ActivationType.Silu: 0>, 'torch.bfloat16', ..., True, False)`; without the architecture once. Of experts
/// that share one there are four values more, which are told behind the others.
fn moe(values: &str) -> Option<Miss<'static>> {
    let (values, _) = values.trim_start().strip_prefix('(')?.split_once(')')?;
    let values: Vec<Value> = values.split(',').map(plain).collect();
    let family = named("ck_gemm_moe_2stages_codegen")?;
    let columns: Vec<&'static str> = family.gpu.iter().chain(family.shape).copied().collect();
    if values.len() > columns.len() {
        let family = named("fhmoe")?;
        let columns: Vec<&'static str> = family.told().collect();
        return (columns.len() == values.len())
            .then(|| Miss::Of(family, Key(columns.into_iter().zip(values).collect())));
    }
    let columns = columns.get(columns.len().checked_sub(values.len())?..)?;
    // With fewer than these it is not the line that it seems to be.
    (columns.first().is_some_and(|first| family.gpu.contains(first)))
        .then(|| Miss::Of(family, Key(columns.iter().copied().zip(values).collect())))
}

/// A value of Python's: a number, a text in quotes, or `<ActivationType.Silu: 0>`.
fn plain(value: &str) -> Value {
    let value = value.trim().trim_matches(['\'', '"']);
    let value = value.strip_prefix('<').map_or(value, |value| value.split(':').next().unwrap_or(value));
    Value::of(value)
}

/// `{'gfx': 'gfx1250', 'cu_num': '256', 'token': '16', ...}; loaded_rows=112`. What is asked for there has a gate, and no weights in its first
/// stage: the line does not say it.
fn grouped(values: &str) -> Option<Miss<'static>> {
    let family = named("grouped_fmoe")?;
    let (values, _) = values.trim_start().strip_prefix('{')?.split_once('}')?;
    let told: Vec<(&str, Value)> = values
        .split(',')
        .filter_map(|pair| pair.split_once(':'))
        .map(|(name, value)| (name.trim().trim_matches(['\'', '"']), plain(value)))
        .collect();
    let value = |column: &str| {
        let found = told.iter().find(|(name, _)| *name == column).map(|(_, value)| value.clone());
        found.or(match column {
            "use_g1u1" => Some(Value::Integer(1)),
            "doweight_stage1" => Some(Value::Integer(0)),
            _ => None,
        })
    };
    let key = Key(family.gpu.iter().chain(family.shape).filter_map(|column| Some((*column, value(column)?))).collect());
    (key.0.len() == family.gpu.len() + family.shape.len()).then_some(Miss::Of(family, key))
}

/// `(token=16 model_dim=7168 inter_dim=3072 experts=96 topk=6 act=ActivationType.Silu ... quant_type=QuantType.per_1x32); using defaults`,
/// which the line above says as well where it is asked for.
fn grouped_defaults(values: &str) -> Option<Miss<'static>> {
    let family = named("grouped_fmoe")?;
    let (values, _) = values.trim_start().strip_prefix('(')?.split_once(')')?;
    let told: Vec<(&str, &str)> = values.split(' ').filter_map(|word| word.split_once('=')).collect();
    let value = |column: &str| {
        let name = match column {
            "expert" => "experts",
            "act_type" => "act",
            "q_type" => "quant_type",
            "use_g1u1" => return Some(Value::Integer(1)),
            "doweight_stage1" => return Some(Value::Integer(0)),
            column => column,
        };
        told.iter().find(|(known, _)| *known == name).map(|(_, value)| plain(value))
    };
    let key: Option<Vec<_>> = family.shape.iter().map(|column| Some((*column, value(column)?))).collect();
    Some(Miss::Again(family, Key(key?)))
}

/// `bpreshuffle untuned M=1, N=2, K=3; falling back to flydsl kernel 'k'.`
fn gfx1250(name: &str, values: &str) -> Option<Miss<'static>> {
    let family = named(&format!("ck_gemm_a8w8_{name}"))?;
    let mut key = key_of(family, &fields(values.split(';').next()?));
    if key.0.len() < 3 {
        return None;
    }
    key.0.insert(0, ("gfx", Value::Text("gfx1250".into())));
    Some(Miss::Again(family, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
INFO 08-22 (EngineCore pid=1) [aiter] shape is M:64, N:7168, K:5120, not found tuned config in /tmp/aiter_configs/a8w8_blockscale_tuned_gemm.csv, will use default config!
[aiter] shape is M:512, N:5120, K:17408, q_dtype_w:torch.float8_e4m3fn, not found tuned config in /x/a8w8_bpreshuffle_tuned_gemm.csv, will use default config!
[aiter] shape is M:1024, N:151936, K:5120 dtype='torch.bfloat16' otype='torch.float32' bias=False, scaleAB=False, bpreshuffle=True, not found tuned config in /tmp/aiter_configs/bf16_tuned_gemm.csv, will use default config! using torch solution:0
[aiter] shape is M:64, N:7168, K:5120, not found tuned config in /tmp/aiter_configs/a8w8_blockscale_tuned_gemm.csv, will use default config!
[aiter] shape is M:1, N:2, K:3, not found tuned config in CKGEMM or asmGEMM, will use default config!
[aiter] shape is B:16, M:1, N:2, K:3, not found tuned config in CKGEMM, will use default config!
[aiter] shape is M:16, N:2, K:3, not found tuned config in /c/my_gemm.csv, will use default config!
[aiter] shape is B:2, M:4, N:1024, K:4096, not found tuned/padded config in /c/batched_gemm_a8w8_blockscale_mxscale_tuned.csv, the caller will fall back!
[aiter] shape is M:1, N:2, K:3 is tuned on cu_num = 304 in x.csv
[aiter] [fused_moe] using 2stage default for ('gfx950', 256, 8192, 3072, 1536, 128, 4, <ActivationType.Swiglu: 2>, 'torch.bfloat16', 'torch.float8_e4m3fn', 'torch.float4_e2m1fn_x2', 'QuantType.per_1x32', True, False)
[aiter] [fused_moe] using 1stage default for (304, 16, 4096, 1536, 256, 6, 'ActivationType.Silu', 'torch.bfloat16', 'a', 'b', 'QuantType.No', False, True)
[aiter] [fused_moe] using 2stage (kernelName1='k', kernelName2='l') for ('gfx950', 256, 1)
[aiter] [fused_moe] using 2stage default for (304, 16)
[aiter] shape is B:16, M:1, N:2, K:3 dtype is bf16, not found tuned config in CKGEMM, will use default config!
[aiter] [fused_moe] using 2stage default for ('gfx950', 256, 2, 7168, 384, 385, 7, <ActivationType.Silu: 0>, 'torch.bfloat16', 'c', 'torch.uint32', 'QuantType.per_1x32', True, False, 384, 0, 0, 'GateMode.INTERLEAVE')
NotImplementedError: The dedicated FHMoE path requires an exact tuned config row for ('gfx950', 256, 2, 7168, 384, 385, 7, <ActivationType.Silu: 0>, 'torch.bfloat16', 'c', 'torch.uint32', 'QuantType.per_1x32', True, False, 384, 0, 0, 'GateMode.INTERLEAVE') in /tmp/tuned_fhmoe.csv
[grouped-gemm-debug] no grouped CSV config match for {'gfx': 'gfx1250', 'cu_num': '256', 'token': '16', 'model_dim': '7168', 'inter_dim': '3072', 'expert': '96', 'topk': '6', 'act_type': 'ActivationType.Silu', 'dtype': 'torch.bfloat16', 'q_dtype_a': 'c', 'q_dtype_w': 'd', 'q_type': 'QuantType.per_1x32'}; loaded_rows=112
[grouped-gemm-debug] /aiter/grouped.py:930 enter grouped helper
[grouped-gemm-debug] no grouped CSV config match for {'gfx': 'gfx1250'}; loaded_rows=0
";

    #[test]
    fn every_line_of_a_miss_is_read() {
        let misses = read(LOG, None);
        let told: Vec<(String, u64)> =
            misses.shapes.iter().map(|shape| (format!("{} {}", shape.family.name, shape.key), shape.times)).collect();
        let expected = [
            ("ck_gemm_a8w8_blockscale M=64 N=7168 K=5120", 2),
            ("ck_gemm_a8w8_bpreshuffle M=512 N=5120 K=17408 q_dtype_w=torch.float8_e4m3fn", 1),
            (
                "gemm_a16w16 M=1024 N=151936 K=5120 bias=0 dtype=torch.bfloat16 outdtype=torch.float32 scaleAB=0 bpreshuffle=1",
                1,
            ),
            ("ck_gemm_a4w4_blockscale M=1 N=2 K=3", 1),
            ("ck_batched_gemm_a8w8 B=16 M=1 N=2 K=3", 1),
            ("batched_gemm_a8w8_mxscale b=2 m=4 n=1024 k=4096", 1),
            (
                "ck_gemm_moe_2stages_codegen gfx950 cu_num=256 token=8192 model_dim=3072 inter_dim=1536 expert=128 topk=4 \
                act_type=ActivationType.Swiglu dtype=torch.bfloat16 q_dtype_a=torch.float8_e4m3fn \
                q_dtype_w=torch.float4_e2m1fn_x2 q_type=QuantType.per_1x32 use_g1u1=1 doweight_stage1=0",
                1,
            ),
            (
                "ck_gemm_moe_2stages_codegen cu_num=304 token=16 model_dim=4096 inter_dim=1536 expert=256 topk=6 \
                act_type=ActivationType.Silu dtype=torch.bfloat16 q_dtype_a=a q_dtype_w=b q_type=QuantType.No use_g1u1=0 \
                doweight_stage1=1",
                1,
            ),
            ("ck_batched_gemm_bf16 B=16 M=1 N=2 K=3", 1),
            (
                "fhmoe gfx950 cu_num=256 token=2 model_dim=7168 inter_dim=384 expert=385 topk=7 act_type=ActivationType.Silu \
                dtype=torch.bfloat16 q_dtype_a=c q_dtype_w=torch.uint32 q_type=QuantType.per_1x32 use_g1u1=1 doweight_stage1=0 \
                shared_expert_id=384 hidden_pad=0 intermediate_pad=0 gate_mode=GateMode.INTERLEAVE",
                2,
            ),
            (
                "grouped_fmoe gfx1250 cu_num=256 token=16 model_dim=7168 inter_dim=3072 expert=96 topk=6 \
                act_type=ActivationType.Silu dtype=torch.bfloat16 q_dtype_a=c q_dtype_w=d q_type=QuantType.per_1x32 use_g1u1=1 \
                doweight_stage1=0",
                1,
            ),
        ];
        assert_eq!(told, expected.map(|(text, times)| (text.to_string(), times)));
        assert_eq!((misses.unplaced, misses.unread), (vec!["M=16 N=2 K=3".to_string()], 2));
    }

    #[test]
    fn a_miss_in_two_lines_counts_once() {
        let experts = |token: u32| {
            format!(
                "('gfx950', 256, {token}, 7168, 256, 384, 8, <ActivationType.Silu: 0>, 'torch.bfloat16', 'torch.bfloat16', \
                'torch.int4', 'QuantType.per_1x32', True, False)"
            )
        };
        let grouped = "(token=16 model_dim=7168 inter_dim=3072 experts=96 topk=6 act=ActivationType.Silu dtype=torch.bfloat16 \
            q_dtype_a=c q_dtype_w=d quant_type=QuantType.per_1x32); using defaults tile_m=64 n_warp=4 num_buffers=2";
        let debug = LOG.lines().find(|line| line.contains("CSV config match for")).unwrap();
        let lines = [
            format!("[aiter] [fused_moe] using 2stage default for {} ", experts(1)),
            format!("[aiter] [fused_moe] no tuned FlyDSL config for {}, using untuned a16wi4 fallback (kn1='a', kn2='b')", experts(1)),
            format!("[aiter] [fused_moe] no tuned FlyDSL config for {}, using heuristic FlyDSL fallback (kn1='a')", experts(2)),
            format!("[aiter] Fmoe tuning not support for {}", experts(2)),
            format!("[aiter] no grouped CSV config matched {grouped}"),
            format!("[aiter] no grouped CSV config matched {}", grouped.replace("token=16", "token=32")),
            debug.to_string(),
            "[aiter] [gfx1250] gemm_a8w8_blockscale_bpreshuffle untuned M=1, N=2, K=3; falling back to flydsl kernel 'k'.".to_string(),
            "[aiter] [gfx1250] gemm_a8w8_bpreshuffle untuned M=4, N=5, K=6; falling back to flydsl kernel 'k'.".to_string(),
            "[aiter] shape is M:4, N:5, K:6, q_dtype_w:t, not found tuned config in /x/a8w8_bpreshuffle_tuned_gemm.csv, will use \
            default config!"
                .to_string(),
            "AssertionError: no solution for M=1 N=2 K=3 dtype='torch.bfloat16' bias=False, scaleAB=False, bpreshuffle=True"
                .to_string(),
            "[aiter] no grouped CSV config matched (token=16)".to_string(),
            "[aiter] [fused_moe] no tuned FlyDSL config for (1, 2), using".to_string(),
        ];
        let misses = read(&lines.join("\n"), None);
        let told: Vec<String> = misses
            .shapes
            .iter()
            .map(|shape| {
                let size = ["token", "M"].into_iter().find_map(|column| shape.key.get(column)).unwrap();
                let columns = shape.key.0.len();
                format!("{} {size} {columns} columns, {} times", shape.family.name, shape.times)
            })
            .collect();
        let expected = [
            "ck_gemm_moe_2stages_codegen 1 14 columns, 1 times",
            "grouped_fmoe 16 14 columns, 1 times",
            "ck_gemm_a8w8_bpreshuffle 4 4 columns, 1 times",
            "ck_gemm_moe_2stages_codegen 2 14 columns, 2 times",
            "grouped_fmoe 32 12 columns, 1 times",
            "ck_gemm_a8w8_blockscale_bpreshuffle 1 4 columns, 1 times",
        ];
        assert_eq!(told, expected);
        assert_eq!(misses.unread, 3);
    }

    #[test]
    fn a_miss_that_says_not_whose_it_is_can_be_told() {
        let family = FAMILIES.iter().find(|family| family.name == "ck_gemm_a8w8_blockscale").unwrap();
        let misses = read(LOG, Some(family));
        assert!(misses.unplaced.is_empty());
        assert!(misses.shapes.iter().any(|shape| shape.family.name == family.name
            && shape.key.to_string() == "M=16 N=2 K=3"
            && shape.times == 1));
    }

    #[test]
    fn no_line_is_too_odd() {
        for line in [
            "not found tuned",
            "shape is not found tuned",
            "shape is M:, N:2, K:3 not found tuned in ,",
            "[fused_moe] using x default for (",
            "[fused_moe] using x default for )(",
        ] {
            let misses = read(line, None);
            assert!(misses.shapes.is_empty() && misses.unplaced.is_empty(), "{line}");
        }
    }
}
