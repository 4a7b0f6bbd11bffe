//! `bluefin run`: a campaign from a plan file, from problems to databases.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::plan_file::PlanFile;
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::site::Site;
use bluefin_campaign::whole::{Steps, Whole};
use bluefin_common::session::Session;
use bluefin_terminal::failed;
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;
use serde_json::{Value, json};

use crate::enqueue::complain;

/// Run a whole campaign from a plan file: import, session, solvers, applicability, enqueue, wait, export, check
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin run examples/plan.toml --dry-run\n  bluefin run plan.toml\n\n\
    Each step may be repeated: after an interrupt or a failure the same command continues. With a fleet (--amqp and --redis, \
    or BLUEFIN_AMQP_URL and BLUEFIN_REDIS_URL) its workers do the work; without one, this process does.")]
pub struct RunArgs {
    /// The plan, in TOML
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl RunArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plan = PlanFile::read(&self.plan)?;
        let fleet = self.store.fleet.names_a_broker() && !plan.waits_locally();
        let steps = plan.steps()?;
        if self.dry_run {
            return self.describe(&steps);
        }
        take(steps, &self.store, fleet, &self.admin, self.json).await
    }

    /// The steps as they would be done.
    fn describe(&self, steps: &Steps) -> anyhow::Result<ExitCode> {
        let steps = steps.described();
        if self.json {
            let steps: Vec<Value> = steps.iter().map(|(step, what)| json!({ "step": step, "does": what })).collect();
            out::json(&steps)?;
        } else {
            for (step, what) in steps {
                out::line(format_args!("{step:<14} {what}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Takes `steps` where `store` says, by the workers of a `fleet` or of this process, and says what each did.
pub async fn take(
    steps: Steps,
    store: &StoreArgs,
    fleet: bool,
    admin: &AdminArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let site = Site::open(store, fleet, admin).await?;
    let mut display = Display::new(complain);
    let taken = taken(&site, steps, store, &mut display).await;
    site.close().await;
    let code = taken?;
    if json {
        out::json(&display.report)?;
    }
    Ok(code)
}

async fn taken(site: &Site, steps: Steps, place: &StoreArgs, display: &mut Display<'_>) -> anyhow::Result<ExitCode> {
    match site.take(steps, display).await? {
        Whole::Nothing => Ok(ExitCode::FAILURE),
        Whole::Interrupted => Ok(crate::interrupted()),
        Whole::Done { session, fine } => {
            say_failed(site, &session, place).await?;
            Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Says what failed, and how to see why.
async fn say_failed(site: &Site, session: &Session, place: &StoreArgs) -> anyhow::Result<()> {
    let store = &*site.ports.store;
    let by_result = store.progress(&session.name).await?.candidates;
    if by_result.keys().all(|result| ["timed", "pruned"].contains(&result.as_str())) {
        return Ok(());
    }
    failed::say(store, session, &store.groups(&session.name).await?, place).await
}
