//! What the body of a kernel does with a buffer, as far as its text tells.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Usage;
use crate::host_code::Token;

impl Usage {
    /// What `body` does with the pointer `name`, which is one of `pointers`.
    pub(super) fn of(name: &str, pointers: &[String], body: &[Token<'_>]) -> Self {
        let mut usage = Self::default();
        for (at, token) in body.iter().enumerate() {
            let is_member =
                at.checked_sub(1).and_then(|before| body.get(before)).is_some_and(|token| token.text == ".");
            // A tensor's size is none of its elements.
            let next = |count: usize| body.get(at + count).map_or("", |token| token.text);
            let is_size = next(1) == "." && matches!(next(2), "size" | "stride");
            if token.text == name && !is_member && !is_size {
                let (greatest, least) = (is_kept(body, at, "atomicMax"), is_kept(body, at, "atomicMin"));
                usage = usage.and(Self { greatest, least, otherwise: !greatest && !least, ..once(body, at) });
                usage.indexes |= is_index(body, at, pointers);
                usage.counts |= is_counter(body, at);
            }
        }
        usage.indexes |= is_index_by_way(name, pointers, body);
        usage.origin = if usage.indexes { origin(body) } else { 0 };
        usage.begins = usage.indexes && has_next(name, body);
        usage
    }

    /// What `tokens` do with the member `name` of whatever has it.
    pub(super) fn of_member(name: &str, tokens: &[Token<'_>]) -> Self {
        let mut usage = Self::default();
        for (at, token) in tokens.iter().enumerate() {
            let before =
                |count: usize| at.checked_sub(count).and_then(|at| tokens.get(at)).map_or("", |token| token.text);
            if token.text == name && (before(1) == "." || (before(2), before(1)) == ("-", ">")) {
                usage = usage.and(once(tokens, at));
                usage.indexes |= is_index(tokens, at, &[]);
            }
        }
        // What nothing shows may be anything: a member function reads or writes it.
        if usage == Self::default() { BOTH } else { usage }
    }

    /// What either does.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            written: self.written || other.written,
            indexes: self.indexes || other.indexes,
            begins: self.begins || other.begins,
            counts: self.counts || other.counts,
            greatest: self.greatest || other.greatest,
            least: self.least || other.least,
            otherwise: self.otherwise || other.otherwise,
            origin: self.origin.max(other.origin),
        }
    }
}

const READ: Usage = Usage {
    read: true,
    written: false,
    indexes: false,
    begins: false,
    counts: false,
    greatest: false,
    least: false,
    otherwise: true,
    origin: 0,
};
const WRITTEN: Usage = Usage { read: false, written: true, ..READ };
/// Also of what nobody knows: the pointer goes elsewhere.
const BOTH: Usage = Usage { written: true, ..READ };

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
    // `(*p)++`, `AS_FLOAT4(p[i]) = x`: a macro makes another element of it.
    let mut first = if is_pointee { at.saturating_sub(1) } else { at };
    while let Some(open) = first.checked_sub(1).filter(|open| text(*open) == "(" && text(end) == ")") {
        let made = open.checked_sub(1).map_or("", text);
        if matches!(made, "if" | "while" | "switch") {
            return READ;
        }
        first = if is_name(made) { open - 1 } else { open };
        end += 1;
        while text(end) == "." {
            end += 2;
        }
    }
    match (text(end), text(end + 1)) {
        ("=", "=") => READ,
        ("=", _) => WRITTEN,
        ("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^", "=") | ("+", "+") | ("-", "-") => BOTH,
        ("<", "<") | (">", ">") if text(end + 2) == "=" => BOTH,
        _ => READ,
    }
}

