//! Problems as the caller wants them instead of as their lines say.

use bluefin_common::problem::{BatchNormProblem, ConvProblem, DataType, Direction, Problem};

/// What to change in every problem that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Each convolution and batch norm once with each of these batch sizes; as it is when there are none.
    pub batchsizes: Vec<u32>,
    /// Each convolution in these directions, whatever its line says.
    pub directions: Option<Vec<Direction>>,
    /// Each convolution, batch norm and GEMM on this type.
    pub data_type: Option<DataType>,
}

impl Overrides {
    /// The problems of one line, changed.
    pub(super) fn apply(&self, problems: Vec<Problem>) -> Result<Vec<Problem>, String> {
        let mut changed = Vec::new();
        for (index, problem) in problems.into_iter().enumerate() {
            match problem {
                // The problems of a line differ in nothing but their direction.
                Problem::Conv(conv) if self.directions.is_none() || index == 0 => self.conv(conv, &mut changed)?,
                Problem::Conv(_) => {}
                Problem::Gemm(mut gemm) => {
                    gemm.data_type = self.data_type.unwrap_or(gemm.data_type);
                    changed.push(Problem::Gemm(gemm));
                }
                Problem::BatchNorm(norm) => self.batch_norm(&norm, &mut changed)?,
                other @ (Problem::Kernel(_) | Problem::Aiter(_)) => changed.push(other),
            }
        }
        Ok(changed)
    }

    fn conv(&self, conv: ConvProblem, changed: &mut Vec<Problem>) -> Result<(), String> {
        let conv = match self.data_type {
            Some(data_type) => conv.with_type(data_type),
            None => conv,
        };
        let directed: Vec<ConvProblem> = match &self.directions {
            Some(directions) => directions.iter().map(|one| conv.clone().with_direction(*one)).collect(),
            None => vec![conv],
        };
        for conv in directed {
            if self.batchsizes.is_empty() {
                changed.push(Problem::Conv(conv));
                continue;
            }
            for n in &self.batchsizes {
                let batched = conv.clone().with_batch(*n).map_err(|error| error.to_string())?;
                changed.push(Problem::Conv(batched));
            }
        }
        Ok(())
    }

    fn batch_norm(&self, norm: &BatchNormProblem, changed: &mut Vec<Problem>) -> Result<(), String> {
        let data_type = self.data_type.unwrap_or(norm.data_type);
        let mixed = norm.mixed && data_type != DataType::Fp32;
        let own = [norm.n];
        let sizes = if self.batchsizes.is_empty() { &own[..] } else { &self.batchsizes };
        for n in sizes {
            let norm = BatchNormProblem { n: *n, data_type, mixed, ..norm.clone() }.checked();
            changed.push(Problem::BatchNorm(norm.map_err(|error| error.to_string())?));
        }
        Ok(())
    }
}
