//! What MIOpen's solvers are called and what they can do.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use bluefin_common::algorithm::Algorithm;

/// The release whose solvers [`Solvers::shipped`] are, for people.
pub const RELEASE: &str = "MIOpen 3.3";
/// Its answers: `id,name,primitive,algo,tunable,dynamic`. An empty field is one that is not known.
const SHIPPED: &str = include_str!("solvers.csv");
const HEADER: &str = "id,name,primitive,algo,tunable,dynamic";
const COLUMNS: [&str; 6] = ["id", "name", "primitive", "algo", "tunable", "dynamic"];
/// Far more than MIOpen has.
const MAX_SOLVERS: usize = 100_000;

/// One solver of MIOpen's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solver {
    /// Never given to another solver, not even of another release.
    pub id: u32,
    /// As databases spell it: `ConvWinograd3x3MultipassWrW<3-4>`.
    pub name: String,
    /// `Convolution`, `Fusion`, `Batchnorm`, …
    pub primitive: String,
    /// Of convolutions and fusions.
    pub algorithm: Option<Algorithm>,
    /// Whether it has params, and so rows in a perf db. `None`: not known.
    pub tunable: Option<bool>,
    /// Whether one kernel serves all sizes. `None`: not known.
    pub dynamic: Option<bool>,
}

/// The solvers that a release of MIOpen has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Solvers {
    by_name: HashMap<String, Solver>,
}

/// Why a text is no list of solvers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {field}: found {found:?}, expected {expected}")]
pub struct SolversError {
    /// From 1.
    pub line: usize,
    pub field: &'static str,
    pub found: String,
    pub expected: &'static str,
}

/// A solver's name as databases spell it: MIOpen's code and logs also write `<3, 4>` for `<3-4>`.
#[must_use]
pub fn database_spelling(name: &str) -> Cow<'_, str> {
    if name.contains([',', ' ']) { name.replace(' ', "").replace(',', "-").into() } else { name.into() }
}

/// What the names of the solvers begin with that bluefin ships kernels for.
const OWN: &str = "Bluefin";

/// Whether `name` is a solver that bluefin ships, and so none of MIOpen's, of whatever release: MIOpen ignores its records.
#[must_use]
pub fn is_own(name: &str) -> bool {
    name.starts_with(OWN)
}

impl Solvers {
    /// Those of [`RELEASE`]. Its own databases name no others.
    #[must_use]
    pub fn shipped() -> &'static Self {
        // A test reads the table, so there is no error to lose.
        static SOLVERS: LazyLock<Solvers> = LazyLock::new(|| Solvers::parse(SHIPPED).unwrap_or_default());
        &SOLVERS
    }

    /// Reads a CSV with the header `id,name,primitive,algo,tunable,dynamic`; more columns may follow.
    ///
    /// # Errors
    /// The first line that is not of this form.
    pub fn parse(text: &str) -> Result<Self, SolversError> {
        let mut solvers = Self::default();
        let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        // It reads text, from memory: nothing else can go wrong.
        for (index, row) in rows.records().flatten().enumerate() {
            let wrong = |field, found: &str, expected| SolversError {
                line: line_of(text, &row),
                field,
                found: found.chars().take(80).collect(),
                expected,
            };
            let fields: Vec<&str> = row.iter().collect();
            if index == 0 {
                if !fields.starts_with(&COLUMNS) {
                    return Err(wrong("header", &fields.join(","), HEADER));
                }
                continue;
            }
            let [id, name, primitive, algorithm, tunable, dynamic, ..] = fields.as_slice() else {
                return Err(wrong("line", &fields.join(","), HEADER));
            };
            let known = |field, text: &str| match text {
                "1" => Ok(Some(true)),
                "0" => Ok(Some(false)),
                "" => Ok(None),
                _ => Err(wrong(field, text, "1, 0 or nothing")),
            };
            let algorithm = match *algorithm {
                "" => None,
                text => {
                    Some(text.parse().map_err(|_| wrong("algo", text, "GEMM, Direct, FFT, Winograd or ImplicitGEMM"))?)
                }
            };
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(wrong("name", name, "a name without blanks"));
            }
            let solver = Solver {
                id: id.parse().map_err(|_| wrong("id", id, "a number"))?,
                name: (*name).to_string(),
                primitive: (*primitive).to_string(),
                algorithm,
                tunable: known("tunable", tunable)?,
                dynamic: known("dynamic", dynamic)?,
            };
            if solvers.by_name.len() >= MAX_SOLVERS {
                return Err(wrong("line", &fields.join(","), "at most 100000 solvers"));
            }
            if solvers.by_name.insert(solver.name.clone(), solver).is_some() {
                return Err(wrong("name", name, "each name once"));
            }
        }
        Ok(solvers)
    }

    /// The solver that a database calls `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Solver> {
        self.by_name.get(name)
    }

    /// The solver of this name in either spelling.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Solver> {
        self.get(&database_spelling(name))
    }

    /// Whether `name` is a solver that has params.
    #[must_use]
    pub fn is_tunable(&self, name: &str) -> bool {
        self.get(name).is_some_and(|solver| solver.tunable == Some(true))
    }

    /// The names of all, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

