//! Where the expressions of a spec have values: one problem on one target.

use std::collections::BTreeMap;
use std::mem::discriminant;

use crate::error::SpecError;
use crate::expression::{Expression, Values, push};
use crate::rules::TOLERANCES;
use crate::{BufferSpec, ContentSpec, Distance, KernelSpec, Solver, TypeOf};
use bluefin_common::arch;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::description::UsefulWork;
use bluefin_common::problem::{DataType, KernelProblem, Problem};
use bluefin_common::target::Target;
use bluefin_common::task::{Buffer, Content, Tolerance};
use bluefin_common::value::Value;

/// Most bytes of all buffers together, and of a workspace.
pub(super) const MAX_BYTES: u64 = 1 << 40;
/// Largest magnitude of a size: products of three still fit 64 bits or overflow with an error.
const MAX_SIZE: i64 = 1 << 40;

/// The variables of a problem and a target, and the values derived from them.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) values: Values,
    pub(super) target: Target,
}

/// What of a spec does not fit a problem on a target.
pub(super) enum Unfit {
    /// It is for problems of another kind, or another kernel.
    Problem,
    Target,
    /// `applicable` is false for these.
    Inapplicable(Values),
}

impl Scope {
    /// The value of a variable or of a derived value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value> {
        let value = self.values.get(name)?;
        if let Ok(int) = value.as_int() {
            return Some(Value::Int(int));
        }
        value
            .as_bool()
            .map_or_else(|_| value.clone().into_string().ok().map(Value::Text), |bool| Some(Value::Bool(bool)))
    }

    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl KernelSpec {
    /// Whether `target` is among its targets.
    #[must_use]
    pub fn is_for(&self, target: &Target) -> bool {
        self.targets.iter().any(|word| arch::is_meant(word, target.arch()))
    }

    /// The scope of `problem` on `target`, or `None` if the spec is not for them: of another kind, another architecture,
    /// or not `applicable`.
    ///
    /// # Errors
    /// An expression that has no value, or not one of the right type.
    pub fn scope(&self, problem: &Problem, target: &Target) -> Result<Option<Scope>, SpecError> {
        Ok(self.fit(problem, target)?.ok())
    }

    /// Whether `problem` is of the operator that it is for, or of its kernel with its sizes.
    #[must_use]
    pub fn is_of(&self, problem: &Problem) -> bool {
        match problem {
            Problem::Kernel(kernel) => self.kernel() == Some(&kernel.kernel) && self.has_sizes(&kernel.sizes),
            other => other.operation().operator().word == self.problem,
        }
    }

    /// The same, with what it is that does not fit.
    pub(super) fn fit(&self, problem: &Problem, target: &Target) -> Result<Result<Scope, Unfit>, SpecError> {
        if !self.is_of(problem) {
            return Ok(Err(Unfit::Problem));
        }
        if !self.is_for(target) {
            return Ok(Err(Unfit::Target));
        }
        let mut values = Values::new();
        // First, so that what the spec calls so comes before them.
        for name in &self.features {
            push(&mut values, name, &arch::feature(target.arch(), name));
        }
        for (name, value) in problem.variables() {
            push(&mut values, &name, &value);
        }
        push(&mut values, "target", &target.arch().into());
        push(&mut values, "wave", &target.wave().into());
        push(&mut values, "cus", &target.cus().into());
        if !self.applicable_uses_lets && !self.applicable.holds(&mut values)? {
            return Ok(Err(Unfit::Inapplicable(values)));
        }
        for (name, expression) in &self.lets {
            let value = expression.value(&mut values)?;
            push(&mut values, name, &value);
        }
        if self.applicable_uses_lets && !self.applicable.holds(&mut values)? {
            return Ok(Err(Unfit::Inapplicable(values)));
        }
        Ok(Ok(Scope { values, target: target.clone() }))
    }

    /// Whether `sizes` are those of the spec: the same names, each with a value of the same type.
    fn has_sizes(&self, sizes: &BTreeMap<String, Value>) -> bool {
        let alike = |((name, size), (own, default)): ((&String, &Value), (&String, &Value))| {
            name == own && discriminant(size) == discriminant(default)
        };
        sizes.len() == self.sizes.len() && sizes.iter().zip(&self.sizes).all(alike)
    }

    /// The problem of a user's own kernel: its sizes with their defaults, `sizes` in their place where given.
    ///
    /// # Errors
    /// A size that the spec does not have, or out of range; a spec that is not of a user's own kernel.
    pub fn problem(&self, sizes: &BTreeMap<String, Value>) -> Result<Problem, SpecError> {
        let fail = |name: &str, found: String, expected: String| SpecError::Sizes {
            spec: self.name.clone(),
            name: name.chars().take(64).collect(),
            found,
            expected,
        };
        let Some(kernel) = self.kernel() else {
            let found = "a spec whose problems have their own sizes".to_string();
            return Err(fail("", found, "problem = \"kernel\"".to_string()));
        };
        let mut all = self.sizes.clone();
        for (name, size) in sizes {
            let Some(slot) = all.get_mut(name) else {
                let names: Vec<&str> = self.sizes.keys().map(String::as_str).collect();
                return Err(fail(name, "no such size".to_string(), format!("one of {}", names.join(" "))));
            };
            let expected = match slot {
                Value::Int(_) if !matches!(size, Value::Int(int) if (-MAX_SIZE..=MAX_SIZE).contains(int)) => {
                    format!("-{MAX_SIZE} to {MAX_SIZE}")
                }
                Value::Bool(_) if !matches!(size, Value::Bool(_)) => "true or false".to_string(),
                Value::Text(_) if !matches!(size, Value::Text(_)) => format!("a word such as {slot}"),
                _ => {
                    slot.clone_from(size);
                    continue;
                }
            };
            return Err(fail(name, size.to_string(), expected));
        }
        let problem = KernelProblem::new(kernel.to_string(), all);
        problem.map(Problem::Kernel).map_err(|source| SpecError::Problem { spec: self.name.clone(), source })
    }

    /// The solvers that apply and are tried.
    ///
    /// # Errors
    /// An `applicable` that has no value.
    pub fn solvers_for(&self, scope: &Scope) -> Result<Vec<&Solver>, SpecError> {
        let mut values = scope.values.clone();
        let mut found = Vec::new();
        for solver in self.solvers.iter().filter(|solver| solver.is_candidate) {
            if solver.applicable.holds(&mut values)? {
                found.push(solver);
            }
        }
        Ok(found)
    }

    /// Whether the spec says what its problems come to.
    pub(super) fn says_work(&self) -> bool {
        self.flops.is_some() || self.bytes.is_some()
    }

    /// What the problem comes to, as far as the spec says so. What comes to nothing is not known.
    ///
    /// # Errors
    /// An expression that has no value.
    pub fn work(&self, scope: &Scope) -> Result<UsefulWork, SpecError> {
        let mut values = scope.values.clone();
        let mut amount = |expression: &Option<Expression>| {
            let found = expression.as_ref().map(|expression| expression.float(&mut values)).transpose()?;
            Ok(found.filter(|found| *found > 0.0))
        };
        Ok(UsefulWork { flops: amount(&self.flops)?, bytes: amount(&self.bytes)? })
    }

    /// The buffers, and how far outputs may be from the reference: the tolerance of the outputs' type, the widest where
    /// they have several.
    ///
    /// # Errors
    /// A length or type that has no value or is out of range; an output of a type without tolerance.
    pub fn task_parts(&self, scope: &Scope) -> Result<(Vec<Buffer>, Tolerance), SpecError> {
        let mut values = scope.values.clone();
        let mut buffers = Vec::with_capacity(self.buffers.len());
        let mut tolerance = Tolerance { absolute: 0.0, relative: 0.0 };
        let mut total = 0_u64;
        for spec in &self.buffers {
            let data_type = spec.data_type.evaluate(&mut values)?;
            let rows = match &spec.content {
                ContentSpec::Rows(rows) => Some(self.rows(spec, rows, scope)?),
                _ => None,
            };
            let length = match (&spec.content, rows) {
                (_, Some((_, length))) => length,
                (ContentSpec::Made(_), None) => self.recipe(spec, scope)?.length(),
                _ => spec.length.bounded(&mut values, 1, MAX_BYTES)?,
            };
            let own = data_type.on(scope.target.arch());
            let content = match (&spec.content, rows) {
                (_, Some((content, _))) => content,
                (ContentSpec::Plain(content), _) => *content,
                (ContentSpec::Data(file), _) => Content::Data(self.data_of(spec, file, own, length)?),
                (ContentSpec::Made(_) | ContentSpec::Rows(_), _) => {
                    let data = self.make(spec, scope)?.0;
                    match spec.draws() {
                        draws @ 2.. => Content::Drawn { data, draws },
                        _ => Content::Data(data),
                    }
                }
            };
            let buffer = Buffer { name: spec.name.clone(), data_type: own, length, role: spec.role, content };
            total = total.saturating_add(buffer.bytes());
            if total > MAX_BYTES {
                return Err(spec
                    .length
                    .error(format!("found {total} bytes in all buffers, expected at most {MAX_BYTES}")));
            }
            if spec.role.is_written() {
                let known = || self.tolerance.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                let own = self.tolerance.get(&data_type).ok_or_else(|| {
                    spec.length
                        .error(format!("output of type {data_type}, expected one with a [tolerance]: {}", known()))
                })?;
                tolerance.absolute = tolerance.absolute.max(own.absolute.evaluate(&mut values)?);
                tolerance.relative = tolerance.relative.max(own.relative.evaluate(&mut values)?);
            }
            buffers.push(buffer);
        }
        Ok((buffers, tolerance))
    }
}

