//! How wide and how high what is printed may be.

use comfy_table::{ContentArrangement, Table, presets};
use terminal_size::{Height, Width, terminal_size};

/// Columns of a line that goes to a pipe or a file.
pub const PIPE: usize = 120;

/// Columns of standard output: what COLUMNS says, else those of the terminal, else [`PIPE`].
pub fn of_stdout() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let said = said.filter(|columns| *columns > 0);
    said.or_else(|| terminal_size().map(|(Width(columns), _)| columns.into())).unwrap_or(PIPE)
}

/// A table of a benchmark that fits standard output: what is too wide goes on in the next line of its cell. What people of the field
/// read is a [`Sheet`](crate::sheet::Sheet).
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(of_stdout()).unwrap_or(u16::MAX));
    table
}

/// The first lines of `text`, as many as the terminal shows at once, and how many there are more.
pub fn top_of(text: &str) -> String {
    match terminal_size() {
        Some((_, Height(rows))) => first_lines(text, rows.into()),
        None => text.to_string(),
    }
}

fn first_lines(text: &str, rows: usize) -> String {
    let count = text.lines().count();
    if count < rows {
        return text.to_string();
    }
    let shown = rows.saturating_sub(2).max(1);
    let mut lines: Vec<&str> = text.lines().take(shown).collect();
    let more = format!("… {} lines more", count - shown);
    lines.push(&more);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_stays_in_sight() {
        let text = (0..30).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let top = first_lines(&text, 24);
        assert!(top.starts_with("0\n1\n") && top.ends_with("\n21\n… 8 lines more"), "{top}");
        assert_eq!(top.lines().count(), 23);
        assert_eq!(first_lines("a\nb", 24), "a\nb");
    }
}
