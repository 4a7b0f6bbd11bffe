//! What the body of a kernel does with a buffer, as far as its text tells.

use super::Usage;
use crate::host_code::Token;

impl Usage {
    /// What `body` does with the pointer `name`.
    pub(super) fn of(name: &str, body: &[Token<'_>]) -> Self {
        let mut usage = Self::default();
        for (at, token) in body.iter().enumerate() {
            let is_member =
                at.checked_sub(1).and_then(|before| body.get(before)).is_some_and(|token| token.text == ".");
            if token.text == name && !is_member {
                usage = usage.and(once(body, at));
            }
        }
        usage
    }

    /// What either does.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self { read: self.read || other.read, written: self.written || other.written }
    }
}

const READ: Usage = Usage { read: true, written: false };
const WRITTEN: Usage = Usage { read: false, written: true };
/// Also of what nobody knows: the pointer goes elsewhere.
const BOTH: Usage = Usage { read: true, written: true };

/// What is done where the pointer stands at `at`.
fn once(body: &[Token<'_>], at: usize) -> Usage {
    let text = |at: usize| body.get(at).map_or("", |token| token.text);
    let before = |count: usize| at.checked_sub(count).map_or("", text);
    let mut end = at + 1;
    while text(end) == "[" {
        let Some(close) = closed(body, end) else { return BOTH };
        end = close + 1;
    }
    let is_element = end > at + 1;
    // `*p = x`, where it is no product.
    let is_pointee = before(1) == "*" && matches!(before(2), "" | ";" | "{" | "}" | ")" | "=" | "(" | ",");
    if !is_element && !is_pointee {
        return BOTH;
    }
    // `p[i].x`
    while text(end) == "." {
        end += 2;
    }
    // `&p[i]`, `&(p[i])`
    let is_address =
        before(1) == "&" && matches!(before(2), "(" | "," | "=" | "return") || (before(1), before(2)) == ("(", "&");
    let changes_before = matches!((before(2), before(1)), ("+", "+") | ("-", "-"));
    if is_address || changes_before {
        return BOTH;
    }
    match (text(end), text(end + 1)) {
        ("=", "=") => READ,
        ("=", _) => WRITTEN,
        ("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", "=") | ("+", "+") | ("-", "-") => BOTH,
        ("<", "<") | (">", ">") if text(end + 2) == "=" => BOTH,
        _ => READ,
    }
}

/// Where the bracket at `open` closes.
fn closed(body: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in body.iter().enumerate().skip(open) {
        match token.text {
            "[" => depth += 1,
            "]" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_code::tokens;

    #[test]
    fn reads_and_writes_are_told_apart() {
        for (body, expected) in [
            ("p[i] = 1;", WRITTEN),
            ("*p = 1;", WRITTEN),
            ("p[i][j].x = a[i];", WRITTEN),
            ("x = p[a[i]];", READ),
            ("if (p[i] == 1 && p[i] <= 2) return;", READ),
            ("x = y * p[i]; q.p = 1;", READ),
            ("p[i] += 1;", BOTH),
            ("p[i] <<= 1;", BOTH),
            ("++p[i];", BOTH),
            ("p[i]--;", BOTH),
            ("atomicAdd(&p[i], 1);", BOTH),
            ("store(&(p[i]), 1);", BOTH),
            ("x = y & p[i];", READ),
            ("helper(p, 1);", BOTH),
            ("q[i] = 1;", Usage::default()),
            ("p[i = 1;", BOTH),
        ] {
            assert_eq!(Usage::of("p", &tokens(body)), expected, "{body}");
        }
    }
}
