//! What a candidate needs: macros for its compilation, and its launches.

use std::collections::{BTreeMap, BTreeSet};

use crate::constant::Constant;
use crate::error::SpecError;
use crate::expression::{Expression, Values, push};
use crate::rules::{TRITON, is_identifier};
use crate::scope::MAX_BYTES;
use crate::{ArgumentSpec, Geometry, KernelSpec, LaunchSpec, Scope, Solver, Specialize, Whole};
use bluefin_common::arch::Vendor;
use bluefin_common::artifact::{Argument, Launch};
use bluefin_common::candidate::Candidate;
use bluefin_common::problem::DataType;
use bluefin_common::target::Target;
use bluefin_common::task::Buffer;
use bluefin_common::tensor::RANK;
use bluefin_common::value::Value;

/// Most threads of a block on any GPU, and along z.
const MAX_THREADS: u64 = 1024;
const MAX_THREADS_Z: u64 = 64;
/// More shared memory than a block can have on any GPU.
const MAX_SHARED: u64 = 1 << 20;
/// Blocks along y and z on NVIDIA GPUs.
const MAX_GRID_YZ: u64 = 65_535;

/// How to compile and launch a candidate for one problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Build {
    /// `-D<name>=<value>`, sorted by name.
    pub defines: Vec<(String, String)>,
    /// What has a kind in the kernel's language, sorted by name; no name is one of `defines`.
    pub constants: Vec<(String, Constant)>,
    /// In order.
    pub launches: Vec<Launch>,
    /// The same for each further draw of a routing. They come before the others, so that outputs hold what those write.
    pub draws: Vec<Vec<Launch>>,
    /// What is known of the arguments of each launch before it is compiled; empty where nothing is specialised.
    pub typed: Vec<Vec<Typed>>,
    /// Scratch memory in bytes.
    pub workspace: u64,
}

/// An argument as a compiler may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    pub kind: ArgumentKind,
    /// It is 1.
    pub unit: bool,
    /// It is a multiple of 16.
    pub divisible: bool,
    /// It points to less than 2 GiB.
    pub near: bool,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A pointer to elements of that type.
    Pointer(DataType),
    /// A descriptor of a tensor with elements of that type, and the block that a kernel takes of it: of so many dimensions, and its elements.
    Tensor(DataType, u8, [u32; RANK]),
    /// A pointer to scratch memory.
    Workspace,
    /// None at all: the kernel does without.
    None,
    I1,
    I32,
    I64,
    U32,
    U64,
    F32,
    F64,
}

impl Build {
    /// All launches of a run, those of further draws first.
    pub fn in_order(&self) -> impl Iterator<Item = &Launch> {
        self.draws.iter().flatten().chain(&self.launches)
    }

    /// The macros as options of a compiler, each behind a blank, in byte order: what tells the code object from others of its
    /// source, as [`CodeObject::options`](bluefin_common::artifact::CodeObject::options) has it.
    #[must_use]
    pub fn options(&self) -> String {
        let mut options: Vec<_> = self.defines.iter().map(|(name, value)| format!(" -D{name}={value}")).collect();
        options.sort_unstable();
        options.concat()
    }
}

impl Solver {
    /// Whether the spec says what its points cost to compile.
    #[must_use]
    pub fn says_compile_cost(&self) -> bool {
        self.compile_cost.is_some()
    }

    /// How long the point `params` takes to compile, compared with others of this solver; 0 where the spec does not say.
    ///
    /// # Errors
    /// If that has no value.
    pub fn compile_cost(&self, params: &[Value], scope: &Scope) -> Result<f64, SpecError> {
        let Some(cost) = &self.compile_cost else { return Ok(0.0) };
        cost.float(&mut self.values(params, scope))
    }

    /// Whether an analytic model of the architecture says something of its points: [`Self::cost`].
    #[must_use]
    pub fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// What an analytic model of the architecture says of the point `params`: the lower, the sooner it is tried. It is a rank among
    /// points of this solver for one problem, and no time. `None`: the spec does not say.
    ///
    /// # Errors
    /// If that has no value.
    pub fn cost(&self, params: &[Value], scope: &Scope) -> Result<Option<f64>, SpecError> {
        self.cost.as_ref().map(|cost| cost.of(&mut self.values(params, scope))).transpose()
    }

    fn values(&self, params: &[Value], scope: &Scope) -> Values {
        let mut values = scope.values.clone();
        self.params.iter().zip(params).for_each(|(param, value)| push(&mut values, &param.name, value));
        values
    }
}

impl Build {
    /// Whether one run of a compiler makes what both of them launch.
    pub(crate) fn compiles_as(&self, other: &Self) -> bool {
        let kernels = |of: &Self| of.launches.iter().map(|launch| launch.entry.clone()).collect::<Vec<_>>();
        (&self.defines, &self.constants, &self.typed, kernels(self))
            == (&other.defines, &other.constants, &other.typed, kernels(other))
    }
}

