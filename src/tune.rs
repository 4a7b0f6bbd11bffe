//! `bluefin tune`: all four roles in one process, from a file of problems to databases.

mod part;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bluefin_common::broker::embedded::EmbeddedBroker;
use bluefin_common::campaign::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, Stage};
use bluefin_common::limits;
use bluefin_common::metrics::{PipelineMetrics, Step};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shutdown;
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_common::store::{Progress, Store};
use bluefin_common::target::Target;
use bluefin_exporter::summary::summaries;
use bluefin_exporter::{ExportRequest, export};
use bluefin_producer::enqueue::Publish;
use clap::ValueEnum;
use tokio_util::sync::CancellationToken;

use crate::admin::{Admin, AdminArgs};
use crate::enqueue::{Plan, enqueue};
use crate::input::InputArgs;
use crate::progress::{Display, human};
use crate::workers::{Compilers, LocalDevice, OPEN_FILES, Ports, Running, cache};
use crate::{export as export_verb, out, report};

/// Between two looks at how far the session is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Tune problems on this machine, with nothing installed, and write the databases
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin tune examples/resnet50.txt\n  \
    bluefin tune model.log --batchsize 1,8 --direction F --budget thorough\n  \
    bluefin tune --kernel my_kernel.toml --size n=1000000 --size n=4000000\n  \
    bluefin tune examples/resnet50.txt --device sm_90-132 --state s.db --stage compile   (where clang is)\n  \
    bluefin tune --state s.db --stage eval                                               (where the GPU is)\n  \
    bluefin tune --state s.db --stage export                                             (anywhere)\n\n\
    Ctrl-C loses nothing: the same command continues. What was tuned before is not tuned again.")]
pub struct TuneArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Devices to tune for, all of one target: host (the CPU), gpu, or indices, UUIDs or a target as `bluefin devices` shows;
    /// with --stage compile a target, which need not be here
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: String,
    /// Where the work is kept
    #[arg(long, value_name = "FILE", default_value = "bluefin.db")]
    state: PathBuf,
    /// Folder for the databases; made if need be
    #[arg(short, long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Do only this part, and leave the rest to other machines that get the state file
    #[arg(long, value_enum)]
    stage: Option<Part>,
    /// Name of the session [default: tune-<device>-<digest of the versions that shape its results>]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Compilers to run at a time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    compile_slots: Option<usize>,
    /// Time kernels on warm caches, which hold what the launch before left there [default: on cold ones]
    #[arg(long)]
    warm: bool,
    /// Print the result as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A part of a run that can be done on a machine of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Compile all candidates into the state file: needs compilers and no device
    Compile,
    /// Check and time what was compiled: needs the device and no compilers
    Eval,
    /// Write the databases: needs neither
    Export,
}

