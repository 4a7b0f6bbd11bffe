use std::collections::{BTreeMap, HashMap};

use bluefin_common::roster::{Doing, Entry};

use super::*;
use crate::dashboard::found::tests::{found, progress, session};

/// `done` candidates and jobs of two sessions, at the end of the step of this number.
fn after(step: u64, done: [u64; 2]) -> Found {
    let sessions = ["a", "b"].into_iter().zip(done);
    let sessions = sessions.map(|(name, done)| (session(name), progress(done, 100))).collect();
    Found { now_ms: 1_000_000 + step * STEP_MS, ..found(sessions) }
}

#[test]
fn rates_are_of_what_was_done_while_somebody_looked() {
    let mut history = History::default();
    // What was done before the first look has no time.
    assert!(history.take(&after(0, [50, 0])));
    assert_eq!((history.points.len(), history.rate()), (0, None));
    // Another look within the step changes nothing.
    assert!(!history.take(&Found { now_ms: 1_000_000 + STEP_MS - 1, ..after(0, [55, 0]) }));
    assert!(history.take(&after(1, [60, 5])));
    assert!(history.take(&after(2, [60, 5])));
    let rates: Vec<f64> = history.points.iter().map(|point| point.candidates).collect();
    assert_eq!(rates, [60.0, 0.0], "15 candidates in a quarter of a minute, then none");
    assert_eq!(history.rate(), Some((30.0, 2 * STEP_MS)));
    let name = session("a").name;
    assert_eq!(history.steps(&name), [10, 0]);
    // 10 jobs in two steps; 20 more take four.
    assert_eq!(history.left_ms(&name, 20), Some(4 * STEP_MS));
    // A session that is gone takes nothing away.
    let mut gone = after(3, [60, 5]);
    gone.sessions.remove(0);
    assert!(history.take(&gone));
    assert_eq!(history.points.back().unwrap().candidates, 0.0);
    assert_eq!(history.left_ms(&name, 20), None);
}

#[test]
fn a_session_to_which_nothing_happens_is_told_from_one_that_is_not_known_yet() {
    let mut history = History::default();
    let (a, b) = (session("a"), session("b"));
    for step in 0..40 {
        history.take(&after(step, [step.min(5), step]));
        let now_ms = 1_000_000 + step * STEP_MS;
        assert_eq!(history.is_active(&a, now_ms), step < 25, "{step}");
        assert!(history.is_active(&b, now_ms));
    }
    let mut young = a.clone();
    young.created_ms = 1_000_000 + 39 * STEP_MS;
    assert!(history.is_active(&young, young.created_ms + 1) && history.is_active(&session("c"), 0));
}

#[test]
fn it_does_not_grow() {
    let mut history = History::default();
    for step in 0..1000 {
        history.take(&after(step, [step, 0]));
    }
    assert_eq!((history.points.len(), history.steps(&session("a").name).len()), (POINTS, POINTS - 1));
}

#[test]
fn queues_and_workers_are_those_of_the_moment() {
    let doing = Doing { job: "j".into(), session: session("a").name, problem: "p".into(), digest: None, since_ms: 0 };
    let worker = |name: &str, in_hand: u64, seen_ms| Entry {
        worker: name.into(),
        step: "eval".into(),
        every_ms: 5000,
        doing: vec![doing.clone(); in_hand as usize],
        in_hand,
        seen_ms,
        ..Entry::default()
    };
    let mut history = History::default();
    for step in 0..3 {
        let depths =
            [("bluefin.compile.cc.host", 7), ("bluefin.eval.host", 4), ("bluefin.eval.gfx942", 1), ("other", 9)];
        let depths: BTreeMap<String, u64> = depths.into_iter().map(|(name, depth)| (name.to_string(), depth)).collect();
        let mut found = Found { standings: HashMap::new(), queues: Some(Ok(depths)), ..after(step, [0, 0]) };
        let now = found.now_ms;
        found.workers = vec![worker("w1", 1, now), worker("w2", step % 2, now), worker("gone", 1, now - 60_000)];
        history.take(&found);
    }
    let point = history.points.back().unwrap();
    assert_eq!((point.to_compile, point.to_evaluate, point.busy), (Some(7), Some(5), Some(50.0)));
    assert_eq!(history.share("w1", &[]), Some(100.0));
    assert!((history.share("w2", &[]).unwrap() - 33.3).abs() < 0.1);
    assert_eq!(history.share("nobody", &[]), None);
}
