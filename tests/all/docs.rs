//! The manual: its links lead somewhere, each page is in the table of contents, and the page of variables is complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files in `folder` and below whose names end so, but what a build made.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, end));
        } else if name.ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn pages() -> Vec<PathBuf> {
    let own = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    own.into_iter().chain(files(&root().join("docs"), ".md")).collect()
}

/// Where the links of a page lead, outside of code.
fn links(page: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || line.starts_with("    ") {
            continue;
        }
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        found.extend(prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_string())));
    }
    found
}

/// What a heading is called in a link, as GitHub and mdBook have it.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_leads_somewhere() {
    let mut broken = Vec::new();
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        for link in links(&page).iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_there = target.exists();
            let has_anchor =
                anchor.is_empty() || is_there && anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor);
            // The site has nothing but docs/.
            let in_site = !path.starts_with(root().join("docs"))
                || std::path::absolute(&target)
                    .unwrap()
                    .components()
                    .collect::<PathBuf>()
                    .starts_with(root().join("docs"))
                    && !file.starts_with("../../");
            if !is_there || !has_anchor || !in_site {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn each_page_is_in_the_table_of_contents() {
    let folder = root().join("docs");
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let linked: BTreeSet<PathBuf> = links(&summary).into_iter().map(|link| folder.join(link)).collect();
    let pages: BTreeSet<PathBuf> =
        files(&folder, ".md").into_iter().filter(|path| !path.ends_with("SUMMARY.md")).collect();
    assert_eq!(linked, pages);
}

/// Variables that tests and benchmarks have, or that only a build knows.
const OF_TESTS: [&str; 6] = ["TEST_", "STANDIN_", "BLESS", "WRITE_COVERAGE", "BUILD", "PASSWORD"];
/// Macros of C, and what a build says to its own sources.
const NO_VARIABLES: [&str; 3] = ["BLUEFIN_CUDA", "BLUEFIN_TARGET", "BLUEFIN_RUSTC"];

fn variables(text: &str) -> BTreeSet<String> {
    let starts = text.match_indices("BLUEFIN_").map(|(at, _)| at);
    let word = |at: usize| -> String {
        text[at..].chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect()
    };
    starts.map(word).filter(|name| name.len() > "BLUEFIN_".len() && !name.ends_with('_')).collect()
}

#[test]
fn the_page_of_variables_has_all_of_them_and_no_others() {
    let page = std::fs::read_to_string(root().join("docs/environment.md")).unwrap();
    let mut read = BTreeSet::new();
    for end in [".rs", ".py"] {
        for path in files(root(), end) {
            let inside = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            if !inside.contains("tests") && !inside.ends_with("build.rs") {
                read.extend(variables(&std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    read.retain(|name| {
        let rest = name.trim_start_matches("BLUEFIN_");
        !OF_TESTS.iter().any(|of| rest.starts_with(of)) && !NO_VARIABLES.contains(&name.as_str())
    });
    assert!(read.len() > 20, "{read:?}");
    assert_eq!(variables(&page), read);
}
