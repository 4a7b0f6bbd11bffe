//! What the release before this one wrote of it.

use serde::{Deserialize, Serialize};

use super::{Buffer, Task, Tolerance};
use crate::artifact::previous::KernelV2;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskV2 {
    buffers: Vec<Buffer>,
    reference: KernelV2,
    tolerance: Tolerance,
}

impl From<TaskV2> for Task {
    fn from(old: TaskV2) -> Self {
        let TaskV2 { buffers, reference, tolerance } = old;
        Self { buffers, reference: reference.into(), tolerance }
    }
}
