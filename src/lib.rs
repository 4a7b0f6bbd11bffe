//! `bluefin` as a library: [`main`] parses arguments, calls a crate and prints. What a build knows beside what is shipped is
//! handed in once, as [`Extensions`].
#![forbid(unsafe_code)]

#[macro_use(say)]
extern crate bluefin_terminal;

mod aiter;
mod applicability;
mod apply;
mod capture;
mod check;
mod consent;
mod coverage;
mod dashboard;
mod db;
mod dead;
mod devices;
mod doctor;
mod enqueue;
mod export;
mod extensions;
mod gain;
mod init;
mod input;
mod install;
mod jobs;
mod logging;
mod monitor;
mod problems;
mod prune;
mod reconcile;
mod release;
mod report;
mod results;
mod run;
mod selftest;
mod serving;
mod session;
mod shell;
mod solvers;
mod status;
mod tune;
mod tune_gemm;
mod verify;
mod version;
mod waiting;
mod workers;

use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::{Usage, config, message, usage};
use bluefin_common::limits::{self, LimitMet};
use bluefin_common::printable::printable_lines;
use bluefin_common::{isolation, secrets};
use bluefin_producer::PlanError;
use bluefin_terminal::colour;
use bluefin_terminal::mituna::{self, Translated};
use bluefin_terminal::spelling;
use bluefin_terminal::verbs::{Group, grouped};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::io::Errno;

pub use bluefin_campaign::machine::evaluators::{Found, NamedEvaluators, ToolArgs};

pub use crate::extensions::Extensions;
use crate::logging::LogFormat;

/// Tunes GPU kernels: on this machine with nothing installed, or on many through RabbitMQ and Redis
#[derive(Parser)]
#[command(
    version = version::SHORT,
    after_help = "Examples:\n  bluefin tune examples/resnet50.txt\n  bluefin --version --verbose   (what was found beside it)\n\n\
        What is the same on every command line may be in bluefin.toml. Exit codes: 0 done, 1 failed or with findings, 2 wrong usage."
)]
struct Cli {
    /// How log lines look; their level is set by BLUEFIN_LOG
    #[arg(long, global = true, value_enum, default_value_t, display_order = 900)]
    log: LogFormat,
    /// When there is colour: auto is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, display_order = 901)]
    color: Color,
    #[command(subcommand)]
    verb: Verb,
}

// What its values mean is said above: help of each of them would make the help of every verb a long one.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Its verbs by what they are for, as help has them.
const GROUPS: [Group; 6] = [
    Group { title: "Tune", verbs: &["tune", "tune-gemm", "aiter", "serving", "verify", "run"] },
    Group { title: "Kernels of your own", verbs: &["init", "check", "capture", "apply", "gain"] },
    Group {
        title: "A fleet",
        verbs: &[
            "problems",
            "session",
            "solvers",
            "applicability",
            "enqueue",
            "compile-worker",
            "eval-worker",
            "monitor",
            "reconcile",
            "dead",
            "prune",
        ],
    },
    Group { title: "Look", verbs: &["status", "workers", "jobs", "job", "results", "report", "dashboard"] },
    Group { title: "Databases", verbs: &["export", "release", "install", "doctor", "coverage", "db"] },
    Group { title: "This machine", verbs: &["devices", "selftest", "bench", "completions", "man"] },
];

/// The command line.
fn command() -> clap::Command {
    grouped(Cli::command(), &GROUPS)
}