impl KernelSpec {
    /// Macros and launches of `candidate`, which may come from outside.
    ///
    /// # Errors
    /// A solver or a value that the spec does not have, a point that violates a constraint, an expression without a
    /// value, or a launch that no device takes.
    pub fn build(&self, candidate: &Candidate, scope: &Scope) -> Result<Build, SpecError> {
        let fail = |reason: String| SpecError::Candidate {
            spec: self.name.clone(),
            candidate: candidate.to_string().chars().take(200).collect(),
            reason,
        };
        let solver = self.solver(&candidate.solver).ok_or_else(|| {
            let names: Vec<&str> = self.solvers.iter().map(|solver| solver.name.as_str()).collect();
            fail(format!("unknown solver, expected one of {}", names.join(" ")))
        })?;
        let mut values = scope.values.clone();
        if !solver.applicable.holds(&mut values)? {
            return Err(fail(format!("the solver is not applicable: `{}` is false", solver.applicable.text())));
        }
        solver.check_point(&candidate.params).map_err(fail)?;
        for (param, value) in solver.params.iter().zip(&candidate.params) {
            push(&mut values, &param.name, value);
        }
        for constraint in &solver.constraints {
            if !constraint.holds(&mut values)? {
                return Err(fail(format!("the constraint `{}` is false", constraint.text())));
            }
        }
        let is_python = solver.toolchain == TRITON;
        let (mut defines, mut constants) = (BTreeMap::new(), solver.constants.clone());
        for (param, value) in solver.params.iter().zip(&candidate.params).filter(|(param, _)| !param.at_launch) {
            let name = param.name.clone();
            let word = match value {
                Value::Text(text) => solver.words.get(&name).and_then(|words| words.get(text)).cloned(),
                Value::Int(_) | Value::Bool(_) => None,
            };
            match (word.or_else(|| Constant::of_param(value)), value) {
                (Some(constant), _) if is_python => _ = constants.insert(name, constant),
                (_, Value::Bool(bool)) => _ = defines.insert(name, i32::from(*bool).to_string()),
                _ => _ = defines.insert(name, value.to_string()),
            }
        }
        for (name, expression) in &solver.defines {
            defines.insert(name.clone(), define(expression, &mut values)?);
        }
        let workspace = solver.workspace.bounded(&mut values, 0, MAX_BYTES)?;
        let parts = solver.launches.iter().flat_map(|launch| &launch.arguments);
        let buffers = match parts.clone().any(ArgumentSpec::reaches) {
            true => self.task_parts(scope)?.0,
            false => Vec::new(),
        };
        let mut of_draw = |draw| {
            let own = self.parts((solver, &candidate.params), draw, scope)?;
            let mut launches = Vec::with_capacity(solver.launches.len());
            for launch in &solver.launches {
                if launch.when.bool(&mut values)? {
                    launches.push((launch, launch.evaluate(&mut values, &scope.target, &buffers, &own)?));
                }
            }
            Ok::<_, SpecError>(launches)
        };
        let launches = of_draw(0)?;
        // A reference answers for one draw.
        let draws = if solver.is_candidate { self.draws() } else { 1 };
        let plain = |launches: Vec<(&LaunchSpec, Launch)>| launches.into_iter().map(|(_, launch)| launch).collect();
        let draws = (1..draws).map(|draw| Ok(plain(of_draw(draw)?))).collect::<Result<_, SpecError>>()?;
        let typed = if is_python { self.typed(&launches, workspace, scope)? } else { Vec::new() };
        let (defines, constants) = (defines.into_iter().collect(), constants.into_iter().collect());
        Ok(Build { defines, constants, launches: plain(launches), draws, typed, workspace })
    }

