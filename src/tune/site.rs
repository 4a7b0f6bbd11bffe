//! Where a run works: its state file, queues that end with it, and what may interrupt it.

use std::path::Path;
use std::sync::Arc;

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::admin::Admin;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::carry::Campaign;
use bluefin_campaign::ports::Ports;
use bluefin_common::session::Session;
use bluefin_common::shutdown;
use tokio_util::sync::CancellationToken;

pub struct Site {
    pub sqlite: Arc<SqliteStore>,
    /// The same file, and the queues.
    pub ports: Ports,
    pub admin: Admin,
    shutdown: CancellationToken,
}

impl Site {
    /// Opens the state file, or makes it.
    pub async fn open(state: &Path, admin: &AdminArgs) -> anyhow::Result<Self> {
        let sqlite = Arc::new(SqliteStore::open(state).await?);
        let ports = Ports { store: sqlite.clone(), broker: Arc::new(EmbeddedBroker::new()) };
        let shutdown = shutdown::on_signal()?;
        let admin = admin.start().await?;
        admin.readiness.ready();
        Ok(Self { sqlite, ports, admin, shutdown })
    }

    /// Carries out `session` here, until a signal interrupts it.
    pub fn campaign(&self, session: &Session) -> anyhow::Result<Campaign> {
        Campaign::new(&self.ports, session, &self.admin.registry, &self.shutdown)
    }

    /// Ends in order.
    pub async fn close(self) {
        self.admin.stop().await;
        self.ports.broker.close().await;
        self.sqlite.close().await;
    }
}
