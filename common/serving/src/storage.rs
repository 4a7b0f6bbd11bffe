//! How a layer's weights are stored: what there is to say of it.

use serde::Serialize;

use crate::engine::{Engine, Precision};
use crate::excluded::LeftOut;
use crate::unread::Unread;

/// Type and scales of a layer's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// `None` for 16 bits.
    pub dtype: Option<Precision>,
    /// Rows and columns of a block that has a scale: rows are 0 where scales are of groups of columns alone.
    pub block_shape: Option<[u32; 2]>,
    /// Whether each channel has a scale.
    pub per_channel: bool,
    /// Whether each group has a zero point; else the middle of the range is zero.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_points: bool,
}

/// What a config says of how experts are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantised {
    /// Type and scales.
    pub storage: Storage,
    /// Whether vLLM makes blocks smaller until they divide what a rank has: its method for `quant_method` fp8 does, those of other formats do not.
    pub has_finer_blocks: bool,
    /// Of which layers the experts have 16 bits nevertheless, to vLLM and to SGLang.
    pub left_out: [LeftOut; 2],
    /// Whether shared experts have 16 bits nevertheless.
    pub leaves_shared_out: bool,
    /// Which engines compute such experts by other kernels, or not at all.
    pub unserved: Unserved,
    /// What is read nowhere here, where an engine leaves all experts in 16 bits, so that it need not be read for that engine.
    pub unread: Option<Unread>,
}

/// Experts for which an engine reads no config file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unserved {
    /// By neither engine, or by one of them.
    by: Option<By>,
    /// How they are stored, in words.
    found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Both,
    One(Engine),
}

impl Unserved {
    fn by(by: By, found: impl Into<String>) -> Self {
        Self { by: Some(by), found: found.into() }
    }

    /// How the experts are stored, where the engine reads no config file for such.
    #[must_use]
    pub fn found(&self, engine: Engine) -> Option<&str> {
        let is_so = matches!(self.by, Some(By::Both)) || self.by == Some(By::One(engine));
        is_so.then_some(self.found.as_str())
    }
}

impl Quantised {
    /// Of which layers the engine leaves the experts in 16 bits.
    #[must_use]
    pub fn left_out(&self, engine: Engine) -> LeftOut {
        let [vllm, sglang] = self.left_out;
        if engine == Engine::VLLM { vllm } else { sglang }
    }

    /// Experts that neither engine reads a config file for.
    pub(crate) fn unserved(found: impl Into<String>) -> Self {
        Self { unserved: Unserved::by(By::Both, found), ..Self::default() }
    }

    /// The same, which one engine alone reads a config file for.
    pub(crate) fn only_for(self, engine: Engine, found: impl Into<String>) -> Self {
        let other = if engine == Engine::VLLM { Engine::SGLANG } else { Engine::VLLM };
        Self { unserved: Unserved::by(By::One(other), found), ..self }
    }
}

impl From<Storage> for Quantised {
    fn from(storage: Storage) -> Self {
        Self { storage, ..Self::default() }
    }
}

impl Storage {
    /// Weights with a scale for each `group` of columns, and no zero points.
    #[must_use]
    pub fn grouped(dtype: Precision, group: u32) -> Self {
        Self { dtype: Some(dtype), block_shape: Some([0, group]), ..Self::default() }
    }

    /// Columns of a group that has a scale, where the kernel for such weights is launched.
    #[must_use]
    pub fn group(&self) -> Option<u32> {
        let is_grouped = self.dtype.is_some_and(Precision::has_groups);
        self.block_shape.filter(|[rows, group]| is_grouped && *rows == 0 && *group > 0).map(|[_, group]| group)
    }
}
