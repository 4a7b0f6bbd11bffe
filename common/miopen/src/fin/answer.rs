//! What fin answers, in both generations of its protocol.
//!
//! The first element of its document is the complete environment of its process, and every other one repeats the whole job
//! it was asked, kernels included. No type here holds either: they are skipped where they stand.

use serde::Deserialize;

use crate::kernel::WireKernel;

/// Why a document is not what fin writes. Says where, and nothing of what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("line {line}, column {column}: {what}")]
    Json { line: usize, column: usize, what: &'static str },
    #[error("found {found} elements, expected {expected}: the environment, and one for each job")]
    Length { found: usize, expected: usize },
}

/// What came of one job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The id of the job.
    #[serde(rename = "config_tuna_id")]
    pub id: Option<u64>,
    pub db_key: Option<String>,
    pub all_solvers: Option<Vec<Listed>>,
    pub applicable_solvers: Option<Vec<String>>,
    pub miopen_find_compile_result: Option<Vec<Item>>,
    pub miopen_perf_compile_result: Option<Vec<Item>>,
    pub miopen_find_eval_result: Option<Vec<Item>>,
    pub miopen_perf_eval_result: Option<Vec<Item>>,
}

/// A solver as `get_solvers` lists it: all values are texts. Before 2022 it was a pair of id and name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Listed {
    Fields {
        id: Text,
        name: String,
        tunable: Option<Text>,
        dynamic: Option<Text>,
        #[serde(rename = "type")]
        primitive: Option<String>,
    },
    Pair(Text, String),
}

/// A text, or what should have been one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Word(String),
    Number(u64),
    Bool(bool),
}

impl Text {
    /// `1` and `true` are true.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self {
            Self::Word(text) => text == "1" || text == "true",
            Self::Number(number) => *number == 1,
            Self::Bool(bool) => *bool,
        }
    }

    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Word(text) => text.parse().ok(),
            Self::Number(number) => Some(*number),
            Self::Bool(_) => None,
        }
    }
}

/// What a step says of one solver.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Item {
    solver_name: Option<String>,
    /// The same, in the oldest samples.
    solver_id: Option<String>,
    pub algorithm: Option<String>,
    pub reason: Option<String>,
    /// Where a negative time is reported, misspelled, while `reason` says success.
    pub reson: Option<String>,
    pub find_compiled: Option<bool>,
    pub perf_compiled: Option<bool>,
    pub evaluated: Option<bool>,
    pub params: Option<String>,
    /// Milliseconds.
    pub time: Option<f64>,
    /// Bytes.
    pub workspace: Option<u64>,
    pub tunable: Option<bool>,
    pub kernel_objects: Option<Vec<WireKernel>>,
}

impl Item {
    /// Name of the solver, as this generation spells the key.
    #[must_use]
    pub fn solver(&self) -> Option<&str> {
        self.solver_name.as_deref().or(self.solver_id.as_deref())
    }
}

/// Reads a document that answers `jobs` jobs.
///
/// # Errors
/// If it is no such document.
pub fn parse(bytes: &[u8], jobs: usize) -> Result<Vec<Answer>, ParseError> {
    let all: Vec<Answer> = serde_json::from_slice(bytes).map_err(|error| ParseError::Json {
        line: error.line(),
        column: error.column(),
        // Its own words could repeat what it found there.
        what: match error.classify() {
            serde_json::error::Category::Eof => "the document ends too early",
            serde_json::error::Category::Syntax => "not JSON",
            serde_json::error::Category::Data => "a value of another type than expected",
            serde_json::error::Category::Io => "not readable",
        },
    })?;
    if all.len() != jobs + 1 {
        return Err(ParseError::Length { found: all.len(), expected: jobs + 1 });
    }
    Ok(all.into_iter().skip(1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_keys() {
        let text = r#"[{"process_env":["PASSWORD=x"]},{"all_solvers":[["1","ConvAsm3x3U"],
            {"id":"2","name":"b","tunable":"1","dynamic":"0","type":"convolution"}],
            "miopen_perf_compile_result":[{"solver_id":"a","perf_compiled":true}],
            "miopen_find_eval_result":[{"solver_name":"b","evaluated":true,"reson":"time","time":-1.0}],
            "direction":2,"arch":"gfx906","config_tuna_id":null}]"#;
        let [answer] = parse(text.as_bytes(), 1).unwrap().try_into().unwrap();
        assert_eq!(answer.miopen_perf_compile_result.unwrap()[0].solver(), Some("a"));
        assert_eq!(answer.miopen_find_eval_result.unwrap()[0].reson.as_deref(), Some("time"));
        assert!(
            matches!(&answer.all_solvers.unwrap()[0], Listed::Pair(id, name) if id.number() == Some(1) && name == "ConvAsm3x3U")
        );
    }

    #[test]
    fn errors_say_where_and_not_what() {
        let secret = r#"[{"process_env":["A=b"]},{"db_key":17,"workspace":"hunter2"}]"#;
        let error = parse(secret.as_bytes(), 1).unwrap_err();
        assert!(matches!(error, ParseError::Json { line: 1, .. }), "{error}");
        let secret = r#"[{},{"miopen_find_eval_result":[{"time":"hunter2"}]}]"#;
        assert!(!parse(secret.as_bytes(), 1).unwrap_err().to_string().contains("hunter2"));
        assert!(parse(b"", 1).unwrap_err().to_string().contains("too early"));
        assert_eq!(parse(b"[{}]", 1), Err(ParseError::Length { found: 1, expected: 2 }));
        assert!(parse(b"[{}, {}", 1).is_err() && parse(b"null", 1).is_err() && parse(b"[1, 2]", 1).is_err());
    }
}
