//! The solvers of MIOpen that a session can tune: a snapshot of what its library lists, and choices among them.

use std::collections::{BTreeMap, BTreeSet};

use bluefin_common::algorithm::Algorithm;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::Records;
use bluefin_common::wire;
use bluefin_miopen::db::solvers::Solvers;
use bluefin_miopen::fin;
use bluefin_miopen::fin::solvers;
use bluefin_miopen::solver::{Solver, spelling};
use serde::{Deserialize, Serialize};

use crate::library::LibraryError;

/// A snapshot by name.
pub type Snapshot = BTreeMap<String, Solver>;

/// The solvers of a document that fin answered `get_solvers` with.
///
/// # Errors
/// What is wrong with the document.
pub fn from_document(bytes: &[u8]) -> Result<Vec<Solver>, String> {
    let answers = fin::parse(bytes, 1).map_err(|error| error.to_string())?;
    let listed = answers.into_iter().next().and_then(|answer| answer.all_solvers);
    let found = listed.map(solvers).filter(|solvers| !solvers.is_empty());
    found.ok_or_else(|| "found no all_solvers with solvers, expected the answer to get_solvers".to_string())
}

/// What came of [`update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Updated {
    pub solvers: u64,
    pub tunable: u64,
    /// Solvers of an earlier snapshot that the library does not list any more.
    pub gone: u64,
}

/// Replaces the snapshot of `session`.
///
/// # Errors
/// If the store fails.
pub async fn update(store: &dyn Records, session: &SessionName, solvers: &[Solver]) -> Result<Updated, LibraryError> {
    let shelf = shelf::solvers(session);
    let names: BTreeSet<&str> = solvers.iter().map(|solver| solver.name.as_str()).collect();
    let before = store.records(&shelf).await?;
    let gone: Vec<String> =
        before.into_iter().map(|(name, _)| name).filter(|name| !names.contains(name.as_str())).collect();
    let record = |solver: &Solver| Ok::<_, LibraryError>((solver.name.clone(), wire::encode(solver)?));
    store.put_records(&shelf, &solvers.iter().map(record).collect::<Result<Vec<_>, _>>()?).await?;
    store.remove_records(&shelf, &gone).await?;
    Ok(Updated {
        solvers: names.len() as u64,
        tunable: solvers.iter().filter(|solver| solver.tunable).count() as u64,
        gone: gone.len() as u64,
    })
}

/// The snapshot of `session`; empty if there is none.
///
/// # Errors
/// If the store fails or a record does not decode.
pub async fn snapshot(store: &dyn Records, session: &SessionName) -> Result<Snapshot, LibraryError> {
    let shelf = shelf::solvers(session);
    let decode = |(key, bytes): (String, Vec<u8>)| match wire::decode(&bytes) {
        Ok(solver) => Ok((key, solver)),
        Err(source) => Err(LibraryError::Corrupt { shelf: shelf.clone(), key, source }),
    };
    store.records(&shelf).await?.into_iter().map(decode).collect()
}

/// The algorithm of a convolution's solver, which `get_solvers` does not say: that of MIOpen 3.3, and what their names tell of
/// later ones.
#[must_use]
pub fn algorithm(solver: &str) -> Algorithm {
    let known = Solvers::shipped().get(solver).and_then(|known| known.algorithm);
    known.unwrap_or_else(|| named_after(solver))
}

/// What the name of a solver tells of its algorithm.
fn named_after(solver: &str) -> Algorithm {
    let has = |word| solver.contains(word);
    if has("Winograd") || has("WinoFury") {
        Algorithm::Winograd
    } else if has("ImplicitGemm") || has("Igemm") {
        Algorithm::ImplicitGemm
    } else if solver.starts_with("Gemm") {
        Algorithm::Gemm
    } else if solver == "fft" {
        Algorithm::Fft
    } else {
        Algorithm::Direct
    }
}

/// Names of solvers from a list such as `ConvAsm1x1U,ConvWinograd3x3MultipassWrW<3, 4>`, as databases spell them. A comma
/// within angle brackets separates no names.
#[must_use]
pub fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match names.last_mut() {
            Some(name) if c != ',' || depth > 0 => name.push(c),
            _ => names.push(String::new()),
        }
    }
    names.iter().map(|name| spelling(name.trim())).filter(|name| !name.is_empty()).collect()
}

