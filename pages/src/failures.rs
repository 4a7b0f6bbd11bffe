//! Why candidates failed.

use bluefin_exporter::report::Failures;
use maud::{Markup, html};

use crate::words::count;

/// Failures by kind, with words.
pub fn failures(failures: &Failures) -> Markup {
    html! {
        @for (name, kind) in &failures.0 {
            div.failure {
                p { strong.bad { (name) } ": " (count(kind.candidates)) " candidates of " (count(kind.problems)) " problems" }
                ul { @for words in &kind.words { li {
                    (count(words.candidates)) " candidates, such as " (words.solver) " " code { (words.params) } " of " (words.problem)
                    @if words.text.is_empty() { p.faint { "without words" } } @else { pre { (words.text) } }
                } }
                @if kind.others > 0 { li { (count(kind.others)) " more candidates, with other words" } } }
            }
        }
    }
}
