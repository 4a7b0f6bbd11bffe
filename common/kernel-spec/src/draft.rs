//! Drafts: a spec written from the signatures of a file's kernels, to be completed by their author.

mod build_file;
mod c;
mod chains;
mod configs;
mod constants;
mod dimensions;
mod few;
mod files;
mod grid;
mod instances;
mod launch;
mod launched;
mod lengths;
mod naming;
mod parts;
mod pointers;
mod python;
mod records;
mod said;
mod structure;
mod text;
mod usage;
mod variables;

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::problem::DataType;

pub use self::build_file::{Declared, include_folders};
pub use self::configs::Config;
pub use self::launch::{Axis, Launch, Shape};
use self::lengths::Length;
use self::records::Records;
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
            "hip" | "cu" | "cpp" | "cc" | "cxx" | "cuh" | "hpp" => Some(Self::Gpu),
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// As its file has it, with the namespace that it is in.
    pub name: String,
    /// Parameters of the template that it is.
    pub template: Vec<TemplateParameter>,
    /// What launches give these, those that say most.
    pub instances: Vec<Vec<Option<String>>>,
    /// In order.
    pub parameters: Vec<Parameter>,
    /// Which one it is of several that share its name, from 2 on for all but the first.
    pub overload: Option<usize>,
    /// What its text says of a launch.
    pub shape: Shape,
    /// Of Triton: what its autotuner tries.
    pub configs: Vec<Config>,
    /// Whether it was executed and did not end well.
    pub fails: bool,
}

/// A parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateParameter {
    pub name: String,
    /// What kind of number it is; `None` for a type.
    pub number: Option<Number>,
    /// What an instance has in its place: as the file launches it, or as the template says.
    pub default: Option<String>,
    /// Whether a text says the default.
    pub is_said: bool,
    /// Of a type, the parameter of the kernel that is a value of it.
    pub value: Option<usize>,
}

/// A number of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    Whole,
    Bool,
    /// Of this name: a number is converted to it.
    Enumeration(String),
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterKind,
    /// Of a pointer; nothing where the text does not tell.
    pub usage: Usage,
    /// Its type in the text; nothing where types have no text.
    pub spelled: String,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub read: bool,
    pub written: bool,
    /// Its elements say which elements of buffers are meant.
    pub indexes: bool,
    /// Its elements say where rows of others begin, each where the one before ends.
    pub begins: bool,
    /// It counts elements of buffers.
    pub counts: bool,
    /// It is where the greatest of values is kept.
    pub greatest: bool,
    /// It is where the least of values is kept.
    pub least: bool,
    /// Something else is done with it.
    pub otherwise: bool,
    /// What the least of its elements is, where they are indices.
    pub origin: u8,
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
    /// A structure whose layout a compiler has told.
    Structure {
        spelled: String,
        /// Bytes.
        size: u32,
        /// In bytes.
        alignment: u32,
        /// Those that are known, in their order.
        fields: Vec<Field>,
    },
    /// Another type, passed by value, and its bytes where they are known.
    Other {
        spelled: String,
        bytes: Option<u32>,
    },
}

/// A field of a structure that is passed by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its first byte.
    pub at: u32,
    /// Elements, of an array.
    pub count: u32,
    /// What a whole number is, where it is not as large as other sizes.
    pub size: Option<i64>,
    /// As if the kernel had it as a parameter.
    pub value: Parameter,
}

/// A structure as a compiler lays it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes.
    pub size: u32,
    /// In bytes.
    pub alignment: u32,
    /// Its fields that have names, those of structures within it one by one.
    pub fields: Vec<LayoutField>,
}

/// A field of a [`Layout`] that is no structure itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutField {
    /// Its first byte.
    pub at: u32,
    /// Its name, behind those of the structures that it is in.
    pub path: Vec<String>,
    /// Its type without aliases: `const float *`, `unsigned int`; of an array, that of an element.
    pub spelled: String,
    /// Elements, of an array.
    pub count: u32,
}

