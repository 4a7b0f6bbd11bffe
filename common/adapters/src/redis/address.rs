//! Where a Redis is, as a URL says it.
//!
//! | URL | means |
//! | --- | --- |
//! | `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, `rediss://` with TLS | this server |
//! | `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../NAME[/DB]`, `rediss+sentinel://` | the primary NAME of these sentinels |
//!
//! `?replicas=N` behind either: a call that stores what must last returns when N replicas have it, too. User and password are
//! those of the primary; a sentinel that asks for some is shown the same. With TLS the certificate of the primary is for what
//! the sentinels call it: its IP address, or its name with `resolve-hostnames` and `announce-hostnames`.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use bluefin_common::store::StoreError;

/// Where sentinels listen.
const SENTINEL_PORT: u16 = 26379;

/// More replicas than anybody has.
const MAX_REPLICAS: u32 = 16;

/// A URL, read.
#[derive(Debug)]
pub(super) struct Address {
    /// The URL without user, password and parameters.
    pub name: String,
    /// Replicas that what must last is waited for on.
    pub replicas: u32,
    pub place: Servers,
}

#[derive(Debug)]
pub(super) enum Servers {
    Server(ConnectionInfo),
    Sentinels(Sentinels),
}

#[derive(Debug)]
pub(super) struct Sentinels {
    /// Without user and password.
    pub each: Vec<ConnectionInfo>,
    /// For those that ask for some.
    pub login: RedisConnectionInfo,
    /// What they call the primary.
    pub primary: String,
    /// How to connect to the primary, once its host and port are known.
    pub template: ConnectionInfo,
}

impl Address {
    /// # Errors
    /// [`StoreError::Misconfigured`], which does not tell the password.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (url, replicas) = split_replicas(url)?;
        if let Some((scheme, rest)) = url.split_once("+sentinel://") {
            let (name, sentinels) = sentinels(scheme, rest)?;
            return Ok(Self { name, replicas, place: Servers::Sentinels(sentinels) });
        }
        let info = info(&url)?;
        Ok(Self { name: redacted(info.addr(), info.redis_settings().db()), replicas, place: Servers::Server(info) })
    }
}

/// The URL without `replicas`, which is bluefin's own.
fn split_replicas(url: &str) -> Result<(String, u32), StoreError> {
    let (head, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let Some((base, query)) = head.split_once('?') else { return Ok((url.to_string(), 0)) };
    let mut replicas = 0;
    let mut others = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=').unwrap_or((parameter, "")) {
            ("replicas", number) => {
                replicas = number.parse().ok().filter(|number| *number <= MAX_REPLICAS).ok_or_else(|| {
                    misconfigured(format!("replicas: found {number:?}, expected a number up to {MAX_REPLICAS}"))
                })?;
            }
            _ => others.push(parameter),
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    Ok((format!("{base}{mark}{}{fragment}", others.join("&")), replicas))
}

/// What is behind `SCHEME+sentinel://`.
fn sentinels(scheme: &str, rest: &str) -> Result<(String, Sentinels), StoreError> {
    let expected = || misconfigured("expected redis+sentinel://HOST:PORT,.../NAME/DB".to_string());
    let (rest, parameters) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let (authority, path) = rest.split_once('/').ok_or_else(expected)?;
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let (primary, db) = path.split_once('/').unwrap_or((path, ""));
    if primary.is_empty() || hosts.split(',').any(str::is_empty) {
        return Err(expected());
    }
    let mut each = Vec::new();
    for host in hosts.split(',') {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
        each.push(info(&format!("{scheme}://{host}{port}/{parameters}"))?);
    }
    let host = hosts.split(',').next().unwrap_or_default();
    let template = info(&format!("{scheme}://{login}{host}/{db}{parameters}"))?;
    let db = template.redis_settings().db();
    let login = template.redis_settings().clone().set_db(0);
    let name = format!("{scheme}+sentinel://{hosts}/{primary}/{db}");
    Ok((name, Sentinels { each, login, primary: primary.to_string(), template }))
}

fn info(url: &str) -> Result<ConnectionInfo, StoreError> {
    url.into_connection_info().map_err(|error| misconfigured(error.to_string()))
}

fn misconfigured(reason: String) -> StoreError {
    StoreError::Misconfigured { reason: format!("redis url: {reason}") }
}

/// The server without user and password.
pub(super) fn redacted(address: &ConnectionAddr, db: i64) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) => format!("redis://{host}:{port}/{db}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{host}:{port}/{db}"),
        ConnectionAddr::Unix(path) => format!("unix://{}?db={db}", path.display()),
        _ => "redis".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_taken_out_of_the_url() {
        for (url, rest, replicas) in [
            ("redis://store/0", "redis://store/0", 0),
            ("redis://store/0?replicas=1", "redis://store/0", 1),
            ("rediss://store/0?protocol=3&replicas=2#insecure", "rediss://store/0?protocol=3#insecure", 2),
            ("redis://store?replicas=0&protocol=resp3", "redis://store?protocol=resp3", 0),
        ] {
            assert_eq!(split_replicas(url).unwrap(), (rest.to_string(), replicas));
        }
        for url in ["redis://store?replicas=one", "redis://store?replicas", "redis://store?replicas=17"] {
            let error = Address::parse(url).unwrap_err();
            assert!(matches!(&error, StoreError::Misconfigured { reason } if reason.contains("replicas")), "{error}");
        }
    }

    #[test]
    fn sentinels_have_ports_and_a_name_for_the_primary() {
        let address = Address::parse("redis+sentinel://me:sesame@a,b:5000,[::1]/main/3?replicas=1").unwrap();
        assert_eq!(address.name, "redis+sentinel://a,b:5000,[::1]/main/3");
        assert_eq!(address.replicas, 1);
        let Servers::Sentinels(found) = address.place else { panic!("sentinels") };
        let at: Vec<String> = found.each.iter().map(|info| redacted(info.addr(), info.redis_settings().db())).collect();
        assert_eq!(at, ["redis://a:26379/0", "redis://b:5000/0", "redis://::1:26379/0"]);
        assert!(found.each.iter().all(|info| info.redis_settings().password().is_none()));
        assert_eq!(found.primary, "main");
        assert_eq!(found.template.redis_settings().db(), 3);
        assert_eq!((found.login.username(), found.login.password(), found.login.db()), (Some("me"), Some("sesame"), 0));
        let secure = Address::parse("rediss+sentinel://a/main").unwrap();
        let Servers::Sentinels(found) = secure.place else { panic!("sentinels") };
        assert!(matches!(found.template.addr(), ConnectionAddr::TcpTls { .. }));
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        for url in [
            "redis+sentinel://me:sesame@a",
            "redis+sentinel://me:sesame@a/",
            "redis+sentinel://me:sesame@a,,b/main",
            "redis+sentinel://me:sesame@/main",
            "redis+sentinel://me:sesame@a/main/x",
            "http+sentinel://me:sesame@a/main",
            "http://me:sesame@a",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(matches!(error, StoreError::Misconfigured { .. }), "{error}");
            assert!(!error.to_string().contains("sesame"), "{error}");
        }
    }
}
