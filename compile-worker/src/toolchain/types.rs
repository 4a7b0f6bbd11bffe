//! The types of kernels' parameters as clang knows them: aliases and macros resolved. A unit passes each kernel to a template of its own,
//! whose symbol in clang's syntax tree then says the types.

use std::ffi::OsString;

use bluefin_kernel_spec::{Bundle, Dialect};
use serde_json::Value;

use super::clang;
use crate::error::Error;

/// What clang says of the entries `entries` of `source`: the types of each one's parameters, or its words if it does not compile.
///
/// # Errors
/// No clang, or a machine without disk or processes.
pub fn of_kernels(
    bundle: &Bundle,
    source: &str,
    entries: &[String],
) -> Result<Result<Vec<Vec<String>>, String>, Error> {
    let folder = tempfile::Builder::new().prefix("bluefin-types-").tempdir();
    let folder = folder.map_err(|source| Error::machine("temporary folder", source))?;
    let unit = ("bluefin_types.hip", &probe(bundle.dialect(), source, entries));
    for (name, text) in bundle.files.iter().map(|(name, text)| (name.as_str(), text)).chain([unit]) {
        let path = folder.path().join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| Error::machine("temporary folder", source))?;
    }
    let own = ["-x", "hip", "--offload-device-only", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc", "-w", "-I."];
    let asked = ["-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=bluefin_types_", unit.0];
    let line: Vec<OsString> = own.iter().chain(&asked).map(OsString::from).collect();
    let output = clang::find()?.run(&line, folder.path())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = said.lines().find(|line| line.contains("error:")).unwrap_or(&said);
        return Ok(Err(first.trim().to_string()));
    }
    let tree: Vec<Value> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().map_while(Result::ok).collect();
    let types =
        |index| tree.iter().find_map(|node| types_in(node, &format!("bluefin_types_{index}"))).unwrap_or_default();
    Ok(Ok((0..entries.len()).map(types).collect()))
}

fn probe(dialect: Option<Dialect>, source: &str, entries: &[String]) -> String {
    let mut text = match dialect {
        Some(dialect) => {
            format!("#define BLUEFIN_CUDA {}\n#include \"bluefin/gpu.h\"\n", u8::from(dialect == Dialect::Cuda))
        }
        None => String::new(),
    };
    text += &format!("#include \"{source}\"\n");
    for (index, entry) in entries.iter().enumerate() {
        text += &format!(
            "template <class... Types> int bluefin_types_{index}(void (*)(Types...));\n\
             static int bluefin_value_{index} = bluefin_types_{index}(&{entry});\n"
        );
    }
    text
}

/// The types that the instance of the template `name` has in its symbol, which is in or below `node`.
fn types_in(node: &Value, name: &str) -> Option<Vec<String>> {
    if node.get("name").and_then(Value::as_str) == Some(name)
        && let Some(symbol) = node.get("mangledName").and_then(Value::as_str)
        && let Some(types) = template_arguments(symbol)
    {
        return Some(types);
    }
    node.get("inner")?.as_array()?.iter().find_map(|inner| types_in(inner, name))
}

/// `int bluefin_types_0<float const*, int>(...)`: the first list.
fn template_arguments(symbol: &str) -> Option<Vec<String>> {
    let full = cpp_demangle::Symbol::new(symbol).ok()?.demangle().ok()?;
    let list = full.split_once('<')?.1;
    let (mut depth, mut from) = (0_usize, 0);
    let mut types = Vec::new();
    for (at, found) in list.char_indices() {
        match found {
            '<' | '(' => depth += 1,
            ',' | '>' if depth == 0 => {
                types.push(list.get(from..at)?.trim().to_string());
                from = at + 1;
                if found == '>' {
                    return Some(types.into_iter().filter(|one| !one.is_empty()).collect());
                }
            }
            '>' | ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn aliases_are_resolved() {
        let text = "typedef float real;\n#define NUMBER unsigned\n__attribute__((global)) void k(const real* a, NUMBER n) { }\n\
            extern \"C\" __attribute__((global)) void c(double* b) { }\n\
            template <class T> __attribute__((global)) void t(T* b) { }\n";
        let bundle = Bundle { files: BTreeMap::from([("k.hip".to_string(), text.to_string())]), ..Bundle::default() };
        let entries = ["k", "c", "t<int>"].map(String::from);
        match of_kernels(&bundle, "k.hip", &entries) {
            Err(error) => bluefin_test_support::left_out(&error.to_string()),
            Ok(types) => assert_eq!(
                types.unwrap(),
                [
                    vec!["float const*".to_string(), "unsigned int".to_string()],
                    vec!["double*".to_string()],
                    vec!["int*".to_string()]
                ]
            ),
        }
        if let Ok(types) = of_kernels(&bundle, "k.hip", &["none".to_string()]) {
            assert!(types.unwrap_err().contains("undeclared identifier 'none'"));
        }
    }
}
