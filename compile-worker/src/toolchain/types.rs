//! The types of kernels' parameters as clang knows them: aliases and macros resolved. A unit passes each kernel to a template of its own,
//! whose symbol in clang's syntax tree then says the types.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Component, Path};

use bluefin_kernel_spec::draft::Layout;
use bluefin_kernel_spec::{Bundle, Dialect};
use serde_json::Value;

use super::clang::{self, LENIENT};
use super::layouts::Layouts;
use crate::entries;
use crate::error::Error;

/// What clang knows of a file's kernels.
#[derive(Debug, Default)]
pub struct Types {
    /// Of each entry the types of its parameters; none of one that does not compile.
    pub types: Vec<Vec<String>>,
    /// Of each entry the layouts of its parameters that are structures.
    pub layouts: Vec<Vec<Option<Layout>>>,
    /// Whether the file compiles with all entries.
    pub is_whole: bool,
    /// How many errors it has otherwise, as far as clang tells.
    pub errors: usize,
    /// The file and the line of the first of them.
    pub at: Option<(String, usize)>,
    /// What it does not know.
    pub unknown: Option<String>,
    /// Whether the first is of no instance of a template: other types make no difference.
    pub is_fixed: bool,
    /// Why some are missing.
    pub remarks: Vec<String>,
}

impl Types {
    /// How much is known: of two of one file the larger tells more, and with more headers no less.
    pub(super) fn rank(&self) -> (bool, usize, Reverse<usize>) {
        let known = self.types.iter().filter(|types| !types.is_empty()).count();
        (self.is_whole, known, Reverse(self.errors))
    }
}

/// Files that a source includes and that are not there, at most.
const MISSING: usize = 32;

/// What clang says of the entries `entries` of `source`, where macros `defines` have values. Files that are not there are read as if they
/// were empty, as far as that goes.
///
/// # Errors
/// No clang, or a machine without disk or processes.
pub fn of_kernels(
    bundle: &Bundle,
    source: &str,
    defines: &[(String, String)],
    entries: &[String],
) -> Result<Types, Error> {
    let folder = tempfile::Builder::new().prefix("bluefin-types-").tempdir();
    let folder = folder.map_err(|source| Error::machine("temporary folder", source))?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|source| Error::machine("temporary folder", source))
    };
    let unit = ("bluefin_types.hip", &probe(bundle.dialect(), source, entries));
    for (name, text) in bundle.files.iter().map(|(name, text)| (name.as_str(), text)).chain([unit]) {
        write(name, text)?;
    }
    let own = [
        "-x",
        "hip",
        "--offload-device-only",
        "--offload-arch=gfx90a",
        "-nogpulib",
        "-nogpuinc",
        "-w",
        LENIENT[0],
        LENIENT[1],
        "-I.",
    ];
    let asked = [
        "-fsyntax-only",
        "-Xclang",
        "-fdump-record-layouts-canonical",
        "-Xclang",
        "-ast-dump=json",
        "-Xclang",
        "-ast-dump-filter=bluefin_types_",
        unit.0,
    ];
    let defines = defines.iter().map(|(name, value)| format!("-D{name}={value}").into());
    let line: Vec<OsString> = defines.chain(own.iter().chain(&asked).map(OsString::from)).collect();
    let clang = clang::find()?;
    let mut missing: Vec<String> = Vec::new();
    let output = loop {
        let output = clang.run(&line, folder.path())?;
        let said = String::from_utf8_lossy(&output.stderr);
        // Nothing is read behind it.
        let Some(name) = said.lines().find_map(not_found).filter(|_| missing.len() < MISSING) else { break output };
        if missing.iter().any(|known| known == name) {
            break output;
        }
        write(name, "")?;
        missing.push(name.to_string());
    };
    let said = String::from_utf8_lossy(&output.stdout);
    // Layouts are dumped as they are asked for, the tree at the end.
    let (dump, tree) = said.split_at(said.find("\n{").map_or(said.len(), |at| at + 1));
    let (dump, tree) = if said.starts_with('{') { ("", &*said) } else { (dump, tree) };
    let tree: Vec<Value> = serde_json::Deserializer::from_str(tree).into_iter().map_while(Result::ok).collect();
    let types =
        |index| tree.iter().find_map(|node| types_in(node, &format!("bluefin_types_{index}"))).unwrap_or_default();
    let types: Vec<Vec<String>> = (0..entries.len()).map(types).collect();
    let layouts = Layouts::of(dump);
    let layouts = types.iter().enumerate().map(|(kernel, types)| {
        let of = |(index, spelled): (usize, &String)| {
            spelled.starts_with("bluefin_bytes<").then(|| layouts.of_parameter(kernel, index)).flatten()
        };
        types.iter().enumerate().map(of).collect()
    });
    let layouts = layouts.collect();
    let mut remarks = Vec::new();
    let said = String::from_utf8_lossy(&output.stderr);
    let errors = said.lines().filter(|line| line.contains("error: ")).count();
    let is_fixed = is_fixed(&said, unit.0);
    let first = said.lines().find(|line| line.contains(" error: "));
    let unknown_name = first.and_then(|line| unknown(line)).map(str::to_string);
    missing.extend(bundle.left_out());
    if !output.status.success() {
        missing.extend(bundle.of_machine());
    }
    missing.sort();
    missing.dedup();
    if !missing.is_empty() {
        remarks.push(format!(
            "these files are not beside it, and have to be if kernels need them: {}",
            missing.join(", ")
        ));
    }
    let unknown: Vec<&str> =
        entries.iter().zip(&types).filter(|(_, types)| types.is_empty()).map(|(entry, _)| entry.as_str()).collect();
    if !output.status.success() && !unknown.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().find(|line| line.contains("error:")).unwrap_or(&said);
        remarks.push(format!("types of {} are as the text spells them: {}", unknown.join(" "), first.trim()));
    }
    Ok(Types {
        types,
        layouts,
        is_whole: output.status.success(),
        errors,
        at: first.and_then(place),
        unknown: unknown_name,
        is_fixed,
        remarks,
    })
}

