//! What a build of bluefin knows, as far as campaigns need it.

use std::sync::{Arc, OnceLock};

use bluefin_compile_worker::toolchain::Toolchains;
use bluefin_exporter::Formats;
use bluefin_kernel_spec::search::Strategies;
use bluefin_producer::plan::{Planner, Planners};

static KNOWN: OnceLock<Known> = OnceLock::new();

/// What is known here: what was handed in, or what bluefin ships.
pub fn known() -> &'static Known {
    KNOWN.get_or_init(Known::shipped)
}

/// Planners, toolchains, formats and searches.
pub struct Known {
    /// Those of methods that are not shipped.
    pub more_planners: Vec<Arc<dyn Planner>>,
    /// By which candidates are compiled.
    pub toolchains: Toolchains,
    /// That results are exported to.
    pub formats: Formats,
    /// Ways to choose candidates.
    pub searches: Strategies,
}

impl Known {
    /// What bluefin ships.
    #[must_use]
    pub fn shipped() -> Self {
        Self {
            more_planners: Vec::new(),
            toolchains: Toolchains::shipped(),
            formats: Formats::shipped(),
            searches: Strategies::default(),
        }
    }

    /// From now on these are known, unless something is already.
    pub fn hand_in(self) {
        // The first caller is right: nothing else calls this but the registry of a build.
        let _ = KNOWN.set(self);
    }

    /// The planners of all methods.
    #[must_use]
    pub fn planners(&self) -> Planners {
        let shipped = Planners::shipped(self.searches.clone());
        self.more_planners.iter().cloned().fold(shipped, Planners::with)
    }
}