#[derive(Subcommand)]
enum Verb {
    Tune(tune::TuneArgs),
    #[command(name = "tune-gemm")]
    TuneGemm(tune_gemm::TuneGemmArgs),
    #[command(subcommand)]
    Problems(problems::ProblemsVerb),
    /// MITuna's name of `problems import`
    #[command(
        name = "import_configs",
        hide = true,
        override_usage = "bluefin import_configs [OPTIONS] [--tag <TAG>] --file <FILE>..."
    )]
    ImportConfigs(problems::ImportArgs),
    #[command(subcommand)]
    Session(session::SessionVerb),
    /// MITuna's name of `session new`
    #[command(name = "init_session", hide = true)]
    InitSession(session::NewArgs),
    #[command(subcommand)]
    Solvers(solvers::SolversVerb),
    /// MITuna's names of `solvers update` and `solvers list`
    #[command(name = "update_solvers", hide = true)]
    UpdateSolvers(solvers::UpdateArgs),
    #[command(name = "list_solvers", hide = true)]
    ListSolvers(solvers::ListArgs),
    #[command(subcommand)]
    Applicability(applicability::ApplicabilityVerb),
    /// MITuna's name of `applicability update`
    #[command(name = "update_applicability", hide = true)]
    UpdateApplicability(applicability::UpdateArgs),
    Enqueue(enqueue::EnqueueArgs),
    Run(Box<run::RunArgs>),
    /// MITuna's name of `enqueue`
    #[command(name = "load_job", hide = true)]
    LoadJob(enqueue::EnqueueArgs),
    CompileWorker(workers::CompileWorkerArgs),
    EvalWorker(workers::EvalWorkerArgs),
    Workers(workers::list::WorkersArgs),
    Devices(devices::DevicesArgs),
    Selftest(selftest::SelftestArgs),
    Check(check::CheckArgs),
    Init(init::InitArgs),
    Status(status::StatusArgs),
    Monitor(monitor::MonitorArgs),
    Reconcile(reconcile::ReconcileArgs),
    #[command(subcommand)]
    Jobs(jobs::JobsVerb),
    #[command(subcommand)]
    Dead(dead::DeadVerb),
    Job(jobs::one::JobArgs),
    Prune(prune::PruneArgs),
    Results(Box<results::ResultsArgs>),
    Export(export::ExportArgs),
    Report(report::ReportArgs),
    Dashboard(dashboard::DashboardArgs),
    Capture(capture::CaptureArgs),
    Apply(apply::ApplyArgs),
    Gain(gain::GainArgs),
    /// MITuna's name of `export`
    #[command(name = "export_db", hide = true)]
    ExportDb(export::ExportArgs),
    #[command(subcommand)]
    Release(release::ReleaseVerb),
    Install(install::InstallArgs),
    Doctor(doctor::DoctorArgs),
    Coverage(coverage::CoverageArgs),
    #[command(subcommand)]
    Db(db::DbVerb),
    #[command(subcommand)]
    Aiter(aiter::AiterVerb),
    #[command(subcommand)]
    Serving(serving::ServingVerb),
    Verify(Box<verify::VerifyArgs>),
    #[command(subcommand)]
    Bench(bluefin_bench::BenchVerb),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
    /// One device's child process, started by an eval worker
    #[command(hide = true)]
    EvalChild(workers::EvalChildArgs),
}

/// Says on standard error that a signal interrupted the work; the exit code of that.
fn interrupted() -> ExitCode {
    say!("stopped; the same command continues where this one ended");
    ExitCode::from(130)
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>() || error.downcast_ref::<PlanError>().is_some_and(PlanError::is_usage)
}

/// `message`, and the limit of this process that is behind it if it does not say so.
fn with_limits(message: String, error: &anyhow::Error) -> String {
    let open_files = || {
        let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        let met = io.and_then(std::io::Error::raw_os_error) == Some(Errno::MFILE.raw_os_error());
        met.then(|| LimitMet::OpenFiles { found: limits::open_files(), expected: limits::open_files() + 1 })
    };
    match limits::file_size_met().or_else(open_files).map(|limit| limit.to_string()) {
        Some(limit) if !message.contains("RLIMIT") => format!("{message}: {limit}"),
        _ => message,
    }
}

/// Runs bluefin, with what its shipped build knows and whatever else `extensions` brings, on the arguments of this process.
pub fn main(extensions: Extensions) -> ExitCode {
    if let Some(compiled) = workers::compile() {
        return ended(compiled);
    }
    extensions.hand_in();
    if let Err(error) = secrets::take() {
        say!("error: the addresses of the fleet: {error}");
        return ExitCode::FAILURE;
    }
    let mut arguments = spelling::with_two_dashes(std::env::args_os());
    match mituna::translate(&arguments) {
        None => {}
        Some(Translated::Command { arguments: ours, notes }) => {
            notes.iter().for_each(|note| say!("{note}"));
            arguments = ours;
        }
        Some(Translated::Nothing(notes)) => {
            notes.iter().for_each(|note| say!("{note}"));
            return ExitCode::SUCCESS;
        }
        Some(Translated::Help(text)) => {
            return ended(bluefin_terminal::out::line(text).map(|()| ExitCode::SUCCESS).map_err(Into::into));
        }
        Some(Translated::Refused(reason)) => {
            say!("error: {reason}");
            return ExitCode::from(2);
        }
    }
    if version::is_asked(&arguments) {
        return ended(with_runtime(version::print()));
    }
    let matches =
        command().color(colour::asked(&arguments)).get_matches_from(spelling::as_known(Cli::command(), arguments));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    ended(run(cli))
}

