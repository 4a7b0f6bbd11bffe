//! `--admin-addr` of every role: metrics, liveness and readiness while it runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bluefin_common::admin::{AdminServer, Readiness};
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::store::Store;
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Between two looks at queues and connections.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, clap::Args)]
pub struct AdminArgs {
    /// Serve /metrics, /live and /ready on this address, such as 0.0.0.0:9101
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_addr: Option<SocketAddr>,
}

/// The admin server of a running role.
pub struct Admin {
    pub registry: Registry,
    pub readiness: Readiness,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl AdminArgs {
    /// Binds and serves, if an address was given.
    pub async fn start(&self) -> anyhow::Result<Admin> {
        let registry = Registry::new();
        let readiness = Readiness::default();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some(address) = self.admin_addr {
            let server = AdminServer::bind(address, registry.clone(), readiness.clone())
                .await
                .with_context(|| format!("--admin-addr {address}"))?;
            tracing::info!(address = %server.address()?, "serving /metrics, /live and /ready");
            let stop = stop.clone();
            tasks.spawn(async move {
                if let Err(error) = server.serve(stop).await {
                    tracing::error!(%error, "the admin server ended");
                }
            });
        }
        Ok(Admin { registry, readiness, tasks, stop })
    }
}

impl Admin {
    /// Keeps the gauges of queues, connections and the cache up to date, and readiness with them: a worker whose broker or
    /// store does not answer is not ready.
    pub fn watch(
        &mut self,
        pipeline: PipelineMetrics,
        broker: Arc<dyn Broker>,
        store: Arc<dyn Store>,
        mut queues: Vec<String>,
    ) {
        queues.push(DEAD_QUEUE.to_string());
        let (readiness, stop) = (self.readiness.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            let mut tick = tokio::time::interval(LOOK_EVERY);
            while stop.run_until_cancelled(tick.tick()).await.is_some() {
                let looked = stop.run_until_cancelled(look(&pipeline, &*broker, &*store, &queues)).await;
                match looked {
                    Some(Ok(())) => readiness.ready(),
                    Some(Err(error)) => readiness.not_ready(error.to_string()),
                    None => break,
                }
            }
        });
    }

    /// Stops serving and waits for it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn look(
    pipeline: &PipelineMetrics,
    broker: &dyn Broker,
    store: &dyn Store,
    queues: &[String],
) -> anyhow::Result<()> {
    pipeline.set_reconnects(broker.reconnects(), store.reconnects());
    for queue in queues {
        pipeline.set_queue_depth(queue, broker.depth(queue).await?);
    }
    pipeline.set_cache_fullness(store.fullness().await?.ratio);
    Ok(())
}
