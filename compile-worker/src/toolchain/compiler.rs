//! What a compiler of kernel specs is.

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::failure::Attempt;

use crate::error::Error;
use crate::unit::{Shapes, Unit};
use crate::workshop::{Made, Workshop};

/// Compiles candidates of kernel specs, each in a run of its own. It was tried and works.
#[async_trait]
pub trait Compiler: Shapes {
    /// Whether it compiles for that architecture.
    fn serves(&self, _arch: &str) -> bool {
        true
    }

    /// Whether it runs no program, so that its jobs only wait.
    fn only_waits(&self) -> bool {
        false
    }

    /// The code object of `unit`. A compiler that is a program runs it by [`Workshop::run`]; it has a slot.
    ///
    /// # Errors
    /// What is not the unit's fault: disk, processes.
    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Vec<u8>>, Error>;
}

impl Workshop {
    /// What `compiler` builds `unit` into, from the cache or compiled now.
    ///
    /// # Errors
    /// What is not the unit's fault: store, disk, processes.
    pub async fn compile(&self, compiler: &dyn Compiler, unit: &Unit) -> Result<Attempt<Built>, Error> {
        let compile = || async { Ok(compiler.compile(unit, self).await?.map(Made::object)) };
        let built = self.cached(unit.key(compiler), compile).await?;
        Ok(built.map(|built| unit.complete(built)))
    }
}
