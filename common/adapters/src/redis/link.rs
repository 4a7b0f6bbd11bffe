//! One connection to one Redis, made anew when it breaks.
//!
//! A call is tried again until it is answered or its time is up, which is safe because everything that is sent here may be
//! done twice. Errors and logs name the server without its user and password.
//!
//! # Replicas
//!
//! Where the URL asks for replicas, `WAIT` follows each write, in the same round trip. `WAIT` looks at what its own connection
//! has written, and a call that is repeated may write nothing, because it was done before, by whomever: so [`MARK`] is written
//! in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Script, Value,
    from_redis_value,
};
use tokio::sync::RwLock;
use tokio::time::{sleep, timeout};

use super::address::{Address, Servers};
use super::keys::MARK;
use super::remedy::{Remedy, codes, remedy, said};
use super::sentinel::Watch;
use bluefin_common::store::StoreError;

/// A connection attempt takes no longer.
const CONNECT: Duration = Duration::from_secs(3);

/// Pauses between attempts double from the first to the last of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(800));

/// The part of its time that a call waits for replicas.
const REPLICATION: u32 = 5;

/// Commands that wait to be written to the socket; more wait in their callers.
const WAITING: usize = 1024;

/// What is sent in one go.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    Command(&'a Cmd),
    Pipeline(&'a Pipeline),
    /// The command invokes the script, which the server may not have.
    Script(&'a Script, &'a Cmd),
    /// So does the first of these.
    ScriptAndMore(&'a Script, &'a Pipeline),
}

/// A connection that many tasks share; their commands travel together.
pub(super) struct Link {
    /// The URL without user and password.
    server: String,
    source: Source,
    /// Replicas that have what is [written](Self::write).
    replicas: u32,
    config: AsyncConnectionConfig,
    /// How long a call is tried.
    patience: Duration,
    current: RwLock<Current>,
    reconnects: Arc<AtomicU64>,
}

#[derive(Default)]
struct Current {
    /// Connections made so far; tells the one that failed from the one that has replaced it.
    made: u64,
    connection: Option<MultiplexedConnection>,
}

enum Source {
    Server(Client),
    Sentinels(Watch),
}

