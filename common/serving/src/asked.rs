//! What command lines say of a layer: sizes, and how weights are stored.

use std::str::FromStr;

use crate::engine::Precision;
use crate::quantised::Storage;
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

/// Scales that are said beside the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scales {
    /// Rows and columns of a block that has a scale.
    pub block_shape: Option<[u32; 2]>,
    /// Whether each channel has one.
    pub per_channel: bool,
    /// Columns of a group that has one.
    pub group_size: Option<u32>,
    /// Whether each group has a zero point.
    pub zero_points: bool,
}

impl Scales {
    /// Weights of the type that `storage` says, with these scales where some are said.
    ///
    /// # Errors
    /// If such weights have no such scales.
    pub fn over(self, storage: Storage) -> Result<Storage, String> {
        let Self { block_shape, per_channel, group_size, zero_points } = self;
        let found = storage.dtype.map_or("16 bits", Precision::word);
        let has_blocks = matches!(storage.dtype, Some(Precision::Fp8W8A8 | Precision::Int8W8A8));
        if let Some(group) = group_size {
            let dtype = storage.dtype.filter(|dtype| dtype.has_groups());
            let dtype = dtype.ok_or("--group-size: expected --dtype int4_w4a16 or int8_w8a16 with it")?;
            return Ok(Storage { zero_points, ..Storage::grouped(dtype, group) });
        }
        match (block_shape, per_channel) {
            (Some(_), _) if !has_blocks => {
                Err(format!("--block-shape: found weights of {found}, expected --dtype fp8_w8a8 or int8_w8a8 with it"))
            }
            (_, true) if storage.dtype.is_none_or(|dtype| dtype.weight_bits() != 8) => {
                Err(format!("--per-channel: found weights of {found}, expected --dtype with 8 bits, such as fp8_w8a8"))
            }
            (Some(_), _) => Ok(Storage { block_shape, per_channel: false, ..storage }),
            (None, true) => Ok(Storage { block_shape: None, per_channel, ..storage }),
            (None, false) => Ok(storage),
        }
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

    #[test]
    fn scales_are_of_types_that_have_them() {
        let of = |dtype| Storage { dtype, ..Storage::default() };
        let blocks = Scales { block_shape: Some([64, 64]), ..Scales::default() };
        let fp8 = of(Some(Precision::Fp8W8A8));
        assert_eq!(blocks.over(fp8), Ok(Storage { block_shape: Some([64, 64]), ..fp8 }));
        let error = blocks.over(of(None)).unwrap_err();
        assert_eq!(error, "--block-shape: found weights of 16 bits, expected --dtype fp8_w8a8 or int8_w8a8 with it");
        assert!(blocks.over(of(Some(Precision::Int4W4A16))).unwrap_err().contains("found weights of int4_w4a16"));
        let channels = Scales { per_channel: true, ..Scales::default() };
        assert!(channels.over(of(None)).unwrap_err().starts_with("--per-channel: found weights of 16 bits"));
        assert!(channels.over(fp8).unwrap().per_channel);
        assert_eq!(Scales::default().over(fp8), Ok(fp8));
    }
}
