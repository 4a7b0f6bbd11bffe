//! Variables that each branch of an `if` gives a value: `if (n > 1024) { block = 512; } else { block = 64; }`.

use crate::host_code::{Token, closing};

/// Tokens of a chain of branches at most.
const MOST: usize = 2048;
/// Branches of one.
const MOST_BRANCHES: usize = 16;

/// Where the first branch gives the variable at `at` its value, which another branch does there. All branches have to, one of them an `else`, and
/// what is behind them in `tokens` has to be in the same block as they are.
pub(super) fn first_branch(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let name = tokens.get(at)?.text;
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let begin = at.saturating_sub(MOST);
    for from in (begin..at).rev().filter(|from| text(*from) == "if") {
        // One of a chain is no chain of its own.
        if from.checked_sub(1).is_some_and(|before| text(before) == "else") {
            continue;
        }
        let Some((branches, end)) = chain(tokens, from) else { continue };
        if end <= at {
            continue;
        }
        let mut depth = 0_i32;
        let is_inside = tokens.get(end..)?.iter().any(|token| {
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            depth < 0
        });
        let given = |(from, to): &(usize, usize)| {
            let mut places = (*from..*to).filter(|at| {
                let is_member = at.checked_sub(1).is_some_and(|before| matches!(text(before), "." | ">"));
                text(*at) == name && !is_member
            });
            let place = places.next()?;
            // Given once, and not made of itself.
            (text(place + 1) == "=" && text(place + 2) != "=" && places.next().is_none()).then_some(place)
        };
        let places: Option<Vec<usize>> = branches.iter().map(given).collect();
        return places.filter(|places| !is_inside && places.contains(&at))?.first().copied();
    }
    None
}

/// The branches of the chain that begins with the `if` at `from`, each from where to where, and its end; `None` without an `else`.
fn chain(tokens: &[Token<'_>], from: usize) -> Option<(Vec<(usize, usize)>, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let statement = |at: usize| match text(at) {
        "{" => closing(tokens, at).map(|end| end + 1),
        _ => (at..tokens.len())
            .find(|at| matches!(text(*at), ";" | "{" | "}"))
            .filter(|at| text(*at) == ";")
            .map(|at| at + 1),
    };
    let (mut branches, mut at) = (Vec::new(), from);
    while branches.len() < MOST_BRANCHES {
        // At an `if`: behind its condition.
        let mut depth = 0_i32;
        let behind = (at + 1..tokens.len()).find(|at| {
            match text(*at) {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0
        })? + 1;
        let end = statement(behind)?;
        branches.push((behind, end));
        if text(end) != "else" {
            return None;
        }
        at = end + 1;
        if text(at) != "if" {
            let end = statement(at)?;
            branches.push((at, end));
            return Some((branches, end));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Language};

    fn launched(host: &str) -> (Option<Vec<i64>>, Option<Vec<String>>) {
        let kernel = "__global__ void k(float* x, int n) { x[blockIdx.x * n + threadIdx.x] = n; }";
        let text = format!("{kernel}\nvoid host(float* p, int len) {{ {host} }}");
        let draft = Draft::new(Language::Gpu, "k.cu", &text, |_| None);
        (draft.kernels[0].shape.said.clone(), draft.kernels[0].shape.grid.clone())
    }

    #[test]
    fn block_and_grid_are_of_one_branch() {
        let of = |block: i64, grid: &str| (Some(vec![block]), Some(vec![grid.to_string()]));
        for (host, expected) in [
            (
                "int b = 1, g; if (len > 1024) { b = 512; g = len / 512; } else { b = 64; g = len / 64; } k<<<g, b>>>(p, len);",
                of(512, "n / 512"),
            ),
            (
                "int b; if (len > 9) b = 512; else if (len > 3) b = 256; else b = 64; int g = len / b; k<<<g, b>>>(p, len);",
                of(512, "n / 512"),
            ),
            (
                "dim3 b, g; if (len > 9) { b = dim3(32); g = dim3(len / 32); } else { b = dim3(64); g = dim3(2); } k<<<g, b>>>(p, len);",
                of(32, "n / 32"),
            ),
            // Launches in branches.
            ("if (len > 9) k<<<len / 512, 512>>>(p, len); else k<<<len / 64, 64>>>(p, len);", of(512, "n / 512")),
        ] {
            assert_eq!(launched(host), expected, "{host}");
        }
        for host in [
            // Of these one may leave it as it was.
            "int g = 4; if (len > 9) { g = 2; } k<<<g, 64>>>(p, len);",
            "int g; if (len > 9) { g = 2; } else { other(); } k<<<g, 64>>>(p, len);",
            "int g; if (len > 9) { g = 2; g += 3; } else { g = 1; } k<<<g, 64>>>(p, len);",
            "int g = 4; while (len--) { if (len > 9) { g = 2; } else { g = 1; } } k<<<g, 64>>>(p, len);",
        ] {
            assert_eq!(launched(host).1, None, "{host}");
        }
    }

    #[test]
    fn a_draft_says_that_there_are_other_launches() {
        let text = "__global__ void k(float* x, int n) { x[blockIdx.x * blockDim.x + threadIdx.x] = n; }\n\
            void host(float* p, int n) { if (n > 9) k<<<n / 512, 512>>>(p, n); else k<<<n / 64, 64>>>(p, n); }";
        let spec = Draft::new(Language::Gpu, "k.cu", text, |_| None).spec();
        assert!(spec.contains("grid = [\"n / 512\"]  # blocks, as one of the file's 2 launches has it"), "{spec}");
    }
}
