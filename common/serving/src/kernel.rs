//! Kernel specs of mixtures of experts: a problem for each number of tokens, both products in one candidate as an engine launches them by
//! one row, and the engine's default rows as solvers of their own, so that each play-off has them.

mod grouped;
mod operands;
mod products;
mod toml;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use bluefin_common::arch::Vendor;
use bluefin_common::value::Value;
use serde_json::Value as Json;

use self::operands::Operands;
use crate::default::{Gpu, Question, default_row};
use crate::engine::{Engine, Precision};
use crate::error::{Error, Unmade};
use crate::file::ConfigFile;
use crate::installed::Source;
use crate::row::{GROUP, K, M, N, Row, SPLIT_K, USE_TMA};
use crate::shapes::MoeShape;
use crate::space::{Tuned, around, axes, launched};

/// How tokens are sent to experts.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Routing {
    /// All experts as often, as the engines' tuners have it.
    #[default]
    Uniform,
    /// The nth expert n to this power times less often than the first.
    Zipf(f64),
    /// As often as was recorded, and where: what errors name.
    Counts(Vec<u32>, String),
}

/// What a spec is made for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Whose launches they are.
    pub engine: Engine,
    /// The layer on one rank.
    pub shape: &'a MoeShape,
    /// The type of layers of 16 bits, and of all outputs: `BF16` or `FP16`.
    pub half: &'static str,
    /// Where it runs.
    pub gpu: Gpu,
    /// Whether the kernel is the engine's own, and none of bluefin's.
    pub is_engines: bool,
    /// Numbers of tokens that are to be tuned.
    pub tokens: &'a [i64],
    /// How tokens are sent to experts.
    pub routing: &'a Routing,
    /// A file whose rows are tried beside the rest.
    pub shipped: Option<&'a ConfigFile>,
    /// Another one.
    pub known: Option<&'a ConfigFile>,
    /// Whether the space is tried; else those rows alone.
    pub searched: bool,
    /// Whether further values than those of the engine's tuner are tried as well.
    pub is_widened: bool,
    /// Rows of the first product by batch size, where the second has rows of its own. The spec is of the second then; what it is compared
    /// with is the row of the first, by which it is launched else, and whose BLOCK_SIZE_M it has, as both share what is sorted.
    pub down: Option<&'a BTreeMap<i64, Row>>,
}

/// What the spec's solvers are called.
pub const SEARCHED: &str = "Searched";
/// Followed by the number of tokens, as are the next two.
pub const DEFAULT: &str = "Default";
/// The row of [`Asked::shipped`].
pub const SHIPPED: &str = "Shipped";
/// The row of [`Asked::known`].
pub const KNOWN: &str = "Known";

/// The name of a spec's file.
pub const SPEC_FILE: &str = "spec.toml";

/// Makes the files of a spec by name: it, the sources of its kernels, and what stands in for the engine's modules.
///
/// # Errors
/// If layers whose weights are stored so are not known here.
pub fn files(asked: &Asked<'_>, source: &Source) -> Result<BTreeMap<String, String>, Unmade> {
    let asked = &asked.clone().by(source);
    asked.check_routes()?;
    let operands = Operands::of(asked.shape.storage, asked.half)?;
    let (is_grouped, is_sglangs) = (asked.shape.storage.group().is_some(), asked.is_sglangs());
    let layer = match (is_grouped, is_sglangs) {
        (true, _) => include_str!("../kernels/layer_grouped.py"),
        (false, true) => include_str!("../kernels/layer_sglang.py"),
        (false, false) => include_str!("../kernels/layer.py"),
    };
    let mut files = BTreeMap::from([
        ("layer.py".to_string(), layer.to_string()),
        ("fused_moe.py".to_string(), source.text.clone()),
    ]);
    if is_grouped {
        source.check_groups(asked.engine)?;
        let product = match is_sglangs {
            true => include_str!("../kernels/product_sglang.py"),
            false => include_str!("../kernels/product_vllm.py"),
        };
        files.insert("product.py".to_string(), product.to_string());
    }
    if source.is_engines && asked.engine == Engine::VLLM {
        // What the engine's file takes Triton from; its other modules are stood in for.
        files.insert("vllm/__init__.py".to_string(), String::new());
        let triton = "import triton\nimport triton.language as tl\n";
        files.insert("vllm/triton_utils/__init__.py".to_string(), triton.to_string());
    }
    let includes: Vec<String> = files.keys().filter(|name| *name != "layer.py").cloned().collect();
    files.insert(SPEC_FILE.to_string(), toml::spec(asked, operands, source, &includes));
    Ok(files)
}

