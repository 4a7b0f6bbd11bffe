//! What aiter's operators take as a whole, beside what their kernels take: the table that a tuner prints with `--run_config`.

use serde::{Deserialize, Serialize};

use crate::{Family, Key, Value};

/// Bytes to be kept of what a tuner prints with `--run_config`: the table, with all that lies between its rows.
pub const PRINTED: usize = 1 << 20;

/// What an operator took for a shape, as users call it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Microseconds from end to end; `None` if it failed, or what it computed is wrong.
    pub us: Option<f64>,
    /// Those of its kernels alone, where the operator tells.
    pub kernel_us: Option<f64>,
    /// Why there is no time.
    pub reason: Option<String>,
}

/// An operator with the rows that were in force, and with a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// As it was.
    pub before: Operator,
    /// With the new row.
    pub after: Operator,
}

impl Operator {
    /// One without a time.
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::default() }
    }
}

impl Comparison {
    /// The time before over the time after.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        Some(self.before.us? / self.after.us?)
    }

    /// Whether the new row is to stand: the operator takes less time by so many percent, or had no time before. It is the rule of
    /// aiter's own `--compare --update_improved`.
    ///
    /// # Errors
    /// Why not.
    pub fn is_better_by(&self, percent: f64) -> Result<(), String> {
        let Some(after) = self.after.us else {
            return Err(format!("with it {}", self.after.reason.as_deref().unwrap_or("there is no time")));
        };
        match self.before.us {
            Some(before) if (before - after) / before * 100.0 < percent => {
                Err(format!("with it the operator takes {after} us, without it {before} us"))
            }
            _ => Ok(()),
        }
    }
}

/// Reads what a tuner of `family` printed: for each shape a row of the table, its key, and why it failed if it did. Left out is what says
/// neither a time nor a failure, and whose table's header was not printed: nothing is known of it.
#[must_use]
pub fn read(family: &'static Family, printed: &str) -> Vec<(Key, Operator)> {
    let mut columns: Vec<&str> = Vec::new();
    let mut row: Option<Operator> = None;
    let mut has_reason = false;
    let mut read: Vec<(Key, Operator)> = Vec::new();
    for line in printed.lines() {
        if let Some(text) = line.strip_prefix("keys: ") {
            let operator = row.take();
            has_reason = operator.as_ref().is_some_and(|operator| operator.us.is_none());
            read.extend(operator.map(|operator| (key(family, text), operator)));
        } else if let Some(reason) = line.strip_prefix("reason: ").filter(|_| has_reason) {
            has_reason = false;
            if let Some(told) = read.last_mut().and_then(|(_, operator)| operator.reason.as_mut()) {
                *told = format!("{told}: {reason}");
            }
        } else if line.starts_with("Shape ") && line.contains("| ") {
            (columns, row) = (line.split('|').map(str::trim).collect(), None);
        } else if let Row::Told(told) = table_row(&columns, line) {
            row = told;
        }
    }
    read
}

/// What a line is.
enum Row {
    /// Something between rows.
    Other,
    /// A row, and what it tells if that is something.
    Told(Option<Operator>),
}

/// A row of the table: its cells of times have times or none, and its status is a word.
fn table_row(columns: &[&str], line: &str) -> Row {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let cell =
        |name: &str| columns.iter().position(|column| *column == name).and_then(|place| cells.get(place).copied());
    let is_time = |name| cell(name).is_none_or(|cell| matches!(cell, "N/A" | "-") || cell.parse::<f64>().is_ok());
    let status = cell("Status").unwrap_or_default();
    let is_word = !status.is_empty() && status.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if cells.len() != columns.len() || !is_word || !is_time("E2E(us)") || !is_time("Kernel(us)") {
        return Row::Other;
    }
    let time = |name| {
        let us: Option<f64> = cell(name)?.parse().ok();
        us.filter(|us| us.is_finite() && *us > 0.0)
    };
    let (us, kernel_us) = (time("E2E(us)"), time("Kernel(us)"));
    Row::Told(match (status, us) {
        ("OK", Some(_)) => Some(Operator { us, kernel_us, reason: None }),
        ("MISMATCH" | "ERROR", _) => Some(Operator::failed(status.to_lowercase())),
        _ => None,
    })
}

