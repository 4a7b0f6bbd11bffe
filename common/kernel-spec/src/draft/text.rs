//! The text of a draft.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bluefin_common::structure::MAX_BYTES;

use super::grid::plain;
use super::lengths::{self, NAME, SIZE};
use super::{Axis, Draft, Field, Kernel, Language, Parameter, ParameterKind, Shape, Usage, constants, structure};
use crate::rules::MAX_NAME;

/// Bytes of shared memory that a launch says where a kernel has some: enough for most.
const SHARED: u32 = 16384;

/// What a fraction is: what is scaled by it changes, and what it bounds is bounded for some.
const FRACTION: &str = "0.75";

/// Words by which people name a kernel that is slow and right.
const PLAIN: [&str; 4] = ["reference", "naive", "baseline", "golden"];

/// A buffer of the draft.
struct Buffer {
    element: &'static str,
    remark: String,
    /// Elements for each of what the kernel has.
    lanes: u32,
    written: bool,
    usage: Usage,
}

impl Buffer {
    /// Whether a kernel may write it.
    fn is_written(&self) -> bool {
        self.written && (self.usage.written || !self.usage.read)
    }

    /// What is replaced by the first value, where the greatest or the least of values is kept and nothing else.
    fn first_kept(&self) -> Option<i64> {
        let is_signed = self.element.starts_with("INT");
        let is_whole = is_signed || self.element.starts_with("UINT");
        match self.usage {
            Usage { otherwise: true, .. } | Usage { indexes: true, .. } => None,
            Usage { greatest: true, least: false, .. } if is_whole => Some(if is_signed { i32::MIN.into() } else { 0 }),
            Usage { greatest: false, least: true, .. } if is_whole => Some(i32::MAX.into()),
            Usage { .. } => None,
        }
    }

    fn role(&self) -> &'static str {
        match self.usage {
            _ if !self.is_written() => "\"input\"",
            Usage { read: true, .. } => {
                "\"inout\"  # \"output\" if it is written before it is read, \"input\" if it is only read"
            }
            Usage { written: true, .. } => "\"output\"",
            Usage { .. } => "\"output\"  # \"input\" if the kernel only reads it",
        }
    }
}

/// What all kernels of a draft share, by name.
#[derive(Default)]
struct Shared {
    buffers: BTreeMap<String, Buffer>,
    /// In the order of their first use.
    order: Vec<String>,
    /// With their values.
    sizes: BTreeMap<String, i64>,
    /// The size by which buffers are long of which nothing is known.
    main: String,
    /// Parameters that are tried.
    params: BTreeSet<String>,
}

