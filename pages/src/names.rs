//! Names of strangers, as lines break between their words and not within.

use bluefin_exporter::summary::Winner;
use maud::{Markup, html};

/// Params are kept in one piece up to so many characters.
const WHOLE: usize = 40;

/// A name that may break before its capitals and behind its underscores.
pub fn name(text: &str) -> Markup {
    html! { @for (index, word) in words(text).iter().enumerate() { @if index > 0 { wbr; } (word) } }
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in text.chars() {
        if c.is_uppercase() && before.is_lowercase() || before == '_' && c != '_' {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut() {
            last.push(c);
        }
        before = c;
    }
    words
}

/// `NAME=value ...`, each in one piece.
pub fn params(text: &str) -> Markup {
    html! { @for (index, param) in text.split(' ').filter(|param| !param.is_empty()).enumerate() {
        @if index > 0 { " " }
        code class=[(param.chars().count() <= WHOLE).then_some("whole")] { (param) }
    } }
}

/// Solver and params of a winner.
pub fn winner(winner: &Winner) -> Markup {
    solver(&winner.solver, winner.params.iter().map(|(name, value)| format!("{name}={value}")))
}

/// A solver and its params.
pub fn solver(solver: &str, each: impl Iterator<Item = String>) -> Markup {
    html! { (name(solver)) @for param in each { " " (params(&param)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_between_words_and_stay_text() {
        assert_eq!(name("BluefinConvF32_<b>").into_string(), "Bluefin<wbr>Conv<wbr>F32_<wbr>&lt;b&gt;");
        assert_eq!(name("GEMM").into_string(), "GEMM");
        let long = "x".repeat(WHOLE + 1);
        let expected = format!("<code class=\"whole\">A=1</code> <code>{long}</code>");
        assert_eq!(params(&format!("A=1 {long}")).into_string(), expected);
    }
}
