//! Inline PTX of CUDA files. A statement whose instructions are known here gets words of C++ beside it, which AMD's GPUs compile in its place:
//! `bluefin_inline(asm("..." : ...), ...)`. Others stay as they are.

mod carries;
mod instructions;
mod operands;
mod words;

use std::ops::Range;

use super::{Token, take_apart, tokens};
use instructions::statement;
use operands::Operands;

/// The macro of `bluefin/ptx.h`.
const MACRO: &str = "bluefin_inline";
/// Bytes of a statement's text at most.
const MOST_TEXT: usize = 16384;

/// `text` with words beside each statement of PTX that is understood. Statements may stand in macros.
pub(crate) fn with_ptx(text: &str) -> String {
    if !text.contains("asm") || text.contains(MACRO) {
        return text.to_string();
    }
    let parts = take_apart(text);
    let mut found = statements(text, 0, &parts.tokens, &parts.directives);
    for line in parts.directives {
        // Behind its sign, which would make a line of the preprocessor of it again.
        let inner = text.get(line.start + 1..line.end).unwrap_or_default();
        found.extend(statements(inner, line.start + 1, &tokens(inner), &[]));
    }
    found.sort_by_key(|one| one.from);
    let mut changed = String::with_capacity(text.len());
    let mut from = 0;
    for Statement { from: begin, to, words } in found {
        let (Some(before), Some(own)) = (text.get(from..begin), text.get(begin..to)) else { continue };
        changed.push_str(&format!("{before}{MACRO}({own}, {})", words.trim_end()));
        from = to;
    }
    changed + text.get(from..).unwrap_or_default()
}

/// A statement in a text, and what it is in C++.
struct Statement {
    from: usize,
    to: usize,
    words: String,
}

