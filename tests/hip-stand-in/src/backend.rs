//! What runs behind the entry points of this process: host code, the CUDA driver, or an executor of AMD's code.

use std::sync::OnceLock;

use crate::codes::Result;
use crate::cuda::Cuda;
use crate::executed::Executed;
use crate::host::Host;
use crate::runtime::Runtime;
use crate::variables;

/// The one of this process.
pub fn runtime() -> Result<&'static dyn Runtime> {
    static RUNTIME: OnceLock<Result<Box<dyn Runtime>>> = OnceLock::new();
    let make = || -> Result<Box<dyn Runtime>> {
        match std::env::var(variables::BACKEND).as_deref() {
            Ok("cuda") => Ok(Box::new(Cuda::open()?)),
            Ok("executed") => Ok(Box::new(Executed::from_environment())),
            _ => Ok(Box::new(Host::from_environment())),
        }
    };
    RUNTIME.get_or_init(make).as_ref().map(|runtime| &**runtime).map_err(|code| *code)
}
