//! The contracts of the two ports, against every implementation. One program, since linking one costs more than most of these
//! tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![forbid(unsafe_code)]

mod broker_contract;
mod broker_faults;
mod broker_outages;
mod campaign;
mod delivery;
mod evidence;
mod finalists;
mod lanes;
mod remeasure;
mod silent;
mod store_contract;
