//! aiter's operators: which shapes are tuned, and what came of that.

pub mod op_tests;
pub mod operators;
pub mod report;
pub mod shapes;
pub mod tune;
