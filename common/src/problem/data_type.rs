//! Element types, by MIOpen's names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::arch::{self, Fp8};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DataType {
    /// `miopenFloat`: IEEE 754 binary32.
    Fp32,
    /// `miopenHalf`: IEEE 754 binary16.
    Fp16,
    /// `miopenBFloat16`: the upper half of a binary32.
    Bf16,
    /// `miopenInt8`: signed; its convolutions yield INT32.
    Int8,
    /// `miopenInt32`: signed; mostly what INT8 convolutions yield.
    Int32,
    /// `miopenDouble`: IEEE 754 binary64.
    Fp64,
    /// `miopenFloat8`: 8 bits, 4 of exponent and 3 of mantissa.
    Fp8,
    /// `miopenBFloat8`: 8 bits, 5 of exponent and 2 of mantissa.
    Bf8,
    /// `miopenInt64`: signed.
    Int64,
    /// FP8 as gfx940 to gfx942 have it: a bias of 8, no infinities, no -0. MIOpen calls it FP8 as well.
    Fp8Fnuz,
    /// BF8 as gfx940 to gfx942 have it: a bias of 16, no infinities, no -0.
    Bf8Fnuz,
    /// Signed, 16 bits. This type and those behind it are of buffers alone: MIOpen has none of them.
    Int16,
    /// Unsigned, 8 bits.
    Uint8,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// Unsigned, 64 bits.
    Uint64,
    /// A byte that is 0 or 1.
    Bool,
}

/// A text that names no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("data type: found {found:?}, expected one of FP32 FP16 BF16 INT8 INT32 FP64 FP8 BF8 INT64")]
pub struct UnknownDataType {
    found: String,
}

impl DataType {
    /// Every type that has a name of MIOpen's.
    pub const ALL: [Self; 9] =
        [Self::Fp32, Self::Fp16, Self::Bf16, Self::Int8, Self::Int32, Self::Fp64, Self::Fp8, Self::Bf8, Self::Int64];

    /// Those that a kernel spec's buffers may have beside [`Self::ALL`].
    pub const OF_BUFFERS: [Self; 6] = [Self::Int16, Self::Uint8, Self::Uint16, Self::Uint32, Self::Uint64, Self::Bool];

    /// The type of a buffer of that name, as kernel specs spell it.
    #[must_use]
    pub fn of_buffer(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain(Self::OF_BUFFERS).find(|data_type| data_type.name() == name)
    }

    /// The integers that elements may be; `None` of floats.
    #[must_use]
    pub const fn integers(self) -> Option<(i128, i128)> {
        match self {
            Self::Int8 => Some((i8::MIN as i128, i8::MAX as i128)),
            Self::Int16 => Some((i16::MIN as i128, i16::MAX as i128)),
            Self::Int32 => Some((i32::MIN as i128, i32::MAX as i128)),
            Self::Int64 => Some((i64::MIN as i128, i64::MAX as i128)),
            Self::Uint8 => Some((0, u8::MAX as i128)),
            Self::Uint16 => Some((0, u16::MAX as i128)),
            Self::Uint32 => Some((0, u32::MAX as i128)),
            Self::Uint64 => Some((0, u64::MAX as i128)),
            Self::Bool => Some((0, 1)),
            Self::Fp32
            | Self::Fp16
            | Self::Bf16
            | Self::Fp64
            | Self::Fp8
            | Self::Bf8
            | Self::Fp8Fnuz
            | Self::Bf8Fnuz => None,
        }
    }