/// What is known of a file before its spec is written.
#[derive(Clone, Debug)]
pub struct Draft {
    language: Language,
    source: String,
    /// Files beside it that it includes, and the shim's.
    files: BTreeMap<String, String>,
    /// Their texts without what is under `#if 0`.
    texts: Vec<String>,
    includes: Vec<String>,
    /// Macros that the file gives a number unless somebody else does.
    macros: Vec<(String, i64)>,
    /// Macros that the build file beside it gives a value and that the files name.
    defines: Vec<(String, String)>,
    /// Why some of them are defined.
    whys: BTreeMap<String, String>,
    /// What the spec is called behind its source, where that has several.
    part: Option<String>,
    /// The file that the spec is written to.
    file: Option<String>,
    /// What sizes are, where they are not what sizes are that nothing was tried with.
    sizes: BTreeMap<String, i64>,
    /// The size by which blocks of a kernel are many that has none of its own, of a draft of [one kernel alone](Self::alone).
    main: Option<String>,
    /// By the name of a buffer.
    lengths: BTreeMap<String, Length>,
    /// Structures that buffers may hold.
    records: Records,
    /// As the text has them.
    pub kernels: Vec<Kernel>,
}

impl Draft {
    /// Of the source `name`, whose text is `text`; `beside` reads a file beside it.
    pub fn new(language: Language, name: &str, text: &str, beside: impl Fn(&str) -> Option<String>) -> Self {
        Self::in_project(language, name, text, beside, |_, _| None)
    }

    /// The same with headers of other folders: `elsewhere` finds what a file, whose path from the source's folder is the first, includes as the
    /// second, and says its path from there and its text.
    pub fn in_project(
        language: Language,
        name: &str,
        text: &str,
        beside: impl Fn(&str) -> Option<String>,
        elsewhere: impl Fn(&str, &str) -> Option<(String, String)>,
    ) -> Self {
        let (files, mut includes) = match language {
            Language::Python => (BTreeMap::from([(name.to_string(), text.to_string())]), Vec::new()),
            Language::Gpu | Language::C => files::of(name, text, &beside, elsewhere),
        };
        let opening = host_code::namespace_macros(files.values().map(String::as_str));
        let opened = |text: &String| host_code::with_namespace_macros(text, &opening);
        let texts: Vec<String> = match language {
            Language::Gpu | Language::C => {
                files.values().map(opened).map(|text| host_code::without_disabled(&text)).collect()
            }
            Language::Python => Vec::new(),
        };
        let mut kernels: Vec<Kernel> = match language {
            Language::Gpu => texts.iter().flat_map(|text| c::kernels(text)).collect(),
            Language::C => c::functions(&host_code::without_disabled(text)),
            Language::Python => python::kernels(text),
        };
        if language == Language::Python {
            configs::set(&mut kernels, text);
        }
        // The prelude is one that need not lie there.
        if host_code::includes(text).any(|include| include == "prelude.h")
            && !includes.iter().any(|one| one == "prelude.h")
        {
            includes.push("prelude.h".to_string());
        }
        let (mut defines, mut whys, mut macros) = (Vec::new(), BTreeMap::new(), host_code::defaults(text));
        if language == Language::Gpu {
            let own = texts.iter().map(String::as_str);
            instances::as_launched(kernels.iter_mut().collect(), own.clone(), own);
            naming::number_overloads(&mut kernels);
            (defines, whys) = build_file::of(&beside, text, &files);
            macros.retain(|(name, _)| defines.iter().all(|(defined, _)| defined != name));
            said::set(&mut kernels, texts.iter().map(String::as_str), &macros, &defines);
        }
        let records: Records = texts.iter().flat_map(|text| records::of(&host_code::tokens(text))).collect();
        kernels.iter_mut().for_each(|kernel| records::set(kernel, &records));
        let (sizes, main, lengths) = Default::default();
        Self {
            language,
            source: name.to_string(),
            files,
            texts,
            includes,
            macros,
            defines,
            whys,
            part: None,
            file: None,
            sizes,
            main,
            lengths,
            records,
            kernels,
        }
    }

    /// The files that it includes, by their paths from its folder.
    #[must_use]
    pub fn includes(&self) -> &[String] {
        &self.includes
    }

    /// Macros of the build file beside it, with their values.
    #[must_use]
    pub fn defines(&self) -> &[(String, String)] {
        &self.defines
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
        let named: Vec<String> = self.kernels.iter().map(Kernel::instance).collect();
        shim::complete(&mut files, &self.source, &named.join(" "));
        Bundle { files, ..Bundle::default() }
    }

    /// Whether a kernel takes a pointer.
    #[must_use]
    pub fn has_buffers(&self) -> bool {
        let mut parameters = self.kernels.iter().flat_map(|kernel| &kernel.parameters).flat_map(Parameter::values);
        parameters.any(Parameter::is_buffer)
    }

