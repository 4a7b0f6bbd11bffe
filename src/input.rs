//! What is to be tuned, from the command line: problem files, a user's own kernels, and how they are varied.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use bluefin_campaign::captured;
use bluefin_campaign::kernels::{self, With};
use bluefin_common::problem::{DataType, Direction, Problem, read_size};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_producer::capture::counts;
use bluefin_producer::input::{Overrides, Sourced, read_input, read_list};
use bluefin_producer::plan::CandidateBudget;
use bluefin_producer::specs::Specs;

/// What is to be tuned.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InputArgs {
    /// Files of MIOpenDriver commands, MIOpen logs or find-db keys; - for standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A kernel of your own: a spec as docs/kernel-specs.md describes. May be given several times
    #[arg(long, value_name = "SPEC.toml")]
    pub kernel: Vec<PathBuf>,
    /// Kernels of your own in a folder, as bluefin capture --triton writes them: each DIR/*/spec.toml, as if --kernel named it. May be
    /// given several times
    #[arg(long, value_name = "DIR")]
    pub triton: Vec<PathBuf>,
    /// Of these the larger spaces: DIR/*/widened.toml where there is one
    #[arg(long, requires = "triton")]
    pub widen: bool,
    /// Try kernels of this kind beside bluefin's own, for the same problems and in one play-off: triton (matrix products, on GPUs)
    #[arg(long, value_name = "triton", hide_possible_values = true)]
    pub with: Option<With>,
    /// Sizes of your own kernel, as NAME=VALUE,...; each --size is one problem [default: the spec's own]
    #[arg(long, value_name = "NAME=VALUE,...", requires = "kernel")]
    pub size: Vec<String>,
    /// Convolutions and batch norms of the files once with each of these batch sizes instead of their own
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub batchsize: Vec<u32>,
    /// Convolutions of the files in these directions instead of their own: F (forward), B (backward data), W (backward weights)
    #[arg(long, value_name = "F,B,W", value_delimiter = ',')]
    pub direction: Vec<Direction>,
    /// Tune in this type instead of the files' own: FP32, FP16, BF16, INT8
    #[arg(long = "type", value_name = "TYPE")]
    pub data_type: Option<DataType>,
    /// Candidates for each tunable solver and problem: quick (8), normal (16, and all of a space that is a list of at most 64
    /// points), thorough (64), all, or a number
    #[arg(long, default_value_t = CandidateBudget::NORMAL)]
    pub budget: CandidateBudget,
}

/// Problems, and the specs that may solve them.
pub struct Input {
    pub problems: Vec<Problem>,
    pub specs: Specs,
    /// Lines that were not taken, as `file:line: reason`.
    pub rejects: Vec<String>,
    /// How often the files ask for each of their problems.
    pub counts: HashMap<Problem, u64>,
}

/// The problems of files.
#[derive(Default)]
pub struct Listed {
    pub problems: Vec<Problem>,
    /// Lines that were not taken, as `file:line: reason`.
    pub rejects: Vec<String>,
    /// How often each is asked for.
    pub counts: HashMap<Problem, u64>,
}

impl InputArgs {
    /// Reads everything that was named. Rejected lines are returned, not an error; no problem at all is one.
    pub fn read(&self, target: &Target) -> anyhow::Result<Input> {
        if self.files.is_empty() && !self.has_own() {
            return Err(nothing());
        }
        if self.files.is_empty() {
            self.nothing_for_files()?;
        }
        let Listed { problems, rejects, counts } = self.listed()?;
        Ok(Input { counts, ..self.with_specs(target, problems, rejects)? })
    }

    /// Whether kernels of the user's own are named.
    pub fn has_own(&self) -> bool {
        !self.kernel.is_empty() || !self.triton.is_empty()
    }

