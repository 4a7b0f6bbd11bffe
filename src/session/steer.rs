//! `bluefin session pause|resume|cancel|unpin`: what is to become of a session's jobs, wherever they are.

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use bluefin_campaign::known::known;
use bluefin_campaign::ports::Opened;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::parked;
use bluefin_common::priority::{self, Priority};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shutdown;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::Store;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways};
use bluefin_producer::request::{reconcile, requests};
use bluefin_terminal::out;
use prometheus::Registry;
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

/// The session of that name.
pub async fn find(store: &dyn Store, name: &SessionName) -> anyhow::Result<Session> {
    let found = store.session(name).await?;
    found.ok_or_else(|| anyhow!("session {name}: there is none of that name"))
}

/// The session of that name, or all where none is named.
pub async fn named_or_all(store: &dyn Store, name: Option<&SessionName>) -> anyhow::Result<Vec<Session>> {
    match name {
        Some(name) => Ok(vec![find(store, name).await?]),
        None => Ok(store.sessions().await?),
    }
}

impl Which {
    pub async fn pause(self) -> anyhow::Result<ExitCode> {
        self.steer(async |store, _| {
            match standing::of(store, &self.name).await? {
                Standing::Cancelled | Standing::Deleted => bail!("session {}: it is cancelled", self.name),
                Standing::Resuming => bail!(
                    "session {0}: not all of what was dropped is published again: bluefin session resume {0}",
                    self.name
                ),
                Standing::Running | Standing::Paused => {}
            }
            standing::set(store, &self.name, Standing::Paused).await?;
            Ok(Done { standing: Standing::Paused, published: None })
        })
        .await
    }

    pub async fn cancel(self) -> anyhow::Result<ExitCode> {
        self.steer(async |store, _| {
            standing::set(store, &self.name, Standing::Cancelled).await?;
            parked::drop_all(store, &self.name).await?;
            Ok(Done { standing: Standing::Cancelled, published: None })
        })
        .await
    }

    pub async fn resume(self, priority: Option<Priority>) -> anyhow::Result<ExitCode> {
        self.steer(async |store, shutdown| {
            // Before anything is written: without a broker nothing of it can be done.
            let broker =
                if self.store.in_file() { None } else { Some(self.store.fleet.patient_broker(shutdown).await?) };
            if let Some(priority) = priority {
                priority::prioritize(store, &self.name, priority).await?;
            }
            let was = standing::of(store, &self.name).await?;
            // Queues of a state file end with the process that works on it, and the next one plans what is left.
            let Some(broker) = broker else {
                standing::set(store, &self.name, Standing::Running).await?;
                return Ok(Done { standing: Standing::Running, published: None });
            };
            let published = match was {
                Standing::Cancelled | Standing::Resuming => {
                    let session = find(store, &self.name).await?;
                    let metrics = Metrics::register(&Registry::new())?;
                    let ways = Ways { store, broker: &*broker, metrics: &metrics, publish: Publish::Unfinished };
                    // Until all is published again, so that whoever dies amid it is repeated.
                    standing::set(store, &self.name, Standing::Resuming).await?;
                    let asked = !requests(store, &self.name).await?.is_empty();
                    let nothing = store.groups(&self.name).await?.is_empty();
                    let plans = if asked || !nothing {
                        reconcile(&ways, &known().planners(), &session).await?
                    } else {
                        Vec::new()
                    };
                    standing::set(store, &self.name, Standing::Running).await?;
                    plans.iter().map(|plan| plan.enqueued).sum()
                }
                Standing::Running | Standing::Paused | Standing::Deleted => {
                    // First, so that nobody parks what nobody would look for.
                    standing::set(store, &self.name, Standing::Running).await?;
                    parked::publish(store, &*broker, &self.name).await?
                }
            };
            broker.close().await;
            Ok(Done { standing: Standing::Running, published: Some(published) })
        })
        .await
    }

    /// Does `work` on a session that is there.
    async fn steer(
        &self,
        work: impl AsyncFnOnce(&dyn Store, &CancellationToken) -> anyhow::Result<Done>,
    ) -> anyhow::Result<ExitCode> {
        let shutdown = shutdown::on_signal()?;
        let steered = async {
            let opened: Opened = self.store.open_patiently(&shutdown).await?;
            let store = &*opened.store;
            let done = match find(store, &self.name).await {
                Ok(_) if standing::of(store, &self.name).await? == Standing::Deleted => {
                    Err(anyhow!("session {0}: it is being deleted: bluefin session delete {0}", self.name))
                }
                Ok(_) => work(store, &shutdown).await,
                Err(error) => Err(error),
            };
            opened.close().await;
            done
        };
        let Some(done) = shutdown.run_until_cancelled(steered).await else {
            return Ok(crate::interrupted());
        };
        done?.print(&self.name, self.json)
    }
}

/// What came of it.
struct Done {
    standing: Standing,
    /// Messages that were put into queues.
    published: Option<u64>,
}

impl Done {
    fn print(&self, name: &SessionName, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            out::json(&json!({ "session": name, "standing": self.standing, "published": self.published }))?;
        } else {
            let more = self.published.map_or_else(String::new, |jobs| format!(", {jobs} jobs published"));
            out::line(format_args!("session {name}: {}{more}", self.standing.name()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Take pins off a session, so that workers of another compiler, driver or device may do its jobs
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin session unpin nightly device.gfx90a-104\n  bluefin session unpin nightly\n\n\
    bluefin session show names the pins. Workers that were refused look again within 10 s, and those that were not go on; results of \
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

/// What a session's maker notes with it.
pub const NOTES: [&str; 4] = ["rocm", "miopen", "docker", "ticket"];

impl UnpinArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let unpinned = self.unpin(&*opened.store).await;
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

    async fn unpin(&self, store: &dyn Store) -> anyhow::Result<Vec<(String, String)>> {
        let session = find(store, &self.name).await?;
        let mut pins = store.pins(&session.name).await?;
        match &self.pin {
            Some(pin) if !pins.contains_key(pin) => {
                let known = pins.into_keys().collect::<Vec<_>>().join(", ");
                bail!("session {}: pin: found {pin:?}, expected one of: {known}", self.name);
            }
            Some(pin) => pins.retain(|key, _| key == pin),
            None => pins.retain(|key, _| !NOTES.contains(&key.as_str())),
        }
        let keys: Vec<String> = pins.keys().cloned().collect();
        store.unpin(&session.name, &keys).await?;
        Ok(pins.into_iter().collect())
    }
}
