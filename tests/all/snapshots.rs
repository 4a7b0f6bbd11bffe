//! What people read: the help of every verb, and the tables. A change is looked at before it is taken: with
//! `INSTA_UPDATE=always cargo nextest run snapshots`, then in the diff.

use std::path::Path;

use bluefin_test_support::data;

use crate::common::{bluefin, expect, text, verbs};

/// Standard output of `bluefin` with these arguments, in `folder`.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    text(&expect(bluefin().env_remove("COLUMNS").args(arguments).current_dir(folder), 0).stdout)
}

/// Longest line of a help that may end as it likes: a title, a usage.
const SHORT: usize = 60;

/// A help on a terminal that has room for each paragraph.
fn unwrapped(arguments: &[&str]) -> String {
    text(&expect(bluefin().env("COLUMNS", "10000").args(arguments), 0).stdout)
}

#[test]
fn help() {
    let folder = tempfile::tempdir().unwrap();
    let mut texts = Vec::new();
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let text = printed(folder.path(), &arguments);
        assert!(text.contains("Example"), "{path:?}: {text}");
        for (at, line) in
            unwrapped(&arguments).lines().enumerate().filter(|(_, line)| line.starts_with(char::is_alphabetic))
        {
            let ends = line.len() < SHORT || line.ends_with(['.', ':', ')']) || line.starts_with("Usage: ") || at == 0;
            assert!(ends, "{path:?}: a line that is broken by hand comes out ragged: {line}");
        }
        paths.extend(verbs(&text).into_iter().map(|verb| [path.as_slice(), &[verb.to_string()]].concat()));
        texts.push(format!("$ bluefin {}\n\n{text}", arguments.join(" ")));
    }
    texts.sort();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn tables() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state.db"), data("state/interrupted.db")).unwrap();
    std::fs::write(
        folder.path().join("list.txt"),
        "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1\nconvfp16 -n 2 -c 8 -H 8 -W 8 -k 8 -F 4\ngemm -m 64 -n 32 -k 16\n",
    )
    .unwrap();
    let lines = [
        "status --state state.db",
        "session list --state state.db",
        "problems list list.txt",
        "problems import --file list.txt --tag a --state new.db",
        "problems tag list --state new.db",
    ];
    let printed = lines.map(|line| {
        let arguments: Vec<&str> = line.split(' ').collect();
        format!("$ bluefin {line}\n\n{}", printed(folder.path(), &arguments))
    });
    insta::assert_snapshot!(printed.join("\n"));
}
