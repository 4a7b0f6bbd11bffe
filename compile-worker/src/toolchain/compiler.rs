//! What a compiler of kernel specs is.

use std::path::Path;

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::failure::Attempt;

use crate::error::Error;
use crate::unit::{Shapes, Unit};
use crate::workshop::{Made, Workshop};

/// Compiles candidates of kernel specs, each in a run of its own. It was tried and works.
#[async_trait]
pub trait Compiler: Shapes {
    /// Why it does not compile for that architecture, and what does; `None` if it does.
    fn refusal(&self, _arch: &str) -> Option<String> {
        None
    }

    /// Whether it runs no program, so that its jobs only wait.
    fn only_waits(&self) -> bool {
        false
    }

    /// The programs that it runs.
    fn programs(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Compiles something trivial, as it did when it was found: whether this machine still can. One that is a program runs it by
    /// [`Workshop::try_out_on`].
    ///
    /// # Errors
    /// What is wrong with this machine.
    async fn try_out(&self, _workshop: &Workshop) -> Result<(), Error> {
        Ok(())
    }

    /// What `unit` is compiled into: code objects, and the launches where the compiler decides how they are made. A compiler that is a program runs it by [`Workshop::run`]; it has a slot.
    ///
    /// # Errors
    /// What is not the unit's fault: disk, processes.
    async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error>;
}

impl Workshop {
    /// What `compiler` builds `unit` into, from the cache or compiled now.
    ///
    /// # Errors
    /// What is not the unit's fault: store, disk, processes.
    pub async fn compile(&self, compiler: &dyn Compiler, unit: &Unit) -> Result<Attempt<Built>, Error> {
        let key = self.key(unit.key(compiler));
        let built = self.cached(key, || self.make(compiler, unit, key)).await?;
        Ok(built.map(|built| unit.complete(built)))
    }
}
