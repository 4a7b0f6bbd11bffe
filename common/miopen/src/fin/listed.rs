//! The library's solvers, as fin lists them.

use super::Listed;
use crate::solver::{Solver, spelling};

/// The solvers that `get_solvers` lists, by id. Entries without a number are left out.
#[must_use]
pub fn solvers(listed: Vec<Listed>) -> Vec<Solver> {
    let mut solvers: Vec<Solver> = listed
        .into_iter()
        .filter_map(|listed| match listed {
            Listed::Fields { id, name, tunable, dynamic, primitive } => Some(Solver {
                id: id.number()?,
                name: spelling(&name),
                primitive: primitive.unwrap_or_default(),
                tunable: tunable.is_some_and(|text| text.is_true()),
                dynamic: dynamic.is_some_and(|text| text.is_true()),
            }),
            Listed::Pair(id, name) => Some(Solver {
                id: id.number()?,
                name: spelling(&name),
                primitive: String::new(),
                tunable: false,
                dynamic: false,
            }),
        })
        .collect();
    solvers.sort();
    solvers.dedup();
    solvers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::digest;

    #[test]
    fn lists_of_both_generations() {
        let text =
            r#"[{"id":"2","name":"b<1, 2>","tunable":"1","dynamic":"0","type":"convolution"},["1","a"],["x","c"]]"#;
        let solvers = solvers(serde_json::from_str(text).unwrap());
        let names: Vec<_> = solvers.iter().map(|solver| (solver.id, solver.name.as_str(), solver.tunable)).collect();
        assert_eq!(names, [(1, "a", false), (2, "b<1-2>", true)]);
        assert_ne!(digest(&solvers), digest(&solvers[1..]));
    }
}
