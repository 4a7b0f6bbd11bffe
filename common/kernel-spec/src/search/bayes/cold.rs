//! What is tried before anything is known: what an analytic model of the architecture finds best among a few random points.

use bluefin_common::candidate::Candidate;

use super::pool::Pool;
use crate::error::SpecError;
use crate::search::Space;
use crate::search::analytic::SAMPLE;

/// Points of a first round that it does not choose.
const OTHERS: usize = 1;

/// Up to `wanted` random points of `pool` that the model of the spec finds best; none where the spec has no model. Those that it finds
/// alike are in the pool's order, which is random.
///
/// # Errors
/// A cost that has no value for a point.
pub fn promising(space: &Space<'_>, pool: &Pool, wanted: usize) -> Result<Vec<Candidate>, SpecError> {
    let mut sample = Vec::new();
    for candidate in pool.candidates.iter().skip(pool.near).take(SAMPLE) {
        // A spec says it of all points or of none.
        let Some(cost) = space.cost(candidate)? else { return Ok(Vec::new()) };
        sample.push((cost, candidate));
    }
    sample.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(sample.into_iter().take(wanted.saturating_sub(OTHERS)).map(|(_, candidate)| candidate.clone()).collect())
}
