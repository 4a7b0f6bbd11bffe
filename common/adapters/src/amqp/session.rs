//! One connection, from its handshake to its end, with what was declared through it.

use std::collections::HashSet;
use std::fmt::Display;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::QueueDeclareOptions;
use lapin::tcp::{AsyncTcpStream, OwnedTLSConfig};
use lapin::types::FieldTable;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties, Event};
use tokio::net::lookup_host;
use tokio::time::timeout;

use crate::amqp::address::{Address, is_refusal};
use crate::amqp::fresh::Fresh;
use crate::amqp::topology::{self, Queue};
use bluefin_common::broker::{BrokerError, DEAD_QUEUE};

/// For the broker to answer to a close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// lapin announces the end of a connection; how often to look in case it does not.
const LOOK: Duration = Duration::from_millis(500);

/// An open connection.
pub(super) struct Session {
    pub(super) address: Arc<Address>,
    connection: Connection,
    socket: Socket,
    /// Channel for declarations; absent before the first and after a refusal, which closes it.
    control: tokio::sync::Mutex<Option<Channel>>,
    declared: Mutex<HashSet<String>>,
    fresh: Arc<Fresh>,
}

/// Why there is no connection.
pub(super) enum OpenError {
    /// It may stand later.
    Transient(String),
    /// Somebody has to mend credentials or virtual host first.
    Refused(String),
}

/// A second handle on a connection's socket. lapin's thread waits for a silent peer's handshake for as long as it takes;
/// shutting the socket ends it.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<SocketState>>);

#[derive(Default)]
enum SocketState {
    #[default]
    Connecting,
    Open(std::net::TcpStream),
    Shut,
}

impl Socket {
    fn opened(&self, stream: std::net::TcpStream) -> std::io::Result<()> {
        let mut state = lock(&self.0);
        if matches!(*state, SocketState::Shut) {
            return Err(std::io::Error::other("given up"));
        }
        *state = SocketState::Open(stream);
        Ok(())
    }

    fn shut(&self) {
        if let SocketState::Open(stream) = std::mem::replace(&mut *lock(&self.0), SocketState::Shut) {
            // It may be shut already, which is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Shuts the socket of a connection that did not come to stand, also when the wait for it is cancelled.
struct Pending(Option<Socket>);

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            socket.shut();
        }
    }
}

impl Session {
    /// Connects as `name`, which people see in the broker's list of connections: to the first of its addresses that answers.
    pub(super) async fn open(address: &Arc<Address>, fresh: &Arc<Fresh>, name: &str) -> Result<Self, OpenError> {
        let mut failed = Failed::default();
        for uri in address.uris() {
            let host = &uri.authority.host;
            let hosts = match timeout(address.patience(), lookup_host((host.as_str(), uri.authority.port))).await {
                Ok(Ok(hosts)) => hosts,
                Ok(Err(error)) => {
                    failed.note(host, &error);
                    continue;
                }
                Err(_) => {
                    failed.note(host, &"its name was not looked up in time");
                    continue;
                }
            };
            for host in hosts {
                let socket = Socket::default();
                let mut pending = Pending(Some(socket.clone()));
                match timeout(address.patience(), connect(uri, host, name, socket.clone())).await {
                    Ok(Ok(connection)) => {
                        pending.0 = None;
                        return Ok(Self {
                            address: Arc::clone(address),
                            connection,
                            socket,
                            control: tokio::sync::Mutex::default(),
                            declared: Mutex::default(),
                            fresh: Arc::clone(fresh),
                        });
                    }
                    Ok(Err(error)) => {
                        failed.refused |= is_refusal(&error);
                        failed.note(&host, &error);
                    }
                    Err(_) => failed.note(&host, &format!("no answer within {:?}", address.patience())),
                }
            }
        }
        Err(failed.error(address))
    }

    pub(super) fn is_open(&self) -> bool {
        self.connection.status().connected()
    }

