//! What the release before this one wrote of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Budget, Session, SessionName, Stage};
use crate::method::Method;
use crate::target::Target;

/// What a session of MIOpenDriver says in its environment if it is to tune everything again.
const ENFORCE: (&str, &str) = ("MIOPEN_FIND_ENFORCE", "4");

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SessionV2 {
    name: SessionName,
    target: Target,
    label: String,
    stages: Vec<Stage>,
    created_ms: u64,
    tuner: TunerV2,
    budget: Budget,
    environment: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
enum TunerV2 {
    Kernels,
    Fin,
    MiopenDriver { exhaustive: bool },
}

impl From<SessionV2> for Session {
    fn from(old: SessionV2) -> Self {
        let SessionV2 { name, target, label, stages, created_ms, tuner, budget, mut environment } = old;
        if let TunerV2::MiopenDriver { exhaustive: true } = tuner {
            environment.insert(ENFORCE.0.to_string(), ENFORCE.1.to_string());
        }
        let method = match tuner {
            TunerV2::Kernels => Method::KERNELS,
            TunerV2::Fin => Method::FIN,
            TunerV2::MiopenDriver { .. } => Method::MIOPENDRIVER,
        };
        Self { name, target, label, stages, created_ms, method, budget, environment, search: None }
    }
}
