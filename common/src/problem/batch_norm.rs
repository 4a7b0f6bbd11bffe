//! Batch norms.

mod command;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{DataType, Layout, Operation, Operator, Problem, ProblemError, variables};
use crate::value::Value;

pub(super) static OPERATOR: Operator = Operator {
    word: "bnorm",
    problems: "batch norms",
    in_miopen: true,
    variables: &["direction", "mode", "n", "c", "d", "h", "w", "layout", "dtype", "mixed", "save", "run"],
    is_base: |base| command::types(base).is_some(),
    flags: command::FLAGS,
    parse: command::parse,
};

/// What a batch norm computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NormDirection {
    /// y from x, and the statistics of x.
    Training,
    /// y from x and known statistics.
    Inference,
    /// dx and the gradients of scale and bias, from x and dy.
    Backward,
}

impl NormDirection {
    /// Every direction, in the order of its bits.
    pub const ALL: [Self; 3] = [Self::Training, Self::Inference, Self::Backward];

    /// The bit of fin's jobs: the driver's `--forw` and, four times, its `--back`.
    #[must_use]
    pub const fn bit(self) -> u32 {
        match self {
            Self::Training => 1,
            Self::Inference => 2,
            Self::Backward => 4,
        }
    }

    /// MIOpen's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Training => "Trn",
            Self::Inference => "Inf",
            Self::Backward => "Bwd",
        }
    }
}

impl fmt::Display for NormDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Over what statistics are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NormMode {
    /// Over the batch: each place of each channel has its own.
    PerActivation,
    /// Over batch and places: each channel has its own.
    Spatial,
}

impl NormMode {
    /// MIOpen's number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::PerActivation => 0,
            Self::Spatial => 1,
        }
    }
}

/// A batch norm in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct BatchNormProblem {
    /// Which half of it is computed, and whether from known statistics.
    pub direction: NormDirection,
    /// Spatial: c means and variances; per activation: c x d x h x w.
    pub mode: NormMode,
    /// Batch.
    pub n: u32,
    /// Channels.
    pub c: u32,
    /// Depth, height, width; the depth is 1 in a 2D layout.
    pub input: [u32; 3],
    /// Of x and y: NCHW, NHWC, NCDHW or NDHWC.
    pub layout: Layout,
    /// Of x and y: FP32, FP16 or BF16.
    pub data_type: DataType,
    /// Scale, bias and statistics are FP32 although x is of a smaller type.
    pub mixed: bool,
    /// Training keeps mean and variance of the batch; backward reads them.
    pub save: bool,
    /// Training updates the running mean and variance.
    pub run: bool,
}

/// The same fields before they are checked.
#[derive(Deserialize)]
struct Unchecked {
    direction: NormDirection,
    mode: NormMode,
    n: u32,
    c: u32,
    input: [u32; 3],
    layout: Layout,
    data_type: DataType,
    mixed: bool,
    save: bool,
    run: bool,
}

impl TryFrom<Unchecked> for BatchNormProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { direction, mode, n, c, input, layout, data_type, mixed, save, run } = fields;
        Self { direction, mode, n, c, input, layout, data_type, mixed, save, run }.checked()
    }
}

