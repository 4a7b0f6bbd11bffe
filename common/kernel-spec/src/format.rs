//! The TOML of a spec as it is written, before anything is checked. `docs/kernel-specs.md` explains every field.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Specialize;
use crate::error::SpecError;
use crate::place::line_of;
use bluefin_common::task::Role;
use bluefin_common::value::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpec {
    pub(super) name: String,
    pub(super) problem: String,
    pub(super) toolchain: String,
    pub(super) targets: Vec<String>,
    pub(super) source: String,
    /// What solvers of a second toolchain are compiled from.
    pub(super) beside: Option<RawBeside>,
    #[serde(default)]
    pub(super) includes: Vec<String>,
    pub(super) specialize: Option<Vec<Specialize>>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    #[serde(default = "Scalar::yes")]
    pub(super) applicable: Scalar,
    #[serde(default, rename = "let")]
    pub(super) lets: Vec<String>,
    pub(super) reference: String,
    pub(super) flops: Option<Scalar>,
    pub(super) bytes: Option<Scalar>,
    /// Macros of all solvers.
    #[serde(default)]
    pub(super) defines: BTreeMap<String, Scalar>,
    /// The file that holds further spaces.
    pub(super) spaces: Option<String>,
    #[serde(default)]
    pub(super) space: BTreeMap<String, RawSpace>,
    #[serde(default)]
    pub(super) sizes: BTreeMap<String, RawSize>,
    pub(super) buffer: Vec<RawBuffer>,
    pub(super) tolerance: BTreeMap<String, RawTolerance>,
    pub(super) solver: Vec<RawSolver>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBeside {
    pub(super) toolchain: String,
    pub(super) source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBuffer {
    pub(super) name: String,
    pub(super) r#type: String,
    pub(super) length: Scalar,
    pub(super) role: Role,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) fill: Option<f64>,
    /// How much each element is more than the one before, from `low` on or from zero.
    pub(super) step: Option<u32>,
    /// A file beside the spec.
    pub(super) data: Option<String>,
    /// What it is made of.
    pub(super) recipe: Option<RawRecipe>,
}

/// What a buffer is made of: a routing, the part of one in blocks that one of the fields `..._of` names, or rows of another buffer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRecipe {
    pub(super) routing: Option<RawSpread>,
    pub(super) rows_of: Option<String>,
    pub(super) groups_of: Option<String>,
    pub(super) count_of: Option<String>,
    pub(super) copy_of: Option<String>,
    /// The buffer that says which rows are copied.
    pub(super) by: Option<String>,
    /// Elements of a row that is copied.
    pub(super) row: Option<Scalar>,
    pub(super) groups: Option<Scalar>,
    pub(super) picks: Option<Scalar>,
    pub(super) exponent: Option<f64>,
    pub(super) counts: Option<Vec<u32>>,
    pub(super) seed: Option<u64>,
    /// How many draws a run computes.
    pub(super) draws: Option<u32>,
    /// The param that is the size of a block.
    pub(super) block: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawSpread {
    Uniform,
    Zipf,
    Counts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTolerance {
    pub(super) absolute: Scalar,
    pub(super) relative: Scalar,
}

/// A tuning space that solvers share by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpace {
    pub(super) param: Vec<RawParam>,
    #[serde(default)]
    pub(super) constraints: Vec<String>,
    /// Of solvers that say none.
    pub(super) cost: Option<Scalar>,
    #[serde(default)]
    pub(super) cost_let: Vec<String>,
}

/// A file of spaces, which several specs share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpaces {
    pub(super) space: BTreeMap<String, RawSpace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSolver {
    pub(super) name: String,
    pub(super) algorithm: String,
    /// The second toolchain, for a solver of that.
    pub(super) toolchain: Option<String>,
    /// The name of a space, to which the params and constraints below are added.
    pub(super) space: Option<String>,
    #[serde(default = "yes")]
    pub(super) candidate: bool,
    #[serde(default = "Scalar::yes")]
    pub(super) applicable: Scalar,
    #[serde(default)]
    pub(super) defines: BTreeMap<String, Scalar>,
    #[serde(default = "Scalar::zero")]
    pub(super) workspace: Scalar,
    pub(super) compile_cost: Option<Scalar>,
    pub(super) cost: Option<Scalar>,
    #[serde(default)]
    pub(super) cost_let: Vec<String>,
    #[serde(default)]
    pub(super) constraints: Vec<String>,
    #[serde(default)]
    pub(super) param: Vec<RawParam>,
    /// A space that is a list, in place of params.
    pub(super) points: Option<Vec<BTreeMap<String, RawSize>>>,
    /// What the toolchain passes as constants of the kernel's language.
    #[serde(default)]
    pub(super) constants: BTreeMap<String, RawConstant>,
    /// What words of a param stand for, by param and word.
    #[serde(default)]
    pub(super) words: BTreeMap<String, BTreeMap<String, RawConstant>>,
    pub(super) launch: Vec<RawLaunch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawParam {
    pub(super) name: String,
    pub(super) values: Vec<RawValue>,
    pub(super) default: RawValue,
    #[serde(default)]
    pub(super) bind: Bind,
}

fn yes() -> bool {
    true
}

/// When a param gets its value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Bind {
    /// As a macro, or what the toolchain has in place of it.
    #[default]
    Compile,
    /// As an argument of a launch, so that all values share what is compiled.
    Argument,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLaunch {
    pub(super) entry: String,
    /// Whether a candidate has the launch at all.
    #[serde(default = "Scalar::yes")]
    pub(super) when: Scalar,
    pub(super) arguments: Vec<RawArgument>,
    pub(super) grid: Option<Vec<Scalar>>,
    pub(super) block: Option<Vec<Scalar>>,
    pub(super) shared: Option<Scalar>,
}

/// A value of a tuning space.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an integer, a bool or a string")]
pub(super) enum RawValue {
    Bool(bool),
    Int(i64),
    Text(String),
}

/// A constant with its kind in Python.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, a bool, a string, a list of these, { dtype = \"fp16\" } or { none = true }"
)]
pub(super) enum RawConstant {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<RawConstant>),
    Named(RawNamed),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(super) enum RawNamed {
    Dtype(String),
    None(bool),
}

