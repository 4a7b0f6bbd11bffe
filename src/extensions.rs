//! What a build of bluefin knows: one registry, handed in once, by `main`.

use std::sync::{Arc, OnceLock};

use bluefin_common::method::{Method, MethodInfo};
use bluefin_common::problem::Operator;
use bluefin_compile_worker::toolchain::{Known, Toolchains};
use bluefin_exporter::Formats;
use bluefin_exporter::format::Format;
use bluefin_producer::plan::{Planner, Planners};
use bluefin_spec::search::{Search, Strategies};

use crate::evaluators::{NamedEvaluators, shipped};

static KNOWN: OnceLock<Extensions> = OnceLock::new();

/// What is known here: what was handed in, or what bluefin ships.
pub(crate) fn known() -> &'static Extensions {
    KNOWN.get_or_init(Extensions::shipped)
}

/// Operators, methods, planners, toolchains, evaluators, formats and searches.
pub struct Extensions {
    operators: Vec<&'static Operator>,
    methods: Vec<&'static MethodInfo>,
    planners: Vec<Arc<dyn Planner>>,
    pub(crate) toolchains: Toolchains,
    pub(crate) evaluators: Vec<NamedEvaluators>,
    pub(crate) formats: Formats,
    pub(crate) searches: Strategies,
}

impl Extensions {
    /// What bluefin ships.
    #[must_use]
    pub fn shipped() -> Self {
        Self {
            operators: Vec::new(),
            methods: Vec::new(),
            planners: Vec::new(),
            toolchains: Toolchains::shipped(),
            evaluators: shipped(),
            formats: Formats::shipped(),
            searches: Strategies::default(),
        }
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
        self.planners.push(planner);
        self
    }

    /// A toolchain that a method names.
    #[must_use]
    pub fn toolchain(mut self, known: Known) -> Self {
        self.toolchains = self.toolchains.with(known);
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
        self.formats = self.formats.with(format);
        self
    }

    /// A way to choose candidates, for `--search`.
    #[must_use]
    pub fn search(mut self, search: Arc<dyn Search>) -> Self {
        self.searches = self.searches.with(search);
        self
    }

    /// From now on these are known.
    pub(crate) fn hand_in(self) {
        Operator::bring(self.operators.clone());
        Method::bring(self.methods.clone());
        // Whoever comes first is right: nothing else calls this but `main`.
        let _ = KNOWN.set(self);
    }

    /// The planners of all methods.
    pub(crate) fn planners(&self) -> Planners {
        let shipped = Planners::shipped(self.searches.clone());
        self.planners.iter().cloned().fold(shipped, Planners::with)
    }
}