/// The file and the line of an error, as the files of a bundle are called.
fn place(error: &str) -> Option<(String, usize)> {
    let mut parts = error.split(':');
    let (file, line) = (parts.next()?, parts.next()?);
    Some((file.trim_start_matches("./").to_string(), line.parse().ok()?))
}

/// The name that an error says that nobody has declared.
fn unknown(error: &str) -> Option<&str> {
    const SAID: [&str; 4] =
        ["undeclared identifier '", "unknown type name '", "no template named '", "no type named '"];
    let behind = SAID.iter().find_map(|said| error.split_once(said))?.1;
    behind.split_once('\'').map(|(name, _)| name)
}

/// Whether the first of the errors in `said` is neither of an instance of a template nor of `unit`, which asks for instances. Of others that cannot be
/// told: clang says once of several errors what they are instances of.
fn is_fixed(said: &str, unit: &str) -> bool {
    let mut lines = said.lines().skip_while(|line| !line.contains(" error: "));
    let is_of_unit = lines.next().is_none_or(|first| first.trim_start_matches("./").starts_with(unit));
    let mut notes = lines.take_while(|line| !line.contains(" error: "));
    !is_of_unit && !notes.any(|note| INSTANCES.iter().any(|words| note.contains(words)))
}

/// What notes behind an error say of an instance.
const INSTANCES: [&str; 5] =
    ["in instantiation of ", "while substituting ", "requested here", "while checking ", "in evaluation of "];

/// The file that a line of clang's misses, where it may lie beside the source.
fn not_found(line: &str) -> Option<&str> {
    let name = line.strip_suffix("' file not found")?.rsplit_once('\'')?.1;
    let path = Path::new(name);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(name).filter(|name| !name.is_empty())
}

/// Types as templates tell them: an enumeration, and what is neither that nor a number nor a pointer, say so and keep their names.
const SEEN: &str = "\
template <class T, int = __is_enum(T) ? 1 : __is_arithmetic(T) || __is_pointer(T) ? 0 : 2> struct bluefin_seen { using type = T; };
template <class T> struct bluefin_enum;
template <class T, unsigned Size> struct bluefin_bytes;
template <class T> struct bluefin_seen<T, 1> { using type = bluefin_enum<T>; };
template <class T> struct bluefin_seen<T, 2> { using type = bluefin_bytes<T, sizeof(T)>; };
template <class... Types> struct bluefin_list;
template <class... Types> bluefin_list<typename bluefin_seen<Types>::type...>* bluefin_plain(void (*)(Types...));
";

/// Asks for the size of each parameter in a structure that says which one it is, so that its layout is dumped.
const LAID: &str = "\
template <int Kernel, int Index, class T> struct bluefin_argument { T value; };
template <int Kernel, int Index, class... Types> struct bluefin_laid { static const int value = 0; };
template <int Kernel, int Index, class T, class... Rest> struct bluefin_laid<Kernel, Index, T, Rest...> {
    static const int value = sizeof(bluefin_argument<Kernel, Index, T>) + bluefin_laid<Kernel, Index + 1, Rest...>::value;
};
template <int Kernel, class... Types> constexpr int bluefin_laid_of(void (*)(Types...)) { return bluefin_laid<Kernel, 0, Types...>::value; }
";