    /// MIOpen's name, as keys spell it; bluefin's for those that have none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Int8 => "INT8",
            Self::Int32 => "INT32",
            Self::Fp64 => "FP64",
            Self::Fp8 => "FP8",
            Self::Bf8 => "BF8",
            Self::Int64 => "INT64",
            Self::Fp8Fnuz => "FP8FNUZ",
            Self::Bf8Fnuz => "BF8FNUZ",
            Self::Int16 => "INT16",
            Self::Uint8 => "UINT8",
            Self::Uint16 => "UINT16",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Bool => "BOOL",
        }
    }

    /// The number by which the entries that check on a device know it.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Fp64 => 0,
            Self::Fp32 => 1,
            Self::Fp16 => 2,
            Self::Bf16 => 3,
            Self::Int8 => 4,
            Self::Int32 => 5,
            Self::Int64 => 6,
            Self::Fp8 => 7,
            Self::Bf8 => 8,
            Self::Fp8Fnuz => 9,
            Self::Bf8Fnuz => 10,
            Self::Int16 => 11,
            Self::Uint8 => 12,
            Self::Uint16 => 13,
            Self::Uint32 => 14,
            Self::Uint64 => 15,
            Self::Bool => 16,
        }
    }

    /// What follows `conv` or `gemm` in the driver's base word. MIOpenDriver knows fewer of them; the rest are
    /// bluefin's, so that every problem has a canonical command.
    #[must_use]
    pub const fn driver_suffix(self) -> &'static str {
        match self {
            Self::Fp32 => "",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bfp16",
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Fp64 => "fp64",
            Self::Fp8 => "fp8",
            Self::Bf8 => "bfp8",
            Self::Int64 => "int64",
            Self::Fp8Fnuz => "fp8fnuz",
            Self::Bf8Fnuz => "bfp8fnuz",
            Self::Int16 => "int16",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Bool => "bool",
        }
    }

    /// The type of a driver's base-word suffix.
    #[must_use]
    pub fn from_driver_suffix(suffix: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|data_type| data_type.driver_suffix() == suffix)
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Fp8 | Self::Bf8 | Self::Fp8Fnuz | Self::Bf8Fnuz | Self::Int8 | Self::Uint8 | Self::Bool => 1,
            Self::Fp16 | Self::Bf16 | Self::Int16 | Self::Uint16 => 2,
            Self::Fp32 | Self::Int32 | Self::Uint32 => 4,
            Self::Fp64 | Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// The type as an architecture's matrix instructions have it: what FP8 and BF8 are encoded as is a matter of the architecture.
    #[must_use]
    pub fn on(self, arch: &str) -> Self {
        let fnuz = arch::of(arch).is_some_and(|known| known.fp8 == Fp8::Fnuz);
        match self {
            Self::Fp8 if fnuz => Self::Fp8Fnuz,
            Self::Bf8 if fnuz => Self::Bf8Fnuz,
            other => other,
        }
    }

    /// The type of what products of this one add up to, if nothing else is said: INT8 adds up to INT32, as MIOpen has it.
    #[must_use]
    pub const fn product(self) -> Self {
        match self {
            Self::Int8 => Self::Int32,
            other => other,
        }
    }

    /// Splits a type name off the front of `text`. No name is a prefix of another, so this is unambiguous.
    #[must_use]
    pub fn split_prefix(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|data_type| Some((data_type, text.strip_prefix(data_type.name())?)))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataType {
    type Err = UnknownDataType;

    /// Upper or lower case, since MIOpenDriver's cast flags use lower case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|data_type| data_type.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownDataType { found: text.chars().take(32).collect() })
    }
}

/// The types of a problem's input, weights and output: one name when they agree, else three.
///
/// # Errors
/// If `f` fails.
pub fn write_types(f: &mut fmt::Formatter<'_>, types: [DataType; 3]) -> fmt::Result {
    let [input, weights, output] = types;
    if input == weights && input == output { write!(f, "{input}") } else { write!(f, "{input}{weights}{output}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for data_type in DataType::ALL {
            assert_eq!(data_type.to_string().parse(), Ok(data_type));
            assert_eq!(DataType::from_driver_suffix(data_type.driver_suffix()), Some(data_type));
        }
        assert_eq!("bf16".parse(), Ok(DataType::Bf16));
        assert!("FP31".parse::<DataType>().is_err());
    }

    #[test]
    fn eight_bits_are_what_the_architecture_has() {
        let on = |arch| [DataType::Fp8.on(arch), DataType::Bf8.on(arch), DataType::Fp16.on(arch)];
        assert_eq!(on("gfx942"), [DataType::Fp8Fnuz, DataType::Bf8Fnuz, DataType::Fp16]);
        for arch in ["gfx950", "sm_90"] {
            assert_eq!(on(arch), [DataType::Fp8, DataType::Bf8, DataType::Fp16]);
        }
        assert!("FP8FNUZ".parse::<DataType>().is_err());
    }

    #[test]
    fn buffers_have_types_that_no_problem_has() {
        for data_type in DataType::ALL.into_iter().chain(DataType::OF_BUFFERS) {
            assert_eq!(DataType::of_buffer(data_type.name()), Some(data_type));
            let bytes = data_type.size() as u32;
            if let Some((least, most)) = data_type.integers().filter(|_| data_type != DataType::Bool) {
                assert_eq!(most - least, (1_i128 << (8 * bytes)) - 1, "{data_type}");
            }
        }
        assert!("UINT8".parse::<DataType>().is_err() && DataType::of_buffer("uint8").is_none());
        assert_eq!(DataType::of_buffer("FP8FNUZ"), None);
    }
}
