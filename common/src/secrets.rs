//! Secrets of the fleet: the variables that hold them are not handed down to processes that run what others wrote, and the words
//! of such processes are cleaned of them before they get into an outcome or a log.

use std::env;

/// The variables that hold addresses with passwords.
pub const VARIABLES: [&str; 3] = ["BLUEFIN_AMQP_URL", "BLUEFIN_REDIS_URL", "BLUEFIN_CACHE_URL"];

/// What takes the place of a secret.
const HIDDEN: &str = "***";

/// Shorter values are words of any text.
const SHORTEST: usize = 8;

/// `text` without the values of [`VARIABLES`] that this process has, and without passwords in addresses.
#[must_use]
pub fn scrub(text: &str) -> String {
    let own = VARIABLES.iter().filter_map(|name| env::var(name).ok());
    scrub_of(text, own)
}

fn scrub_of(text: &str, own: impl Iterator<Item = String>) -> String {
    let mut text = text.to_string();
    for value in own.filter(|value| value.len() >= SHORTEST) {
        if text.contains(&value) {
            text = text.replace(&value, HIDDEN);
        }
    }
    without_passwords(&text)
}

/// `scheme://user:password@host` as `scheme://user:***@host`, and `scheme://token@host` as `scheme://***@host`.
fn without_passwords(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'')).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                if let Some((user, _)) = user.split_once(':') {
                    out.push_str(user);
                    out.push(':');
                }
                out.push_str(HIDDEN);
                out.push('@');
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        let own = ["redis://:hunter2@cache:6379/1".to_string(), "x".to_string()];
        let text =
            "lost amqp://me:hunter2@host:5672/x, redis://host, redis://:hunter2@cache:6379/1 and \"http://key@a\" at x";
        assert_eq!(
            scrub_of(text, own.into_iter()),
            "lost amqp://me:***@host:5672/x, redis://host, *** and \"http://***@a\" at x"
        );
        assert_eq!(without_passwords("redis://:a:b@c:d@host/0"), "redis://:***@host/0");
        assert_eq!(without_passwords("no address: a@b, c://"), "no address: a@b, c://");
    }
}
