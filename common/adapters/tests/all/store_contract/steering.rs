//! The promises of [`Store`] to whoever steers sessions, and what is built on them.

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::Broker;
use bluefin_common::campaign::first_message;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::outcome::Outcome;
use bluefin_common::parked;
use bluefin_common::retry::{self, Failures};
use bluefin_common::session::Stage;
use bluefin_common::shelf;
use bluefin_common::standing::{self, Standing, Standings};
use bluefin_common::store::{Blobs as _, JobState, Planned, Progress, Records as _, Sessions as _, Work as _};
use bluefin_common::{failure::FailureKind, history};

use crate::store_contract::Backend;
use crate::store_contract::fixture::{job, name, outcome, planned, session};

pub async fn pins_come_off(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    for key in ["a", "b", "c"] {
        store.pin(&s, key, "1").await.unwrap();
    }
    for _ in 0..2 {
        store.unpin(&s, &["a".into(), "none".into(), "c".into()]).await.unwrap();
        store.unpin(&s, &[]).await.unwrap();
        assert_eq!(store.pins(&s).await.unwrap(), BTreeMap::from([("b".into(), "1".into())]));
    }
    assert_eq!(store.pin(&s, "a", "2").await.unwrap(), "2");
}

pub async fn an_outcome_is_taken_back(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs = [job(&s, 1, 1), job(&s, 1, 2), job(&s, 2, 1)];
    let plan = planned(&jobs);
    store.plan(&s, &plan).await.unwrap();
    store.enqueued(&s, &[plan[0].id]).await.unwrap();
    let before = store.progress(&s).await.unwrap();
    store.put_outcome(&outcome(&jobs[1])).await.unwrap();
    let one = store.progress(&s).await.unwrap();
    let dead = Outcome::dead(&jobs[0], "given up", 9);
    store.put_outcome(&dead).await.unwrap();
    store.settle_group(&s, plan[0].group).await.unwrap();
    assert_eq!(store.progress(&s).await.unwrap().candidates["dead"], 4);

    assert!(store.retract_outcome(&dead).await.unwrap());
    assert!(!store.retract_outcome(&dead).await.unwrap(), "once");
    assert_eq!(store.progress(&s).await.unwrap(), one, "as if it had never been");
    assert!(!store.has_outcome(&s, plan[0].group, plan[0].id).await.unwrap());
    assert_eq!(store.open_jobs(&s, plan[0].group).await.unwrap(), 1);
    // Nothing says that it is in a queue.
    assert_eq!(store.plan(&s, &plan[..1]).await.unwrap(), [JobState::Planned]);
    store.retract_outcome(&outcome(&jobs[1])).await.unwrap();
    assert_eq!(store.progress(&s).await.unwrap(), before);
    let stored = store.put_outcome(&outcome(&jobs[0])).await.unwrap();
    assert!(stored.first && stored.open == 1);

    // What follows from it goes for good, and is as if it had never been planned.
    let before = store.progress(&s).await.unwrap();
    let find = Job { stage: Stage::Find, ..jobs[0].clone() };
    store.put_outcome(&outcome(&find)).await.unwrap();
    assert_eq!(store.progress(&s).await.unwrap().planned["find"], 1);
    assert!(store.discard_outcome(&outcome(&find)).await.unwrap());
    assert!(!store.discard_outcome(&outcome(&find)).await.unwrap(), "once");
    assert_eq!(store.progress(&s).await.unwrap(), before);
    assert_eq!(store.open_jobs(&s, find.group()).await.unwrap(), 1, "that of the other job");

    // What is tried again remembers what it was.
    let mut tried = Outcome::dead(&jobs[1], "a worker died", 0);
    for finished_ms in 1..12 {
        tried.finished_ms = finished_ms;
        store.put_outcome(&tried).await.unwrap();
        let taken = retry::take_back(&**store, &s, false, |one| Failures::Of(FailureKind::Dead).include(one)).await;
        assert_eq!(taken.unwrap(), 1);
    }
    let history = history::of(&**store, &s, plan[1].id).await.unwrap();
    let times: Vec<u64> = history.iter().map(|tried| tried.finished_ms).collect();
    assert_eq!(times, [4, 5, 6, 7, 8, 9, 10, 11], "bounded");
    assert_eq!((history[0].failed[0].kind, history[0].failed[0].words.as_str()), (FailureKind::Dead, "a worker died"));
    assert!(history::of(&**store, &s, plan[2].id).await.unwrap().is_empty());
}

