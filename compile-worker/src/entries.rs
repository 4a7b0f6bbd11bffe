//! Entries of C++ files as people name them: `vectorAdd` for a kernel whose symbol is mangled, `reduce<256, float>` for an instance of a
//! template, which the unit that is compiled asks for. Symbols are found by their demangled names in what was compiled, so that no
//! source has to say `extern "C"`.

use std::fmt::Write as _;

use bluefin_common::artifact::{Argument, Launch};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_kernel_spec::Dialect;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

/// The unit of a file in `dialect` for `launches`: the shim goes first, as device overloads have to be known before the C++ library's
/// functions; instances of templates are asked for by their addresses. The entries are named, as what is compiled has their symbols.
/// `None` for a source that is compiled as it is.
pub(crate) fn unit(dialect: Option<Dialect>, source: &str, launches: &[Launch]) -> Option<String> {
    if dialect.is_none() && launches.iter().all(|launch| is_plain(&launch.entry)) {
        return None;
    }
    let mut text = String::new();
    if let Some(dialect) = dialect {
        let cuda = u8::from(dialect == Dialect::Cuda);
        text += &format!("#define BLUEFIN_CUDA {cuda}\n#include \"bluefin/gpu.h\"\n");
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, "#include \"{source}\"");
    for (index, launch) in launches.iter().enumerate() {
        let entry = &launch.entry;
        let _ = writeln!(text, "// {entry}");
        let Some((name, parameters)) = instance(entry) else { continue };
        let _ = writeln!(text, "#line 1 \"the entry {entry}\"");
        let _ = match parameters {
            Some(parameters) => writeln!(text, "static void (*bluefin_instance_{index})({parameters}) = &{name};"),
            None => writeln!(text, "static auto bluefin_instance_{index} = &{name};"),
        };
    }
    Some(text)
}

fn is_plain(entry: &str) -> bool {
    entry.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The name of an instance of a template with its arguments, and its parameters where they are said.
fn instance(entry: &str) -> Option<(&str, Option<&str>)> {
    let (name, parameters) = split(entry);
    name.contains('<').then_some((name, parameters))
}

/// A name and, in parentheses behind it, parameters.
pub(crate) fn split(entry: &str) -> (&str, Option<&str>) {
    let mut depth = 0_usize;
    for (at, found) in entry.char_indices() {
        match found {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !entry.get(at..).is_some_and(|rest| rest.starts_with("(anonymous namespace)")) => {
                let parameters = entry.get(at + 1..).and_then(|rest| rest.rsplit_once(')')).map(|(inner, _)| inner);
                return (entry.get(..at).unwrap_or_default().trim(), parameters);
            }
            _ => {}
        }
    }
    (entry.trim(), None)
}

/// `launches` as the compile cache has them, with the symbols in `code` that their entries name; none where each is a symbol itself.
pub(crate) fn symbols(code: &[u8], launches: &[Launch]) -> Attempt<Vec<Launch>> {
    let kernels = kernels(code);
    if launches.iter().all(|launch| kernels.contains(&launch.entry)) || kernels.is_empty() {
        return Ok(Vec::new());
    }
    let found: Vec<Symbol> = kernels.into_iter().map(Symbol::new).collect();
    launches.iter().map(|launch| symbol_only(&found, launch)).collect()
}

/// The launch as the compile cache has it: the entry alone is decided.
fn symbol_only(found: &[Symbol], launch: &Launch) -> Attempt<Launch> {
    let entry = Symbol::named(found, &launch.entry)?.to_string();
    let arguments =
        (0..launch.arguments.len()).filter_map(|index| i32::try_from(index).ok()).map(Argument::I32).collect();
    Ok(Launch { entry, grid: [0; 3], block: [0; 3], shared: 0, arguments })
}

/// The kernels of a code object: an ELF file of AMD's, PTX, or a cubin.
fn kernels(code: &[u8]) -> Vec<String> {
    let Ok(file) = object::File::parse(code) else {
        let text = String::from_utf8_lossy(code);
        let names = text.lines().filter_map(|line| line.split_once(".entry ")?.1.split('(').next());
        return names.map(|name| name.trim().to_string()).collect();
    };
    let symbols = || file.symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.kind())));
    let described: Vec<String> =
        symbols().filter_map(|(name, _)| name.strip_suffix(".kd").map(ToString::to_string)).collect();
    if !described.is_empty() {
        return described;
    }
    symbols().filter(|(_, kind)| *kind == SymbolKind::Text).map(|(name, _)| name).collect()
}

/// A kernel of a code object.
struct Symbol {
    symbol: String,
    /// As a source names it; the symbol itself where that is no mangled name.
    full: String,
}