/// `gfx=gfx942, cu_num=304, M=1`: the columns that say something of a shape.
fn key(family: &'static Family, text: &str) -> Key {
    let cells: Vec<(&str, &str)> = text.split(", ").filter_map(|cell| cell.split_once('=')).collect();
    let told = |column: &'static str| {
        let (_, value) = cells.iter().find(|(name, _)| *name == column)?;
        (!value.trim().is_empty()).then(|| (column, Value::of(value)))
    };
    Key(family.key().filter(|column| !family.gpu.contains(column)).filter_map(told).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FamilyName;

    fn family() -> &'static Family {
        "ck_gemm_a8w8".parse::<FamilyName>().unwrap().0
    }

    fn us(us: f64) -> Operator {
        Operator { us: Some(us), ..Operator::default() }
    }

    #[test]
    fn tables_are_read_by_their_columns() {
        let printed = "\
[aiter] something | of | a log | that has bars
============= Benchmark (tuned) Benchmark Results =============
Shape                                    | Kernel(us) |    E2E(us) |   Status
------------------------------------------------------------------------------
(16, 1536, 7168)                         |       9.25 |      12.50 |       OK
keys: gfx=gfx942, cu_num=304, M=16, N=1536, K=7168, q_dtype_w=torch.int8
(32, 1536, 7168)                         |        N/A |        N/A |    ERROR
[aiter] import [module_gemm_a8w8]
keys: gfx=gfx942, cu_num=304, M=32, N=1536, K=7168, q_dtype_w=torch.int8
reason: HIP error: invalid argument
(64, 1536, 7168)                         |        N/A |      11.00 | MISMATCH
keys: gfx=gfx942, cu_num=304, M=64, N=1536, K=7168, q_dtype_w=torch.int8
reason: err_ratio=0.5(>--errRatio=0.05)

============= Repro CSV (2 failed shapes) =============
Copy the lines below into a CSV file to reproduce:
gfx,M,N,K,q_dtype_w
";
        let read = read(family(), printed);
        let keys: Vec<String> = read.iter().map(|(key, _)| key.to_string()).collect();
        let expected = [16, 32, 64].map(|m| format!("M={m} N=1536 K=7168 q_dtype_w=torch.int8"));
        assert_eq!(keys, expected);
        assert_eq!(read[0].1, Operator { us: Some(12.5), kernel_us: Some(9.25), reason: None });
        assert_eq!(read[1].1, Operator::failed("error: HIP error: invalid argument"));
        assert_eq!(read[2].1, Operator::failed("mismatch: err_ratio=0.5(>--errRatio=0.05)"));
    }

    #[test]
    fn a_table_without_kernels_or_rows_is_read_too() {
        let printed = "Shape | E2E(us) | Status\n(1, 2, 3) | 5.00 | OK\nkeys: M=1, N=2, K=3\nkeys: M=2, N=2, K=3\n";
        let read = read(family(), printed);
        assert_eq!(read.len(), 1, "a key without a row tells nothing");
        assert_eq!(read[0].1, us(5.0));
        assert!(super::read(family(), "Benchmark (default): no results\n").is_empty());
    }

    #[test]
    fn what_tells_neither_a_time_nor_a_failure_is_left_out() {
        let rows = "\
(1, 2, 3) | 5.00 | OK
[aiter] a | b | c
keys: M=1, N=2, K=3
(2, 2, 3) | nan | OK
keys: M=2, N=2, K=3
reason: of another
(3, 2, 3) | N/A | SKIPPED
keys: M=3, N=2, K=3
(4, 2, 3) | N/A | ERROR
[aiter] A | B | C
keys: M=4, N=2, K=3
reason: HIP error
";
        let found = read(family(), &format!("keys: M=9, N=2, K=3\nShape | E2E(us) | Status\n{rows}"));
        let told: Vec<(String, Operator)> = found.into_iter().map(|(key, it)| (key.to_string(), it)).collect();
        let expected = [("M=1 N=2 K=3", us(5.0)), ("M=4 N=2 K=3", Operator::failed("error: HIP error"))];
        assert_eq!(told, expected.map(|(key, it)| (key.to_string(), it)));
        assert!(read(family(), rows).is_empty(), "the header was cut off");
    }

    #[test]
    fn a_row_stands_if_the_operator_gains_enough() {
        let compared = |before: Operator, after: Operator| Comparison { before, after }.is_better_by(3.0);
        assert_eq!(compared(us(100.0), us(97.0)), Ok(()));
        assert_eq!(
            compared(us(100.0), us(97.5)),
            Err("with it the operator takes 97.5 us, without it 100 us".to_string())
        );
        assert_eq!(compared(Operator::failed("error"), us(500.0)), Ok(()));
        assert_eq!(compared(us(100.0), Operator::failed("mismatch")), Err("with it mismatch".to_string()));
    }
}
