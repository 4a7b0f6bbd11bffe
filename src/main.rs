//! `bluefin`: tunes GPU kernels, on one machine or on many. All of it is in the library, so that a build with more than what is
//! shipped is a file like this one.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use bluefin::Extensions;

/// What a fleet's worker does is many small values on several threads, and the C library's allocator keeps what an export freed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bluefin::main(Extensions::shipped())
}