impl BatchNormProblem {
    /// The problem, if its fields make one.
    ///
    /// # Errors
    /// The first field that is out of range or does not fit the others.
    pub fn checked(mut self) -> Result<Self, ProblemError> {
        const MAX: u32 = i32::MAX as u32;
        if self.layout.spatial() == 2 {
            self.input[0] = 1;
        }
        let [d, h, w] = self.input;
        for (field, size) in
            [("batch size", self.n), ("input channels", self.c), ("depth", d), ("height", h), ("width", w)]
        {
            if !(1..=MAX).contains(&size) {
                return Err(ProblemError::new(field, size, format!("1 to {MAX}")));
            }
        }
        if self.elements() > 1 << 60 {
            return Err(ProblemError::new("elements of x", self.elements(), format!("at most {}", 1_u64 << 60)));
        }
        if !matches!(self.layout, Layout::Nchw | Layout::Nhwc | Layout::Ncdhw | Layout::Ndhwc) {
            return Err(ProblemError::new("layout", self.layout, "NCHW, NHWC, NCDHW or NDHWC"));
        }
        if !matches!(self.data_type, DataType::Fp32 | DataType::Fp16 | DataType::Bf16) {
            return Err(ProblemError::new("data type", self.data_type, "FP32, FP16 or BF16"));
        }
        if self.mixed && self.data_type == DataType::Fp32 {
            return Err(ProblemError::new("data type", "FP32 with FP32 statistics", "FP16 or BF16 with them"));
        }
        Ok(self)
    }

    fn elements(&self) -> u128 {
        let product = |all: u128, size: u32| all.saturating_mul(size.into());
        self.input.into_iter().fold(u128::from(self.n) * u128::from(self.c), product)
    }

    /// The driver's base word.
    #[must_use]
    pub fn base_word(&self) -> String {
        format!("bnorm{}{}", self.data_type.driver_suffix(), if self.mixed { "fp32" } else { "" })
    }
}

impl Operation for BatchNormProblem {
    fn operator(&self) -> &'static Operator {
        &OPERATOR
    }

    fn canonical(&self) -> String {
        let [d, h, w] = self.input;
        let depth = if self.layout.spatial() == 3 { format!(" -D {d}") } else { String::new() };
        let (forw, back) = match self.direction {
            NormDirection::Training => (1, 0),
            NormDirection::Inference => (2, 0),
            NormDirection::Backward => (0, 1),
        };
        format!(
            "{} -n {} -c {}{depth} -H {h} -W {w} -m {} --forw {forw} -b {back} -s {} -r {} --layout {}",
            self.base_word(),
            self.n,
            self.c,
            self.mode.number(),
            u8::from(self.save),
            u8::from(self.run),
            self.layout
        )
    }

    fn variables(&self) -> BTreeMap<String, Value> {
        let [d, h, w] = self.input;
        variables([
            ("direction", self.direction.name().into()),
            ("mode", self.mode.number().into()),
            ("n", self.n.into()),
            ("c", self.c.into()),
            ("d", d.into()),
            ("h", h.into()),
            ("w", w.into()),
            ("layout", self.layout.name().into()),
            ("dtype", self.data_type.name().into()),
            ("mixed", self.mixed.into()),
            ("save", self.save.into()),
            ("run", self.run.into()),
        ])
    }

    fn kind(&self) -> String {
        format!("bnorm {} {}", self.direction, self.data_type)
    }

    fn with_type(&self, data_type: DataType) -> Option<Result<Problem, ProblemError>> {
        let mixed = self.mixed && data_type != DataType::Fp32;
        Some(Self { data_type, mixed, ..self.clone() }.checked().map(Problem::BatchNorm))
    }

    fn with_batch(&self, n: u32) -> Option<Result<Problem, ProblemError>> {
        Some(Self { n, ..self.clone() }.checked().map(Problem::BatchNorm))
    }

    /// For example `bnorm Trn spatial 64x56x56 n256 FP16`.
    fn label(&self) -> String {
        let [d, h, w] = self.input;
        let depth = if self.layout.spatial() == 3 { format!("{d}x") } else { String::new() };
        let mode = match self.mode {
            NormMode::PerActivation => "activation",
            NormMode::Spatial => "spatial",
        };
        let mut label = format!("bnorm {} {mode} {}x{depth}{h}x{w} n{}", self.direction, self.c, self.n);
        if self.layout != Layout::default_for(self.layout.spatial()) {
            label.push_str(&format!(" {}", self.layout));
        }
        label.push_str(&format!(" {}{}", self.data_type, if self.mixed { " mixed" } else { "" }));
        label
    }
}

#[cfg(test)]
mod tests;
