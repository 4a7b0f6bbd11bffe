//! Where the broker is, and what may be said about it: never the password.

use std::fmt::Display;
use std::net::Ipv6Addr;
use std::time::Duration;

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::uri::{AMQPScheme, AMQPUri};

use bluefin_common::broker::BrokerError;

/// Seconds. lapin gives a peer up that is silent for twice as long.
const HEARTBEAT: u16 = 10;

/// For a connection to stand, handshakes included; for a request to the broker that answers at once when well; and for a call
/// while the connection is down. `connection_timeout` in the URL is another.
const PATIENCE: Duration = Duration::from_secs(10);

/// A parsed `amqp://` or `amqps://` URL.
pub(super) struct Address {
    /// One for each host, in their order.
    uris: Vec<AMQPUri>,
    patience: Duration,
    /// For people: without the password.
    shown: String,
    /// The password as it may appear in other people's error messages.
    secrets: Vec<String>,
}

impl Address {
    /// Parses `amqp[s]://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST`; `?heartbeat=SECONDS`, `?connection_timeout=MILLISECONDS`
    /// and the other parameters of AMQP URLs are understood.
    pub(super) fn parse(url: &str) -> Result<Self, BrokerError> {
        // The parser's own message may hold the URL, and so the password.
        let refused = || BrokerError::Misconfigured {
            reason: format!(
                "found {} as the broker's URL, expected amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://..., or several \
                 HOST:PORT with commas between",
                redacted(url)
            ),
        };
        let urls = one_for_each_host(url).ok_or_else(refused)?;
        let uris: Vec<_> = urls.iter().map(|url| uri(url)).collect::<Option<_>>().ok_or_else(refused)?;
        let first = uris.first().ok_or_else(refused)?;
        let secrets = [password_of(url), Some(first.authority.userinfo.password.as_str())];
        let secrets = secrets.into_iter().flatten().filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let scheme = match first.scheme {
            AMQPScheme::AMQP => "amqp",
            AMQPScheme::AMQPS => "amqps",
        };
        let hosts: Vec<_> = uris.iter().map(|uri| format!("{}:{}", uri.authority.host, uri.authority.port)).collect();
        let shown = format!("{scheme}://{}@{}/{}", first.authority.userinfo.username, hosts.join(","), first.vhost);
        let patience = first.query.connection_timeout.map_or(PATIENCE, Duration::from_millis);
        Ok(Self { uris, patience, shown, secrets })
    }

    /// One for each host, to be tried in this order.
    pub(super) fn uris(&self) -> &[AMQPUri] {
        &self.uris
    }

    /// For each address of a host, for each request, and for each call while there is no connection.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn unavailable(&self, reason: impl Display) -> BrokerError {
        BrokerError::Unavailable { broker: self.shown.clone(), reason: self.clean(reason) }
    }

    pub(super) fn refused(&self, reason: impl Display) -> BrokerError {
        BrokerError::Refused { broker: self.shown.clone(), reason: self.clean(reason) }
    }

    /// No answer came in time.
    pub(super) fn silent(&self) -> BrokerError {
        self.unavailable(format!("no answer within {:?}", self.patience))
    }

    /// `what` failed, as a request to the broker.
    pub(super) fn failed(&self, what: impl Display, error: &lapin::Error) -> BrokerError {
        let reason = format!("{what}: {error}");
        if is_refusal(error) { self.refused(reason) } else { self.unavailable(reason) }
    }

    /// `text` without the password. A password of one or two characters would black out half the message and is no secret.
    pub(super) fn clean(&self, text: impl Display) -> String {
        let well_known = |secret: &str| secret == "guest";
        let text = text.to_string();
        self.secrets
            .iter()
            .filter(|secret| secret.len() > 2 && !well_known(secret))
            .fold(text, |text, secret| text.replace(secret.as_str(), "***"))
    }
}

/// Whether a broker that is well says no, which somebody has to mend.
pub(super) fn is_refusal(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(
        error.kind(),
        AMQPErrorKind::Soft(
            AMQPSoftError::ACCESSREFUSED | AMQPSoftError::PRECONDITIONFAILED | AMQPSoftError::RESOURCELOCKED
        ) | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)
    )
}

