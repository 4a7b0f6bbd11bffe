//! `noop`: compiles nothing, so that what is left is the pipeline.

use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::failure::Attempt;

use super::{Compiler, Kernels, Toolchain};
use crate::error::Error;
use crate::unit::{Shapes, Unit};
use crate::workshop::{Made, Workshop};

/// A compiler that compiles nothing.
#[derive(Clone, Copy, Debug)]
pub struct Noop;

/// It is on every machine.
pub(super) async fn probe() -> Result<Arc<dyn Toolchain>, Error> {
    Ok(Arc::new(Kernels::new(Noop)))
}

impl Shapes for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn identity(&self) -> &str {
        "noop 1"
    }
}

#[async_trait]
impl Compiler for Noop {
    fn only_waits(&self) -> bool {
        true
    }

    async fn compile(&self, unit: &Unit, _: &Workshop) -> Result<Attempt<Made>, Error> {
        // Another one for other inputs, as a compiler would make.
        Ok(Ok(Made::object(format!("bluefin noop artifact {}\n", unit.key(self)).into_bytes())))
    }
}