/// Whether the element that stands at `at` is an index: `a[p[i]]`, or `j = p[i]` where there is an `a[j]`, or an `a + j` of one of `pointers`.
fn is_index(body: &[Token<'_>], at: usize, pointers: &[String]) -> bool {
    let text = |at: usize| body.get(at).map_or("", |token| token.text);
    if text(at + 1) != "[" {
        return false;
    }
    let is_added = |at: usize| is_added(body, at, pointers);
    if in_brackets(body, at) || is_added(at) {
        return true;
    }
    let Some([.., name, equals]) = body.get(..at) else { return false };
    is_name(name.text)
        && equals.text == "="
        && body.iter().enumerate().any(|(other, token)| {
            token.text == name.text && (in_brackets(body, other) || moves_pointer(body, other) || is_added(other))
        })
}

/// The most words of an index that is compared with others.
const LONGEST_INDEX: usize = 64;

/// Whether elements of `name` beside each other are read as where something begins and ends: `p[i]` and `p[i + 1]`, but `p[2 * i]` and
/// `p[2 * i + 1]`, which may be a pair, as the bounds of a loop or in a difference alone.
fn has_next(name: &str, body: &[Token<'_>]) -> bool {
    let words = |range: Range<usize>| -> Vec<&str> {
        body.get(range).unwrap_or_default().iter().map(|token| token.text).collect()
    };
    let named = body.iter().enumerate().filter(|(_, token)| token.text == name);
    let elements = named.filter_map(|(at, _)| {
        let near = body.get(..body.len().min(at + LONGEST_INDEX + 3))?;
        let close = closed(near, at + 1).filter(|_| near.get(at + 1).is_some_and(|open| open.text == "["))?;
        Some((at, close, words(at + 2..close)))
    });
    let elements: Vec<(usize, usize, Vec<&str>)> = elements.collect();
    let follows = |next: &[&str], index: &[&str]| next.strip_suffix(&["+", "1"]) == Some(index);
    let are_bounds = |pair: &[(usize, usize, Vec<&str>)]| match pair {
        [(_, close, first), (at, _, second)] => match body.get(close + 1..*at) {
            Some([minus]) if minus.text == "-" => follows(first, second),
            Some([end, _, less]) if end.text == ";" && less.text == "<" => follows(second, first),
            _ => false,
        },
        _ => false,
    };
    let all: BTreeSet<&[&str]> = elements.iter().map(|(_, _, index)| index.as_slice()).collect();
    let is_product = |index: &[&str]| index.contains(&"*") || index.windows(2).any(|pair| pair == ["<"; 2]);
    let has_before =
        |next: &[&str]| next.strip_suffix(&["+", "1"]).is_some_and(|index| !is_product(index) && all.contains(index));
    // Two lanes read both: `if (lane < 2) bounds[lane] = p[i + lane]`.
    let is_of_two = |index: &[&str]| match index {
        [.., plus, lane] => {
            *plus == "+"
                && body.windows(4).any(|words| match words {
                    [one, less, two, end] => {
                        one.text == *lane && less.text == "<" && two.text == "2" && matches!(end.text, ")" | "&")
                    }
                    _ => false,
                })
        }
        _ => false,
    };
    elements.windows(2).any(are_bounds) || all.iter().any(|next| has_before(next) || is_of_two(next))
}

/// `body` with the names of `pointers` in the place of those that it gives to where they lead: `const int* row = table + j * 4`.
pub(super) fn without_aliases<'a>(pointers: &'a [String], body: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut aliases: BTreeMap<&str, &'a str> = BTreeMap::new();
    let text = |at: usize| body.get(at).map_or("", |token| token.text);
    let is_declared = |at: usize| matches!(text(at), "*" | "auto" | "__restrict__" | "__restrict" | "restrict");
    for at in 1..body.len() {
        let name = text(at);
        if text(at + 1) != "=" || text(at + 2) == "=" || !is_declared(at - 1) || !is_name(name) {
            continue;
        }
        // An address is that of an element, and a plain name what is pointed to.
        let begin = (at + 2..body.len()).find(|at| text(*at) != "(").unwrap_or(body.len());
        let is_address = text(begin) == "&";
        let first = text(begin + usize::from(is_address));
        let next = text(begin + 1 + usize::from(is_address));
        let is_place = if is_address { next == "[" } else { matches!(next, "+" | ";") };
        let known = pointers.iter().map(String::as_str).find(|pointer| *pointer == first);
        if let Some(root) = known.or_else(|| aliases.get(first).copied()).filter(|_| is_place) {
            aliases.insert(name, root);
        }
    }
    let renamed = |token: &Token<'a>| {
        let mut token = token.clone();
        token.text = aliases.get(token.text).copied().unwrap_or(token.text);
        token
    };
    body.iter().map(renamed).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The letter that a body takes from others to count from it, `x[i] - 'a'`; 0 where there is none.
fn origin(body: &[Token<'_>]) -> u8 {
    let letters = body.windows(2).filter_map(|pair| match pair {
        [minus, letter] if minus.text == "-" => letter.text.strip_prefix('\'')?.strip_suffix('\''),
        _ => None,
    });
    letters.filter_map(|letter| if let [letter] = letter.as_bytes() { Some(*letter) } else { None }).next().unwrap_or(0)
}

/// Variables of fractions, by which nothing is indexed.
const FRACTIONS: [&str; 6] = ["float", "double", "half", "__half", "float4", "float2"];

/// Whether a variable that is computed from elements of `name`, itself or by way of others, is an index.
fn is_index_by_way(name: &str, pointers: &[String], body: &[Token<'_>]) -> bool {
    let mut derived: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = derived.len();
        for (at, token) in body.iter().enumerate() {
            let is_address = at.checked_sub(1).and_then(|at| body.get(at)).is_some_and(|before| before.text == "&");
            let is_element = token.text == name && !is_address && body.get(at + 1).is_some_and(|next| next.text == "[");
            if !is_element && !derived.contains(token.text) {
                continue;
            }
            let is_used = in_brackets(body, at) || moves_pointer(body, at) || is_added(body, at, pointers);
            if is_used {
                return true;
            }
            derived.extend(given(body, at).filter(|given| *given != name && *given != token.text));
        }
        if derived.len() == before {
            return false;
        }
    }
}

/// The variable, or the array, that is given a value in which the token at `at` stands; none that holds fractions.
fn given<'a>(body: &[Token<'a>], at: usize) -> Option<&'a str> {
    let begin = body.get(..at)?.iter().rposition(|token| matches!(token.text, ";" | "{" | "}")).map_or(0, |at| at + 1);
    let statement = body.get(begin..at)?;
    if statement.iter().any(|token| FRACTIONS.contains(&token.text)) {
        return None;
    }
    let text = |at: usize| statement.get(at).map_or("", |token| token.text);
    let is_compared = |at: usize| text(at + 1) == "=" || matches!(text(at.wrapping_sub(1)), "=" | "!" | "<" | ">");
    // `for (...; j += step) t[j] = x` gives `t` a value, and `j` none.
    let mut closed = 0_i32;
    let equals = (1..statement.len()).rev().find(|at| {
        match text(*at) {
            ")" => closed += 1,
            "(" => closed -= 1,
            _ => {}
        }
        text(*at) == "=" && closed <= 0 && !is_compared(*at)
    })?;
    let mut target = equals - 1;
    // `x += y`, `x[i] = y`
    if matches!(text(target), "+" | "-" | "*" | "|" | "^") {
        target = target.checked_sub(1)?;
    }
    while text(target) == "]" {
        let mut depth = 0_usize;
        let open = (0..=target).rev().find(|at| {
            match text(*at) {
                "]" => depth += 1,
                "[" => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        target = open?.checked_sub(1)?;
    }
    let found = text(target);
    found.starts_with(|first: char| first.is_alphabetic() || first == '_').then_some(found)
}

/// Whether the token at `at` is part of a sum that begins with one of `pointers`: `a + i * n + j`, `a += j`.
fn is_added(body: &[Token<'_>], at: usize, pointers: &[String]) -> bool {
    let text = |at: usize| body.get(at).map_or("", |token| token.text);
    let is_pointer = |at: usize| pointers.iter().any(|pointer| *pointer == text(at));
    let mut closed = 0_usize;
    for before in (0..at).rev() {
        match text(before) {
            ")" | "]" => closed += 1,
            "(" | "[" if closed > 0 => closed -= 1,
            ";" | "{" | "}" | "[" | "," | "?" | "<" | ">" => return false,
            "=" => return text(before.wrapping_sub(1)) == "+" && is_pointer(before.wrapping_sub(2)),
            "+" if closed == 0 && is_pointer(before.wrapping_sub(1)) => {
                let first = before.wrapping_sub(2);
                return matches!(text(first), "(" | "," | "=" | "&" | "*" | "return" | ";" | "{" | "}" | ")");
            }
            _ => {}
        }
    }
    false
}

/// Whether what an atomic adds to where the pointer at `at` points is an index: `a[atomicAdd(p, 1)]`, or `j = atomicAdd(p, 1)` and `a[j]`.
fn is_counter(body: &[Token<'_>], at: usize) -> bool {
    let text = |at: usize| body.get(at).map_or("", |token| token.text);
    let before = |count: usize| at.checked_sub(count).map_or("", text);
    let call = if before(1) == "&" { at.checked_sub(3) } else { at.checked_sub(2) };
    let Some(call) = call.filter(|call| matches!(text(*call), "atomicAdd" | "atomicInc") && text(call + 1) == "(")
    else {
        return false;
    };
    if in_brackets(body, call) {
        return true;
    }
    let Some([.., name, equals]) = body.get(..call) else { return false };
    let is_used = |(other, token): (usize, &Token<'_>)| token.text == name.text && in_brackets(body, other);
    equals.text == "=" && body.iter().enumerate().any(is_used)
}

/// Whether `atomic` keeps the greatest or the least of values where the pointer at `at` points.
fn is_kept(body: &[Token<'_>], at: usize, atomic: &str) -> bool {
    let before = |count: usize| at.checked_sub(count).and_then(|at| body.get(at)).map_or("", |token| token.text);
    let signs = if before(1) == "&" { 1 } else { 0 };
    before(signs + 1) == "(" && before(signs + 2) == atomic
}

/// Whether the token at `at` is part of what a pointer is given: `const float* row = table + j * n`.
fn moves_pointer(body: &[Token<'_>], at: usize) -> bool {
    let before = body.get(..at).unwrap_or_default();
    let begin = before.iter().rposition(|token| matches!(token.text, ";" | "{" | "}")).map_or(0, |at| at + 1);
    let statement = before.get(begin..).unwrap_or_default();
    let is_given = |pair: &[Token<'_>]| matches!(pair, [one, two] if one.text == "=" && two.text != "=");
    let equals = statement.windows(2).position(is_given);
    let declared = equals.and_then(|equals| statement.get(..equals)).unwrap_or_default();
    matches!(declared, [.., kind, star, _] if star.text == "*" && kind.text != "*")
        && declared.iter().all(|token| token.text != "(")
}

/// Whether the token at `at` is part of an index.
fn in_brackets(body: &[Token<'_>], at: usize) -> bool {
    let mut closed = 0_usize;
    for token in body.get(..at).unwrap_or_default().iter().rev() {
        match token.text {
            "]" => closed += 1,
            "[" if closed == 0 => return true,
            "[" => closed -= 1,
            ";" | "{" | "}" => return false,
            _ => {}
        }
    }
    false
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

    const INDEX: Usage = Usage { indexes: true, ..READ };
    const COUNTER: Usage = Usage { counts: true, ..BOTH };

    #[test]
    fn reads_and_writes_are_told_apart() {
        for (body, expected) in [
            ("p[i] = 1;", WRITTEN),
            ("*p = 1;", WRITTEN),
            ("p[i][j].x = a[i];", WRITTEN),
            ("x = p[a[i]];", READ),
            ("AS_FLOAT4(p[AT(i, j)]) = AS_FLOAT4(a[i]);", WRITTEN),
            ("AS_FLOAT4((p[i])).x = 1;", WRITTEN),
            ("AS_FLOAT4(a[i]) = AS_FLOAT4(p[i]);", READ),
            ("if (p[i]) ++x; y = sum(p[i]) == 1;", READ),
            ("(*p)++;", BOTH),
            ("x = a[p[i]];", INDEX),
            ("x = a[p[i] + j];", INDEX),
            ("int j = p[i]; x = a[n * j];", INDEX),
            ("int j = p[i]; const float* row = a + j * n; x = row[i];", INDEX),
            ("int j = p[i]; atomicAdd(a + j, 1);", INDEX),
            ("atomicAdd(a + p[i], 1);", INDEX),
            ("int j = p[i]; x = b + j;", READ),
            ("int j = p[i]; atomicAdd(a + k * n + j, 1);", INDEX),
            ("int j = p[i]; int l = k * n + j; x = b[l];", INDEX),
            ("int j; j = p[i] / 2; s[k] = j; int l = s[k + 1]; x = a[l * n];", INDEX),
            ("a += p[i] * n; x = a[0];", INDEX),
            ("int j = p[i] - 'a'; atomicAdd(&s[j / 4], 1);", Usage { origin: b'a', ..INDEX }),
            ("float j = p[i]; float l = j; x = b[(int)l];", READ),
            ("int j = p[i]; int l = j; x = l == a[k];", READ),
            ("int j = p[i]; float y = x * j;", READ),
            ("int j = p[i]; if (a * b == j) x = 1;", READ),
            ("for (int j = p[i]; j < p[i + 1]; j++) x += a[j];", Usage { begins: true, ..INDEX }),
            ("x = p[i + 1] - p[i];", READ),
            ("int j = p[i]; int e = p[i + 1]; x = a[j];", Usage { begins: true, ..INDEX }),
            ("x = a[p[2 * i]] + a[p[2 * i + 1]];", INDEX),
            ("for (int j = p[n * i]; j < p[n * i + 1]; j++) x += a[j];", Usage { begins: true, ..INDEX }),
            ("n = p[2 * i + 1] - p[2 * i]; x = a[p[2 * i]];", Usage { begins: true, ..INDEX }),
            ("if (l < 2) r[l] = p[i + l]; int j = r[0]; x = a[j];", Usage { begins: true, ..INDEX }),
            ("if (l < 3) r[l] = p[i + l]; int j = r[0]; x = a[j];", INDEX),
            ("for (l = 0; l < 2 * n; ++l) x += a[p[i + l]];", INDEX),
            ("int j = p[i]; x = b * j + a[i];", READ),
            ("if (p[i] == 1 && p[i] <= 2) return;", READ),
            ("x = y * p[i]; q.p = 1;", READ),
            ("for (int j = 0; j < m; j += r) if (k < n) s[k + j] = p[k]; x = s[j];", READ),
            ("p[i] += 1;", BOTH),
            ("p[i] <<= 1;", BOTH),
            ("++p[i];", BOTH),
            ("p[i]--;", BOTH),
            ("atomicAdd(&p[i], 1);", BOTH),
            ("a[atomicAdd(p, 1)] = 1;", COUNTER),
            ("int j = atomicInc(&p[0], n); a[j] = 1;", COUNTER),
            ("int j = atomicAdd(p, 1); x = j;", BOTH),
            ("atomicMax(p, x);", Usage { greatest: true, otherwise: false, ..BOTH }),
            ("p[0] = 0; atomicMin(&p[i], x);", Usage { least: true, ..BOTH }),
            ("store(&(p[i]), 1);", BOTH),
            ("x = y & p[i];", READ),
            ("if (i < p.size(0)) x = p[i][0];", READ),
            ("helper(p, 1);", BOTH),
            ("q[i] = 1;", Usage::default()),
            ("p[i = 1;", BOTH),
        ] {
            assert_eq!(Usage::of("p", &["a".to_string()], &tokens(body)), expected, "{body}");
        }
    }

    #[test]
    fn elements_by_another_name_are_those_of_the_pointer() {
        let pointers = ["p".to_string(), "a".to_string()];
        let body = "const int* q = p + 4 * i; int* r = q; auto s = &a[i]; float* t = a[0]; int* u = p == a; x = a[q[1]] + r[0] + s[1] + t[2];";
        let tokens = tokens(body);
        let words: Vec<&str> = without_aliases(&pointers, &tokens).iter().map(|token| token.text).collect();
        let plain = "p = p + 4 * i ; int * p = p ; auto a = & a [ i ] ; float * t = a [ 0 ] ; int * u = p = = a ; x = a [ p [ 1 ] ] + p [ 0 ] + a [ 1 ] + t [ 2 ] ;";
        assert_eq!(words.join(" "), format!("const int * {plain}"));
    }
}
