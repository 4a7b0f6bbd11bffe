//! How good searches are: each is run on tuning spaces of which every point was measured before, so no device is needed and the
//! optimum is known.

mod peer;
mod read;
mod score;
mod simulate;
mod space;
mod stop;
mod t4;
mod tsv;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{mem, thread};

use anyhow::Context as _;
use bluefin_campaign::kernels::own_spec;
use bluefin_campaign::known::known;
use bluefin_campaign::machine::itself;
use bluefin_campaign::search::{options, parse_option};
use bluefin_common::spelled::parse_percent;
use bluefin_common::target::Target;
use bluefin_kernel_spec::Bundle;
use bluefin_kernel_spec::search::Search;
use bluefin_producer::specs::LoadedSpec;
use bluefin_terminal::{out, width};
use clap::value_parser;
use indicatif::ProgressBar;

use self::score::{Score, Worth};
use self::simulate::{Rules, Run};
use self::space::Measured;
use bluefin_terminal::bar;

/// Evaluations after which a search is scored, where nobody says.
const AT: [u32; 3] = [50, 100, 200];

#[derive(clap::Args)]
pub struct SearchArgs {
    /// Measured tuning spaces
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// A strategy to be tried; may be given several times [default: all]
    #[arg(long, value_name = "NAME", value_parser = parse_search)]
    search: Vec<String>,
    /// What the strategies have options for; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_option)]
    option: Vec<(String, String)>,
    /// Times that each space is searched by each strategy, each with another seed
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..))]
    seeds: u32,
    /// Points that a search may try
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u32).range(1..))]
    budget: u32,
    /// Points that are tried at a time [default: as many as rounds of the strategy have, which is eight unless it says otherwise]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Rounds that are under way at a time: what is tried follows from those before them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=4))]
    ahead: u32,
    /// Evaluations after which a search is scored [default: 50,100,200, as far as the budget goes]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    at: Vec<u32>,
    /// Noise of the times that strategies are told: its deviation. They are scored by the true time of the point that looked best
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = parse_percent)]
    noise: f64,
    /// Share of the points that fail, beside those that do so anyway. The optimum stays what it is, even where it fails
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = parse_percent)]
    failures: f64,
    /// Search each space as if nothing else were known: without the other problems that a solver was recorded for
    #[arg(long)]
    alone: bool,
    /// Begin each search with so many winners of each other problem that its solver was recorded for, as --from of tune does
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "alone")]
    transfer: u32,
    /// Search the problems that a solver was recorded for one after the other, each told of those before, instead of side by side
    #[arg(long, conflicts_with = "alone")]
    in_turn: bool,
    /// In rounds as those of solvers that compete: the first few are smaller
    #[arg(long, conflicts_with = "batch")]
    compete: bool,
    /// Take a point for compiled once one of the problems that its solver was recorded for has tried it, tell strategies so, and print the
    /// share of the candidates that had to be compiled
    #[arg(long, conflicts_with = "alone")]
    shared: bool,
    /// Begin with what the models of kernel specs say of this target, such as sm_90-132, where the points are of their solvers: of the shipped
    /// ones, those of --with and of tune-gemm as well
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// And of the spec of this kernel of your own; may be given several times
    #[arg(long, value_name = "SPEC.toml", requires = "target")]
    kernel: Vec<PathBuf>,
    /// Print as well what searches come to that stop by themselves where they expect to gain less than this, and how good what they
    /// expect is. Of strategies that expect something
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', value_parser = parse_percent)]
    patience: Vec<f64>,
    /// Search the spaces by strategies of Kernel Tuner 1.5 as well, each alone, by this Python, which has it (pip install 'kernel_tuner==1.5.*')
    #[arg(long, value_name = "PYTHON", conflicts_with_all = ["noise", "failures"])]
    peer: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Those whose models may know a space: all that is shipped, and the user's own of the files `own`.
fn specs(own: &[PathBuf]) -> anyhow::Result<Vec<LoadedSpec>> {
    let mut specs = LoadedSpec::shipped_beside_triton()?;
    specs.push(LoadedSpec::load(Bundle::gemm_in_triton())?);
    for path in own {
        specs.push(own_spec(path)?);
    }
    Ok(specs)
}

fn parse_search(text: &str) -> Result<String, String> {
    let known = &known().searches;
    match known.get(text) {
        Some(search) => Ok(search.name().to_string()),
        None => Err(format!("found strategy {text:?}, expected one of {}", known.names().join(", "))),
    }
}

