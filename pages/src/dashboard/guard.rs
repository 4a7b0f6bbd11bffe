//! Who may look: requests for a name of this machine, from browsers that know the token where there is one. And what a browser may do
//! with an answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use maud::html;

use crate::page::{Page, policy};

const COOKIE: &str = "bluefin_dashboard";
/// Of the cookie that stands for a token: a program that reads it does not know the token.
const CONTEXT: &str = "bluefin 2026 dashboard cookie";
/// Bytes of what a form may say.
const FORM: usize = 4096;

/// What a person that looks has to know. Never shown.
#[derive(Clone)]
pub struct Token {
    hash: blake3::Hash,
    cookie: blake3::Hash,
}

impl Token {
    /// `None` if it could be guessed: shorter than 16 characters, or with others than visible ones.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_fine = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_fine.then(|| Self {
            hash: blake3::hash(text.as_bytes()),
            cookie: blake3::Hash::from_bytes(blake3::derive_key(CONTEXT, text.as_bytes())),
        })
    }

    /// Hashes are compared, and in constant time.
    fn is(&self, text: &str) -> bool {
        blake3::hash(text.as_bytes()) == self.hash
    }

    fn is_cookie(&self, text: &str) -> bool {
        blake3::Hash::from_hex(text).is_ok_and(|cookie| cookie == self.cookie)
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let mut cookies = text(header::COOKIE).into_iter().flat_map(|all| all.split(';'));
        bearer.is_some_and(|token| self.is(token))
            || cookies.any(|one| {
                one.trim().split_once('=').is_some_and(|(name, value)| name == COOKIE && self.is_cookie(value))
            })
    }
}

/// Names that the dashboard answers to: another one is of somebody who made his name point here, to read with a browser of this
/// machine what he can not reach.
#[derive(Clone, Debug)]
pub struct Hosts {
    loopback: bool,
    names: Vec<String>,
}

impl Hosts {
    /// Those of what is bound, and `names` beside.
    #[must_use]
    pub fn new(address: SocketAddr, names: Vec<String>) -> Self {
        Self { loopback: address.ip().is_loopback(), names }
    }

    fn has(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        if name.eq_ignore_ascii_case("localhost") || self.names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return true;
        }
        // No name points elsewhere where there is none.
        name.parse::<IpAddr>().is_ok_and(|ip| !self.loopback || ip.is_loopback())
    }
}

struct Guard {
    hosts: Hosts,
    token: Option<Token>,
}

/// `router`, guarded, with a page to say the token on.
pub fn guarded(router: Router, hosts: Hosts, token: Option<Token>) -> Router {
    let guard = Arc::new(Guard { hosts, token });
    let login = get(|| async { ask(false) }).post(login).with_state(Arc::clone(&guard));
    router.route_service("/login", login).layer(from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_login = request.uri().path() == "/login";
    let mut response = if !guard.hosts.has(host) {
        (StatusCode::MISDIRECTED_REQUEST, "this is no name of the dashboard: --host NAME makes it one\n")
            .into_response()
    } else if !is_login && guard.token.as_ref().is_some_and(|token| !token.admits(request.headers())) {
        let mut response = ask(false);
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    } else {
        next.run(request).await
    };
    let form = if is_login || response.status() == StatusCode::UNAUTHORIZED { "'self'" } else { "'none'" };
    let policy = format!(
        "{}; frame-ancestors 'none'",
        policy(true).replace("form-action 'none'", &format!("form-action {form}"))
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn ask(again: bool) -> Response {
    let content = html! {
        h1 { "Token" }
        @if again { p.bad role="alert" { "That is not the token." } }
        form method="post" action="/login" {
            p { label { "Token of the dashboard " input type="password" name="token" required autocomplete="current-password"; } }
            p { button { "Look" } }
        }
    };
    // The header says what forms may do.
    let page = Page { title: "bluefin: token", links: &[], live: false, content }.html();
    Html(page.replacen("form-action &#39;none&#39;", "form-action &#39;self&#39;", 1).replacen(
        "form-action 'none'",
        "form-action 'self'",
        1,
    ))
    .into_response()
}

async fn login(State(guard): State<Arc<Guard>>, body: Bytes) -> Response {
    let said = form_urlencoded::parse(body.get(..FORM.min(body.len())).unwrap_or_default());
    let said = said.into_iter().find(|(name, _)| name == "token").map(|(_, value)| value.into_owned());
    let known = guard.token.as_ref().zip(said).filter(|(token, said)| token.is(said));
    let Some((token, _)) = known else {
        let mut response = ask(true);
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        return response;
    };
    let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", token.cookie.to_hex());
    (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_string())]).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let local = Hosts::new(([127, 0, 0, 1], 8080).into(), Vec::new());
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080"] {
            assert!(local.has(host), "{host}");
        }
        for host in ["", "evil.example:8080", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert!(!local.has(host), "{host}");
        }
        let wide = Hosts::new(([0, 0, 0, 0], 8080).into(), vec!["tuner".to_string()]);
        assert!(wide.has("10.0.0.1:8080") && wide.has("tuner:8080") && !wide.has("evil.example"));
    }

    #[test]
    fn the_token_is_asked_for_in_either_way() {
        let token = Token::new("0123456789abcdef").unwrap();
        let with = |name: HeaderName, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        assert!(token.admits(&with(header::AUTHORIZATION, "Bearer 0123456789abcdef")));
        assert!(token.admits(&with(header::COOKIE, &format!("a=b; {COOKIE}={}", token.cookie.to_hex()))));
        for (name, value) in [
            (header::AUTHORIZATION, "Bearer 0123456789abcdeF".to_string()),
            (header::COOKIE, format!("{COOKIE}=0123456789abcdef")),
            (header::COOKIE, format!("{COOKIE}={}", token.hash.to_hex())),
        ] {
            assert!(!token.admits(&with(name, &value)), "{value}");
        }
        assert!(!token.admits(&HeaderMap::new()));
        assert!(Token::new("short").is_none() && Token::new("with a blank in it").is_none());
    }
}
