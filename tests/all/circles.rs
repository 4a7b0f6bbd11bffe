//! Files that use each other in a circle can only be read together: there are none.
//!
//! What counts is who of the modules beside each other uses whom. A module and its folder are one there, as a parent that
//! re-exports its children, and a child that uses what its parent says for all of them, are one thing in several files. A name
//! that a module re-exports counts as one of the file that it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The names that lead to a module, or to what is in one, from the root of its crate.
type Names = Vec<String>;

/// What a file uses, and where it says so.
struct Use {
    path: Names,
    /// What it is called there from then on, if it is a `use`.
    alias: Option<String>,
    line: usize,
}

/// The files of a crate: the names of their modules, and what they use.
#[derive(Default)]
struct Modules(BTreeMap<Names, Vec<Use>>);

/// Adds those in `folder`, but those of tests.
fn read(folder: &Path, above: &[String], found: &mut Modules) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        let is_root = above.is_empty() && ["lib", "main"].contains(&&*stem);
        let module: Names = above.iter().cloned().chain((!is_root).then_some(stem)).collect();
        if path.is_dir() {
            read(&path, &module, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.add(module, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

impl Modules {
    /// Adds a file of this text, up to its tests. A crate that is a library and a program has two roots.
    fn add(&mut self, module: Names, text: &str) {
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.split("\n#[cfg(test)]\npub(crate) mod tests {").next().unwrap_or_default();
        self.0.entry(module).or_default().extend(uses(code));
    }

    /// What `path` is from the root of the crate, if it says so, or is of the module `at` or of its children.
    fn resolved(&self, at: &[String], path: &[String]) -> Option<Names> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([at, rest].concat()),
            "super" => Some([at.get(..at.len().checked_sub(supers)?)?, &path[supers..]].concat()),
            _ => Some([at, path].concat()).filter(|child| self.0.contains_key(&child[..=at.len()])),
        }
    }

    /// The module of what is at `path`.
    fn module_of(&self, path: &[String]) -> Names {
        let depth = (0..=path.len()).rev().find(|depth| self.0.contains_key(&path[..*depth])).unwrap_or(0);
        let (module, rest) = path.split_at(depth);
        let Some(name) = rest.first() else { return module.to_vec() };
        let named = self.0.get(module).into_iter().flatten().filter(|of| of.alias.as_ref() == Some(name));
        let mut origins = named.filter_map(|of| self.resolved(module, &of.path)).filter(|origin| origin != path);
        origins.next().map_or_else(|| module.to_vec(), |origin| self.module_of(&origin))
    }

    /// Of each module, who of its children uses whom, and the line that does.
    fn graphs(&self) -> BTreeMap<Names, BTreeMap<String, BTreeMap<String, String>>> {
        let mut graphs: BTreeMap<Names, BTreeMap<String, BTreeMap<String, String>>> = BTreeMap::new();
        for (from, uses) in &self.0 {
            for one in uses {
                let Some(path) = self.resolved(from, &one.path) else { continue };
                let to = self.module_of(&path);
                let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
                let (Some(user), Some(used)) = (from.get(common), to.get(common)) else { continue };
                let place = format!("{}.rs:{} uses {}", from.join("/"), one.line, one.path.join("::"));
                let graph = graphs.entry(from[..common].to_vec()).or_default();
                graph.entry(user.clone()).or_default().entry(used.clone()).or_insert(place);
            }
        }
        graphs
    }

    /// A shortest circle of each module that is in any, as `a → b → a` with the lines that make it.
    fn circles(&self) -> BTreeSet<String> {
        let mut circles = BTreeSet::new();
        for (above, graph) in self.graphs() {
            let mut seen: BTreeSet<String> = BTreeSet::new();
            for start in graph.keys() {
                if seen.contains(start) {
                    continue;
                }
                let Some(circle) = circle(&graph, start) else { continue };
                let pairs = circle.iter().zip(&circle[1..]);
                let places = pairs.map(|(user, used)| format!("\n    {}", graph[user][used]));
                let chain: Vec<String> =
                    circle.iter().map(|name| [&above[..], std::slice::from_ref(name)].concat().join("::")).collect();
                circles.insert(format!("{}{}", chain.join(" → "), places.collect::<String>()));
                seen.extend(circle);
            }
        }
        circles
    }
}

/// The shortest way from `start` to itself.
fn circle(graph: &BTreeMap<String, BTreeMap<String, String>>, start: &String) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.clone()]];
    let mut met = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for used in graph.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
                let way = [&way[..], std::slice::from_ref(used)].concat();
                if used == start {
                    return Some(way);
                }
                if met.insert(used.clone()) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

