//! Which broker and which store: RabbitMQ and Redis, from flags, the environment or a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bluefin_adapters::amqp::{AmqpBroker, MessageKeys};
use bluefin_adapters::patient::{PatientBroker, PatientStore, connected};
use bluefin_adapters::pooled::PooledBroker;
use bluefin_adapters::redis::RedisStore;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker;
use bluefin_common::job::EvalJob;
use bluefin_common::secrets;
use bluefin_common::store::Store;
use tokio_util::sync::CancellationToken;

use crate::config::{self, DEFAULT_STATE, has_password};
use crate::usage;

/// How long an artifact is kept after its last use in Redis, unless memory runs out first.
pub const ARTIFACT_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// `NAME:SECRET,...`, or `@FILE` that holds it.
const MESSAGE_KEYS: &str = "BLUEFIN_MESSAGE_KEYS";

/// Where the fleet meets.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Fleet")]
pub struct FleetArgs {
    /// RabbitMQ, as amqp://HOST:PORT/VHOST or amqps://..., or @FILE that holds it [env: BLUEFIN_AMQP_URL]. A URL with a
    /// password is only taken from the environment or a file
    #[arg(long, value_name = "URL|@FILE", value_parser = without_password)]
    pub amqp: Option<String>,
    /// Redis for what lasts, as redis://HOST:PORT/DB or rediss://..., or @FILE [env: BLUEFIN_REDIS_URL]
    #[arg(long, value_name = "URL|@FILE", value_parser = without_password)]
    pub redis: Option<String>,
    /// A second Redis for artifacts alone, which may evict them [env: BLUEFIN_CACHE_URL] [default: the first]
    #[arg(long, value_name = "URL|@FILE", value_parser = without_password)]
    pub cache: Option<String>,
}

/// `broker` for several devices of a host, which go on with the problem that they have.
#[must_use]
pub fn for_devices(broker: Arc<dyn Broker>) -> Arc<dyn Broker> {
    Arc::new(PooledBroker::new(broker, EvalJob::group_in))
}

impl FleetArgs {
    /// Whether a broker was named, by flag or in the environment.
    pub fn names_a_broker(&self) -> bool {
        self.amqp.is_some() || is_set("BLUEFIN_AMQP_URL") || config::get().fleet.amqp.is_some()
    }

    /// Whether a store was named, by flag or in the environment.
    pub fn names_a_store(&self) -> bool {
        self.redis.is_some() || is_set("BLUEFIN_REDIS_URL") || config::get().fleet.redis.is_some()
    }

    /// Connects to RabbitMQ.
    pub async fn broker(&self) -> anyhow::Result<Arc<dyn Broker>> {
        Ok(Arc::new(AmqpBroker::connect_with(&self.broker_url()?, message_keys()?).await?))
    }

    /// RabbitMQ and Redis, once they are there, for a worker: later calls return at once what goes wrong. `None` if `shutdown`
    /// comes first.
    pub async fn once_there(
        &self,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Option<(Arc<dyn Broker>, Arc<dyn Store>)>> {
        let both = async { Ok((self.broker_once_there(shutdown).await?, self.store_once_there(shutdown).await?)) };
        match shutdown.run_until_cancelled(both).await {
            // They end then as well, each with an error of its own.
            Some(Err(_)) if shutdown.is_cancelled() => Ok(None),
            both => both.transpose(),
        }
    }

    /// RabbitMQ, once it is there: `shutdown` ends the wait.
    async fn broker_once_there(&self, shutdown: &CancellationToken) -> anyhow::Result<Arc<dyn Broker>> {
        let (url, keys) = (self.broker_url()?, message_keys()?);
        let broker = connected(shutdown, || AmqpBroker::connect_with(&url, keys.clone())).await;
        Ok(Arc::new(broker.map_err(or_stopped)?))
    }

    /// RabbitMQ, which is waited for in every call, until `shutdown`.
    pub async fn patient_broker(&self, shutdown: &CancellationToken) -> anyhow::Result<Arc<dyn Broker>> {
        Ok(Arc::new(PatientBroker::new(self.broker_once_there(shutdown).await?, shutdown)))
    }

    fn broker_url(&self) -> anyhow::Result<String> {
        required("--amqp", "BLUEFIN_AMQP_URL", self.amqp.as_deref())
    }

    /// Connects to Redis.
    pub async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(self.redis_store().await?))
    }

    /// The same, for questions that only Redis answers.
    pub async fn redis_store(&self) -> anyhow::Result<RedisStore> {
        let (url, cache) = self.store_urls()?;
        Ok(RedisStore::connect(&url, cache.as_deref(), ARTIFACT_TTL).await?)
    }

    /// Redis, once it is there: `shutdown` ends the wait.
    async fn store_once_there(&self, shutdown: &CancellationToken) -> anyhow::Result<Arc<dyn Store>> {
        let (url, cache) = self.store_urls()?;
        let store = connected(shutdown, || RedisStore::connect(&url, cache.as_deref(), ARTIFACT_TTL)).await;
        Ok(Arc::new(store.map_err(or_stopped)?))
    }

    /// Redis, which is waited for in every call, until `shutdown`.
    pub async fn patient_store(&self, shutdown: &CancellationToken) -> anyhow::Result<Arc<dyn Store>> {
        Ok(Arc::new(PatientStore::new(self.store_once_there(shutdown).await?, shutdown)))
    }

    fn store_urls(&self) -> anyhow::Result<(String, Option<String>)> {
        let url = required("--redis", "BLUEFIN_REDIS_URL", self.redis.as_deref())?;
        Ok((url, url_of("--cache", "BLUEFIN_CACHE_URL", self.cache.as_deref())?))
    }
}

