//! Where the broker is, and what may be said about it: never the password.

use std::fmt::Display;
use std::net::Ipv6Addr;

use lapin::uri::{AMQPScheme, AMQPUri};

use bluefin_common::broker::BrokerError;

/// Seconds. lapin gives a peer up that is silent for twice as long.
const HEARTBEAT: u16 = 10;

/// A parsed `amqp://` or `amqps://` URL.
pub(super) struct Address {
    uri: AMQPUri,
    /// For people: without the password.
    shown: String,
    /// The password as it may appear in other people's error messages.
    secrets: Vec<String>,
}

impl Address {
    /// Parses `amqp[s]://USER:PASSWORD@HOST:PORT/VHOST`; `?heartbeat=SECONDS` and the other parameters of AMQP URLs are
    /// understood.
    pub(super) fn parse(url: &str) -> Result<Self, BrokerError> {
        // The parser's own message may hold the URL, and so the password.
        let refused = || BrokerError::Misconfigured {
            reason: format!(
                "found {} as the broker's URL, expected amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://...",
                redacted(url)
            ),
        };
        let mut uri: AMQPUri = url.parse().map_err(|_| refused())?;
        if uri.authority.host.is_empty() {
            return Err(refused());
        }
        // The parser takes an IPv6 address for an absent host, which is localhost.
        if let Some(host) = ipv6_host(url) {
            uri.authority.host = host.parse::<Ipv6Addr>().map_err(|_| refused())?.to_string();
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let secrets = [password_of(url), Some(uri.authority.userinfo.password.as_str())];
        let secrets = secrets.into_iter().flatten().filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let scheme = match uri.scheme {
            AMQPScheme::AMQP => "amqp",
            AMQPScheme::AMQPS => "amqps",
        };
        let authority = &uri.authority;
        let shown =
            format!("{scheme}://{}@{}:{}/{}", authority.userinfo.username, authority.host, authority.port, uri.vhost);
        Ok(Self { uri, shown, secrets })
    }

    pub(super) fn uri(&self) -> &AMQPUri {
        &self.uri
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) fn unavailable(&self, reason: impl Display) -> BrokerError {
        BrokerError::Unavailable { broker: self.shown.clone(), reason: self.clean(reason) }
    }

    pub(super) fn misconfigured(&self, reason: impl Display) -> BrokerError {
        BrokerError::Misconfigured { reason: format!("{}: {}", self.shown, self.clean(reason)) }
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
        for url in
            ["amqp://me:s%40cret@host:1/v", "http://me:s%40cret@host/v", "me:s%40cret@host", "amqp://me:s%40cret@[::x]"]
        {
            let text = match Address::parse(url) {
                Ok(address) => format!(
                    "{} {} {}",
                    address.shown(),
                    address.unavailable("login s@cret refused"),
                    address.misconfigured("bad s%40cret")
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
        assert_eq!(address.uri().authority.host, "2001:db8::1");
        assert_eq!(address.uri().authority.port, 5671);
        assert_eq!(address.uri().authority.userinfo.password, "word");
        assert_eq!(address.uri().vhost, "a/b");
        assert_eq!(address.uri().query.heartbeat, Some(3));
        let address = Address::parse("amqp://127.0.0.1").unwrap();
        assert_eq!(address.shown(), "amqp://guest@127.0.0.1:5672//");
        assert_eq!(address.uri().query.heartbeat, Some(HEARTBEAT));
    }

    #[test]
    fn what_is_no_amqp_url_is_refused() {
        for url in ["", "localhost", "http://localhost", "amqp://[::1", "redis://localhost", "amqp://h:99999"] {
            assert!(matches!(Address::parse(url), Err(BrokerError::Misconfigured { .. })), "{url}");
        }
    }
}
