//! Folders in which a build lets its compiler look for headers: `-I../common`, `include_directories(../common)`.

use super::NAMES;

/// What CMake calls the folder of its file.
const OF_CMAKE: [&str; 2] = ["${CMAKE_CURRENT_SOURCE_DIR}", "${CMAKE_CURRENT_LIST_DIR}"];
/// Folders that are looked at, at most.
const MOST: usize = 32;

/// The folders that the build file `beside` a source names, by their paths from it. What only the build can compute is left out.
pub fn include_folders(beside: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let text = NAMES.iter().find_map(|name| beside(name)).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut found: Vec<String> = Vec::new();
    let mut add = |path: &str| {
        let path =
            OF_CMAKE.iter().find_map(|own| path.strip_prefix(own)).map_or(path, |rest| rest.trim_start_matches('/'));
        let path = path.trim_matches(['"', '\'']).trim_end_matches('/');
        let is_plain = !path.is_empty() && !path.starts_with('/') && !path.contains(['$', '(', ')', '\\']);
        if is_plain && found.len() < MOST && !found.iter().any(|known| known == path) {
            found.push(path.to_string());
        }
    };
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match word.trim_start_matches(['"', '\'', '=']).strip_prefix("-I") {
            Some("") => words.peek().into_iter().for_each(|next| add(next)),
            Some(path) => add(path),
            None => {}
        }
    }
    for (at, call) in text.match_indices("include_directories") {
        let inner = text.get(at + call.len()..).unwrap_or_default().trim_start().strip_prefix('(');
        let inner = inner.and_then(|rest| rest.split_once(')')).map_or("", |(inner, _)| inner);
        inner.split_whitespace().for_each(&mut add);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_headers_are_those_that_build_files_name() {
        let of = |name: &str, text: &str| include_folders(|file| (file == name).then(|| text.to_string()));
        let text = "CFLAGS := -O3 -I../tools -I \"include/\" -I$(TOP)/x -I/usr/include # -Iold\nall:\n\tnvcc -I../tools -Isrc k.cu\n";
        assert_eq!(of("Makefile", text), ["../tools", "include", "src"]);
        let text = "include_directories(../common ${OTHER})\n# include_directories(old)\n\
            target_include_directories(k PRIVATE\n  ${CMAKE_CURRENT_SOURCE_DIR}/../inc)";
        assert_eq!(of("CMakeLists.txt", text), ["../common", "k", "PRIVATE", "../inc"]);
        assert_eq!(of("README", "-I../tools"), [""; 0]);
    }
}
