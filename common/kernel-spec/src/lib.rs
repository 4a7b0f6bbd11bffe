//! Kernel specs: a TOML file beside its source that says what a kernel computes, its tuning space and how to launch it.
//!
//! A [`Bundle`] is the text as it is stored and sent; [`KernelSpec::load`] checks it whole. For a problem and a target it
//! yields a [`Scope`], in which its expressions have values, and with it candidates, defines and launches.
//! `docs/kernel-specs.md` is the manual.
#![forbid(unsafe_code)]

mod build;
mod bundle;
mod candidates;
mod condition;
mod constant;
mod cost;
mod data;
pub mod draft;
mod error;
mod expression;
mod format;
mod host_code;
#[cfg(test)]
mod list_tests;
mod load;
mod misfit;
#[cfg(test)]
mod mistake_tests;
mod permutation;
mod place;
mod points;
mod project;
mod recipe;
mod rules;
mod scope;
pub mod search;
mod shim;
#[cfg(test)]
mod shipped_tests;
#[cfg(test)]
mod space_tests;
mod structure;
#[cfg(test)]
mod structure_tests;
mod tensor;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::project::project_root;
pub use build::{ArgumentKind, Build, Typed};
pub use bundle::{may_be_include, source_text, text_beside};
pub use candidates::{Candidates, SCATTERED};
pub use condition::Unmet;
pub use constant::Constant;
pub use error::SpecError;
pub use misfit::Misfit;
pub use place::FieldPlace;
pub use scope::Scope;
pub use shim::{Dialect, is_of_machine};

use bluefin_common::algorithm::Algorithm;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::candidate::Candidate;
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::problem::{DataType, Operator, Problem};
use bluefin_common::task::{Content, Role};
use bluefin_common::value::Value;
use bluefin_common::wire::{self, Body, Message, WireError};
use bytes::Bytes;
use condition::Condition;
use cost::Cost;
use expression::Expression;
use points::Points;
use structure::StructureSpec;
use tensor::TensorSpec;

/// A spec with everything that it needs, as it is held in the Store: workers fetch it by digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The text of the spec.
    pub toml: String,
    /// Source and includes by file name.
    pub files: BTreeMap<String, String>,
    /// What buffers hold before a launch, by file name, each a blob of its own. Not written where there are none, as in version 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, ArtifactRef>,
    /// The bytes of [`Self::data`], with whoever read the files.
    #[serde(skip)]
    pub contents: BTreeMap<String, Bytes>,
}

impl Bundle {
    /// Bytes as they are stored: the envelope of [`bluefin_common::wire`].
    ///
    /// # Errors
    /// If the bundle is too large for the envelope.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        wire::encode(self)
    }

    /// Digest of [`Self::encode`]: the name of the spec in jobs.
    ///
    /// # Errors
    /// If the bundle is too large for the envelope.
    pub fn digest(&self) -> Result<Digest, WireError> {
        Ok(Digest::of(&self.encode()?))
    }
}

impl Message for Bundle {
    const KIND: u8 = 5;
    const VERSION: u8 = 2;
    const NAME: &'static str = "kernel spec";

    /// One without data is written as it always was.
    fn version(&self) -> u8 {
        if self.data.is_empty() { 1 } else { Self::VERSION }
    }

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        let read = |(toml, files)| Self { toml, files, ..Self::default() };
        (version == 1).then(|| body.read::<Self, (String, BTreeMap<String, String>)>().map(read))
    }
}

/// A spec that was checked: every name in it is known, every expression parses.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    pub name: String,
    /// Word of an operator, or `kernel`: what its problems are.
    pub problem: String,
    /// As [`Method::toolchains`] has it; names the compile queue. Of both toolchains where it has two.
    pub toolchain: String,
    /// Architectures as [`bluefin_common::target::Target::arch`] names them, or groups of them: [`bluefin_common::arch::is_meant`].
    pub targets: Vec<String>,
    /// Variables of [`FEATURES`](bluefin_common::arch::FEATURES) that it asks for: what nobody asks for costs no candidate anything.
    features: Vec<&'static str>,
    /// File that is compiled.
    pub source: String,
    /// The second toolchain and its file, where some solvers are of that.
    beside: Option<(String, String)>,
    /// Further files that lie beside it when it is compiled.
    pub includes: Vec<String>,
    /// Flags behind the toolchain's own.
    pub flags: Vec<String>,
    /// By what of its arguments a kernel is specialised, where the toolchain does that.
    pub specialize: Vec<Specialize>,
    /// Size names with their defaults; none where the operator's problems have their own.
    pub sizes: BTreeMap<String, Value>,
    /// At least one, names unique.
    pub solvers: Vec<Solver>,
    /// Index of the solver whose output is right.
    reference: usize,
    applicable: Condition,
    /// `applicable` uses derived values, so these come first.
    applicable_uses_lets: bool,
    lets: Vec<(String, Expression)>,
    flops: Option<Expression>,
    bytes: Option<Expression>,
    buffers: Vec<BufferSpec>,
    tolerance: BTreeMap<DataType, ToleranceSpec>,
    data: BTreeMap<String, ArtifactRef>,
    /// Blobs of its recipes that were made.
    made: recipe::Made,
}

