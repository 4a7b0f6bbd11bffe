//! `bluefin serving shapes`.

use std::process::ExitCode;

use bluefin_serving::Engine;
use bluefin_serving::dense::GemmShape;
use bluefin_serving::shapes::MoeShape;
use bluefin_serving::spread::Spread;
use bluefin_terminal::out;
use serde_json::json;

use bluefin_campaign::serving::models::ModelArgs;

/// Tell the shapes of a model's layers on one rank, by the rules of an engine
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin serving shapes config.json --engine vllm --tp 1,2,4,8 --gpu 'NVIDIA H200'\n  \
    bluefin serving shapes --moe 8,14336,4096,2 --engine sglang --tp 2\n\n\
    E experts, intermediate size N, hidden size K, topk experts a token: E and N name the config file, and with --gpu it is told. vLLM spreads \
    experts over all ranks once --ep is not 1; of SGLang's ranks --ep is a part of --tp. SGLang makes a shared expert one of the others \
    where its models do. Products with block-quantised weights (N, K) are told with --gemms, of dense models too."
)]
pub struct ShapesArgs {
    #[command(flatten)]
    models: ModelArgs,
    /// Tell products with block-quantised weights as well
    #[arg(long)]
    gemms: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl ShapesArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let engine = self.models.engine;
        let spread = self.models.spread(self.gemms, |note| say!("{note}"))?;
        if self.json {
            let with_files = |one: &Spread| {
                let files: Vec<String> = self
                    .models
                    .gpu
                    .iter()
                    .flat_map(|gpu| one.files(engine, gpu))
                    .map(|name| name.build(engine))
                    .collect();
                out::joined(serde_json::to_value(one).unwrap_or_default(), json!({ "engine": engine, "files": files }))
            };
            out::json(&spread.iter().map(with_files).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        for one in &spread {
            print(engine, one, &self.models.gpu)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(engine: Engine, one: &Spread, gpus: &[String]) -> anyhow::Result<()> {
    let Spread { model, ranks, moe, gemms, unknown, .. } = one;
    let (tp, ep) = (ranks.tp, ranks.ep);
    match moe {
        Some(moe) => out::line(format_args!("{model} tp={tp} ep={ep}: {}", of_experts(moe)))?,
        None => out::line(format_args!("{model} tp={tp}: no experts"))?,
    }
    for GemmShape { layer, n, k, .. } in gemms {
        out::line(format_args!("  {layer}: N={n} K={k}"))?;
    }
    if let Some(unknown) = unknown {
        out::line(format_args!("  not known here: {unknown}"))?;
    }
    for gpu in gpus {
        for name in one.files(engine, gpu) {
            out::line(format_args!("  {}", name.build(engine)))?;
        }
    }
    Ok(())
}

fn of_experts(moe: &MoeShape) -> String {
    let MoeShape { experts, intermediate, hidden, topk, is_gated, storage } = moe;
    let gate = if *is_gated { "" } else { " without a gate" };
    let dtype = storage.dtype.map_or("16 bits", |dtype| dtype.word());
    let of_blocks = |[n, k]: [u32; 2]| if n == 0 { format!(" groups of {k}") } else { format!(" block {n}x{k}") };
    let block = storage.block_shape.map_or(String::new(), of_blocks);
    format!("E={experts} N={intermediate} K={hidden} topk={topk}{gate} {dtype}{block}")
}
