//! `bluefin check`: whether kernels for AMD GPUs are right, without one.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use bluefin_campaign::listing::{Listing, arch_or_target};
use bluefin_campaign::machine::check::{self, Checked, Checking, RIGHT};
use bluefin_campaign::machine::itself;
use bluefin_common::spelled::counted;
use bluefin_common::target::Target;
use bluefin_eval_worker::executed::{Executor, ExecutorError};
use bluefin_producer::plan::{Asked, Plan};
use bluefin_terminal::listing::{self, ListArgs};
use bluefin_terminal::out;
use bluefin_terminal::sheet::{Sheet, TableArgs, cell, number, text};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::input::{Input, InputArgs};
use crate::waiting::with_signs_of_life;

/// Check kernels for AMD GPUs on the CPU: each candidate is compiled, executed instruction by instruction, and compared
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    bluefin check --kernel my_kernel.toml --size rows=16 --target gfx942\n  \
    bluefin check problems.txt --target gfx1100 --budget 12\n  \
    bluefin check --kernel my_kernel.toml --target gfx90a-104 --seed 7 --json\n  \
    bluefin check --kernel my_kernel.toml --size rows=16 --target gfx942 --mutate\n\n\
    No GPU is needed, and nothing is measured: there are no times and no databases. What ends a candidate: a wrong result, a \
    touch outside of a buffer or of LDS, a value that nobody wrote, a race, a register that is used before its s_waitcnt, a \
    barrier that not all threads reach, a loop without end. Take small sizes that divide by nothing. Exit code 1: not all are \
    right.")]
pub struct CheckArgs {
    #[command(flatten)]
    input: InputArgs,
    /// What is executed: gfx908, gfx90a, gfx942, gfx950, gfx1030, gfx1100, gfx1150, gfx1151, gfx1200 or gfx1201; with compute units, as in gfx942-304, where they shape the kernel
    #[arg(long, alias = "device", value_name = "TARGET")]
    target: ArchOrTarget,
    /// Decides the order of blocks and waves, and what inputs hold
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A launch that executes more instructions of waves than this hangs
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    max_instructions: u64,
    /// Compilers and executions at a time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Try each candidate that is right without each of its waits, barriers and bounds, one at a time, and say which of that is found
    #[arg(long, conflicts_with = "list")]
    mutate: bool,
    #[command(flatten)]
    listing: ListArgs,
    /// Print every candidate as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// A target, of which the compute units may be left to what is usual.
#[derive(Clone, Debug)]
struct ArchOrTarget(Target);

impl FromStr for ArchOrTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        arch_or_target(text).map_err(|error| error.to_string()).map(Self)
    }
}

