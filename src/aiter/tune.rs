//! `bluefin aiter tune`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bluefin_aiter::diff::{Limits, diff};
use bluefin_aiter::merge::{Policy, Terms, into_folder};
use bluefin_aiter::{Error, Family, FamilyName, Files, Sheet, read_all};
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::aiter::op_tests::{OpTests, Test};
use bluefin_campaign::aiter::report::{Report, write};
use bluefin_campaign::aiter::tune::{Tuned, Tuning, local_target};
use bluefin_campaign::aiter::{operators, shapes};
use bluefin_campaign::machine::evaluators::AiterArgs;
use bluefin_campaign::ports::{FleetArgs, StoreArgs};
use bluefin_campaign::site::Site;
use bluefin_common::problem::Problem;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::counted;
use bluefin_common::target::Target;
use bluefin_terminal::progress::Display;
use humantime::parse_duration;

/// Tune shapes of aiter's operators, here or over a fleet, and update aiter's files where it pays
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin aiter tune --shapes ck_gemm_a8w8,gemm_a16w16 --aiter aiter --test\n  \
    bluefin aiter tune --shapes ck_gemm_a8w8 --gpu gfx942-304 --configs aiter/aiter/configs -- --libtype all -k\n\n\
    Shapes that have a row for the GPU are left out, unless --all. A row is taken if it takes less time than the one in force by \
    --min-improvement, or if there is none. With a fleet (--amqp and --redis) its eval workers do the work (eval-worker --device \
    aiter), without one this process does on all GPUs of this machine. --out gets summary.md, diff.txt, rows/ and the files that \
    are other than they were. The same command continues what was interrupted. Exit code 1 if a shape was not tuned, a row \
    could not be merged (it is in rows/), an operator fails with a new row, a test fails that did not before, or a family has \
    no test in this aiter and --test is given.")]
