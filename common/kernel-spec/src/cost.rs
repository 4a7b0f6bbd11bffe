//! What a model of the architecture says of points.

use crate::error::SpecError;
use crate::expression::{Expression, Values, push};

/// The expression of a solver or its space, with the values that it is written with.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// In order: each may name those before it.
    pub(super) lets: Vec<(String, Expression)>,
    pub(super) value: Expression,
}

impl Cost {
    /// Of the point whose params are among `values`.
    pub(super) fn of(&self, values: &mut Values) -> Result<f64, SpecError> {
        for (name, expression) in &self.lets {
            let value = expression.value(values)?;
            push(values, name, &value);
        }
        self.value.float(values)
    }
}
