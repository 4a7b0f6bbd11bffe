//! Who is played off: a function of what came of the perf stage.

use std::collections::BTreeSet;

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::{best_of_each_solver, follow_ups, ranked};
use bluefin_common::description::SolverInfo;
use bluefin_common::outcome::{Disturbance, Outcome};
use bluefin_common::session::Stage;
use bluefin_common::value::Value;
use proptest::prelude::*;

use crate::campaign::{candidate, outcome, perf, pruned, session, timed};

#[test]
fn finalists_are_the_best_of_each_solver_whatever_the_order() {
    let find = follow_ups(&session(&Stage::ALL), &perf()).remove(0);
    assert_eq!(find.candidates, [candidate("A", 2), candidate("B", 1), candidate("D", 2)]);
    assert_eq!(find.stage, Stage::Find);
    let mut reversed = perf();
    reversed.reverse();
    assert_eq!(follow_ups(&session(&Stage::ALL), &reversed)[0].id(), find.id());
}

/// Perf outcomes of candidates with these times, two a job.
pub fn tuned(times: &[(&str, i64, f64)]) -> Vec<Outcome> {
    let timed = |&(solver, param, ms): &(&str, i64, f64)| timed(candidate(solver, param), ms, 0.0, 0);
    times.chunks(2).map(|job| outcome(Stage::Perf, job.iter().map(timed).collect())).collect()
}

pub fn finalists(outcomes: &[Outcome]) -> Vec<Candidate> {
    follow_ups(&session(&Stage::ALL), outcomes).remove(0).candidates
}

#[test]
fn what_may_be_the_fastest_is_played_off_too() {
    let mut outcomes = tuned(&[
        ("A", 1, 1.0),
        ("A", 2, 1.05),
        ("A", 3, 1.099),
        ("A", 4, 1.101),
        ("B", 1, 1.08),
        ("B", 2, 1.02),
        ("C", 1, 3.0),
    ]);
    // Probes do not say how fast it is, and a larger budget may time a candidate once more.
    outcomes.push(outcome(Stage::Perf, vec![pruned(candidate("A", 5), 1.01), timed(candidate("A", 2), 1.06, 0.0, 0)]));
    let expected = [("A", 1), ("A", 2), ("A", 3), ("B", 1), ("B", 2), ("C", 1)];
    assert_eq!(finalists(&outcomes), expected.map(|(solver, param)| candidate(solver, param)));
}

#[test]
fn eight_are_played_off_unless_there_are_more_solvers() {
    // The later the faster, and all but Z as good as equal.
    let close: Vec<_> = (0..20).map(|param| ("A", param, 1.02 - 0.001 * param as f64)).collect();
    let fastest = (13..20).map(|param| candidate("A", param));
    assert_eq!(
        finalists(&tuned(&[close.clone(), vec![("Z", 1, 7.0)]].concat())),
        fastest.chain([candidate("Z", 1)]).collect::<Vec<_>>()
    );

    let names = ["B", "C", "D", "E", "F", "G", "H", "I", "J"];
    for solvers in [7, 8, 9] {
        let others: Vec<_> = names[..solvers - 1].iter().map(|solver| (*solver, 1, 1.5)).collect();
        let found = finalists(&tuned(&[close.clone(), others].concat()));
        let of_a = found.iter().filter(|candidate| candidate.solver == "A").count();
        assert_eq!((found.len(), of_a), (solvers.max(8), if solvers == 7 { 2 } else { 1 }), "{found:?}");
        assert!(found.contains(&candidate("A", 19)));
    }
}

