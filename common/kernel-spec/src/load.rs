//! From the text of a spec to a [`KernelSpec`]: every check that needs no problem.

mod lists;
mod recipes;
mod solvers;
mod spaces;
mod structures;

use std::collections::{BTreeMap, BTreeSet};

use crate::bundle::{MAX_FILES, data_names, file_names};
use crate::condition::Condition;
use crate::error::SpecError;
use crate::expression::{Expression, is_name};
use crate::format::{RawBuffer, RawSpec, Scalar};
use crate::place::Places;
use crate::rules::{CLANG, TARGET, TOLERANCES, TRITON, is_flag, is_identifier, is_spec_name, is_target};
use crate::shim;
use crate::{BufferSpec, Bundle, ContentSpec, Distance, KernelSpec, Specialize, ToleranceSpec, TypeOf};
use bluefin_common::arch::FEATURES;
use bluefin_common::method::{CLANG_AND_TRITON, EvaluatedBy, Method};
use bluefin_common::problem::{DataType, Operator, read_size};
use bluefin_common::task::{Content, Role};
use bluefin_common::value::Value;

/// Most elements of any list of a spec.
const MAX_LIST: usize = 256;
/// The largest size of whole numbers all of which a float of 64 bits has.
const EXACT: f64 = (1_u64 << 53) as f64;

type Names = BTreeSet<String>;

impl KernelSpec {
    /// Checks a spec whole.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field and line.
    pub fn load(bundle: &Bundle) -> Result<Self, SpecError> {
        bundle.check_size()?;
        let raw = RawSpec::parse(&bundle.toml)?;
        Loader { places: Places::new(&raw.name, &bundle.toml) }.spec(&raw, bundle)
    }
}

struct Loader<'a> {
    places: Places<'a>,
}

