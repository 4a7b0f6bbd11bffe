//! MIOpen's solvers, as its library lists them.

use serde::{Deserialize, Serialize};

use crate::detect::Versions;
use crate::fin::Listed;
use bluefin_common::digest::{Digest, MIOPEN_SOLVERS};
use bluefin_common::wire::Message;

/// What the library says of a solver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Solver {
    /// MIOpen's number, which never changes; numbers of solvers that are gone are not used again.
    pub id: u64,
    /// As its databases spell it.
    pub name: String,
    /// `convolution` or `batch_norm`; empty where the library does not say.
    pub primitive: String,
    pub tunable: bool,
    /// Whether its kernels are the same for all sizes.
    pub dynamic: bool,
}

impl Message for Solver {
    const KIND: u8 = 8;
    const VERSION: u8 = 1;
    const NAME: &'static str = "solver";
}

/// The name as databases spell it: template arguments are separated by `-`, which some write as `, `.
#[must_use]
pub fn spelling(name: &str) -> String {
    let Some((head, arguments)) = name.split_once('<') else { return name.to_string() };
    let arguments: String = arguments.chars().filter(|c| *c != ' ').map(|c| if c == ',' { '-' } else { c }).collect();
    format!("{head}<{arguments}")
}

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

/// Tells one library's solvers from another's.
#[must_use]
pub fn digest(solvers: &[Solver]) -> Digest {
    let lines: Vec<String> = solvers
        .iter()
        .map(|solver| {
            format!("{} {} {} {} {}", solver.id, solver.name, solver.primitive, solver.tunable, solver.dynamic)
        })
        .collect();
    Digest::of_parts(MIOPEN_SOLVERS, lines.iter().map(|line| line.as_bytes()))
}

/// What sessions are pinned to: whose solvers these are.
#[must_use]
pub fn identity(versions: &Versions, solvers: &[Solver]) -> String {
    format!("{versions}, {} solvers {}", solvers.len(), digest(solvers).short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_one_name() {
        for (found, name) in [
            ("ConvWinograd3x3MultipassWrW<3, 4>", "ConvWinograd3x3MultipassWrW<3-4>"),
            ("ConvWinograd3x3MultipassWrW<1-1-7-2>", "ConvWinograd3x3MultipassWrW<1-1-7-2>"),
            ("ConvOclBwdWrW2<16>", "ConvOclBwdWrW2<16>"),
            ("fft", "fft"),
        ] {
            assert_eq!(spelling(found), name);
        }
    }

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
