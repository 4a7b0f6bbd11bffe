//! Which server is the primary: sentinels say it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisConnectionInfo, RedisError,
    RedisResult, cmd,
};

use super::address::{Sentinels, redacted};
use super::remedy::{codes, said};

/// A sentinel that has not answered by then is passed over.
const ANSWER: Duration = Duration::from_secs(1);

/// Sentinels, asked in turn, the one that answered last first.
pub(super) struct Watch {
    sentinels: Sentinels,
    first: AtomicUsize,
}

impl Watch {
    pub fn new(sentinels: Sentinels) -> Self {
        Self { sentinels, first: AtomicUsize::new(0) }
    }

    /// A connection to the server that is the primary now.
    pub async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        let all = &self.sentinels.each;
        let first = self.first.load(Ordering::Relaxed);
        let mut failure: Option<RedisError> = None;
        for (at, sentinel) in all.iter().enumerate().cycle().skip(first).take(all.len()) {
            match self.primary(sentinel).await {
                Ok((host, port)) => {
                    self.first.store(at, Ordering::Relaxed);
                    return self.connect_to(host, port, config).await;
                }
                // What a sentinel says tells more than that another one is silent.
                Err(error) if failure.is_none() || error.kind() != ErrorKind::Io => failure = Some(error),
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| (ErrorKind::EmptySentinelList, "no sentinels").into()))
    }

    /// Host and port of the primary, as `sentinel` knows it.
    async fn primary(&self, sentinel: &ConnectionInfo) -> RedisResult<(String, u16)> {
        let anonymous = self.ask(sentinel, RedisConnectionInfo::default()).await;
        let answer = match &anonymous {
            Err(error) if codes(error).iter().any(|code| code == "NOAUTH") => {
                self.ask(sentinel, self.sentinels.login.clone()).await
            }
            _ => anonymous,
        };
        answer?.ok_or_else(|| {
            let name = self.sentinels.primary.clone();
            (ErrorKind::MasterNameNotFoundBySentinel, "the sentinels know no primary of this name", name).into()
        })
    }

    async fn ask(&self, sentinel: &ConnectionInfo, login: RedisConnectionInfo) -> RedisResult<Option<(String, u16)>> {
        let named = |error: RedisError| match error.kind() {
            ErrorKind::Io => {
                io::Error::other(format!("sentinel {}: {}", redacted(sentinel.addr(), 0), said(&error))).into()
            }
            _ => error,
        };
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(ANSWER)).set_response_timeout(Some(ANSWER));
        let client = Client::open(sentinel.clone().set_redis_settings(login))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(named)?;
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.sentinels.primary);
        question.query_async(&mut connection).await.map_err(named)
    }

    /// A sentinel that was cut off names a server that is the primary no more; the server itself knows it sooner.
    async fn connect_to(
        &self,
        host: String,
        port: u16,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let mut address = self.sentinels.template.addr().clone();
        if let ConnectionAddr::Tcp(at_host, at_port) | ConnectionAddr::TcpTls { host: at_host, port: at_port, .. } =
            &mut address
        {
            (*at_host, *at_port) = (host, port);
        }
        let server = redacted(&address, self.sentinels.template.redis_settings().db());
        let client = Client::open(self.sentinels.template.clone().set_addr(address))?;
        let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
        // ROLE says the same, to administrators alone.
        let role: String = cmd("INFO").arg("replication").query_async(&mut connection).await?;
        if !role.contains("role:master") {
            return Err(io::Error::other(format!("{server} is no primary, though a sentinel says so")).into());
        }
        tracing::debug!(server, "primary");
        Ok(connection)
    }
}