/// The sizes of the problem of so many tokens.
#[must_use]
pub fn sizes(shape: &MoeShape, tokens: i64) -> BTreeMap<String, i64> {
    let sizes = [
        ("tokens", tokens),
        ("experts", shape.experts.into()),
        ("hidden", shape.hidden.into()),
        ("intermediate", shape.intermediate.into()),
        ("topk", shape.topk.into()),
    ];
    sizes.map(|(name, size)| (name.to_string(), size)).into()
}

/// Whether vLLM sorts nothing: there are so few routes that each is a block of its own. SGLang always sorts, and both for weights in groups.
fn is_naive(engine: Engine, shape: &MoeShape, tokens: i64) -> bool {
    engine == Engine::VLLM
        && shape.storage.group().is_none()
        && tokens.saturating_mul(shape.topk.into()).saturating_mul(4) <= shape.experts.into()
}

impl<'a> Asked<'a> {
    /// The whole space of both products.
    #[must_use]
    pub fn of(
        engine: Engine,
        shape: &'a MoeShape,
        half: &'static str,
        gpu: Gpu,
        tokens: &'a [i64],
        routing: &'a Routing,
    ) -> Self {
        Self {
            engine,
            shape,
            half,
            gpu,
            is_engines: false,
            tokens,
            routing,
            shipped: None,
            known: None,
            searched: true,
            is_widened: false,
            down: None,
        }
    }

    /// The same with further values than those of the engine's tuner, if that is wanted.
    #[must_use]
    pub fn widened(self, is_widened: bool) -> Self {
        Self { is_widened, ..self }
    }

    /// The same for the kernel of `source`.
    #[must_use]
    pub fn by(self, source: &Source) -> Self {
        Self { is_engines: source.is_engines, ..self }
    }

    /// Whether the kernel is SGLang's own, which takes other arguments than vLLM's, and bluefin's.
    fn is_sglangs(&self) -> bool {
        self.engine == Engine::SGLANG && self.is_engines
    }

    /// Whether the kernel takes tensor descriptors by a row with USE_TMA: SGLang's of the weights of the first product, and of both operands
    /// of the second one, where it asks for FP8 in blocks.
    fn takes_descriptors(&self) -> bool {
        let storage = self.shape.storage;
        let is_blocked = storage.dtype == Some(Precision::Fp8W8A8) && self.block_shape().is_some();
        self.is_sglangs() && storage.group().is_none() && (self.down.is_none() || is_blocked)
    }

    /// The same with a file whose rows are tried as well.
    #[must_use]
    pub fn beside(self, shipped: Option<&'a ConfigFile>) -> Self {
        Self { shipped, ..self }
    }

    /// Whether tokens can be sent to the experts of the rank.
    fn check_routes(&self) -> Result<(), Unmade> {
        let MoeShape { experts, topk, .. } = *self.shape;
        let wrong = |found: String, expected: String| Err(Unmade { found, expected });
        if topk > experts {
            return wrong(format!("{topk} experts a token"), format!("at most {experts}: a rank has no more (--ep)"));
        }
        let Routing::Counts(counts, from) = self.routing else { return Ok(()) };
        if counts.len() != experts as usize {
            let expected = format!("{experts}, one for each expert of a rank");
            return wrong(format!("{} in the list of --routing, {from}", counts.len()), expected);
        }
        let taken = counts.iter().filter(|count| **count > 0).count();
        if taken < topk as usize {
            let expected = format!("at least {topk}, as a token has so many experts");
            return wrong(format!("{taken} that are taken in the list of --routing, {from}"), expected);
        }
        Ok(())
    }

