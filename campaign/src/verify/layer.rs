//! Config files of vLLM and SGLang for mixtures of experts: the default is the row that the engine takes without a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_common::problem::Problem;
use bluefin_kernel_spec::Solver;
use bluefin_serving::default::Gpu;
use bluefin_serving::device::architecture_of;
use bluefin_serving::files::{Found, name_of};
use bluefin_serving::installed::Source;
use bluefin_serving::kernel::{Asked, DEFAULT, Routing, row_of};
use bluefin_serving::merge;
use bluefin_serving::quantised::Storage;
use bluefin_serving::shapes::MoeShape;
use bluefin_serving::{ConfigFile, Engine, Error, FileName, Layer, Precision, Row, Version};
use serde_json::{Map, json};
use tracing::warn;

use super::{Bench, Case, Launch, Subject, Unlaunched};
use crate::serving::{Ladder, point};
use crate::usage;

/// What the name of a file does not say of its layer.
#[derive(Clone, Copy, Debug)]
pub struct LayerSizes {
    /// Columns of the activations.
    pub hidden: u32,
    /// Experts a token.
    pub topk: u32,
    /// What 16 bits are: `BF16` or `FP16`.
    pub half: &'static str,
    /// Each channel of the weights has a scale, and each token: vLLM's names do not say so.
    pub per_channel: bool,
    /// Columns of a group that has a scale, which no name says.
    pub group: Option<u32>,
    /// Each of them has a zero point as well.
    pub zero_points: bool,
    /// Experts have a gate, so that the first product has twice the columns.
    pub is_gated: bool,
    /// What weights are where the name has no type: nothing for 16 bits.
    pub unnamed: Option<Precision>,
}

/// A file of an engine.
pub struct LayerFile {
    path: PathBuf,
    engine: Engine,
    file: ConfigFile,
    /// The GPU that its name says.
    device: String,
    /// The Triton that its folder says.
    folder: Option<Version>,
    shape: MoeShape,
    half: &'static str,
    known: Option<ConfigFile>,
    /// Of a file of second products: rows of the first by batch size.
    firsts: Option<BTreeMap<i64, Row>>,
    source: Source,
    /// Why no loader asks for the file.
    fault: Option<String>,
}

/// Why the engine's loader asks for no such file.
fn fault(name: &FileName, text: &str, engine: Engine) -> Option<String> {
    match name.is_built(text, engine).err()? {
        Some(built) => Some(format!("found a name that {engine}'s loader never builds, expected {built}")),
        None => Some(format!("found a file of a type or a variant that {engine}'s loader never asks for")),
    }
}

impl LayerFile {
    /// Reads a file, and the other one that `known` names, or that has its name in the folder that `known` is.
    ///
    /// # Errors
    /// If one can not be read, or is for other layers than mixtures of experts.
    pub fn read(path: &Path, known: Option<&Path>, sizes: LayerSizes, source: Source) -> anyhow::Result<Self> {
        let found = Found::read(path, None)?;
        let name = found.name.map_err(|source| Error::Name { path: path.to_path_buf(), source })?;
        let file = ConfigFile::read(path, found.engine)?;
        let Layer::Moe { experts, intermediate } = name.unpacked(found.engine) else {
            anyhow::bail!("{}: found a file for products, expected one for a mixture of experts", path.display());
        };
        let first = name.down.then(|| FileName { down: false, ..name.clone() }.build(found.engine));
        let first = first.map(|first| ConfigFile::read(&path.with_file_name(first), found.engine)).transpose()?;
        let of_first = |size| Some((size, first.as_ref()?.row_for(size)?.1.clone()));
        let firsts = first.is_some().then(|| file.rows().filter_map(|(size, _)| of_first(size)).collect());
        let known = super::beside(known, &name_of(path));
        let known = known.map(|other| ConfigFile::read(&other, found.engine)).transpose()?;
        let LayerSizes { hidden, topk, half, per_channel, group, zero_points, is_gated, unnamed } = sizes;
        let fault = fault(&name, &name_of(path), found.engine);
        if let Some(unnamed) = unnamed.filter(|_| name.dtype.is_some()) {
            anyhow::bail!("{}: expected a name without a type for --dtype {}", path.display(), unnamed.word());
        }
        let dtype = name.dtype.or(unnamed);
        if per_channel && (name.dtype != Some(Precision::Fp8W8A8) || name.block_shape.is_some()) {
            let expected = "expected a file for fp8_w8a8 without blocks, whose scales may be those of channels";
            anyhow::bail!("{}: {expected}", path.display());
        }
        let per_channel = per_channel || name.per_channel;
        let block_shape = name.block_shape.or(group.map(|group| [0, group]));
        let storage = Storage { dtype, block_shape, per_channel, zero_points };
        if group.is_some() && storage.group().is_none() {
            anyhow::bail!(
                "{}: expected a file for int4_w4a16 or int8_w8a16, whose weights may be in groups",
                path.display()
            );
        }
        if !file.rows().any(|(size, _)| size > 0) {
            anyhow::bail!("{}: found no rows, expected one for each batch size", path.display());
        }
        let shape = MoeShape { experts, intermediate, hidden, topk, is_gated, storage };
        let (path, folder) = (path.to_path_buf(), found.folder);
        let (engine, device) = (found.engine, name.device);
        Ok(Self { path, engine, file, device, folder, shape, half, known, firsts, source, fault })
    }

