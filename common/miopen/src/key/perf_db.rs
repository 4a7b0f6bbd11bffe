//! The keys of MIOpen's perf databases: 24 columns, in sqlite or joined into a text.

use std::fmt;
use std::str::FromStr;

use bluefin_common::problem::{ConvProblem, DataType, Direction, write_types};
use bluefin_common::value::Value;

use super::find_db::{FindDbKey, KeyError, parse_size};
use super::label::LayoutLabel;
use super::types::parse_types;

/// A perf-db key (MIOpen 3.3, src/include/miopen/conv/problem_description.hpp). As in find-db keys, `in` is dy's side
/// for the backward directions. Output sizes, cast types and the other layouts are no part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PerfDbKey {
    /// In the order of [`PerfDbKey::columns`] after the three texts.
    pub integers: [u32; 21],
    /// Of in.
    pub layout: LayoutLabel,
    /// Of in, weights and out.
    pub types: [DataType; 3],
    /// Its letter is the last field of the text form.
    pub direction: Direction,
}

/// Why a text is no perf-db key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("perf-db key: {column}: found {found:?}, expected {expected}")]
pub struct PerfKeyError {
    column: &'static str,
    found: String,
    expected: &'static str,
}

impl PerfDbKey {
    /// The columns of table `config` behind its id, in the order of the sqlite schema: [`Self::TEXTS`] texts, then the
    /// integers, which the text form begins with.
    pub const COLUMNS: [&'static str; 24] = [
        "layout",
        "data_type",
        "direction",
        "spatial_dim",
        "in_channels",
        "in_h",
        "in_w",
        "in_d",
        "fil_h",
        "fil_w",
        "fil_d",
        "out_channels",
        "batchsize",
        "pad_h",
        "pad_w",
        "pad_d",
        "conv_stride_h",
        "conv_stride_w",
        "conv_stride_d",
        "dilation_h",
        "dilation_w",
        "dilation_d",
        "bias",
        "group_count",
    ];
    /// Of these columns, those that hold texts.
    pub const TEXTS: usize = 3;

