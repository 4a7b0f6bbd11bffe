//! JSON to the letter as Python's `json.dump(..., indent=...)` writes it, which is how the engines' tuners do.

use serde_json::Value as Json;

/// An object with `indent` blanks a level.
pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Json)>, indent: usize) -> String {
    let mut text = String::new();
    write_object(&mut text, fields, indent, indent);
    text
}

fn write_object<'a>(
    text: &mut String,
    fields: impl IntoIterator<Item = (&'a str, &'a Json)>,
    indent: usize,
    depth: usize,
) {
    let mut is_empty = true;
    text.push('{');
    for (key, value) in fields {
        begin(text, is_empty, depth);
        is_empty = false;
        write_text(text, key);
        text.push_str(": ");
        write_value(text, value, indent, depth);
    }
    end(text, is_empty, depth - indent.min(depth));
    text.push('}');
}

/// The next element of an object or a list.
fn begin(text: &mut String, is_first: bool, depth: usize) {
    text.push_str(if is_first { "\n" } else { ",\n" });
    text.extend(std::iter::repeat_n(' ', depth));
}

fn end(text: &mut String, is_empty: bool, depth: usize) {
    if !is_empty {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', depth));
    }
}

fn write_value(text: &mut String, value: &Json, indent: usize, depth: usize) {
    match value {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => text.push_str(&number.to_string()),
        Json::String(value) => write_text(text, value),
        Json::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                begin(text, at == 0, depth + indent);
                write_value(text, value, indent, depth + indent);
            }
            end(text, values.is_empty(), depth);
            text.push(']');
        }
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.as_str(), value));
            write_object(text, fields, indent, depth + indent);
        }
    }
}

/// A text in quotes. All that is not ASCII is escaped, in two halves where UTF-16 has two.
fn write_text(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            ' '..='~' => text.push(character),
            _ => {
                for half in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{half:04x}"));
                }
            }
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_python_writes() {
        let value: Json = serde_json::from_str(
            r#"{"a": {}, "b": [], "c": [1, {"d": true}], "e": "\u00e4\ud83d\ude00\"\\\n", "f": null, "g": -1}"#,
        )
        .unwrap();
        let fields = value.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value));
        // python3 -c 'import json; print(json.dumps(..., indent=2))'
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": true\n    }\n  ],\n  \
            \"e\": \"\\u00e4\\ud83d\\ude00\\\"\\\\\\n\",\n  \"f\": null,\n  \"g\": -1\n}";
        assert_eq!(object(fields, 2), expected);
        assert_eq!(object([], 4), "{}");
    }
}