proptest! {
    #[test]
    fn finalists_follow_from_the_times_and_not_from_their_order(
        times in proptest::collection::vec((0..10_usize, 0..6_i64, 0..40_u32, any::<bool>()), 1..60),
        shuffled in Just((0..60_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let timed = |&(solver, param, ms, probed): &(usize, i64, u32, bool)| {
            let candidate = candidate(["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"][solver], param);
            let ms = 1.0 + f64::from(ms) / 100.0;
            outcome(Stage::Perf, vec![if probed { pruned(candidate, ms) } else { timed(candidate, ms, 0.0, 0) }])
        };
        let outcomes: Vec<_> = times.iter().map(timed).collect();
        let reordered: Vec<_> = shuffled.iter().filter_map(|index| times.get(*index)).map(timed).collect();
        let found = finalists(&outcomes);
        prop_assert_eq!(follow_ups(&session(&Stage::ALL), &outcomes)[0].id(), follow_ups(&session(&Stage::ALL), &reordered)[0].id());

        let best: BTreeSet<_> = best_of_each_solver(&outcomes).into_values().map(|best| best.outcome.candidate.clone()).collect();
        let ranked = ranked(&outcomes, Stage::Perf);
        let limit = ranked.first().map_or(0.0, |fastest| 1.1 * fastest.timing.range_ms().0);
        let mut close = Vec::new();
        for timed in ranked.iter().filter(|timed| timed.timing.range_ms().0 <= limit) {
            if !best.contains(&timed.outcome.candidate) && !close.contains(&timed.outcome.candidate) {
                close.push(timed.outcome.candidate.clone());
            }
        }
        close.truncate(8_usize.saturating_sub(best.len()));
        prop_assert_eq!(found, best.into_iter().chain(close).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn default_params_of_whoever_may_win_are_played_off_however_slow() {
    let mut outcomes =
        tuned(&[("A", 1, 1.0), ("B", 1, 1.05), ("C", 1, 3.0), ("A", 7, 9.0), ("B", 7, 4.0), ("C", 7, 5.0)]);
    let of =
        |name: &str| SolverInfo { name: name.to_string(), default: Some(vec![Value::Int(7)]), ..SolverInfo::default() };
    outcomes[0].description.solvers = vec![of("A"), of("B"), of("C")];
    outcomes.push(outcome(Stage::Perf, vec![pruned(candidate("A", 7), 8.0)]));
    let expected = [("A", 1), ("A", 7), ("B", 1), ("B", 7), ("C", 1)];
    assert_eq!(finalists(&outcomes), expected.map(|(solver, param)| candidate(solver, param)));
}

#[test]
fn a_slow_phase_of_the_device_keeps_nobody_out() {
    let mut outcomes = tuned(&[("A", 1, 1.0), ("A", 3, 9.0), ("A", 2, 1.45)]);
    let disturbance = Some(Disturbance { waiting: 0.0, stolen: 0.0, slowdown: 1.4 });
    assert_eq!(finalists(&outcomes), [candidate("A", 1)]);
    outcomes[1].device_state.disturbance = disturbance;
    assert_eq!(finalists(&outcomes), [candidate("A", 1), candidate("A", 2)]);
}

#[test]
fn one_undisturbed_sample_makes_a_finalist() {
    let mut disturbed = timed(candidate("A", 2), 2.6, 0.5, 0);
    if let Ok(timing) = &mut disturbed.result {
        timing.samples_ms = vec![2.6, 1.0, 2.7, 2.5, 2.9, 3.0];
    }
    let outcomes = [outcome(Stage::Perf, vec![timed(candidate("A", 1), 1.02, 0.0, 0), disturbed])];
    assert_eq!(finalists(&outcomes), [candidate("A", 1), candidate("A", 2)]);
}

#[test]
fn a_device_that_is_off_says_nothing_against_its_own_share() {
    let on_two = |third: f64| {
        let mut outcomes = tuned(&[("A", 1, 1.0), ("A", 2, 1.2), ("A", 3, third), ("A", 4, 1.29)]);
        assert_eq!(finalists(&outcomes), [candidate("A", 1)]);
        outcomes[1].device_state.uuid = "GPU-b".into();
        finalists(&outcomes)
    };
    assert_eq!(on_two(1.25), [candidate("A", 1), candidate("A", 3)]);
    // No device is off by so much.
    assert_eq!(on_two(1.35), [candidate("A", 1), candidate("A", 4)]);
    // However many devices there are.
    let times: Vec<_> = (0..40).map(|param| ("A", param, 1.0 + 0.005 * param as f64)).collect();
    let mut outcomes = tuned(&times);
    for (at, outcome) in outcomes.iter_mut().enumerate() {
        outcome.device_state.uuid = format!("GPU-{at}");
    }
    assert_eq!(finalists(&outcomes).len(), 8);
}
