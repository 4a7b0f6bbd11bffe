//! Matrix products of Triton, as ROCm's tune_gemm.py has them: its files, its spaces, and configs that are given.

pub mod edit;
pub mod files;
pub mod kind;
pub mod products;
pub mod space;
