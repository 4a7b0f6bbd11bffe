//! What a search can still gain. A model does not foresee an optimum that stands alone, so what it expects is one of three witnesses, and the one
//! that expects most is believed. The numbers here were chosen on recorded spaces: `docs/search.md`

use crate::search::{Tried, best_ms};

/// Candidates that have to run before anything is said.
const LEAST_RAN: usize = 24;
/// How much more searches gained by as many candidates again than lay between the best of a random half of those before and the best of all.
const FORESEEN: f64 = 3.0;
/// How much sooner a search comes to the optimum of a space than a random order does: the chance that it is among the untried is their
/// share to the power of this.
const SOONER: i32 = 4;

/// Whether enough ran to say something.
pub fn is_known(tried: &[Tried<'_>]) -> bool {
    tried.iter().filter(|tried| tried.result.is_ok()).count() >= LEAST_RAN
}

/// The share of the best time by which it is expected to fall if as many candidates as `tried`, which are in the order of their rounds, are
/// tried again of the `valid` points of a space; `expected` is what the model expects of the next round, as a logarithm. `None`:
/// too little is known.
pub fn left(tried: &[Tried<'_>], valid: u64, expected: f64) -> Option<f64> {
    if !is_known(tried) {
        return None;
    }
    let untried = 1.0 - (tried.len() as f64 / valid.max(1) as f64).min(1.0);
    let history = (FORESEEN * between_halves(tried)?).max(since_the_first_third(tried)?);
    Some(1.0 - libm::exp(-expected.max(history * untried.powi(SOONER))))
}

/// By how much the best got better since the first third, as a logarithm: what comes is less as a rule.
fn since_the_first_third(tried: &[Tried<'_>]) -> Option<f64> {
    let first = tried.get(..tried.len() / 3)?;
    Some(libm::log(best_ms(first)? / best_ms(tried)?))
}

/// By how much the best of all is better than that of a random half is expected to be, as a logarithm: with a chance of one in two a half has
/// the best, with one in four its best is the second, and so on.
fn between_halves(tried: &[Tried<'_>]) -> Option<f64> {
    // What was cut short is at least as slow, and no best.
    let best = best_ms(tried)?;
    let mut behind: Vec<f64> = tried.iter().filter_map(|tried| tried.result.ok()).map(|time| time.median_ms).collect();
    behind.sort_by(f64::total_cmp);
    let mut chance = 1.0;
    let parts = behind.into_iter().map(|ms| {
        chance /= 2.0;
        chance * libm::log(ms / best).max(0.0)
    });
    Some(parts.sum())
}

#[cfg(test)]
mod tests {
    use bluefin_common::candidate::Candidate;
    use bluefin_common::failure::FailureKind;
    use bluefin_common::value::Value;

    use super::*;
    use crate::search::Time;

    /// What is left after these times, of so many points.
    fn left_of(times: &[f64], valid: u64, expected: f64) -> Option<f64> {
        let candidates: Vec<Candidate> = (0..times.len())
            .map(|at| Candidate { solver: "S".to_string(), params: vec![Value::Int(at as i64)] })
            .collect();
        let tried = candidates.iter().zip(times).zip(0..).map(|((candidate, ms), at)| {
            let time = Time { median_ms: *ms, spread_ms: 0.0, pruned: false };
            let result = if *ms > 0.0 { Ok(time) } else { Err(FailureKind::Hang) };
            Tried { candidate, round: at / 8, result, cost: None }
        });
        left(&tried.collect::<Vec<_>>(), valid, expected)
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?}, expected {expected}");
    }

    #[test]
    fn the_witness_that_expects_most_is_believed() {
        let flat = [1.0; 32];
        close(left_of(&flat, 1 << 40, 0.0), 0.0);
        close(left_of(&flat, 1 << 40, 0.1), 1.0 - (-0.1_f64).exp());
        // What came after the first third gained a fifth.
        let mut gained = [1.25; 32];
        gained[10..].fill(1.0);
        close(left_of(&gained, u64::MAX, 0.0), 0.2);
        // One stands alone, and was found in the first half.
        let mut alone = [1.08; 32];
        alone[3] = 1.0;
        let expected = 3.0 * (0.5 - 0.5_f64.powi(32)) * 1.08_f64.ln();
        close(left_of(&alone, u64::MAX, 0.0), 1.0 - (-expected).exp());
    }

    #[test]
    fn what_history_expects_counts_less_where_little_is_untried() {
        let mut gained = [1.25; 32];
        gained[10..].fill(1.0);
        let expected = 1.25_f64.ln() / 16.0;
        close(left_of(&gained, 64, 0.0), 1.0 - (-expected).exp());
        close(left_of(&gained, 32, 0.0), 0.0);
        close(left_of(&gained, 20, 0.0), 0.0);
    }

    #[test]
    fn nothing_is_said_where_too_little_is_known() {
        assert_eq!(left_of(&[1.0; 23], 100, 0.0), None);
        assert_eq!(left_of(&[0.0; 40], 100, 0.0), None, "nothing ran");
        let mut late = [0.0; 40];
        late[12..].fill(1.0);
        assert_eq!(left_of(&late, 100, 0.0), Some(0.0));
        let late = [vec![0.0; 24], vec![1.0; 24]].concat();
        assert_eq!(left_of(&late, 100, 0.0), None, "nothing ran in the first third");
    }
}
