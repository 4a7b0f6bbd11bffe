//! The solvers of a spec: their tuning spaces, macros and launches.

use std::collections::{BTreeMap, BTreeSet};

use super::spaces::{Space, Spaces};
use super::{Loader, MAX_LIST, Names};
use crate::condition::Condition;
use crate::cost::Cost;
use crate::error::SpecError;
use crate::expression::Expression;
use crate::format::{
    Bind, Padding, RawArgument, RawLaunch, RawNumber, RawParam, RawSolver, RawSpec, RawTensor, RawValue, Scalar,
};
use crate::rules::{CLANG, TRITON, is_cpp_entry, is_entry, is_identifier};
use crate::tensor::TensorSpec;
use crate::{ArgumentSpec, Bundle, Geometry, LaunchSpec, Param, Solver, Whole};
use bluefin_common::tensor::RANK;
use bluefin_common::value::Value;

/// Most params of a solver.
pub(super) const MAX_PARAMS: usize = 64;
/// Most values of a param.
const MAX_VALUES: usize = 4096;
/// Most points of a tuning space: far beyond what can be tried, far below an overflow.
const MAX_SPACE: u64 = 1 << 48;

/// What solvers of a toolchain refer to.
pub(super) struct Context<'a> {
    toolchain: &'a str,
    buffers: Vec<&'a str>,
    on_gpu: bool,
    /// Whether launches say how large a block is, and its shared memory; otherwise the compiler does.
    sizes_blocks: bool,
    /// Whether entries are names of C++.
    is_cpp: bool,
    spaces: &'a Spaces<'a>,
    /// Macros of all solvers of the spec's first toolchain.
    defines: Option<&'a BTreeMap<String, Scalar>>,
    /// Whether kernels are Python's, whose constants have kinds.
    pub(super) is_python: bool,
}

impl Context<'_> {
    /// Whether launches pass structures by value.
    pub(super) fn takes_structures(&self) -> bool {
        self.on_gpu && !self.is_python
    }
}