    /// What a compiler may know of the arguments of `launches`.
    fn typed(
        &self,
        launches: &[(&LaunchSpec, Launch)],
        workspace: u64,
        scope: &Scope,
    ) -> Result<Vec<Vec<Typed>>, SpecError> {
        let (buffers, _) = self.task_parts(scope)?;
        let asked = |what| self.specialize.contains(&what);
        let (unit, divisible, range) =
            (asked(Specialize::Unit), asked(Specialize::Divisible), asked(Specialize::PointerRange));
        let typed = |((argument, spec), varying): ((&Argument, &ArgumentSpec), &bool)| {
            // Buffers lie at multiples of 256.
            let pointer = |kind, bytes: u64| Typed { kind, unit: false, divisible, near: range && bytes < 1 << 31 };
            let plain = |kind| Typed { kind, unit: false, divisible: false, near: false };
            let int = |kind, value: i64| Typed {
                unit: unit && !varying && value == 1,
                divisible: divisible && !varying && value % 16 == 0,
                ..plain(kind)
            };
            let whole = |kind, value: u64| int(kind, value.cast_signed());
            match *argument {
                _ if matches!(spec, ArgumentSpec::None) => plain(ArgumentKind::None),
                Argument::I32(_) if matches!(spec, ArgumentSpec::I1(_)) => plain(ArgumentKind::I1),
                Argument::I32(value) if matches!(spec, ArgumentSpec::U32(_)) => {
                    whole(ArgumentKind::U32, value.cast_unsigned().into())
                }
                Argument::I64(value) if matches!(spec, ArgumentSpec::U64(_)) => int(ArgumentKind::U64, value),
                Argument::BufferAt { buffer, bytes } => match buffers.get(usize::from(buffer)) {
                    Some(buffer) => Typed {
                        divisible: divisible && !varying && bytes % 16 == 0,
                        ..pointer(ArgumentKind::Pointer(buffer.data_type), buffer.bytes())
                    },
                    None => plain(ArgumentKind::Workspace),
                },
                // Loading has bounded the index.
                Argument::Buffer(index) => match buffers.get(usize::from(index)) {
                    Some(buffer) => pointer(ArgumentKind::Pointer(buffer.data_type), buffer.bytes()),
                    None => plain(ArgumentKind::Workspace),
                },
                Argument::Workspace | Argument::WorkspaceAt(_) => pointer(ArgumentKind::Workspace, workspace),
                Argument::Tensor(tensor) => match buffers.get(usize::from(tensor.buffer)) {
                    Some(buffer) => plain(ArgumentKind::Tensor(buffer.data_type, tensor.rank, tensor.block)),
                    None => plain(ArgumentKind::Workspace),
                },
                Argument::I32(value) => int(ArgumentKind::I32, value.into()),
                Argument::I64(value) => int(ArgumentKind::I64, value),
                Argument::F32(_) => plain(ArgumentKind::F32),
                Argument::F64(_) => plain(ArgumentKind::F64),
                // Not in Python.
                Argument::Structure(_) => plain(ArgumentKind::None),
            }
        };
        let of_launch = |(spec, launch): &(&LaunchSpec, Launch)| {
            launch.arguments.iter().zip(&spec.arguments).zip(&spec.varying).map(typed).collect()
        };
        Ok(launches.iter().map(of_launch).collect())
    }
}

impl Solver {
    pub(super) fn check_point(&self, params: &[Value]) -> Result<(), String> {
        if params.len() != self.params.len() {
            return Err(format!("found {} params, expected {}", params.len(), self.params.len()));
        }
        for (param, value) in self.params.iter().zip(params) {
            if !param.values.contains(value) {
                let values: Vec<String> = param.values.iter().map(Value::to_string).collect();
                return Err(format!("{}: found {value}, expected one of {}", param.name, values.join(" ")));
            }
        }
        if self.points.as_ref().is_some_and(|points| !points.has(params)) {
            return Err("it is none of the listed points".to_string());
        }
        Ok(())
    }
}

/// The value of a macro: it becomes part of a command line and of the source.
fn define(expression: &Expression, values: &mut Values) -> Result<String, SpecError> {
    match expression.value(values)? {
        Value::Int(int) => Ok(int.to_string()),
        Value::Bool(bool) => Ok(i32::from(bool).to_string()),
        Value::Text(text) if is_identifier(&text) => Ok(text),
        Value::Text(text) => {
            Err(expression.error(format!("found {text:?}, expected an integer, a bool or an identifier")))
        }
    }
}

impl LaunchSpec {
    /// `own`: where the candidate's part of each buffer begins that has parts, in bytes.
    fn evaluate(
        &self,
        values: &mut Values,
        target: &Target,
        buffers: &[Buffer],
        own: &[Option<u64>],
    ) -> Result<Launch, SpecError> {
        let arguments = self.arguments.iter().map(|argument| argument.evaluate(values, buffers, own));
        let arguments = arguments.collect::<Result<_, _>>()?;
        let (grid, block, shared) = match &self.geometry {
            Some(geometry) => geometry.evaluate(values, target)?,
            None => ([1; 3], [1; 3], 0),
        };
        Ok(Launch { entry: self.entry.clone(), grid, block, shared, arguments })
    }
}

