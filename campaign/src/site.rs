//! Where campaigns are carried out: a store, a broker, an admin server, and the signal that interrupts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use bluefin_adapters::Rank;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker;
use bluefin_common::job::{CompileJob, CompileWork, EvalJob};
use bluefin_common::session::{Session, Stage};
use bluefin_common::{shutdown, wire};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::admin::{Admin, AdminArgs};
use crate::carry::Running;
use crate::ports::{FleetArgs, Opened, Ports, StoreArgs};

/// Where campaigns are carried out.
pub struct Site {
    /// Store and broker.
    pub ports: Ports,
    /// Ends the wait for a campaign.
    pub shutdown: CancellationToken,
    admin: Admin,
    opened: Opened,
    /// The workers are a fleet's; otherwise those of this process, whose queues end with it.
    fleet: bool,
    /// A campaign counts in the registry of the admin server already.
    counted: AtomicBool,
}

impl Site {
    /// The store that `store` names. The queues are those of the fleet that it names, if the workers are a `fleet`'s.
    ///
    /// # Errors
    /// If the address of the admin server is taken, the store or the broker refuses, or a signal comes before they are there.
    pub async fn open(store: &StoreArgs, fleet: bool, admin: &AdminArgs) -> anyhow::Result<Self> {
        if fleet && store.is_by_default() {
            // A file that nobody asked for is nowhere that its workers look.
            return Self::of_fleet(&store.fleet, admin).await;
        }
        let fleets = fleet.then_some(&store.fleet);
        Self::with(admin, fleets, async |shutdown| store.open_patiently(shutdown).await).await
    }

    /// The RabbitMQ and the Redis of a fleet.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn of_fleet(fleet: &FleetArgs, admin: &AdminArgs) -> anyhow::Result<Self> {
        let store = async |shutdown: &CancellationToken| Ok(Opened::of_fleet(fleet.patient_store(shutdown).await?));
        Self::with(admin, Some(fleet), store).await
    }

    async fn with(
        admin: &AdminArgs,
        fleet: Option<&FleetArgs>,
        store: impl AsyncFnOnce(&CancellationToken) -> anyhow::Result<Opened>,
    ) -> anyhow::Result<Self> {
        let (admin, shutdown) = (admin.start().await?, shutdown::on_signal()?);
        // On the heap: a caller's future would be as deep as all that is done here.
        let opened = Box::pin(store(&shutdown)).await?;
        let broker: Arc<dyn Broker> = match fleet {
            Some(fleet) => Box::pin(fleet.patient_broker(&shutdown)).await?,
            None => Arc::new(EmbeddedBroker::ranked(Rank { kin: Some(EvalJob::group_in), depth: Some(depth) })),
        };
        admin.readiness.ready();
        let ports = Ports { store: opened.store.clone(), broker };
        let (fleet, counted) = (fleet.is_some(), AtomicBool::new(false));
        Ok(Self { ports, shutdown, admin, opened, fleet, counted })
    }

    /// Whether the workers are a fleet's.
    pub fn is_fleet(&self) -> bool {
        self.fleet
    }

    /// The state file.
    ///
    /// # Errors
    /// If the store is none.
    pub fn file(&self) -> anyhow::Result<&Arc<SqliteStore>> {
        self.opened.file.as_ref().context("the store is no state file")
    }

    /// What is forgotten and remembered of a state file whose queues end with this process.
    pub(crate) fn own_file(&self) -> Option<&SqliteStore> {
        self.opened.file.as_deref().filter(|_| !self.fleet)
    }

    /// Where a campaign counts: its workers register what they count, and those of a second campaign are others.
    pub(crate) fn registry(&self) -> Registry {
        if self.counted.swap(true, Ordering::Relaxed) { Registry::new() } else { self.admin.registry.clone() }
    }

    /// A session that is carried out here, without workers yet.
    pub(crate) fn running(&self, session: &Session, registry: &Registry) -> anyhow::Result<Running> {
        Running::new(&self.ports, session, registry, &self.shutdown)
    }

    /// Ends in order.
    pub async fn close(self) {
        self.ports.broker.close().await;
        self.opened.close().await;
        self.admin.stop().await;
    }
}

/// How far the problem of a job is: a play-off ends it, and rounds of its search go before first rounds of others, so that compilers and devices are
/// never without work and problems end one after the other.
fn depth(body: &[u8]) -> u32 {
    if let Ok(CompileJob { job, work, .. }) = wire::decode(body) {
        return match work {
            CompileWork::Candidates => job.round,
            CompileWork::NextRound => job.round.saturating_add(1),
        };
    }
    let Ok(EvalJob { job, .. }) = wire::decode(body) else { return 0 };
    if job.stage == Stage::Find { u32::MAX } else { job.round }
}