pub async fn outcomes_are_rewritten(backend: &impl Backend) {
    let (store, s) = (backend.store(), name("s"));
    let jobs = [job(&s, 1, 1), job(&s, 1, 2)];
    let stored = outcome(&jobs[0]);
    store.put_outcome(&stored).await.unwrap();
    let progress = store.progress(&s).await.unwrap();
    let slim = Outcome { device: "elsewhere".into(), ..stored };
    // What has none stays without.
    store.rewrite_outcomes(&[slim.clone(), outcome(&jobs[1])]).await.unwrap();
    assert_eq!(store.outcomes(&s, &[jobs[0].group()]).await.unwrap(), [slim]);
    assert_eq!(store.progress(&s).await.unwrap(), progress);
}

pub async fn a_removed_session_leaves_nothing(backend: &impl Backend) {
    let (store, gone, stays) = (backend.store(), name("gone"), name("stays"));
    for s in [&gone, &stays] {
        store.create_session(&session(s.as_str(), "x")).await.unwrap();
        store.pin(s, "k", "v").await.unwrap();
        let jobs: Vec<_> = (0..600).map(|number| job(s, number, 1)).collect();
        store.plan(s, &planned(&jobs)).await.unwrap();
        for job in &jobs[..200] {
            store.put_outcome(&outcome(job)).await.unwrap();
        }
        for shelf in shelf::of_session(s) {
            store.put_records(&shelf, &[("key".into(), b"value".to_vec())]).await.unwrap();
        }
    }
    let size = store.size(&gone).await.unwrap();
    assert!(size.outcomes > 0 && size.plan > 0 && size.records > 0, "{size:?}");
    let kept = (store.progress(&stays).await.unwrap(), store.pins(&stays).await.unwrap());
    for _ in 0..2 {
        store.remove_session(&gone).await.unwrap();
        assert_eq!(store.session(&gone).await.unwrap(), None);
        assert_eq!(store.progress(&gone).await.unwrap(), Progress::default());
        assert!(store.groups(&gone).await.unwrap().is_empty() && store.pins(&gone).await.unwrap().is_empty());
        let first = job(&gone, 0, 1);
        assert!(store.outcomes(&gone, &[first.group()]).await.unwrap().is_empty());
        assert_eq!(store.best_ms(&gone, first.group()).await.unwrap(), None);
        for shelf in shelf::of_session(&gone) {
            assert!(store.records(&shelf).await.unwrap().is_empty(), "{shelf}");
        }
        assert_eq!(store.size(&gone).await.unwrap().total(), 0);
    }
    assert_eq!((store.progress(&stays).await.unwrap(), store.pins(&stays).await.unwrap()), kept);
    assert_eq!(store.outcomes(&stays, &[job(&stays, 0, 1).group()]).await.unwrap().len(), 1);
    // Another one of the name starts from nothing.
    let other = session("gone", "another");
    assert_eq!(store.create_session(&other).await.unwrap(), other);
    assert_eq!(store.session(&gone).await.unwrap(), Some(other));
    let again = [Planned::of(&job(&gone, 0, 1))];
    assert_eq!(store.plan(&gone, &again).await.unwrap(), [JobState::Planned]);
}

pub async fn blobs_are_weighed_and_removed(backend: &impl Backend) {
    let store = backend.store();
    let (a, b) = (store.put_blob(b"one").await.unwrap(), store.put_blob(b"two").await.unwrap());
    let none = Digest::of(b"none");
    let sizes = store.blob_sizes(&[a, none, b]).await.unwrap();
    assert!(sizes[0] > 0 && sizes[1] == 0 && sizes[2] > 0, "{sizes:?}");
    for _ in 0..2 {
        store.remove_blobs(&[a, none]).await.unwrap();
        assert_eq!(store.blob(a).await.unwrap(), None);
        assert_eq!(store.blob(b).await.unwrap().as_deref(), Some(b"two".as_slice()));
    }
    assert_eq!(store.blob_sizes(&[a]).await.unwrap(), [0]);
}

pub async fn what_is_left_of_a_session_is_found(backend: &impl Backend) {
    let (store, gone, stays) = (backend.store(), name("gone"), name("stays"));
    store.create_session(&session("stays", "x")).await.unwrap();
    store.put_outcome(&outcome(&job(&stays, 1, 1))).await.unwrap();
    assert!(store.orphans(Duration::ZERO).await.unwrap().is_empty());
    // A worker that did not hear of its end.
    store.put_outcome(&outcome(&job(&gone, 1, 1))).await.unwrap();
    store.put_records(&shelf::begun(&name("begun")), &[("job".into(), b"1".to_vec())]).await.unwrap();
    let mut found = store.orphans(Duration::ZERO).await.unwrap();
    found.sort();
    assert_eq!(found, [name("begun"), gone]);
    for session in &found {
        store.remove_session(session).await.unwrap();
    }
    assert!(store.orphans(Duration::ZERO).await.unwrap().is_empty());
    assert_eq!(store.progress(&stays).await.unwrap().groups, 1);

    let mut blobs = [store.put_blob(b"one").await.unwrap(), store.put_blob(b"two").await.unwrap()];
    blobs.sort();
    assert_eq!(store.idle_blobs(Duration::ZERO).await.unwrap(), blobs);
}

