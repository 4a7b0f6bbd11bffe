//! Releases, installation, doctor and coverage, as the command line offers them: on the databases that MIOpen ships, in
//! made-up prefixes, and killed at any moment.

mod coverage;
mod create;
mod doctor;
mod here;
mod install;
mod keep;
