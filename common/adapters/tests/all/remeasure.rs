//! What was timed while the machine was busy is measured again.

use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker as _;
use bluefin_common::decision::follow_ups;
use bluefin_common::job::EvalJob;
use bluefin_common::noise::Noise;
use bluefin_common::outcome::{DeviceState, Disturbance, Outcome};
use bluefin_common::retry::{Remeasure, repeat_play_offs, take_back_measured};
use bluefin_common::session::Stage;
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _, Work as _};
use bluefin_common::task::{Task, Tolerance};
use bluefin_common::wire;

use crate::campaign::{built, candidate, outcome, session, timed};

/// When the play-offs ended, in milliseconds since the Unix epoch.
const ENDED_MS: u64 = 1000;

/// Outcomes of a group whose winner in the play-off has this spread, on a device that was so many times as slow as usual.
fn group(spread: f64, slowdown: f32) -> Vec<Outcome> {
    let timed = |ms| timed(candidate("A", 1), ms, spread * ms, 0);
    let perf = outcome(Stage::Perf, vec![timed(1.0)]);
    let find = follow_ups(&session(&Stage::ALL), std::slice::from_ref(&perf)).remove(0);
    let disturbance = Some(Disturbance { waiting: 0.9, stolen: 0.0, slowdown });
    let device_state = DeviceState { disturbance, ..DeviceState::default() };
    let find = Outcome { job: find, device_state, finished_ms: ENDED_MS, ..outcome(Stage::Find, vec![timed(1.2)]) };
    vec![perf, find]
}

async fn stored(outcomes: &[Outcome]) -> SqliteStore {
    let store = SqliteStore::in_memory().unwrap();
    store.create_session(&session(&Stage::ALL)).await.unwrap();
    for outcome in outcomes {
        store.put_outcome(outcome).await.unwrap();
        store.put_artifact(outcome.candidates[0].candidate.to_string().as_bytes()).await.unwrap();
    }
    store.settle_group(&session(&Stage::ALL).name, outcomes[0].group()).await.unwrap();
    store
}

#[test]
fn a_spread_and_a_slow_device_are_a_doubt_and_waiting_is_none() {
    let doubt = |spread, slowdown| Noise::of_winner(&session(&Stage::ALL), &group(spread, slowdown)).is_some();
    assert_eq!([doubt(0.04, 1.05), doubt(0.12, 1.0), doubt(0.01, 1.2)], [false, true, true]);
}

#[tokio::test]
async fn a_noisy_play_off_is_repeated_on_the_device_and_a_quiet_or_older_one_is_not() {
    let session = session(&Stage::ALL);
    for (spread, since_ms, again) in [(0.01, 0, 0), (0.2, ENDED_MS + 1, 0), (0.2, ENDED_MS, 1)] {
        let mut outcomes = group(spread, 1.0);
        let task = Task {
            buffers: Vec::new(),
            reference: built(&candidate("A", 1), 0),
            tolerance: Tolerance { absolute: 0.0, relative: 0.0 },
        };
        let (digest, bytes) = task.encode().unwrap();
        outcomes.iter_mut().for_each(|outcome| outcome.task = Some(digest));
        let (store, broker) = (stored(&outcomes).await, EmbeddedBroker::new());
        store.put_blob(&bytes).await.unwrap();
        broker.declare("bluefin.eval.host").await.unwrap();
        assert_eq!(repeat_play_offs(&store, &broker, &session, since_ms).await.unwrap(), again);
        assert_eq!(broker.depth("bluefin.eval.host").await.unwrap(), again);
        assert_eq!(store.progress(&session.name).await.unwrap().is_settled(), again == 0);
        if again == 0 {
            continue;
        }
        let delivery = broker.consume("bluefin.eval.host", 1).await.unwrap().next().await.unwrap();
        let find = wire::decode::<EvalJob>(&delivery.body).unwrap().job;
        assert_eq!(find.id(), outcomes[1].job_id());
        let quiet = Outcome { job: find, ..group(0.01, 1.0).remove(1) };
        store.put_last_outcome(&quiet).await.unwrap();
        assert!(store.progress(&session.name).await.unwrap().is_settled());
        assert_eq!(repeat_play_offs(&store, &broker, &session, 0).await.unwrap(), 0);
        let kept = store.outcomes(&session.name, &[quiet.group()]).await.unwrap();
        assert_eq!(kept.len(), 2);
        assert!(Noise::of_winner(&session, &kept).is_none());
    }
}

#[tokio::test]
async fn all_of_noisy_problems_or_of_all_is_taken_back() {
    let session = session(&Stage::ALL);
    let taken = |spread, which, wanted: bool| {
        let session = session.clone();
        async move {
            let store = stored(&group(spread, 1.0)).await;
            take_back_measured(&store, &session, false, which, |_| wanted).await.unwrap()
        }
    };
    assert_eq!(taken(0.2, Remeasure::Noisy, true).await, (1, 1));
    assert_eq!(taken(0.01, Remeasure::Noisy, true).await, (0, 0));
    assert_eq!(taken(0.01, Remeasure::All, true).await, (1, 1));
    assert_eq!(taken(0.2, Remeasure::All, false).await, (0, 0));
}
