//! What instructions compute, by name: tables that are looked at once, when an instruction is decoded.
//!
//! Names are LLVM's, without the suffix of the encoding; where targets have different names for one thing, both are there.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod media;
pub(crate) mod memory;
pub(crate) mod newer;
pub(crate) mod saturating;
pub(crate) mod scalar;
mod scalar_float;
pub(crate) mod scaled;
pub(crate) mod vector;

/// The scalar ALU instruction of that name.
pub(crate) fn scalar_named(name: &str) -> Option<scalar::Definition> {
    static TABLE: LazyLock<HashMap<&'static str, scalar::Definition>> =
        LazyLock::new(|| scalar::rows().into_iter().chain(scalar_float::rows()).collect());
    TABLE.get(name).copied()
}
