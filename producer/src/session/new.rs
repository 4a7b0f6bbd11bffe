//! A session that is yet to be made, as its maker describes it.

use std::collections::BTreeMap;

use bluefin_common::clock::now_ms;
use bluefin_common::method::Method;
use bluefin_common::session::{Budget, Pins, SearchPlan, Session, SessionName, Stage};
use bluefin_common::target::Target;
use bluefin_miopen::driver::{EVERYTHING, FIND_ENFORCE};

use super::Wanted;
use crate::PlanError;
use crate::plan::Planners;

/// What a session is to be; what is not said is as usual.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Why it is made.
    pub label: String,
    /// `None`: the next number.
    pub name: Option<SessionName>,
    /// What is tuned for.
    pub target: Target,
    /// `None`: MIOpen's solvers by fin where there are any, kernel specs for other targets.
    pub method: Option<Method>,
    /// MIOpen tunes everything again, not only what its perf db lacks.
    pub exhaustive: bool,
    /// None: those of the method.
    pub stages: Vec<Stage>,
    /// Versions that its workers must have, and what else its maker wants to be known of it.
    pub pins: Pins,
    /// `MIOPEN_FIND_MODE` of its workers.
    pub find_mode: Option<u8>,
    /// Algorithms that MIOpen leaves out, as in `MIOPEN_DEBUG_CONV_FFT`.
    pub left_out: Vec<String>,
    /// How candidates are chosen in rounds.
    pub search: Option<SearchPlan>,
    /// What it may spend.
    pub budget: Budget,
}

impl NewSession {
    /// A usual one.
    #[must_use]
    pub fn of(label: &str, target: Target) -> Self {
        Self {
            label: label.to_string(),
            name: None,
            target,
            method: None,
            exhaustive: false,
            stages: Vec::new(),
            pins: Pins::new(),
            find_mode: None,
            left_out: Vec::new(),
            search: None,
            budget: Budget::default(),
        }
    }

    /// The session that is asked for.
    ///
    /// # Errors
    /// If its planner can not plan such a session.
    pub fn wanted(self, planners: &Planners) -> Result<Wanted, PlanError> {
        let default = if self.target.backend() == "HIP" { Method::FIN } else { Method::KERNELS };
        let method = self.method.unwrap_or(default);
        let planner = planners.get(method)?;
        let mut environment = BTreeMap::new();
        for algorithm in &self.left_out {
            environment.insert(format!("MIOPEN_DEBUG_CONV_{algorithm}"), "0".to_string());
        }
        if let Some(mode) = self.find_mode {
            environment.insert("MIOPEN_FIND_MODE".to_string(), mode.to_string());
        }
        if self.exhaustive {
            environment.insert(FIND_ENFORCE.to_string(), EVERYTHING.to_string());
        }
        let mut stages = if self.stages.is_empty() { planner.stages().to_vec() } else { self.stages };
        stages.sort();
        stages.dedup();
        let named = self.name.is_some();
        let name = self.name.map_or_else(|| "1".parse().map_err(|_| PlanError::NoNumber), Ok)?;
        let session = Session {
            name,
            target: self.target,
            label: self.label,
            stages,
            created_ms: now_ms(),
            method,
            budget: self.budget,
            environment,
            search: self.search,
            priors: None,
        };
        planner.check(&session)?;
        Ok(Wanted { session, named, pins: self.pins })
    }
}

/// Whether MIOpen is to tune everything again.
#[must_use]
pub fn is_exhaustive(session: &Session) -> bool {
    session.environment.get(FIND_ENFORCE).is_some_and(|value| value == EVERYTHING)
}

/// Whose solvers are tuned, for people: `miopendriver, exhaustive`.
#[must_use]
pub fn tuner_text(session: &Session) -> String {
    let more = if is_exhaustive(session) { ", exhaustive" } else { "" };
    format!("{}{more}", session.method)
}