/// The line of `text` that `row` begins in. What the reader says is that of the row before where lines end in CRLF, and an
/// empty one where there are such in between.
fn line_of(text: &str, row: &csv::StringRecord) -> usize {
    let start = row.position().map_or(0, |position| usize::try_from(position.byte()).unwrap_or(usize::MAX));
    let (before, rest) = text.split_at_checked(start).unwrap_or_default();
    let skipped = rest.chars().take_while(|c| ['\r', '\n'].contains(c)).filter(|c| *c == '\n').count();
    1 + before.matches('\n').count() + skipped
}

#[cfg(test)]
mod tests {
    use bluefin_test_support::data_text;

    use super::*;

    #[test]
    fn the_shipped_table_reads() {
        let solvers = Solvers::parse(SHIPPED).unwrap();
        assert_eq!(solvers.len(), 163);
        assert_eq!(&solvers, Solvers::shipped());
        let winograd = solvers.named("ConvWinograd3x3MultipassWrW<3, 4>").unwrap();
        assert_eq!((winograd.id, winograd.algorithm, winograd.tunable), (35, Some(Algorithm::Winograd), Some(false)));
        assert!(solvers.is_tunable("ConvOclBwdWrW2<16>") && !solvers.is_tunable("fft"));
        assert_eq!(solvers.get("MultiWeightsBackward").unwrap().tunable, None);
        assert_eq!(solvers.get("ConvNoSuch"), None);
    }

    #[test]
    fn the_shipped_table_is_what_miopen_answers() {
        let text = data_text("miopen/solvers.csv");
        assert_eq!(&Solvers::parse(&text).unwrap(), Solvers::shipped());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, message) in [
            ("name\n", "line 1: header: found \"name\""),
            ("id,name,primitive,algo,tunable,dynamic\n1,A\n", "line 2: line: found \"1,A\""),
            ("id,name,primitive,algo,tunable,dynamic\nx,A,C,,1,0\n", "line 2: id: found \"x\""),
            ("id,name,primitive,algo,tunable,dynamic\n1,A,C,Fast,1,0\n", "line 2: algo: found \"Fast\""),
            ("id,name,primitive,algo,tunable,dynamic\n1,A,C,,yes,0\n", "line 2: tunable: found \"yes\""),
            ("id,name,primitive,algo,tunable,dynamic\n1,A,C,,1,0\n2,A,C,,1,0\n", "line 3: name: found \"A\""),
            ("id,name,primitive,algo,tunable,dynamic\r\n1,A,C,,1,0\r\n\r\n2,A,C,,1,0\r\n", "line 4: name: found \"A\""),
        ] {
            assert!(Solvers::parse(text).unwrap_err().to_string().starts_with(message), "{text:?}");
        }
    }
}