    /// The names and values of table `config`, in the order of the sqlite schema: texts first.
    #[must_use]
    pub fn columns(&self) -> [(&'static str, Value); 24] {
        let texts = [self.layout.to_string(), Types(self.types).to_string(), self.direction.letter().to_string()];
        let mut values = texts.into_iter().map(Value::Text).chain(self.integers.into_iter().map(Value::from));
        // There are as many values as columns.
        Self::COLUMNS.map(|name| (name, values.next().unwrap_or(Value::Int(0))))
    }
}

impl From<&FindDbKey> for PerfDbKey {
    fn from(key: &FindDbKey) -> Self {
        // MIOpen's attributes of a depth that is not there default to 0, its sizes to 1.
        let attribute = |[d, h, w]: [u32; 3]| if key.spatial == 3 { [h, w, d] } else { [h, w, 0] };
        let [in_d, in_h, in_w] = key.input;
        let [fil_d, fil_h, fil_w] = key.filter;
        let [pad_h, pad_w, pad_d] = attribute(key.pad);
        let [stride_h, stride_w, stride_d] = attribute(key.stride);
        let [dilation_h, dilation_w, dilation_d] = attribute(key.dilation);
        let [layout, ..] = key.layouts;
        let integers = [
            key.spatial,
            key.in_channels,
            in_h,
            in_w,
            in_d,
            fil_h,
            fil_w,
            fil_d,
            key.out_channels,
            key.batch,
            pad_h,
            pad_w,
            pad_d,
            stride_h,
            stride_w,
            stride_d,
            dilation_h,
            dilation_w,
            dilation_d,
            key.bias,
            key.group,
        ];
        Self { integers, layout, types: key.types, direction: key.direction }
    }
}

impl From<&ConvProblem> for PerfDbKey {
    fn from(problem: &ConvProblem) -> Self {
        Self::from(&FindDbKey::from(problem))
    }
}

impl PerfDbKey {
    /// A problem with this key. Other problems have it too: the key holds one layout for all three tensors, and for the
    /// backward directions no size of x, which a stride leaves open. Of the sizes that give dy's, it is the one that is
    /// the stride times as large, as in most networks, or else the smallest.
    ///
    /// # Errors
    /// As for [`FindDbKey::problem`], and a key that no problem has, such as one with a pad in a depth that is not
    /// there.
    #[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
    pub fn problem(&self) -> Result<ConvProblem, KeyError> {
        let [
            spatial,
            in_channels,
            in_h,
            in_w,
            in_d,
            fil_h,
            fil_w,
            fil_d,
            out_channels,
            batch,
            pad_h,
            pad_w,
            pad_d,
            stride_h,
            stride_w,
            stride_d,
            dilation_h,
            dilation_w,
            dilation_d,
            bias,
            group,
        ] = self.integers;
        let (input, filter, pad) = ([in_d, in_h, in_w], [fil_d, fil_h, fil_w], [pad_d, pad_h, pad_w]);
        // In 2D the columns of the depth are 0, which no stride can be.
        let depth = |value: u32| if spatial == 3 { value } else { 1 };
        let stride = [depth(stride_d), stride_h, stride_w];
        let dilation = [depth(dilation_d), dilation_h, dilation_w];
        let mut output = [1; 3];
        for (axis, size) in output.iter_mut().enumerate().skip(if spatial == 3 { 0 } else { 1 }) {
            let place = Axis { pad: pad[axis], stride: stride[axis], reach: reach(dilation[axis], filter[axis]) };
            *size = match self.direction {
                Direction::Forward => place.output_of(input[axis]),
                Direction::BackwardData | Direction::BackwardWeights => place.input_of(input[axis]),
            };
        }
        let problem = FindDbKey {
            spatial,
            in_channels,
            input,
            filter,
            out_channels,
            output,
            batch,
            pad,
            stride,
            dilation,
            bias,
            layouts: [self.layout; 3],
            types: self.types,
            direction: self.direction,
            group,
            casts: [None; 3],
        }
        .problem()?;
        let printed = PerfDbKey::from(&problem);
        if printed == *self {
            return Ok(problem);
        }
        Err(KeyError::malformed("columns", self, printed.to_string()))
    }
}

/// What a filter covers.
fn reach(dilation: u32, filter: u32) -> i64 {
    i64::from(dilation) * (i64::from(filter) - 1) + 1
}

/// One axis of a convolution.
struct Axis {
    pad: u32,
    stride: u32,
    reach: i64,
}

impl Axis {
    fn output_of(&self, input: u32) -> u32 {
        let free = i64::from(input) + 2 * i64::from(self.pad) - self.reach;
        // A stride of zero is refused with the rest of the problem.
        u32::try_from(free.max(0) / i64::from(self.stride.max(1)) + 1).unwrap_or(u32::MAX)
    }

    fn input_of(&self, output: u32) -> u32 {
        let (output, stride) = (i64::from(output), i64::from(self.stride));
        let least = (output - 1) * stride + self.reach - 2 * i64::from(self.pad);
        let usual = output * stride;
        let size = if (least..least + stride).contains(&usual) { usual } else { least };
        u32::try_from(size.max(1)).unwrap_or(u32::MAX)
    }
}

struct Types([DataType; 3]);

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_types(f, self.0)
    }
}

impl fmt::Display for PerfDbKey {
    /// The text form: the integers, then layout, type and direction, joined by `x`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for integer in self.integers {
            write!(f, "{integer}x")?;
        }
        write!(f, "{}x{}x{}", self.layout, Types(self.types), self.direction)
    }
}

impl FromStr for PerfDbKey {
    type Err = PerfKeyError;