/// Where what lasts is kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StoreArgs {
    /// Keep it in this file [default: bluefin.db, where no Redis is named]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Where it is otherwise.
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// A store that was opened.
pub struct Opened {
    /// What was asked for.
    pub store: Arc<dyn Store>,
    pub(crate) file: Option<Arc<SqliteStore>>,
}

impl StoreArgs {
    /// Opens the file or connects to Redis.
    pub async fn open(&self) -> anyhow::Result<Opened> {
        let Some(path) = self.file() else { return self.redis().await };
        let file = Arc::new(SqliteStore::open(path).await?);
        Ok(Opened { store: file.clone(), file: Some(file) })
    }

    /// The same to read only: another process that works with the file is not disturbed, and a missing one is not made.
    pub async fn open_to_read(&self) -> anyhow::Result<Opened> {
        let Some(path) = self.file() else { return self.redis().await };
        if self.state.is_none() && !path.exists() {
            return Err(usage(format!(
                "BLUEFIN_REDIS_URL is not set, and there is no {} here: name a store with --redis, or a file with --state",
                path.display()
            )));
        }
        let file = Arc::new(SqliteStore::open_read_only(path).await?);
        Ok(Opened { store: file.clone(), file: Some(file) })
    }

    /// Opens the file, or Redis, which is waited for in every call until `shutdown`.
    pub async fn open_patiently(&self, shutdown: &CancellationToken) -> anyhow::Result<Opened> {
        match self.file() {
            Some(_) => self.open().await,
            None => Ok(Opened { store: self.fleet.patient_store(shutdown).await?, file: None }),
        }
    }

    async fn redis(&self) -> anyhow::Result<Opened> {
        Ok(Opened { store: self.fleet.store().await?, file: None })
    }

    /// Whether it is a state file, which nobody else works with and whose queues end with the process.
    pub fn in_file(&self) -> bool {
        self.file().is_some()
    }

    /// Whether nothing names a store.
    pub fn is_by_default(&self) -> bool {
        self.state.is_none() && config::get().state.is_none() && !self.fleet.names_a_store()
    }

    /// The state file, unless Redis is meant: by a flag, then by the environment, then by `bluefin.toml`, whose `state` comes before
    /// its `redis`.
    pub fn file(&self) -> Option<&Path> {
        let named = self.fleet.redis.is_some() || is_set("BLUEFIN_REDIS_URL");
        match (&self.state, &config::get().state) {
            (Some(path), _) => Some(path),
            (None, Some(path)) if !named => Some(path),
            (None, _) => (!self.fleet.names_a_store()).then_some(Path::new(DEFAULT_STATE)),
        }
    }
}

impl Opened {
    /// That of a fleet.
    pub(crate) fn of_fleet(store: Arc<dyn Store>) -> Self {
        Self { store, file: None }
    }

    /// Ends the work with a file in order.
    pub async fn close(self) {
        if let Some(file) = self.file {
            file.close().await;
        }
    }
}

/// Where the roles meet in this process.
#[derive(Clone)]
pub struct Ports {
    /// What lasts.
    pub store: Arc<dyn Store>,
    /// What carries jobs.
    pub broker: Arc<dyn Broker>,
}

/// Why a port is not there.
fn or_stopped<E: Into<anyhow::Error>>(error: Option<E>) -> anyhow::Error {
    error.map_or_else(|| anyhow::anyhow!("stopped before it was connected"), Into::into)
}

/// Whether a variable is set, also to what is no text.
fn is_set(variable: &str) -> bool {
    !matches!(secrets::value(variable), Ok(None))
}

/// What messages are signed with and have to be. From the environment alone: they are secrets.
fn message_keys() -> anyhow::Result<MessageKeys> {
    let text = url_of(MESSAGE_KEYS, MESSAGE_KEYS, None)?.filter(|text| !text.trim().is_empty());
    let keys = text.map(|text| MessageKeys::parse(&text)).transpose();
    Ok(keys.map_err(|error| usage(format!("{MESSAGE_KEYS}: {error}")))?.unwrap_or_default())
}

fn required(flag: &str, variable: &str, given: Option<&str>) -> anyhow::Result<String> {
    url_of(flag, variable, given)?
        .ok_or_else(|| usage(format!("{variable} is not set: set it, or pass {flag} URL or {flag} @FILE")))
}

fn url_of(flag: &str, variable: &str, given: Option<&str>) -> anyhow::Result<Option<String>> {
    let (source, text) = match given {
        Some(text) => (flag, text.to_string()),
        None => match secrets::value(variable) {
            Ok(Some(text)) => (variable, text),
            Ok(None) => match config::get().url(variable) {
                Some(text) => (config::NAME, text.to_string()),
                None => return Ok(None),
            },
            Err(error) => bail!("{variable}: {error}"),
        },
    };
    let Some(path) = text.strip_prefix('@') else { return Ok(Some(text)) };
    let content = std::fs::read_to_string(path).with_context(|| format!("{source}: {path}"))?;
    Ok(Some(content.trim().to_string()))
}

/// Takes a URL from the command line, where the process list shows it.
fn without_password(text: &str) -> Result<String, String> {
    if has_password(text) {
        return Err(
            "a URL with a password shows in the process list: put it into the environment or into a file, @FILE".into(),
        );
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_seen() {
        assert!(has_password("amqp://guest:guest@localhost:5672/%2f"));
        assert!(has_password("redis://:secret@localhost"));
        assert!(!has_password("redis://localhost:6379/0"));
        assert!(!has_password("amqp://guest@localhost"));
        assert!(without_password("amqp://a:b@c").is_err());
    }
}