impl Shared {
    fn of(draft: &Draft) -> Self {
        let kernels = &draft.kernels;
        let mut shared = Self::default();
        let is_python = draft.language == Language::Python;
        // The last stride of a tensor is no size, where no other kernel has it otherwise.
        let is_unit = |kernel: &Kernel, name: &str| is_python && constants::unit_strides(kernel).contains(&name);
        let values = kernels
            .iter()
            .flat_map(|kernel| kernel.parameters.iter().flat_map(Parameter::values).map(move |value| (kernel, value)));
        for (kernel, Parameter { name, kind, usage, .. }) in values {
            match kind {
                ParameterKind::Pointer { element, spelled, lanes, written } => {
                    let (element, remark) = match element {
                        Some(element) if *lanes > 1 => (element.name(), format!(", {lanes} for each {spelled}")),
                        Some(element) => (element.name(), String::new()),
                        None if spelled.is_empty() => ("FP32", String::new()),
                        None => ("INT8", format!(", which are bytes of {spelled}")),
                    };
                    if !shared.buffers.contains_key(name) {
                        shared.order.push(name.clone());
                    }
                    let new = Buffer { element, remark, lanes: *lanes, written: false, usage: Usage::default() };
                    let buffer = shared.buffers.entry(name.clone()).or_insert(new);
                    buffer.written |= written;
                    buffer.usage = buffer.usage.and(*usage);
                }
                ParameterKind::I32 | ParameterKind::I64 if !is_unit(kernel, name) => {
                    shared.sizes.insert(name.clone(), draft.sizes.get(name).copied().unwrap_or(SIZE));
                }
                ParameterKind::I32
                | ParameterKind::I64
                | ParameterKind::F32
                | ParameterKind::F64
                | ParameterKind::Constant { .. }
                | ParameterKind::Small { .. }
                | ParameterKind::Structure { .. }
                | ParameterKind::Other { .. } => {}
            }
        }
        shared.of_fields(kernels);
        shared.has_output();
        let numbers = |kernel: &Kernel| -> Vec<String> {
            kernel.template.iter().filter(|one| one.number.is_some()).map(|one| kernel.macro_of(one)).collect()
        };
        shared.params.extend(draft.macros.iter().map(|(name, _)| name.clone()).chain(kernels.iter().flat_map(numbers)));
        let main = draft.main.as_deref().or_else(|| lengths::main(kernels)).unwrap_or(NAME);
        shared.main = free_name(main, &shared.buffers);
        if !shared.sizes.contains_key(main) {
            shared.sizes.insert(shared.main.clone(), draft.sizes.get(main).copied().unwrap_or(SIZE));
        }
        shared
    }
}

impl Shared {
    /// Sizes that count what a vector does.
    fn of_fields(&mut self, kernels: &[Kernel]) {
        for parameter in kernels.iter().flat_map(|kernel| &kernel.parameters) {
            let ParameterKind::Structure { fields, .. } = &parameter.kind else { continue };
            for Field { size, value, .. } in fields {
                if let (Some(size), Some(value)) = (size, self.sizes.get_mut(&value.name)) {
                    *value = *size;
                }
            }
        }
    }

    /// The size by which blocks of a kernel are many: its first, or else that of the draft.
    fn main_of(&self, kernel: &Kernel) -> String {
        lengths::names(kernel).next().map_or_else(|| self.main.clone(), |size| free_name(size, &self.buffers))
    }

    /// Whether an expression names sizes alone.
    fn knows(&self, expression: &str) -> bool {
        let begins = |word: &&str| word.starts_with(|first: char| first.is_alphabetic() || first == '_');
        let mut names = expression.split(' ').filter(begins);
        let is_known = |name: &str| self.sizes.contains_key(name) || self.params.contains(name);
        names.all(|name| is_known(name) || matches!(name, "ceil_div" | "min" | "max"))
    }

