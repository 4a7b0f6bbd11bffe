//! How a layer's operands are stored, and which of them have scales.

use std::fmt::Write as _;

use crate::engine::Precision;
use crate::error::Unmade;
use crate::quantised::Storage;

/// What the kernels multiply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operands {
    pub activations: &'static str,
    pub weights: &'static str,
    pub scales: Scales,
}

/// What has a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scales {
    /// Nothing.
    None,
    /// All activations together, and the weights of each expert.
    Tensors,
    /// Each row of the activations, and each row of the weights.
    Channels,
    /// Each row of the weights.
    WeightChannels,
    /// So many rows and columns of the weights, and as many columns of each row of the activations.
    Blocks([i64; 2]),
    /// So many columns of each row of the weights.
    Groups(Groups),
}

/// Weights in groups: numbers without a sign, which the kernel unpacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    /// Bits of a weight.
    pub bits: i64,
    /// Columns of a group.
    pub columns: i64,
    /// Whether each group has a zero point.
    pub zero_points: bool,
}

/// A product of the layer as its scales depend on it: rows, columns of the result, what is summed over, all as expressions.
pub(super) struct Sizes<'a> {
    pub rows: &'a str,
    pub n: &'a str,
    pub k: &'a str,
}

const EXPECTED: &str = "16 bits, fp8_w8a8 or int8_w8a8 with a scale for each expert, channel or block, int8_w8a16 with one for each channel, \
     or int8_w8a16 or int4_w4a16 in groups of an even size (--group-size)";

impl Operands {
    /// # Errors
    /// If the engines' kernel does not take weights that are stored so.
    pub(super) fn of(storage: Storage, half: &'static str) -> Result<Self, Unmade> {
        let blocks = storage.block_shape.filter(|shape| *shape != [0, 0]).map(|shape| shape.map(i64::from));
        let operands = |activations, weights, scales| Ok(Self { activations, weights, scales });
        if let Some(columns) = storage.group().filter(|group| group.is_multiple_of(2)) {
            let bits = storage.dtype.map_or(0, Precision::weight_bits).into();
            let groups = Groups { bits, columns: columns.into(), zero_points: storage.zero_points };
            return operands(half, "UINT8", Scales::Groups(groups));
        }
        match (storage.dtype, blocks) {
            (None, _) => operands(half, half, Scales::None),
            (Some(Precision::Fp8W8A8), Some([n, k])) if n > 0 && k > 0 => {
                operands("FP8", "FP8", Scales::Blocks([n, k]))
            }
            (Some(Precision::Fp8W8A8), None) if storage.per_channel => operands("FP8", "FP8", Scales::Channels),
            (Some(Precision::Fp8W8A8), None) => operands("FP8", "FP8", Scales::Tensors),
            (Some(Precision::Int8W8A8), Some([n, k])) if n > 0 && k > 0 => {
                operands("INT8", "INT8", Scales::Blocks([n, k]))
            }
            // Both engines quantise such activations row by row.
            (Some(Precision::Int8W8A8), None) => operands("INT8", "INT8", Scales::Channels),
            (Some(Precision::Int8W8A16), None) => operands(half, "INT8", Scales::WeightChannels),
            (Some(dtype), blocks) => {
                let grouped = match blocks {
                    Some([0, k]) => format!(" in groups of {k}"),
                    Some([n, k]) => format!(" in blocks of {n} x {k}"),
                    None => String::new(),
                };
                Err(Unmade { found: format!("weights of {}{grouped}", dtype.word()), expected: EXPECTED.to_string() })
            }
        }
    }

    pub(super) fn is_fp8(self) -> bool {
        self.weights == "FP8"
    }

    /// Bytes of an element of the activations, and of the weights, that a tile has in shared memory at least.
    pub(super) fn bytes(self) -> [i64; 2] {
        match self.scales {
            Scales::None => [2, 2],
            // Such weights are unpacked in registers.
            Scales::WeightChannels | Scales::Groups(_) => [2, 0],
            Scales::Tensors | Scales::Channels | Scales::Blocks(_) => [1, 1],
        }
    }

    /// The deviation of a product of two elements, as buffers are filled: floats uniform in [-1, 1], integers from -4 to 4 without zero,
    /// weights in groups all that their bits are, less the middle or another such number.
    pub(super) fn deviation(self) -> f64 {
        if let Scales::Groups(groups) = self.scales {
            let values = if groups.bits == 4 { 16.0_f64 } else { 256.0 };
            let of_weights = (values * values / if groups.zero_points { 6.0 } else { 12.0 }).sqrt();
            return (1.0_f64 / 3.0).sqrt() * of_weights;
        }
        let of = |of_type: &str| if of_type == "INT8" { 7.5_f64.sqrt() } else { (1.0_f64 / 3.0).sqrt() };
        of(self.activations) * of(self.weights)
    }

    /// Which of the two operands have scales.
    pub(super) fn has_scales(self) -> [bool; 2] {
        let of_weights_alone = matches!(self.scales, Scales::WeightChannels | Scales::Groups(_));
        [self.scales != Scales::None && !of_weights_alone, self.scales != Scales::None]
    }

    /// How many scales activations and weights have.
    pub(super) fn lengths(self, Sizes { rows, n, k }: &Sizes<'_>) -> [String; 2] {
        match self.scales {
            Scales::None => ["0", "0"].map(str::to_string),
            Scales::Tensors => ["1", "experts"].map(str::to_string),
            Scales::Channels | Scales::WeightChannels => [(*rows).to_string(), format!("experts * {n}")],
            Scales::Groups(Groups { columns, .. }) => {
                ["0".to_string(), format!("experts * {n} * ceil_div({k}, {columns})")]
            }
            Scales::Blocks([block_n, block_k]) => [
                format!("{rows} * ceil_div({k}, {block_k})"),
                format!("experts * ceil_div({n}, {block_n}) * ceil_div({k}, {block_k})"),
            ],
        }
    }

    /// From one row of the activations, one expert, and one row of the weights to the scale of the next.
    pub(super) fn strides(self, Sizes { n, k, .. }: &Sizes<'_>) -> [String; 3] {
        match self.scales {
            Scales::None => ["0", "0", "0"].map(str::to_string),
            Scales::Tensors => ["0", "1", "0"].map(str::to_string),
            Scales::Channels => ["1", n, "1"].map(str::to_string),
            Scales::WeightChannels => ["0", n, "1"].map(str::to_string),
            Scales::Groups(Groups { columns, .. }) => {
                let groups = format!("ceil_div({k}, {columns})");
                ["0".to_string(), format!("{n} * {groups}"), groups]
            }
            Scales::Blocks([block_n, block_k]) => [
                format!("ceil_div({k}, {block_k})"),
                format!("ceil_div({n}, {block_n}) * ceil_div({k}, {block_k})"),
                format!("ceil_div({k}, {block_k})"),
            ],
        }
    }

    /// The constants that the kernel is told of it by.
    pub(super) fn constants(self, text: &mut String) {
        let [n, k] = if let Scales::Blocks(shape) = self.scales { shape } else { [0, 0] };
        let is_int8 = self.activations == "INT8";
        let _ = write!(
            text,
            "  GROUP_N = {n}\n  GROUP_K = {k}\n  FP8 = {}\n  INT8 = {is_int8}\n  INT8_WEIGHTS = {}\n  PER_CHANNEL = {}\n",
            self.is_fp8(),
            self.weights == "INT8" && !is_int8,
            self.scales == Scales::Channels,
        );
    }
}