    /// The specs of the user's own kernels, and what is wrong with others.
    fn own(&self) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
        let (mut own, mut rejects) = (self.kernel.clone(), Vec::new());
        for folder in &self.triton {
            let (specs, broken) = captured::sound(captured::specs(folder, self.widen)?)?;
            own.extend(specs);
            rejects.extend(broken);
            if let Some(said) = captured::of_another_triton(folder) {
                say!("{said}");
            }
        }
        Ok((own, rejects))
    }

    /// Flags that change what files say mean nothing to a user's own kernel.
    pub fn nothing_for_files(&self) -> anyhow::Result<()> {
        let flags = [
            ("--batchsize", !self.batchsize.is_empty()),
            ("--direction", !self.direction.is_empty()),
            ("--type", self.data_type.is_some()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(crate::usage(format!(
                "{flag} changes the problems of a FILE, and none is named: those of a tag stay as they are, and a --kernel takes its sizes from --size"
            ))),
            None => Ok(()),
        }
    }

    /// The problems of the files.
    pub fn listed(&self) -> anyhow::Result<Listed> {
        let overrides = Overrides {
            batchsizes: self.batchsize.clone(),
            directions: (!self.direction.is_empty()).then(|| self.direction.clone()),
            data_type: self.data_type,
        };
        let mut listed = Listed::default();
        for file in &self.files {
            let bytes = read_list(file)?;
            let list = read_input(&file.to_string_lossy(), &bytes, &overrides)?;
            list.notes().for_each(|note| say!("{note}"));
            listed.rejects.extend(list.messages());
            let captured = counts(&bytes);
            for Sourced { problem, line, count } in list.problems {
                let count = captured.get(&line).copied().unwrap_or(count as u64);
                *listed.counts.entry(problem.clone()).or_default() += count;
                listed.problems.push(problem);
            }
        }
        Ok(listed)
    }

    /// `problems` and those of the user's own kernels, with the specs that may solve them.
    pub fn with_specs(&self, target: &Target, problems: Vec<Problem>, rejects: Vec<String>) -> anyhow::Result<Input> {
        let ((own, broken), sizes, has_commands) = (self.own()?, self.sizes()?, !self.files.is_empty());
        let rejects = rejects.into_iter().chain(broken).collect();
        let (specs, problems) = kernels::with_own(&own, &sizes, self.with, has_commands, target, problems)?;
        Ok(Input { problems, specs, rejects, counts: HashMap::new() })
    }

    /// The `--size` flags; one empty map, the spec's defaults, without any.
    fn sizes(&self) -> anyhow::Result<Vec<BTreeMap<String, Value>>> {
        if self.size.is_empty() {
            return Ok(vec![BTreeMap::new()]);
        }
        self.size.iter().map(|text| parse_sizes(text)).collect()
    }
}

/// There is nothing to be tuned.
pub fn nothing() -> anyhow::Error {
    crate::usage("nothing to tune: name a FILE of driver commands, - for standard input, --kernel or --triton")
}

fn parse_sizes(text: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut sizes = BTreeMap::new();
    for pair in text.split(',') {
        let parsed = pair.split_once('=').and_then(|(name, value)| Some((name.trim(), read_size(value.trim())?)));
        let Some((name, value)) = parsed.filter(|(name, _)| !name.is_empty()) else {
            return Err(crate::usage(format!(
                "--size: found {pair:?}, expected NAME=VALUE, a whole number, true, false or a word"
            )));
        };
        if sizes.insert(name.to_string(), value).is_some() {
            return Err(crate::usage(format!("--size: {name} is given twice in {text:?}")));
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        assert_eq!(
            parse_sizes("n=3, m=-4").unwrap(),
            BTreeMap::from([("n".into(), 3_i64.into()), ("m".into(), (-4_i64).into())])
        );
        let words = BTreeMap::from([("type".into(), "FP16".into()), ("wide".into(), true.into())]);
        assert_eq!(parse_sizes("type=FP16,wide=true").unwrap(), words);
        for text in ["", "n", "n=", "=3", "n=1.5", "n=1,n=2"] {
            assert!(parse_sizes(text).is_err(), "{text}");
        }
    }
}
