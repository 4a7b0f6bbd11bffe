//! Kernel specs: a TOML file beside its source that says what a kernel computes, its tuning space and how to launch it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A spec with everything that it needs, as it is held in the Store: workers fetch it by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The text of the spec.
    pub toml: String,
    /// Source and includes by file name.
    pub files: BTreeMap<String, String>,
}

impl Bundle {
    /// Bytes as they are stored: the envelope of [`crate::wire`].
    ///
    /// # Errors
    /// If the bundle is too large for the envelope.
    pub fn encode(&self) -> Result<Vec<u8>, crate::wire::WireError> {
        crate::wire::encode(self)
    }

    /// Digest of [`Self::encode`]: the name of the spec in jobs.
    ///
    /// # Errors
    /// If the bundle is too large for the envelope.
    pub fn digest(&self) -> Result<Digest, crate::wire::WireError> {
        Ok(Digest::of(&self.encode()?))
    }
}
