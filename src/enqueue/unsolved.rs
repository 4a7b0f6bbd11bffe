//! Problems that nothing is planned for, and why.

use std::fmt;

use serde::Serialize;

/// Problems that are told one by one.
const MAX_TOLD: usize = 20;

/// A problem that nothing is planned for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsolved {
    pub problem: String,
    /// In one line.
    pub reason: String,
}

/// `conv -n 1 ...: why`
impl fmt::Display for Unsolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.problem, self.reason)
    }
}

/// Says what was left out, on standard error: a line for each, and how many more there are. `why` begins each line.
pub fn tell(why: &str, unsolved: &[impl fmt::Display]) {
    lines(why, unsolved).iter().for_each(|line| eprintln!("{line}"));
}

fn lines(why: &str, unsolved: &[impl fmt::Display]) -> Vec<String> {
    let mut lines: Vec<String> = unsolved.iter().take(MAX_TOLD).map(|one| format!("{why}: {one}")).collect();
    let more = unsolved.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        lines.push(format!("{why}: {more} more problems"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let one = Unsolved { problem: "conv -n 1".to_string(), reason: "no".to_string() };
        assert_eq!(lines("skipped", std::slice::from_ref(&one)), ["skipped: conv -n 1: no"]);
        let told = lines("skipped", &vec![one; 1000]);
        assert_eq!(told.len(), 21);
        assert_eq!(told[20], "skipped: 980 more problems");
    }
}