impl Symbol {
    fn new(symbol: String) -> Self {
        // `f` alone would be a type.
        let mangled = Some(symbol.as_bytes()).filter(|symbol| symbol.starts_with(b"_Z"));
        let demangled = mangled.and_then(|name| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
        let full = demangled.unwrap_or_else(|| symbol.clone());
        Self { symbol, full }
    }

    /// The name with namespaces and template arguments, without what is returned and without parameters.
    fn name(&self) -> String {
        normal(&without_casts(&behind_blank(&named(split(&self.full).0))))
    }

    fn parameters(&self) -> String {
        normal_types(&named(split(&self.full).1.unwrap_or_default()))
    }

    /// The symbol that `entry` names.
    fn named<'a>(found: &'a [Self], entry: &str) -> Attempt<&'a str> {
        if let Some(same) = found.iter().find(|one| one.symbol == entry) {
            return Ok(&same.symbol);
        }
        let entry = &named(entry);
        let (name, parameters) = split(entry);
        let (name, bare) = (normal(name), normal(without_arguments(name)));
        let fits = |one: &&Self| parameters.is_none_or(|parameters| one.parameters() == normal_types(parameters));
        let is_of =
            |full: &str, name: &str| full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with("::"));
        // One outside of all namespaces goes before those of the same name within some.
        let outside: Vec<&Self> = found.iter().filter(|one| one.name() == name).filter(fits).collect();
        let exact: Vec<&Self> = match outside.as_slice() {
            [] => found.iter().filter(|one| is_of(&one.name(), &name)).filter(fits).collect(),
            _ => outside,
        };
        // Arguments may be spelled in other ways: an alias of a type, a macro, one that is left to its default.
        let alike = || found.iter().filter(|one| is_of(without_arguments(&one.name()), &bare)).filter(fits).collect();
        let found_ones: Vec<&Self> = if exact.is_empty() { alike() } else { exact };
        // So may types of parameters.
        let is_of_name = |one: &&Self| is_of(&one.name(), &name) || is_of(without_arguments(&one.name()), &bare);
        let may_fit =
            |one: &&Self| parameters.is_none_or(|parameters| may_be(&one.parameters(), &normal_types(parameters)));
        let only = || found.iter().filter(is_of_name).filter(may_fit);
        let found_ones = if found_ones.is_empty() { only().collect() } else { found_ones };
        match found_ones.as_slice() {
            [one] => Ok(&one.symbol),
            [] => Err(not_there(entry, found)),
            several => Err(Failure::new(
                FailureKind::CompileError,
                format!(
                    "entry {entry}: found {}, expected one: name it with its template arguments and parameters",
                    listed(several)
                ),
            )),
        }
    }
}

/// A name without what compilers write for a namespace that has none.
fn named(name: &str) -> String {
    name.replace("(anonymous namespace)::", "")
}

fn listed(symbols: &[&Symbol]) -> String {
    let names: Vec<&str> = symbols.iter().take(8).map(|one| one.full.as_str()).collect();
    names.join("; ")
}

fn not_there(entry: &str, found: &[Symbol]) -> Failure {
    let hint = if entry.contains('<') {
        ""
    } else {
        "; an instance of a template is named with its arguments, as in sum<256, float>"
    };
    let found = listed(&found.iter().collect::<Vec<_>>());
    Failure::new(
        FailureKind::CompileError,
        format!("entry {entry}: found the kernels {found}, expected it among them{hint}"),
    )
}

/// A name whose template arguments are numbers without the types in front: `f<(unsigned int)256>`.
fn without_casts(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('(') {
        plain.push_str(before);
        let number = |behind: &str| behind.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        match behind.split_once(')') {
            Some((_, behind)) if number(behind) => rest = behind,
            _ => {
                plain.push('(');
                rest = behind;
            }
        }
    }
    plain + rest
}

/// What is behind the last blank outside of template arguments: a name, without the type that it returns.
fn behind_blank(name: &str) -> String {
    let mut depth = 0_usize;
    let mut from = 0;
    for (at, found) in name.char_indices() {
        match found {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    name.get(from..).unwrap_or(name).to_string()
}

/// A name in front of its last template arguments.
fn without_arguments(name: &str) -> &str {
    if !name.ends_with('>') {
        return name;
    }
    let mut depth = 0_usize;
    for (at, found) in name.char_indices().rev() {
        match found {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return name.get(..at).unwrap_or(name).trim_end();
        }
    }
    name
}

/// A name without blanks that mean nothing, and without the letters behind numbers that say their type.
fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for found in name.chars() {
        let last = normal.chars().next_back();
        let joined = |found: char| found.is_alphanumeric() || found == '_';
        match found {
            ' ' => {
                if last.is_some_and(joined) {
                    normal.push(' ');
                }
            }
            'u' | 'l' | 'U' | 'L' if is_number(&normal) => {}
            _ => {
                if last == Some(' ') && !joined(found) {
                    normal.pop();
                }
                normal.push(found);
            }
        }
    }
    normal
}

/// Whether `text` ends with a number of its own.
fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|found: char| found.is_ascii_digit());
    digits.len() < text.len() && !digits.ends_with(|found: char| found.is_alphanumeric() || found == '_')
}

