//! Items of the YAML lists that Triton's tune_gemm reads, one flow mapping a line:
//! `- {'M': 4864, 'N': 4096, 'K': 4096, 'rowMajorA': 'T', 'rowMajorB': 'N'}`. Lists of tuned results are such lists too;
//! their further keys are passed over.

use bluefin_common::problem::{DataType, GemmProblem, Problem};

/// The problem of an item. The lists do not name a type; tune_gemm's default is FP16.
pub(super) fn parse(item: &str) -> Result<Problem, String> {
    let mapping = item
        .strip_prefix("- {")
        .and_then(|rest| rest.split_once('}'))
        .filter(|(_, rest)| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
        .map(|(mapping, _)| mapping)
        .ok_or("GEMM size: found no closed mapping, expected - {'M': 1, 'N': 1, 'K': 1}")?;
    let bare = |text: &'_ str| text.trim().trim_matches(['\'', '"']).to_string();
    let (mut sizes, mut row_major) = ([None; 3], [true; 2]);
    for pair in mapping.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (key, value) =
            pair.split_once(':').ok_or_else(|| format!("GEMM size: found {pair:?}, expected KEY: VALUE"))?;
        let (key, value) = (bare(key), bare(value));
        if let Some(slot) = ["M", "N", "K"].iter().position(|name| *name == key).and_then(|index| sizes.get_mut(index))
        {
            let size = value.parse::<u32>();
            *slot = Some(size.map_err(|_| format!("GEMM size: {key}: found {value:?}, expected a whole number"))?);
        }
        // Any value but T means column major.
        let operands = ["rowMajorA", "rowMajorB"];
        if let Some(slot) = operands.iter().position(|name| *name == key).and_then(|index| row_major.get_mut(index)) {
            *slot = value == "T";
        }
    }
    let size = |index: usize, name| {
        let size = sizes.get(index).copied().flatten();
        size.ok_or_else(|| format!("GEMM size: found no {name}, expected M, N and K"))
    };
    let [row_major_a, row_major_b] = row_major;
    let problem = GemmProblem {
        m: size(0, "M")?,
        n: size(1, "N")?,
        k: size(2, "K")?,
        batch: 1,
        // An operand that lies column by column in a row-major product is a transposed one.
        trans_a: !row_major_a,
        trans_b: !row_major_b,
        col_major: false,
        a_type: DataType::Fp16,
        b_type: DataType::Fp16,
        c_type: DataType::Fp16,
    };
    problem.checked().map(Problem::Gemm).map_err(|error| format!("GEMM size: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_products() {
        let command = |item| parse(item).map(|problem| problem.canonical());
        let plain = "gemmfp16 -m 1 -n 2 -k 3 -b 1 -u 0 -v 1 -C 0";
        assert_eq!(command("- {'M': 1, 'N': 2, 'K': 3, 'rowMajorA': 'T', 'rowMajorB': 'N'}"), Ok(plain.to_string()));
        let result = "- {\"M\": 1, \"N\": 2, \"K\": 3, rowMajorB: N, 'BLOCK_SIZE_M': 128, 'x': 'none'} # TFLOPS: 1";
        assert_eq!(command(result), Ok(plain.to_string()));
        for wrong in ["- {'M': 1, 'N': 2}", "- {'M': 1", "- {M}", "- {'M': 0, 'N': 1, 'K': 1}", "- {M: -1, N: 1, K: 1}"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
