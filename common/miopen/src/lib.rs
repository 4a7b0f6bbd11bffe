//! MIOpen: its tools, how they are found, run and understood, and the keys and formats of its databases.
#![forbid(unsafe_code)]

pub mod db;
pub mod detect;
pub mod disk;
pub mod driver;
pub mod fin;
pub mod kernel;
pub mod key;
pub mod place;
pub mod process;
mod scrub;
pub mod solver;

use async_trait::async_trait;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Sessions, StoreError};

/// An executable of MIOpen's that reaches its solvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tool {
    /// The fin executable: compiles and evaluates one solver at a time.
    Fin,
    /// MIOpenDriver: finds, tunes and compiles in one process, where the GPU is.
    MiopenDriver,
}

impl Tool {
    pub const ALL: [Self; 2] = [Self::Fin, Self::MiopenDriver];

    /// Name of the method that it is used for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::MiopenDriver => "miopendriver",
        }
    }

    /// Name of the executable.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::MiopenDriver => "MIOpenDriver",
        }
    }
}

/// The pin that says whose solvers a session tunes: versions, and a digest of the list where there is one.
const MIOPEN_PIN: &str = "miopen.library";

/// The library that a tool is of, by what it says of itself (`MIOpen 3.3.0, ROCm 6.3.0, ...`): those who compile and those who
/// evaluate for a session have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryPin(pub String);

#[async_trait]
impl Pin for LibraryPin {
    fn key(&self) -> String {
        MIOPEN_PIN.to_string()
    }

    fn value(&self) -> &str {
        &self.0
    }

    async fn pin(&self, store: &dyn Sessions, session: &SessionName) -> Result<String, StoreError> {
        pin_library(store, session, &self.0).await
    }
}

/// Pins `session` to the library of `identity` (`MIOpen 3.3.0, ROCm 6.3.0, ...`) unless it is pinned to another one, or was
/// made for other versions; returns what it is pinned to. A version that the session names less exactly (`6.3`) is any of it.
///
/// # Errors
/// If the store fails.
async fn pin_library(store: &dyn Sessions, session: &SessionName, identity: &str) -> Result<String, StoreError> {
    let pins = store.pins(session).await?;
    for (key, name) in [("miopen", "MIOpen"), ("rocm", "ROCm")] {
        let Some(version) = pins.get(key) else { continue };
        let wanted = format!("{name} {version}");
        let is_it =
            |part: &str| part.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']));
        if !identity.split(", ").any(is_it) {
            return Ok(wanted);
        }
    }
    store.pin(session, MIOPEN_PIN, identity).await
}

/// The candidate of a job that leaves the choice of solvers to MIOpen.
pub const ANY_SOLVER: &str = "*";
