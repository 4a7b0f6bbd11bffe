//! Colour, for people: where they look at a terminal and have not set `NO_COLOR` (no-color.org), or as `--color` says.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Whether there is colour wherever this process prints, if somebody has said so.
static WANTED: OnceLock<bool> = OnceLock::new();

/// Says once whether there is colour, whatever this process prints to.
pub fn choose(wanted: bool) {
    let _ = WANTED.set(wanted);
}

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Went well.
    Good,
    /// Went wrong, and somebody should look.
    Bad,
    /// Stands, until somebody does something or time passes.
    Waits,
    /// Not what one looks for.
    Aside,
}

impl Tone {
    /// As parameters of the terminal's escape sequence (ECMA-48, SGR).
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Waits => "33",
            Self::Aside => "2",
        }
    }
}

/// Whether `stream` is written in colour.
pub fn on(stream: &impl IsTerminal) -> bool {
    let by_itself = || stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    WANTED.get().copied().unwrap_or_else(by_itself)
}

/// A line on standard output, without its end.
pub fn line(text: &str, tone: Tone) -> String {
    if on(&std::io::stdout()) { painted(text, tone) } else { text.to_string() }
}

/// `text` in the colour of `tone`, also where standard output is no terminal.
pub fn painted(text: &str, tone: Tone) -> String {
    format!("\x1b[{}m{text}\x1b[0m", tone.code())
}
/// What `arguments` ask for before they are parsed, for what the parser says of them.
#[must_use]
pub fn asked(arguments: &[OsString]) -> clap::ColorChoice {
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let value = words.iter().zip(words.iter().skip(1).chain([&""])).find_map(|(word, next)| match *word {
        "--color" => Some(*next),
        word => word.strip_prefix("--color="),
    });
    match value {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}
