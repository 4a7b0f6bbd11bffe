//! What kernels and buffers of a draft are called.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Kernel, Number, Parameter, ParameterKind, TemplateParameter};
use crate::expression::MAX_TEXT;

impl Draft {
    /// The same with a buffer of a name of its own for each kernel that takes other elements under a name that a kernel before it has.
    #[must_use]
    pub fn told_apart(mut self) -> Self {
        let mut taken: BTreeSet<String> =
            self.kernels.iter().flat_map(|kernel| &kernel.parameters).flat_map(names).collect();
        let mut known: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for value in self.kernels.iter_mut().flat_map(|kernel| &mut kernel.parameters).flat_map(Parameter::values_mut) {
            let ParameterKind::Pointer { element, spelled, .. } = &value.kind else { continue };
            // Whether integers have a sign makes no others of them.
            let plain = |name: &str| name.replace("UINT", "INT").replace("BOOL", "INT8");
            let element = element.map_or_else(|| spelled.clone(), |element| plain(element.name()));
            let of_name = known.entry(value.name.clone()).or_default();
            let known_name = of_name.iter().find(|(known, _)| *known == element).map(|(_, name)| name.clone());
            let name = known_name.unwrap_or_else(|| {
                let is_first = of_name.is_empty();
                let others = (2..).map(|number| format!("{}{number}", value.name)).find(|name| !taken.contains(name));
                let name = if is_first { value.name.clone() } else { others.unwrap_or_default() };
                taken.insert(name.clone());
                of_name.push((element, name.clone()));
                name
            });
            value.name = name;
        }
        self
    }
}

fn names(parameter: &Parameter) -> Vec<String> {
    parameter.values().map(|value| value.name.clone()).collect()
}

impl TemplateParameter {
    /// The type that an instance has in its place here: float, but where the name says that elements are counted.
    pub(super) fn type_of_instance(&self) -> String {
        const COUNTING: [&str; 6] = ["index", "idx", "stride", "offset", "size", "int"];
        let name = self.name.to_lowercase();
        let counts = COUNTING.iter().any(|word| name.contains(word));
        self.default.clone().unwrap_or_else(|| if counts { "int" } else { "float" }.to_string())
    }
}

/// Says of kernels that share a name which one each is.
pub(super) fn number_overloads(kernels: &mut [Kernel]) {
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.name.clone()).collect();
    for (index, kernel) in kernels.iter_mut().enumerate() {
        let of_name = |names: &[String]| names.iter().filter(|name| **name == kernel.name).count();
        let before = names.get(..index).map_or(0, of_name);
        kernel.overload = (of_name(&names) > 1).then_some(before + 1);
    }
}

/// The arguments that an instance of a kernel gets here: those of a launch in the file or of the template; a type is float or int
/// otherwise, a number 256, and a bool true.
impl Kernel {
    /// Its name as a launch has it, where numbers are macros of these names; with its parameters where others share the name.
    #[must_use]
    pub(crate) fn entry(&self, macros: bool) -> String {
        let arguments = self.template.iter().map(|parameter| {
            let number = if macros { self.macro_of(parameter) } else { self.number_of(parameter).to_string() };
            match &parameter.number {
                None => parameter.type_of_instance(),
                Some(Number::Enumeration(of)) => format!("static_cast<{of}>({number})"),
                Some(Number::Whole | Number::Bool) => number,
            }
        });
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let name = if arguments.is_empty() { self.name.clone() } else { format!("{}<{arguments}>", self.name) };
        let types: Vec<&str> = self.parameters.iter().map(|parameter| parameter.spelled.as_str()).collect();
        if self.overload.is_some() { format!("{name}({})", types.join(", ")) } else { name }
    }

    /// Whether another one is declared like this, whatever the two do.
    pub(super) fn is_declared_as(&self, other: &Self) -> bool {
        let types = |of: &Self| of.parameters.iter().map(|one| one.spelled.clone()).collect::<Vec<_>>();
        self.name == other.name && self.template == other.template && types(self) == types(other)
    }

    /// The same with the numbers themselves.
    #[must_use]
    pub fn instance(&self) -> String {
        self.entry(false)
    }

    /// The param by which its block has as many threads as a bound of its launches says.
    pub(super) fn block_param(&self) -> Option<String> {
        let bound = self.shape.bound.as_ref().filter(|_| self.shape.tried.is_none() && self.shape.dimensions() == 1)?;
        let of_bound = |one: &&TemplateParameter| one.name == *bound && one.number == Some(Number::Whole);
        let parameter = self.template.iter().find(of_bound)?;
        (self.shape.block() == [self.number_of(parameter)]).then(|| self.macro_of(parameter))
    }

    /// Its name without namespaces.
    #[must_use]
    pub fn plain_name(&self) -> &str {
        self.name.rsplit("::").next().unwrap_or_default()
    }

    /// A macro's name for a number of the template, which is no word of the source.
    pub(super) fn macro_of(&self, parameter: &TemplateParameter) -> String {
        let name = self.plain_name();
        // An entry that names many of them would be too long with the whole name in each.
        let letters = if self.template.len() > 4 { 8 } else { MAX_TEXT.saturating_sub(parameter.name.len() + 1) };
        let name: String = name.chars().take(letters.max(1)).collect();
        format!("{name}_{}", parameter.name).to_uppercase()
    }

    pub(super) fn number_of(&self, parameter: &TemplateParameter) -> i64 {
        let is_bool = parameter.number == Some(Number::Bool);
        let is_enumeration = matches!(parameter.number, Some(Number::Enumeration(_)));
        match parameter.default.as_deref() {
            Some("true") => 1,
            Some("false") => 0,
            default => default.and_then(|default| default.parse().ok()).unwrap_or(match () {
                () if is_bool => 1,
                () if is_enumeration => 0,
                () => 256,
            }),
        }
    }
}
