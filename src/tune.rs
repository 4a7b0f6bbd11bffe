//! `bluefin tune`: all four roles in one process, from a file of problems to databases.

mod miopen;
mod part;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::config;
use bluefin_campaign::given_back;
use bluefin_campaign::known::known;
use bluefin_campaign::listing::Listing;
use bluefin_campaign::machine::local::{Compilers, LocalDevice, OPEN_FILES};
use bluefin_campaign::order::{CarriedOut, End, Order, Workers};
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::session::tuners;
use bluefin_campaign::site::Site;
use bluefin_campaign::timed::{self, TimeLimit};
use bluefin_common::clock::now_ms;
use bluefin_common::digest::{self, Digest};
use bluefin_common::job::GroupId;
use bluefin_common::limits;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::retry::{self, Remeasure};
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::spelled::{counted, human};
use bluefin_common::store::Sessions as _;
use bluefin_common::target::Target;
use bluefin_exporter::summary::{newest, summaries};
use bluefin_exporter::{ExportRequest, WhichSpecs, export};
use bluefin_producer::plan::Asked;
use bluefin_terminal::listing::{self, ListArgs};
use bluefin_terminal::progress::Display;
use bluefin_terminal::sheet::TableArgs;
use bluefin_terminal::{budget, closing, failed, out, winners};
use clap::ValueEnum;

use crate::export as export_verb;
use crate::input::{Input, InputArgs};
use crate::workers::ConditionsArgs;

/// Tune problems on this machine, with nothing installed, and write the databases
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin tune examples/resnet50.txt\n  \
    bluefin tune model.log --batchsize 1,8 --direction F --budget thorough\n  \
    bluefin tune --kernel my_kernel.toml --size n=1000000 --size n=4000000\n  \
    bluefin tune model.log --tuner miopendriver                 (MIOpen's own solvers, for MIOpen's databases)\n  \
    bluefin tune other.txt --from out/winners.json              (begin with what won before; it is measured like all others)\n  \
    bluefin tune examples/resnet50.txt --device gfx942 --list   (how many candidates there are, and nothing else)\n  \
    bluefin tune examples/resnet50.txt --remeasure              (what was timed while the machine was busy)\n  \
    bluefin tune examples/resnet50.txt --device sm_90-132 --state s.db --stage compile   (where clang is)\n  \
    bluefin tune --state s.db --stage eval                                               (where the GPU is)\n  \
    bluefin tune --state s.db --stage export                                             (anywhere)\n\n\
    Ctrl-C loses nothing: the same command continues. What was tuned before is not tuned again.")]
pub struct TuneArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Search for so long, such as 10m, instead of as far as a budget goes: after the first round of every problem the next is that of the problem that is
    /// expected to gain most, times how often the files ask for it. Then play-offs follow
    #[arg(long, visible_alias = "for", value_name = "TIME", conflicts_with_all = ["budget", "list", "remeasure"], value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// Devices to tune for, all of one target: host (the CPU), gpu, or indices, UUIDs or a target as `bluefin devices` shows;
    /// with --list and --stage compile also a GPU that is not here, by its target or its name: h100, mi300x [default: that of bluefin.toml, else
    /// gpu where there is one, else host]
    #[arg(long, alias = "target", value_name = "DEVICE")]
    device: Option<String>,
    /// Whose solvers are tuned: kernels (bluefin's own, which MIOpen does not have, and yours), or MIOpen's through its tools: fin, miopendriver
    #[arg(long, value_parser = tuners(), default_value = "kernels", hide_possible_values = true)]
    tuner: Method,
    /// Where the work is kept
    #[arg(long, value_name = "FILE", default_value_os_t = config::state())]
    state: PathBuf,
    /// Folder for the databases; made if need be
    #[arg(short, long, visible_alias = "output", value_name = "DIR", default_value = "out")]
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
    #[command(flatten)]
    conditions: ConditionsArgs,
    /// Measure problems again, with what was compiled: those whose winner's time is in doubt because the machine was busy (noisy), or all
    #[arg(long, value_name = "NOISY|ALL", num_args = 0..=1, default_missing_value = "noisy", ignore_case = true, conflicts_with = "stage")]
    remeasure: Option<Again>,
    #[command(flatten)]
    listing: ListArgs,
    #[command(flatten)]
    table: TableArgs,
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

/// Which problems are measured again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Again {
    /// Those whose winner's time is in doubt
    Noisy,
    /// All that are named
    All,
}

impl From<Again> for Remeasure {
    fn from(again: Again) -> Self {
        match again {
            Again::Noisy => Self::Noisy,
            Again::All => Self::All,
        }
    }
}

