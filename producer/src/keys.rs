//! The database keys of driver commands, as a table.

use std::borrow::Cow;
use std::fmt;

use bluefin_common::problem::{Direction, Problem};

use crate::input::{Content, Reject, lines, problems_of};
use bluefin_common::problem::driver;
use bluefin_miopen::key::{FindDbKey, PerfDbKey, batch_norm};

/// The keys of a command in one direction. Prints as its three texts, joined by tabs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The command from the base word on, as it was written; with its direction where a log tells that apart from it.
    pub command: String,
    /// Only convolutions have one.
    pub find_db_key: Option<String>,
    /// In the text form.
    pub perf_db_key: String,
}

impl fmt::Display for KeyRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let find_db_key = self.find_db_key.as_deref().unwrap_or("-");
        write!(f, "{}\t{find_db_key}\t{}", self.command, self.perf_db_key)
    }
}

/// What [`keys`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTable {
    /// One for each direction of a command.
    pub rows: Vec<KeyRow>,
    /// Lines that ask for neither a convolution nor a batch norm.
    pub rejects: Vec<Reject>,
}

/// The keys that MIOpen looks up for the driver commands of a text. For a line that is a key already, the command is the
/// canonical one of its problem.
#[must_use]
pub fn keys(text: &[u8]) -> KeyTable {
    let mut table = KeyTable::default();
    for line in lines(text) {
        let rows: Result<Vec<KeyRow>, String> = match line.content {
            Content::Skipped => continue,
            Content::Command { command, implied } => {
                driver::parse(command, implied).map_err(|error| error.to_string()).and_then(|problems| {
                    let command = with_direction(command, implied);
                    problems.iter().map(|problem| row(&command, problem)).collect()
                })
            }
            content => problems_of(&content)
                .and_then(|problems| problems.iter().map(|problem| row(&problem.canonical(), problem)).collect()),
        };
        match rows {
            Ok(rows) => table.rows.extend(rows),
            Err(reason) => table.rejects.push(Reject::new(line.number, line.bytes, reason)),
        }
    }
    table
}

/// A command of a log whose direction stands in front of it, with that direction in it.
fn with_direction(command: &str, implied: Option<Direction>) -> Cow<'_, str> {
    let is_given = command.split_ascii_whitespace().any(|word| word == "-F" || word == "--forw");
    match implied.filter(|_| !is_given) {
        Some(direction) => format!("{} -F {}", command.trim_end(), direction.driver_bit()).into(),
        None => command.into(),
    }
}

const NO_KEYS: &str = "found neither a convolution nor a batch norm, expected one: only these have database keys";

fn row(command: &str, problem: &Problem) -> Result<KeyRow, String> {
    let (find_db_key, perf_db_key) = match problem {
        Problem::Conv(conv) => {
            let key = FindDbKey::from(conv);
            (Some(key.to_string()), PerfDbKey::from(&key).to_string())
        }
        Problem::BatchNorm(norm) => (None, batch_norm::perf_db_key(norm)),
        _ => return Err(NO_KEYS.to_string()),
    };
    Ok(KeyRow { command: command.to_string(), find_db_key, perf_db_key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_row() {
        let table =
            keys(b"./bin/MIOpenDriver conv -n 2 -c 4 -k 8 -F 3\ngemm -m 1\nMIOpen(HIP): Info\nbnorm -n 2 -F 2\n");
        assert_eq!(
            table.rows.iter().map(KeyRow::to_string).collect::<Vec<_>>(),
            [
                "conv -n 2 -c 4 -k 8 -F 3\t4-32-32-3x3-8-30-30-2-0x0-1x1-1x1-0-NCHW-FP32-F\t\
                 2x4x32x32x1x3x3x1x8x2x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF",
                "conv -n 2 -c 4 -k 8 -F 3\t8-30-30-3x3-4-32-32-2-0x0-1x1-1x1-0-NCHW-FP32-B\t\
                 2x8x30x30x1x3x3x1x4x2x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB",
                "bnorm -n 2 -F 2\t-\t2x2x3x32x32x1x0x0x0xNCHWxInfxFP32x0",
            ]
        );
        assert_eq!(table.rejects.len(), 1);
        assert_eq!(table.rejects[0].line, 2);
    }

    #[test]
    fn a_log_lines_direction_is_in_its_command() {
        let table = keys(b"MIOpen: miopenConvolutionBackwardData: ./bin/MIOpenDriver conv -n 2 -c 4 -k 8 \n");
        let [row] = table.rows.as_slice() else { panic!("{table:?}") };
        assert_eq!(row.command, "conv -n 2 -c 4 -k 8 -F 2");
        assert_eq!(keys(row.command.as_bytes()).rows, table.rows);
        let given = keys(b"MIOpen: miopenConvolutionBackwardData: ./bin/MIOpenDriver conv -n 2 --forw 1\n");
        assert_eq!(given.rows[0].command, "conv -n 2 --forw 1");
    }
}