/// Each kernel is asked for its types, and by its address to be compiled: a template's body is no one else's wish.
fn probe(dialect: Option<Dialect>, source: &str, names: &[String]) -> String {
    let mut text = match dialect {
        Some(dialect) => {
            format!("#define BLUEFIN_CUDA {}\n#include \"bluefin/gpu.h\"\n", u8::from(dialect == Dialect::Cuda))
        }
        None => String::new(),
    };
    // In front of the source, whose macros may be named T.
    text += &format!("{SEEN}{LAID}#include \"{source}\"\n");
    for (index, entry) in names.iter().enumerate() {
        let kernel = match entries::split(entry) {
            (name, Some(parameters)) => format!("static_cast<void (*)({parameters})>(&{name})"),
            (name, None) => format!("&{name}"),
        };
        text += &format!(
            "template <class... Bluefin> int bluefin_types_{index}(bluefin_list<Bluefin...>*);\n\
             static int bluefin_value_{index} = bluefin_types_{index}(decltype(bluefin_plain({kernel}))(nullptr));\n\
             static auto bluefin_kernel_{index} = {kernel};\n\
             static int bluefin_size_{index} = bluefin_laid_of<{index}>({kernel});\n"
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

    /// Headers that leave as many errors are taken as well: what is missing then is what is.
    #[test]
    fn more_headers_tell_no_less() {
        let of = |known: &[usize], errors, is_whole| {
            let types = known.iter().map(|count| vec!["int".to_string(); *count]).collect();
            Types { types, errors, is_whole, ..Types::default() }.rank()
        };
        assert_eq!(of(&[1, 0], 2, false), of(&[2, 0], 2, false));
        assert!(of(&[1, 1], 9, false) > of(&[1, 0], 2, false));
        assert!(of(&[1, 0], 1, false) > of(&[1, 0], 2, false));
        assert!(of(&[0, 0], 0, true) > of(&[1, 1], 1, false));
    }

    #[test]
    fn aliases_are_resolved() {
        let text = "typedef float real;\n#define NUMBER unsigned\n__attribute__((global)) void k(const real* a, NUMBER n) { }\n\
            extern \"C\" __attribute__((global)) void c(double* b) { }\n\
            template <class T> __attribute__((global)) void t(T* b) { }\n";
        let text = format!(
            "#include \"sub/none.h\"\n{text}enum Mode {{ A }}; struct P {{ int a; float b; }};\n\
            __attribute__((global)) void v(Mode mode, P p, bool b) {{ undeclared(); }}\n\
            __attribute__((global)) void two(real* a) {{ }}\n__attribute__((global)) void two(KIND a) {{ }}\n#define T 8\n"
        );
        let template = "template <class T> __attribute__((global)) void t(T* p) { p->x = 1; }\n".to_string();
        let of_template = Bundle { files: BTreeMap::from([("t.hip".to_string(), template)]), ..Bundle::default() };
        let bundle = Bundle { files: BTreeMap::from([("k.hip".to_string(), text)]), ..Bundle::default() };
        let entries = ["k", "c", "t<int>", "none", "v", "two(real *)", "two(KIND)"].map(String::from);
        let defines = [("KIND".to_string(), "double".to_string())];
        match of_kernels(&bundle, "k.hip", &defines, &entries) {
            Err(error) => bluefin_test_support::left_out(&error.to_string()),
            Ok(found) => {
                let expected: [&[&str]; 7] = [
                    &["float const*", "unsigned int"],
                    &["double*"],
                    &["int*"],
                    &[],
                    &["bluefin_enum<Mode>", "bluefin_bytes<P, (unsigned int)8>", "bool"],
                    &["float*"],
                    &["double"],
                ];
                assert_eq!(found.types, expected);
                let laid = found.layouts.iter().flatten().flatten().map(|layout| {
                    let fields = layout.fields.iter().map(|field| format!("{} {}", field.at, field.path.join(".")));
                    (layout.size, fields.collect::<Vec<_>>().join(", "))
                });
                assert_eq!(laid.collect::<Vec<_>>(), [(8, "0 a, 4 b".to_string())]);
                let found_of_template = of_kernels(&of_template, "t.hip", &[], &["t<float>".to_string()]);
                assert!(found_of_template.is_ok_and(|found| !found.is_whole), "float has no members");
                let [missing, unknown] = found.remarks.as_slice() else { panic!("{:?}", found.remarks) };
                assert!(missing.ends_with(": sub/none.h"), "{missing}");
                assert!(unknown.starts_with("types of none are as the text spells them: "), "{unknown}");
            }
        }
        assert_eq!(not_found("a.hip:1:10: fatal error: '../b.h' file not found"), None);
    }

    #[test]
    fn other_types_help_against_errors_of_instances_alone() {
        let of_instance = "k.hip:2:5: error: no member named 'x' in 'float'\n    2 | p->x = 1;\n\
            bluefin_types.hip:9:1: note: in instantiation of function template specialization 't<float>' requested here\n";
        let of_unit =
            "bluefin_types.hip:9:20: error: no matching function\nk.hip:1:1: note: candidate template ignored\n";
        let of_text = "k.hip:1:1: error: unknown type name 'half_t'\n    1 | half_t h;\n";
        let fixed = |said: &[&str]| is_fixed(&said.concat(), "bluefin_types.hip");
        assert!(
            !fixed(&[of_instance, of_unit])
                && !fixed(&[of_instance, of_text])
                && !fixed(&[of_unit, of_text])
                && !fixed(&[])
        );
        assert!(fixed(&[of_text, of_instance]) && fixed(&[of_text]));
    }
}
