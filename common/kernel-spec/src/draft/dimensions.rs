//! Dimensions that host code puts together member by member, `dim3 grid; grid.x = n; grid.y = m;`, as if it had made them at once.

use std::ops::Range;

use crate::host_code::Token;

/// Statements that are looked at behind a declaration.
const MOST_STATEMENTS: usize = 256;

/// `tokens` with `dim3 grid(n, m, 1);` in the place of the last statement that gives a member of `grid` a value. Of a variable that is given values in
/// other scopes than its own, or changed, nothing is said.
pub(super) fn joined<'a>(tokens: Vec<Token<'a>>) -> Vec<Token<'a>> {
    let tokens = without_this(tokens);
    let declared = (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|token| token.text == "dim3"));
    let mut made: Vec<(Range<usize>, Vec<Token<'a>>)> = declared.flat_map(|at| variables(&tokens, at)).collect();
    made.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut tokens = tokens;
    for (range, instead) in made {
        tokens.splice(range, instead);
    }
    tokens
}

/// `tokens` with `size_` in the place of `this->size_`, as the function of a class may call it as well.
fn without_this(mut tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    let is_this = |at: usize| {
        let words = tokens.get(at..at + 3).unwrap_or_default();
        words.iter().map(|token| token.text).eq(["this", "-", ">"])
    };
    let mut found: Vec<usize> = (0..tokens.len()).filter(|at| is_this(*at)).collect();
    while let Some(at) = found.pop() {
        tokens.drain(at..at + 3);
    }
    tokens
}

/// What stands in the place of what, for the variables of the declaration that begins at `at`.
fn variables<'a>(tokens: &[Token<'a>], at: usize) -> Vec<(Range<usize>, Vec<Token<'a>>)> {
    let end = statement_end(tokens, at);
    let is_statement = at.checked_sub(1).and_then(|before| tokens.get(before)).is_none_or(is_end);
    let list = tokens.get(at + 1..end).filter(|_| is_statement).unwrap_or_default();
    let made = parts(list).into_iter().filter_map(|one| {
        let (name, inner) = match one {
            [name] => (name, &[][..]),
            [name, open, inner @ .., close] if (open.text, close.text) == ("(", ")") => (name, inner),
            [name, equals, kind, open, inner @ .., close]
                if (equals.text, kind.text, open.text, close.text) == ("=", "dim3", "(", ")") =>
            {
                (name, inner)
            }
            _ => return None,
        };
        let mut members = ["x", "y", "z"].map(|_| None);
        members.iter_mut().zip(parts(inner)).for_each(|(member, words)| *member = Some(words));
        let last = given(tokens, end, name.text, &mut members)?;
        let word = |text: &'a str| name.instead(text);
        let mut instead = vec![word("dim3"), name.clone(), word("(")];
        let axes = members.iter().rposition(Option::is_some).map_or(1, |last| last + 1);
        for (axis, member) in members.into_iter().take(axes).enumerate() {
            instead.extend((axis > 0).then(|| word(",")));
            instead.extend(member.map_or_else(|| vec![word("1")], <[Token<'a>]>::to_vec));
        }
        instead.push(word(")"));
        Some((last, instead))
    });
    made.collect()
}

/// Sets what members of `name` are given in statements from `at` on, in the scope that is open there, and where the last of these is. `None` if there is
/// none, or it may be given others.
fn given<'a, 'b>(
    tokens: &'b [Token<'a>],
    at: usize,
    name: &str,
    members: &mut [Option<&'b [Token<'a>]>; 3],
) -> Option<Range<usize>> {
    let (mut at, mut depth, mut last) = (at, 0_i32, None);
    for _ in 0..MOST_STATEMENTS {
        match tokens.get(at)?.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            break;
        }
        let begin = at + 1;
        at = statement_end(tokens, begin);
        let statement = tokens.get(begin..at)?;
        let text = |at: usize| statement.get(at).map_or("", |token| token.text);
        let is_own = text(0) == name && text(1) == "." && text(3) == "=" && text(4) != "=";
        let axis = ["x", "y", "z"].iter().position(|axis| *axis == text(2)).filter(|_| is_own && depth == 0);
        match axis.and_then(|axis| members.get_mut(axis)) {
            // What a launch, or another value, has had of it is no longer so.
            Some(member) => {
                *member = Some(statement.get(4..)?);
                last = Some(begin..at);
            }
            None if changes(statement, name) => return None,
            None => {}
        }
        if at >= tokens.len() || last.is_some() && launches(statement, name) {
            break;
        }
    }
    last
}

