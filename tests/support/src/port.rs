//! Ports for the servers of a test.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

/// Below the range that Linux takes for outgoing connections (32768 and up): a client that keeps reconnecting to a server
/// which is down would otherwise sooner or later be given that very port as its own and connect to itself.
const FIRST: u16 = 20_000;
const COUNT: u32 = 12_000;

/// The UDP twin of a port handed out stays bound until this process ends, so that no other test process is handed the
/// same port, even while the server on it is down.
static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A TCP port on which nothing listens and which no other caller of this function, in any process, is given.
pub fn free_port() -> u16 {
    let mut reserved = RESERVED.lock().expect("no caller panics while holding the lock");
    let start = std::process::id().wrapping_mul(7919) % COUNT;
    for step in 0..COUNT {
        let port = FIRST + u16::try_from((start + step) % COUNT).expect("below COUNT");
        let Ok(twin) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            reserved.push(twin);
            return port;
        }
    }
    panic!("no free port among the {COUNT} from {FIRST}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_handed_out_once() {
        let mut ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
