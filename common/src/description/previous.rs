//! What was written of it before.

use serde::{Deserialize, Serialize};

use super::{Description, SolverInfo, Work};
use crate::candidate::Candidate;

/// Without what the problem comes to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DescriptionV1 {
    library: String,
    reference: Option<Candidate>,
    solvers: Vec<SolverInfo>,
}

impl From<DescriptionV1> for Description {
    fn from(old: DescriptionV1) -> Self {
        let DescriptionV1 { library, reference, solvers } = old;
        Self { library, reference, solvers, work: Work::default() }
    }
}