    fn block_shape(&self) -> Option<[i64; 2]> {
        self.shape.storage.block_shape.map(|shape| shape.map(i64::from)).filter(|shape| !shape.contains(&0))
    }

    fn tuned(&self) -> Tuned {
        Tuned {
            intermediate: self.shape.intermediate.into(),
            hidden: self.shape.hidden.into(),
            topk: self.shape.topk.into(),
            dtype: self.shape.storage.dtype,
            block_shape: self.block_shape(),
        }
    }

    /// The row that the engine takes for so many tokens without a file; for the second product the row of the first.
    #[must_use]
    pub fn default_row(&self, tokens: i64) -> Row {
        if let Some(row) = self.down.and_then(|rows| rows.get(&tokens)) {
            return row.clone().without(USE_TMA);
        }
        let groups = self.shape.storage.group().map(|group| [0, group.into()]);
        let question = Question {
            tokens,
            experts: self.shape.experts.into(),
            topk: self.shape.topk.into(),
            dtype: self.shape.storage.dtype,
            block_shape: self.block_shape().or(groups),
        };
        default_row(self.engine, self.gpu, &question)
    }

    /// The row of each batch size, shipped or the engine's default, as it is launched.
    #[must_use]
    pub fn firsts(&self) -> BTreeMap<i64, Row> {
        let shipped = |tokens| self.shipped.and_then(|file| file.row_for(tokens)).map(|(_, row)| row.clone());
        let row = |tokens: &i64| (*tokens, shipped(*tokens).unwrap_or_else(|| self.default_row(*tokens)));
        self.tokens.iter().map(row).collect()
    }

    /// Keys and values of the space, those that launch the same once.
    fn axes(&self) -> Vec<(&'static str, Vec<i64>)> {
        let least = self.block_shape().map(|[n, k]| n.min(k)).filter(|_| self.engine.info().lowers_block_k);
        let axes = axes(self.engine, self.gpu, &self.tuned());
        let lowered = |(key, values): (&'static str, &'static [i64])| {
            let mut values: Vec<i64> = values.to_vec();
            if self.is_widened {
                values.extend(around(self.gpu, key));
                values.sort_unstable();
                values.dedup();
            }
            if let Some(rows) = self.down.filter(|_| key == M) {
                values = self.tokens.iter().filter_map(|tokens| rows.get(tokens)?.number(M)).collect();
                values.sort_unstable();
                values.dedup();
            }
            if let Some(least) = least.filter(|_| key == K) {
                values = values.into_iter().map(|value| value.min(least)).collect();
                values.dedup();
            }
            (key, values)
        };
        axes.into_iter().map(lowered).collect()
    }

    /// Rows that are solvers of their own for so many tokens, each launch once: name and what is launched.
    fn given(&self, tokens: i64) -> Vec<(&'static str, Row)> {
        let mut given = vec![(DEFAULT, self.launched(tokens, &self.default_row(tokens)))];
        // The engine takes the nearest row of a file; one of another number of tokens is not known to be a good one.
        let shipped = self.shipped.and_then(|file| file.row_for(tokens)).map(|(_, row)| row);
        let known = self.known.and_then(|file| file.row(tokens));
        for (name, row) in [(SHIPPED, shipped), (KNOWN, known)] {
            let Some(row) = row.map(|row| self.launched(tokens, row)) else { continue };
            if self.is_tried(&row) && !given.iter().any(|(_, known)| known.is_same(&row)) {
                given.push((name, row));
            }
        }
        given
    }

    /// What is launched for so many tokens by the rows that are solvers of their own.
    #[must_use]
    pub fn rows(&self, tokens: i64) -> Vec<Row> {
        self.given(tokens).into_iter().map(|(_, row)| row).collect()
    }