    /// Reads the text form. Strict: whatever is accepted prints back byte for byte.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            |column, found: &str, expected| PerfKeyError { column, found: found.chars().take(40).collect(), expected };
        let mut fields = text.split('x');
        let mut integers = [0; 21];
        for (slot, column) in integers.iter_mut().zip(PerfDbKey::COLUMNS.into_iter().skip(PerfDbKey::TEXTS)) {
            let field = fields.next().unwrap_or_default();
            *slot = parse_size(field).ok_or_else(|| wrong(column, field, "a decimal number"))?;
        }
        let [spatial, ..] = integers;
        let mut field = || fields.next().unwrap_or_default();
        let (layout, types, direction) = (field(), field(), field());
        let key = Self {
            integers,
            // Old databases hold 3D rows with a 2D label; no MIOpen finds them, but they are what the file says.
            layout: LayoutLabel::parse(layout, spatial)
                .or_else(|| LayoutLabel::parse(layout, 2))
                .ok_or_else(|| wrong("layout", layout, "a layout"))?,
            types: parse_types(types)
                .ok_or_else(|| wrong("data_type", types, "one type name, or three that differ"))?,
            direction: direction.parse().map_err(|_| wrong("direction", direction, "F, B or W"))?,
        };
        match fields.next() {
            None => Ok(key),
            Some(extra) => Err(wrong("end", extra, "nothing after the direction")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(find_db_key: &str) -> PerfDbKey {
        PerfDbKey::from(&FindDbKey::parse(find_db_key).unwrap())
    }

    #[test]
    fn depths_that_are_not_there_are_one_or_zero() {
        let key = key("1000-13-13-1x1-512-13-13-16-0x0-1x1-1x1-0-NCHW-FP16-B");
        let text = "2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xB";
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse(), Ok(key));
    }

    #[test]
    fn columns_are_in_schema_order() {
        let columns = key("64-2-28-28-3x1x1-32-2-28-29-8-1x0x0-1x1x1-1x1x1-0-NDHWC-NCDHW-NDHWC-FP32-F_g2").columns();
        let shown: Vec<String> = columns.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown.join(" "),
            "layout=NDHWC data_type=FP32 direction=F spatial_dim=3 in_channels=64 in_h=28 in_w=28 in_d=2 fil_h=1 \
             fil_w=1 fil_d=3 out_channels=32 batchsize=8 pad_h=0 pad_w=0 pad_d=1 conv_stride_h=1 conv_stride_w=1 \
             conv_stride_d=1 dilation_h=1 dilation_w=1 dilation_d=1 bias=0 group_count=2"
        );
    }

    #[test]
    fn a_key_gives_a_problem_with_this_key() {
        for (find_db_key, exact) in [
            ("64-56-56-3x3-128-28-28-16-1x1-2x2-1x1-0-NCHW-FP16-F", true),
            ("128-28-28-3x3-64-56-56-16-1x1-2x2-1x1-0-NCHW-FP16-B", true),
            ("2048-7-7-1x1-1024-14-14-128-0x0-2x2-1x1-0-NCHW-FP32-W", true),
            // 27 and 28 both give 13.
            ("128-13-13-3x3-64-28-28-16-0x0-2x2-1x1-0-NHWC-NHWC-NHWC-FP32-B", false),
            ("64-2-28-28-3x1x1-32-2-28-28-8-1x0x0-1x1x1-1x1x1-0-NCDHW-FP32-W_g2", true),
        ] {
            let key = FindDbKey::parse(find_db_key).unwrap();
            let problem = PerfDbKey::from(&key).problem().unwrap();
            assert_eq!(PerfDbKey::from(&problem), PerfDbKey::from(&key), "{find_db_key}");
            assert_eq!(FindDbKey::from(&problem).to_string() == find_db_key, exact, "{find_db_key}");
        }
        let wrong: PerfDbKey = "2x0x1x1x1x1x1x1x1x1x0x0x0x0x0x0x0x0x0x0x0xNCHWxFP32xF".parse().unwrap();
        assert!(wrong.problem().is_err());
    }

    #[test]
    fn wrong_columns_are_named() {
        for (text, column) in [
            ("2x1000", "in_h"),
            ("2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xABCDxFP16xB", "layout"),
            ("2x1000x13x13x1x1x1x1x512x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP16xBx", "end"),
        ] {
            assert_eq!(text.parse::<PerfDbKey>().unwrap_err().column, column);
        }
    }
}
