//! Compiles code ahead of its turn on the device. What a compile worker makes for NVIDIA is PTX, which the driver compiles
//! when it is loaded: tens of milliseconds in which the device would wait. Processes of their own do it while other
//! candidates are timed, and what they make loads at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::config::{ChildConfig, TRIES};
use super::process::ChildProcess;
use crate::protocol::{Cpus, Reply, Request};

/// Processes that start at a time. The driver makes one context after the other, so that more of them would only be ready later.
const STARTS_AT_ONCE: usize = 2;

/// Child processes that translate, started as they are needed.
pub struct Translators {
    child: ChildConfig,
    /// Those that wait for work.
    idle: Mutex<Vec<Translator>>,
    /// A permit for each of these.
    ready: Semaphore,
    /// A permit for each that is not there.
    missing: Arc<Semaphore>,
    starts: Semaphore,
    /// Processes in a row that did not start.
    failures: AtomicU32,
}

/// A process, and its place among them, which another one may have once it is gone.
struct Translator {
    process: ChildProcess,
    _place: OwnedSemaphorePermit,
}

impl Translators {
    /// As many as [`ChildConfig::translators`] at a time; `None` if that is none.
    #[must_use]
    pub fn new(child: ChildConfig) -> Option<Self> {
        let missing = Arc::new(Semaphore::new(child.translators));
        let (ready, starts) = (Semaphore::new(0), Semaphore::new(STARTS_AT_ONCE));
        let failures = AtomicU32::new(0);
        (child.translators > 0).then(|| Self { child, idle: Mutex::default(), ready, missing, starts, failures })
    }

    /// What the device loads in place of `code`; `None` if that is `code` itself. So it is as well where the translation
    /// fails: whoever loads the code will find out why.
    pub async fn translate(&self, code: &Bytes) -> Option<Bytes> {
        // Everything else is an object of some kind already.
        if code.starts_with(b"\x7fELF") {
            return None;
        }
        let mut translator = self.translator().await?;
        let reply =
            translator.process.ask(&Request::Translate, &[code.as_ref()], self.child.deadlines.of_translation()).await;
        match reply {
            Ok(Reply::Translated { image }) => {
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(translator);
                self.ready.add_permits(1);
                image.map(Bytes::from)
            }
            Ok(other) => {
                tracing::warn!(?other, "a translator answered something else, and is replaced");
                None
            }
            Err(lost) => {
                let obituary = translator.process.bury(lost).await;
                tracing::warn!(detail = obituary.failure.detail, "a translator was lost to the code it compiled");
                None
            }
        }
    }

    /// The first that has nothing to do: one that was started before, as a rule, though another one is started meanwhile.
    async fn translator(&self) -> Option<Translator> {
        let may_start = async {
            let place = Arc::clone(&self.missing).acquire_owned().await.ok()?;
            Some((place, self.starts.acquire().await.ok()?))
        };
        let (place, _start) = tokio::select! {
            biased;
            ready = self.ready.acquire() => {
                ready.ok()?.forget();
                return self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            }
            may_start = may_start => may_start?,
        };
        if self.failures.load(Ordering::Relaxed) >= TRIES {
            return None;
        }
        match ChildProcess::start(&self.child, Cpus::Spare { taken: self.child.taken_cpus.clone() }).await {
            Ok(process) => {
                self.failures.store(0, Ordering::Relaxed);
                Some(Translator { process, _place: place })
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
    use bluefin_common::wire;
    use futures_util::StreamExt as _;
    use futures_util::stream::FuturesUnordered;

    use super::super::config::Deadlines;
    use super::*;
    use crate::protocol::{Identity, write_frame};

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

    #[tokio::test]
    async fn nobody_waits_for_others_to_start() {
        let folder = tempfile::tempdir().unwrap();
        let says = |file: &str, reply: &Reply| {
            let mut frame = Vec::new();
            write_frame(&mut frame, &wire::encode(reply).unwrap()).unwrap();
            std::fs::write(folder.path().join(file), frame).unwrap();
        };
        says("started", &Reply::Started { device: Identity::default() });
        says("translated", &Reply::Translated { image: Some(b"image".to_vec()) });
        let script = "mkdir first 2>/dev/null || exec sleep 600; cat started; while cat translated; do :; done";
        let command = ["env", "-C", &folder.path().display().to_string(), "sh", "-c", script];
        let mut child = ChildConfig::new(command.map(Into::into).to_vec(), Deadlines::default());
        child.translators = 4;
        let translators = Translators::new(child).unwrap();
        let code = Bytes::from_static(b"ptx");

        // One of eight starts the first process; two wait for others, which do not come to it.
        let mut all: FuturesUnordered<_> = (0..8).map(|_| translators.translate(&code)).collect();
        for _ in 0..8 - STARTS_AT_ONCE {
            assert_eq!(all.next().await.flatten().as_deref(), Some(&b"image"[..]));
        }
        drop(all);
        assert_eq!(translators.missing.available_permits(), 3, "what was given up leaves its place to others");
        assert_eq!(translators.ready.available_permits(), 1);
    }
}
