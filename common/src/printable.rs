//! What strangers say, made fit to be printed: in a terminal, a log or a page. Words of compilers and of users may hold what
//! commands a terminal, or turns the order of a line around so that it reads as another one.

use std::borrow::Cow;

/// `text` on one line: whatever is not to be printed stands there as its escape.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable)
}

/// The same for what may have more than one line, and tabs.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t') && is_unprintable(c))
}

/// Takes a text of a user's that is to be shown again.
///
/// # Errors
/// If a character of it is not to be printed.
pub fn parse_printable(text: &str) -> Result<String, String> {
    match text.chars().find(|c| is_unprintable(*c)) {
        Some(found) => Err(format!("found the character {}, expected printable ones", found.escape_unicode())),
        None => Ok(text.to_string()),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return text.into();
    }
    let escape = |c: char| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Controls, and what decides the direction in which others are shown.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_a_terminal() {
        assert_eq!(printable("a\x1b]0;title\x07\r\n\u{9b}31m\tb"), "a\\u{1b}]0;title\\u{7}\\r\\n\\u{9b}31m\\tb");
        assert_eq!(printable_lines("x.c:1:\terror\n\x1b[2J\u{202e}"), "x.c:1:\terror\n\\u{1b}[2J\\u{202e}");
        assert!(matches!(printable("Größe ± 1 µs"), Cow::Borrowed("Größe ± 1 µs")));
        assert_eq!(parse_printable("\x1b").unwrap_err(), "found the character \\u{1b}, expected printable ones");
        assert_eq!(parse_printable("release 6.4").unwrap(), "release 6.4");
    }
}