/// What of an argument a compiler may rely on, so that a kernel is compiled for arguments of that kind alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Specialize {
    /// An integer is 1, and becomes a constant.
    Unit,
    /// An integer, or an address, is a multiple of 16.
    Divisible,
    /// A buffer is smaller than 2 GiB, so that 32 bits are enough for its offsets.
    PointerRange,
}

/// A named way to compute a problem.
#[derive(Clone, Debug)]
pub struct Solver {
    pub name: String,
    /// What compiles it: the spec's toolchain, or of two the one or the other.
    pub toolchain: String,
    pub algorithm: Algorithm,
    /// The tuning space, in the order of the perf db; empty for a solver that is not tunable.
    pub params: Vec<Param>,
    /// The points of the space, where it is a list; else all combinations of the params' values are points.
    points: Option<Points>,
    /// Values for the kernel's language, with their kind; no name is a param's or a define's.
    constants: BTreeMap<String, Constant>,
    /// What words of a param stand for in the kernel's language, by param and word.
    words: BTreeMap<String, BTreeMap<String, Constant>>,
    /// Whether it is tried. A reference need not be.
    pub is_candidate: bool,
    applicable: Condition,
    constraints: Vec<Condition>,
    /// By name; no name is a param's.
    defines: BTreeMap<String, Expression>,
    workspace: Expression,
    compile_cost: Option<Expression>,
    cost: Option<Cost>,
    launches: Vec<LaunchSpec>,
}

/// One dimension of a tuning space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    pub name: String,
    /// At least one, none twice, all of one type but where the space is a list.
    pub values: Vec<Value>,
    /// One of `values`.
    pub default: Value,
    /// It is no macro: launches pass it.
    pub at_launch: bool,
}

#[derive(Clone, Debug)]
struct BufferSpec {
    name: String,
    data_type: TypeOf,
    length: Expression,
    role: Role,
    content: ContentSpec,
}

/// What a buffer holds before a launch.
#[derive(Clone, Debug)]
enum ContentSpec {
    Plain(Content),
    /// The file of that name.
    Data(String),
    /// What a recipe makes.
    Made(Box<recipe::RecipeSpec>),
    /// Rows of another buffer.
    Rows(Box<recipe::RowsSpec>),
}

/// How far an output may be from the reference.
#[derive(Clone, Debug)]
struct ToleranceSpec {
    absolute: Distance,
    relative: Distance,
}

#[derive(Clone, Debug)]
enum Distance {
    Fixed(f64),
    Of(Expression),
}

/// The type of a buffer: fixed, or as an expression says.
#[derive(Clone, Debug)]
enum TypeOf {
    Fixed(DataType),
    Named(Expression),
}

#[derive(Clone, Debug)]
struct LaunchSpec {
    entry: String,
    /// Of which candidates it is a launch.
    when: Expression,
    arguments: Vec<ArgumentSpec>,
    /// For each argument whether it depends on a param that is bound at launch.
    varying: Vec<bool>,
    /// `None` on the host, where a launch is a call.
    geometry: Option<Geometry>,
}

#[derive(Clone, Debug)]
struct Geometry {
    grid: Vec<Expression>,
    block: Vec<Expression>,
    shared: Option<Expression>,
}

#[derive(Clone, Debug)]
enum ArgumentSpec {
    Buffer(u16),
    /// From this element on.
    Part(u16, Expression),
    Tensor(Box<TensorSpec>),
    Structure(Box<StructureSpec>),
    Workspace,
    /// Python's: the kernel is compiled without the argument.
    None,
    I1(Expression),
    I32(Expression),
    I64(Whole),
    U32(Expression),
    U64(Whole),
    F32(Expression),
    F64(Expression),
}

/// A whole number of 64 bits: expressions have none with more than 18 digits.
#[derive(Clone, Debug)]
enum Whole {
    /// Its bits.
    Fixed(i64),
    Of(Expression),
}