impl KernelSpec {
    /// The data of a buffer, of as many elements.
    fn data_of(
        &self,
        buffer: &BufferSpec,
        file: &str,
        data_type: DataType,
        elements: u64,
    ) -> Result<ArtifactRef, SpecError> {
        let expected = elements.saturating_mul(data_type.size() as u64);
        match self.data.get(file) {
            Some(data) if data.size == expected => Ok(*data),
            data => Err(SpecError::Data {
                place: buffer.length.place().clone(),
                file: file.to_string(),
                found: data.map_or(0, |data| data.size),
                expected,
                elements,
                data_type,
            }),
        }
    }
}

impl Distance {
    fn evaluate(&self, values: &mut Values) -> Result<f64, SpecError> {
        match self {
            Self::Fixed(fixed) => Ok(*fixed),
            Self::Of(expression) => match expression.float(values)? {
                found if TOLERANCES.contains(&found) => Ok(found),
                found => Err(expression.error(format!("found {found}, expected 0 to 1e30"))),
            },
        }
    }
}

impl TypeOf {
    pub(super) fn evaluate(&self, values: &mut Values) -> Result<DataType, SpecError> {
        match self {
            Self::Fixed(data_type) => Ok(*data_type),
            Self::Named(expression) => match expression.value(values)? {
                Value::Text(name) => match DataType::of_buffer(&name) {
                    Some(data_type) => Ok(data_type),
                    None => name.parse().map_err(|error| expression.error(format!("{error}"))),
                },
                other => Err(expression.error(format!("found {other}, expected the name of a data type"))),
            },
        }
    }
}
