//! What becomes of a worker whose device does not work: it takes no jobs, and tries the device again from time to time.

use std::sync::Arc;

use bluefin_common::broker::Broker;
use bluefin_common::delivery::{AtWork, Leaving};
use bluefin_common::metrics::Step;
use bluefin_common::roster::Presence;
use bluefin_common::store::Store;
use bluefin_common::waiting::{Guard, On};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Error, Post};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;

/// Evaluates jobs until `shutdown` is cancelled or the broker is closed, then drains: takes no new jobs, finishes the one on the
/// device if the grace period allows, hands back the others. When it is time to [leave](Config::leave) it finishes all it has.
///
/// A device that does not work is quarantined, if [`Config::reprobe`] says so: its jobs are handed back at no cost, and
/// once a new child has found it healthy, it is served again.
///
/// # Errors
/// If the device can not be used, or the broker refuses the queue.
pub async fn run(
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let (waiting, leaving) = (config.waiting.part(), Leaving::new(config.leave));
    let presence = config.on_roster.map(|every| {
        let device = config.evaluator.name().to_string();
        Presence::new(Step::Eval, &config.worker, vec![device], every, &waiting)
    });
    let presence = presence.unwrap_or_else(|| config.seen_by.clone());
    let post = Arc::new(Post { config, broker, store, metrics, waiting, leaving, presence });
    let ended = CancellationToken::new();
    let served = async {
        let _ended = ended.clone().drop_guard();
        serve(&post, &shutdown).await
    };
    tokio::join!(served, post.presence.keep(&*post.store, &ended)).0
}

/// Serves its device, and tries it again when it does not work.
async fn serve(post: &Arc<Post>, shutdown: &CancellationToken) -> Result<(), Error> {
    let Post { config, metrics, waiting, leaving, .. } = &**post;
    let device = config.evaluator.name();
    let mut quarantine: Option<Guard> = None;
    let mut probes = 0_u32;
    loop {
        let served = match config.evaluator.start(metrics).await {
            Ok(running) => {
                (quarantine, probes) = (None, 0);
                post.serve(running, shutdown).await
            }
            Err(error) => Err(error.into()),
        };
        let (error, pause) = match (served, config.reprobe) {
            (Err(Error::Device(error)), Some(pause)) => (error, pause),
            (served, _) => return served,
        };
        metrics.set_quarantined(device, true);
        let reason = format!("device {device}: {error}");
        match &quarantine {
            Some(guard) => guard.still(reason),
            None => quarantine = Some(waiting.on(On::Machine, reason)),
        }
        let (worker, reprobe_s) = (&config.worker, pause.as_secs_f64());
        if matches!(error, DeviceError::Killed { .. }) {
            tracing::error!(
                worker,
                device,
                %error,
                reprobe_s,
                "memory is short, and the device is quarantined: its jobs are handed back, and it is tried again every \
                 reprobe_s seconds"
            );
        } else if probes == 0 {
            tracing::error!(
                worker,
                device,
                %error,
                reprobe_s,
                "the device does not work and is quarantined: its jobs are handed back, and it is tried again every \
                 reprobe_s seconds. Look for its driver's errors in the kernel's log (dmesg: NVRM Xid, amdgpu), and reset \
                 the GPU or restart the machine: bluefin never does"
            );
        } else {
            tracing::warn!(worker, device, %error, probes, "the device still does not work");
        }
        probes += 1;
        tokio::select! {
            () = sleep(pause) => {}
            () = shutdown.cancelled() => return Err(quarantined(device, &error)),
            () = leaving.time() => return Err(quarantined(device, &error)),
        }
    }
}

fn quarantined(device: &str, error: &DeviceError) -> Error {
    Error::Quarantined { device: device.to_string(), reason: error.to_string() }
}

/// Runs a worker for each of `configs`, as [`run`] does. One whose device fails leaves the others alone.
///
/// # Errors
/// If all of them failed, the last one's; if the broker fails one of them, all end.
pub async fn run_all(
    configs: Vec<Config>,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let stop = shutdown.child_token();
    let mut workers = JoinSet::new();
    let at_work = AtWork::default();
    for config in configs {
        let config = Config { at_work: at_work.clone(), ..config };
        workers.spawn(run(config, Arc::clone(&broker), Arc::clone(&store), metrics.clone(), stop.clone()));
    }
    let mut served = false;
    let mut result = Ok(());
    while let Some(ended) = workers.join_next().await {
        match ended {
            Ok(Ok(())) => served = true,
            Ok(Err(error)) => {
                if let Error::Broker(_) = error {
                    stop.cancel();
                    served = false;
                }
                tracing::error!(%error, "a device is not served any more");
                if !matches!(result, Err(Error::Broker(_))) {
                    result = Err(error);
                }
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => {}
        }
    }
    if served && !matches!(result, Err(Error::Broker(_))) { Ok(()) } else { result }
}
