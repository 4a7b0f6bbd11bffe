//! What all products of a file are, which the file does not say, and how it is said on a command line.

use super::space::{Dtype, Space};
use crate::usage;

/// What all products are.
#[derive(Clone, Copy, Debug)]
pub struct ProductKind {
    /// Of A, B and C.
    pub types: [Dtype; 3],
    /// A bias is added to each row of C.
    pub bias: bool,
    /// FP32 is multiplied as such.
    pub ieee: bool,
    /// Which configs are tried; `None`: those that are usual for the target.
    pub space: Option<Space>,
}

/// What all products are, as tune_gemm.py has it.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ProductKindArgs {
    /// Type of A [default: fp16]
    #[arg(long = "dtype_a", value_enum)]
    dtype_a: Option<Dtype>,
    /// Type of B [default: fp16]
    #[arg(long = "dtype_b", value_enum)]
    dtype_b: Option<Dtype>,
    /// Type of C [default: fp16]
    #[arg(long = "dtype_c", value_enum)]
    dtype_c: Option<Dtype>,
    /// Add a bias to each row of C
    #[arg(long = "bias_vector")]
    bias_vector: bool,
    /// FP32 products of FP32 matrices, instead of those of 10 bits of mantissa that Triton makes of them by default
    #[arg(long)]
    ieee: bool,
    /// Which configs are tried [default: v3.4 on AMD GPUs, cuda on NVIDIA's]
    #[arg(long, value_enum)]
    space: Option<Space>,
}

impl ProductKindArgs {
    /// What all products are.
    ///
    /// # Errors
    /// Types that no matrix instruction multiplies.
    pub fn kind(&self) -> anyhow::Result<ProductKind> {
        use Dtype::{Bf8, Bf16, Fp8, Fp16, Fp32, Int8};
        let types = [self.dtype_a, self.dtype_b, self.dtype_c].map(|dtype| dtype.unwrap_or(Fp16));
        match types {
            [Fp16, Fp16, _] | [Bf16, Bf16, _] | [Fp32, Fp32, _] | [Int8, Int8, _] | [Fp8 | Bf8, Fp8 | Bf8, _] => {}
            _ => {
                return Err(usage(
                    "-dtype_a and -dtype_b: expected both fp16, bf16, fp32 or int8, or any of fp8 and bf8",
                ));
            }
        }
        Ok(ProductKind { types, bias: self.bias_vector, ieee: self.ieee, space: self.space })
    }

    /// The first flag that is there.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--dtype_a", self.dtype_a.is_some()),
            ("--dtype_b", self.dtype_b.is_some()),
            ("--dtype_c", self.dtype_c.is_some()),
            ("--bias_vector", self.bias_vector),
            ("--ieee", self.ieee),
            ("--space", self.space.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
}
