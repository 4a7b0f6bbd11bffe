//! Pages that people look at: the report of a session as one file, and the dashboard of a fleet.
//!
//! Charts are laid out by plotters and written as SVG by [`chart`]. A library in JavaScript would add one to four megabytes to
//! each report and to the binary, needs scripts in its content security policy, and its pictures need hands of their own for
//! paper, for the dark and for screen readers; in SVG each mark has its value as a title, and colours are those of the page. The
//! dashboard's charts of the last hour are the exception: they answer to the pointer, and uPlot's 51 kB draw them.
//! Text goes through maud, which escapes it: names come from users.
#![forbid(unsafe_code)]

mod chart;
mod comparison;
pub mod dashboard;
mod failures;
mod names;
mod page;
mod problem;
mod ratios;
mod report;
mod style;
mod timeline;
mod words;

pub use comparison::{comparison, comparison_title};
pub use page::{Page, policy};
pub use report::{parts, report};
