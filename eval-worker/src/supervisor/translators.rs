//! Compiles code ahead of its turn on the device. What a compile worker makes for NVIDIA is PTX, which the driver compiles
//! when it is loaded: tens of milliseconds in which the device would wait. Processes of their own do it while other
//! candidates are timed, and what they make loads at once.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::config::{ChildConfig, TRIES};
use super::process::ChildProcess;
use crate::protocol::{Cpus, Reply, Request};

/// Child processes that translate, started as they are needed.
pub struct Translators {
    child: ChildConfig,
    slots: Semaphore,
    idle: Mutex<Vec<ChildProcess>>,
    /// Processes in a row that did not start.
    failures: AtomicU32,
}

impl Translators {
    /// As many as [`ChildConfig::translators`] at a time; `None` if that is none.
    #[must_use]
    pub fn new(child: ChildConfig) -> Option<Self> {
        let slots = Semaphore::new(child.translators);
        (child.translators > 0).then(|| Self { child, slots, idle: Mutex::default(), failures: AtomicU32::new(0) })
    }

    /// What the device loads in place of `code`; `None` if that is `code` itself. So it is as well where the translation
    /// fails: whoever loads the code will find out why.
    pub async fn translate(&self, code: &Bytes) -> Option<Bytes> {
        // Everything else is an object of some kind already.
        if code.starts_with(b"\x7fELF") {
            return None;
        }
        let _slot = self.slots.acquire().await.ok()?;
        let mut process = self.process().await?;
        let reply = process.ask(&Request::Translate, &[code.as_ref()], self.child.deadlines.of_translation()).await;
        match reply {
            Ok(Reply::Translated { image }) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
                image.map(Bytes::from)
            }
            Ok(other) => {
                tracing::warn!(?other, "a translator answered something else, and is replaced");
                None
            }
            Err(lost) => {
                let obituary = process.bury(lost).await;
                tracing::warn!(detail = obituary.failure.detail, "a translator was lost to the code it compiled");
                None
            }
        }
    }

    /// One that waits for work, or a new one.
    async fn process(&self) -> Option<ChildProcess> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if idle.is_some() {
            return idle;
        }
        if self.failures.load(Ordering::Relaxed) >= TRIES {
            return None;
        }
        match ChildProcess::start(&self.child, Cpus::Spare { taken: self.child.taken_cpus.clone() }).await {
            Ok(process) => {
                self.failures.store(0, Ordering::Relaxed);
                Some(process)
            }
            Err(error) => {
                if self.failures.fetch_add(1, Ordering::Relaxed) + 1 == TRIES {
                    tracing::warn!(%error, "translators do not start: code is compiled when it is loaded, which keeps the device waiting");
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Deadlines;
    use super::*;

    #[tokio::test]
    async fn without_translators_code_is_loaded_as_it_is() {
        let mut child = ChildConfig::new(vec!["false".into()], Deadlines::default());
        assert!(Translators::new(child.clone()).is_none());
        child.translators = 2;
        let translators = Translators::new(child).unwrap();
        assert_eq!(translators.translate(&Bytes::from_static(b"\x7fELF")).await, None);
        assert_eq!(translators.failures.load(Ordering::Relaxed), 0, "an object needs none");
        for _ in 0..TRIES + 1 {
            assert_eq!(translators.translate(&Bytes::from_static(b"ptx")).await, None);
        }
        assert!(translators.failures.load(Ordering::Relaxed) >= TRIES);
    }
}
