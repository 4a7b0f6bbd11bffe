//! A TCP proxy whose connections can be cut or frozen on demand.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::free_port;

/// Stands between a client and a server; ends with its connections when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    link: Arc<Link>,
}

#[derive(Debug, Default)]
struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// Both ends of each that is open, by the number that it had when it came.
    connections: HashMap<u64, [TcpStream; 2]>,
    admitted: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    #[default]
    Open,
    Paused,
    Cut,
    Ended,
}

impl Proxy {
    /// Listens on a free port of the loopback address and forwards every connection to `target`.
    pub fn start(target: SocketAddr) -> Self {
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
        let link = Arc::<Link>::default();
        let accepting = Arc::clone(&link);
        thread::spawn(move || accept(&listener, target, &accepting));
        Self { port, link }
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Breaks every connection, and each new one at once, until [`resume`](Self::resume).
    pub fn cut(&self) {
        self.link.set(Mode::Cut);
    }

    /// Keeps connections open, takes new ones, and lets no byte through until [`resume`](Self::resume), as a network does
    /// that drops packets.
    pub fn pause(&self) {
        self.link.set(Mode::Paused);
    }

    /// Lets bytes and new connections through again.
    pub fn resume(&self) {
        self.link.set(Mode::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.set(Mode::Ended);
        // Wakes the thread that accepts, which then ends; it has ended already if this fails.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding the lock")
    }

    fn set(&self, mode: Mode) {
        let mut state = self.lock();
        state.mode = mode;
        if matches!(mode, Mode::Cut | Mode::Ended) {
            for connection in state.connections.drain().flat_map(|(_, ends)| ends) {
                // Closed by its peer already: then it is as cut as it can be.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    /// Keeps both ends of a connection to be cut, until it is [forgotten](Self::forget) by the number that this returns; unless
    /// the link is cut now.
    fn admit(&self, ends: [TcpStream; 2]) -> Option<u64> {
        let mut state = self.lock();
        if matches!(state.mode, Mode::Cut | Mode::Ended) {
            return None;
        }
        state.admitted += 1;
        let number = state.admitted;
        state.connections.insert(number, ends);
        Some(number)
    }

    fn forget(&self, number: u64) {
        self.lock().connections.remove(&number);
    }

    /// Returns when bytes may pass, or must not any more (`false`).
    fn passable(&self) -> bool {
        let state = self.lock();
        let state = self
            .changed
            .wait_while(state, |s| s.mode == Mode::Paused)
            .expect("no thread panics while holding the lock");
        state.mode == Mode::Open
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, link: &Arc<Link>) {
    for client in listener.incoming() {
        if link.lock().mode == Mode::Ended {
            return;
        }
        let Ok(client) = client else { continue };
        let Ok(server) = TcpStream::connect(target) else { continue };
        let copy = || Ok::<_, std::io::Error>([client.try_clone()?, server.try_clone()?]);
        let (Ok([client2, server2]), Ok(kept)) = (copy(), copy()) else { continue };
        let Some(number) = link.admit(kept) else { continue };
        for (from, to) in [(client, server), (server2, client2)] {
            let link = Arc::clone(link);
            thread::spawn(move || {
                forward(from, to, &link);
                link.forget(number);
            });
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, link: &Link) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !link.passable() || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The other direction ends too: these protocols have no use for a connection that is half open.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A server that sends back what it gets.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
                });
            }
        });
        addr
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn ask(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
        stream.write_all(&[byte])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    #[test]
    fn a_cut_breaks_old_and_new_connections_until_resumed() {
        let proxy = Proxy::start(echo());
        let mut old = connect(&proxy);
        assert_eq!(ask(&mut old, 7).unwrap(), 7);
        proxy.cut();
        assert!(ask(&mut old, 8).is_err());
        assert!(ask(&mut connect(&proxy), 9).is_err());
        proxy.resume();
        assert!(ask(&mut old, 10).is_err());
        assert_eq!(ask(&mut connect(&proxy), 11).unwrap(), 11);
    }

    #[test]
    fn a_pause_delays_bytes_and_loses_none() {
        let proxy = Proxy::start(echo());
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, 1).unwrap(), 1);
        proxy.pause();
        stream.write_all(&[2]).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut answer = [0];
        assert!(stream.read_exact(&mut answer).is_err());
        proxy.resume();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [2]);
    }
}
