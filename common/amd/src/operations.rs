//! What instructions compute, by name: tables that are looked at once, when an instruction is decoded.
//!
//! Names are LLVM's, without the suffix of the encoding; where targets have different names for one thing, both are there.

pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod memory;
pub(crate) mod newer;
pub(crate) mod scalar;
mod scalar_float;
pub(crate) mod vector;
