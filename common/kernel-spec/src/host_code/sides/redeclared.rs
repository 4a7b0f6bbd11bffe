//! Functions whose body is marked as the device's and which a header declares without marks: nvcc joins the sides of both, and clang takes the
//! second for another function.

use std::collections::BTreeMap;

use super::super::{Token, closing, function_name, tokens};

/// Words in what is no plain declaration of a function.
const OTHERS: [&str; 9] =
    ["template", "typedef", "using", "friend", "constexpr", "__global__", "__host__", "__device__", "="];

/// The marks of functions, by name, of which all bodies have the same.
pub(super) fn marked<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, &'static str> {
    let mut found: BTreeMap<String, Option<&'static str>> = BTreeMap::new();
    for text in texts {
        for (head, _) in heads(&tokens(text)).into_iter().filter(|(_, has_body)| *has_body) {
            let has = |word: &str| head.iter().any(|token| token.text == word);
            let Some(name) = called(head) else { continue };
            let marks = match (has("__host__"), has("__device__")) {
                (true, true) => Some("__host__ __device__ "),
                (false, true) => Some("__device__ "),
                _ => None,
            };
            // Of a template others are told apart.
            let marks = marks.filter(|_| !has("template"));
            found.entry(name).and_modify(|known| *known = known.filter(|known| Some(*known) == marks)).or_insert(marks);
        }
    }
    found.into_iter().filter_map(|(name, marks)| Some((name, marks?))).collect()
}

/// `text` with these marks in front of declarations that have none.
pub(super) fn with_marks(text: &str, marked: &BTreeMap<String, &'static str>) -> String {
    if marked.is_empty() {
        return text.to_string();
    }
    let (mut changed, mut from) = (String::with_capacity(text.len()), 0);
    for (head, _) in heads(&tokens(text)).into_iter().filter(|(_, has_body)| !has_body) {
        let is_plain = !head.iter().any(|token| OTHERS.contains(&token.text));
        let marks = called(head).filter(|_| is_plain).and_then(|name| marked.get(&name));
        let (Some(marks), Some(first)) = (marks, head.first()) else { continue };
        changed.push_str(text.get(from..first.at).unwrap_or_default());
        changed.push_str(marks);
        from = first.at;
    }
    changed + text.get(from..).unwrap_or_default()
}

/// What a function is called that begins with `head`, operators as well; not one of a class.
fn called(head: &[Token<'_>]) -> Option<String> {
    if head.iter().zip(head.iter().skip(1)).any(|(one, next)| one.text == ":" && next.text == ":") {
        return None;
    }
    if let Some(at) = head.iter().position(|token| token.text == "operator") {
        let signs = head.get(at..)?.iter().map(|token| token.text).take_while(|sign| *sign != "(");
        return Some(signs.collect());
    }
    // A type stands in front of it.
    let name = function_name(head)?;
    let is_typed = head.first().is_some_and(|first| first.text != name);
    is_typed.then(|| name.to_string())
}

/// What begins functions and other things outside of functions and classes, and whether a body is behind it.
fn heads<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<(&'b [Token<'a>], bool)> {
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(token) = tokens.get(at) {
        let head = tokens.get(from..at).unwrap_or_default();
        let has = |word: &str| head.iter().any(|token| token.text == word);
        match token.text {
            ";" => found.push((head, false)),
            // What is in these is outside as well.
            "{" if has("namespace") || has("extern") && !has("(") => {}
            "{" => {
                found.push((head, true));
                at = closing(tokens, at).unwrap_or(tokens.len());
            }
            "}" => {}
            _ => {
                at += 1;
                continue;
            }
        }
        at += 1;
        from = at;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_have_the_marks_of_their_bodies() {
        let header = "#include \"a.h\"\nnamespace n {\nfloat dot(const P& a, const P& b);\n}\nextern \"C\" {\nvoid scale(P* p);\n}\n\
            P operator+(const P& a, const P& b);\nint both(int);\nint host(int);\nstruct Q { float dot(P); };\nstatic float last(float a);\n";
        let source = "namespace n { __host__ __device__ float dot(const P& a, const P& b) { return 1; } }\n\
            __device__ void scale(P* p) {}\n__host__ __device__ P operator+(const P& a, const P& b) { return a; }\n\
            __device__ int both(int a) { return a; }\nint both(int a, int b) { return b; }\nint host(int a) { return both(a, a); }\n\
            struct Q { __device__ float last(float a) { return a; } };\n__global__ void k(P* p) { scale(p); }\n";
        let marked = marked([header, source].into_iter());
        let changed = with_marks(header, &marked);
        let expected = header
            .replace("float dot(const", "__host__ __device__ float dot(const")
            .replace("void scale", "__device__ void scale")
            .replace("P operator+", "__host__ __device__ P operator+");
        assert_eq!(changed, expected);
        // What has marks keeps them.
        assert_eq!(with_marks(source, &marked), source);
    }
}