impl KernelSpec {
    /// What an exporter tells of the candidates of `job`.
    #[must_use]
    pub fn describe(&self, job: &Job) -> Description {
        let asked = |solver: &&Solver| job.candidates.iter().any(|candidate| candidate.solver == solver.name);
        let solvers = self.solvers.iter().filter(asked).map(|solver| solver.info(&job.problem));
        // The planner has refused a problem for which it has no value.
        let scope = self.says_work().then(|| self.scope(&job.problem, &job.target).ok().flatten()).flatten();
        let work = scope.and_then(|scope| self.work(&scope).ok()).unwrap_or_default();
        Description { library: self.name.clone(), reference: Some(self.reference()), solvers: solvers.collect(), work }
    }

    /// What its problems are called, where their sizes are the spec's own: its name, or the word of an operator that several
    /// specs may be for.
    #[must_use]
    pub fn kernel(&self) -> Option<&str> {
        match self.problem.as_str() {
            "kernel" => Some(&self.name),
            word => Operator::with_variables(word).is_none().then_some(word),
        }
    }

    /// What kind of work its jobs are.
    #[must_use]
    pub fn method(&self) -> Method {
        Method::of_toolchain(&self.toolchain).unwrap_or_default()
    }

    /// The candidate whose output is right: the reference solver with its defaults.
    #[must_use]
    pub fn reference(&self) -> Candidate {
        // `reference` is an index that loading found; an empty name would be refused by `build`.
        self.solvers
            .get(self.reference)
            .map_or_else(|| Candidate { solver: String::new(), params: Vec::new() }, Solver::default_candidate)
    }

    /// The file that `toolchain` compiles, and its flags: those of the spec are for its first toolchain.
    #[must_use]
    pub fn compiled_by(&self, toolchain: &str) -> (&str, &[String]) {
        match &self.beside {
            Some((second, source)) if second == toolchain => (source, &[]),
            _ => (&self.source, &self.flags),
        }
    }

    /// The files that are compiled: one for each toolchain.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        [self.source.as_str()].into_iter().chain(self.beside.iter().map(|(_, source)| source.as_str()))
    }

    /// Whether its solvers are of two toolchains.
    #[must_use]
    pub fn has_two_toolchains(&self) -> bool {
        self.beside.is_some()
    }

    /// The solver of that name.
    #[must_use]
    pub fn solver(&self, name: &str) -> Option<&Solver> {
        self.solvers.iter().find(|solver| solver.name == name)
    }
}

impl Solver {
    /// What an exporter tells of it for `problem`.
    #[must_use]
    pub fn info(&self, problem: &Problem) -> SolverInfo {
        let algorithm = match problem {
            Problem::Conv(conv) => self.algorithm.miopen_name(conv.direction),
            _ => None,
        };
        SolverInfo {
            name: self.name.clone(),
            algorithm,
            tunable: self.is_tunable(),
            params: self.params.iter().map(|param| param.name.clone()).collect(),
            default: Some(self.default_candidate().params),
        }
    }

    /// Whether it has params to choose.
    #[must_use]
    pub fn is_tunable(&self) -> bool {
        !self.params.is_empty()
    }

    /// How many points the space has, where it is a list.
    #[must_use]
    pub fn listed(&self) -> Option<usize> {
        self.points.as_ref().map(Points::len)
    }

    /// Points of the tuning space, valid or not; 1 for a solver that is not tunable.
    #[must_use]
    pub fn space(&self) -> u64 {
        if let Some(points) = &self.points {
            return points.len() as u64;
        }
        // Loading has bounded the product.
        self.params.iter().map(|param| param.values.len() as u64).product()
    }

    /// The candidate with the default of every param.
    #[must_use]
    pub fn default_candidate(&self) -> Candidate {
        let params = self.params.iter().map(|param| param.default.clone()).collect();
        Candidate { solver: self.name.clone(), params }
    }

    /// Reads params as a perf db holds them, [`Candidate::params_text`]. `None` if they are no point of the space: of
    /// another number, or a value that the spec does not list.
    #[must_use]
    pub fn parse_params(&self, text: &str) -> Option<Vec<Value>> {
        if self.params.is_empty() {
            return text.is_empty().then(Vec::new);
        }
        let words: Vec<&str> = text.split(',').collect();
        if words.len() != self.params.len() {
            return None;
        }
        let find = |(param, word): (&Param, &str)| param.values.iter().find(|value| value.to_string() == word).cloned();
        let params: Vec<Value> = self.params.iter().zip(words).map(find).collect::<Option<_>>()?;
        self.points.as_ref().is_none_or(|points| points.has(&params)).then_some(params)
    }
}