pub struct TuneArgs {
    /// Families by their names in aiter's CI [default: those that it tunes itself]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    shapes: Vec<FamilyName>,
    #[command(flatten)]
    aiter: AiterArgs,
    /// Folder of aiter's files [default: aiter/configs in aiter's repository]
    #[arg(long, value_name = "DIR")]
    configs: Option<PathBuf>,
    /// Untuned files, or folders of them [default: those of the families in --configs]
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    untuned: Vec<PathBuf>,
    /// The GPU to tune for, such as gfx942-304 [default: that of this machine]
    #[arg(long, value_name = "GPU")]
    gpu: Option<Target>,
    /// GPUs of this machine to tune on, as ROCR_VISIBLE_DEVICES takes them [default: all of --gpu]
    #[arg(long, value_name = "GPU,...", value_delimiter = ',')]
    devices: Vec<String>,
    /// Tune shapes that have rows, too
    #[arg(long)]
    all: bool,
    /// How much less time a row must take to stand in place of another
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = super::percent)]
    min_improvement: f64,
    /// Longest time for one shape
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_duration)]
    limit: Duration,
    /// Measure each operator from end to end with the rows that aiter has and with the new one, and take a row by that
    #[arg(long)]
    compare: bool,
    /// Run the tests of the operators before and after
    #[arg(long)]
    test: bool,
    /// Folder for what was found; made if need be
    #[arg(short, long, visible_alias = "output", value_name = "DIR", default_value = "tuned")]
    out: PathBuf,
    /// Where the work is kept, without a fleet
    #[arg(long, value_name = "FILE", default_value_os_t = bluefin_campaign::config::state())]
    state: PathBuf,
    /// Name of the session [default: aiter-<gpu>-<digest of aiter's version and the arguments>]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Print what came of it as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    /// For aiter's tuners
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl TuneArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut families = self.families()?;
        let configs = self.configs.clone().unwrap_or_else(|| self.aiter.aiter.join("aiter/configs"));
        let Files { sheets, torn } = read_all(std::slice::from_ref(&configs), None, super::pass_over)?;
        let torn = left_out(&torn, &mut families);
        let fleet = self.fleet.names_a_broker();
        let target = match (&self.gpu, fleet) {
            (Some(target), _) => target.clone(),
            (None, true) => {
                return Err(crate::usage("--gpu: found none, expected the GPU that the fleet is to tune for"));
            }
            (None, false) => local_target(&self.aiter)?,
        };
        let asked = shapes::asked(&families, &sheets, &self.untuned, &target, self.all, super::pass_over)?;
        let shapes = counted(asked.problems.len(), "shape");
        say!("{shapes} to tune for {target}; with a row: {}", asked.tuned);
        let op_tests = if self.test { OpTests::find(&self.aiter.aiter, &families) } else { OpTests::default() };
        op_tests.untested.iter().for_each(|untested| say!("not tested: {untested}"));
        let before = self.tests(&op_tests, false).await;
        let shapes = asked.problems.len();
        let tuned =
            if shapes == 0 { Some(Tuned::default()) } else { self.tuned(&target, asked.problems, fleet).await? };
        let Some(Tuned { mut rows, mut failed, operators }) = tuned else { return Ok(crate::interrupted()) };
        failed.extend(asked.untold);
        let mut policy = Policy::Improved(self.min_improvement);
        let mut refused = Vec::new();
        if self.compare {
            policy = Policy::Newest;
            refused = operators::refuse(&mut rows, &sheets, &operators, self.min_improvement);
        }
        let (changed, mut merged, failures) =
            into_folder(&configs, &sheets, &rows, Terms { policy, error_limit: None });
        merged.extend(refused);
        // What was measured is not lost by a file that it can not go into, and the others are written.
        let mut unmerged: Vec<String> = failures.iter().map(ToString::to_string).collect();
        unmerged
            .extend(changed.iter().filter_map(|sheet| Some(format!("{:#}", write(sheet.path(), &sheet.table).err()?))));
        let untouched = sheets.iter().filter(|sheet| !changed.iter().any(|changed| changed.path() == sheet.path()));
        let now: Vec<Sheet> = untouched.chain(&changed).cloned().collect();
        let after = if changed.is_empty() { before.clone() } else { self.tests(&op_tests, true).await };
        let report = Report {
            target: target.to_string(),
            shapes,
            failed,
            merged,
            torn,
            unmerged,
            operators,
            diff: diff(&sheets, &now, Limits::default()),
            before,
            after,
            untested: op_tests.untested,
        };
        report.write(&self.out, &configs, &changed)?;
        if self.json {
            bluefin_terminal::out::json(&report)?;
        } else {
            bluefin_terminal::out::line(report.markdown().trim_end())?;
        }
        Ok(if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Those that were named, or those of aiter's CI.
    fn families(&self) -> anyhow::Result<Vec<&'static Family>> {
        let named: Vec<&'static Family> = self.shapes.iter().map(|name| name.0).collect();
        if let Some(family) = named.iter().find(|family| family.tuner.is_none()) {
            let tuned = bluefin_aiter::families::FAMILIES.iter().filter(|family| family.tuner.is_some());
            let names: Vec<&str> = tuned.map(|family| family.name).collect();
            return Err(crate::usage(format!("--shapes: found {}, expected any of {}", family.name, names.join(", "))));
        }
        if !named.is_empty() {
            return Ok(named);
        }
        let all = bluefin_aiter::families::FAMILIES.iter();
        Ok(all.filter(|family| family.tuner.as_ref().is_some_and(|tuner| tuner.by_default)).collect())
    }

    /// How shapes are tuned.
    fn tuning(&self, target: Target) -> Tuning<'_> {
        Tuning {
            aiter: &self.aiter,
            target,
            devices: &self.devices,
            limit: self.limit,
            arguments: self.arguments.join(" "),
            compare: self.compare,
            session: self.session.as_ref(),
            rows: self.out.join("rows"),
        }
    }

    /// Tunes here, or has a fleet tune. `None`: it was interrupted; a fleet goes on.
    async fn tuned(&self, target: &Target, problems: Vec<Problem>, fleet: bool) -> anyhow::Result<Option<Tuned>> {
        let tuning = self.tuning(target.clone());
        let (session, workers) = if fleet { tuning.by_fleet()? } else { tuning.here().await? };
        let site = if fleet {
            Site::of_fleet(&self.fleet, &self.admin).await?
        } else {
            let state = StoreArgs { state: Some(self.state.clone()), ..StoreArgs::default() };
            Site::open(&state, false, &self.admin).await?
        };
        let mut display = Display::new(|plan| plan.left_out().iter().for_each(|line| say!("{line}")));
        let tuned = tuning.tune(&site, session, problems, workers, &mut display).await;
        site.close().await;
        tuned
    }

    /// What comes of the tests of the operators.
    async fn tests(&self, op_tests: &OpTests, rebuilt: bool) -> Vec<Test> {
        op_tests.run(&self.aiter, rebuilt, |script| say!("test: {script}")).await
    }
}

/// Takes those of `families` out that have a torn file, and says why: rows can not be merged into it, nor is it known which it has.
/// One of a family that is not asked for costs nothing.
fn left_out(torn: &[Error], families: &mut Vec<&'static Family>) -> Vec<String> {
    let asked = families.clone();
    let say = |error: &Error| {
        let family = Family::named_by(error.path());
        if family.is_some_and(|family| asked.iter().all(|known| known.name != family.name)) {
            super::pass_over(error);
            return None;
        }
        families.retain(|known| family.is_none_or(|family| family.name != known.name));
        let text = match family {
            Some(family) => format!("{error}: {} is not tuned", family.name),
            None => error.to_string(),
        };
        say!("error: {text}");
        Some(text)
    };
    torn.iter().filter_map(say).collect()
}
