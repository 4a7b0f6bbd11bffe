//! The files of a draft: its source, and what that includes.

use std::collections::BTreeMap;

use crate::{host_code, shim};

/// Headers of other folders at most: a project may have a library within it.
const MOST_ELSEWHERE: usize = 128;
/// Bytes of them at most.
const MOST_BYTES: usize = 4 << 20;

/// An include that was not looked at yet.
struct Wanted {
    /// Whose it is: what a bundle has that under, and its path from the source's folder.
    from: (String, String),
    include: String,
}

/// The texts of the source `name` and of what it includes, by what a bundle has them under, and the paths of the latter.
pub(super) fn of(
    name: &str,
    text: &str,
    beside: impl Fn(&str) -> Option<String>,
    elsewhere: impl Fn(&str, &str) -> Option<(String, String)>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let wanted = |name: &str, path: &str, text: &str| -> Vec<Wanted> {
        let from = || (name.to_string(), path.to_string());
        host_code::includes(text).map(|include| Wanted { from: from(), include }).collect()
    };
    let mut files = BTreeMap::from([(name.to_string(), text.to_string())]);
    let (mut waiting, mut includes) = (wanted(name, name, text), Vec::new());
    let (mut others, mut bytes) = (0, 0);
    while let Some(Wanted { from: (name, path), include }) = waiting.pop() {
        let places = shim::places(&name, &include);
        if places.first().is_none_or(|first| files.contains_key(first)) {
            continue;
        }
        let beside = || {
            let new = places.iter().filter(|place| !files.contains_key(*place));
            new.filter_map(|place| Some((place.clone(), beside(place)?))).next()
        };
        let is_shims = !shim::is_called_alike(shim::plain(&include)) && shim::is_header(shim::plain(&include))
            || include.contains('/') && shim::is_header(&include) && !shim::is_nothing(&include);
        let elsewhere = || {
            let may_be = !is_shims && !shim::is_of_machine(&include) && others < MOST_ELSEWHERE && bytes < MOST_BYTES;
            if may_be { elsewhere(&path, &include) } else { None }
        };
        // What a header of another folder includes lies beside that rather than beside the source.
        let found = if path.starts_with("../") { elsewhere().or_else(beside) } else { beside().or_else(elsewhere) };
        let Some((path, text)) = found.filter(|(path, _)| !files.contains_key(shim::above(path))) else { continue };
        let name = shim::above(&path).to_string();
        if path.starts_with("../") {
            (others, bytes) = (others + 1, bytes + text.len());
        }
        waiting.extend(wanted(&name, &path, &text));
        includes.push(path);
        files.insert(name, text);
    }
    includes.sort();
    (files, includes)
}
