//! Which of MIOpen's solvers are tuned, from the command line.

use bluefin_common::algorithm::Algorithm;
use bluefin_producer::solvers::{Choice, names};

/// Which of MIOpen's solvers are tuned.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "MIOpen's solvers")]
pub struct ChoiceArgs {
    /// Only these solvers, with or without blanks in their template arguments
    #[arg(short, long, alias = "solvers", value_name = "NAME,...", value_parser = parse_names)]
    pub solver: Vec<Names>,
    /// Only solvers of this algorithm: GEMM, Direct, FFT, Winograd, ImplicitGEMM
    #[arg(short = 'A', long, alias = "algo", value_parser = parse_algorithm)]
    pub algorithm: Option<Algorithm>,
    /// Only tunable solvers
    #[arg(long)]
    pub tunable: bool,
    /// Only solvers whose kernels are the same for all sizes
    #[arg(short, long, aliases = ["only_dynamic", "dynamic_solvers_only"])]
    pub dynamic_only: bool,
}

/// Names in one value of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

fn parse_names(text: &str) -> Result<Names, String> {
    let names = names(text);
    if names.is_empty() { Err("expected names of solvers, separated by commas".to_string()) } else { Ok(Names(names)) }
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    // MITuna's names are those of the API: miopenConvolutionFwdAlgoWinograd.
    let word = text.rsplit_once("Algo").map_or(text, |(_, word)| word);
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(word));
    found.ok_or_else(|| "expected GEMM, Direct, FFT, Winograd or ImplicitGEMM".to_string())
}

impl ChoiceArgs {
    /// What is chosen.
    pub fn choice(&self) -> Choice {
        Choice {
            names: self.solver.iter().flat_map(|names| names.0.clone()).collect(),
            algorithm: self.algorithm,
            tunable: self.tunable,
            dynamic: self.dynamic_only,
        }
    }
}
