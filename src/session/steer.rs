//! `bluefin session pause|resume|cancel|unpin`: what is to become of a session's jobs, wherever they are.

use std::process::ExitCode;

use anyhow::anyhow;
use bluefin_campaign::fleet::steer::{self, find};
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::priority::Priority;
use bluefin_common::session::SessionName;
use bluefin_common::shutdown;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::Store;
use bluefin_terminal::out;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A session, and where it is.
#[derive(Clone, Debug, clap::Args)]
pub struct Which {
    #[arg(value_name = "NAME")]
    pub name: SessionName,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl Which {
    pub async fn pause(self) -> anyhow::Result<ExitCode> {
        self.steer(async |store, _| {
            steer::pause(store, &self.name).await?;
            Ok(None)
        })
        .await
    }

    pub async fn cancel(self) -> anyhow::Result<ExitCode> {
        self.steer(async |store, _| {
            steer::cancel(store, &self.name).await?;
            Ok(None)
        })
        .await
    }

    pub async fn resume(self, priority: Option<Priority>) -> anyhow::Result<ExitCode> {
        self.steer(async |store, shutdown| {
            // Before anything is written: without a broker nothing of it can be done.
            let broker =
                if self.store.in_file() { None } else { Some(self.store.fleet.patient_broker(shutdown).await?) };
            let published = steer::resume(store, broker.as_deref(), &self.name, priority).await?;
            if let Some(broker) = broker {
                broker.close().await;
            }
            Ok(published)
        })
        .await
    }

    /// Does `work`, which returns how many messages it put into queues, on a session that is there.
    async fn steer(
        &self,
        work: impl AsyncFnOnce(&dyn Store, &CancellationToken) -> anyhow::Result<Option<u64>>,
    ) -> anyhow::Result<ExitCode> {
        let shutdown = shutdown::on_signal()?;
        let steered = async {
            let opened = self.store.open_patiently(&shutdown).await?;
            let store = &*opened.store;
            let done = match find(store, &self.name).await {
                Ok(_) if standing::of(store, &self.name).await? == Standing::Deleted => {
                    Err(anyhow!("session {0}: it is being deleted: bluefin session delete {0}", self.name))
                }
                Ok(_) => match work(store, &shutdown).await {
                    Ok(published) => Ok((standing::of(store, &self.name).await?, published)),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            opened.close().await;
            done
        };
        let Some(done) = shutdown.run_until_cancelled(steered).await else {
            return Ok(crate::interrupted());
        };
        let (standing, published) = done?;
        if self.json {
            out::json(&json!({ "session": self.name, "standing": standing, "published": published }))?;
        } else {
            let more = published.map_or_else(String::new, |jobs| format!(", {jobs} jobs published"));
            out::line(format_args!("session {}: {}{more}", self.name, standing.name()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Take pins off a session, so that workers of another compiler, driver or device may do its jobs
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin session unpin nightly device.gfx90a-104\n  bluefin session unpin nightly\n\n\
    The pins are what bluefin session show names. Workers that were refused look again within 10 s, and those that were not go on; results of \
    both compilers or devices are then in one session, unless the latter are ended first."
)]
pub struct UnpinArgs {
    #[arg(value_name = "NAME")]
    name: SessionName,
    /// Only this one [default: all that workers pinned: toolchains, devices, protocol]
    #[arg(value_name = "PIN")]
    pin: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl UnpinArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let unpinned = steer::unpin(&*opened.store, &self.name, self.pin.as_deref()).await;
        opened.close().await;
        let unpinned = unpinned?;
        if self.json {
            out::json(&json!({ "session": self.name, "unpinned": unpinned }))?;
        } else {
            for (key, value) in &unpinned {
                out::line(format_args!("unpinned {key} = {value}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