    /// The solver that a row is for so many tokens. `None`: it is not tried, as it says what no kernel here takes.
    #[must_use]
    pub fn solver_of(&self, tokens: i64, row: &Row) -> Option<String> {
        let launched = self.launched(tokens, row);
        let given = self.given(tokens).into_iter().find(|(_, known)| known.is_same(&launched));
        given.map(|(name, _)| format!("{name}{tokens}"))
    }

    fn launched(&self, tokens: i64, row: &Row) -> Row {
        let mut row = launched(self.engine, row, self.block_shape());
        if row.0.get(USE_TMA) == Some(&Json::Bool(false)) {
            row = row.without(USE_TMA);
        }
        // The engine replaces it.
        if let Some(m) = self.down.and_then(|rows| rows.get(&tokens)?.number(M)) {
            row.set(M, m);
        }
        if self.has_choice(&row) { grouped::chosen(row, tokens, self.shape.topk.into()) } else { row }
    }

    /// Whether the launcher chooses columns and sum of a tile, as a row lacks one of them.
    fn has_choice(&self, row: &Row) -> bool {
        let is_whole = row.0.contains_key(N) && row.0.contains_key(K);
        self.engine.info().splits_groups && self.shape.storage.group().is_some() && !is_whole
    }

    /// The first key without which the engine can launch nothing by a row.
    #[must_use]
    pub fn lacks(&self, row: &Row) -> Option<&'static str> {
        let needed: &[&str] = if self.has_choice(row) { &[M, GROUP] } else { &[M, N, K, GROUP] };
        needed.iter().copied().find(|key| !row.0.contains_key(*key))
    }

    /// Whether the kernel can be launched by a row: all block sizes are there, and all values are what it takes.
    fn is_tried(&self, row: &Row) -> bool {
        let is_taken = |(key, value): (&String, &Json)| value.is_i64() || key == USE_TMA && value == &Json::Bool(true);
        let is_whole = [M, N, K, GROUP].iter().all(|key| row.0.contains_key(*key));
        is_whole && row.0.iter().all(is_taken) && (!row.0.contains_key(USE_TMA) || self.takes_descriptors())
    }

    /// What else than these rows the engine may compute the layer by. `None`: nothing.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let is_grouped = self.engine == Engine::VLLM && self.gpu.vendor == Vendor::Nvidia;
        let group = self.shape.storage.group().filter(|_| is_grouped)?;
        let mut note = "vLLM launches rows for weights in groups where --moe-backend triton asks for Triton, on NVIDIA's GPUs it prefers Marlin"
            .to_string();
        let (topk, experts) = (i64::from(self.shape.topk), i64::from(self.shape.experts));
        let has_cuda = self.shape.storage.dtype == Some(Precision::Int4W4A16) && [32, 64, 128].contains(&group);
        let is_few = |tokens: &&i64| has_cuda && tokens.saturating_mul(topk) <= 6 * experts;
        if let Some(most) = self.tokens.iter().filter(is_few).max() {
            let _ = write!(
                note,
                "; its function fused_experts, and so its tuner, has a CUDA kernel instead for up to {most} tokens"
            );
        }
        Some(note)
    }
}

/// The row that a winner says: `solver` and its params by name. A default that won is written as the engine has it.
#[must_use]
pub fn row_of(asked: &Asked<'_>, tokens: i64, solver: &str, params: &[(String, Value)]) -> Row {
    if solver.starts_with(DEFAULT) {
        return asked.default_row(tokens).ordered(asked.engine);
    }
    let mut row = Row::default();
    for (key, value) in params {
        match value {
            Value::Int(number) => row.set(key, *number),
            // What is not said is false.
            Value::Bool(true) => _ = row.0.insert(key.clone(), Json::Bool(true)),
            Value::Bool(false) | Value::Text(_) => {}
        }
    }
    let mut row = row.without(SPLIT_K);
    if asked.engine.info().splits_groups && asked.shape.storage.group().is_some() {
        row.set(SPLIT_K, 1);
    }
    row.ordered(asked.engine)
}

/// Writes the files of a spec into a folder of its own.
///
/// # Errors
/// If the system does not let them be written.
pub fn write(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), Error> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(Error::at(parent))?;
        crate::merge::write(&path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