    /// An expression of parameters as the spec has it.
    fn named(&self, expression: &str) -> String {
        let word = |word: &str| {
            let name = word.trim_matches(['(', ')']);
            if self.sizes.contains_key(name) {
                word.replace(name, &free_name(name, &self.buffers))
            } else {
                word.to_string()
            }
        };
        expression.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// A spec has an output: where the text shows none, macros or functions may write what no `const` protects, or else the last buffer.
    fn has_output(&mut self) {
        if self.buffers.values().any(Buffer::is_written) {
            return;
        }
        let any = self.buffers.values().any(|buffer| buffer.written);
        let last = self.order.last().cloned().unwrap_or_default();
        for (name, buffer) in &mut self.buffers {
            if buffer.written || !any && *name == last {
                (buffer.written, buffer.usage) = (true, Usage { read: true, written: true, ..buffer.usage });
            }
        }
    }
}

/// What a size is called beside these buffers.
fn free_name(name: &str, buffers: &BTreeMap<String, Buffer>) -> String {
    lengths::free_name(name, |name| buffers.contains_key(name))
}

/// `vectorAdd` as names of specs are: `vector-add`. Of one that is too long the end, which tells it from others.
fn spec_name(source: &str) -> String {
    let stem = source.rsplit_once('.').map_or(source, |(stem, _)| stem);
    let mut name = String::new();
    for found in stem.chars() {
        if found.is_ascii_uppercase() && name.ends_with(|last: char| last.is_ascii_lowercase()) {
            name.push('-');
        }
        let plain = found.to_ascii_lowercase();
        name.push(if plain.is_ascii_alphanumeric() { plain } else { '-' });
    }
    let name = name.get(name.len().saturating_sub(MAX_NAME)..).unwrap_or_default().trim_matches('-');
    if name.is_empty() { "kernel" } else { name }.to_string()
}

/// `vector_add` as solvers are called: `VectorAdd`. Where that is too long, without the first words: namespaces as a rule.
pub(super) fn solver_name(kernel: &Kernel) -> String {
    let words = kernel.name.split(|found: char| !found.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    };
    let number = kernel.overload.filter(|number| *number > 1).map(|number| number.to_string()).unwrap_or_default();
    let most = MAX_NAME - "K".len() - number.len();
    let (mut name, mut left) = (String::new(), most);
    for word in words.map(capital).collect::<Vec<_>>().into_iter().rev() {
        let Some(rest) = left.checked_sub(word.len()) else { break };
        (name, left) = (word + name.as_str(), rest);
    }
    if name.is_empty() {
        name = kernel.plain_name().chars().filter(char::is_ascii_alphanumeric).take(most).collect();
    }
    let digit = if name.starts_with(|first: char| first.is_ascii_digit()) { "K" } else { "" };
    format!("{digit}{name}{number}")
}

pub(super) fn spec(draft: &Draft) -> String {
    let shared = Shared::of(draft);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_head(&mut text, draft, &shared);
    for kernel in &draft.kernels {
        let _ = write_solver(&mut text, draft, kernel, &shared);
    }
    text
}

fn write_head(text: &mut String, draft: &Draft, shared: &Shared) -> std::fmt::Result {
    let mut name = spec_name(&draft.source);
    if let Some(part) = &draft.part {
        name = spec_name(&format!("{name}-{part}."));
    }
    let (toolchain, targets) = match draft.language {
        Language::Gpu => ("clang", "\"amd\", \"nvidia\""),
        Language::C => ("cc", "\"host\""),
        Language::Python => ("triton", "\"amd\", \"nvidia\""),
    };
    let try_it = if draft.language == Language::C { "tune" } else { "check" };
    let target = if draft.language == Language::C { "" } else { " --target gfx942" };
    writeln!(text, "# Written from the kernels in {}. See what has a remark, then:", draft.source)?;
    let file = draft.file.clone().unwrap_or_else(|| format!("{name}.toml"));
    writeln!(text, "#     bluefin {try_it} --kernel {file}{target}")?;
    writeln!(text, "name = \"{name}\"\nproblem = \"kernel\"\ntoolchain = \"{toolchain}\"\ntargets = [{targets}]")?;
    writeln!(text, "source = \"{}\"", draft.source)?;
    if !draft.includes.is_empty() {
        let names: Vec<String> = draft.includes.iter().map(|name| format!("{name:?}")).collect();
        writeln!(text, "includes = [{}]", names.join(", "))?;
    }
    let is_plain = |kernel: &&Kernel| PLAIN.iter().any(|word| kernel.name.to_lowercase().contains(word));
    // One that does not run is right for none.
    let mut running = draft.kernels.iter().filter(|kernel| !kernel.fails);
    let plain = running.clone().find(is_plain).or_else(|| running.next());
    let reference = plain.or_else(|| draft.kernels.iter().find(is_plain)).or(draft.kernels.first());
    let reference = reference.map(solver_name).unwrap_or_default();
    writeln!(text, "reference = \"{reference}\"  # the solver whose output is right: a plain one, if there is one")?;
    if draft.kernels.len() > 1 {
        writeln!(text, "# Each kernel is a solver: keep those that compute the same.")?;
    }
    for remark in draft.of_variables() {
        writeln!(text, "# {remark}")?;
    }
    writeln!(text, "\n[sizes]  # of a problem; --size replaces a value")?;
    for (size, value) in &shared.sizes {
        writeln!(text, "{} = {value}", free_name(size, &shared.buffers))?;
    }
    if !draft.defines.is_empty() {
        writeln!(text, "\n[defines]  # macros that the build file beside it gives, or that its files ask for")?;
    }
    for (name, value) in &draft.defines {
        let value = if value.parse::<i64>().is_ok() { value.clone() } else { format!("{:?}", format!("{value:?}")) };
        let why = draft.whys.get(name).map(|why| format!("  # {why}")).unwrap_or_default();
        writeln!(text, "{name} = {value}{why}")?;
    }
    for name in &shared.order {
        let Some(buffer @ Buffer { element, remark, .. }) = shared.buffers.get(name) else { continue };
        writeln!(text, "\n[[buffer]]\nname = \"{name}\"\ntype = \"{element}\"")?;
        let of_lanes = match buffer.lanes {
            2.. => format!("{} * {}", buffer.lanes, shared.main),
            _ => shared.main.clone(),
        };
        let (length, how) = match draft.lengths.get(name) {
            Some(length) => (&length.text, length.how()),
            None if draft.language == Language::Python => (&shared.main, "a guess: how many elements".to_string()),
            None => (&of_lanes, "how many elements".to_string()),
        };
        writeln!(text, "length = \"{length}\"  # {how}{remark}")?;
        writeln!(text, "role = {}", buffer.role())?;
        if buffer.usage.counts && buffer.is_written() && buffer.usage.read && element.contains("INT") {
            writeln!(text, "fill = 0  # it counts elements of others")?;
        } else if let Some(fill) = buffer.first_kept() {
            writeln!(
                text,
                "fill = {fill}  # it keeps the {} of values",
                if buffer.usage.least { "least" } else { "greatest" }
            )?;
        }
        let is_index = buffer.usage.indexes && !buffer.is_written() && element.contains("INT");
        if is_index && buffer.usage.begins {
            writeln!(text, "step = 4  # they ascend: what rows begin at")?;
        } else if is_index {
            let (low, high) = (buffer.usage.origin, buffer.usage.origin.saturating_add(4));
            writeln!(text, "low = {low}\nhigh = {high}  # they are indices: the least and the largest that are in it")?;
        } else if buffer.usage.indexes && !buffer.is_written() && element.starts_with("FP") {
            writeln!(text, "low = 0\nhigh = 0.99  # an index is computed from them: the least and the largest")?;
        }
    }
    let written = shared.buffers.values().filter(|one| one.is_written());
    let outputs: BTreeSet<&str> = written.map(|one| one.element).collect();
    for element in outputs {
        let (absolute, relative) = match element {
            "FP32" => ("1e-5", "1e-5"),
            "FP64" => ("1e-12", "1e-12"),
            "FP16" | "BF16" => ("1e-2", "1e-2"),
            _ => ("0.0", "0.0"),
        };
        writeln!(text, "\n[tolerance.{element}]  # |got - want| <= absolute + relative * |want|")?;
        writeln!(text, "absolute = {absolute}\nrelative = {relative}")?;
    }
    Ok(())
}

fn write_solver(text: &mut String, draft: &Draft, kernel: &Kernel, shared: &Shared) -> std::fmt::Result {
    writeln!(text, "\n[[solver]]\nname = \"{}\"\nalgorithm = \"Direct\"", solver_name(kernel))?;
    let mut param = |name: &str, value: &str| {
        let quoted = if value.parse::<i64>().is_ok() { value.to_string() } else { format!("{value:?}") };
        writeln!(
            text,
            "  [[solver.param]]\n  name = \"{name}\"\n  values = [{quoted}]  # those that are tried\n  default = {quoted}"
        )
    };
    let numbers = kernel.template.iter().filter(|parameter| parameter.number.is_some());
    for parameter in numbers {
        param(&kernel.macro_of(parameter), &kernel.number_of(parameter).to_string())?;
    }
    for (name, value) in &draft.macros {
        param(name, &value.to_string())?;
    }
    constants::write(text, kernel)?;
    let mut remarks = Vec::new();
    let units = constants::unit_strides(kernel);
    let arguments: Vec<String> = kernel
        .parameters
        .iter()
        .filter_map(|one| {
            let is_unit = draft.language == Language::Python && units.contains(&one.name.as_str());
            if is_unit { Some("{ i32 = 1 }".to_string()) } else { argument(one, draft.language, shared, &mut remarks) }
        })
        .collect();
    if draft.language == Language::Python && arguments.iter().any(|one| one.contains("i32")) {
        remarks.push("numbers are taken for integers, a fraction is { f32 = 1.0 }".to_string());
    }
    if draft.language == Language::Python && !units.is_empty() {
        remarks.push(format!("1 as the last stride of a tensor: {}", units.join(" ")));
    }
    writeln!(text, "  [[solver.launch]]\n  entry = \"{}\"", kernel.entry(true))?;
    for remark in remarks {
        writeln!(text, "  # {remark}")?;
    }
    writeln!(text, "  arguments = [{}]", arguments.join(", "))?;
    match draft.language {
        Language::C => Ok(()),
        Language::Gpu => write_launch(text, kernel, shared),
        Language::Python => {
            let block = constants::block(kernel).unwrap_or("128");
            writeln!(text, "  grid = [\"ceil_div({}, {block})\"]  # programs", shared.main_of(kernel))
        }
    }
}

/// Grid and block of a kernel, of the axes that it uses. How many elements are along one is what its text says, else the next of its sizes.
fn write_launch(text: &mut String, kernel: &Kernel, shared: &Shared) -> std::fmt::Result {
    let Shape { axes, has_shared, tried, .. } = &kernel.shape;
    let is_used = |axis: &Axis| axis.threads || axis.blocks;
    let used = axes.iter().rposition(is_used).map_or(1, |last| last + 1);
    let blocks = kernel.shape.block();
    let block_param = kernel.block_param();
    let is_one = tried.as_ref().is_some_and(|(tried, _)| tried.is_one);
    let bounds: Vec<&str> = axes.iter().filter_map(|axis| axis.bound.as_deref()).collect();
    let is_free = |name: &&str| !bounds.iter().any(|bound| bound.split([' ', '(', ')']).any(|word| word == *name));
    let mut free = lengths::names(kernel).filter(is_free);
    let mut grid = Vec::new();
    for (at, axis) in axes.iter().enumerate().take(used) {
        // One that asks for its thread alone has one block; of x the text may be elsewhere. What blocks of y and z that nothing bounds do is
        // said by strides, which are no numbers of a draft.
        let has_blocks = match at {
            0 => axis.blocks || !is_used(axis),
            _ => axis.blocks && (axis.threads || axis.bound.is_some()),
        };
        if !has_blocks || is_one {
            grid.push("1".to_string());
            continue;
        }
        let named = axis.bound.as_deref().filter(|bound| shared.knows(bound)).or_else(|| free.next());
        let elements = named.map_or_else(|| shared.main.clone(), |bound| plain(&shared.named(bound)));
        grid.push(match blocks.get(at).copied().filter(|threads| *threads > 1 && !axis.by_block) {
            Some(_) if let Some(param) = &block_param => format!("\"ceil_div({elements}, {param})\""),
            Some(threads) => format!("\"ceil_div({elements}, {threads})\""),
            None => format!("\"{elements}\""),
        });
    }
    let is_known = |blocks: &Vec<String>| blocks.iter().all(|one| shared.knows(one));
    let is_of_launch = block_param.is_none() || block_param.as_slice() == kernel.shape.said_as.as_slice();
    let said = kernel.shape.grid.as_ref().filter(|blocks| tried.is_none() && is_of_launch && is_known(blocks));
    if let Some(said) = said {
        grid = said.iter().map(|blocks| quoted(&shared.named(blocks))).collect();
    }
    if let Some((_, before)) = tried {
        let whose = if kernel.shape.said.is_some() || kernel.shape.grid.is_some() {
            "its own launch"
        } else {
            "the usual blocks"
        };
        writeln!(text, "  # found by trying: by {whose} it ends like this: {before}")?;
    }
    let whose = said.map_or_else(String::new, |_| kernel.shape.whose());
    writeln!(text, "  grid = [{}]  # blocks{whose}", grid.join(", "))?;
    let blocks: Vec<String> = match block_param {
        Some(param) => vec![format!("\"{param}\"")],
        None => {
            // Of axes that the launch does not say there is one.
            let said = Some(&kernel.shape.said_as).filter(|words| tried.is_none() && is_known(words));
            let mut words: Vec<String> = said.into_iter().flatten().map(|words| quoted(&shared.named(words))).collect();
            words.extend(blocks.iter().skip(words.len()).map(ToString::to_string));
            words
        }
    };
    let guess =
        if kernel.shape.said.is_none() && tried.is_none() { ": a guess, as no launch here says it" } else { "" };
    writeln!(text, "  block = [{}]  # threads of each{guess}", blocks.join(", "))?;
    let (mark, bytes) = if *has_shared { ("", SHARED) } else { ("# ", 1024) };
    writeln!(text, "  {mark}shared = {bytes}  # bytes of `extern __shared__`")
}

/// An expression as a spec has it in a list.
fn quoted(expression: &str) -> String {
    match expression.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{}\"", plain(expression)),
    }
}

