//! Which jobs are compiled first, where some take much longer than others.

use std::collections::VecDeque;

use bluefin_common::job::Job;
use bluefin_kernel_spec::{Scope, Solver, SpecError};

/// One job in so many is begun early, where jobs differ in what they cost to compile.
pub(super) const SLOW: usize = 8;

/// How long the slowest compile of `job` takes, compared with those of other jobs.
pub(super) fn compile_cost(solver: &Solver, job: &Job, scope: &Scope) -> Result<f64, SpecError> {
    let costs = job.candidates.iter().map(|candidate| solver.compile_cost(&candidate.params, scope));
    costs.reduce(|a, b| Ok(a?.max(b?))).unwrap_or(Ok(0.0))
}

/// Those of the greatest `costs` are every second one at first, the others in their order: whatever takes long and begins late is
/// waited for by compilers that have nothing else to do, and all of them at once would keep devices waiting.
pub(super) fn slow_ones_early<T>(jobs: Vec<T>, costs: &[f64]) -> Vec<T> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let cost = |at: usize| costs.get(at).copied().unwrap_or_default();
    order.sort_by(|a, b| cost(*b).total_cmp(&cost(*a)));
    let least = order.last().map_or(0.0, |at| cost(*at));
    order.truncate(jobs.len() / SLOW);
    order.retain(|at| cost(*at) > least);
    let mut jobs: Vec<Option<T>> = jobs.into_iter().map(Some).collect();
    let mut slow: VecDeque<T> = order.into_iter().filter_map(|at| jobs.get_mut(at)?.take()).collect();
    let mut ordered = Vec::with_capacity(jobs.len());
    for job in jobs.into_iter().flatten() {
        ordered.push(job);
        ordered.extend(slow.pop_front());
    }
    ordered.extend(slow);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_take_long_to_compile_are_begun_early() {
        let costs: Vec<f64> = (0..32).map(|job| if job % 10 == 9 { 100.0 + f64::from(job) } else { 1.0 }).collect();
        let ordered = slow_ones_early((0..32).collect::<Vec<usize>>(), &costs);
        let at = |job| ordered.iter().position(|other| *other == job).unwrap();
        // The slowest first, and never two side by side.
        assert_eq!([29, 19, 9].map(at), [1, 3, 5]);
        let mut rest = ordered.clone();
        rest.retain(|job| job % 10 != 9);
        assert!(rest.is_sorted());
        assert_eq!(ordered.len(), 32);
    }

    #[test]
    fn jobs_that_cost_the_same_stay_in_their_order() {
        for count in [0, 1, 7, 20] {
            let jobs: Vec<usize> = (0..count).collect();
            assert_eq!(slow_ones_early(jobs.clone(), &vec![1.0; count]), jobs);
        }
        // Few jobs begin at the same time anyway.
        assert_eq!(slow_ones_early(vec![0, 1, 2], &[1.0, 2.0, 9.0]), [0, 1, 2]);
    }
}
