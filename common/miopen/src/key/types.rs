//! The types of a problem's tensors as keys print them.

use bluefin_common::problem::DataType;

/// Reads the types of input, weights and output: one name when they agree, else three.
pub(super) fn parse_types(text: &str) -> Option<[DataType; 3]> {
    let (input, rest) = DataType::split_prefix(text)?;
    if rest.is_empty() {
        return Some([input; 3]);
    }
    let (weights, rest) = DataType::split_prefix(rest)?;
    let (output, rest) = DataType::split_prefix(rest)?;
    // Three equal names are never printed, so they are no key.
    let canonical = input != weights || input != output;
    (rest.is_empty() && canonical).then_some([input, weights, output])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenated_names_are_told_apart() {
        assert_eq!(parse_types("INT8INT8INT32"), Some([DataType::Int8, DataType::Int8, DataType::Int32]));
        assert_eq!(parse_types("FP8"), Some([DataType::Fp8; 3]));
        for wrong in ["", "FP8FP8", "FP8FP8FP8", "FP32X", "FP8BF8FP8FP8"] {
            assert_eq!(parse_types(wrong), None, "{wrong}");
        }
    }
}