/// Whether a statement gives a variable or one of its members a value.
fn changes(statement: &[Token<'_>], name: &str) -> bool {
    let text = |at: usize| statement.get(at).map_or("", |token| token.text);
    (0..statement.len()).filter(|at| text(*at) == name).any(|at| {
        let behind = if text(at + 1) == "." { at + 3 } else { at + 1 };
        let is_sum = |sign: &str| matches!(sign, "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^");
        let is_counted = |at: usize| matches!(text(at), "+" | "-") && text(at) == text(at + 1);
        let is_handed = at.checked_sub(1).is_some_and(|before| text(before) == "&");
        let is_before = at.checked_sub(2).is_some_and(is_counted);
        let is_given = text(behind) == "=" && text(behind + 1) != "=";
        is_given || is_sum(text(behind)) && text(behind + 1) == "=" || is_counted(behind) || is_before || is_handed
    })
}

/// Whether a statement launches something by `name`.
fn launches(statement: &[Token<'_>], name: &str) -> bool {
    let has = |text: &str| statement.iter().any(|token| token.text == text);
    let is_launch = statement.windows(3).any(|signs| signs.iter().all(|sign| sign.text == "<"));
    has(name) && (is_launch || has("hipLaunchKernelGGL") || has("hipLaunchKernel"))
}

fn is_end(token: &Token<'_>) -> bool {
    matches!(token.text, ";" | "{" | "}")
}

/// Where the statement ends that begins at `at`.
fn statement_end(tokens: &[Token<'_>], at: usize) -> usize {
    let rest = tokens.get(at..).unwrap_or_default();
    at + rest.iter().position(is_end).unwrap_or(rest.len())
}

/// Parts at commas outside of parentheses; none of nothing.
fn parts<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    if tokens.is_empty() { Vec::new() } else { super::grid::arguments(tokens) }
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Language};
    use super::*;
    use crate::host_code::tokens;

    #[test]
    fn members_that_are_given_values_make_dimensions() {
        for (host, expected) in [
            ("dim3 g; g.x = a; g.y = b / 2; k<<<g, 1>>>();", "dim3 g; g.x = a; dim3 g(a,b / 2); k<<<g, 1>>>();"),
            ("dim3 g(a); g.y = f(b, c); k();", "dim3 g(a); dim3 g(a,f(b, c)); k();"),
            ("dim3 g = dim3(a, b), t; g.x = 2; t.x = 8;", "dim3 g = dim3(a, b), t; dim3 g(2,b); dim3 t(8);"),
            ("{ dim3 g; g.x = 1; } g.x = 2;", "{ dim3 g; dim3 g(1); } g.x = 2;"),
            // The first launch has the first values.
            (
                "dim3 g; g.x = 1; k<<<g, 1>>>(); g.x = 2; k<<<g, 1>>>();",
                "dim3 g; dim3 g(1); k<<<g, 1>>>(); g.x = 2; k<<<g, 1>>>();",
            ),
        ] {
            let words = |text| tokens(text).iter().map(|token| token.text.to_string()).collect::<Vec<_>>();
            let found: Vec<&str> = joined(tokens(host)).iter().map(|token| token.text).collect();
            assert_eq!(found, words(expected), "{host}");
        }
        for host in [
            "dim3 g(a); k<<<g, 1>>>();",
            "dim3 g; if (a) { g.x = 1; } g.y = 2;",
            "dim3 g; g.y = 2; if (a) g.x = 1; k();",
            "dim3 g; g.x = 1; g.x *= 2;",
            "dim3 g; g.x = 1; fill(&g);",
            "dim3 g; g.x = 1; g = other;",
            "dim3 g; g.x = 1; ++g.x;",
            "void f(dim3 g) { g.x = 1; }",
        ] {
            assert_eq!(joined(tokens(host)).len(), tokens(host).len(), "{host}");
        }
    }

    #[test]
    fn launches_have_their_blocks_and_threads_by_members() {
        let text = "__global__ void k(float* x, int n) { x[blockIdx.y * n + threadIdx.x] = threadIdx.y; }\n\
            void host(float* p, int m) { dim3 grid, block(8); grid.x = (m + 31) / 32; grid.y = m; block.y = 4; k<<<grid, block>>>(p, m); }";
        let shape = Draft::new(Language::Gpu, "k.cu", text, |_| None).kernels[0].shape.clone();
        assert_eq!(shape.said, Some(vec![8, 4]));
        assert_eq!(shape.grid, Some(["( n + 31 ) / 32", "n"].map(str::to_string).to_vec()));
    }
}
