//! Problems as the caller wants them instead of as their lines say.

use bluefin_common::problem::{DataType, Direction, Problem, ProblemError};

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
            let typed = self.data_type.and_then(|data_type| problem.operation().with_type(data_type));
            let problem = typed.transpose().map_err(text)?.unwrap_or(problem);
            for problem in self.directed(problem, index == 0) {
                self.batched(problem, &mut changed)?;
            }
        }
        Ok(changed)
    }

    /// A convolution in each direction that is asked for; the problems of a line differ in nothing else.
    fn directed(&self, problem: Problem, is_first: bool) -> Vec<Problem> {
        match (problem, &self.directions) {
            (Problem::Conv(conv), Some(directions)) if is_first => {
                directions.iter().map(|one| Problem::Conv(conv.clone().with_direction(*one))).collect()
            }
            (Problem::Conv(_), Some(_)) => Vec::new(),
            (other, _) => vec![other],
        }
    }

    fn batched(&self, problem: Problem, changed: &mut Vec<Problem>) -> Result<(), String> {
        let batched: Option<Vec<_>> = self.batchsizes.iter().map(|n| problem.operation().with_batch(*n)).collect();
        match batched.filter(|batched| !batched.is_empty()) {
            Some(batched) => changed.extend(batched.into_iter().collect::<Result<Vec<_>, _>>().map_err(text)?),
            None => changed.push(problem),
        }
        Ok(())
    }
}

fn text(error: ProblemError) -> String {
    error.to_string()
}