impl Loader<'_> {
    fn spec(&self, raw: &RawSpec, bundle: &Bundle) -> Result<KernelSpec, SpecError> {
        self.require(is_spec_name(&raw.name), "name", &raw.name, "1 to 64 of a-z 0-9 and -")?;
        let operator = Operator::with_variables(&raw.problem);
        if operator.is_none() && raw.problem != "kernel" && (!is_spec_name(&raw.problem) || raw.sizes.is_empty()) {
            let words: Vec<&str> =
                Operator::all().filter(|one| !one.variables.is_empty()).map(|one| one.word).collect();
            let expected = format!("{}, kernel, or the word of an operator with [sizes]", words.join(", "));
            return Err(self.invalid("problem", &raw.problem, expected));
        }
        let on_gpu = self.targets(raw)?;
        self.files(raw, bundle)?;
        for (index, flag) in raw.flags.iter().enumerate() {
            self.require(
                is_flag(flag),
                &format!("flags[{index}]"),
                flag,
                "a flag that shapes code, without paths or plugins",
            )?;
        }
        let specialize = self.specialize(raw)?;
        let mut names = self.variables(raw, operator)?;
        let mut early = names.clone();
        raw.lets.iter().filter_map(|text| text.split_once('=')).for_each(|(name, _)| _ = early.remove(name.trim()));
        let early = Condition::parse(&raw.applicable.text(), self.places.at("applicable"), &early);
        let lets = self.lets(raw, &mut names)?;
        // An `applicable` that needs no derived value is checked before they are computed, so that it can guard them.
        let (applicable, applicable_uses_lets) = match early {
            Ok(applicable) => (applicable, false),
            Err(_) => (self.condition(&raw.applicable.text(), "applicable", &names)?, true),
        };
        let mut buffers = self.buffers(raw, &names)?;
        let tolerance = self.tolerance(raw, &names)?;
        let flops = self.amount(raw.flops.as_ref(), "flops", &names)?;
        let bytes = self.amount(raw.bytes.as_ref(), "bytes", &names)?;
        let solvers = self.solvers(raw, bundle, &names, on_gpu)?;
        self.recipes(raw, &names, &solvers, &mut buffers)?;
        let reference = solvers.iter().position(|solver| solver.name == raw.reference).ok_or_else(|| {
            let known: Vec<&str> = solvers.iter().map(|solver| solver.name.as_str()).collect();
            self.invalid("reference", &raw.reference, format!("one of the solvers {}", known.join(" ")))
        })?;
        let idle = solvers.iter().enumerate().find(|(index, solver)| !solver.is_candidate && *index != reference);
        if let Some((index, _)) = idle {
            let field = format!("solver[{index}].candidate");
            return Err(self.invalid(&field, "false", "true: it is not the reference, so it would be of no use"));
        }
        let texts = [Some(&bundle.toml), raw.spaces.as_ref().and_then(|name| bundle.files.get(name))];
        let texts: Vec<&String> = texts.into_iter().flatten().collect();
        Ok(KernelSpec {
            // Text beside expressions may hold the name too, which does no harm.
            features: FEATURES.into_iter().filter(|name| texts.iter().any(|text| text.contains(name))).collect(),
            name: raw.name.clone(),
            problem: raw.problem.clone(),
            toolchain: if raw.beside.is_some() { CLANG_AND_TRITON } else { &raw.toolchain }.to_string(),
            targets: raw.targets.clone(),
            source: raw.source.clone(),
            beside: raw.beside.as_ref().map(|beside| (beside.toolchain.clone(), beside.source.clone())),
            includes: raw.includes.iter().map(|path| shim::above(path).to_string()).collect(),
            flags: raw.flags.clone(),
            specialize,
            sizes: self.sizes(raw)?,
            solvers,
            reference,
            applicable,
            applicable_uses_lets,
            lets,
            flops,
            bytes,
            buffers,
            tolerance,
            data: bundle.data.clone(),
            made: crate::recipe::Made::default(),
        })
    }

    /// Whether the targets are GPUs: one spec is for the host or for GPUs, as its launches differ.
    fn targets(&self, raw: &RawSpec) -> Result<bool, SpecError> {
        self.list("targets", raw.targets.len(), 1, MAX_LIST)?;
        self.unique("targets", raw.targets.iter().map(String::as_str))?;
        let expected = "host, gfx…, sm_…, amd, nvidia or has_…";
        for (index, word) in raw.targets.iter().enumerate() {
            self.require(is_target(word), &format!("targets[{index}]"), word, expected)?;
        }
        let hosts = raw.targets.iter().filter(|arch| *arch == "host").count();
        let toolchains = evaluated_on_devices();
        if let Some(beside) = &raw.beside {
            let other = match raw.toolchain.as_str() {
                CLANG => Some(TRITON),
                TRITON => Some(CLANG),
                _ => None,
            };
            let expected = other.map_or("none: only clang and triton go together".to_string(), ToString::to_string);
            self.require(other == Some(&beside.toolchain), "beside.toolchain", &beside.toolchain, &expected)?;
        }
        let fits = match raw.toolchain.as_str() {
            "cc" => hosts == raw.targets.len(),
            CLANG | TRITON => hosts == 0,
            other if toolchains.contains(&other) => hosts == 0 || hosts == raw.targets.len(),
            other => {
                let expected = format!("one of {}", toolchains.join(", "));
                return Err(self.invalid("toolchain", other, expected));
            }
        };
        let expected = "only host for the toolchain cc, only GPUs for clang and triton, one or the other for any other";
        self.require(fits, "targets", &raw.targets.join(" "), expected)?;
        Ok(hosts == 0)
    }

    /// All of it where the toolchain is one that specialises and the spec does not say.
    fn specialize(&self, raw: &RawSpec) -> Result<Vec<Specialize>, SpecError> {
        if raw.toolchain == TRITON {
            self.list("flags", raw.flags.len(), 0, 0)?;
        }
        if raw.has(TRITON) {
            let all = vec![Specialize::Unit, Specialize::Divisible, Specialize::PointerRange];
            return Ok(raw.specialize.clone().unwrap_or(all));
        }
        match &raw.specialize {
            Some(_) => Err(self.invalid("specialize", "a list", format!("none, as {} does not", raw.toolchain))),
            None => Ok(Vec::new()),
        }
    }

    fn files(&self, raw: &RawSpec, bundle: &Bundle) -> Result<(), SpecError> {
        self.list("includes", raw.includes.len(), 0, MAX_FILES - 1)?;
        let names = file_names(raw)?;
        let names: BTreeSet<&str> = names.iter().map(|file| file.name.as_str()).collect();
        for name in &names {
            if !bundle.files.contains_key(*name) {
                let field = match *name {
                    name if raw.source == name => "source",
                    name if raw.beside.as_ref().is_some_and(|beside| beside.source == name) => "beside.source",
                    name if raw.spaces.as_deref() == Some(name) => "spaces",
                    _ => "includes",
                };
                return Err(self.invalid(field, *name, "a file that comes with the spec"));
            }
        }
        let data: BTreeSet<&str> = data_names(raw)?.into_iter().collect();
        let missing = raw
            .buffer
            .iter()
            .position(|buffer| buffer.data.as_ref().is_some_and(|name| !bundle.data.contains_key(name)));
        if let Some(index) = missing {
            let name = raw.buffer.get(index).and_then(|buffer| buffer.data.as_deref()).unwrap_or_default();
            return Err(self.invalid(&format!("buffer[{index}].data"), name, "a file that comes with the spec"));
        }
        if let Some(extra) = bundle.data.keys().find(|name| !data.contains(name.as_str())) {
            return Err(self.invalid("buffer", extra, "only files that the spec names"));
        }
        // A file that no field names would make another spec of the same kernel.
        let is_shim = |name: &str| raw.has(CLANG) && shim::is_header(name);
        match bundle.files.keys().find(|name| !names.contains(name.as_str()) && !is_shim(name)) {
            Some(extra) => Err(self.invalid("includes", extra, "only files that the spec names")),
            None => Ok(()),
        }
    }

    fn variables(&self, raw: &RawSpec, operator: Option<&Operator>) -> Result<Names, SpecError> {
        if operator.is_some() && !raw.sizes.is_empty() {
            return Err(self.invalid("sizes", "a table", "none, as the problem has its own sizes"));
        }
        self.list("sizes", raw.sizes.len(), 0, 64)?;
        let known = TARGET.iter().chain(operator.map_or(&[][..], |known| known.variables)).chain(&FEATURES);
        let mut names: Names = known.map(ToString::to_string).collect();
        for name in raw.sizes.keys() {
            self.declare(&mut names, name, &format!("sizes.{name}"))?;
        }
        Ok(names)
    }

    /// Sizes with their defaults, as problems may have them.
    fn sizes(&self, raw: &RawSpec) -> Result<BTreeMap<String, Value>, SpecError> {
        let sizes = raw.sizes.iter().map(|(name, size)| {
            let size = size.value();
            let is_fine = !matches!(&size, Value::Text(text) if read_size(text).as_ref() != Some(&size));
            self.require(
                is_fine,
                &format!("sizes.{name}"),
                &size.to_string(),
                "a whole number, a truth value or a word",
            )?;
            Ok((name.clone(), size))
        });
        sizes.collect()
    }

    fn lets(&self, raw: &RawSpec, names: &mut Names) -> Result<Vec<(String, Expression)>, SpecError> {
        self.list("let", raw.lets.len(), 0, MAX_LIST)?;
        let lines = raw.lets.iter().enumerate();
        lines.map(|(index, text)| self.line_of_let(text, &format!("let[{index}]"), names)).collect()
    }

    /// `name = expression`, where the name is new.
    fn line_of_let(&self, text: &str, field: &str, names: &mut Names) -> Result<(String, Expression), SpecError> {
        let (name, right) = text.split_once('=').ok_or_else(|| self.invalid(field, text, "name = expression"))?;
        let name = name.trim();
        let expression = Expression::parse(right.trim(), self.places.at(field), names)?;
        self.declare(names, name, field)?;
        Ok((name.to_string(), expression))
    }

    fn buffers(&self, raw: &RawSpec, names: &Names) -> Result<Vec<BufferSpec>, SpecError> {
        self.list("buffer", raw.buffer.len(), 1, MAX_LIST)?;
        self.unique("buffer", raw.buffer.iter().map(|buffer| buffer.name.as_str()))?;
        if !raw.buffer.iter().any(|buffer| buffer.role.is_written()) {
            let expected = "at least one buffer with role = \"output\" or \"inout\"";
            return Err(self.invalid("buffer", "no output", expected));
        }
        let buffers = raw.buffer.iter().enumerate();
        buffers.map(|(index, buffer)| self.buffer(buffer, &format!("buffer[{index}]"), names)).collect()
    }

    fn buffer(&self, raw: &RawBuffer, field: &str, names: &Names) -> Result<BufferSpec, SpecError> {
        let named = is_identifier(&raw.name) && raw.name != "workspace";
        self.require(named, &format!("{field}.name"), &raw.name, "an identifier other than workspace")?;
        let data_type = match DataType::of_buffer(&raw.r#type) {
            Some(data_type) => TypeOf::Fixed(data_type),
            None => TypeOf::Named(Expression::parse(&raw.r#type, self.places.at(&format!("{field}.type")), names)?),
        };
        // The length of one that is made in parts may say the size of a block; it is read with the recipe.
        let plain = Scalar::zero();
        let length = if raw.recipe.is_some() { &plain } else { &raw.length };
        let length = self.expression(length, &format!("{field}.length"), names)?;
        let content = self.content(raw, field, &data_type)?;
        Ok(BufferSpec { name: raw.name.clone(), data_type, length, role: raw.role, content })
    }

    /// What a buffer holds before a launch: one of `fill`, `data`, `recipe`, `step`, and `low` with `high`, or none of them.
    fn content(&self, raw: &RawBuffer, field: &str, data_type: &TypeOf) -> Result<ContentSpec, SpecError> {
        let said = [
            ("fill", raw.fill.is_some()),
            ("data", raw.data.is_some()),
            ("low", raw.step.is_none() && raw.low.is_some() || raw.high.is_some()),
            ("step", raw.step.is_some()),
            ("recipe", raw.recipe.is_some()),
        ];
        let mut said = said.into_iter().filter(|(_, said)| *said).map(|(name, _)| name);
        let (first, second) = (said.next(), said.next());
        if let Some(name) = first.filter(|_| raw.role == Role::Output) {
            return Err(self.invalid(
                &format!("{field}.{name}"),
                name,
                "none: what is in an output before is not read",
            ));
        }
        if let Some(name) = second {
            return Err(self.invalid(
                &format!("{field}.{name}"),
                name,
                "one of fill, data, recipe, step, and low with high",
            ));
        }
        // Of a type that an expression names no more is known here than of a float.
        let integers = match data_type {
            TypeOf::Fixed(data_type) => data_type.integers(),
            TypeOf::Named(_) => None,
        };
        let number = |name: &str, number: f64| {
            let fits = number.is_finite()
                && integers.is_none_or(|(least, most)| {
                    number.fract() == 0.0 && (least as f64) <= number && number <= most as f64
                });
            let expected = match integers {
                Some((least, most)) => format!("a whole number from {least} to {most}"),
                None => "a finite number".to_string(),
            };
            self.require(fits, &format!("{field}.{name}"), &number.to_string(), &expected).map(|()| number)
        };
        if let Some(step) = raw.step {
            self.require(integers.is_some(), &format!("{field}.step"), &raw.r#type, "a type of whole numbers")?;
            let first = raw.low.map(|low| number("low", low)).transpose()?.unwrap_or_default();
            let expected = "a whole number of at most 2^53 in size, beside step";
            self.require(first.abs() <= EXACT, &format!("{field}.low"), &first.to_string(), expected)?;
            return Ok(ContentSpec::Plain(Content::Steps { first: first as i64, step }));
        }
        Ok(match (raw.fill, &raw.data, raw.low, raw.high) {
            (Some(fill), ..) => ContentSpec::Plain(Content::Fill(number("fill", fill)?)),
            (_, Some(data), ..) => ContentSpec::Data(data.clone()),
            (_, _, None, None) => ContentSpec::Plain(Content::Random),
            (_, _, Some(low), Some(high)) => {
                let (low, high) = (number("low", low)?, number("high", high)?);
                let expected = format!("at least low, {low}");
                self.require(low <= high, &format!("{field}.high"), &high.to_string(), &expected)?;
                ContentSpec::Plain(Content::Uniform { low, high })
            }
            (_, _, low, _) => {
                let missing = if low.is_some() { "high" } else { "low" };
                return Err(self.invalid(&format!("{field}.{missing}"), "nothing", "low and high, both or none"));
            }
        })
    }

    fn tolerance(&self, raw: &RawSpec, names: &Names) -> Result<BTreeMap<DataType, ToleranceSpec>, SpecError> {
        self.list("tolerance", raw.tolerance.len(), 1, MAX_LIST)?;
        let mut all = BTreeMap::new();
        for (name, tolerance) in &raw.tolerance {
            let field = format!("tolerance.{name}");
            let known = || DataType::ALL.into_iter().chain(DataType::OF_BUFFERS);
            let named = || known().find(|data_type| data_type.name().eq_ignore_ascii_case(name));
            let data_type = named().ok_or_else(|| {
                let names: Vec<&str> = known().map(DataType::name).collect();
                self.invalid(&field, name, format!("one of {}", names.join(" ")))
            })?;
            let distance = |which: &str, scalar: &Scalar| {
                let field = format!("{field}.{which}");
                let fixed = match scalar {
                    Scalar::Float(number) => *number,
                    Scalar::Int(number) => *number as f64,
                    Scalar::Text(_) | Scalar::Bool(_) => {
                        return Ok(Distance::Of(self.expression(scalar, &field, names)?));
                    }
                };
                self.require(TOLERANCES.contains(&fixed), &field, &fixed.to_string(), "0 to 1e30")?;
                Ok(Distance::Fixed(fixed))
            };
            let spec = ToleranceSpec {
                absolute: distance("absolute", &tolerance.absolute)?,
                relative: distance("relative", &tolerance.relative)?,
            };
            all.insert(data_type, spec);
        }
        Ok(all)
    }

    fn amount(&self, raw: Option<&Scalar>, field: &str, names: &Names) -> Result<Option<Expression>, SpecError> {
        raw.map(|scalar| self.expression(scalar, field, names)).transpose()
    }

    fn expression(&self, scalar: &Scalar, field: &str, names: &Names) -> Result<Expression, SpecError> {
        Expression::parse(&scalar.text(), self.places.at(field), names)
    }

    fn condition(&self, text: &str, field: &str, names: &Names) -> Result<Condition, SpecError> {
        Condition::parse(text, self.places.at(field), names)
    }

    /// Makes `name` known to the expressions that follow.
    fn declare(&self, names: &mut Names, name: &str, field: &str) -> Result<(), SpecError> {
        self.require(is_name(name), field, name, "an identifier that means nothing else in an expression")?;
        // A spec may have a value of its own in place of a feature, as those did that are older than the feature. That it has
        // is remembered by what is no word of an expression.
        let free =
            names.insert(name.to_string()) || FEATURES.contains(&name) && names.insert(format!("{name} of the spec"));
        self.require(free, field, name, "a name that is not taken")
    }

    fn unique<'n>(&self, field: &str, names: impl Iterator<Item = &'n str>) -> Result<(), SpecError> {
        let mut seen = BTreeSet::new();
        for (index, name) in names.enumerate() {
            self.require(seen.insert(name), &format!("{field}[{index}]"), name, "a name that is not taken")?;
        }
        Ok(())
    }

    fn list(&self, field: &str, found: usize, least: usize, most: usize) -> Result<(), SpecError> {
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(self.invalid(field, format!("{found} entries"), format!("{least} to {most}")))
    }

    fn require(&self, holds: bool, field: &str, found: &str, expected: &str) -> Result<(), SpecError> {
        if holds { Ok(()) } else { Err(self.invalid(field, found.chars().take(80).collect::<String>(), expected)) }
    }

    fn invalid(&self, field: &str, found: impl Into<String>, expected: impl Into<String>) -> SpecError {
        SpecError::invalid(self.places.at(field), format!("{:?}", found.into()), expected)
    }
}

/// Toolchains whose artifacts a device loads.
fn evaluated_on_devices() -> Vec<&'static str> {
    let methods = Method::all().into_iter().filter(|method| method.evaluated_by == EvaluatedBy::Device);
    // A spec of two says so by a table.
    methods.flat_map(|method| method.toolchains.to_vec()).filter(|name| *name != CLANG_AND_TRITON).collect()
}
