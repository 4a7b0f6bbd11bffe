//! Secrets of the fleet: the variables that hold them are not handed down to processes that run what others wrote, and the words
//! of such processes are cleaned of them before they get into an outcome or a log.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use rustix::io::{FdFlags, fcntl_setfd};

/// The variables that hold addresses with passwords, or keys.
pub const VARIABLES: [&str; 4] = ["BLUEFIN_AMQP_URL", "BLUEFIN_REDIS_URL", "BLUEFIN_CACHE_URL", "BLUEFIN_MESSAGE_KEYS"];

/// The variable by which a process learns where [`take`] has put them: `<descriptor>:<process>`.
const TAKEN_TO: &str = "BLUEFIN_SECRETS";

/// Bytes that a pipe takes before somebody reads.
const MAX_TAKEN: usize = 32 << 10;

/// The values of [`VARIABLES`], once they are out of the environment.
static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Takes [`VARIABLES`] out of the environment of this process, where other processes of its user could read them for as long as it
/// lives: it starts itself again without them, and gets them through a pipe. Call it first thing in `main`: a second time it
/// returns with them in hand.
///
/// # Errors
/// If they are on their way and can not be read.
pub fn take() -> io::Result<()> {
    let own = std::process::id().to_string();
    let taken_to = env::var(TAKEN_TO).unwrap_or_default();
    if let Some((descriptor, process)) = taken_to.split_once(':')
        && process == own
        && descriptor.parse::<u32>().is_ok()
    {
        // What stays open is a pipe with nothing in it.
        let mut text = String::new();
        File::open(format!("/proc/self/fd/{descriptor}"))?.read_to_string(&mut text)?;
        let _ = TAKEN.set(serde_json::from_str(&text)?);
        return Ok(());
    }
    let held: BTreeMap<&str, String> =
        VARIABLES.iter().filter_map(|name| Some((*name, env::var(name).ok()?))).collect();
    let text = serde_json::to_vec(&held)?;
    if !held.is_empty() && text.len() <= MAX_TAKEN && std::path::Path::new("/proc/self/fd").is_dir() {
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(&text)?;
        fcntl_setfd(&reader, FdFlags::empty())?;
        let mut arguments = env::args_os();
        let mut again = Command::new(env::current_exe()?);
        again.arg0(arguments.next().unwrap_or_else(|| OsString::from("bluefin"))).args(arguments);
        VARIABLES.iter().for_each(|name| {
            again.env_remove(name);
        });
        again.env(TAKEN_TO, format!("{}:{own}", reader.as_raw_fd()));
        // Returns only where it can not: then they stay where they are.
        let _ = again.exec();
    }
    Ok(())
}

/// The value of one of [`VARIABLES`].
///
/// # Errors
/// One that is no text.
pub fn value(name: &str) -> Result<Option<String>, env::VarError> {
    if let Some(value) = TAKEN.get().and_then(|taken| taken.get(name)) {
        return Ok(Some(value.clone()));
    }
    match env::var(name) {
        Err(env::VarError::NotPresent) => Ok(None),
        value => value.map(Some),
    }
}

/// What takes the place of a secret.
const HIDDEN: &str = "***";

/// Shorter values are words of any text.
const SHORTEST: usize = 8;

/// `text` without the values of [`VARIABLES`] that this process has, and without passwords in addresses.
#[must_use]
pub fn scrub(text: &str) -> String {
    let own = VARIABLES.iter().filter_map(|name| value(name).ok().flatten());
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
