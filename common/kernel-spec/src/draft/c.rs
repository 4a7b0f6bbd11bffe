//! Kernels in the text of C, C++, HIP and CUDA.

use bluefin_common::problem::DataType;

use super::{Kernel, Parameter, ParameterKind, TemplateParameter, parts_of};
use crate::host_code::{Token, closing, tokens};

/// Functions that are declared to be kernels and defined.
pub(super) fn kernels(text: &str) -> Vec<Kernel> {
    let tokens = tokens(text);
    let is_kernel = |token: &Token<'_>| matches!(token.text, "__global__" | "KERNEL");
    let marks = tokens.iter().enumerate().filter(|(_, token)| is_kernel(token));
    let mut found: Vec<Kernel> = Vec::new();
    for (at, _) in marks {
        let Some(kernel) = kernel(&tokens, at) else { continue };
        if !found.contains(&kernel) {
            found.push(kernel);
        }
    }
    found
}

/// Functions of C that may be entries.
pub(super) fn functions(text: &str) -> Vec<Kernel> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let (mut head, mut at) = (0, 0);
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" | "}" => head = at + 1,
            "{" => {
                let words = tokens.get(head..at).unwrap_or_default();
                let has = |word: &str| words.iter().any(|token| token.text == word);
                if has("void") && !has("static") && !has("=") {
                    found.extend(declared(words, &[]).filter(|kernel| kernel.parameters.iter().any(is_pointer)));
                }
                at = closing(&tokens, at).unwrap_or(tokens.len());
                head = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn is_pointer(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParameterKind::Pointer { .. })
}

