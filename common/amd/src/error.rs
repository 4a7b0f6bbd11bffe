//! Why a code object is not loaded, or a launch is not begun.

use thiserror::Error;

/// Why a code object is not loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Not a code object, or a damaged one.
    #[error("not a code object that can be executed: {what}")]
    Malformed { what: String },
    /// A version that is not read.
    #[error("a code object whose ABI version is {abi}, expected 3 or 4 (code object versions 5 and 6)")]
    Version { abi: u8 },
    /// Compiled for something else.
    #[error("a code object for {found}, expected {expected}")]
    OtherTarget { found: String, expected: &'static str },
    /// An offload bundle without the target.
    #[error("the offload bundle has no code object for {target}")]
    NotInBundle { target: &'static str },
}

/// Why a launch is not begun: what a runtime would refuse.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LaunchError {
    #[error("no kernel {name}")]
    NoKernel { name: String },
    #[error("{kernel}: found {found} arguments, expected {expected}")]
    Count { kernel: String, found: usize, expected: usize },
    /// By its number, from 1.
    #[error("{kernel}: argument {number}: found {found} bytes, expected {expected}")]
    Argument { kernel: String, number: usize, found: usize, expected: u32 },
    #[error("{kernel}: {found} bytes of arguments, expected {expected}")]
    Arguments { kernel: String, found: usize, expected: u32 },
    #[error("{kernel}: a block of {found} threads, expected 1 to {most}")]
    Block { kernel: String, found: u64, most: u32 },
    #[error("{kernel}: a grid without blocks")]
    Grid { kernel: String },
    #[error("{kernel}: {found} blocks, {most} at most")]
    Blocks { kernel: String, found: u64, most: u64 },
    #[error("{kernel}: {found} bytes of LDS, {most} at most")]
    Lds { kernel: String, found: u64, most: u32 },
    #[error("{kernel}: needs {what}, which is not implemented")]
    Unimplemented { kernel: String, what: String },
}
