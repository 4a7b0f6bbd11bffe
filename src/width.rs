//! How wide a table may be.

use terminal_size::{Width, terminal_size};

/// Columns of standard output: what COLUMNS says, else those of the terminal. `None`: it is none, and a table may be as wide as it
/// likes.
pub fn of_stdout() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    said.filter(|columns| *columns > 0).or_else(|| terminal_size().map(|(Width(columns), _)| columns.into()))
}
