//! Command lines of bluefin in manuals, help texts and comments.

use std::path::{Path, PathBuf};

/// What stands for something else in a line of a text, which can not be tried then.
const PLACEHOLDERS: [&str; 4] = ["...", "…", "[-", "$"];

/// The files in `folder` and below whose names end in one of `ends`, in order.
fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files(&path, ends));
        } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The command lines in the manual, examples and job scripts of the repository at `root`, each with where it stands.
pub fn of_repository(root: &Path) -> Vec<(String, String)> {
    let mut texts: Vec<PathBuf> = ["README.md", "python/README.md"].map(|name| root.join(name)).into();
    texts.extend(files(&root.join("docs"), &[".md"]));
    texts.extend(files(&root.join("examples"), &[".toml", ".py", ".c", ".hip", ".yaml"]));
    texts.extend(files(&root.join("deploy"), &[".sbatch"]));
    let mut found = Vec::new();
    for path in texts {
        let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{place}: {error}"));
        found.extend(command_lines(&text).into_iter().map(|line| (place.clone(), line)));
    }
    found
}

/// What begins with `bluefin` and a verb or a flag, behind blanks, a comment or `$`, with what a ` \` goes on in.
pub fn command_lines(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let line = line.trim_start().trim_start_matches(['#', '/', '*', '$', '>', '-']).trim();
        let line = line.strip_prefix("run: ").unwrap_or(line);
        let begins = line
            .strip_prefix("bluefin ")
            .is_some_and(|rest| rest.starts_with("--") || rest.starts_with(|c: char| c.is_ascii_lowercase()));
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => last.push_str(&format!(" {}", line.trim_end_matches('\\').trim())),
            None if begins => found.push(line.trim_end_matches('\\').trim().to_string()),
            None => continue,
        }
        goes_on = line.ends_with('\\');
    }
    found.retain(|line| !PLACEHOLDERS.iter().any(|placeholder| line.contains(placeholder)));
    found
}

/// The words of a line as a shell has them, up to a comment, a pipe, or what a second command begins with.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '>') => break,
            (None, '#' | '(') if word.is_none() => break,
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let found = words(r#"bluefin results --problem "conv -n 1" | jq .ms"#);
        assert_eq!(found, ["bluefin", "results", "--problem", "conv -n 1"]);
        assert_eq!(words("bluefin tune a.txt     (what it does)"), ["bluefin", "tune", "a.txt"]);
    }

    #[test]
    fn a_command_goes_on_behind_a_backslash() {
        let text =
            "#     bluefin tune a \\\n#         --device host\nbluefin is\nbluefin job ...\n- run: bluefin status\n";
        assert_eq!(command_lines(text), ["bluefin tune a --device host", "bluefin is", "bluefin status"]);
    }
}