impl TuneArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        limits::expect_open_files(OPEN_FILES)?;
        if let Some(part) = self.stage {
            return self.run_part(part).await;
        }
        let device = LocalDevice::find(&self.device, cache(self.warm)).await?;
        let input = self.input.read(&device.target)?;
        for reject in &input.rejects {
            eprintln!("rejected: {reject}");
        }
        if input.problems.is_empty() {
            anyhow::bail!("no problem to tune in what was named");
        }
        // Before an hour of tuning, not after it.
        can_write(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        let sqlite = Arc::new(SqliteStore::open(&self.state).await?);
        let ports = Ports { store: sqlite.clone(), broker: Arc::new(EmbeddedBroker::new()) };
        let shutdown = shutdown::on_signal()?;
        let compilers = Compilers::probe(&input.specs, self.compile_slots)?;
        let versions = format!("{}\n{}", compilers.versions(), device.versions());
        let session = self.session(&device.target, &versions)?;
        // Its queues ended with the run before this one, which may have been of other problems: nobody here does what is left
        // of those. What was compiled to be evaluated elsewhere is kept with its jobs, and planned again there.
        sqlite.forget_unfinished(&session.name).await?;
        let admin = self.admin.start().await?;
        admin.readiness.ready();
        let result = self.tune(&ports, session, input, (compilers, device), &admin, shutdown).await;
        admin.stop().await;
        ports.broker.close().await;
        sqlite.close().await;
        result
    }

    /// The session for `target` that `versions` shape.
    fn session(&self, target: &Target, versions: &str) -> anyhow::Result<Session> {
        let name = match &self.session {
            Some(name) => name.clone(),
            // Results of another compiler or CPU are another session, so that nothing stale is taken for tuned.
            None => {
                let versions = Digest::of_parts("bluefin 2026 versions", [versions.as_bytes()]);
                format!("tune-{target}-{}", &versions.short()[..8]).parse()?
            }
        };
        Ok(Session::of_kernels(name, target.clone(), "bluefin tune", &Stage::ALL, now_ms()))
    }

    async fn tune(
        &self,
        ports: &Ports,
        session: Session,
        input: crate::input::Input,
        workers: (Compilers, LocalDevice),
        admin: &Admin,
        shutdown: CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let Ports { store, broker } = ports;
        let budget = self.input.budget;
        let metrics = bluefin_producer::Metrics::register(&admin.registry)?;
        let plan = enqueue(&**store, &**broker, &session, input, budget, Publish::Unfinished, &metrics).await?;
        self.say(&skipped(&plan, &self.input));
        plan.tell_unsolved();
        if plan.jobs == 0 {
            // What is in --out is of problems that were tuned: it stays.
            if self.json {
                out::json(&serde_json::json!({ "plan": plan, "problems": [], "export": null }))?;
            }
            return Ok(ExitCode::FAILURE);
        }
        // A play-off that was interrupted follows from outcomes alone, so that nothing may have been enqueued and much be left.
        if plan.enqueued == 0 && store.progress(&session.name).await?.is_settled() {
            self.say("nothing to do: everything was tuned before");
        } else {
            let stop = shutdown.child_token();
            let mut running = Running::new();
            let pipeline = PipelineMetrics::register(&admin.registry)?;
            let (compilers, device) = workers;
            let (taken, refused) = (device.cpus(), refused(&pipeline, device.is_one()));
            compilers.spawn(ports, &admin.registry, pipeline.clone(), &taken, stop.clone(), &mut running)?;
            let utilisation = device.spawn(ports, &admin.registry, pipeline, stop.clone(), &mut running)?;
            if wait(&**store, &session, running, (Progress::is_settled, refused), &stop, &shutdown).await? {
                return Ok(interrupted());
            }
            self.say(&format!("tuned in {}{utilisation}", human(started.elapsed())));
        }
        let found = self.export(ports, &session, &plan.groups, serde_json::json!({ "plan": plan })).await?;
        Ok(if found && plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Writes the databases and prints the winners. Returns whether every problem has one and nothing is missing.
    async fn export(
        &self,
        ports: &Ports,
        session: &Session,
        groups: &[GroupId],
        mut result: serde_json::Value,
    ) -> anyhow::Result<bool> {
        let store = &*ports.store;
        let request = ExportRequest::all(self.out.clone());
        let exported = export(store, &session.name, &request).await?;
        let summaries = summaries(store, session, groups).await?;
        if self.json {
            result["problems"] = serde_json::to_value(&summaries)?;
            result["export"] = serde_json::to_value(&exported)?;
            out::json(&result)?;
        } else {
            out::line(report::table(&summaries))?;
            export_verb::print_report(&exported)?;
        }
        Ok(summaries.iter().all(|summary| summary.winner.is_some()) && exported.warnings.is_empty())
    }

    fn say(&self, text: &str) {
        if !text.is_empty() {
            eprintln!("{text}");
        }
    }
}

fn interrupted() -> ExitCode {
    eprintln!("stopped; the same command continues where this one ended");
    ExitCode::from(130)
}

/// Whether the session is pinned to another compiler or, where the device is the only `one`, another device than those of
/// this process: what its workers hand back then nobody takes.
pub fn refused(pipeline: &PipelineMetrics, one: bool) -> impl Fn() -> bool + use<> {
    let pipeline = pipeline.clone();
    move || pipeline.refusals(Step::Compile) > 0 || one && pipeline.refusals(Step::Eval) > 0
}

/// Shows how far the session is until it is `complete`, then stops the workers of this process, if there are any. Returns
/// whether it was interrupted.
///
/// # Errors
/// If a worker ends before, the store fails, or the workers `refused` the session.
pub async fn wait(
    store: &dyn Store,
    session: &Session,
    mut running: Running,
    (complete, refused): (impl Fn(&Progress) -> bool, impl Fn() -> bool),
    stop: &CancellationToken,
    shutdown: &CancellationToken,
) -> anyhow::Result<bool> {
    let mut display = Display::start(false);
    let ended = loop {
        let progress = store.progress(&session.name).await?;
        display.show(&progress);
        if complete(&progress) || refused() {
            break None;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = shutdown.cancelled() => break None,
            Some(result) = running.join_next() => break Some(result),
        }
    };
    display.finish();
    let interrupted = shutdown.is_cancelled();
    stop.cancel();
    if let Some(result) = ended {
        result??;
        // An interrupt ends the workers as well, and one may be gone before it is noticed here.
        anyhow::ensure!(interrupted, "a worker ended before the session was complete");
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    anyhow::ensure!(
        interrupted || !refused(),
        "session {}: it is pinned to another compiler or device; name another one with --session",
        session.name
    );
    Ok(interrupted)
}

/// Makes `folder` if need be, and a file in it that is gone at once.
fn can_write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".bluefin-{}.tmp", std::process::id()));
    std::fs::File::create(&probe)?;
    std::fs::remove_file(&probe)
}

/// What the budget leaves out.
fn skipped(plan: &Plan, input: &InputArgs) -> String {
    let left = plan.valid_candidates.saturating_sub(plan.candidates);
    let mut text = format!("{} problems, {} candidates in {} jobs", plan.problems, plan.candidates, plan.jobs);
    if left > 0 {
        text.push_str(&format!(
            "; budget {} skips {left} of {} valid candidates (--budget thorough or all tries more)",
            input.budget, plan.valid_candidates
        ));
    }
    if plan.done > 0 {
        text.push_str(&format!("; {} jobs were done before", plan.done));
    }
    text
}
