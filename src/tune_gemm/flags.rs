//! Flags of tune_gemm.py that are not needed here.

/// Flags of the script that change nothing.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Unneeded {
    #[arg(long, value_name = "N", hide = true)]
    jobs: Option<u32>,
    #[arg(long, value_name = "N", hide = true)]
    iters: Option<u32>,
    #[arg(long, value_name = "TYPE", hide = true, value_parser = ["randn", "hpl", "trig_float", "zeros"])]
    init_type: Option<String>,
    #[arg(long, value_name = "MB", hide = true)]
    rotating_tensor: Option<u32>,
    #[arg(long, hide = true)]
    icache_flush: bool,
    #[arg(long, hide = true)]
    no_warmup: bool,
    #[arg(long, hide = true)]
    keep: bool,
    #[arg(long, hide = true)]
    verbose: bool,
    #[arg(long, hide = true)]
    time_breakdown: bool,
    #[arg(long, hide = true)]
    hack_triton_compiler: bool,
}

impl Unneeded {
    /// Why each flag that was given is not needed.
    pub fn notes(&self) -> Vec<String> {
        let init = format!("--init_type {}", self.init_type.as_deref().unwrap_or_default());
        let all = [
            (self.jobs.is_some(), "--jobs", "no profiler runs: events of the GPU time kernels in one process for each"),
            (self.iters.is_some(), "--iters", "samples are taken until the median is known well enough"),
            (
                self.init_type.as_deref().is_some_and(|name| name != "randn"),
                init.as_str(),
                "inputs are uniform in [-1, 1], made on the GPU",
            ),
            (self.rotating_tensor.is_some(), "--rotating_tensor", "caches are cold at each sample"),
            (self.icache_flush, "--icache_flush", "a launch before each sample is another candidate's, or an eviction"),
            (self.no_warmup, "--no_warmup", "compiling and timing overlap anyway"),
            (self.keep, "--keep", "no files are generated; what was compiled is in the state file"),
            (self.verbose, "--verbose", "set BLUEFIN_LOG=debug"),
            (self.time_breakdown, "--time_breakdown", "the last lines say where time went"),
            (self.hack_triton_compiler, "--hack_triton_compiler", "Triton compiles without a GPU here"),
        ];
        all.into_iter()
            .filter(|(given, ..)| *given)
            .map(|(_, flag, why)| format!("{flag} is not needed: {why}"))
            .collect()
    }
}