impl Geometry {
    fn evaluate(&self, values: &mut Values, target: &Target) -> Result<([u32; 3], [u32; 3], u32), SpecError> {
        let (mut block, mut threads) = ([1_u32; 3], 1_u64);
        for ((slot, expression), most) in
            block.iter_mut().zip(&self.block).zip([MAX_THREADS, MAX_THREADS, MAX_THREADS_Z])
        {
            let found = expression.bounded(values, 1, most)?;
            threads *= found;
            if threads > MAX_THREADS {
                return Err(
                    expression.error(format!("found {threads} threads in a block, expected at most {MAX_THREADS}"))
                );
            }
            *slot = narrow(found);
        }
        let nvidia = target.vendor() == Some(Vendor::Nvidia);
        let mut grid = [1_u32; 3];
        for (axis, ((slot, expression), threads)) in grid.iter_mut().zip(&self.grid).zip(block).enumerate() {
            // CUDA bounds the blocks of an axis, HIP its threads (32 bits).
            let most = match (nvidia, axis) {
                (true, 0) => i32::MAX as u64,
                (true, _) => MAX_GRID_YZ,
                (false, _) => u64::from(u32::MAX / threads).min(i32::MAX as u64),
            };
            *slot = narrow(expression.bounded(values, 1, most)?);
        }
        let shared = match &self.shared {
            Some(expression) => narrow(expression.bounded(values, 0, MAX_SHARED)?),
            None => 0,
        };
        Ok((grid, block, shared))
    }
}

/// Values that were bounded below 2^32 before.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl ArgumentSpec {
    /// Whether all that it depends on is among `names`.
    pub(super) fn knows(&self, names: &BTreeSet<String>) -> bool {
        match self {
            Self::Buffer(_) | Self::Workspace | Self::None => true,
            Self::I64(Whole::Fixed(_)) | Self::U64(Whole::Fixed(_)) => true,
            Self::Tensor(tensor) => tensor.knows(names),
            Self::Structure(structure) => structure.knows(names),
            Self::Part(_, expression)
            | Self::I1(expression)
            | Self::I32(expression)
            | Self::U32(expression)
            | Self::F32(expression)
            | Self::F64(expression)
            | Self::I64(Whole::Of(expression))
            | Self::U64(Whole::Of(expression)) => expression.knows(names),
        }
    }

    /// Whether it needs the lengths of buffers.
    pub(super) fn reaches(&self) -> bool {
        match self {
            Self::Part(..) | Self::Tensor(_) => true,
            Self::Structure(structure) => structure.reaches(),
            _ => false,
        }
    }

    /// It, or the fields of a structure.
    pub(super) fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::Structure(structure) => structure.fields.iter().map(|field| &field.value).collect(),
            _ => vec![self],
        }
    }

    /// `own`: where the candidate's part of each buffer begins that has parts, in bytes.
    pub(super) fn evaluate(
        &self,
        values: &mut Values,
        buffers: &[Buffer],
        own: &[Option<u64>],
    ) -> Result<Argument, SpecError> {
        Ok(match self {
            Self::Buffer(index) => match own.get(usize::from(*index)).copied().flatten() {
                Some(bytes) => Argument::BufferAt { buffer: *index, bytes },
                None => Argument::Buffer(*index),
            },
            Self::Part(index, offset) => {
                let of = buffers.get(usize::from(*index));
                let (length, size) = of.map_or((0, 1), |buffer| (buffer.length, buffer.data_type.size()));
                let bytes = offset.bounded(values, 0, length)?.saturating_mul(size as u64);
                Argument::BufferAt { buffer: *index, bytes }
            }
            Self::Tensor(tensor) => Argument::Tensor(tensor.evaluate(values, buffers, own)?),
            Self::Structure(structure) => Argument::Structure(structure.evaluate(values, buffers, own)?),
            Self::Workspace => Argument::Workspace,
            // It takes a place until the compiler says which arguments its kernel has.
            Self::None => Argument::I32(0),
            Self::I1(expression) => Argument::I32(i32::from(match expression.value(values)? {
                Value::Bool(bool) => bool,
                Value::Int(int @ (0 | 1)) => int == 1,
                other => return Err(expression.error(format!("found {other}, expected true or false"))),
            })),
            Self::U32(expression) => {
                let found = expression.bounded(values, 0, u32::MAX.into())?;
                Argument::I32(narrow(found).cast_signed())
            }
            Self::I64(Whole::Fixed(bits)) | Self::U64(Whole::Fixed(bits)) => Argument::I64(*bits),
            Self::U64(Whole::Of(expression)) => Argument::I64(expression.bounded(values, 0, u64::MAX)?.cast_signed()),
            Self::I32(expression) => {
                let found = expression.int(values)?;
                let fits =
                    i32::try_from(found).map_err(|_| expression.error(format!("found {found}, expected 32 bits")));
                Argument::I32(fits?)
            }
            Self::I64(Whole::Of(expression)) => Argument::I64(expression.int(values)?),
            Self::F32(expression) => {
                let found = expression.float(values)? as f32;
                if !found.is_finite() {
                    return Err(expression.error("too large for f32"));
                }
                Argument::F32(found)
            }
            Self::F64(expression) => Argument::F64(expression.float(values)?),
        })
    }
}
