//! Colour, for people: where they look at a terminal and have not set `NO_COLOR` (no-color.org), or as `--color` says.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// When there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// In files and pipes too.
    Always,
    /// Nowhere.
    Never,
}

/// Of this process. Nobody has said: [`When::Auto`].
static WHEN: OnceLock<When> = OnceLock::new();

/// Says once when there is colour in what this process prints.
pub fn choose(when: When) {
    let _ = WHEN.set(when);
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
    match WHEN.get().copied().unwrap_or_default() {
        When::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        When::Always => true,
        When::Never => false,
    }
}

/// A line on standard output, without its end.
pub fn line(text: &str, tone: Tone) -> String {
    if on(&std::io::stdout()) { painted(text, tone) } else { text.to_string() }
}

/// `text` in the colour of `tone`, also where standard output is no terminal.
pub fn painted(text: &str, tone: Tone) -> String {
    format!("\x1b[{}m{text}\x1b[0m", tone.code())
}