/// Which of the applicable solvers are tuned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Only these; all if there are none.
    pub names: Vec<String>,
    pub algorithm: Option<Algorithm>,
    /// Only those that are tunable.
    pub tunable: bool,
    /// Only those whose kernels are the same for all sizes.
    pub dynamic: bool,
}

impl Choice {
    /// Whether nothing is chosen, so that all are tuned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a solver is chosen.
    #[must_use]
    pub fn takes(&self, solver: &Solver) -> bool {
        self.refusal(solver).is_none()
    }

    /// Why a solver is not chosen: what it is, or is not. `None`: it is.
    #[must_use]
    pub fn refusal(&self, solver: &Solver) -> Option<String> {
        let own = algorithm(&solver.name);
        if !self.names.is_empty() && !self.names.contains(&solver.name) {
            Some("not named".to_string())
        } else if self.algorithm.is_some_and(|wanted| own != wanted) {
            Some(format!("algorithm {}", own.name()))
        } else if self.tunable && !solver.tunable {
            Some("not tunable".to_string())
        } else if self.dynamic && !solver.dynamic {
            Some("not dynamic".to_string())
        } else {
            None
        }
    }

    /// Whether more than names is asked about, which only a snapshot can tell.
    #[must_use]
    pub fn needs_snapshot(&self) -> bool {
        self.algorithm.is_some() || self.tunable || self.dynamic
    }

    /// The first name that `snapshot` does not have.
    #[must_use]
    pub fn unknown<'a>(&'a self, snapshot: &Snapshot) -> Option<&'a str> {
        self.names.iter().map(String::as_str).find(|name| !snapshot.contains_key(*name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_have_two_spellings() {
        let spelled = ["ConvAsm1x1U", "ConvWinograd3x3MultipassWrW<3-4>", "fft"];
        assert_eq!(names("ConvAsm1x1U,ConvWinograd3x3MultipassWrW<3, 4>,fft"), spelled);
        assert_eq!(names(" ConvAsm1x1U , ConvWinograd3x3MultipassWrW<3-4>,, fft"), spelled);
        assert_eq!(names(""), [""; 0]);
    }

    #[test]
    fn choices_are_of_all_that_is_asked() {
        let solver = |name: &str, tunable, dynamic| Solver {
            id: 1,
            name: name.to_string(),
            primitive: "convolution".to_string(),
            tunable,
            dynamic,
        };
        let direct = solver("ConvAsm1x1U", true, false);
        let gemm = solver("GemmFwdRest", false, true);
        for (choice, expected) in [
            (Choice::default(), [true, true]),
            (Choice { names: names("ConvAsm1x1U"), ..Choice::default() }, [true, false]),
            (Choice { algorithm: Some(Algorithm::Gemm), ..Choice::default() }, [false, true]),
            (Choice { tunable: true, ..Choice::default() }, [true, false]),
            (Choice { dynamic: true, ..Choice::default() }, [false, true]),
            (Choice { tunable: true, dynamic: true, ..Choice::default() }, [false, false]),
        ] {
            assert_eq!([choice.takes(&direct), choice.takes(&gemm)], expected, "{choice:?}");
        }
        let known = Snapshot::from([(direct.name.clone(), direct)]);
        assert_eq!(Choice { names: names("fft,ConvAsm1x1U"), ..Choice::default() }.unknown(&known), Some("fft"));
    }

    /// Names tell of all solvers of MIOpen 3.3 what its registry says.
    #[test]
    fn names_tell_the_algorithm() {
        let table = bluefin_test_support::data_text("miopen/solvers.csv");
        let mut seen = 0;
        for row in table.lines().skip(1) {
            let fields: Vec<&str> = row.split(',').collect();
            if let [_, name, "Convolution", expected, ..] = fields.as_slice() {
                assert_eq!(named_after(name).name(), *expected, "{name}");
                seen += 1;
            }
        }
        assert_eq!(seen, 104);
    }
}