/// The statements among the `tokens` of a part of a text that begins at `at`, whose preprocessor's lines are `directives`.
fn statements(part: &str, at: usize, tokens: &[Token<'_>], directives: &[Range<usize>]) -> Vec<Statement> {
    let named = tokens.iter().enumerate().filter(|(_, token)| matches!(token.text, "asm" | "__asm__" | "__asm"));
    let one = |(begin, token): (usize, &Token<'_>)| {
        let is_volatile = tokens.get(begin + 1).is_some_and(|next| next.text.trim_matches('_') == "volatile");
        let open = begin + 1 + usize::from(is_volatile);
        tokens.get(open).filter(|open| open.text == "(")?;
        // Each token has a byte at least.
        let most = tokens.len().min(open + MOST_TEXT);
        let close = open + closing(tokens.get(open..most)?)?;
        let end = tokens.get(close)?.at + 1;
        part.get(token.at..end).filter(|own| own.len() <= MOST_TEXT)?;
        let left_out = left_out(part, directives, token.at..end)?;
        let stays = |one: &&Token<'_>| one.text != "\\" && !left_out.iter().any(|range| range.contains(&one.at));
        let inner: Vec<Token<'_>> = tokens.get(open + 1..close)?.iter().filter(stays).cloned().collect();
        let words = words(part, &inner)?;
        Some(Statement { from: at + token.at, to: at + end, words })
    };
    named.filter_map(one).collect()
}

/// Whether a condition asks how new a GPU is, and for nothing else.
fn is_of_gpu(condition: &str) -> bool {
    let words = tokens(condition);
    let is_known = |word: &Token<'_>| {
        matches!(
            word.text,
            "__CUDA_ARCH__" | "defined" | "(" | ")" | "<" | ">" | "=" | "<=" | ">=" | "&" | "|" | "&&" | "||" | "!"
        ) || word.text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let asks = |word: &Token<'_>| word.text.starts_with(['<', '>']);
    condition.starts_with([' ', '\t', '(']) && words.iter().all(is_known) && words.iter().any(asks)
}

/// What of a statement at `own` is under a condition for which it has something else: for older GPUs as a rule, which any can do as well. `None` where
/// conditions are otherwise.
fn left_out(text: &str, directives: &[Range<usize>], own: Range<usize>) -> Option<Vec<Range<usize>>> {
    let first = directives.partition_point(|line| line.start < own.start);
    let within = directives.iter().skip(first).take_while(|line| line.start < own.end);
    let (mut found, mut open, mut has_other) = (Vec::new(), None, true);
    for line in within {
        let words = text.get(line.clone())?.strip_prefix('#')?.trim_start();
        match open {
            None if words.strip_prefix("if").is_some_and(is_of_gpu) => (open, has_other) = (Some(line.start), false),
            Some(begin) if words.starts_with("else") && !has_other => {
                found.push(begin..line.start);
                has_other = true;
            }
            Some(_) if words.starts_with("endif") && has_other => open = None,
            _ => return None,
        }
    }
    open.is_none().then_some(found)
}

/// The parenthesis that closes the one with which `tokens` begin.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| {
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// What is between the parentheses of a statement, in C++.
fn words(text: &str, inner: &[Token<'_>]) -> Option<String> {
    let literals = inner.iter().take_while(|token| token.text.starts_with('"')).count();
    let (literals, behind) = inner.split_at(literals);
    let ptx: String = literals.iter().map(|literal| unescaped(literal.text)).collect();
    let operands = match behind {
        _ if literals.is_empty() => return None,
        [] => Operands::default(),
        [colon, behind @ ..] if colon.text == ":" => Operands::of(text, behind)?,
        _ => return None,
    };
    body(&ptx, operands)
}

/// A literal without its marks.
fn unescaped(literal: &str) -> String {
    let inner = literal.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or_default();
    inner.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "").replace("\\\n", "")
}

/// What `ptx` does, in C++; `None` where an instruction is not known.
fn body(ptx: &str, mut operands: Operands) -> Option<String> {
    let plain: String =
        ptx.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut words = operands.declared();
    if plain.contains(".cc.") {
        words += carries::DECLARED;
    }
    let mut open = 0_usize;
    let mut rest = plain.trim();
    while let Some(first) = rest.chars().next() {
        match first {
            '{' => {
                (words, open) = (words + "{ ", open + 1);
                rest = rest.get(1..)?;
            }
            '}' => {
                (words, open) = (words + "} ", open.checked_sub(1)?);
                rest = rest.get(1..)?;
            }
            ';' => rest = rest.get(1..)?,
            _ => {
                let end = end_of(rest);
                words += &statement(rest.get(..end)?.trim(), &mut operands)?;
                rest = rest.get(end..)?;
            }
        }
        rest = rest.trim_start();
    }
    (open == 0).then_some(words)
}

/// Where the instruction ends with which `text` begins: at its semicolon, or where the block ends that it is in.
fn end_of(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.find(|found: char| {
        match found {
            '{' => depth += 1,
            '}' if depth == 0 => return true,
            '}' => depth -= 1,
            _ => {}
        }
        found == ';'
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_are_known_have_words_beside_them() {
        let lane = "asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane))";
        let changed = with_ptx(&format!("int f() {{ int lane;\n  {lane}; return lane; }}\n"));
        let words =
            "auto& bluefin_o0 = lane; bluefin_set(bluefin_o0, (unsigned)(bluefin_get<unsigned>(bluefin_lane())));";
        assert_eq!(changed, format!("int f() {{ int lane;\n  bluefin_inline({lane}, {words}); return lane; }}\n"));
        // Nobody knows a name that a macro makes, a label, or an instruction of another kind of GPU.
        for text in [
            "asm(\"mov.u32 %0, \" NAME \";\" : \"=r\"(x));",
            "asm(\"L: bra L;\");",
            "asm(\"wgmma.fence.sync.aligned;\");",
            "asm(\"mov.u32 %1, 0;\" : \"=r\"(x));",
            "asm(\"{ mov.u32 %0, 0;\" : \"=r\"(x));",
            "asm(\"mov.u32 %0, other;\" : \"=r\"(x));",
            "asm(",
        ] {
            assert_eq!(with_ptx(text), text);
        }
    }

    #[test]
    fn of_two_conditions_the_second_is_taken() {
        let text =
            "int f() {\n  asm(\n#if __CUDA_ARCH__ >= 900\n    \"wgmma;\"\n#else\n    \"trap;\"\n#endif\n  );\n}\n";
        let changed = with_ptx(text);
        assert_eq!(changed, text.replace("asm(", "bluefin_inline(asm(").replace("  );", "  ), __builtin_trap(););"));
        let alone = text.replace("#else\n", "");
        assert_eq!(with_ptx(&alone), alone);
        for other in [
            "#if FAST",
            "#ifdef __CUDA_ARCH__",
            "#if __CUDA_ARCH__ >= 900 && FAST",
            "#ifndef __CUDA_ARCH__",
            "#if defined(__CUDA_ARCH__)",
        ] {
            let text = text.replace("#if __CUDA_ARCH__ >= 900", other);
            assert_eq!(with_ptx(&text), text);
        }
    }

    #[test]
    fn what_is_not_translated_exactly_stays() {
        for ptx in [
            "mov.b32 %0, {};\" : \"=r\"(x)",
            "add.sat.s32 %0, %0, %0;\" : \"+r\"(x)",
            "add.f32 %0, %0, 1;\" : \"+f\"(x)",
            "cvt.rni.sat.f32.f32 %0, %0;\" : \"+f\"(x)",
            "cvt.rn.sat.f32.u32 %0, %1;\" : \"=f\"(x) : \"r\"(y)",
            "cvt.f16x2.f32 %0, %1, %1;\" : \"=r\"(x) : \"f\"(y)",
            "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;\" :: \"r\"(x), \"l\"(y), \"l\"(z)",
            "{ .reg .pred p; setp.ne.u32 p, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, p; }\" :: \"r\"(x), \"l\"(y), \"r\"(z)",
            "ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];\" : \"=r\"(x), \"=r\"(y) : \"l\"(z)",
            "ld.global.v2.u32 %0, [%1];\" : \"=r\"(x) : \"l\"(y)",
            "shfl.sync.down.b32 %0, %1, 1, 0, 0xffffffff;\" : \"=r\"(x) : \"r\"(y)",
            "shfl.sync.up.b32 %0, %1, 1, 0x1f, 0xffffffff;\" : \"=r\"(x) : \"r\"(y)",
            "shfl.sync.idx.b32 %0, %1, 1, %2, 0xffffffff;\" : \"=r\"(x) : \"r\"(y), \"r\"(z)",
            "prmt.b32 %0, %0, %0, 0x8000;\" : \"+r\"(x)",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%4,%4};\" : \"=f\"(a), \"=f\"(b), \"=f\"(c), \"=f\"(d) : \"r\"(e)",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%0,%1,%2,%3};\" : \"+f\"(a), \"+f\"(b), \"+f\"(c), \"+f\"(d) : \"r\"(e)",
        ] {
            let text = format!("asm(\"{ptx});");
            assert_eq!(with_ptx(&text), text);
        }
    }

    #[test]
    fn operands_that_are_tied_are_written_when_all_are_read() {
        let text = "asm(\"sub.s32 %0, %0, %2;\" : \"=r\"(x) : \"0\"(y), \"r\"(x));";
        let changed = with_ptx(text);
        assert!(changed.contains("bluefin_i1 = y; const auto bluefin_i2 = x; bluefin_o0 = bluefin_i1; "), "{changed}");
    }

    #[test]
    fn statements_of_macros_keep_their_lines() {
        let text = "#define WAIT(n) \\\n  asm volatile(\"cp.async.wait_group %0;\\n\" \\\n  ::\"n\"(n))\nint x;\n";
        let changed = with_ptx(text);
        assert!(changed.starts_with("#define WAIT(n) \\\n  bluefin_inline(asm volatile("), "{changed}");
        assert_eq!(changed.lines().count(), text.lines().count());
    }
}
