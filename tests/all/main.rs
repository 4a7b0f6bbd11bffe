//! `bluefin` as its users meet it. One program, since linking one costs more than most of these tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

mod aiter;
mod aiter_tune;
mod campaign;
mod capture;
mod chaos;
mod check;
mod command_line;
mod db;
mod devices;
mod extending;
mod fleet;
mod gpus;
mod limits;
mod miopen;
mod miopen_alone;
mod mituna;
mod outages;
mod pages;
mod problems;
mod release;
mod renewal;
mod results;
mod roles;
mod roster;
mod run_plan;
mod secrets;
mod session;
mod snapshots;
mod steer;
mod storm;
mod triton;
mod tune;
mod upgrade;
