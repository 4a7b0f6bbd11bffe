//! This machine: its devices and tools, the workers that run in this process, and whether they do what bluefin needs of them.

pub mod check;
pub mod devices;
pub mod doctor;
pub mod evaluators;
pub mod itself;
pub mod local;
pub mod reach;
pub mod selftest;
pub mod tools;