/// What a problem's size is when nothing else is said; a value of a point.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an integer, a bool or a string")]
pub(super) enum RawSize {
    Int(i64),
    Bool(bool),
    Text(String),
}

impl RawSize {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Int(int) => (*int).into(),
            Self::Bool(bool) => (*bool).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

/// An expression; a plain number or truth value needs no quotes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an expression in quotes, a number or a bool")]
pub(super) enum Scalar {
    Text(String),
    Int(i64),
    Bool(bool),
    Float(f64),
}

impl Scalar {
    fn yes() -> Self {
        Self::Bool(true)
    }

    pub(super) fn zero() -> Self {
        Self::Int(0)
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(int) => int.to_string(),
            Self::Bool(bool) => bool.to_string(),
            // With a point, which makes it a float to the parser, and without an exponent.
            Self::Float(float) if float.fract() == 0.0 => format!("{float:.1}"),
            Self::Float(float) => float.to_string(),
        }
    }
}

/// A buffer, `workspace`, or a number with its type.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a buffer's name, \"workspace\", \"none\", { buffer = …, offset = … }, { descriptor = …, shape = […], strides = […], block_shape = […] }, { struct = [fields …] }, or one of { i1 = … } { i32 = … } { i64 = … } { u32 = … } { u64 = … } { f32 = … } { f64 = … }"
)]
pub(super) enum RawArgument {
    Name(String),
    Part(RawPart),
    Tensor(Box<RawTensor>),
    Struct(RawStruct),
    Number(RawNumber),
}

/// A structure by value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStruct {
    #[serde(rename = "struct")]
    pub(super) fields: Vec<RawField>,
    /// Bytes.
    pub(super) size: Option<u32>,
    pub(super) align: Option<u32>,
}

/// A field of a structure.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a buffer's name, \"workspace\", { buffer = …, offset = … }, { struct = [fields …] }, or one of { i1 = … } { i8 = … } { i16 = … } { i32 = … } { i64 = … } { u8 = … } { u16 = … } { u32 = … } { u64 = … } { f32 = … } { f64 = … }, each with `at` where it does not follow the field before it"
)]
pub(super) enum RawField {
    Name(String),
    Value(Box<RawFieldValue>),
}

/// A field that is more than a name: one of its types has a value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFieldValue {
    /// The byte of the structure that it begins at.
    pub(super) at: Option<u32>,
    pub(super) buffer: Option<String>,
    pub(super) offset: Option<Scalar>,
    #[serde(rename = "struct")]
    pub(super) fields: Option<Vec<RawField>>,
    pub(super) size: Option<u32>,
    pub(super) align: Option<u32>,
    pub(super) i1: Option<RawNumbers>,
    pub(super) i8: Option<RawNumbers>,
    pub(super) i16: Option<RawNumbers>,
    pub(super) i32: Option<RawNumbers>,
    pub(super) i64: Option<RawNumbers>,
    pub(super) u8: Option<RawNumbers>,
    pub(super) u16: Option<RawNumbers>,
    pub(super) u32: Option<RawNumbers>,
    pub(super) u64: Option<RawNumbers>,
    pub(super) f32: Option<RawNumbers>,
    pub(super) f64: Option<RawNumbers>,
}

/// A number, or those of an array.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an expression, or a list of them")]
pub(super) enum RawNumbers {
    One(Scalar),
    Several(Vec<Scalar>),
}

/// A buffer from an element of it on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPart {
    pub(super) buffer: String,
    pub(super) offset: Scalar,
}

/// A tensor descriptor of Triton's, in its words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTensor {
    /// The buffer.
    pub(super) descriptor: String,
    /// Elements of it before the tensor.
    #[serde(default = "Scalar::zero")]
    pub(super) offset: Scalar,
    pub(super) shape: Vec<Scalar>,
    /// In elements.
    pub(super) strides: Vec<Scalar>,
    pub(super) block_shape: Vec<Scalar>,
    #[serde(default)]
    pub(super) padding: Padding,
    #[serde(default)]
    pub(super) round_f32_to_tf32: bool,
}

/// What a tensor descriptor has outside of the tensor.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Padding {
    #[default]
    Zero,
    Nan,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(super) enum RawNumber {
    I1(Scalar),
    U32(Scalar),
    U64(Scalar),
    I32(Scalar),
    I64(Scalar),
    F32(Scalar),
    F64(Scalar),
}

/// Reads `text`; `what` is what an error calls it.
pub(super) fn parse<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, SpecError> {
    toml::from_str(text).map_err(|error| SpecError::Toml {
        what: what.to_string(),
        line: error.span().map_or(0, |span| line_of(text, span.start)),
        reason: error.message().to_string(),
    })
}

impl RawSpec {
    pub(super) fn parse(text: &str) -> Result<Self, SpecError> {
        parse("kernel spec", text)
    }

    /// Its toolchain, and the second one where there is one, each with its source.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &String)> {
        let beside = self.beside.as_ref().map(|beside| (beside.toolchain.as_str(), &beside.source));
        [(self.toolchain.as_str(), &self.source)].into_iter().chain(beside)
    }

    /// Whether solvers may be of `toolchain`.
    pub(super) fn has(&self, toolchain: &str) -> bool {
        self.sources().any(|(name, _)| name == toolchain)
    }
}
