//! Structures that a kernel takes by value: a compiler's layout of one becomes fields with values, as other parameters have them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bluefin_common::structure::MAX_BYTES;

use super::{Field, Layout, Parameter, ParameterKind, Usage, c};
use crate::host_code::Token;

/// Fields that are written one by one: a spec has no longer lists.
const MAX_FIELDS: usize = 256;
/// Elements of an array that are written one by one.
const MAX_ELEMENTS: u32 = 32;
/// Names of a vector's elements.
const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The parameter `parameter` as a structure of this layout. Names of `taken` are other parameters'; those of its fields are added.
pub(super) fn set(parameter: &mut Parameter, layout: &Layout, taken: &mut BTreeSet<String>, files: &[Vec<Token<'_>>]) {
    let ParameterKind::Other { spelled, .. } = &parameter.kind else { return };
    if layout.size > MAX_BYTES || layout.fields.len() > MAX_FIELDS {
        return;
    }
    let spelled = spelled.clone();
    // What a kernel does with a tensor it does with its elements.
    let is_tensor = spelled.contains("PackedTensorAccessor");
    let mut fields = Vec::with_capacity(layout.fields.len());
    let mut end = 0;
    for field in &layout.fields {
        let other = if field.spelled.ends_with('*') { 8 } else { 1 };
        let width = number(&field.spelled).map_or(other, |(_, width, _)| width);
        // Of a union the first view is enough.
        if field.at < end {
            continue;
        }
        end = field.at.saturating_add(width.saturating_mul(field.count));
        let last = field.path.last().map_or("", String::as_str);
        let long = format!("{}_{}", parameter.name, field.path.join("_"));
        // A component says nothing alone, and what two structures have is told apart.
        let name = match last {
            "" => parameter.name.clone(),
            last if COMPONENTS.contains(&last) || taken.contains(last) || c::is_taken(last) => long,
            last => last.to_string(),
        };
        taken.insert(name.clone());
        let mut usage = Usage::default();
        match is_tensor && field.spelled.contains('*') {
            true => usage = parameter.usage,
            false => files.iter().for_each(|tokens| usage = usage.and(Usage::of_member(last, tokens))),
        }
        let kind = kind(&field.spelled, field.count);
        let value = Parameter { name, kind, usage, spelled: field.spelled.clone() };
        fields.push(Field { at: field.at, count: field.count, size: component_size(&layout.fields, last), value });
    }
    parameter.kind = ParameterKind::Structure { spelled, size: layout.size, alignment: layout.alignment, fields };
}

/// What a field is, of which there are `count` in a row.
fn kind(spelled: &str, count: u32) -> ParameterKind {
    let name = spelled.to_string();
    match c::kind(spelled) {
        // Functions, arrays and pointers are nothing that a buffer holds.
        _ if spelled.contains('(') || spelled.matches('*').count() > 1 => {
            ParameterKind::Other { spelled: name, bytes: None }
        }
        ParameterKind::I32 | ParameterKind::I64 if count > 1 => ParameterKind::Small { spelled: name },
        kind => kind,
    }
}

/// What a whole number called `name` is, where it is no size like others: sides of what a vector counts have about a thousand elements
/// together.
fn component_size(fields: &[super::LayoutField], name: &str) -> Option<i64> {
    COMPONENTS.contains(&name).then_some(())?;
    let components = fields.iter().filter(|field| field.path.last().is_some_and(|last| COMPONENTS.contains(&&**last)));
    Some(match components.count() {
        2 => 31,
        3 => 10,
        _ => 5,
    })
}

/// A field's type as a spec has it, its bytes, and its value where it is no size.
fn number(spelled: &str) -> Option<(&'static str, u32, &'static str)> {
    let plain = spelled.trim_start_matches("const ").trim_start_matches("volatile ");
    Some(match plain {
        "bool" | "_Bool" => ("i1", 1, "false"),
        "char" | "signed char" => ("i8", 1, "1"),
        "unsigned char" => ("u8", 1, "1"),
        "short" => ("i16", 2, "1"),
        "unsigned short" => ("u16", 2, "1"),
        "int" => ("i32", 4, "1"),
        "unsigned int" => ("u32", 4, "1"),
        "long" | "long long" => ("i64", 8, "1"),
        "unsigned long" | "unsigned long long" => ("u64", 8, "1"),
        "float" => ("f32", 4, "1.0"),
        "double" => ("f64", 8, "1.0"),
        // The bits of 1.0.
        "_Float16" | "__fp16" => ("u16", 2, "0x3c00"),
        "__bf16" => ("u16", 2, "0x3f80"),
        _ => return None,
    })
}

/// A structure as an argument of a launch; `size` is what a size is called.
pub(super) fn argument(
    (name, kind): (&str, &ParameterKind),
    size: impl Fn(&str) -> String,
    remarks: &mut Vec<String>,
) -> String {
    let ParameterKind::Structure { spelled, size: bytes, alignment, fields } = kind else { return String::new() };
    let mut texts: Vec<String> = Vec::new();
    let (mut end, mut natural, mut zeros, mut ones) = (0_u32, 1_u32, Vec::new(), Vec::new());
    for Field { at, count, value, .. } in fields {
        let (what, width) = match (&value.kind, number(&value.spelled)) {
            (ParameterKind::Pointer { .. }, _) if value.is_buffer() => (format!("buffer = \"{}\"", value.name), 8),
            (ParameterKind::I32 | ParameterKind::I64, Some((kind, width, _))) => {
                (format!("{kind} = \"{}\"", size(&value.name)), width)
            }
            (_, Some((kind, width, one))) if *count <= MAX_ELEMENTS => {
                ones.push(value.name.as_str());
                let list = vec![one; *count as usize].join(", ");
                (if *count == 1 { format!("{kind} = {one}") } else { format!("{kind} = [{list}]") }, width)
            }
            _ => {
                zeros.push(format!("{} ({})", value.name, value.spelled));
                continue;
            }
        };
        let own = width.min(*alignment);
        let mut text = match what.strip_prefix("buffer = ") {
            Some(name) if end.next_multiple_of(own) == *at => name.to_string(),
            _ => format!("{{ {what}"),
        };
        if text.starts_with('{') {
            let _ = if end.next_multiple_of(own) == *at { write!(text, " }}") } else { write!(text, ", at = {at} }}") };
        }
        (end, natural) = (at + width * count, natural.max(width));
        texts.push(text);
    }
    let mut text = format!("{{ struct = [{}]", texts.join(", "));
    if natural != *alignment {
        let _ = write!(text, ", align = {alignment}");
    }
    if end.next_multiple_of(*alignment).max(1) != *bytes {
        let _ = write!(text, ", size = {bytes}");
    }
    remarks.push(match ones.as_slice() {
        [] if fields.is_empty() && *bytes == 1 => format!("{name} is a {spelled}, which has no fields"),
        [] if fields.is_empty() => format!("{name} is a {spelled}, of which no field is known: {bytes} bytes of zeros"),
        [] => format!("{name} is a {spelled}"),
        ones => format!("{name} is a {spelled}, in which {} are 1 or false here", ones.join(", ")),
    });
    if !zeros.is_empty() {
        remarks.push(format!("zeros are in {name} for what is no buffer and no number: {}", zeros.join(", ")));
    }
    text + " }"
}