    /// Batch sizes of its rows.
    fn tokens(&self) -> Vec<i64> {
        self.file.rows().map(|(size, _)| size).filter(|size| *size > 0).collect()
    }

    fn asked<'a>(&'a self, bench: &Bench<'_>, tokens: &'a [i64], searched: bool) -> Asked<'a> {
        Asked {
            engine: self.engine,
            shape: &self.shape,
            half: self.half,
            gpu: Gpu::of(bench.architecture),
            is_engines: self.source.is_engines,
            tokens,
            routing: &Routing::Uniform,
            shipped: Some(&self.file),
            known: self.known.as_ref(),
            searched,
            is_widened: false,
            down: self.firsts.as_ref(),
        }
    }

    /// Rows are worth something on the GPU that they are for. That they are of another Triton is said.
    fn check(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let (path, expected) = (self.path.display(), bench.architecture);
        if let Some(found) = architecture_of(&self.device).filter(|found| found.name != expected.name) {
            let (device, found, expected) = (&self.device, found.name, expected.name);
            return Err(usage(format!(
                "{path}: found a file for {device}, a GPU of {found}, expected one of {expected}, as --device is"
            )));
        }
        let made_with = self.folder.as_ref().or(self.file.version.as_ref());
        if let Some((made_with, by)) = made_with.zip(bench.triton()).filter(|(made_with, by)| **made_with != *by) {
            warn!("{path}: made with Triton {made_with}, timed with {by}");
        }
        Ok(())
    }
}

impl Subject for LayerFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn kernel(&self) -> &str {
        &self.source.from
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn note(&self) -> Option<String> {
        // Where the engine has a type that its names do not tell from 16 bits.
        let is_told = self.engine.info().precisions.contains(&Precision::Int8W8A8);
        let dtype = self.shape.storage.dtype;
        let untold = (dtype.is_none() && !is_told).then(|| self.half.to_ascii_lowercase())?;
        Some(format!("the name has no type: taken for {untold}; --dtype int8_w8a8 says that weights are that"))
    }

    fn cases(&self, bench: &Bench<'_>) -> anyhow::Result<Vec<Case>> {
        self.check(bench)?;
        let tokens = self.tokens();
        let (given, asked) = (self.asked(bench, &tokens, false), self.asked(bench, &tokens, true));
        let (spec, problems) = Ladder::of(&given, &self.source)?.into_parts();
        let (searched, _) = Ladder::of(&asked, &self.source)?.into_parts();
        let (spec, searched) = (Arc::new(spec), Arc::new(searched));
        let case = |(tokens, problem): (i64, Problem)| {
            let row = self.file.row(tokens)?;
            let candidate = |name: String| spec.spec.solver(&name).map(Solver::default_candidate);
            let launched = |row: &Row| given.solver_of(tokens, row).and_then(candidate);
            let known = self.known.as_ref().and_then(|file| file.row(tokens));
            let near = self.known.as_ref().and_then(|file| file.row_for(tokens)).map(|(_, row)| row);
            let own = launched(row).ok_or_else(|| match given.lacks(row) {
                Some(key) => Unlaunched::Fails(format!("found no {key}, expected it in every row")),
                None => Unlaunched::Unknown(UNTRIED.to_string()),
            });
            let rows = [Some(row), near].into_iter().flatten();
            Some(Case {
                key: Map::from_iter([("tokens".to_string(), tokens.into())]),
                name: tokens.to_string(),
                says: json!(row),
                short: row.short(),
                own,
                default: candidate(format!("{DEFAULT}{tokens}")),
                known: known.and_then(launched),
                begins: rows.filter_map(|row| point(&searched, &problem, bench.target(), row)).collect(),
                spec: spec.clone(),
                searched: searched.clone(),
                problem,
            })
        };
        Ok(problems.into_iter().filter_map(case).collect())
    }

    fn put(&mut self, at: usize, launch: &Launch, bench: &Bench<'_>) -> anyhow::Result<String> {
        let tokens = self.tokens();
        let size = tokens.get(at).copied().context("a row of the file")?;
        let row = row_of(&self.asked(bench, &tokens, true), size, &launch.solver, &launch.params);
        let text = row.short();
        self.file.set(size, row);
        Ok(text)
    }

    fn holds(&mut self, bench: &Bench<'_>) {
        if let Some(by) = bench.triton().filter(|_| self.file.version.is_some()) {
            self.file.set_version(Some(by));
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        Ok(merge::write(&self.path, &self.file.text())?)
    }
}

/// Why a row is no candidate.
const UNTRIED: &str = "it says what no kernel here takes: expected whole numbers alone, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K and GROUP_SIZE_M among them, and USE_TMA for SGLang's own kernel alone, in files of second products for FP8 in blocks";
