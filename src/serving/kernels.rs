//! `bluefin serving kernels`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_serving::default::Gpu;
use bluefin_serving::device::architecture_of;
use bluefin_serving::kernel::{Asked, SPEC_FILE, files, write};
use bluefin_serving::shapes::MoeShape;
use bluefin_terminal::out;
use serde_json::json;

use super::layer::LayerArgs;
use bluefin_campaign::serving::models::{ModelArgs, unknown_gpu};

/// Write kernel specs of a model's mixtures of experts, for check, tune and enqueue
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin serving kernels --moe 8,14336,4096,2 --engine vllm --tp 2 --gpu 'NVIDIA H200' --installed venv/lib/python3.12/site-packages/vllm -o moe\n  \
    bluefin check --kernel moe/E=8,N=7168/spec.toml --size tokens=64 --target gfx942\n\n\
    A folder for each layer, with a spec whose problems are batch sizes: a candidate launches both products of the layer as the engine launches them by one \
    row, and is checked against plain sums over experts. The engine's default rows, and those of --shipped, are solvers of their own."
)]
pub struct KernelsArgs {
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    layer: LayerArgs,
    /// Folder to write them to; made if need be
    #[arg(short, long, visible_alias = "out", value_name = "DIR")]
    output: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl KernelsArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let engine = self.models.engine;
        let gpu = self.models.one_gpu(None)?;
        let architecture = architecture_of(&gpu).ok_or_else(|| unknown_gpu(&gpu))?;
        let (source, routing, tokens) = (self.layer.source(engine)?, self.layer.routing()?, self.layer.tokens());
        let mut written = Vec::new();
        let folder = |moe: &MoeShape| format!("E={},N={}", moe.experts, moe.intermediate);
        for moe in self.models.layers_with(&gpu, folder, |note| say!("{note}"))? {
            let name = moe.file_name(engine, &gpu).build(engine);
            let shipped = self.layer.shipped(engine, &name)?;
            let asked = Asked::of(engine, &moe, self.models.half(), Gpu::of(architecture), &tokens, &routing);
            let asked = asked.by(&source).widened(self.layer.widen).beside(shipped.as_ref());
            asked.note().iter().for_each(|note| say!("note: {note}"));
            // The rows of first products are shipped ones, or the engine's.
            let firsts = asked.firsts();
            let second = moe.file_name(engine, &gpu).second().build(engine);
            let beside = self.layer.shipped(engine, &second)?;
            let of_second = Asked { down: Some(&firsts), ..asked.clone() }.beside(beside.as_ref());
            let of_second = self.models.down.then_some((of_second, second));
            for (asked, name) in [(asked, name)].into_iter().chain(of_second) {
                let down = if asked.down.is_some() { "_down" } else { "" };
                let folder = self.output.join(format!("{}{down}", folder(&moe)));
                write(&folder, &files(&asked, &source).map_err(|error| crate::usage(error.to_string()))?)?;
                written.push((folder.join(SPEC_FILE), name));
            }
        }
        if self.json {
            let all = written
                .iter()
                .map(|(spec, name)| json!({ "spec": spec, "file": name, "kernel": source.from, "tokens": tokens }));
            out::json(&all.collect::<Vec<_>>())?;
        } else {
            for (spec, name) in &written {
                out::line(format_args!("{}: {name}", spec.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
