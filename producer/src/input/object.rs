//! JSON objects, one a line, as `bluefin problems list --json` prints them, or any that names its problem likewise.

use bluefin_common::problem::Problem;
use serde::Deserialize;

use super::line::{Content, content_of};
use super::problems_of;

/// Every other field is passed over.
#[derive(Deserialize)]
struct Object {
    /// A driver command.
    #[serde(alias = "command", alias = "driver")]
    problem: Option<String>,
    #[serde(alias = "fdb_key", alias = "db_key")]
    find_db_key: Option<String>,
    perf_db_key: Option<String>,
}

/// The problems that `text` asks for.
pub(super) fn problems(text: &str) -> Result<Vec<Problem>, String> {
    let object: Object = serde_json::from_str(text).map_err(|error| format!("JSON: {error}"))?;
    let Some(problem) = object.problem.or(object.find_db_key).or(object.perf_db_key) else {
        return Err("JSON: found no problem, command, driver, find_db_key or perf_db_key, expected one".to_string());
    };
    match content_of(&problem) {
        Some(content @ (Content::Command { .. } | Content::Key(_) | Content::PerfKey(_))) => problems_of(&content),
        _ => Err(format!(
            "JSON: found {:?}, expected a driver command or a key",
            problem.chars().take(60).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_name_their_problem() {
        let conv = "conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 1";
        let canonical =
            |text: &str| problems(text).map(|problems| problems.iter().map(Problem::canonical).collect::<Vec<_>>());
        let expected = canonical(&format!(r#"{{"command":"{conv}"}}"#)).unwrap();
        assert_eq!(expected.len(), 1);
        for same in [
            format!(r#"{{"line": 3, "problem":"{conv}"}}"#),
            format!(r#"{{"driver":"./bin/MIOpenDriver {conv}"}}"#),
            r#"{"find_db_key":"8-9-9-3x3-8-7-7-1-0x0-1x1-1x1-0-NCHW-FP32-F"}"#.to_string(),
            r#"{"perf_db_key":"2x8x9x9x1x3x3x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"}"#.to_string(),
        ] {
            assert_eq!(canonical(&same).as_ref(), Ok(&expected), "{same}");
        }
        for (wrong, message) in [
            ("{", "JSON: EOF"),
            ("{}", "JSON: found no problem"),
            (r#"{"problem":"hello"}"#, "JSON: found \"hello\""),
            (r#"{"problem":"{\"problem\":\"conv\"}"}"#, "JSON: found"),
            (r#"{"problem":"conv -n x"}"#, "driver command: batchsize"),
        ] {
            let found = problems(wrong).unwrap_err();
            assert!(found.starts_with(message), "{found}");
        }
    }
}