fn uri(url: &str) -> Option<AMQPUri> {
    let mut uri: AMQPUri = url.parse().ok()?;
    if uri.authority.host.is_empty() {
        return None;
    }
    // The parser takes an IPv6 address for an absent host, which is localhost.
    if let Some(host) = ipv6_host(url) {
        uri.authority.host = host.parse::<Ipv6Addr>().ok()?.to_string();
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    Some(uri)
}

/// The URLs that `url` stands for if it names several hosts. A host that is left out is this machine, if it is the only one.
fn one_for_each_host(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = authority_of(url)?;
    let path = rest.strip_prefix(authority)?;
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let hosts: Vec<_> = hosts.split(',').collect();
    if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty()) {
        return None;
    }
    Some(hosts.iter().map(|host| format!("{scheme}://{user}{host}{path}")).collect())
}

/// What stands between the scheme and the path, if this looks like a URL.
fn authority_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

fn password_of(url: &str) -> Option<&str> {
    let (userinfo, _) = authority_of(url)?.rsplit_once('@')?;
    userinfo.split_once(':').map(|(_, password)| password)
}

fn ipv6_host(url: &str) -> Option<&str> {
    let authority = authority_of(url)?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.strip_prefix('[')?.split_once(']').map(|(host, _)| host)
}

/// A URL that may not even be one, without anything that could be a password.
fn redacted(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("***@{host:?}"),
        None => format!("{url:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_shown() {
        for url in [
            "amqp://me:s%40cret@host:1/v",
            "amqp://me:s%40cret@host:1,other/v",
            "http://me:s%40cret@host/v",
            "me:s%40cret@host",
            "amqp://me:s%40cret@[::x]",
        ] {
            let text = match Address::parse(url) {
                Ok(address) => format!(
                    "{} {} {}",
                    address.shown(),
                    address.unavailable("login s@cret refused"),
                    address.refused("bad s%40cret")
                ),
                Err(error) => error.to_string(),
            };
            assert!(!text.contains("cret"), "{text}");
            assert!(text.contains("host") || text.contains("::x"), "{text}");
        }
    }

    #[test]
    fn a_url_is_parsed_whole() {
        let address = Address::parse("amqps://me:word@[2001:db8::1]/a%2Fb?heartbeat=3").unwrap();
        assert_eq!(address.uris()[0].authority.host, "2001:db8::1");
        assert_eq!(address.uris()[0].authority.port, 5671);
        assert_eq!(address.uris()[0].authority.userinfo.password, "word");
        assert_eq!(address.uris()[0].vhost, "a/b");
        assert_eq!(address.uris()[0].query.heartbeat, Some(3));
        let address = Address::parse("amqp://127.0.0.1").unwrap();
        assert_eq!(address.shown(), "amqp://guest@127.0.0.1:5672//");
        assert_eq!(address.uris()[0].query.heartbeat, Some(HEARTBEAT));
    }

    #[test]
    fn several_hosts_are_one_address() {
        let address = Address::parse("amqp://me:a,b@h1:1,h2,[::1]:3/v?connection_timeout=1500").unwrap();
        assert_eq!(address.shown(), "amqp://me@h1:1,h2:5672,::1:3/v");
        assert_eq!(address.patience(), Duration::from_millis(1500));
        let found: Vec<_> =
            address.uris().iter().map(|uri| (uri.authority.host.as_str(), uri.authority.port)).collect();
        assert_eq!(found, [("h1", 1), ("h2", 5672), ("::1", 3)]);
        for uri in address.uris() {
            assert_eq!((uri.vhost.as_str(), uri.authority.userinfo.password.as_str()), ("v", "a,b"));
        }
    }

    #[test]
    fn what_is_no_amqp_url_is_refused() {
        for url in [
            "",
            "localhost",
            "http://localhost",
            "amqp://[::1",
            "redis://localhost",
            "amqp://h:99999",
            "amqp://h1,,h2/v",
            "amqp://h1,h:99999",
        ] {
            assert!(matches!(Address::parse(url), Err(BrokerError::Misconfigured { .. })), "{url}");
        }
    }
}
