//! Standard output. `println!` panics when the reader is gone, as in `bluefin status | head -1`; here it is an error, which
//! `main` takes for the reader having enough.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use bluefin_common::printable::printable_lines;
use serde::Serialize;
use serde_json::Value;

use crate::{colour, width};

/// Prints a line, or more: what strangers say in it is made printable.
pub fn line(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    let shown = if colour::on(&io::stdout()) { with_own_colours(&text) } else { printable_lines(&text) };
    writeln!(io::stdout(), "{shown}")
}

/// Prints prose: no word of it is broken where a terminal is narrow.
pub fn prose(text: impl Display) -> io::Result<()> {
    if io::stdout().is_terminal() { line(width::prose(&text.to_string(), width::of_stdout())) } else { line(text) }
}

/// Puts the cursor of a terminal home and clears it, before what is shown again and again.
pub fn clear() -> io::Result<()> {
    if io::stdout().is_terminal() { write!(io::stdout(), "\x1b[2J\x1b[H") } else { Ok(()) }
}

/// Says something on standard error, see [`say!`](crate::say).
pub fn told(text: impl Display) {
    let text = text.to_string();
    let shown = if io::stderr().is_terminal() { width::prose(&text, width::of_stderr()) } else { text };
    // Where nobody listens any more the work goes on.
    let _ = writeln!(io::stderr(), "{shown}");
}

/// Says something on standard error as `eprintln!` does: no word is broken where a terminal is narrow, and nothing ends where nobody reads.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::out::told(format_args!($($text)*)) };
}

/// The escape sequences by which [`colour`] says [`colour::Tone`]s. No other one is printed.
const OWN: [&str; 5] = ["\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

fn with_own_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return printable_lines(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, found) = rest.split_at(at);
        shown.push_str(&printable_lines(before));
        let own = OWN.iter().find(|own| found.starts_with(**own));
        let length = own.map_or('\x1b'.len_utf8(), |own| own.len());
        let (sequence, after) = found.split_at(length);
        if own.is_some() {
            shown.push_str(sequence)
        } else {
            shown.push_str(&printable_lines(sequence))
        }
        rest = after;
    }
    shown.push_str(&printable_lines(rest));
    shown.into()
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// `object` with the fields of `more`.
pub fn joined(mut object: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
    object
}

/// Whether `error` is that nobody reads standard output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::{Tone, painted};

    #[test]
    fn colours_of_our_own_are_printed_and_nothing_else_that_commands_a_terminal() {
        for tone in [Tone::Good, Tone::Bad, Tone::Waits, Tone::Aside] {
            let text = painted("done", tone);
            assert_eq!(with_own_colours(&text), text);
        }
        let hostile = "\x1b[2J\x1b]0;title\x07\x1b[8m\x1b[32mok\x1b";
        assert_eq!(with_own_colours(hostile), "\\u{1b}[2J\\u{1b}]0;title\\u{7}\\u{1b}[8m\x1b[32mok\\u{1b}");
    }
}
