//! `bluefin reconcile`: publishes again what a session lost.

use std::process::ExitCode;

use bluefin_campaign::fleet::steer::find;
use bluefin_campaign::known::known;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::session::SessionName;
use bluefin_common::shutdown;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways};
use bluefin_producer::request::reconcile;
use bluefin_terminal::out;
use prometheus::Registry;

/// Publish all jobs of a session that have no outcome again, and take up groups that nobody advanced: after a store or a broker
/// lost what it had
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin reconcile --session nightly\n\n\
    It needs no input: what was asked of a session is kept with it. A job that is in a queue nevertheless is done once. \
    bluefin monitor does the same by itself for sessions that stand still.")]
pub struct ReconcileArgs {
    /// Name of the session
    #[arg(long, value_name = "NAME")]
    session: SessionName,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl ReconcileArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let shutdown = shutdown::on_signal()?;
        let work = async {
            let store = self.fleet.patient_store(&shutdown).await?;
            let broker = self.fleet.patient_broker(&shutdown).await?;
            let session = find(&*store, &self.session).await?;
            let metrics = Metrics::register(&Registry::new())?;
            let ways = Ways { store: &*store, broker: &*broker, metrics: &metrics, publish: Publish::Unfinished };
            let plans = reconcile(&ways, &known().planners(), &session).await?;
            broker.close().await;
            if self.json {
                out::json(&plans)?;
            } else {
                for plan in &plans {
                    out::line(plan.sentence())?;
                }
            }
            Ok(ExitCode::SUCCESS)
        };
        match shutdown.run_until_cancelled(work).await {
            Some(result) => result,
            None => Ok(crate::interrupted()),
        }
    }
}
