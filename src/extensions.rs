//! What a build of bluefin knows: one registry, handed in once, by `main`.

use std::sync::{Arc, OnceLock};

use bluefin_campaign::known::Known;
use bluefin_campaign::machine::evaluators::{NamedEvaluators, shipped};
use bluefin_common::method::{Method, MethodInfo};
use bluefin_common::problem::Operator;
use bluefin_compile_worker::toolchain::Known as Toolchain;
use bluefin_exporter::format::Format;
use bluefin_kernel_spec::search::Search;
use bluefin_producer::plan::Planner;

static EVALUATORS: OnceLock<Vec<NamedEvaluators>> = OnceLock::new();

/// The evaluators that are known here: those that were handed in, or that bluefin ships.
pub(crate) fn evaluators() -> &'static [NamedEvaluators] {
    EVALUATORS.get_or_init(shipped)
}

/// Operators, methods, planners, toolchains, evaluators, formats and searches.
pub struct Extensions {
    operators: Vec<&'static Operator>,
    methods: Vec<&'static MethodInfo>,
    evaluators: Vec<NamedEvaluators>,
    known: Known,
}

impl Extensions {
    /// What bluefin ships.
    #[must_use]
    pub fn shipped() -> Self {
        Self { operators: Vec::new(), methods: Vec::new(), evaluators: shipped(), known: Known::shipped() }
    }

    /// An operation whose problems are tuned.
    #[must_use]
    pub fn operator(mut self, operator: &'static Operator) -> Self {
        self.operators.push(operator);
        self
    }

    /// A method, with the planner of its sessions.
    #[must_use]
    pub fn method(mut self, info: &'static MethodInfo, planner: Arc<dyn Planner>) -> Self {
        self.methods.push(info);
        self.known.more_planners.push(planner);
        self
    }

    /// A toolchain that a method names.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.known.toolchains = self.known.toolchains.with(toolchain);
        self
    }

    /// Evaluators, by what `--device` calls them.
    #[must_use]
    pub fn evaluators(mut self, named: NamedEvaluators) -> Self {
        self.evaluators.push(named);
        self
    }

    /// A format that results are exported to.
    #[must_use]
    pub fn format(mut self, format: Arc<dyn Format>) -> Self {
        self.known.formats = self.known.formats.with(format);
        self
    }

    /// A way to choose candidates, for `--search`.
    #[must_use]
    pub fn search(mut self, search: Arc<dyn Search>) -> Self {
        self.known.searches = self.known.searches.with(search);
        self
    }

    /// From now on these are known.
    pub(crate) fn hand_in(self) {
        Operator::bring(self.operators);
        Method::bring(self.methods);
        self.known.hand_in();
        // The first caller is right: nothing else calls this but `main`.
        let _ = EVALUATORS.set(self.evaluators);
    }
}
