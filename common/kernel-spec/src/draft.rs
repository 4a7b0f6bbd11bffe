//! Drafts: a spec written from the signatures of a file's kernels, to be completed by their author.

mod c;
mod python;
mod text;
mod usage;

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::problem::DataType;

use crate::host_code::{self, Token};
use crate::{Bundle, shim};

/// What a file is, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// HIP or CUDA.
    Gpu,
    /// C for the CPU.
    C,
    /// Triton.
    Python,
}

impl Language {
    /// That of a file; `None` for others.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "hip" | "cu" | "cpp" | "cc" | "cxx" | "cuh" => Some(Self::Gpu),
            "c" => Some(Self::C),
            "py" => Some(Self::Python),
            _ => None,
        }
    }

    /// What a function has to be to be taken for a kernel.
    #[must_use]
    pub fn wanted(self) -> &'static str {
        match self {
            Self::Gpu => "a function that is declared `__global__` or `KERNEL`",
            Self::C => "a function that is not static, returns void and takes a pointer",
            Self::Python => "a function under `@triton.jit`",
        }
    }
}

/// A kernel as its file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As its file has it, with the namespace that it is in.
    pub name: String,
    /// Parameters of the template that it is.
    pub template: Vec<TemplateParameter>,
    /// In order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateParameter {
    pub name: String,
    /// A type, not a number.
    pub is_type: bool,
    pub default: Option<String>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterKind,
    /// Of a pointer; nothing where the text does not tell.
    pub usage: Usage,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub read: bool,
    pub written: bool,
}

/// What a parameter takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A buffer.
    Pointer {
        /// Of its elements, where a buffer can be of it.
        element: Option<DataType>,
        /// What an element is in the source.
        spelled: String,
        /// Elements of a vector.
        lanes: u32,
        written: bool,
    },
    I32,
    I64,
    F32,
    F64,
    /// A constant of Triton's.
    Constant {
        default: Option<String>,
    },
    /// A bool, a character, a short or an enumeration, which takes the lower bytes of a number.
    Small {
        spelled: String,
    },
    /// Another type, passed by value, and its bytes where they are known.
    Other {
        spelled: String,
        bytes: Option<u32>,
    },
}

/// What is known of a file before its spec is written.
#[derive(Clone, Debug)]
pub struct Draft {
    language: Language,
    source: String,
    /// Files beside it that it includes, and the shim's.
    files: BTreeMap<String, String>,
    includes: Vec<String>,
    /// Macros that the file gives a number unless somebody else does.
    macros: Vec<(String, i64)>,
    /// As the text has them.
    pub kernels: Vec<Kernel>,
}

impl Draft {
    /// Of the source `name`, whose text is `text`; `beside` reads a file beside it.
    pub fn new(language: Language, name: &str, text: &str, beside: impl Fn(&str) -> Option<String>) -> Self {
        let mut files = BTreeMap::from([(name.to_string(), text.to_string())]);
        let mut includes = Vec::new();
        if language != Language::Python {
            let mut waiting: Vec<String> = host_code::includes(text).collect();
            while let Some(include) = waiting.pop() {
                // What is named by a path may lie beside it as well.
                let name = shim::plain(&include).to_string();
                let Some(found) = (if files.contains_key(&name) { None } else { beside(&name) }) else { continue };
                waiting.extend(host_code::includes(&found));
                files.insert(name.clone(), found);
                includes.push(name);
            }
            includes.sort();
        }
        let kernels = match language {
            Language::Gpu => files.values().flat_map(|text| c::kernels(text)).collect(),
            Language::C => c::functions(text),
            Language::Python => python::kernels(text),
        };
        // The prelude is one that need not lie there.
        if host_code::includes(text).any(|include| include == "prelude.h")
            && !includes.iter().any(|one| one == "prelude.h")
        {
            includes.push("prelude.h".to_string());
        }
        let macros = host_code::defaults(text);
        Self { language, source: name.to_string(), files, includes, macros, kernels }
    }

    #[must_use]
    pub fn language(&self) -> Language {
        self.language
    }

    /// The file and what it includes as they are compiled, where that is C++ for GPUs.
    #[must_use]
    pub fn bundle(&self) -> Bundle {
        let mut files = self.files.clone();
        if self.includes.iter().any(|name| name == "prelude.h") {
            files.entry("prelude.h".to_string()).or_insert_with(|| crate::bundle::PRELUDE.to_string());
        }
        shim::complete(&mut files, &self.source);
        Bundle { files, ..Bundle::default() }
    }

    /// Whether a kernel takes a pointer.
    #[must_use]
    pub fn has_buffers(&self) -> bool {
        let mut parameters = self.kernels.iter().flat_map(|kernel| &kernel.parameters);
        parameters.any(|one| matches!(one.kind, ParameterKind::Pointer { .. }))
    }

    /// The name of the source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The types of a kernel's parameters as a compiler knows them, in the place of those that the text has: `bluefin_enum<T>` is an
    /// enumeration, `bluefin_bytes<T, (unsigned int)8>` another type of so many bytes.
    pub fn set_types(&mut self, kernel: usize, types: &[String]) {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return };
        if kernel.parameters.len() == types.len() {
            for (parameter, spelled) in kernel.parameters.iter_mut().zip(types) {
                parameter.kind = c::kind(spelled);
            }
        }
    }

    /// The spec, with a remark where it has to be completed.
    #[must_use]
    pub fn spec(&self) -> String {
        text::spec(self)
    }
}

impl TemplateParameter {
    /// The type that an instance has in its place here: float, but where the name says that elements are counted.
    fn type_of_instance(&self) -> String {
        const COUNTING: [&str; 6] = ["index", "idx", "stride", "offset", "size", "int"];
        let name = self.name.to_lowercase();
        let counts = COUNTING.iter().any(|word| name.contains(word));
        self.default.clone().unwrap_or_else(|| if counts { "int" } else { "float" }.to_string())
    }
}

/// The arguments that an instance of a kernel gets here: a type is float or int, and a number its default or 256.
impl Kernel {
    /// Its name as a launch has it, where numbers are macros of these names.
    #[must_use]
    pub(crate) fn entry(&self, macros: bool) -> String {
        if self.template.is_empty() {
            return self.name.clone();
        }
        let arguments = self.template.iter().map(|parameter| match parameter {
            TemplateParameter { is_type: true, .. } => parameter.type_of_instance(),
            parameter if macros => self.macro_of(parameter),
            parameter => self.number_of(parameter).to_string(),
        });
        format!("{}<{}>", self.name, arguments.collect::<Vec<_>>().join(", "))
    }

    /// The same with the numbers themselves.
    #[must_use]
    pub fn instance(&self) -> String {
        self.entry(false)
    }

    /// A macro's name for a number of the template, which is no word of the source.
    fn macro_of(&self, parameter: &TemplateParameter) -> String {
        let name = self.name.rsplit("::").next().unwrap_or_default();
        format!("{name}_{}", parameter.name).to_uppercase()
    }

    fn number_of(&self, parameter: &TemplateParameter) -> i64 {
        let default = parameter.default.as_deref();
        default.and_then(|default| default.parse().ok()).unwrap_or(256)
    }
}

/// The words of a list that is separated by commas outside of brackets.
fn parts_of<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
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

#[cfg(test)]
mod tests;
