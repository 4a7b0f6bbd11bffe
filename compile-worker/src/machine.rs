//! Whether this machine can compile. What it can not do is no job's fault: the worker stands still until it can.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_common::waiting::{Guard, On, Waiting};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::toolchain::Toolchain;
use crate::workshop::Workshop;

/// As many jobs that come to nothing in a row are too many, if the slots are not more: all that run may do so at once.
const TOO_MANY: usize = 4;

/// How long a worker waits for its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MachinePatience {
    /// Before it looks again, at first and at most; each time twice as long.
    pub(crate) pauses: (Duration, Duration),
    /// Ends the worker when the machine was not well for so long; `None`: never.
    pub(crate) give_up: Option<Duration>,
    /// Ends the worker when the machine is not well a pause later either.
    pub(crate) alone: bool,
}

/// What is known of the machine.
pub(crate) struct Machine {
    patience: MachinePatience,
    waiting: Waiting,
    too_many: usize,
    doubts: Mutex<Doubts>,
    doubted: Notify,
}

#[derive(Default)]
struct Doubts {
    /// Jobs in a row that came to nothing.
    in_a_row: usize,
    /// Why the last one did, if nobody has looked into it.
    last: Option<Error>,
}

impl Machine {
    pub(crate) fn new(patience: MachinePatience, waiting: Waiting, slots: usize) -> Self {
        let too_many = slots.max(TOO_MANY);
        Self { patience, waiting, too_many, doubts: Mutex::default(), doubted: Notify::new() }
    }

    /// A job was done.
    pub(crate) fn passed(&self) {
        self.doubts().in_a_row = 0;
    }

    /// A job came to nothing for a reason that is the machine's.
    pub(crate) fn doubt(&self, error: Error) {
        let mut doubts = self.doubts();
        doubts.in_a_row += 1;
        doubts.last = Some(error);
        self.doubted.notify_one();
    }

    /// Looks into every doubt until `stop`, and has the worker stand still while the machine is not well.
    ///
    /// # Errors
    /// Why the worker has to end.
    pub(crate) async fn watch(
        &self,
        workshop: &Workshop,
        toolchains: &[Arc<dyn Toolchain>],
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        while stop.run_until_cancelled(self.doubted.notified()).await.is_some() {
            let (in_a_row, last) = {
                let mut doubts = self.doubts();
                (doubts.in_a_row, doubts.last.take())
            };
            let Some(error) = last else { continue };
            let look = || workshop.is_well(toolchains).boxed();
            match stop.run_until_cancelled(self.stand_still(error, in_a_row, &look)).await {
                Some(result) => result?,
                None => break,
            }
        }
        Ok(())
    }

    async fn stand_still<'a>(
        &self,
        error: Error,
        in_a_row: usize,
        look: &(dyn Fn() -> BoxFuture<'a, Result<(), Error>> + Send + Sync),
    ) -> Result<(), Error> {
        let MachinePatience { pauses: (first, longest), give_up, alone } = self.patience;
        // That many are a reason to wait, and for longer each time, though the machine seems to be well.
        let beyond = in_a_row.checked_sub(self.too_many).map(|beyond| u32::try_from(beyond).unwrap_or(u32::MAX));
        if alone && beyond.is_some() {
            let reason = format!("{error}. So it was {in_a_row} times with no job done in between");
            return Err(Error::Unfit { reason });
        }
        let longer = |times: u32| first.saturating_mul(2_u32.saturating_pow(times)).min(longest);
        let mut waiting: Option<Guard> = None;
        let mut wait = |reason: String| match &waiting {
            Some(guard) => guard.still(reason),
            None => waiting = Some(self.waiting.on(On::Machine, reason)),
        };
        if let Some(beyond) = beyond {
            wait(format!("{in_a_row} jobs in a row came to nothing: {error}"));
            sleep(longer(beyond)).await;
        }
        let (started, mut times) = (Instant::now(), 0);
        loop {
            let found = match look().await {
                Ok(()) => return Ok(()),
                Err(error) if error.ends_worker() => return Err(error),
                Err(error) => error,
            };
            if (alone && times > 0) || give_up.is_some_and(|limit| started.elapsed() >= limit) {
                return Err(Error::Unfit { reason: found.to_string() });
            }
            wait(found.to_string());
            sleep(longer(times)).await;
            times += 1;
        }
    }

    fn doubts(&self) -> MutexGuard<'_, Doubts> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const PATIENT: MachinePatience =
        MachinePatience { pauses: (Duration::from_secs(1), Duration::from_secs(30)), give_up: None, alone: false };

    fn killed() -> Error {
        Error::Killed { short_of: "2 bytes".to_string() }
    }

    fn full() -> Error {
        Error::Exhausted { reason: "No space left on device".to_string() }
    }

    #[tokio::test(start_paused = true)]
    async fn it_stands_still_until_the_machine_is_well() {
        let waiting = Waiting::default();
        let machine = Machine::new(PATIENT, waiting.clone(), 1);
        let (looks, started) = (AtomicUsize::new(0), Instant::now());
        let look = || {
            let before = looks.fetch_add(1, Ordering::Relaxed);
            assert_eq!(waiting.is_over(), before == 0, "one look tells whether there is anything to wait for");
            // An hour.
            let well = started.elapsed() >= Duration::from_secs(3600);
            async move { if well { Ok(()) } else { Err(full()) } }.boxed()
        };
        machine.stand_still(full(), 1, &look).await.unwrap();
        assert!(waiting.is_over() && started.elapsed() < Duration::from_secs(3631));
        // 1, 2, 4, 8, 16, then every 30 s.
        assert_eq!(looks.load(Ordering::Relaxed), 6 + (3600_usize - 31).div_ceil(30));
        // Well at once: nothing is waited for.
        let before = Instant::now();
        machine.stand_still(full(), 1, &|| async { Ok(()) }.boxed()).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_come_to_nothing_in_a_row_are_a_reason_to_wait() {
        let waiting = Waiting::default();
        let machine = Machine::new(PATIENT, waiting.clone(), 1);
        let mut paused = Vec::new();
        for in_a_row in 1..=12 {
            let before = Instant::now();
            machine.stand_still(killed(), in_a_row, &|| async { Ok(()) }.boxed()).await.unwrap();
            paused.push(before.elapsed().as_secs());
        }
        assert_eq!(paused, [0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_it_is_told() {
        let machine = |patience| Machine::new(patience, Waiting::default(), 1);
        let alone = machine(MachinePatience { alone: true, ..PATIENT });
        let error = alone.stand_still(full(), 1, &|| async { Err(full()) }.boxed()).await.unwrap_err();
        assert!(error.ends_worker() && error.to_string().contains("No space left"), "{error}");
        let error = alone.stand_still(killed(), 4, &|| async { Ok(()) }.boxed()).await.unwrap_err().to_string();
        assert!(error.contains("2 bytes") && error.contains("4 times"), "{error}");
        alone.stand_still(killed(), 3, &|| async { Ok(()) }.boxed()).await.unwrap();
        let hour = Duration::from_secs(3600);
        let patient = machine(MachinePatience { give_up: Some(hour), ..PATIENT });
        let started = Instant::now();
        patient.stand_still(full(), 1, &|| async { Err(full()) }.boxed()).await.unwrap_err();
        assert!((hour..hour + Duration::from_secs(31)).contains(&started.elapsed()));
    }
}
