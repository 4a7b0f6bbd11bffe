//! Kernels in the text of C, C++, HIP and CUDA.

use bluefin_common::problem::DataType;

use super::{Kernel, Number, Parameter, ParameterKind, Shape, TemplateParameter, Usage, usage};
use crate::host_code::{Token, closing, tokens};

/// Functions that are declared to be kernels and defined.
pub(super) fn kernels(text: &str) -> Vec<Kernel> {
    let tokens = tokens(text);
    let is_kernel = |token: &Token<'_>| matches!(token.text, "__global__" | "KERNEL");
    let marks = tokens.iter().enumerate().filter(|(_, token)| is_kernel(token));
    let mut found: Vec<Kernel> = Vec::new();
    for (at, _) in marks {
        let Some(mut kernel) = kernel(&tokens, at) else { continue };
        kernel.name.insert_str(0, &namespaces(tokens.get(..at).unwrap_or_default()));
        // One that is there twice is under two conditions of the preprocessor.
        if !found.iter().any(|known| known.is_declared_as(&kernel)) {
            found.push(kernel);
        }
    }
    found
}

/// The namespaces that are open behind `tokens`: `a::b::`.
pub(super) fn namespaces(tokens: &[Token<'_>]) -> String {
    let mut open = Vec::new();
    let mut head = 0;
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.text, "{" | "}" | ";") {
            let words = tokens.get(head..at).unwrap_or_default();
            match token.text {
                "{" => open.push(words.iter().position(|word| word.text == "namespace").map(|at| words.get(at + 1..))),
                "}" => _ = open.pop(),
                _ => {}
            }
            head = at + 1;
        }
    }
    let named = open.into_iter().flatten().flatten().filter(|words| !words.is_empty());
    named.map(|words| path_of(words) + "::").collect()
}