/// Says on standard error what went wrong; the exit code of that.
fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        // As in `bluefin problems list big.txt | head -1`: the reader has what it wanted.
        Err(error) if bluefin_terminal::out::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say!("error: {}", printable_lines(&with_limits(message(&error), &error)));
            if is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn with_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    limits::survive_file_size().context("SIGXFSZ")?;
    limits::raise_open_files();
    // On the path of every child: nothing is set up for it.
    let verb = match cli.verb {
        Verb::EvalChild(args) => return Ok(args.run()),
        verb => verb,
    };
    isolation::hide();
    config::check()?;
    match cli.color {
        Color::Auto => {}
        Color::Always => colour::choose(true),
        Color::Never => colour::choose(false),
    }
    let logs = matches!(
        verb,
        Verb::Enqueue(_) | Verb::LoadJob(_) | Verb::CompileWorker(_) | Verb::EvalWorker(_) | Verb::Monitor(_)
    );
    logging::start(cli.log, if logs { "info" } else { "warn" })?;
    with_runtime(async {
        match verb {
            Verb::Tune(args) => args.run().await,
            Verb::TuneGemm(args) => args.run().await,
            Verb::Problems(verb) => verb.run().await,
            Verb::ImportConfigs(args) => args.run().await,
            Verb::Session(verb) => verb.run().await,
            Verb::InitSession(args) => args.run().await,
            Verb::Solvers(verb) => verb.run().await,
            Verb::UpdateSolvers(args) => args.run().await,
            Verb::ListSolvers(args) => args.run().await,
            Verb::Applicability(verb) => verb.run().await,
            Verb::UpdateApplicability(args) => args.run().await,
            Verb::Enqueue(args) | Verb::LoadJob(args) => args.run().await,
            Verb::Run(args) => args.run().await,
            Verb::CompileWorker(args) => args.run().await,
            Verb::EvalWorker(args) => args.run().await,
            Verb::Workers(args) => args.run().await,
            Verb::Devices(args) => args.run().await,
            Verb::Selftest(args) => args.run().await,
            Verb::Check(args) => args.run().await,
            Verb::Init(args) => args.run().await,
            Verb::Status(args) => args.run().await,
            Verb::Monitor(args) => args.run().await,
            Verb::Reconcile(args) => args.run().await,
            Verb::Jobs(verb) => verb.run().await,
            Verb::Dead(verb) => verb.run().await,
            Verb::Job(args) => args.run().await,
            Verb::Prune(args) => args.run().await,
            Verb::Results(args) => args.run().await,
            Verb::Export(args) | Verb::ExportDb(args) => args.run().await,
            Verb::Report(args) => args.run().await,
            Verb::Dashboard(args) => args.run().await,
            Verb::Db(verb) => verb.run().await,
            Verb::Aiter(verb) => verb.run().await,
            Verb::Serving(verb) => verb.run().await,
            Verb::Verify(args) => args.run().await,
            Verb::Capture(args) => args.run().await,
            Verb::Apply(args) => args.run().await,
            Verb::Gain(args) => args.run().await,
            Verb::Release(verb) => verb.run().await,
            Verb::Install(args) => args.run().await,
            Verb::Doctor(args) => args.run().await,
            Verb::Coverage(args) => args.run().await,
            Verb::Bench(verb) => verb.run().await,
            Verb::Completions(args) => args.run(),
            Verb::Man(args) => args.run(),
            Verb::EvalChild(_) => Ok(ExitCode::SUCCESS),
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod examples;

#[cfg(test)]
mod tests {
    use bluefin_terminal::verbs::ungrouped;

    use super::*;

    #[test]
    fn each_verb_is_in_one_group() {
        assert_eq!(ungrouped(&Cli::command(), &GROUPS), Vec::<String>::new());
    }

    #[test]
    fn out_and_output_are_one_flag() {
        let mut verbs = vec![Cli::command()];
        while let Some(verb) = verbs.pop() {
            for argument in verb.get_arguments() {
                let names = argument.get_long_and_visible_aliases().unwrap_or_default();
                let has = ["out", "output"].map(|name| names.contains(&name));
                assert_eq!(has[0], has[1], "{}: {names:?}", verb.get_name());
            }
            verbs.extend(verb.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned());
        }
    }
}
