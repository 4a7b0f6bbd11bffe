//! One connection to one Redis, made anew when it breaks.
//!
//! A call is tried again until it is answered or its time is up, which is safe because everything that is sent here may be
//! done twice. Errors and logs name the server without its user and password.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisError, RedisResult, Script, ServerErrorKind,
};
use tokio::sync::RwLock;
use tokio::time::{sleep, timeout};

use bluefin_common::store::StoreError;

/// A connection attempt takes no longer.
const CONNECT: Duration = Duration::from_secs(3);

/// Pauses between attempts double from the first to the last of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(800));

/// Commands that wait to be written to the socket; more wait in their callers.
const WAITING: usize = 1024;

/// What is sent in one go.
#[derive(Clone, Copy)]
pub(super) enum Request<'a> {
    Command(&'a Cmd),
    Pipeline(&'a Pipeline),
    /// The command invokes the script, which the server may not have.
    Script(&'a Script, &'a Cmd),
}

/// A connection that many tasks share; their commands travel together.
pub(super) struct Link {
    /// `redis://host:port/db`
    server: String,
    client: Client,
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

/// What an error asks for.
enum Remedy {
    /// Another connection.
    Reconnect,
    /// The same again, later.
    Wait,
    /// Nothing now, but the call may succeed later.
    GiveUp,
    /// A person.
    Refuse,
}

impl Link {
    /// A link that connects with its first call.
    pub fn new(url: &str, patience: Duration, reconnects: Arc<AtomicU64>) -> Result<Self, StoreError> {
        let refuse = |error: RedisError| StoreError::Misconfigured { reason: format!("redis url: {error}") };
        let info = url.into_connection_info().map_err(refuse)?;
        let server = redacted(info.addr(), info.redis_settings().db());
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).map_err(refuse)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(patience))
            .set_pipeline_buffer_size(WAITING);
        Ok(Self { server, client, config, patience, current: RwLock::default(), reconnects })
    }

    /// The server without user and password.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends `request` until it is answered.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when there is no answer in time or the server can not do it now,
    /// [`StoreError::Misconfigured`] when it never will.
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
                    Remedy::GiveUp => return Err(self.unavailable(error.to_string())),
                    Remedy::Refuse => return Err(self.refused(&error)),
                }
                last = Some(error.to_string());
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
            Request::Script(script, command) => invoke(script, command, &mut connection).await,
        };
        if let Err(error) = &answer
            && matches!(remedy(error), Remedy::Reconnect)
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
        let connection = self.client.get_multiplexed_async_connection_with_config(&self.config).await?;
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
        StoreError::Misconfigured { reason: format!("{}: {error}", self.server) }
    }
}

/// A server that was restarted has forgotten its scripts.
async fn invoke<T: FromRedisValue>(
    script: &Script,
    command: &Cmd,
    connection: &mut MultiplexedConnection,
) -> RedisResult<T> {
    match command.query_async(connection).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            script.load_async(connection).await?;
            command.query_async(connection).await
        }
        answer => answer,
    }
}

fn redacted(address: &ConnectionAddr, db: i64) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}/{db}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}/{db}"),
        ConnectionAddr::Unix(path) => format!("unix://{}?db={db}", path.display()),
        _ => "redis".to_string(),
    }
}

fn remedy(error: &RedisError) -> Remedy {
    match error.kind() {
        // After bytes that are no reply, the next reply can not be found in the stream.
        ErrorKind::Io | ErrorKind::Parse => Remedy::Reconnect,
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown => Remedy::Wait,
            // A primary that was demoted: its name may already lead to the next one.
            ServerErrorKind::ReadOnly => Remedy::Reconnect,
            _ if is_short_of_room(error) => Remedy::GiveUp,
            _ => Remedy::Refuse,
        },
        _ if is_short_of_room(error) => Remedy::GiveUp,
        _ => Remedy::Refuse,
    }
}

/// `OOM`: `maxmemory` is reached. `MISCONF`: the disk is full or fails. `NOREPLICAS`, `BUSY`: as they say. Before Redis 7 the
/// code of an error inside a script is part of its text.
fn is_short_of_room(error: &RedisError) -> bool {
    const CODES: [&str; 4] = ["OOM", "MISCONF", "NOREPLICAS", "BUSY"];
    let in_text = |text: &str| CODES.iter().any(|code| text.contains(&format!("-{code} ")));
    error.clone().into_server_errors().is_some_and(|errors| {
        errors.iter().any(|(_, error)| CODES.contains(&error.code()) || error.details().is_some_and(in_text))
    })
}
