//! What the verbs that are about the kernels of a layer have in common: whose source, which inputs, which batch sizes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bluefin_compile_worker::toolchain::triton;
use bluefin_serving::files::name_of;
use bluefin_serving::installed::Source;
use bluefin_serving::kernel::Routing;
use bluefin_serving::space::LADDER;
use bluefin_serving::{ConfigFile, Engine};

/// Whose kernel is taken.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// Folder of the engine's package, such as .../site-packages/vllm, whose own kernel is taken, or `own` for one of bluefin's
    /// [default: the package that the Python with Triton has, or else bluefin's]
    #[arg(long, value_name = "DIR|own")]
    installed: Option<PathBuf>,
}

impl SourceArgs {
    /// Whether anything is said.
    pub fn is_given(&self) -> bool {
        self.installed.is_some()
    }

    /// Says whose it is.
    pub fn source(&self, engine: Engine) -> anyhow::Result<Source> {
        let found = match &self.installed {
            None => triton::package(&engine.to_string()),
            Some(own) if own == Path::new("own") => None,
            named => named.clone(),
        };
        let source = found.as_deref().map_or_else(|| Ok(Source::own()), |folder| Source::installed(engine, folder))?;
        match found.filter(|_| self.installed.is_none()) {
            Some(folder) => say!("note: the kernel is {}, in {}", source.from, folder.display()),
            None => say!("note: the kernel is {}", source.from),
        }
        Ok(source)
    }
}

#[derive(clap::Args)]
pub struct LayerArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// How tokens are sent to experts: uniform, zipf or zipf:EXPONENT, or counts:FILE, a JSON list of how often each expert was taken
    #[arg(long, value_name = "ROUTING", default_value = "uniform")]
    routing: String,
    /// Try further values than the engine's tuner as well: of BLOCK_SIZE_N and K, groups, stages, and warps or waves
    #[arg(long)]
    pub widen: bool,
    /// Batch sizes [default: the 18 of the engines' tuners, 1 to 4096]
    #[arg(long, value_name = "TOKENS,...", value_delimiter = ',', value_parser = clap::value_parser!(i64).range(1..=1 << 20))]
    tokens: Vec<i64>,
    /// A config file whose rows are tried as well, or a folder that may have one of the layer's name
    #[arg(long, value_name = "FILE|DIR")]
    shipped: Option<PathBuf>,
}

impl LayerArgs {
    pub fn source(&self, engine: Engine) -> anyhow::Result<Source> {
        self.source.source(engine)
    }

    pub fn routing(&self) -> anyhow::Result<Routing> {
        let wrong = || {
            let found = &self.routing;
            crate::usage(format!(
                "--routing: found {found:?}, expected uniform, zipf, zipf:EXPONENT up to 16, or counts:FILE"
            ))
        };
        match self.routing.split_once(':').unwrap_or((&self.routing, "")) {
            ("uniform", "") => Ok(Routing::Uniform),
            ("zipf", "") => Ok(Routing::Zipf(1.0)),
            ("zipf", exponent) => {
                let exponent = exponent.parse().ok().filter(|exponent| (0.0..=16.0).contains(exponent));
                Ok(Routing::Zipf(exponent.ok_or_else(wrong)?))
            }
            ("counts", path) if !path.is_empty() => {
                let text = std::fs::read_to_string(path).with_context(|| format!("--routing: {path}"))?;
                let counts: Vec<u32> = serde_json::from_str(&text)
                    .with_context(|| format!("--routing: {path}: expected a JSON list of whole numbers"))?;
                Ok(Routing::Counts(counts, path.to_string()))
            }
            _ => Err(wrong()),
        }
    }

    /// Ascending, each once.
    pub fn tokens(&self) -> Vec<i64> {
        let mut tokens = if self.tokens.is_empty() { LADDER.to_vec() } else { self.tokens.clone() };
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// The file whose rows are tried as well, of the layer that has this name.
    pub fn shipped(&self, engine: Engine, name: &str) -> anyhow::Result<Option<ConfigFile>> {
        let Some(path) = &self.shipped else { return Ok(None) };
        let path = if path.is_dir() { path.join(name) } else { path.clone() };
        let is_there = path.is_file() || name_of(Path::new(name)) != name_of(&path);
        if is_there { Ok(Some(ConfigFile::read(&path, engine)?)) } else { Ok(None) }
    }
}
