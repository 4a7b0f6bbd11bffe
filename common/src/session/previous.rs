//! A session of version 1: it began with defaults alone.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Budget, SearchPlan, SessionName, Stage};
use crate::method::Method;
use crate::target::Target;

/// As it was.
#[derive(Deserialize)]
pub(super) struct Session {
    name: SessionName,
    target: Target,
    label: String,
    stages: Vec<Stage>,
    created_ms: u64,
    #[serde(rename = "tuner")]
    method: Method,
    budget: Budget,
    environment: BTreeMap<String, String>,
    search: Option<SearchPlan>,
}

impl From<Session> for super::Session {
    fn from(session: Session) -> Self {
        let Session { name, target, label, stages, created_ms, method, budget, environment, search } = session;
        Self { name, target, label, stages, created_ms, method, budget, environment, search, priors: None }
    }
}
