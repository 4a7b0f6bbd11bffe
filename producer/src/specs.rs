//! Kernel specs, ready to plan with.

use bluefin_common::digest::Digest;
use bluefin_common::method::Method;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;
use bluefin_kernel_spec::{Bundle, KernelSpec};

use crate::PlanError;

/// A spec ready to plan with.
#[derive(Clone)]
pub struct LoadedSpec {
    pub bundle: Bundle,
    pub digest: Digest,
    pub spec: KernelSpec,
    /// Whether it was read from the store that is planned in, and is there.
    pub stored: bool,
}

impl LoadedSpec {
    /// Loads and checks `bundle`.
    ///
    /// # Errors
    /// What is wrong with the spec, and where.
    pub fn load(bundle: Bundle) -> Result<Self, PlanError> {
        let spec = KernelSpec::load(&bundle)?;
        Ok(Self { digest: bundle.digest()?, spec, bundle, stored: false })
    }

    /// The specs that bluefin ships.
    ///
    /// # Errors
    /// Never for a released binary; a test loads them all.
    pub fn shipped() -> Result<Vec<Self>, PlanError> {
        Bundle::shipped().into_iter().map(Self::load).collect()
    }

    /// The same, where Triton's kernels stand beside bluefin's own for the same problems, and those that are Triton's alone.
    ///
    /// # Errors
    /// As [`Self::shipped`].
    pub fn shipped_beside_triton() -> Result<Vec<Self>, PlanError> {
        let shipped = Bundle::shipped().into_iter().map(|bundle| bundle.beside_triton().unwrap_or(bundle));
        shipped.chain([Bundle::gemm_types_in_triton()]).map(Self::load).collect()
    }
}

/// The specs that a session is planned with.
#[derive(Clone, Default)]
pub struct Specs {
    /// Those for its target.
    pub here: Vec<LoadedSpec>,
    /// Those for others, which are told of where none is for the target.
    pub elsewhere: Vec<LoadedSpec>,
}

impl Specs {
    /// Sorts `all` by whether they are for `target`.
    #[must_use]
    pub fn for_target(all: Vec<LoadedSpec>, target: &Target) -> Self {
        let is_here = |spec: &LoadedSpec| spec.spec.is_for(target);
        let (here, elsewhere) = all.into_iter().partition(is_here);
        Self { here, elsewhere }
    }

    /// Those for its target whose jobs are of `method`.
    pub fn of(&self, method: Method) -> impl Iterator<Item = &LoadedSpec> {
        self.here.iter().filter(move |loaded| loaded.spec.method() == method)
    }

    /// The toolchains that those for its target need, each once.
    #[must_use]
    pub fn toolchains(&self) -> Vec<&str> {
        named(self.here.iter())
    }

    /// The same of those that are for one of `problems`.
    #[must_use]
    pub fn toolchains_for(&self, problems: &[Problem]) -> Vec<&str> {
        named(self.here.iter().filter(|loaded| problems.iter().any(|problem| loaded.spec.is_of(problem))))
    }

    /// The solvers that `toolchain` compiles, each behind the name of its spec.
    pub fn solvers_of(&self, toolchain: &str) -> impl Iterator<Item = (&str, &str)> {
        let all =
            self.here.iter().flat_map(|loaded| loaded.spec.solvers.iter().map(|solver| (&loaded.spec.name, solver)));
        all.filter(move |(_, solver)| solver.toolchain == toolchain)
            .map(|(spec, solver)| (spec.as_str(), solver.name.as_str()))
    }
}

fn named<'a>(specs: impl Iterator<Item = &'a LoadedSpec>) -> Vec<&'a str> {
    let mut names: Vec<&str> = specs.map(|loaded| loaded.spec.toolchain.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
