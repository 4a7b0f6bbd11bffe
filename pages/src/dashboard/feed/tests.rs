use bluefin_common::roster::{Entry, Remark};

use super::*;
use crate::dashboard::found::tests::{found, progress, session};

const NOW: u64 = 10_000_000;

fn told(feed: &Feed) -> Vec<String> {
    feed.events.iter().map(|event| format!("{} {}", event.who, event.what)).collect()
}

#[test]
fn sessions_are_made_fail_end_and_are_deleted() {
    let mut feed = Feed::default();
    let young = |mut one: bluefin_common::session::Session| {
        one.created_ms = NOW - 1000;
        one
    };
    let at = |sessions| Found { now_ms: NOW, ..found(sessions) };
    feed.take(&at(vec![(young(session("a")), progress(1, 3)), (session("old"), progress(1, 1))]));
    assert_eq!(told(&feed), ["a made"], "one that is older than an hour is no news");
    // What had failed when the dashboard began is none either.
    let mut worse = progress(2, 3);
    worse.candidates.insert("fault".to_string(), 14);
    feed.take(&at(vec![(young(session("a")), worse.clone()), (session("old"), progress(1, 1))]));
    assert_eq!(told(&feed)[0], "a 14 more failed: fault");
    assert_eq!(feed.events[0].place.as_deref(), Some("/session/a#failures"));
    let mut done = progress(3, 3);
    done.candidates = worse.candidates;
    feed.take(&at(vec![(young(session("a")), done.clone())]));
    assert_eq!(told(&feed)[..2], ["old deleted", "a complete"]);
    let before = feed.events.len();
    feed.take(&at(vec![(young(session("a")), done)]));
    assert_eq!(feed.events.len(), before, "nothing happened");
}

#[test]
fn workers_come_remark_go_and_come_back() {
    let mut feed = Feed::default();
    let worker =
        |seen_ms| Entry { worker: "w".into(), step: "eval".into(), every_ms: 5000, seen_ms, ..Entry::default() };
    let at = |now_ms, workers| Found { now_ms, workers, ..found(Vec::new()) };
    feed.take(&at(NOW, Vec::new()));
    let mut one = worker(NOW + 5000);
    feed.take(&at(NOW + 5000, vec![one.clone()]));
    // Its clock is behind by an hour.
    one.remarks.push_back(Remark { job: "0123456789abcdef".into(), at_ms: NOW - 3_000_000, words: "it hung".into() });
    feed.take(&at(NOW + 6000, vec![one.clone()]));
    feed.take(&at(NOW + 7000, vec![one.clone()]));
    feed.take(&at(NOW + 90_000, vec![one.clone()]));
    one.seen_ms = NOW + 100_000;
    one.waits = Some("the store is away".into());
    feed.take(&at(NOW + 100_000, vec![one.clone()]));
    one.waits = None;
    feed.take(&at(NOW + 101_000, vec![one.clone()]));
    one.ended = true;
    feed.take(&at(NOW + 102_000, vec![one]));
    let told = told(&feed);
    let expected = [
        "w ended",
        "w takes jobs again",
        "w waits: the store is away",
        "w is not heard of",
        "w job 0123456789ab: it hung",
        "w is here",
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}: expected {expected}");
    }
}

#[test]
fn it_does_not_grow() {
    let mut feed = Feed::default();
    for turn in 0..1000 {
        let mut progress = progress(1, 3);
        progress.candidates.insert("fault".to_string(), turn);
        feed.take(&Found { now_ms: NOW + turn, ..found(vec![(session("a"), progress)]) });
    }
    assert_eq!(feed.events.len(), KEPT);
}
