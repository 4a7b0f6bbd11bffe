//! How wide and how high what is printed may be.

use comfy_table::{ContentArrangement, Table, presets};
use terminal_size::{Height, Width, terminal_size, terminal_size_of};

/// Columns of a line that goes to a pipe or a file.
pub const PIPE: usize = 120;

/// Columns of standard output: what COLUMNS says, else those of the terminal, else [`PIPE`].
pub fn of_stdout() -> usize {
    columns(terminal_size)
}

/// Columns of standard error, as those of standard output are found.
pub fn of_stderr() -> usize {
    columns(|| terminal_size_of(std::io::stderr()))
}

fn columns(of_terminal: impl FnOnce() -> Option<(Width, Height)>) -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let said = said.filter(|columns| *columns > 0);
    said.or_else(|| of_terminal().map(|(Width(columns), _)| columns.into())).unwrap_or(PIPE)
}

/// Before a command that the reader is to copy.
const COMMAND: &str = ": bluefin ";

/// `text` in lines of at most `columns` characters, broken between words. A command goes on a line of its own, and is left whole, so that it can
/// be copied.
pub fn prose(text: &str, columns: usize) -> String {
    let lines = text.lines().flat_map(|line| {
        if line.chars().count() <= columns {
            return vec![line.to_string()];
        }
        let words = line.trim_start();
        let indent = line.len() - words.len();
        match words.split_once(COMMAND) {
            Some((before, command)) => {
                let mut lines = wrapped(&format!("{before}:"), columns, indent);
                lines.push(format!("{}bluefin {command}", " ".repeat(indent + 2)));
                lines
            }
            None => wrapped(words, columns, indent),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `text` in lines of at most `most` characters, broken at blanks alone, each behind `indent` blanks.
#[must_use]
pub fn wrapped(text: &str, most: usize, indent: usize) -> Vec<String> {
    let blanks = " ".repeat(indent);
    if indent.saturating_add(length(text)) <= most {
        return vec![format!("{blanks}{text}")];
    }
    let mut lines = vec![blanks.clone()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if length(line) == indent {
            line.push_str(word);
        } else if length(line) + 1 + length(word) <= most {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{blanks}{word}"));
        }
    }
    lines
}

/// Characters of `text`.
#[must_use]
pub fn length(text: &str) -> usize {
    text.chars().count()
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
    fn prose_breaks_between_words_and_leaves_commands_whole() {
        assert_eq!(prose("as it was", 20), "as it was");
        assert_eq!(
            prose("none of them is right, nor fast\n  nor is this one at all", 16),
            "none of them is\nright, nor fast\n  nor is this\n  one at all"
        );
        let command = "bluefin results --state bluefin.db --session nightly";
        assert_eq!(prose(&format!("every candidate: {command}"), 40), format!("every candidate:\n  {command}"));
    }

    #[test]
    fn the_top_stays_in_sight() {
        let text = (0..30).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let top = first_lines(&text, 24);
        assert!(top.starts_with("0\n1\n") && top.ends_with("\n21\n… 8 lines more"), "{top}");
        assert_eq!(top.lines().count(), 23);
        assert_eq!(first_lines("a\nb", 24), "a\nb");
    }
}