    /// The headers that it includes and neither its project nor bluefin has.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let bundle = self.bundle();
        bundle.of_machine().into_iter().chain(bundle.left_out()).collect()
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
                // A symbol has them like this; an instance is asked for as the text has it.
                if kernel.template.is_empty() {
                    parameter.spelled = c::seen(spelled).to_string();
                }
            }
            records::set(kernel, &self.records);
        }
    }

    /// The layouts of a kernel's structures as a compiler knows them, one for each parameter, behind [`Self::set_types`].
    pub fn set_layouts(&mut self, kernel: usize, layouts: &[Option<Layout>]) {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return };
        if kernel.parameters.len() != layouts.len() || layouts.iter().all(Option::is_none) {
            return;
        }
        let files: Vec<Vec<Token<'_>>> = self.files.values().map(|text| host_code::tokens(text)).collect();
        let mut taken = kernel.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        for (parameter, layout) in kernel.parameters.iter_mut().zip(layouts) {
            if let Some(layout) = layout {
                structure::set(parameter, layout, &mut taken, &files);
            }
        }
    }

    /// Gives the types of a template that neither a launch nor the template says another one: `type_of_all`. Whether there are any.
    pub fn set_unknown(&mut self, kernel: usize, type_of_all: &str) -> bool {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return false };
        let unknown = kernel.template.iter_mut().filter(|one| one.number.is_none() && !one.is_said);
        unknown.map(|one| one.default = Some(type_of_all.to_string())).count() > 0
    }

    /// The same of one of them alone, the one behind `before` others. Whether there is one.
    pub fn set_one_unknown(&mut self, kernel: usize, before: usize, spelled: &str) -> bool {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return false };
        let mut unknown = kernel.template.iter_mut().filter(|one| one.number.is_none() && !one.is_said);
        unknown.nth(before).map(|one| one.default = Some(spelled.to_string())).is_some()
    }

    /// Types with which a macro of its files may launch a kernel.
    #[must_use]
    pub fn types_beside(&self, kernel: usize) -> Vec<String> {
        let name = self.kernels.get(kernel).map(Kernel::plain_name).unwrap_or_default();
        let found = instances::types_beside(name, self.texts.iter().map(String::as_str));
        found.into_iter().map(str::to_string).collect()
    }

    /// Takes what is said of the types of a template for unknown, as it does not compile. Whether there are any.
    pub fn forget_types(&mut self, kernel: usize) -> bool {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return false };
        let said = kernel.template.iter_mut().filter(|one| one.number.is_none() && one.is_said);
        said.map(|one| one.is_said = false).count() > 0
    }

    /// The same with smaller sizes; `None` if they are the smallest.
    #[must_use]
    pub fn smaller(&self) -> Option<Self> {
        let sizes = lengths::smaller(&self.trial_sizes())?;
        Some(Self { sizes, ..self.clone() })
    }

    /// The spec, with a remark where it has to be completed.
    #[must_use]
    pub fn spec(&self) -> String {
        text::spec(self)
    }
}

impl Parameter {
    /// What it takes: itself, or the fields of a structure.
    fn values(&self) -> impl Iterator<Item = &Self> {
        let fields = match &self.kind {
            ParameterKind::Structure { fields, .. } => fields.as_slice(),
            _ => &[],
        };
        let own = (!matches!(self.kind, ParameterKind::Structure { .. })).then_some(self);
        own.into_iter().chain(fields.iter().map(|field| &field.value))
    }

    /// The same, to be changed.
    fn values_mut(&mut self) -> Vec<&mut Self> {
        if !matches!(self.kind, ParameterKind::Structure { .. }) {
            return vec![self];
        }
        match &mut self.kind {
            ParameterKind::Structure { fields, .. } => fields.iter_mut().map(|field| &mut field.value).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it points to elements, and not to further pointers.
    fn is_buffer(&self) -> bool {
        matches!(self.kind, ParameterKind::Pointer { .. })
    }
}

/// Whether a text includes a file of this name, from whatever folder.
#[must_use]
pub fn is_included(text: &str, name: &str) -> bool {
    host_code::includes(text).any(|include| shim::plain(&include) == name)
}

/// The names of the kernels that a text of HIP or CUDA defines, without namespaces.
#[must_use]
pub fn kernels_in(text: &str) -> Vec<String> {
    c::kernels(text).iter().map(|kernel| kernel.plain_name().to_string()).collect()
}

#[cfg(test)]
mod tests;
