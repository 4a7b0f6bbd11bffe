//! Executes code objects for AMD GPUs on the CPU, instruction by instruction, and stricter than a GPU.
//!
//! [`Program::load`] takes a code object apart and decodes it by tables of its own, and [`Program::run`] executes a [`Launch`] on a
//! [`Memory`]. What a kernel must not do ends the launch with a [`Verdict`], which names the instruction, the wave, the lane and
//! the element: touches outside of buffers and LDS, values that nobody wrote, races, registers that are used before the
//! `s_waitcnt` they need, barriers that threads leave out and go on, misalignment, loops without end.
//!
//! Semantics are those of AMD's documents "MI100" (CDNA 1) to "CDNA 4" and "RDNA 2" to "RDNA 4 Instruction Set Architecture" and of
//! LLVM's "User Guide for AMDGPU Backend"; comments name the section.
//!
//! What this does not show: time, and faults of drivers; clocks count instructions. A block runs until it has ended or others have to be
//! waited for, and all that are under way run in turns. The wait states that gfx9 needs between some instructions (`s_nop`) are not
//! checked.
#![forbid(unsafe_code)]
#![allow(
    clippy::indexing_slicing,
    reason = "lanes, registers and operands are arrays whose indices decoding has bounded; beyond them is a mistake of this crate"
)]

mod bank;
mod decode;
mod error;
mod execute;
mod guard;
mod instruction;
mod isa;
mod launch;
pub mod matrix;
mod memory;
pub mod number;
mod object;
mod operations;
mod order;
mod pending;
mod program;
mod races;
mod random;
mod readers;
mod registers;
mod shadow;
mod source;
mod target;
mod typed;
mod variables;
mod verdict;
mod watch;
mod wave;

pub use error::{LaunchError, LoadError};
pub use guard::{Guard, Guarded};
pub use isa::disassemble;
pub use launch::{Launch, Options, Report};
pub use memory::{Memory, Outside};
pub use object::{Argument, Kernel, parameters};
pub use program::Program;
pub use target::{Generation, TARGETS, Target};
pub use verdict::{Access, Failure, Fault, Missing, Other, Place, Site, Use, Verdict};
