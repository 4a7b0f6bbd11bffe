//! `--admin-addr` of every role: metrics, liveness and readiness while it runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bluefin_common::admin::{AdminServer, Readiness};
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::store::Store;
use bluefin_common::waiting::{Guard, On, Waiting};
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntGauge, Opts, Registry};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Between two looks at queues and connections.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where a role tells how it is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AdminArgs {
    /// Serve /metrics, /live and /ready on this address, such as 0.0.0.0:9101
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_addr: Option<SocketAddr>,
}

/// The admin server of a running role.
pub struct Admin {
    /// What the role counts in.
    pub registry: Registry,
    /// Whether it can work.
    pub readiness: Readiness,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl AdminArgs {
    /// Binds and serves, if an address was given.
    pub async fn start(&self) -> anyhow::Result<Admin> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let version =
            &[("version", env!("CARGO_PKG_VERSION"))].map(|(name, value)| (name.to_string(), value.to_string()));
        let build =
            Opts::new("bluefin_build_info", "The version that runs.").const_labels(version.iter().cloned().collect());
        let build = IntGauge::with_opts(build)?;
        build.set(1);
        registry.register(Box::new(build))?;
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
    /// store does not answer, or that waits for something, is not ready.
    pub fn watch(
        &mut self,
        pipeline: PipelineMetrics,
        (broker, store): (Arc<dyn Broker>, Arc<dyn Store>),
        waiting: Waiting,
        mut queues: Vec<String>,
    ) {
        queues.push(DEAD_QUEUE.to_string());
        let (readiness, stop) = (self.readiness.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            let mut tick = tokio::time::interval(LOOK_EVERY);
            // For what no job has asked for yet.
            let mut away: Option<Guard> = None;
            while stop.run_until_cancelled(tick.tick()).await.is_some() {
                let looked = stop.run_until_cancelled(look(&pipeline, &*broker, &*store, &queues)).await;
                away = match looked {
                    Some(Ok(())) => None,
                    Some(Err((on, error))) => Some(match away {
                        Some(guard) if guard.on() == on => {
                            guard.still(error);
                            guard
                        }
                        _ => waiting.on(on, error),
                    }),
                    None => break,
                };
                pipeline.set_waiting(&waiting);
                match waiting.reason() {
                    None => readiness.ready(),
                    Some(reason) => readiness.not_ready(reason),
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
) -> Result<(), (On, String)> {
    pipeline.set_reconnects(broker.reconnects(), store.reconnects());
    for queue in queues {
        let depth = broker.depth(queue).await.map_err(|error| (On::Broker, error.to_string()))?;
        pipeline.set_queue_depth(queue, depth);
    }
    let fullness = store.fullness().await.map_err(|error| (On::Store, error.to_string()))?;
    pipeline.set_cache_fullness(fullness.ratio);
    Ok(())
}
