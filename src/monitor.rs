//! `bluefin monitor`: what waits and how far sessions are, for Prometheus, also while there is no worker.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::fleet::monitor::{Gauges, Mender};
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::shutdown;
use bluefin_common::waiting::Waiting;
use humantime::parse_duration;

/// Serve queues and sessions as metrics, until stopped
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin monitor --admin-addr 0.0.0.0:9100\n\n\
    One for a fleet. It needs no worker: a fleet can be scaled from nothing by what it says.")]
pub struct MonitorArgs {
    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    every: Duration,
    /// Publish the jobs of a session again that has work left, nothing in its queues, no worker at work on it and no new outcome for
    /// this long: broker or store have lost something; 0s: never. While a worker is at work on it, not before 4 hours
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    mend_after: Duration,
    /// Delete a queue and declare it again that is there in name alone, and publish its jobs: a session of it that has work left
    /// had no new outcome for this long, and for as long again the queue did nothing while others did; 0s: never
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    renew_after: Duration,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl MonitorArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.admin.admin_addr.is_none() {
            return Err(crate::usage("--admin-addr HOST:PORT: not given; what would serve the metrics?"));
        }
        let shutdown = shutdown::on_signal()?;
        let admin = self.admin.start().await?;
        let gauges = Gauges::register(&admin.registry)?;
        let Some((broker, store)) = self.fleet.once_there(&shutdown).await? else {
            admin.stop().await;
            return Ok(ExitCode::SUCCESS);
        };
        let waiting = Waiting::default();
        let mut mender = Mender::new((&*broker, &*store), (self.mend_after, self.renew_after), &admin.registry)?;
        let mut away = None;
        let mut tick = tokio::time::interval(self.every);
        while shutdown.run_until_cancelled(tick.tick()).await.is_some() {
            let Some(looked) = shutdown.run_until_cancelled(gauges.look(&*broker, &*store)).await else { break };
            match looked {
                Ok(seen) => {
                    away = None;
                    if shutdown.run_until_cancelled(mender.mend(&seen)).await.is_none() {
                        break;
                    }
                }
                // The one before is over only when the next has begun, so that it goes on if it is the same.
                Err((on, error)) => away = Some(waiting.on(on, error)),
            }
            gauges.set_waiting(&waiting);
            match waiting.reason() {
                None => admin.readiness.ready(),
                Some(reason) => admin.readiness.not_ready(reason),
            }
        }
        drop(away);
        broker.close().await;
        admin.stop().await;
        Ok(ExitCode::SUCCESS)
    }
}
