//! Where aiter's sources say how a look-up rounds.

use std::collections::HashMap;

use super::Experts;
use super::program::Program;

/// `getPaddedM`, in C++.
pub(super) fn gemm(text: &str) -> Option<Program> {
    let text = without_comments(text);
    let (_, rest) = text.split_once("int getPaddedM(")?;
    let (_, body) = rest.split_once('{')?;
    Program::parse(within_braces(body)?, HashMap::new())
}

/// The rounding between the two look-ups of a dispatcher, in C++.
pub(super) fn batched(text: &str) -> Option<Program> {
    let text = without_comments(text);
    let begin = text.find("int padded_m = M;")?;
    let (body, _) = text.get(begin..)?.split_once("it = lookup.find")?;
    Program::parse(body, HashMap::new())
}

/// `get_padded_M`, in Python.
pub(super) fn tokens(text: &str) -> Option<Program> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("def get_padded_M(M"));
    lines.next()?;
    let body: Vec<&str> = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '\t'])).collect();
    Program::parse(&with_braces(&body)?, lists(text))
}

/// How the table is looked up, in Python.
pub(super) fn experts(text: &str) -> Experts {
    Experts {
        any_activation: text.contains("fallback.get(keys_disabled"),
        smaller_tiers: text.contains("_PADDED_M_TIERS[:tier_idx]"),
        drops_fallbacks: text.contains(r#"!= "flydsl_fallback"]"#),
    }
}

/// `NAME = [1, 2]` and `NAME = 1` at the beginning of a line.
fn lists(text: &str) -> HashMap<String, Vec<i64>> {
    let list = |line: &str| {
        let (name, items) = line.split_once(" = ")?;
        let items = items.trim_end();
        let items = items.strip_prefix('[').and_then(|items| items.strip_suffix(']')).unwrap_or(items).split(',');
        let items = items.map(|item| item.trim().replace('_', "").parse().ok()).collect::<Option<Vec<i64>>>()?;
        Some((name.to_string(), items))
    };
    text.lines().filter_map(list).collect()
}

/// Up to the brace that closes what is open.
fn within_braces(text: &str) -> Option<&str> {
    let mut depth = 1;
    for (place, sign) in text.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(..place);
        }
    }
    None
}

fn without_comments(text: &str) -> String {
    let line = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_string() + "\n";
    text.lines().map(line).collect()
}

/// Python's blocks with braces, and its statements with ends.
fn with_braces(lines: &[&str]) -> Option<String> {
    let mut text = String::new();
    let mut open: Vec<usize> = Vec::new();
    for line in lines {
        let code = line.split_once('#').map_or(*line, |(code, _)| code).trim_end();
        if code.trim().is_empty() {
            continue;
        }
        let indent = code.len() - code.trim_start().len();
        while open.last().is_some_and(|block| indent <= *block) {
            open.pop();
            text.push('}');
        }
        let code = code.trim().replace("elif ", "else if ");
        match code.strip_suffix(':') {
            Some(head) => {
                open.push(indent);
                text += &format!(" {head} {{");
            }
            None => text += &format!(" {code};"),
        }
    }
    text.push_str(&"}".repeat(open.len()));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_several_releases_are_read() {
        let tiers = "_PADDED_M_TIERS = [32768, 131072]\n\n\ndef get_padded_M(M):\n    if M < _PADDED_M_TIERS[0]:\n        return nextPow2(M)\n    \
            for tier in reversed(_PADDED_M_TIERS):\n        if M >= tier:\n            return tier\n    return _PADDED_M_TIERS[0]\n\n\n@x\n";
        let chain = "def get_padded_M(M):\n    padded_m = M\n    if M >= 1 and M <= 16:\n        # decoding may change\n        \
            padded_m = 16\n    elif M < 1024:\n        padded_m = nextPow2(padded_m)\n    else:\n        padded_m = 1024\n    return padded_m\n";
        let call = |text: &str| {
            let program = tokens(text).unwrap();
            [3, 96, 5000, 40000, 200_000].map(|tokens| program.call(&[("M", tokens)], "padded_m"))
        };
        assert_eq!(call(tiers), [4, 128, 8192, 32768, 131_072].map(Some));
        assert_eq!(call(chain), [16, 128, 1024, 1024, 1024].map(Some));
        let dispatcher = "auto it = lookup.find({M});\n  int padded_m = M;\n  if (M > 1 && M <= 16)\n  {\n    padded_m = 16;\n  }\n  \
            else if (M <= 16384)\n  {\n    padded_m = nextPow2(M);\n  }\n  // Second\n  it = lookup.find({padded_m});\n";
        let batched = batched(dispatcher).unwrap();
        assert_eq!([1, 5, 40].map(|m| batched.call(&[("M", m)], "padded_m")), [1, 16, 64].map(Some));
        assert!(tokens("def get_padded_M(M):\n    return [M][0]\n").is_none());
        let choice =
            tokens("LEAST = 4\n\ndef get_padded_M(M):\n    return max(nextPow2(M), LEAST) if M > 0 else 1\n").unwrap();
        assert_eq!([0, 1, 9].map(|tokens| choice.call(&[("M", tokens)], "")), [1, 4, 16].map(Some));
    }
}
