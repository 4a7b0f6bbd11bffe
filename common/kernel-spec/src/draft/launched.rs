//! By what the kernels of a draft are launched.

use std::collections::BTreeMap;

use super::{Draft, Kernel, Launch, Number, Parameter, ParameterKind, Shape, TemplateParameter, instances, said};
use crate::host_code;

impl Draft {
    /// Kernels of which its files do not say how they are launched, or as which instances of templates.
    pub fn unlaunched(&self) -> impl Iterator<Item = usize> {
        let is_open = |kernel: &Kernel| kernel.shape.said.is_none() || kernel.template.iter().any(|one| !one.is_said);
        self.kernels.iter().enumerate().filter(move |(_, kernel)| is_open(kernel)).map(|(at, _)| at)
    }

    /// Takes what other files of the project, `texts`, say of the launches of a kernel, where its own files do not: arguments of its template, blocks and
    /// grids.
    pub fn learn_launches(&mut self, kernel: usize, texts: &[String]) {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return };
        let own = self.texts.iter().map(String::as_str);
        let others = texts.iter().map(String::as_str);
        if kernel.template.iter().any(|one| !one.is_said) {
            // What its own files say stays.
            let (said, before) = (kernel.template.clone(), std::mem::take(&mut kernel.instances));
            instances::as_launched(vec![&mut *kernel], own.clone(), others.clone());
            for (at, parameter) in said.into_iter().enumerate().filter(|(_, parameter)| parameter.is_said) {
                kernel.instances.iter_mut().filter_map(|arguments| arguments.get_mut(at)).for_each(|one| *one = None);
                kernel.template.get_mut(at).into_iter().for_each(|one| one.clone_from(&parameter));
            }
            if kernel.instances.is_empty() {
                kernel.instances = before;
            }
        }
        if kernel.shape.said.is_none() {
            said::set([kernel], own.chain(others), &self.macros, &self.defines);
        }
    }

    /// What else may launch a kernel, where it does not end well as it is drafted.
    #[must_use]
    pub fn launches(&self, kernel: usize) -> Vec<Launch> {
        let Some(kernel) = self.kernels.get(kernel) else { return Vec::new() };
        let of_template = |word: &str| {
            let parameter = kernel.template.iter().find(|one| one.name == word && one.number == Some(Number::Whole))?;
            Some(kernel.number_of(parameter))
        };
        let of_text: BTreeMap<String, i64> = self.files.values().flat_map(|text| host_code::constants(text)).collect();
        let number =
            |word: &str| word.parse().ok().or_else(|| of_template(word)).or_else(|| of_text.get(word).copied());
        kernel.shape.others(number)
    }

    /// Threads along each axis of a block of a kernel.
    #[must_use]
    pub fn block(&self, kernel: usize) -> Vec<i64> {
        self.kernels.get(kernel).map(|kernel| kernel.shape.block()).unwrap_or_default()
    }

    /// Whether the file itself says by which blocks a kernel is launched.
    #[must_use]
    pub fn says_launch(&self, kernel: usize) -> bool {
        let says = |shape: &Shape| shape.said.is_some() && (shape.bound.is_none() || !shape.said_as.is_empty());
        self.kernels.get(kernel).is_some_and(|kernel| says(&kernel.shape))
    }

    /// Whether nothing says how many threads a block has.
    #[must_use]
    pub fn guesses_block(&self, kernel: usize) -> bool {
        self.kernels.get(kernel).is_some_and(|kernel| kernel.shape.said.is_none())
    }

    /// Whether it says how many they are.
    #[must_use]
    pub fn says_blocks(&self, kernel: usize) -> bool {
        self.kernels.get(kernel).is_some_and(|kernel| kernel.shape.grid.is_some())
    }

    /// Launches a kernel so, since by its own launch it ends like `before`.
    pub fn set_launch(&mut self, kernel: usize, launch: Launch, before: &str) {
        if let Some(kernel) = self.kernels.get_mut(kernel) {
            kernel.shape.tried = Some((launch, before.to_string()));
        }
    }

    /// Makes a kernel the instance of another launch, the `at`-th. Whether there is that.
    pub fn set_instance(&mut self, kernel: usize, at: usize) -> bool {
        self.kernels.get_mut(kernel).is_some_and(|kernel| instances::set(kernel, at))
    }

    /// Whether a kernel that went so far wrote any of what it may write.
    #[must_use]
    pub fn writes(&self, kernel: usize, reach: &BTreeMap<String, u64>) -> bool {
        let values =
            self.kernels.get(kernel).into_iter().flat_map(|kernel| &kernel.parameters).flat_map(Parameter::values);
        // A function that is handed a pointer to constants writes none.
        let may_be = |value: &&Parameter| matches!(value.kind, ParameterKind::Pointer { written: true, .. });
        let mut written = values.filter(|value| may_be(value) && value.usage.written).peekable();
        written.peek().is_none() || written.any(|value| reach.get(&value.name).is_some_and(|elements| *elements > 0))
    }

    /// The buffers of a kernel whose elements say which elements of others are meant.
    #[must_use]
    pub fn indexing(&self, kernel: usize) -> Vec<&str> {
        let parameters = self.kernels.get(kernel).into_iter().flat_map(|kernel| &kernel.parameters);
        let indexing = parameters.flat_map(Parameter::values).filter(|value| value.is_buffer() && value.usage.indexes);
        indexing.map(|value| value.name.as_str()).collect()
    }

    /// Whether numbers of a kernel's template are guesses.
    #[must_use]
    pub fn guesses_numbers(&self, kernel: usize) -> bool {
        self.kernels.get(kernel).is_some_and(|kernel| kernel.template.iter().any(is_guess))
    }

    /// Gives them another value.
    pub fn set_numbers(&mut self, kernel: usize, number: i64) {
        let Some(kernel) = self.kernels.get_mut(kernel) else { return };
        kernel.template.iter_mut().filter(|one| is_guess(one)).for_each(|one| one.default = Some(number.to_string()));
    }
}

/// Whether nothing says what number it is.
fn is_guess(parameter: &TemplateParameter) -> bool {
    parameter.number == Some(Number::Whole) && !parameter.is_said
}