/// An argument of a launch; a remark where it has to be said what it is.
fn argument(parameter: &Parameter, language: Language, shared: &Shared, remarks: &mut Vec<String>) -> Option<String> {
    let name = &parameter.name;
    let size = free_name(name, &shared.buffers);
    Some(match &parameter.kind {
        ParameterKind::Pointer { .. } => format!("\"{name}\""),
        ParameterKind::I32 => format!("{{ i32 = \"{size}\" }}"),
        ParameterKind::I64 => format!("{{ i64 = \"{size}\" }}"),
        ParameterKind::F32 => {
            remarks.push(format!("{name} is {FRACTION} here"));
            format!("{{ f32 = {FRACTION} }}")
        }
        ParameterKind::F64 => {
            remarks.push(format!("{name} is {FRACTION} here"));
            format!("{{ f64 = {FRACTION} }}")
        }
        ParameterKind::Constant { .. } => return None,
        ParameterKind::Small { spelled } => {
            remarks.push(format!("{name} is 0 here, as a {spelled}"));
            "{ i32 = 0 }".to_string()
        }
        ParameterKind::Structure { .. } => {
            structure::argument((name, &parameter.kind), |size| free_name(size, &shared.buffers), remarks)
        }
        ParameterKind::Other { spelled, bytes: Some(bytes @ 1..=8) } => {
            remarks.push(format!("{name} is 0 here: the {bytes} bytes of a {spelled} as one number"));
            format!("{{ {} = 0 }}", if *bytes > 4 { "i64" } else { "i32" })
        }
        ParameterKind::Other { spelled, .. } if language == Language::C => {
            remarks.push(format!(
                "{name} is a {spelled}, which no launch on the host can pass: give the kernel a wrapper that takes numbers"
            ));
            "{ i32 = 0 }".to_string()
        }
        ParameterKind::Other { spelled, bytes } => {
            remarks.push(format!(
                "{name} is a {spelled}, whose fields are not known: name them in their order, as in {{ struct = [\"x\", {{ i32 = \"n\" }}] }}"
            ));
            match bytes {
                Some(bytes) if *bytes <= MAX_BYTES => format!("{{ struct = [], size = {bytes} }}"),
                _ => "{ i32 = 0 }".to_string(),
            }
        }
    })
}
