//! What an analytic model of the architecture makes of a few measured times: how fast another point of the same solver may be, and which
//! differences are no news.

use super::{Space, Tried};
use crate::error::SpecError;

/// Random points whose best cost stands for the best of the space. Of many more it would be one that nothing real comes near.
pub(super) const SAMPLE: usize = 64;
/// Points that are looked at to find as many which satisfy the constraints.
const LOOKED_AT: u64 = 4096;

/// The share of a difference of costs that times are expected to have, as logarithms: a model knows but some of what takes time.
/// `docs/search.md`
const FORESEEN: f64 = 0.5;
/// The largest difference that is believed, as a logarithm: beyond it both are bad, and by how much does not matter.
const MOST_FORESEEN: f64 = 1.0;

/// The least of some costs, with which others are compared. Infinite: there is no model.
pub(super) fn least_cost(costs: impl Iterator<Item = Option<f64>>) -> f64 {
    costs.flatten().filter(|cost| *cost > 0.0).fold(f64::INFINITY, f64::min)
}

/// That of those which ran.
pub(super) fn least_cost_of(tried: &[Tried<'_>]) -> f64 {
    least_cost(tried.iter().filter(|one| one.result.is_ok()).map(|one| one.cost))
}

/// By how much a point of this cost is expected to be slower than one of the cost `least`, as a logarithm; nothing without a model.
pub(super) fn foreseen(cost: Option<f64>, least: f64) -> f64 {
    let more = cost.filter(|cost| *cost > 0.0).map_or(0.0, |cost| libm::log(cost / least));
    if more.is_finite() { FORESEEN * more.clamp(-MOST_FORESEEN, MOST_FORESEEN) } else { 0.0 }
}

/// How fast the best point of `space` may be, if what the model says of `tried` and of other points were in proportion to times: it is a
/// hope rather than a promise. `None`: nothing ran, or there is no model.
///
/// # Errors
/// A cost or a constraint that has no value for a point.
pub(super) fn expected_ms(space: &Space<'_>, tried: &[Tried<'_>], seed: u64) -> Result<Option<f64>, SpecError> {
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(seed.to_le_bytes()).for_each(|(byte, of)| *byte = of);
    let mut least = f64::INFINITY;
    for candidate in space.draw(&bytes, SAMPLE, LOOKED_AT)? {
        let Some(cost) = space.cost(&candidate)? else { return Ok(None) };
        least = least.min(cost);
    }
    let mut expected: Option<f64> = None;
    for Tried { candidate, result, .. } in tried {
        let (Ok(time), Some(cost)) = (result, space.cost(candidate)?) else { continue };
        let may_be = time.median_ms * (least / cost).min(1.0);
        if may_be.is_finite() {
            expected = Some(expected.map_or(may_be, |expected| expected.min(may_be)));
        }
    }
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bluefin_common::candidate::Candidate;
    use bluefin_common::failure::FailureKind;
    use bluefin_common::value::Value;

    use super::*;
    use crate::search::Time;

    #[test]
    fn a_time_and_two_costs_are_another_time() {
        let point = |n: i64| vec![Value::Int(n)];
        let space = Space::listed("S", &["N".to_string()], (1..=40).map(point).collect(), 1);
        let costs: HashMap<Vec<Value>, f64> = (1..=40_i64).map(|n| (point(n), n as f64)).collect();
        let candidates = [16, 4].map(|n| Candidate { solver: "S".to_string(), params: point(n) });
        let tried = |at: usize, result| Tried { candidate: &candidates[at], round: 0, result, cost: None };
        let time = |median_ms| Ok(Time { median_ms, spread_ms: 0.0, pruned: false });
        let expected = |space: &Space<'_>, tried: &[Tried<'_>]| expected_ms(space, tried, 7).unwrap();
        assert_eq!(expected(&space, &[tried(0, time(8.0))]), None, "no model");
        let space = space.with_costs(costs);
        assert_eq!(expected(&space, &[]), None);
        assert_eq!(expected(&space, &[tried(0, Err(FailureKind::Hang))]), None);
        assert_eq!(expected(&space, &[tried(0, time(8.0))]), Some(0.5));
        assert_eq!(expected(&space, &[tried(0, time(8.0)), tried(1, time(1.0))]), Some(0.25));
    }
}
