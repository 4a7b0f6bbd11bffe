//! What crosses a socket, a process or a release. One program, since linking one costs more than most of these tests.
#![forbid(unsafe_code)]

mod broker_contract;
mod broker_outages;
mod campaign;
mod fin_samples;
mod miopen_keys;
mod store_contract;
mod wire;
