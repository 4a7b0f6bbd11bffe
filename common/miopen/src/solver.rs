//! MIOpen's solvers, as its library lists them.

use serde::{Deserialize, Serialize};

use crate::detect::Versions;
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
}
