//! Why candidates failed.

use bluefin_exporter::report::Failures;
use maud::{Markup, html};

use crate::names::{name, params};
use crate::words::{count, counted};

/// Failures by kind, with words.
pub fn failures(failures: &Failures) -> Markup {
    html! {
        @for (called, kind) in &failures.kinds {
            div.failure {
                p { strong.bad { (called) } ": " (counted(kind.candidates, "candidate")) " of " (counted(kind.problems, "problem")) }
                @for common in &kind.shared { p {
                    (count(common.candidates)) " of " (name(&common.solver)) ": all with " (params(&common.params))
                } }
                ul { @for words in &kind.words { li {
                    (counted(words.candidates, "candidate")) ", such as " (name(&words.solver)) " " (params(&words.params)) " of " (words.problem)
                    @if words.text.is_empty() { p.faint { "without words" } } @else { pre { (words.text) } }
                } }
                @if kind.others > 0 { li { (counted(kind.others, "more candidate")) ", with other words" } } }
            }
        }
    }
}
