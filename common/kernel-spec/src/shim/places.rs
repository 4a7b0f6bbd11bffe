//! Where a bundle has what its files include: beside them, beside the spec, or in a folder that a compiler was told to look in.

/// What a path leads to behind the folders that it goes up: what a bundle has such a file under.
pub(crate) fn above(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("../") {
        path = rest;
    }
    path
}

/// The last part of an include's path: what a spec's folder can have of it.
pub(crate) fn plain(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, file)| file)
}

/// The names under which a bundle can have what the file `from` includes as `include`: beside that file, where the path leads from the
/// spec, also up from there, and by its last part.
pub(crate) fn places(from: &str, include: &str) -> Vec<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found: Vec<String> =
        [joined(folder, include), joined("", include), joined("", above(include))].into_iter().flatten().collect();
    found.push(plain(include).to_string());
    found.dedup();
    found
}

/// The first of `names` whose end is what is included as `include`: it lies in a folder that a compiler was told to look in.
pub(super) fn ending_with<'a>(include: &str, mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let include = above(include);
    let is_end = |name: &&str| name.strip_suffix(include).is_some_and(|folder| folder.ends_with('/'));
    names.find(is_end).map(str::to_string)
}

/// The longest of `names` with which the path ends that is included as `include`: it begins in a folder above the spec's.
pub(super) fn within<'a>(include: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let is_end =
        |name: &&str| name.contains('/') && include.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'));
    names.filter(is_end).max_by_key(|name| name.len()).map(str::to_string)
}

/// A path from `folder`, if it stays within what that is in.
pub(super) fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => _ = parts.pop()?,
            "." | "" => {}
            part => parts.push(part),
        }
    }
    (!path.starts_with('/')).then(|| parts.join("/"))
}

/// Whether a header is one of a library for kernels that bluefin has nothing of: a project may be that library, and then its own goes before.
pub(crate) fn is_nothing(include: &str) -> bool {
    include.starts_with("rocprim/")
}

/// Headers of C and POSIX, which people put in quotation marks as well, and which machines that compile have.
const OF_C: [&str; 41] = [
    "assert.h",
    "complex.h",
    "ctype.h",
    "dirent.h",
    "dlfcn.h",
    "errno.h",
    "fcntl.h",
    "fenv.h",
    "float.h",
    "getopt.h",
    "immintrin.h",
    "inttypes.h",
    "limits.h",
    "locale.h",
    "malloc.h",
    "math.h",
    "memory.h",
    "omp.h",
    "poll.h",
    "pthread.h",
    "pwd.h",
    "sched.h",
    "semaphore.h",
    "setjmp.h",
    "signal.h",
    "stdalign.h",
    "stdarg.h",
    "stdatomic.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "strings.h",
    "tgmath.h",
    "time.h",
    "uchar.h",
    "unistd.h",
    "values.h",
    "wchar.h",
];

/// Whether a header is one of the C or C++ library, or of the system: C++'s have no ending.
#[must_use]
pub fn is_of_machine(name: &str) -> bool {
    !name.contains('.') || name.starts_with("sys/") || OF_C.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_lead_to_what_a_bundle_has() {
        assert_eq!(places("k.cu", "../common/a.h"), ["common/a.h", "a.h"]);
        assert_eq!(places("include/x/a.h", "../y/b.h"), ["include/y/b.h", "y/b.h", "b.h"]);
        let names = ["include/x/b.h", "k.cu", "other.b.h"];
        assert_eq!(ending_with("x/b.h", names.into_iter()).as_deref(), Some("include/x/b.h"));
        assert_eq!(ending_with("b.h", names.into_iter()).as_deref(), Some("include/x/b.h"));
        assert_eq!(ending_with("y/b.h", names.into_iter()), None);
        assert_eq!(within("own/include/x/b.h", names.into_iter()).as_deref(), Some("include/x/b.h"));
        assert_eq!(within("own/k.cu", names.into_iter()), None);
    }
}