impl SearchArgs {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let strategies = &known().searches;
        let mut names: Vec<&str> = self.search.iter().map(String::as_str).collect();
        if names.is_empty() {
            names = strategies.names();
        }
        let searches: Vec<&dyn Search> = names.into_iter().filter_map(|name| strategies.get(name)).collect();
        let at = self.at()?;
        let rules = Rules {
            batch: self.batch.map(|batch| batch as usize),
            ahead: self.ahead,
            budget: self.budget as usize,
            noise: self.noise / 100.0,
            failures: self.failures / 100.0,
            transfer: self.transfer as usize,
            in_turn: self.in_turn,
            compete: self.compete,
            shared: self.shared,
            options: &options("--option", &self.option, searches.iter().copied())?,
        };
        let mut spaces = read::read_all(&self.files)?;
        if let Some(target) = &self.target {
            let specs = specs(&self.kernel)?;
            for space in &mut spaces {
                space.costs = space.costs(&specs, target).with_context(|| space.name.clone())?;
            }
        }
        let families = if self.alone { spaces.iter().map(|space| vec![space]).collect() } else { families(&spaces) };
        let of_all = |spaces: &Vec<_>| {
            searches.iter().map(|search| Try { spaces: spaces.clone(), search: *search }).collect::<Vec<_>>()
        };
        let tries: Vec<Try<'_>> = families.iter().flat_map(of_all).collect();
        let bar = bar::up_to(tries.len() as u64 * u64::from(self.seeds), "searches");
        let runs = all(&tries, self.seeds as usize, &rules, &bar);
        bar.finish_and_clear();
        let worth = |(tried, runs): (_, Vec<Run>)| Worth::of(tried, &runs, rules.budget, &at, &self.patience);
        let mut worths: Vec<Worth> = tries.iter().zip(runs?).map(worth).collect();
        if let Some(python) = &self.peer {
            let named = |spaces: Vec<_>| (family_name(&spaces), spaces);
            let families: Vec<(String, Vec<&Measured>)> = families.into_iter().map(named).collect();
            worths.extend(peer::worths(python, &families, (self.seeds as usize, rules.budget, &at))?);
            // Beside ours: in the order of the spaces.
            let place = |worth: &Worth| families.iter().position(|(name, _)| *name == worth.space);
            worths.sort_by_key(place);
        }
        if self.json { out::json(&worths) } else { self.print(&worths, &at) }
    }

    /// When searches are scored, in order.
    fn at(&self) -> anyhow::Result<Vec<usize>> {
        let mut at = self.at.clone();
        if let Some(beyond) = at.iter().find(|at| **at > self.budget) {
            return Err(bluefin_campaign::usage(format!(
                "--at: found {beyond}, expected no more than the budget of {}",
                self.budget
            )));
        }
        if at.is_empty() {
            at = AT.into_iter().filter(|at| *at <= self.budget).collect();
        }
        if at.is_empty() {
            at.push(self.budget);
        }
        at.sort_unstable();
        at.dedup();
        Ok(at.into_iter().map(|at| at as usize).collect())
    }

    fn print(&self, worths: &[Worth], at: &[usize]) -> anyhow::Result<()> {
        let mut table = width::table();
        let scores = at.iter().map(|at| format!("at {at}\n±"));
        let mut header = vec!["space\nsearch".to_string()];
        header.extend(scores);
        header.extend(["median\nshare", "90 %\nshare", "close\nms"].map(str::to_string));
        if self.shared {
            header.push("compiled".to_string());
        }
        table.set_header(header);
        for worth in worths {
            let mut row = vec![format!("{}\n{}", worth.space, worth.search)];
            row.extend(worth.scores.iter().map(score));
            row.push(evaluations(worth.close.median, worth));
            row.push(evaluations(worth.close.percentile_90, worth));
            row.push(format!("{:.0} %\n{:.1}", worth.close.reached_percent, worth.proposal_ms));
            if self.shared {
                row.push(format!("{:.0} %", worth.compiled_percent));
            }
            table.add_row(row);
        }
        out::line(format_args!(
            "Over {} seeds. at: optimum / best found after so many evaluations, and the\n\
             standard error. median, 90 %: evaluations until within 1 % of the optimum,\n\
             and their share of the points. close: seeds that got there by {}.\n\
             ms: a proposal.",
            self.seeds, self.budget
        ))?;
        out::line(table)?;
        if !self.patience.is_empty() {
            self.print_stops(worths)?;
        }
        Ok(())
    }

    /// What stopping comes to, and what it goes by.
    fn print_stops(&self, worths: &[Worth]) -> anyhow::Result<()> {
        let (mut stops, mut estimates) = (width::table(), width::table());
        stops.set_header(["space\nsearch", "patience", "stop", "candidates\nwithout", "score\nwithout"]);
        estimates.set_header(["space\nsearch", "expected\nmean", "gained\nmean", "more", "estimates"]);
        for Worth { space, search, stops: of_stops, estimates: of_estimates, .. } in worths {
            let name = format!("{space}\n{search}");
            for stop in of_stops {
                stops.add_row([
                    name.clone(),
                    format!("{} %", stop.patience_percent),
                    format!("{:.0} %", stop.stopped_percent),
                    format!("{:.1}\n{:.1}", stop.candidates, stop.candidates_unstopped),
                    format!("{:.4}\n{:.4}", stop.score, stop.score_unstopped),
                ]);
            }
            for range in of_estimates {
                let above = range.above_percent;
                let expected =
                    range.up_to_percent.map_or_else(|| format!("above {above} %"), |to| format!("{above} to {to} %"));
                estimates.add_row([
                    name.clone(),
                    format!("{expected}\n{:.2} %", range.estimated_percent),
                    format!("{:.2} %", range.gained_percent),
                    format!("{:.0} %", range.too_low_percent),
                    range.estimates.to_string(),
                ]);
            }
        }
        out::line(
            "Searches that stop where they expect to gain less than the patience. stop:\n\
             those that do within the budget. candidates, score: where they end, and\n\
             without stopping.",
        )?;
        out::line(stops)?;
        out::line(
            "expected: gains by as many candidates again. gained: by those, in the mean.\n\
             more: estimates after which more was gained than was expected.",
        )?;
        Ok(out::line(estimates)?)
    }
}