/// The kernel whose mark is at `mark`, if it is defined there.
fn kernel(tokens: &[Token<'_>], mark: usize) -> Option<Kernel> {
    let behind = tokens.get(mark..)?;
    let open = behind.iter().position(|token| matches!(token.text, "{" | ";"))?;
    if behind.get(open)?.text != "{" {
        return None;
    }
    let words: Vec<Token<'_>> = behind.get(1..open)?.to_vec();
    let before = tokens.get(..mark)?;
    let head = before.iter().rposition(|token| matches!(token.text, ";" | "}" | "{")).map_or(0, |at| at + 1);
    declared(&words, before.get(head..)?)
}

/// The function that `words` declare, behind what may be a template's head.
fn declared(words: &[Token<'_>], before: &[Token<'_>]) -> Option<Kernel> {
    // Attributes have parentheses too, and so has `__launch_bounds__`: the parameters are in the last ones.
    let close = words.iter().rposition(|token| token.text == ")")?;
    let mut depth = 0_usize;
    let open = words.get(..=close)?.iter().rposition(|token| {
        match token.text {
            ")" => depth += 1,
            "(" => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let name = words.get(open.checked_sub(1)?)?.text;
    if !name.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        return None;
    }
    let parameters = parts_of(words.get(open + 1..close)?);
    let parameters =
        parameters.into_iter().filter(|part| part.first().is_some_and(|first| first.text != "void" || part.len() > 1));
    let parameters = parameters.enumerate().map(|(index, part)| parameter(part, index)).collect();
    Some(Kernel { name: name.to_string(), template: template(before), parameters })
}

/// What is in `template <...>`.
fn template(before: &[Token<'_>]) -> Vec<TemplateParameter> {
    let Some(at) = before.iter().position(|token| token.text == "template") else { return Vec::new() };
    let end = before.iter().rposition(|token| token.text == ">").unwrap_or(before.len());
    let parts = parts_of(before.get(at + 2..end).unwrap_or_default());
    parts.into_iter().filter_map(one_of_template).collect()
}

fn one_of_template(part: &[Token<'_>]) -> Option<TemplateParameter> {
    let equals = part.iter().position(|token| token.text == "=");
    let declared = part.get(..equals.unwrap_or(part.len()))?;
    let default = equals.map(|at| spelled(part.get(at + 1..).unwrap_or_default()));
    let is_type = declared.iter().any(|token| matches!(token.text, "typename" | "class"));
    Some(TemplateParameter { name: declared.last()?.text.to_string(), is_type, default })
}

fn parameter(part: &[Token<'_>], index: usize) -> Parameter {
    let equals = part.iter().position(|token| token.text == "=").unwrap_or(part.len());
    let part = part.get(..equals).unwrap_or_default();
    let array = part.iter().position(|token| token.text == "[");
    let declared = part.get(..array.unwrap_or(part.len())).unwrap_or_default();
    let named = declared.len() > 1
        && declared
            .last()
            .is_some_and(|last| last.text.starts_with(|first: char| first.is_alphabetic() || first == '_'));
    let name = if named { declared.last().map(|last| last.text.to_string()) } else { None };
    let words = declared.get(..declared.len() - usize::from(named)).unwrap_or_default();
    let spelled = spelled(words) + if array.is_some() { " *" } else { "" };
    Parameter { name: name.unwrap_or_else(|| format!("argument{index}")), kind: kind(&spelled) }
}

/// Words with blanks between them.
fn spelled(words: &[Token<'_>]) -> String {
    words.iter().map(|token| token.text).collect::<Vec<_>>().join(" ").replace(" : : ", "::")
}

const IGNORED: [&str; 8] =
    ["const", "volatile", "restrict", "__restrict__", "__restrict", "struct", "__grid_constant__", "__const__"];

/// What a parameter of the type `spelled` takes.
pub(super) fn kind(spelled: &str) -> ParameterKind {
    let is_constant = spelled.split(|found: char| !found.is_alphanumeric() && found != '_').any(|word| word == "const");
    let is_pointer = spelled.contains('*');
    let apart = spelled.replace(['*', '&'], " ");
    let words: Vec<&str> = apart.split_whitespace().filter(|word| !IGNORED.contains(word)).collect();
    let plain = words.join(" ");
    if is_pointer {
        let (name, lanes) = lanes(&plain);
        return ParameterKind::Pointer { element: element(name), spelled: plain.clone(), lanes, written: !is_constant };
    }
    match plain.as_str() {
        "int" | "unsigned" | "unsigned int" | "uint" | "signed" | "int32_t" | "uint32_t" | "std::int32_t"
        | "std::uint32_t" => ParameterKind::I32,
        "long" | "long long" | "unsigned long" | "unsigned long long" | "long int" | "size_t" | "std::size_t"
        | "int64_t" | "uint64_t" | "ptrdiff_t" | "long long int" | "unsigned long int" | "ulong" => ParameterKind::I64,
        "float" => ParameterKind::F32,
        "double" => ParameterKind::F64,
        _ => ParameterKind::Other { spelled: plain },
    }
}

/// A vector's elements and how many they are.
fn lanes(name: &str) -> (&str, u32) {
    let vector = name.strip_suffix(['2', '3', '4']).filter(|base| {
        matches!(
            *base,
            "float" | "double" | "int" | "uint" | "char" | "uchar" | "long" | "longlong" | "__half" | "half"
        )
    });
    let count = name.chars().last().and_then(|last| last.to_digit(10)).unwrap_or(1);
    vector.map_or((name, 1), |base| (base, count))
}

fn element(name: &str) -> Option<DataType> {
    Some(match name {
        "float" => DataType::Fp32,
        "double" => DataType::Fp64,
        "_Float16" | "__half" | "half" | "__fp16" => DataType::Fp16,
        "__bf16" | "bfloat" | "__nv_bfloat16" | "nv_bfloat16" | "__hip_bfloat16" | "hip_bfloat16" => DataType::Bf16,
        "char" | "signed char" | "unsigned char" | "uchar" | "bool" | "int8_t" | "uint8_t" => DataType::Int8,
        "int" | "unsigned" | "unsigned int" | "uint" | "int32_t" | "uint32_t" => DataType::Int32,
        "long" | "long long" | "unsigned long" | "unsigned long long" | "size_t" | "int64_t" | "uint64_t"
        | "longlong" => DataType::Int64,
        _ => return None,
    })
}