/// The types of parameters, `const` in front of each; that of a parameter itself is no part of a kernel's type.
fn normal_types(parameters: &str) -> String {
    let mut depth = 0_usize;
    let parts = parameters.split(|found: char| {
        match found {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        found == ',' && depth == 0
    });
    let types = parts.map(|part| {
        let part = normal(part.trim());
        let (base, pointer) = part.split_at(part.find(['*', '&']).unwrap_or(part.len()));
        let bare = base.strip_suffix(" const").or_else(|| base.strip_prefix("const "));
        match bare {
            Some(bare) if pointer.is_empty() => bare.to_string(),
            Some(bare) => format!("const {bare}{}", pointer.trim_end_matches("const")),
            None => format!("{base}{}", pointer.trim_end_matches("const")),
        }
    });
    types.collect::<Vec<_>>().join(",")
}

/// Whether two lists of [`normal_types`] may be of the same types: as many, and where both are C's own they are the same.
fn may_be(one: &str, other: &str) -> bool {
    const OWN: [&str; 10] = ["void", "bool", "char", "short", "int", "long", "float", "double", "unsigned", "signed"];
    let is_own = |part: &str| {
        let words = part.split([' ', '*', '&']).filter(|word| !word.is_empty() && *word != "const");
        words.clone().count() > 0 && words.clone().all(|word| OWN.contains(&word))
    };
    let (ones, others): (Vec<&str>, Vec<&str>) = (one.split(',').collect(), other.split(',').collect());
    ones.len() == others.len() && ones.iter().zip(&others).all(|(a, b)| a == b || !is_own(a) || !is_own(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(entry: &str) -> Launch {
        Launch { entry: entry.into(), grid: [1; 3], block: [1; 3], shared: 0, arguments: vec![Argument::Workspace] }
    }

    const PTX: &str = ".visible .entry plain(\n.weak .entry _Z6reduceILj256EfEvPKT0_PS0_i(\n\
        .entry _Z5scalePfi(\n.entry _Z5scalePdi(\n.entry _ZN1n1gEPf(\n.entry _Z1hI6__halfEvPT_(\n";

    fn entry_of(entry: &str) -> Attempt<String> {
        let found = symbols(PTX.as_bytes(), &[launch(entry)])?;
        Ok(found.first().map_or_else(|| entry.to_string(), |launch| launch.entry.clone()))
    }

    #[test]
    fn kernels_are_found_as_a_source_names_them() {
        for (entry, symbol) in [
            ("plain", "plain"),
            ("reduce<256, float>", "_Z6reduceILj256EfEvPKT0_PS0_i"),
            ("reduce<BLOCK>", "_Z6reduceILj256EfEvPKT0_PS0_i"),
            ("reduce", "_Z6reduceILj256EfEvPKT0_PS0_i"),
            ("reduce<256,float>(const float*, float *, int)", "_Z6reduceILj256EfEvPKT0_PS0_i"),
            ("scale(double*, int)", "_Z5scalePdi"),
            ("scale(double *const, const int)", "_Z5scalePdi"),
            // Of one kernel of the name its parameters may be spelled by other names of their types.
            ("n::g(real *)", "_ZN1n1gEPf"),
            ("h<half>(half*)", "_Z1hI6__halfEvPT_"),
            ("n::g", "_ZN1n1gEPf"),
            ("g", "_ZN1n1gEPf"),
            ("h<half>", "_Z1hI6__halfEvPT_"),
            ("_ZN1n1gEPf", "_ZN1n1gEPf"),
        ] {
            assert_eq!(entry_of(entry).as_deref(), Ok(symbol), "{entry}");
        }
    }

    #[test]
    fn what_names_none_or_several_is_an_error() {
        let error = entry_of("scale").unwrap_err().detail;
        assert!(
            error.starts_with("entry scale: found scale(float*, int); scale(double*, int), expected one"),
            "{error}"
        );
        for other in ["n::g(int*)", "n::g(float*, int)", "h<half>(half*, int)"] {
            assert!(entry_of(other).is_err(), "{other}");
        }
        let error = entry_of("sum").unwrap_err().detail;
        assert!(
            error.starts_with("entry sum: found the kernels plain; void reduce<(unsigned int)256, float>("),
            "{error}"
        );
        assert!(error.ends_with("as in sum<256, float>"), "{error}");
    }

    #[test]
    fn a_unit_asks_for_instances() {
        assert_eq!(unit(None, "k.hip", &[launch("f")]), None);
        assert_eq!(
            unit(Some(Dialect::Cuda), "k.cu", &[launch("f"), launch("g<1>"), launch("h<int>(int*)")]).unwrap(),
            "#define BLUEFIN_CUDA 1\n#include \"bluefin/gpu.h\"\n#include \"k.cu\"\n// f\n// g<1>\n#line 1 \"the entry g<1>\"\n\
             static auto bluefin_instance_1 = &g<1>;\n// h<int>(int*)\n#line 1 \"the entry h<int>(int*)\"\n\
             static void (*bluefin_instance_2)(int*) = &h<int>;\n"
        );
    }
}
