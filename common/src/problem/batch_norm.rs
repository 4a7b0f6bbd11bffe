//! Batch norms.

mod command;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::find_db_key::parse_size;
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

    /// As perf-db keys spell it.
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

    /// The key in a perf db of MIOpen's, whose file name then begins with [`Self::PERF_DB_PREFIX`]: 13 fields in the order
    /// of MIOpen 3.3, src/include/miopen/batchnorm/problem_description.hpp.
    #[must_use]
    pub fn perf_db_fields(&self) -> [(&'static str, Value); 13] {
        let [d, h, w] = self.input;
        let training = self.direction == NormDirection::Training;
        let backward = self.direction == NormDirection::Backward;
        let flag = |set: bool| Value::from(u32::from(set));
        [
            ("spatial_dim", self.layout.spatial().into()),
            ("batchsize", self.n.into()),
            ("in_channels", self.c.into()),
            ("in_h", h.into()),
            ("in_w", w.into()),
            ("in_d", d.into()),
            ("resultsave", flag(training && self.save)),
            ("resultrunning", flag(training && self.run)),
            ("useSaved", flag(backward && self.save)),
            ("layout", self.layout.name().into()),
            ("direction", self.direction.name().into()),
            ("data_type", self.data_type.name().into()),
            ("mode", self.mode.number().into()),
        ]
    }

    /// What precedes the base name of a perf db of batch norms.
    pub const PERF_DB_PREFIX: &str = "batchnorm_";

    /// The key in the text form.
    #[must_use]
    pub fn perf_db_key(&self) -> String {
        self.perf_db_fields().map(|(_, value)| value.to_string()).join("x")
    }

    /// The problem of a key in the text form. Whether the statistics are of another type is not part of a key.
    ///
    /// # Errors
    /// The first field that is not as MIOpen prints it, or values that make no problem.
    pub fn from_perf_db_key(text: &str) -> Result<Self, ProblemError> {
        let fields: Vec<&str> = text.split('x').collect();
        let Ok([spatial, n, c, h, w, d, save, run, saved, layout, direction, data_type, mode]) =
            <[&str; 13]>::try_from(fields)
        else {
            let fields = text.split('x').count();
            return Err(ProblemError::new("perf-db key of a batch norm", format!("{fields} fields"), "13"));
        };
        let number = |field: &'static str, text: &str| {
            parse_size(text).ok_or_else(|| ProblemError::new(field, format!("{text:?}"), "a decimal number"))
        };
        let flag = |field: &'static str, text: &str| match text {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(ProblemError::new(field, format!("{text:?}"), "0 or 1")),
        };
        let direction = NormDirection::ALL
            .into_iter()
            .find(|known| known.name() == direction)
            .ok_or_else(|| ProblemError::new("direction", format!("{direction:?}"), "Trn, Inf or Bwd"))?;
        let layout: Layout =
            layout.parse().map_err(|_| ProblemError::new("layout", format!("{layout:?}"), "a layout"))?;
        if number("spatial_dim", spatial)? != layout.spatial() {
            return Err(ProblemError::new("spatial_dim", spatial, format!("{}, as {layout} has", layout.spatial())));
        }
        let (save, run, saved) = (flag("resultsave", save)?, flag("resultrunning", run)?, flag("useSaved", saved)?);
        let data_type =
            data_type.parse().map_err(|_| ProblemError::new("data_type", format!("{data_type:?}"), "a type"));
        let problem = Self {
            direction,
            mode: if flag("mode", mode)? { NormMode::Spatial } else { NormMode::PerActivation },
            n: number("batchsize", n)?,
            c: number("in_channels", c)?,
            input: [number("in_d", d)?, number("in_h", h)?, number("in_w", w)?],
            layout,
            data_type: data_type?,
            mixed: false,
            save: if direction == NormDirection::Backward { saved } else { save },
            run,
        };
        let problem = problem.checked()?;
        let printed = problem.perf_db_key();
        if printed != text {
            return Err(ProblemError::new("perf-db key of a batch norm", text, printed));
        }
        Ok(problem)
    }

    /// The `config` of a job of fin's; the job's own `direction` is [`NormDirection::bit`].
    #[must_use]
    pub fn fin_config(&self) -> serde_json::Value {
        let [in_d, in_h, in_w] = self.input;
        json!({
            "cmd": self.base_word(),
            "in_layout": self.layout.name(),
            // The name on the branches where batch norm works.
            "layout": self.layout.name(),
            "spatial_dim": self.layout.spatial(),
            "batchsize": self.n,
            "in_channels": self.c,
            "in_d": in_d,
            "in_h": in_h,
            "in_w": in_w,
            "mode": self.mode.number(),
            "save": u8::from(self.save),
            "run": u8::from(self.run),
            "forw": self.direction.bit() & 3,
            "back": self.direction.bit() >> 2,
            "direction": self.direction.bit(),
        })
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