/// The name of a namespace without attributes, or macros that stand for some, in front of it: the last of its names.
fn path_of(words: &[Token<'_>]) -> String {
    let pairs = words.iter().zip(words.iter().skip(1)).enumerate();
    let begins = pairs.filter(|(_, (one, next))| one.text != ":" && !matches!(next.text, ":" | "]" | "["));
    let begin = begins.map(|(at, _)| at + 1).next_back().unwrap_or(0);
    words.get(begin..).unwrap_or_default().iter().map(|word| word.text).collect()
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
                let end = closing(&tokens, at).unwrap_or(tokens.len());
                if has("void") && !has("static") && !has("=") {
                    let kernel = declared(words, &[]).filter(|kernel| kernel.parameters.iter().any(is_pointer));
                    found.extend(kernel.map(|mut kernel| {
                        set_usage(&mut kernel, tokens.get(at..end).unwrap_or_default());
                        kernel
                    }));
                }
                at = end;
                head = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn set_usage(kernel: &mut Kernel, body: &[Token<'_>]) {
    let pointers: Vec<String> =
        kernel.parameters.iter().filter(|one| is_pointer(one)).map(|one| one.name.clone()).collect();
    let body = usage::without_aliases(&pointers, body);
    for parameter in &mut kernel.parameters {
        parameter.usage = Usage::of(&parameter.name, &pointers, &body);
        if is_pointer(parameter) && is_taken(&parameter.name) {
            parameter.name += "_buffer";
        }
    }
}

/// Whether a name means something else than a buffer among the arguments of a spec.
pub(super) fn is_taken(name: &str) -> bool {
    matches!(name, "workspace" | "none")
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
    let mut kernel = declared(&words, before.get(head..)?)?;
    let end = closing(behind, open).unwrap_or(behind.len());
    let body = behind.get(open..end).unwrap_or_default();
    set_usage(&mut kernel, body);
    kernel.shape = Shape::of(body, &kernel.parameters);
    // It may stand in front of what says that this is a kernel.
    let head: Vec<Token<'_>> = before.get(head..)?.iter().chain(&words).cloned().collect();
    let bound = head.windows(4).find(|words| words.first().is_some_and(|first| first.text == "__launch_bounds__"));
    kernel.shape.bound = bound.and_then(|words| match words {
        [_, open, bound, close] if open.text == "(" && matches!(close.text, ")" | ",") => Some(bound.text.to_string()),
        _ => None,
    });
    Some(kernel)
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
    let is_name = |text: &str| text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let mut name = words.get(open.checked_sub(1)?)?.text.to_string();
    if !is_name(&name) {
        return None;
    }
    // It may be defined outside of the namespace that declares it.
    let mut before_name = words.get(..open - 1)?;
    while let [rest @ .., outer, first, second] = before_name
        && first.text == ":"
        && second.text == ":"
        && is_name(outer.text)
    {
        name = format!("{}::{name}", outer.text);
        before_name = rest;
    }
    let mut template = template(before);
    let parameters = parts_of(words.get(open + 1..close)?);
    let parameters =
        parameters.into_iter().filter(|part| part.first().is_some_and(|first| first.text != "void" || part.len() > 1));
    let parameters: Vec<&[Token<'_>]> = parameters.collect();
    for one in &mut template {
        one.value = parameters.iter().position(|part| match part {
            [kind, _] => kind.text == one.name,
            [constant, kind, _] => constant.text == "const" && kind.text == one.name,
            _ => false,
        });
    }
    let parameters =
        parameters.into_iter().enumerate().map(|(index, part)| parameter(part, index, &template)).collect();
    Some(Kernel { name, template, parameters, ..Kernel::default() })
}

/// What is in `template <...>`.
pub(super) fn template(before: &[Token<'_>]) -> Vec<TemplateParameter> {
    let Some(at) = before.iter().position(|token| token.text == "template") else { return Vec::new() };
    let list = before.get(at + 2..).unwrap_or_default();
    // Behind it may be attributes that name instances.
    let (mut depth, mut parentheses) = (1_i32, 0_i32);
    let end = list.iter().position(|token| {
        match token.text {
            "<" if parentheses == 0 => depth += 1,
            ">" if parentheses == 0 => depth -= 1,
            "(" => parentheses += 1,
            ")" => parentheses -= 1,
            _ => {}
        }
        depth == 0
    });
    let parts = parts_of(list.get(..end.unwrap_or(list.len())).unwrap_or_default());
    parts.into_iter().filter_map(one_of_template).collect()
}

fn one_of_template(part: &[Token<'_>]) -> Option<TemplateParameter> {
    let equals = part.iter().position(|token| token.text == "=");
    let declared = part.get(..equals.unwrap_or(part.len()))?;
    let default = equals.map(|at| spelled(part.get(at + 1..).unwrap_or_default(), &[]));
    let is_type = declared.iter().any(|token| matches!(token.text, "typename" | "class"));
    let (name, words) = declared.split_last()?;
    let number = match kind(&spelled(words, &[])) {
        ParameterKind::Small { spelled } if spelled == "bool" => Number::Bool,
        ParameterKind::Other { spelled, .. } => Number::Enumeration(spelled),
        _ => Number::Whole,
    };
    let number = (!is_type).then_some(number);
    Some(TemplateParameter { name: name.text.to_string(), number, is_said: default.is_some(), default, value: None })
}

/// A parameter of an instance of what may be a template.
fn parameter(part: &[Token<'_>], index: usize, template: &[TemplateParameter]) -> Parameter {
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
    let spelled = spelled(words, template) + if array.is_some() { " *" } else { "" };
    let name = name.unwrap_or_else(|| format!("argument{index}"));
    Parameter { name, kind: kind(&spelled), usage: Usage::default(), spelled: written(&spelled) }
}

/// A type as an entry has it: without what says nothing to callers.
fn written(spelled: &str) -> String {
    let words = spelled.split(' ').filter(|word| *word == "const" || !IGNORED.contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Words with blanks between them, as an instance of `template` has them.
fn spelled(words: &[Token<'_>], template: &[TemplateParameter]) -> String {
    let text = |token: &Token<'_>| {
        let of_template = template.iter().find(|one| one.number.is_none() && one.name == token.text);
        of_template.map_or_else(|| token.text.to_string(), TemplateParameter::type_of_instance)
    };
    words.iter().map(text).collect::<Vec<_>>().join(" ").replace(" : : ", "::")
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
        // What points to pointers has elements that no spec fills.
        if spelled.matches('*').count() > 1 {
            return ParameterKind::Pointer { element: None, spelled: plain + "*", lanes: 1, written: !is_constant };
        }
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
        "bool" | "char" | "signed char" | "unsigned char" | "uchar" | "int8_t" | "uint8_t" | "short"
        | "unsigned short" | "ushort" | "int16_t" | "uint16_t" => ParameterKind::Small { spelled: plain },
        _ => by_value(&plain),
    }
}

/// A type as a compiler knows it, without what says that it is neither a number nor a pointer.
pub(super) fn seen(spelled: &str) -> &str {
    let within = |name: &str| spelled.strip_prefix(name)?.strip_suffix('>');
    let sized = within("bluefin_bytes<").and_then(|inner| Some(inner.rsplit_once(", ")?.0));
    within("bluefin_enum<").or(sized).unwrap_or(spelled)
}

/// What else is passed by value: as a compiler says of it, or as the name of a vector says.
fn by_value(plain: &str) -> ParameterKind {
    let within = |name: &str| plain.strip_prefix(name)?.strip_suffix('>');
    if let Some(spelled) = within("bluefin_enum<") {
        return ParameterKind::Small { spelled: spelled.to_string() };
    }
    if let Some((spelled, bytes)) = within("bluefin_bytes<").and_then(|inner| inner.rsplit_once(", ")) {
        return ParameterKind::Other {
            spelled: spelled.to_string(),
            // `8u`, `(unsigned int)8`
            bytes: bytes
                .split(|found: char| !found.is_ascii_digit())
                .rfind(|part| !part.is_empty())
                .and_then(|part| part.parse().ok()),
        };
    }
    let (name, lanes) = lanes(plain);
    // A vector of three has the room of four.
    let bytes = element(name).map(|element| element.size() as u32 * lanes.next_power_of_two());
    ParameterKind::Other { spelled: plain.to_string(), bytes }
}

/// A vector's elements and how many they are.
pub(super) fn lanes(name: &str) -> (&str, u32) {
    if let Some(part) = name.strip_prefix("bluefin_complex<").and_then(|name| name.strip_suffix('>')) {
        return (part, 2);
    }
    let vector = name.strip_suffix(['2', '3', '4']).filter(|base| {
        matches!(
            *base,
            "float"
                | "double"
                | "int"
                | "uint"
                | "char"
                | "uchar"
                | "short"
                | "ushort"
                | "long"
                | "ulong"
                | "longlong"
                | "ulonglong"
                | "__half"
                | "half"
        )
    });
    let count = name.chars().last().and_then(|last| last.to_digit(10)).unwrap_or(1);
    vector.map_or((name, 1), |base| (base, count))
}

/// What elements of the type `name` are.
pub(super) fn element(name: &str) -> Option<DataType> {
    Some(match name {
        "float" => DataType::Fp32,
        "double" => DataType::Fp64,
        "_Float16" | "__half" | "half" | "__fp16" => DataType::Fp16,
        "__bf16" | "std::bfloat16_t" | "bfloat" | "__nv_bfloat16" | "nv_bfloat16" | "__hip_bfloat16"
        | "hip_bfloat16" => DataType::Bf16,
        "__nv_fp8_e4m3" | "__hip_fp8_e4m3" => DataType::Fp8,
        "__nv_fp8_e5m2" | "__hip_fp8_e5m2" => DataType::Bf8,
        "__hip_fp8_e4m3_fnuz" => DataType::Fp8Fnuz,
        "__hip_fp8_e5m2_fnuz" => DataType::Bf8Fnuz,
        "bool" => DataType::Bool,
        "char" | "signed char" | "int8_t" | "std::int8_t" => DataType::Int8,
        "unsigned char" | "uchar" | "uint8_t" | "std::uint8_t" => DataType::Uint8,
        "short" | "short int" | "int16_t" | "std::int16_t" => DataType::Int16,
        "unsigned short" | "ushort" | "uint16_t" | "std::uint16_t" => DataType::Uint16,
        "int" | "int32_t" | "std::int32_t" => DataType::Int32,
        "unsigned" | "unsigned int" | "uint" | "uint32_t" | "std::uint32_t" => DataType::Uint32,
        "long" | "long long" | "longlong" | "int64_t" | "std::int64_t" | "ptrdiff_t" => DataType::Int64,
        "unsigned long" | "unsigned long long" | "ulonglong" | "ulong" | "size_t" | "std::size_t" | "uint64_t"
        | "std::uint64_t" => DataType::Uint64,
        _ => return None,
    })
}

/// The words of a list that is separated by commas outside of brackets.
pub(super) fn parts_of<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let mut depth = 0_i32;
    let parts = tokens.split(|token| {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" | ">" => depth -= 1,
            _ => {}
        }
        token.text == "," && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}
