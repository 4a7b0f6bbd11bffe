//! What kind of line a line is.

use bluefin_common::problem::Direction;

use super::MAX_LINE;
use bluefin_common::problem::driver::is_base_word;

/// The program whose commands are read.
pub(crate) const DRIVER: &str = "MIOpenDriver";
/// How every line of MIOpen's own log begins, after the process and thread where they are logged.
pub(crate) const LOG_MARK: &str = "MIOpen(";

/// A line that is neither blank nor a comment.
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub number: usize,
    /// As it stands in the input, without its end.
    pub bytes: &'a [u8],
    pub content: Content<'a>,
}

/// What a line holds.
pub(crate) enum Content<'a> {
    /// The words from the base word on.
    Command {
        command: &'a str,
        /// The direction that the words before the command tell.
        implied: Option<Direction>,
    },
    /// A find-db key.
    Key(&'a str),
    /// A perf-db key in the text form.
    PerfKey(&'a str),
    /// An item of a YAML list of GEMM sizes.
    GemmSize(&'a str),
    /// A JSON object.
    Object(&'a str),
    /// Noise of a log.
    Skipped,
    /// None of this, and why.
    Wrong(String),
}

/// The lines of a text. In a log, lines that hold no command are noise: a training run prints what it likes between
/// MIOpen's lines. In any other file they are wrong.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let split = move || text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let is_log = split().any(is_log_line);
    split().enumerate().flat_map(move |(index, bytes)| {
        let first = content(bytes, is_log);
        let is_command = matches!(first, Some(Content::Command { .. }));
        let further = if is_command { further_commands(bytes) } else { Vec::new() };
        first.into_iter().chain(further).map(move |content| Line { number: index + 1, bytes, content })
    })
}

/// The commands of a line behind its first: `cd bin; ./MIOpenDriver conv ... && ./MIOpenDriver conv ...`.
fn further_commands(line: &[u8]) -> Vec<Content<'_>> {
    let line = std::str::from_utf8(line).unwrap_or_default().trim();
    let mut further = Vec::new();
    let mut rest = split_command(line).map(|(_, _, rest)| rest);
    // What stands behind a comment's mark is no command.
    while let Some((prefix, command, behind)) = rest.filter(|rest| !rest.starts_with('#')).and_then(split_command) {
        further.push(Content::Command { command, implied: implied_direction(prefix) });
        rest = Some(behind);
    }
    further
}

/// Whether MIOpen's logger wrote a line: the mark comes first, or after the process and thread.
fn is_log_line(line: &[u8]) -> bool {
    let head = line.get(..64).unwrap_or(line);
    let mut words = head.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = words.by_ref().take(3).find(|word| !word.iter().all(u8::is_ascii_digit));
    first.is_some_and(|word| word.starts_with(LOG_MARK.as_bytes()))
}

/// What a text holds that is a line of no log.
pub(super) fn content_of(text: &str) -> Option<Content<'_>> {
    content(text.as_bytes(), false)
}

/// `None` for blank lines and comments.
fn content(bytes: &[u8], is_log: bool) -> Option<Content<'_>> {
    if bytes.len() > MAX_LINE {
        return Some(Content::Wrong(format!("found {} bytes, expected at most {MAX_LINE}", bytes.len())));
    }
    let line = match std::str::from_utf8(bytes) {
        Ok(line) => line.trim(),
        Err(error) => return Some(Content::Wrong(format!("not UTF-8 at byte {}", error.valid_up_to() + 1))),
    };
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    if let Some((prefix, command)) = driver_command(line) {
        return Some(Content::Command { command, implied: implied_direction(prefix) });
    }
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    if is_base_word(first) {
        return Some(Content::Command { command: line, implied: None });
    }
    if line.starts_with("- {") {
        return Some(Content::GemmSize(line));
    }
    // Values of find databases may hold spaces, keys never do.
    let key = line.split_once('=').map_or(line, |(key, _)| key);
    if key.starts_with(|c: char| c.is_ascii_digit()) && !key.contains(char::is_whitespace) {
        if key.contains('-') {
            return Some(Content::Key(key));
        }
        if key.contains('x') {
            return Some(Content::PerfKey(key));
        }
    }
    if is_log {
        return Some(Content::Skipped);
    }
    if line.starts_with('{') {
        return Some(Content::Object(line));
    }
    Some(Content::Wrong("found neither a driver command nor a key of a database".to_string()))
}

/// Splits a line at the name of the driver: what stands before it, and its arguments.
pub(crate) fn driver_command(line: &str) -> Option<(&str, &str)> {
    split_command(line).map(|(prefix, command, _)| (prefix, command))
}

/// The same, and what stands behind the arguments.
fn split_command(line: &str) -> Option<(&str, &str, &str)> {
    let (prefix, rest) = line.split_once(DRIVER)?;
    let rest = rest.strip_prefix(".exe").unwrap_or(rest);
    // The driver itself says `MIOpenDriver: conv ...`; a shell may be given its path in quotes.
    let quoted = |quote: &char| prefix.contains(*quote) && rest.starts_with(*quote);
    let rest = match ['"', '\''].into_iter().find(quoted) {
        Some(quote) => rest.strip_prefix(quote).unwrap_or(rest),
        None => rest.strip_prefix(':').unwrap_or(rest),
    };
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let command = without_shell(rest);
    Some((prefix, command.trim(), rest.get(command.len()..).unwrap_or_default().trim_start()))
}

/// A command up to where a shell would see its end: a quote or bracket that was opened before it, a pipe, a redirection, another
/// command, a comment, or a line that goes on. None of these is part of a flag or a value; `&` alone is, as `-&`.
fn without_shell(command: &str) -> &str {
    let marks = ['"', '\'', '`', ';', '|', '<', '>', '\\', ')', ']', '}'];
    let (mut kept, rest) = command.split_at(command.find(marks).unwrap_or(command.len()));
    if rest.starts_with(['<', '>']) {
        // The number of what is redirected.
        kept = kept.trim_end_matches(|c: char| c.is_ascii_digit());
    }
    let words = kept.split_inclusive(|c: char| c.is_ascii_whitespace());
    let end = words.take_while(|word| !word.starts_with(['&', '#'])).map(str::len).sum();
    kept.get(..end).unwrap_or(kept)
}

/// Old releases logged `miopenConvolutionBackwardData: ./bin/MIOpenDriver conv ...` without `-F`. For the driver that
/// means all directions, but the application called one of them, and the function's name says which.
pub(crate) fn implied_direction(prefix: &str) -> Option<Direction> {
    [
        ("ConvolutionForward", Direction::Forward),
        ("ConvolutionBackwardData", Direction::BackwardData),
        ("ConvolutionBackwardWeights", Direction::BackwardWeights),
    ]
    .into_iter()
    .find_map(|(name, direction)| prefix.contains(name).then_some(direction))
}