impl Link {
    /// A link that connects with its first call.
    pub fn new(url: &str, patience: Duration, reconnects: Arc<AtomicU64>) -> Result<Self, StoreError> {
        let Address { name: server, replicas, place } = Address::parse(url)?;
        let tcp = TcpSettings::default().set_nodelay(true);
        let source = match place {
            Servers::Server(info) => Source::Server(
                Client::open(info.set_tcp_settings(tcp))
                    .map_err(|error| StoreError::Misconfigured { reason: format!("redis url: {error}") })?,
            ),
            Servers::Sentinels(mut sentinels) => {
                sentinels.template = sentinels.template.set_tcp_settings(tcp);
                Source::Sentinels(Watch::new(sentinels))
            }
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT.min(patience / 2)))
            .set_response_timeout(Some(patience))
            .set_pipeline_buffer_size(WAITING);
        Ok(Self { server, source, replicas, config, patience, current: RwLock::default(), reconnects })
    }

    /// The server without user and password.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Replicas that are waited for.
    pub fn replicas(&self) -> u32 {
        self.replicas
    }

    /// [Sends](Self::call) `request`, which stores what must last, and waits for replicas where they are asked for.
    ///
    /// # Errors
    /// Those of [`call`](Self::call), and [`StoreError::Unavailable`] when too few replicas have it in time: the call is to be
    /// repeated.
    pub async fn write<T: FromRedisValue>(&self, request: Request<'_>) -> Result<T, StoreError> {
        if self.replicas == 0 {
            return self.call(request).await;
        }
        let mut pipeline = match request {
            Request::Pipeline(pipeline) | Request::ScriptAndMore(_, pipeline) => pipeline.clone(),
            Request::Command(command) | Request::Script(_, command) => {
                let mut pipeline = redis::pipe();
                pipeline.add_command(command.clone());
                pipeline
            }
        };
        let time = self.patience / REPLICATION;
        pipeline.cmd("SET").arg(MARK).arg("").ignore();
        // At least a millisecond: none is for ever.
        pipeline.cmd("WAIT").arg(self.replicas).arg(time.as_millis().max(1) as u64);
        let mut answers: Vec<Value> = match request {
            Request::Script(script, _) | Request::ScriptAndMore(script, _) => {
                self.call(Request::ScriptAndMore(script, &pipeline)).await?
            }
            Request::Command(_) | Request::Pipeline(_) => self.call(Request::Pipeline(&pipeline)).await?,
        };
        let have: u32 = self.read(answers.pop().unwrap_or(Value::Nil))?;
        if have < self.replicas {
            // A primary that was cut off and replaced has no replicas, and does not know why.
            if matches!(self.source, Source::Sentinels(_)) {
                self.forget();
            }
            let (expected, time) = (self.replicas, humantime::format_duration(time));
            return Err(self.unavailable(format!("{have} of {expected} replicas have it after {time}")));
        }
        match request {
            Request::Pipeline(_) | Request::ScriptAndMore(..) => self.read(Value::Array(answers)),
            Request::Command(_) | Request::Script(..) => self.read(answers.pop().unwrap_or(Value::Nil)),
        }
    }

    /// Waits until replicas have what was written before, by whomever.
    pub async fn confirm(&self) -> Result<(), StoreError> {
        if self.replicas == 0 {
            return Ok(());
        }
        self.write(Request::Command(&redis::cmd("PING"))).await.map(|_: Value| ())
    }

    fn read<T: FromRedisValue>(&self, value: Value) -> Result<T, StoreError> {
        from_redis_value(value).map_err(|error| self.unavailable(error.to_string()))
    }

    /// Sends `request` until it is answered.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when there is no answer in time or the server can not do it now, [`StoreError::Refused`] when
    /// somebody has to allow it first, [`StoreError::Misconfigured`] when the URL is wrong.
    pub async fn call<T: FromRedisValue>(&self, request: Request<'_>) -> Result<T, StoreError> {
        let mut last = None;
        let attempts = async {
            let mut pauses = ExponentialBuilder::default()
                .with_min_delay(PAUSES.0)
                .with_max_delay(PAUSES.1)
                .without_max_times()
                .with_jitter()
                .build();
            loop {
                let error = match self.attempt(request).await {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                };
                match remedy(&error) {
                    Remedy::Reconnect | Remedy::Wait => {}
                    Remedy::GiveUp => return Err(self.unavailable(said(&error))),
                    Remedy::Allow | Remedy::Login => return Err(self.refused(&error)),
                    Remedy::Readdress => return Err(self.misconfigured(&error)),
                }
                last = Some(said(&error));
                sleep(pauses.next().unwrap_or(PAUSES.1)).await;
            }
        };
        if let Ok(answer) = timeout(self.patience, attempts).await {
            return answer;
        }
        let patience = humantime::format_duration(self.patience);
        self.forget();
        Err(self.unavailable(match last {
            Some(reason) => format!("tried for {patience}: {reason}"),
            None => format!("no answer within {patience}"),
        }))
    }

    async fn attempt<T: FromRedisValue>(&self, request: Request<'_>) -> RedisResult<T> {
        let (made, mut connection) = self.connection().await?;
        let answer = match request {
            Request::Command(command) => command.query_async(&mut connection).await,
            Request::Pipeline(pipeline) => pipeline.query_async(&mut connection).await,
            Request::Script(script, command) => match command.query_async(&mut connection).await {
                Err(error) if is_unknown_script(&error) => {
                    script.load_async(&mut connection).await?;
                    command.query_async(&mut connection).await
                }
                answer => answer,
            },
            Request::ScriptAndMore(script, pipeline) => match pipeline.query_async(&mut connection).await {
                Err(error) if is_unknown_script(&error) => {
                    script.load_async(&mut connection).await?;
                    pipeline.query_async(&mut connection).await
                }
                answer => answer,
            },
        };
        if let Err(error) = &answer
            && matches!(remedy(error), Remedy::Reconnect | Remedy::Login)
        {
            let mut current = self.current.write().await;
            if current.made == made {
                current.connection = None;
            }
        }
        answer
    }

    /// The connection there is, or a new one. Tasks that find none wait for the one that makes it.
    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        {
            let current = self.current.read().await;
            if let Some(connection) = &current.connection {
                return Ok((current.made, connection.clone()));
            }
        }
        let mut current = self.current.write().await;
        if let Some(connection) = &current.connection {
            return Ok((current.made, connection.clone()));
        }
        let connection = match &self.source {
            Source::Server(client) => {
                let mut connection = client.get_multiplexed_async_connection_with_config(&self.config).await?;
                // A server that wants a password says so here: in the midst of a transaction the client would lose count.
                let _: Value = redis::cmd("PING").query_async(&mut connection).await?;
                connection
            }
            Source::Sentinels(watch) => watch.connect(&self.config).await?,
        };
        if current.made > 0 {
            self.reconnects.fetch_add(1, Ordering::Relaxed);
            tracing::info!(server = self.server, "reconnected");
        }
        current.made += 1;
        current.connection = Some(connection.clone());
        Ok((current.made, connection))
    }

    /// A server that hangs may come back on its connection, but a path that swallows everything does not. Where a task is
    /// connecting at this moment, there is nothing to forget.
    fn forget(&self) {
        if let Ok(mut current) = self.current.try_write() {
            current.connection = None;
        }
    }

    pub fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Unavailable { store: self.server.clone(), reason }
    }

    fn refused(&self, error: &RedisError) -> StoreError {
        StoreError::Refused { store: self.server.clone(), reason: said(error) }
    }

    fn misconfigured(&self, error: &RedisError) -> StoreError {
        StoreError::Misconfigured { reason: format!("{}: {}", self.server, said(error)) }
    }
}

/// A server that was restarted has forgotten its scripts.
fn is_unknown_script(error: &RedisError) -> bool {
    codes(error).iter().any(|code| code == "NOSCRIPT")
}