/// Every `use` of a text, and every path that starts with `crate` or `super`.
fn uses(text: &str) -> Vec<Use> {
    let blank = |line: &str| if line.trim_start().starts_with("//") { String::new() } else { line.to_string() };
    let code = text.lines().map(blank).collect::<Vec<_>>().join("\n");
    let mut uses = Vec::new();
    let mut read = 0;
    for (at, _) in code.match_indices(|c: char| c.is_alphabetic()) {
        let (before, rest) = code.split_at(at);
        let is_inside = before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) || before.ends_with("(in ");
        let is_use = rest.starts_with("use ");
        let is_path = ["crate::", "super::"].iter().any(|root| rest.starts_with(root));
        if at < read || is_inside || !(is_use || is_path) {
            continue;
        }
        let line = before.matches('\n').count() + 1;
        let mut tree =
            Tree { text: &code, at: if is_use { at + "use ".len() } else { at }, is_use, line, uses: &mut uses };
        tree.read(&[]);
        read = tree.at;
    }
    uses
}

/// `a::{b, c as d}`, as far as it was read.
struct Tree<'a> {
    text: &'a str,
    at: usize,
    is_use: bool,
    line: usize,
    uses: &'a mut Vec<Use>,
}

impl Tree<'_> {
    fn skips(&mut self, text: &str) -> bool {
        let found = self.text[self.at..].starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn word(&mut self) -> String {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        self.at += word.len();
        word.to_string()
    }

    fn read(&mut self, above: &[String]) {
        let mut path = above.to_vec();
        loop {
            let word = self.word();
            // `a::{self}` is `a`.
            if !word.is_empty() && (word != "self" || path.is_empty()) {
                path.push(word);
            }
            if !self.skips("::") {
                break;
            }
            if self.skips("{") {
                while !self.skips("}") {
                    let before = self.at;
                    self.read(&path);
                    self.at += self.text[self.at..].find(|c: char| !c.is_whitespace() && c != ',').unwrap_or(0);
                    assert!(self.at > before, "line {}: found what is no path in braces", self.line);
                }
                return;
            }
        }
        let name = if self.skips(" as ") { Some(self.word()) } else { path.last().cloned() };
        self.skips("*");
        self.uses.push(Use { path, alias: name.filter(|_| self.is_use), line: self.line });
    }
}

#[test]
fn circles_are_found_among_modules_beside_each_other() {
    let circles = |files: &[(&str, &str)]| {
        let mut modules = Modules::default();
        for (module, text) in files {
            modules.add(module.split("::").filter(|name| !name.is_empty()).map(str::to_string).collect(), text);
        }
        let told = modules.circles();
        told.iter().map(|circle| circle.lines().next().unwrap().to_string()).collect::<Vec<_>>()
    };
    let two = [("a", "use crate::b::B;"), ("b", "fn b() {\n    crate::a::a::<u8>()\n}")];
    assert_eq!(circles(&two), ["a → b → a"]);
    let deep = [
        ("a::x", "use super::y;"),
        ("a::y", "use crate::a::{\n    z::{self, Z as W},\n};"),
        ("a::z", "use super::x::*;"),
    ];
    assert_eq!(circles(&deep), ["a::x → a::y → a::z → a::x"]);
    // A folder is its module.
    assert_eq!(
        circles(&[("a::x", "use crate::b::B;"), ("a", ""), ("b::y", "use crate::a::A;"), ("b", "")]),
        ["a → b → a"]
    );
    // Names that come through the root, and back under another one.
    let renamed = [("", "pub use a::A;\npub(crate) use b::B as C;"), ("a", "use crate::C;"), ("b", "use super::A;")];
    assert_eq!(circles(&renamed), ["a → b → a"]);
    for none in [
        // A parent and its children.
        &[("a", "pub use x::X;"), ("a::x", "use super::A;\nuse crate::a::{self, B};")][..],
        // Not what a path in the code of another file is called.
        &[("a", "fn a() { crate::b::of(); }"), ("b", ""), ("c", "use crate::a::of;"), ("", "use c::a;")],
        // Tests, comments, and who may see something.
        &[
            ("a", "use crate::b::B;"),
            ("b", "// crate::a\npub(in crate::a) fn b() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        ],
        &[("a", "use crate::b::B;"), ("b", "use a::A;\nuse std::a;")],
    ] {
        assert_eq!(circles(none), [""; 0]);
    }
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let mut circles = Vec::new();
    let mut files = 0;
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let folder = root.join(member.as_str().unwrap()).join("src");
        let mut modules = Modules::default();
        read(&folder, &[], &mut modules);
        files += modules.0.len();
        circles.extend(modules.circles().iter().map(|circle| format!("{}: {circle}", folder.display())));
    }
    assert!(files > 300, "{files} files in {}", root.display());
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}