fn score(score: &Score) -> String {
    let error = score.standard_error.map_or_else(|| "-".to_string(), |error| format!("±{error:.3}"));
    format!("{:.3}\n{error}", score.mean)
}

fn evaluations(count: Option<usize>, worth: &Worth) -> String {
    match count {
        Some(count) => format!("{count}\n{:.1} %", 100.0 * count as f64 / worth.points as f64),
        None => format!("> {}", worth.budget),
    }
}

/// Spaces that are searched side by side, and a strategy that is tried on them.
pub struct Try<'a> {
    spaces: Vec<&'a Measured>,
    search: &'a dyn Search,
}

impl Try<'_> {
    fn name(&self) -> String {
        family_name(&self.spaces)
    }
}

fn family_name(spaces: &[&Measured]) -> String {
    match spaces {
        [alone] => alone.name.clone(),
        several => format!("{}, {} problems", several.first().map_or("", |space| &space.solver), several.len()),
    }
}

/// Spaces of one solver for several problems are searched side by side, as a session does it.
fn families(spaces: &[Measured]) -> Vec<Vec<&Measured>> {
    let mut families: Vec<Vec<&Measured>> = Vec::new();
    for space in spaces {
        let like = |family: &&mut Vec<&Measured>| {
            let is_like = |other: &&Measured| other.solver == space.solver && other.params == space.params;
            !space.variables.is_empty()
                && family.first().is_some_and(|other| !other.variables.is_empty() && is_like(other))
        };
        match families.iter_mut().find(like) {
            Some(family) => family.push(space),
            None => families.push(vec![space]),
        }
    }
    families
}

/// Runs each of `tries` with every seed, on every core. The runs of each, by seed.
fn all(tries: &[Try<'_>], seeds: usize, rules: &Rules<'_>, bar: &ProgressBar) -> anyhow::Result<Vec<Vec<Run>>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..itself::cpus() {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = tries.get(index / seeds) else { break };
                    let run = simulate::run(one.search, &one.spaces, rules, (index % seeds) as u64);
                    if run.is_err() {
                        // Nothing is worth more than to hear of it.
                        next.store(tries.len() * seeds, Ordering::Relaxed);
                    }
                    bar.inc(1);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, run));
                }
            });
        }
    });
    let mut done = mem::take(&mut *done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    done.sort_by_key(|(index, _)| *index);
    let mut runs = vec![Vec::new(); tries.len()];
    for (index, run) in done {
        let Some((one, of_try)) = tries.get(index / seeds).zip(runs.get_mut(index / seeds)) else { continue };
        of_try.extend(run.with_context(|| format!("{}: {}", one.name(), one.search.name()))?);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use bluefin_kernel_spec::search::Strategies;

    use super::simulate::tests::{Listed, NONE, measured, rules};
    use super::*;

    #[test]
    fn runs_are_in_the_order_of_tries_and_seeds_however_many_threads_there_are() {
        let spaces = [measured(20), measured(300)];
        let strategies = Strategies::default();
        let fixed = strategies.get("fixed").unwrap();
        let knows = Listed(vec![1]);
        let tries = spaces.each_ref().map(|space| [fixed, &knows].map(|search| Try { spaces: vec![space], search }));
        let runs = all(tries.as_flattened(), 5, &rules(NONE), &ProgressBar::hidden()).unwrap();
        let best = |run: &Run| run.best_ms.clone();
        for (one, runs) in tries.as_flattened().iter().zip(&runs) {
            let alone =
                (0..5).map(|seed| best(&simulate::run(one.search, &one.spaces, &rules(NONE), seed).unwrap()[0]));
            assert_eq!(runs.iter().map(best).collect::<Vec<_>>(), alone.collect::<Vec<_>>());
        }
        assert_eq!(best(&runs[1][4]), [Some(1.0)]);
    }

    #[test]
    fn a_strategy_that_errs_is_named() {
        let (space, errs) = (measured(20), Listed(vec![77]));
        let tries = [Try { spaces: vec![&space], search: &errs }];
        let error = all(&tries, 30, &rules(NONE), &ProgressBar::hidden()).unwrap_err();
        assert_eq!(format!("{error:#}"), "line: listed: found the candidate points:77, expected a point of the space");
    }
}
