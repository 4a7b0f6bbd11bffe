//! Erlang that a broker evaluates itself, by `control.erl` in it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::wait_until;

/// What the broker evaluates when it starts, in its folder.
pub(crate) const PROGRAM: &str = include_str!("control.erl");
/// Its name there.
pub(crate) const FILE: &str = "control.erl";
const SOCKET: &str = "control";
const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(60);

/// The value of `expressions`, one line that ends with a full stop, in the broker whose folder is `folder`.
///
/// # Panics
/// When they have no value, or nobody answers.
pub(crate) fn evaluate(folder: &Path, expressions: &str) -> String {
    let opened = File::open(folder).unwrap_or_else(|error| panic!("cannot open {}: {error}", folder.display()));
    // By way of a descriptor: the name of a socket may not be as long as that of a folder.
    let socket = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    let mut connected = None;
    wait_until(START, "the broker to evaluate Erlang", || {
        connected = UnixStream::connect(&socket).ok();
        connected.is_some()
    });
    let mut answer = String::new();
    let asked = connected.ok_or(std::io::ErrorKind::NotConnected.into()).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER))?;
        writeln!(stream, "{expressions}")?;
        BufReader::new(stream).read_line(&mut answer)
    });
    assert!(asked.is_ok(), "the broker in {} was asked for {expressions}: {asked:?}", folder.display());
    let value = answer.trim_end().strip_prefix("{value,").and_then(|rest| rest.strip_suffix('}'));
    value.unwrap_or_else(|| panic!("the broker in {} says to {expressions} {answer}", folder.display())).to_string()
}
