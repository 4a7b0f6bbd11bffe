//! How far devices are apart is told by kernels that were timed on two of them.

use std::sync::Arc;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::outcome::{DeviceState, Outcome};
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_common::store::{Sessions as _, Work as _};
use bluefin_exporter::report::{Scope, report};
use bluefin_exporter::results::{Filter, JsonLines, results};

use crate::support::{CONV, Spec, conv, outcomes, session};

/// All of it takes this many times as long on a device of that UUID.
fn on(outcome: Outcome, uuid: &str, slower: f64) -> Outcome {
    let mut outcome = Outcome { device_state: DeviceState { uuid: uuid.into(), ..DeviceState::default() }, ..outcome };
    for timing in outcome.candidates.iter_mut().filter_map(|one| one.result.as_mut().ok()) {
        timing.median_ms *= slower;
        timing.samples_ms.iter_mut().for_each(|ms| *ms *= slower as f32);
    }
    outcome
}

#[tokio::test]
async fn one_of_two_devices_that_is_slower_is_named() {
    let (session, spec) = (session(&Stage::ALL), Spec::new(CONV));
    let store = SqliteStore::in_memory().unwrap();
    store.create_session(&session).await.unwrap();
    let devices = [("GPU-a", 1.0), ("GPU-b", 1.1)];
    for n in 1..=12 {
        let times = |_: Stage, candidate: &_| Ok(1.0 + 0.01 * format!("{candidate}").len() as f64);
        let group = outcomes(&session, &spec, &conv(Direction::Forward, n), &times);
        for outcome in group {
            // Each of both in both stages.
            let place = match outcome.job.stage {
                Stage::Perf => n % 2,
                Stage::Find => n / 2 % 2,
            };
            let (uuid, slower) = devices[place as usize];
            store.put_outcome(&on(outcome, uuid, slower)).await.unwrap();
        }
    }

    let told = report(&store, &session.name, Scope::default()).await.unwrap();
    let off: Vec<f64> = told.time.devices.values().map(|device| device.bias.unwrap().percent).collect();
    assert!((off[0] + 4.7).abs() < 0.2 && (off[1] - 4.9).abs() < 0.2, "{off:?}");
    let named = |name: &str| {
        told.warnings.iter().any(|line| line.starts_with(&format!("device {name}: against the other devices ")))
    };
    assert!(named("GPU-a") && named("GPU-b"), "{:?}", told.warnings);

    let lines = JsonLines::new(Vec::new());
    let (totals, _) = results(&store, &[session], Arc::new(Filter::default()), None, lines).await.unwrap();
    let biases: Vec<_> = told.time.devices.values().filter_map(|device| device.bias).collect();
    assert_eq!(totals.devices.into_values().collect::<Vec<_>>(), biases);
}