impl CheckArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let target = &self.target.0;
        if self.listing.list {
            return self.list(target).await;
        }
        let slots = self.slots.unwrap_or_else(itself::cpus).max(1);
        let executor = match Executor::new(target.arch(), self.seed, self.max_instructions) {
            Err(error @ ExecutorError::Target { .. }) => return Err(crate::usage(format!("--target: {error}"))),
            executor => executor?,
        };
        let input = self.input.read(target)?;
        input.rejects.iter().for_each(|reject| say!("rejected: {reject}"));
        anyhow::ensure!(!input.problems.is_empty(), "no problem to check in what was named");
        let rejected = !input.rejects.is_empty();
        let Input { problems, specs, .. } = input;
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        let checking = Checking::begin(executor, target, &problems, &asked, slots).await?;
        let checking = if self.mutate { checking.mutating() } else { checking };
        checking.plan.left_out().iter().for_each(|line| say!("{line}"));
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let (checked, plan) = self.check(checking).await?;
        say_speed(
            clock_gettime(ClockId::ProcessCPUTime) - own,
            checked.iter().filter(|one| one.result == RIGHT).count(),
            slots,
        );
        let right = checked.iter().filter(|one| one.result == RIGHT).count();
        if self.json {
            let mut report = serde_json::json!({
                "target": target.to_string(),
                "candidates": checked,
                "right": right,
                "unsolved": plan.unsolved,
            });
            if let (true, Some(report)) = (self.mutate, report.as_object_mut()) {
                report.insert("mutants".to_string(), serde_json::to_value(Mutants::of(&checked))?);
            }
            out::json(&report)?;
        } else {
            self.print(&checked)?;
            if self.mutate {
                print_mutants(&checked)?;
            }
        }
        let all = !checked.is_empty() && right == checked.len() && plan.is_fine() && !rejected;
        Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The candidates that would be checked.
    async fn list(&self, target: &Target) -> anyhow::Result<ExitCode> {
        Executor::takes(target.arch()).map_err(|error| crate::usage(format!("--target: {error}")))?;
        let Input { problems, specs, rejects, .. } = self.input.read(target)?;
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        listing::print(&Listing::of(&check::session(target)?, problems, &asked, rejects).await?, self.json)
    }

    /// Compiles and executes all candidates.
    async fn check(&self, checking: Checking) -> anyhow::Result<(Vec<Checked>, Plan)> {
        let candidates = checking.candidates();
        say!("{}, executed for {}; nothing is measured", counted(candidates, "candidate"), self.target.0);
        let bar = if self.json || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {per_sec} {msg}")?;
            ProgressBar::new(candidates).with_style(style)
        };
        let is_said = bar.is_hidden();
        let going_on = |since: Duration| {
            if is_said {
                let (done, since) = (bar.position(), since.as_secs());
                say!(
                    "{done} of {candidates} candidates; {since}s; an execution ends after {} instructions",
                    self.max_instructions
                );
            }
        };
        let checked = with_signs_of_life(checking.check(|done| bar.inc(done)), going_on).await?;
        bar.finish_and_clear();
        Ok(checked)
    }

    fn print(&self, checked: &[Checked]) -> anyhow::Result<()> {
        let mut counts: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for one in checked {
            let (right, all) = counts.entry((&one.problem, &one.solver)).or_default();
            *right += usize::from(one.result == RIGHT);
            *all += 1;
        }
        let mut sheet = Sheet::new([text("solver"), number("right"), number("of")]).headed("problem");
        for ((problem, solver), (right, all)) in counts {
            sheet.heading(problem);
            sheet.row([cell(solver), cell(right), cell(all)]);
        }
        TableArgs::default().print(&sheet)?;
        let remarks = checked.iter().map(|one| (one.problem.as_str(), one.remarks()));
        let remarks: BTreeMap<&str, Vec<String>> = remarks.filter(|(_, all)| !all.is_empty()).collect();
        for (problem, remark) in remarks.iter().flat_map(|(problem, all)| all.iter().map(move |one| (problem, one))) {
            out::prose(format!("{problem}: {remark}"))?;
        }
        for one in checked.iter().filter(|one| one.result != RIGHT) {
            let params: String = one.params.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            let detail = one.detail.as_deref().unwrap_or_default();
            out::prose(format!("{} {}{params}: {}: {detail}", one.problem, one.solver, one.result))?;
        }
        Ok(())
    }
}

/// How many of the instructions that were left out were found.
#[derive(Default, serde::Serialize)]
struct Mutants {
    found: usize,
    missed: usize,
    /// They had done nothing in these launches.
    idle: usize,
    /// What they had waited for was waited for once more.
    covered: usize,
    /// No result depends on them in these launches.
    spare: usize,
}

impl Mutants {
    fn of(checked: &[Checked]) -> Self {
        let mut all = Self::default();
        for row in checked.iter().flat_map(|one| &one.mutants) {
            let count = match row.outcome {
                "found" => &mut all.found,
                "missed" => &mut all.missed,
                "idle" => &mut all.idle,
                "spare" => &mut all.spare,
                _ => &mut all.covered,
            };
            *count += 1;
        }
        all
    }
}

fn print_mutants(checked: &[Checked]) -> anyhow::Result<()> {
    for one in checked {
        for row in one.mutants.iter().filter(|row| row.outcome == "missed") {
            let source = row.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
            let (problem, solver) = (&one.problem, &one.solver);
            out::prose(format!(
                "{problem} {solver}: nothing is wrong without the {} `{}` of {} at {:#x}{source}",
                row.guard, row.instruction, row.kernel, row.address
            ))?;
        }
    }
    let Mutants { found, missed, idle, covered, spare } = Mutants::of(checked);
    let all = found + missed;
    let share = 100.0 * found as f64 / all.max(1) as f64;
    out::prose(format!(
        "taken out one at a time: {found} of {all} waits, barriers and bounds are found ({share:.1} %); {idle} did nothing, \
         what {covered} waited for was waited for again before its use, and no result depends on {spare}"
    ))?;
    Ok(())
}

/// How fast candidates are executed, apart from the compilers, which are processes of their own.
fn say_speed(own: Timespec, right: usize, slots: usize) {
    let seconds = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9;
    let rate = right as f64 * slots as f64 / seconds.max(1e-9);
    say!(
        "executed in {seconds:.1} s of CPU time, references included: {rate:.0} right candidates a second on {slots} CPUs"
    );
}