pub async fn a_standing_is_known_until_it_is_changed(backend: &impl Backend) {
    let (store, s) = (&**backend.store(), name("s"));
    let known = Standings::default();
    assert_eq!(
        (standing::of(store, &s).await.unwrap(), known.of(store, &s).await.unwrap().runs()),
        (Standing::Running, true)
    );
    for stands in [Standing::Paused, Standing::Paused, Standing::Resuming, Standing::Running, Standing::Cancelled] {
        standing::set(store, &s, stands).await.unwrap();
        assert_eq!(standing::of(store, &s).await.unwrap(), stands);
    }
    // One that reads each time would say so at once.
    assert!(known.of(store, &s).await.unwrap().runs());
    tokio::time::sleep(standing::FRESH).await;
    assert_eq!(known.of(store, &s).await.unwrap(), Standing::Cancelled);
    assert!(known.of(store, &name("other")).await.unwrap().runs());
    // A deleted one makes room once it is gone.
    store.create_session(&session("s", "x")).await.unwrap();
    standing::set(store, &s, Standing::Deleted).await.unwrap();
    assert!(!standing::revive(store, &s).await.unwrap());
    store.remove_session(&s).await.unwrap();
    standing::forget_old(store).await.unwrap();
    assert_eq!(standing::of(store, &s).await.unwrap(), Standing::Deleted);
    assert!(standing::revive(store, &s).await.unwrap());
    assert!(standing::of(store, &s).await.unwrap().runs());
}

pub async fn a_session_that_was_touched_stays(backend: &impl Backend) {
    let (store, s) = (&**backend.store(), name("s"));
    store.create_session(&session("s", "x")).await.unwrap();
    let jobs = [job(&s, 1, 1)];
    store.plan(&s, &planned(&jobs)).await.unwrap();
    let dead = Outcome::dead(&jobs[0], "given up", 9);
    store.put_outcome(&dead).await.unwrap();
    store.settle_group(&s, jobs[0].group()).await.unwrap();

    // Planned once more: there was nothing to do, but somebody has been told that it is there.
    let seen = store.touched(&s).await.unwrap();
    store.plan(&s, &planned(&jobs)).await.unwrap();
    assert!(!standing::delete_untouched(store, &s, &seen).await.unwrap());
    let seen = store.touched(&s).await.unwrap();
    store.retract_outcome(&dead).await.unwrap();
    assert!(!standing::delete_untouched(store, &s, &seen).await.unwrap());
    let seen = store.touched(&s).await.unwrap();
    standing::set(store, &s, Standing::Resuming).await.unwrap();
    assert!(!standing::delete_untouched(store, &s, &seen).await.unwrap());
    assert_eq!(standing::of(store, &s).await.unwrap(), Standing::Resuming);

    let seen = store.touched(&s).await.unwrap();
    store.progress(&s).await.unwrap();
    assert!(standing::delete_untouched(store, &s, &seen).await.unwrap(), "to look is not to touch");
    assert_eq!(standing::of(store, &s).await.unwrap(), Standing::Deleted);
    store.remove_session(&s).await.unwrap();
    assert_eq!(store.touched(&s).await.unwrap().times, 0);
}

pub async fn parked_jobs_are_published_once(backend: &impl Backend) {
    let (store, s, broker) = (&**backend.store(), name("s"), EmbeddedBroker::new());
    let jobs: Vec<_> = (0..100).map(|number| job(&s, 1, number)).collect();
    for job in &jobs {
        let (_, body) = first_message(job, 1).unwrap();
        for _ in 0..2 {
            parked::park(store, &s, job.id(), &body).await.unwrap();
        }
    }
    parked::unpark(store, &s, jobs[0].id()).await.unwrap();
    assert_eq!(parked::publish(store, &broker, &s).await.unwrap(), 99);
    assert_eq!(parked::publish(store, &broker, &s).await.unwrap(), 0);
    assert_eq!(broker.depth(&jobs[0].compile_queue()).await.unwrap(), 99);
    parked::park(store, &s, jobs[0].id(), b"x").await.unwrap();
    parked::drop_all(store, &s).await.unwrap();
    assert_eq!(parked::publish(store, &broker, &s).await.unwrap(), 0);
}
