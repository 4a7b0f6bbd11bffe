//! A page: what is around its content, and what a browser may do with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use bluefin_common::printable::printable_lines;

use crate::style::STYLE;

/// The content security policy of every page: nothing is fetched from anywhere, and the one style is the page's own. A page that
/// is `live` has the scripts and the style of the dashboard, and asks the dashboard alone.
#[must_use]
pub fn policy(live: bool) -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let (style, live) = if live { (" 'self'", "; script-src 'self'; connect-src 'self'") } else { ("", "") };
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{hash}'{style}; base-uri 'none'; form-action 'none'{live}"
    )
}

/// A page.
pub struct Page<'a> {
    pub title: &'a str,
    /// Links above it, each to a place and with its name.
    pub links: &'a [(String, String)],
    /// Whether it shows what is so now, and asks again.
    pub live: bool,
    pub content: Markup,
}

impl Page<'_> {
    /// As HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy(self.live));
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    // Nobody asks for an icon.
                    link rel="icon" href="data:,";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                    @if self.live {
                        link rel="stylesheet" href="/uplot.css";
                        script src="/uplot.js" defer {}
                        script src="/live.js" defer {}
                    }
                }
                body {
                    a.skip href="#content" { "Skip to content" }
                    header {
                        nav aria-label="Pages and parts" { ul {
                            @for (place, name) in self.links { li { a href=(place) { (name) } } }
                        } }
                    }
                    main #content tabindex="-1" { (self.content) }
                    footer { p { "bluefin " (env!("CARGO_PKG_VERSION")) } }
                }
            }
        };
        // Of what strangers said HTML is escaped by now, but not what commands a terminal.
        printable_lines(&page.into_string()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_strangers_say_commands_a_terminal_or_turns_a_line_around() {
        let content = html! { p { "cc: \x1b[2J<b>\u{202e}" } };
        let page = Page { title: "\u{9b}31m", links: &[], live: false, content }.html();
        assert!(page.contains("cc: \\u{1b}[2J&lt;b&gt;\\u{202e}") && page.contains("<title>\\u{9b}31m"), "{page}");
        assert!(!page.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    }
}