    /// Whether the broker has said that it takes no messages for now.
    pub(super) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// Returns once the connection is broken or closed.
    pub(super) async fn ended(&self) {
        let mut events = std::pin::pin!(self.connection.events_listener());
        while self.is_open() {
            match timeout(LOOK, events.next()).await {
                Ok(None) => return,
                Ok(Some(Event::ConnectionBlocked(reason))) => {
                    tracing::warn!(broker = self.address.shown(), reason, "broker takes no messages for now");
                }
                Ok(Some(Event::ConnectionUnblocked)) => {
                    tracing::info!(broker = self.address.shown(), "broker takes messages again");
                }
                // Also an error: it may be one of a channel, such as a queue that is missing, which harms no other.
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }

    /// A channel of one's own.
    pub(super) async fn channel(&self) -> Result<Channel, BrokerError> {
        self.answer("a channel", self.connection.create_channel()).await
    }

    /// The result of a request for `what` that a broker which is well answers at once.
    pub(super) async fn answer<T>(
        &self,
        what: impl Display,
        request: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, BrokerError> {
        match timeout(self.address.patience(), request).await {
            Ok(answer) => answer.map_err(|error| self.address.failed(what, &error)),
            Err(_) => Err(self.address.silent()),
        }
    }

    /// Makes sure that `queue` and what it needs exist.
    pub(super) async fn declare(&self, queue: &Queue) -> Result<(), BrokerError> {
        let known = |name: &str| lock(&self.declared).contains(name);
        if known(queue.name.as_str()) {
            return Ok(());
        }
        let mut control = self.control.lock().await;
        if known(queue.name.as_str()) {
            return Ok(());
        }
        let channel = self.open_control(&mut control).await?;
        let declaring = async {
            if !known(DEAD_QUEUE) {
                topology::declare_base(&channel).await?;
                lock(&self.declared).insert(DEAD_QUEUE.to_owned());
            }
            if queue.name.as_str() != DEAD_QUEUE {
                queue.declare(&channel).await?;
                self.fresh.declared(queue.name.as_str());
            }
            Ok(())
        };
        match timeout(self.address.patience(), declaring).await {
            Ok(Ok(())) => {
                lock(&self.declared).insert(queue.name.to_string());
                *control = Some(channel);
                Ok(())
            }
            Ok(Err(topology::Refused { what, error })) => Err(self.address.failed(what, &error)),
            Err(_) => Err(self.address.silent()),
        }
    }

    /// What was declared is in doubt: declare it again before the next use.
    pub(super) fn forget_declared(&self) {
        lock(&self.declared).clear();
    }

    /// Messages that wait in `queue`, if it exists.
    pub(super) async fn waiting(&self, queue: &str) -> Result<Option<u64>, BrokerError> {
        let mut control = self.control.lock().await;
        let channel = self.open_control(&mut control).await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match timeout(self.address.patience(), channel.queue_declare(queue.into(), options, FieldTable::default()))
            .await
        {
            Ok(Ok(found)) => {
                *control = Some(channel);
                Ok(Some(u64::from(found.message_count())))
            }
            // The broker has closed the channel over it; the next look-up opens another.
            Ok(Err(error)) if topology::is_missing(&error) => Ok(None),
            Ok(Err(error)) => Err(self.address.failed(format!("looking at queue {queue}"), &error)),
            Err(_) => Err(self.address.silent()),
        }
    }

    /// Takes the control channel out; whoever took it puts it back if it is still good.
    async fn open_control(&self, control: &mut Option<Channel>) -> Result<Channel, BrokerError> {
        match control.take().filter(|channel| channel.status().connected()) {
            Some(channel) => Ok(channel),
            None => self.channel().await,
        }
    }

    /// Closes the connection, which the broker is told if it listens.
    pub(super) async fn close(&self) {
        // A connection that is broken or does not answer is as closed as it can be once its socket is.
        let _ = timeout(CLOSE_PATIENCE, self.connection.close(200, "closed".into())).await;
        self.socket.shut();
    }
}

async fn connect(uri: &AMQPUri, host: SocketAddr, name: &str, socket: Socket) -> lapin::Result<Connection> {
    if uri.scheme == AMQPScheme::AMQPS {
        // Whoever came first has installed one, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    // lapin's own recovery stays off. It revives a connection with its topology, but what was in flight is unknown to it
    // all the same, a channel that the broker closed stays dead, and it gives up after a number of attempts: we would
    // need everything that is here besides. A connection that ends and is replaced has one state less to get wrong.
    let properties = ConnectionProperties::default().with_connection_name(format!("bluefin {name}").into());
    Connection::connector(
        uri.clone(),
        lapin::runtime::default_runtime()?,
        async move |uri, runtime| {
            let stream = AsyncTcpStream::connect(&runtime, host).await?;
            if let AsyncTcpStream::Plain(plain) = &stream {
                let handle = plain.get_ref().as_fd().try_clone_to_owned()?;
                socket.opened(handle.into())?;
            }
            Ok(match uri.scheme {
                AMQPScheme::AMQP => stream,
                AMQPScheme::AMQPS => stream.into_tls(&uri.authority.host, OwnedTLSConfig::default().as_ref()).await?,
            })
        },
        properties,
    )
    .await
}

/// What came of the addresses that were tried.
#[derive(Default)]
struct Failed {
    reasons: Vec<String>,
    /// By one at least.
    refused: bool,
}

impl Failed {
    fn note(&mut self, host: &dyn Display, reason: &dyn Display) {
        self.reasons.push(format!("{host}: {reason}"));
    }

    fn error(self, address: &Address) -> OpenError {
        let reason = match &*self.reasons {
            [] => "the host's name has no address".to_owned(),
            reasons => address.clean(reasons.join("; ")),
        };
        if self.refused { OpenError::Refused(reason) } else { OpenError::Transient(reason) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
