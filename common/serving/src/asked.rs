//! What command lines say of a layer: sizes, and how weights are stored.

use std::str::FromStr;

use crate::engine::Precision;
use crate::shapes::AskedType;

/// How weights are stored, and which 16 bits those of activations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightType {
    /// Of the weights.
    pub asked: AskedType,
    /// `BF16` or `FP16`.
    pub half: &'static str,
}

impl FromStr for WeightType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let half = if text == "fp16" { "FP16" } else { "BF16" };
        let asked = match text {
            "auto" => AskedType::Auto,
            "bf16" | "fp16" => AskedType::Half,
            word => AskedType::Of(Precision::of_word(word).ok_or_else(|| {
                let words = Precision::ALL.map(Precision::word);
                format!("expected auto, bf16, fp16, {}", words.join(", "))
            })?),
        };
        Ok(Self { asked, half })
    }
}

/// So many whole numbers from 1 on, with commas between.
///
/// # Errors
/// What was expected.
pub fn numbers<const COUNT: usize>(text: &str) -> Result<[u32; COUNT], String> {
    let expected = || match COUNT {
        4 => "expected four whole numbers from 1 on, as in 8,14336,4096,2".to_string(),
        _ => "expected two whole numbers from 1 on, as in 128,128".to_string(),
    };
    let number = |text: &str| text.trim().parse().ok().filter(|number| *number > 0);
    let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        assert_eq!(numbers("8, 14336,4096,2"), Ok([8, 14336, 4096, 2]));
        for wrong in ["0,128", "128", "1,2,3", "a,1", "-1,1"] {
            assert!(numbers::<2>(wrong).unwrap_err().starts_with("expected two whole numbers"), "{wrong}");
        }
        let of = |text: &str| text.parse::<WeightType>();
        assert_eq!(of("fp16"), Ok(WeightType { asked: AskedType::Half, half: "FP16" }));
        assert_eq!(of("int4_w4a16").unwrap().asked, AskedType::Of(Precision::Int4W4A16));
        assert!(of("fp4").unwrap_err().starts_with("expected auto, bf16, fp16, fp8_w8a8"));
    }
}