impl Loader<'_> {
    pub(super) fn solvers(
        &self,
        raw: &RawSpec,
        bundle: &Bundle,
        names: &Names,
        on_gpu: bool,
    ) -> Result<Vec<Solver>, SpecError> {
        self.list("solver", raw.solver.len(), 1, MAX_LIST)?;
        self.unique("solver", raw.solver.iter().map(|solver| solver.name.as_str()))?;
        let spaces = &Spaces::read(self, raw, bundle)?;
        let context = |(toolchain, _)| {
            let buffers = raw.buffer.iter().map(|buffer| buffer.name.as_str()).collect();
            let (is_python, is_cpp) = (toolchain == TRITON, toolchain == CLANG);
            let defines = (toolchain == raw.toolchain).then_some(&raw.defines);
            Context { toolchain, buffers, on_gpu, sizes_blocks: !is_python, is_cpp, spaces, defines, is_python }
        };
        let contexts: Vec<Context<'_>> = raw.sources().map(context).collect();
        if let Some(beside) = &raw.beside {
            let used = raw.solver.iter().any(|solver| solver.toolchain.as_ref() == Some(&beside.toolchain));
            self.require(used, "beside", &beside.toolchain, "a solver of that toolchain")?;
        }
        let solvers = raw.solver.iter().enumerate().map(|(index, solver)| {
            let field = format!("solver[{index}]");
            let toolchain = solver.toolchain.as_deref().unwrap_or(&raw.toolchain);
            let context = contexts.iter().find(|context| context.toolchain == toolchain).ok_or_else(|| {
                let known: Vec<&str> = contexts.iter().map(|context| context.toolchain).collect();
                let expected = format!("{}; a second one is said by [beside]", known.join(" or "));
                self.invalid(&format!("{field}.toolchain"), toolchain, expected)
            })?;
            self.solver(solver, &field, names, context)
        });
        solvers.collect()
    }

    fn solver(&self, raw: &RawSolver, field: &str, names: &Names, context: &Context<'_>) -> Result<Solver, SpecError> {
        self.require(is_identifier(&raw.name), &format!("{field}.name"), &raw.name, "an identifier")?;
        let algorithm = raw.algorithm.parse();
        let algorithm = algorithm
            .map_err(|error| self.invalid(&format!("{field}.algorithm"), &raw.algorithm, format!("{error}")))?;
        let applicable = self.condition(&raw.applicable.text(), &format!("{field}.applicable"), names)?;
        let mut names = names.clone();
        // A list has none beside it, which is said where it is read.
        let space = raw.space.as_deref().filter(|_| raw.points.is_none());
        let space = space.map(|name| context.spaces.get(self, &format!("{field}.space"), name)).transpose()?;
        let (points, params) = match &raw.points {
            Some(listed) => {
                let points = self.points(raw, listed, field, &mut names, context.is_python)?;
                (Some(points.0), points.1)
            }
            None => (None, self.params(raw, field, space.as_ref(), &mut names)?),
        };
        let mut constraints = self.constraints(raw, field, space.as_ref(), &names)?;
        let defines = self.defines(raw, field, &params, context.defines, &names)?;
        let constants = self.constants(raw, field, &params, &defines, context)?;
        let words = self.words(raw, field, &params)?;
        let workspace = self.expression(&raw.workspace, &format!("{field}.workspace"), &names)?;
        let cost = raw.compile_cost.as_ref();
        let compile_cost =
            cost.map(|cost| self.expression(cost, &format!("{field}.compile_cost"), &names)).transpose()?;
        let cost = self.cost(raw, field, space.as_ref(), &names)?;
        self.list(&format!("{field}.launch"), raw.launch.len(), 1, MAX_LIST)?;
        let launches = raw.launch.iter().enumerate();
        let at_launch = params.iter().filter(|param| param.at_launch);
        let mut compiled = names.clone();
        at_launch.for_each(|param| _ = compiled.remove(&param.name));
        let launches = launches
            .map(|(index, launch)| {
                let mut launched = self.launch(launch, &format!("{field}.launch[{index}]"), &names, context)?;
                // What has no value without them depends on them.
                launched.varying = launched.arguments.iter().map(|argument| !argument.knows(&compiled)).collect();
                Ok(launched)
            })
            .collect::<Result<_, _>>()?;
        // A point without a launch computes nothing.
        let launched = raw.launch.iter().map(|launch| launch.when.text());
        let launched: Vec<String> = launched.map(|when| format!("({when})")).collect();
        if !launched.iter().any(|when| when == "(true)") {
            constraints.push(self.condition(&launched.join(" || "), &format!("{field}.launch[0].when"), &names)?);
        }
        let (name, is_candidate) = (raw.name.clone(), raw.candidate);
        Ok(Solver {
            name,
            toolchain: context.toolchain.to_string(),
            algorithm,
            params,
            points,
            constants,
            words,
            is_candidate,
            applicable,
            constraints,
            defines,
            workspace,
            compile_cost,
            cost,
            launches,
        })
    }

    /// What a model says of a point: in the solver's words, else in those of its space, whose values a solver may have others for.
    fn cost(
        &self,
        raw: &RawSolver,
        field: &str,
        space: Option<&Space<'_>>,
        names: &Names,
    ) -> Result<Option<Cost>, SpecError> {
        let of_space = space.and_then(|space| Some((space.loader, space.field.as_str(), space.raw.cost.as_ref()?)));
        let said = raw.cost.as_ref().map(|cost| (self, field, cost)).or(of_space);
        let lines =
            Space::lines_of_cost(space.filter(|_| raw.cost.is_none()), (self, field.to_string(), &raw.cost_let))?;
        let Some((loader, place, value)) = said else {
            return match lines.first() {
                None => Ok(None),
                Some((loader, field, line)) => Err(loader.invalid(field, line.as_str(), "a cost that it is for")),
            };
        };
        let mut names = names.clone();
        let lets = lines.iter().map(|(loader, field, line)| loader.line_of_let(line, field, &mut names));
        let lets = lets.collect::<Result<_, _>>()?;
        Ok(Some(Cost { lets, value: loader.expression(value, &format!("{place}.cost"), &names)? }))
    }

    fn constraints(
        &self,
        raw: &RawSolver,
        field: &str,
        space: Option<&Space<'_>>,
        names: &Names,
    ) -> Result<Vec<Condition>, SpecError> {
        let mut constraints = Vec::new();
        let shared = space.map(|space| (space.loader, space.field.as_str(), &space.raw.constraints));
        for (loader, field, texts) in shared.into_iter().chain([(self, field, &raw.constraints)]) {
            loader.list(&format!("{field}.constraints"), texts.len(), 0, MAX_LIST)?;
            for (index, text) in texts.iter().enumerate() {
                constraints.push(loader.condition(text, &format!("{field}.constraints[{index}]"), names)?);
            }
        }
        Ok(constraints)
    }

    /// Those of all solvers and its own, which come in the place of one of the same name.
    fn defines(
        &self,
        raw: &RawSolver,
        field: &str,
        params: &[Param],
        common: Option<&BTreeMap<String, Scalar>>,
        names: &Names,
    ) -> Result<BTreeMap<String, Expression>, SpecError> {
        let mut defines = BTreeMap::new();
        let common = common.map(|table| ("defines".to_string(), table));
        for (field, table) in common.into_iter().chain([(format!("{field}.defines"), &raw.defines)]) {
            self.list(&field, table.len(), 0, MAX_LIST)?;
            for (name, scalar) in table {
                let field = format!("{field}.{name}");
                let free = is_identifier(name) && !params.iter().any(|param| param.name == *name);
                self.require(free, &field, name, "an identifier that is not a param's name")?;
                defines.insert(name.clone(), self.expression(scalar, &field, names)?);
            }
        }
        Ok(defines)
    }

    fn params(
        &self,
        raw: &RawSolver,
        field: &str,
        space: Option<&Space<'_>>,
        names: &mut Names,
    ) -> Result<Vec<Param>, SpecError> {
        self.list(&format!("{field}.param"), raw.param.len(), 0, MAX_PARAMS)?;
        let own = raw.param.iter().enumerate().map(|(index, param)| (self, format!("{field}.param[{index}]"), param));
        let said = Space::params(space, own.collect());
        self.list(field, said.len(), 0, MAX_PARAMS)?;
        let mut points = 1_u64;
        let mut params = Vec::with_capacity(said.len());
        for (loader, field, raw) in said {
            let param = loader.param(raw, &field, names)?;
            points = points.saturating_mul(param.values.len() as u64);
            if points > MAX_SPACE {
                let expected = format!("at most {MAX_SPACE} in a tuning space");
                return Err(loader.invalid(&field, format!("{points} points"), expected));
            }
            params.push(param);
        }
        Ok(params)
    }

    fn param(&self, raw: &RawParam, field: &str, names: &mut Names) -> Result<Param, SpecError> {
        self.declare(names, &raw.name, &format!("{field}.name"))?;
        self.list(&format!("{field}.values"), raw.values.len(), 1, MAX_VALUES)?;
        let values: Vec<Value> = raw.values.iter().map(value).collect();
        let mut seen = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            let field = format!("{field}.values[{index}]");
            let word = if let Value::Text(text) = value { is_identifier(text) } else { true };
            self.require(word, &field, &value.to_string(), "an integer, a bool or an identifier")?;
            let alike = values.first().map(std::mem::discriminant) == Some(std::mem::discriminant(value));
            self.require(alike, &field, &value.to_string(), "values of one type")?;
            self.require(seen.insert(value), &field, &value.to_string(), "each value once")?;
        }
        let default = value(&raw.default);
        self.require(seen.contains(&default), &format!("{field}.default"), &default.to_string(), "one of the values")?;
        let at_launch = raw.bind == Bind::Argument;
        let numbers = matches!(default, Value::Int(_));
        self.require(!at_launch || numbers, &format!("{field}.bind"), "argument", "integers as its values")?;
        Ok(Param { name: raw.name.clone(), values, default, at_launch })
    }

    fn launch(
        &self,
        raw: &RawLaunch,
        field: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<LaunchSpec, SpecError> {
        let named = if context.is_cpp { is_cpp_entry(&raw.entry) } else { is_entry(&raw.entry) };
        let what = if context.is_cpp { "a C++ name, such as `sum` or `sum<256, float>`," } else { "an identifier" };
        self.require(
            named && !raw.entry.starts_with("bluefin_launch_"),
            &format!("{field}.entry"),
            &raw.entry,
            &format!("{what} that does not start with bluefin_launch_"),
        )?;
        self.list(&format!("{field}.arguments"), raw.arguments.len(), 1, MAX_LIST)?;
        let mut arguments = Vec::with_capacity(raw.arguments.len());
        for (index, argument) in raw.arguments.iter().enumerate() {
            arguments.push(self.argument(argument, &format!("{field}.arguments[{index}]"), names, context)?);
        }
        let when = self.expression(&raw.when, &format!("{field}.when"), names)?;
        let geometry = self.geometry(raw, field, names, context)?;
        Ok(LaunchSpec { entry: raw.entry.clone(), when, arguments, varying: Vec::new(), geometry })
    }

    fn argument(
        &self,
        raw: &RawArgument,
        field: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<ArgumentSpec, SpecError> {
        let number = match raw {
            RawArgument::Name(name) if name == "workspace" => return Ok(ArgumentSpec::Workspace),
            RawArgument::Name(name) if name == "none" && !context.buffers.contains(&"none") => {
                self.require(context.is_python, field, "none", "a buffer or a number: None is Triton's alone")?;
                return Ok(ArgumentSpec::None);
            }
            RawArgument::Name(name) => return Ok(ArgumentSpec::Buffer(self.index_of(name, field, context)?)),
            RawArgument::Part(part) => {
                let index = self.index_of(&part.buffer, field, context)?;
                return Ok(ArgumentSpec::Part(index, self.expression(&part.offset, field, names)?));
            }
            RawArgument::Tensor(tensor) => return self.tensor(tensor, field, names, context),
            RawArgument::Struct(raw) => {
                return Ok(ArgumentSpec::Structure(Box::new(self.structure(raw, field, names, context)?)));
            }
            RawArgument::Number(number) => number,
        };
        Ok(match number {
            RawNumber::I1(scalar) => ArgumentSpec::I1(self.expression(scalar, field, names)?),
            RawNumber::U32(scalar) => ArgumentSpec::U32(self.expression(scalar, field, names)?),
            RawNumber::U64(scalar) => ArgumentSpec::U64(self.whole(scalar, field, names, (0, u64::MAX.into()))?),
            RawNumber::I32(scalar) => ArgumentSpec::I32(self.expression(scalar, field, names)?),
            RawNumber::I64(scalar) => {
                ArgumentSpec::I64(self.whole(scalar, field, names, (i64::MIN.into(), i64::MAX.into()))?)
            }
            RawNumber::F32(scalar) => ArgumentSpec::F32(self.expression(scalar, field, names)?),
            RawNumber::F64(scalar) => ArgumentSpec::F64(self.expression(scalar, field, names)?),
        })
    }

    fn tensor(
        &self,
        raw: &RawTensor,
        field: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<ArgumentSpec, SpecError> {
        self.require(
            context.is_python,
            field,
            "a descriptor",
            "a buffer or a number: tensor descriptors are Triton's alone",
        )?;
        let buffer = self.index_of(&raw.descriptor, field, context)?;
        self.list(&format!("{field}.shape"), raw.shape.len(), 1, RANK)?;
        let list = |name: &str, given: &[Scalar]| {
            let field = format!("{field}.{name}");
            self.list(&field, given.len(), raw.shape.len(), raw.shape.len())?;
            given.iter().map(|scalar| self.expression(scalar, &field, names)).collect::<Result<Vec<_>, _>>()
        };
        Ok(ArgumentSpec::Tensor(Box::new(TensorSpec {
            buffer,
            offset: self.expression(&raw.offset, &format!("{field}.offset"), names)?,
            shape: list("shape", &raw.shape)?,
            strides: list("strides", &raw.strides)?,
            block: list("block_shape", &raw.block_shape)?,
            nan: raw.padding == Padding::Nan,
            tf32: raw.round_f32_to_tf32,
        })))
    }

    pub(super) fn index_of(&self, name: &str, field: &str, context: &Context<'_>) -> Result<u16, SpecError> {
        let index = context.buffers.iter().position(|buffer| *buffer == name);
        // Lists are bounded far below 2^16.
        index.and_then(|index| u16::try_from(index).ok()).ok_or_else(|| {
            let none = if context.is_python { ", none" } else { "" };
            self.invalid(field, name, format!("workspace{none} or one of the buffers {}", context.buffers.join(" ")))
        })
    }

    pub(super) fn whole(
        &self,
        scalar: &Scalar,
        field: &str,
        names: &Names,
        (least, most): (i128, i128),
    ) -> Result<Whole, SpecError> {
        let text = scalar.text();
        let Ok(number) = text.parse::<i128>() else { return Ok(Whole::Of(self.expression(scalar, field, names)?)) };
        self.require((least..=most).contains(&number), field, &text, &format!("{least} to {most}"))?;
        // As unsigned numbers have them.
        Ok(Whole::Fixed(number as i64))
    }

    fn geometry(
        &self,
        raw: &RawLaunch,
        field: &str,
        names: &Names,
        context: &Context<'_>,
    ) -> Result<Option<Geometry>, SpecError> {
        if !context.on_gpu {
            let absent = raw.grid.is_none() && raw.block.is_none() && raw.shared.is_none();
            self.require(absent, field, "grid, block or shared", "none of them on the host, where a launch is a call")?;
            return Ok(None);
        }
        let axes = |name: &str, given: &Option<Vec<Scalar>>| {
            let field = format!("{field}.{name}");
            let given =
                given.as_deref().ok_or_else(|| self.invalid(&field, "nothing", "1 to 3 expressions on a GPU"))?;
            self.list(&field, given.len(), 1, 3)?;
            let axes = given.iter().enumerate();
            axes.map(|(axis, scalar)| self.expression(scalar, &format!("{field}[{axis}]"), names))
                .collect::<Result<_, _>>()
        };
        if !context.sizes_blocks {
            let absent = raw.block.is_none() && raw.shared.is_none();
            self.require(absent, field, "block or shared", "none of them, as Triton says how large they are")?;
            return Ok(Some(Geometry { grid: axes("grid", &raw.grid)?, block: Vec::new(), shared: None }));
        }
        let shared = raw.shared.as_ref().map(|scalar| self.expression(scalar, &format!("{field}.shared"), names));
        Ok(Some(Geometry {
            grid: axes("grid", &raw.grid)?,
            block: axes("block", &raw.block)?,
            shared: shared.transpose()?,
        }))
    }
}

fn value(raw: &RawValue) -> Value {
    match raw {
        RawValue::Bool(bool) => Value::Bool(*bool),
        RawValue::Int(int) => Value::Int(*int),
        RawValue::Text(text) => Value::Text(text.clone()),
    }
}