impl TuneArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.listing.list {
            return self.list().await;
        }
        limits::expect_open_files(OPEN_FILES)?;
        if (self.search.is_given() || self.time.is_some()) && (self.tuner != Method::KERNELS || self.stage.is_some()) {
            return Err(crate::usage(
                "--search, --patience and --time plan each round from what the one before came to, on the device, and among candidates of kernel specs: \
                 not with --tuner or --stage",
            ));
        }
        if self.search.from.is_some()
            && (self.tuner != Method::KERNELS || matches!(self.stage, Some(Part::Eval | Part::Export)))
        {
            return Err(crate::usage(
                "--from begins searches of kernel specs where they are planned: not with --tuner, nor with --stage eval or export",
            ));
        }
        if self.tuner != Method::KERNELS {
            return self.with_miopen().await;
        }
        if let Some(part) = self.stage {
            return self.run_part(part).await;
        }
        let device = self.local_device().await?;
        let input = self.input.read(&device.target)?;
        for reject in &input.rejects {
            say!("rejected: {reject}");
        }
        if input.problems.is_empty() {
            anyhow::bail!("no problem to tune in what was named");
        }
        // Before an hour of tuning, not after it.
        can_write(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        let site = Site::open(&self.store(), false, &self.admin).await?;
        let result = self.tune(&site, input, device).await;
        site.close().await;
        result
    }

    /// The candidates that would be tried.
    async fn list(&self) -> anyhow::Result<ExitCode> {
        if self.tuner != Method::KERNELS {
            return Err(crate::usage(format!(
                "--list is of tuning spaces of kernel specs: which of MIOpen's solvers apply, and what they try, --tuner {} alone knows",
                self.tuner
            )));
        }
        if matches!(self.stage, Some(Part::Eval | Part::Export)) {
            return Err(crate::usage("--list: --stage eval and --stage export plan no candidates"));
        }
        let target = bluefin_campaign::listing::target(self.device.as_deref())?;
        let Input { problems, specs, rejects, .. } = self.input.read(&target)?;
        self.search.lists_no_priors()?;
        let session = self.session(&target, "", None)?;
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        listing::print(&Listing::of(&session, problems, &asked, rejects).await?, self.json)
    }

    /// The session for `target` that `versions` shape.
    fn session(&self, target: &Target, versions: &str, priors: Option<Digest>) -> anyhow::Result<Session> {
        // What is compiled elsewhere is planned before anything is known.
        let search = if self.stage.is_none() { self.search.plan()? } else { None };
        let name = match &self.session {
            Some(name) => name.clone(),
            // Results of another compiler, CPU, search or beginning are another session, so that nothing stale is taken for tuned.
            None => {
                let (search, priors) =
                    (search.as_ref().map(|plan| format!("{plan:?}")), priors.map(|blob| blob.to_string()));
                let said = search.as_deref().into_iter().chain(priors.as_deref());
                let shaped = [versions].into_iter().chain(said).map(str::as_bytes);
                let shaped = Digest::of_parts(digest::VERSIONS, shaped);
                format!("tune-{target}-{}", &shaped.short()[..8]).parse()?
            }
        };
        let plain = Session::of_kernels(name, target.clone(), "bluefin tune", &Stage::ALL, now_ms());
        Ok(Session { search, priors, ..plain })
    }

    /// A session that is there goes on as it began, unless something else is said.
    async fn as_stored(&self, site: &Site, session: Session) -> anyhow::Result<Session> {
        let stored = site.file()?.session(&session.name).await?;
        let Some(stored) = stored else { return Ok(session) };
        let search = if self.search.is_given() { session.search } else { stored.search };
        let priors = if self.search.from.is_some() { session.priors } else { stored.priors };
        Ok(Session { search, priors, ..session })
    }

    async fn tune(&self, site: &Site, input: Input, device: LocalDevice) -> anyhow::Result<ExitCode> {
        let compilers = Compilers::probe(&input.specs.toolchains_for(&input.problems), self.compile_slots)
            .await?
            .all_for(&device.target)?;
        let versions = format!("{}\n{}", compilers.versions(), device.versions());
        let priors = self.search.priors(&*site.ports.store, &device.target, None).await?;
        let session = self.session(&device.target, &versions, priors)?;
        let session = self.as_stored(site, session).await?;
        if self.time.is_some() {
            timed::check(&session).map_err(crate::usage)?;
        }
        if let Some(again) = self.remeasure {
            self.take_back(site, &session, &input.problems, again).await?;
        }
        let started = Instant::now();
        let Input { problems, specs, rejects, counts } = input;
        let weights = counts.into_iter().map(|(problem, count)| (problem, count as f64)).collect();
        let in_use: HashSet<Digest> = specs.of(session.method).map(|spec| spec.digest).collect();
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        let time = self.time.map(|time| TimeLimit { time, weights });
        let order = Order { rejects, time, ..Order::of(session.clone(), problems, &asked) };
        let is_for_want_of_a_gpu = self.device.is_none() && device.target == Target::Host;
        let mut display = self.display(&session);
        let CarriedOut { plan, end, bought } =
            site.carry_out(order, Workers::Device(compilers, device), &mut display).await?;
        match end {
            End::Interrupted => return Ok(crate::interrupted()),
            // What is in --out is of problems that were tuned: it stays.
            End::Nothing if self.json => {
                out::json(&serde_json::json!({ "plan": plan, "problems": [], "export": null }))?;
                return Ok(ExitCode::FAILURE);
            }
            End::Nothing => {
                if is_for_want_of_a_gpu {
                    say!(
                        "it was planned for the CPU, as no GPU was found: `bluefin devices` says why; `bluefin check` needs none"
                    );
                }
                return Ok(ExitCode::FAILURE);
            }
            End::DoneBefore => say!("nothing to do: everything was tuned before"),
            End::Complete(utilisation) => {
                say!("tuned in {}{}", human(started.elapsed()), utilisation.unwrap_or_default());
            }
        }
        bought.iter().for_each(|stretch| say!("{stretch}"));
        let mut result = serde_json::json!({ "plan": plan });
        if self.time.is_some() {
            result = out::joined(result, serde_json::json!({ "bought": bought }));
        }
        let found = self.export(site, &session, &plan.groups, in_use, result).await?;
        Ok(if found && plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Says what the budget leaves out, and what else is not tuned.
    fn display(&self, session: &Session) -> Display<'_> {
        let search = session.search.clone();
        let candidates = search.as_ref().map(|plan| match plan.candidates {
            0 => self.input.budget.candidates(),
            candidates => candidates,
        });
        let display = Display::new(move |plan| {
            say!("{}", budget::planned(plan, self.input.budget, search.as_ref(), self.time));
            plan.left_out().iter().for_each(|line| say!("{line}"));
        });
        let display = display.that_ends_after(self.time);
        match candidates {
            Some(candidates) => display.with_budget(candidates),
            None => display,
        }
    }

    /// What `--device` names.
    async fn local_device(&self) -> anyhow::Result<LocalDevice> {
        let limits = self.conditions.limits();
        LocalDevice::chosen(self.device.as_deref(), limits, |note| say!("{note}")).await
    }

    /// Where the work is kept.
    fn store(&self) -> StoreArgs {
        StoreArgs { state: Some(self.state.clone()), ..StoreArgs::default() }
    }

    /// Takes back what is to be measured again, so that it is missing.
    async fn take_back(
        &self,
        site: &Site,
        session: &Session,
        problems: &[Problem],
        again: Again,
    ) -> anyhow::Result<()> {
        let Some(known) = site.ports.store.session(&session.name).await? else { return Ok(()) };
        let named: HashSet<&Problem> = problems.iter().collect();
        let (problems, _) = retry::take_back_measured(&*site.ports.store, &known, false, again.into(), |problem| {
            named.contains(problem)
        })
        .await?;
        say!("measured again: {problems} of the problems");
        Ok(())
    }

    /// Writes the databases and prints the winners. Returns whether every problem has one and nothing is missing.
    async fn export(
        &self,
        site: &Site,
        session: &Session,
        groups: &[GroupId],
        in_use: HashSet<Digest>,
        result: serde_json::Value,
    ) -> anyhow::Result<bool> {
        let store = &*site.ports.store;
        let specs = WhichSpecs::Current(in_use);
        let request =
            ExportRequest { specs, formats: known().formats.chosen(&[]), ..ExportRequest::all(self.out.clone()) };
        let exported = export(store, &session.name, &request).await?;
        let summaries = newest(summaries(store, session, groups).await?);
        if self.json {
            out::json(&out::joined(result, serde_json::json!({ "problems": summaries, "export": exported })))?;
        } else if self.table.csv {
            self.table.print(&winners::sheet(&summaries, self.table.columns()))?;
        } else {
            self.table.print(&winners::sheet(&summaries, self.table.columns()))?;
            out::prose(closing::lines(&summaries, &self.state, &session.name))?;
            export_verb::print_report(&exported)?;
        }
        if let Some(said) = given_back::write(&self.input.triton, &self.out)? {
            say!("{said}");
        }
        if summaries.iter().any(|summary| !summary.failed.is_empty()) {
            failed::say(store, session, groups, &self.store()).await?;
        }
        let untuned = summaries.iter().filter(|summary| summary.nothing_tuned && summary.winner.is_some()).count();
        if untuned > 0 {
            say!(
                "{}: every candidate of the tunable solvers failed; the winner has no params",
                counted(untuned, "problem")
            );
        }
        Ok(untuned == 0 && summaries.iter().all(|summary| summary.winner.is_some()) && exported.warnings.is_empty())
    }
}

/// Makes `folder` if need be, and a file in it that is gone at once.
fn can_write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".bluefin-{}.tmp", std::process::id()));
    std::fs::File::create(&probe)?;
    std::fs::remove_file(&probe)
}
