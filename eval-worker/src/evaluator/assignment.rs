//! A job in the hands of an evaluator, and what its worker does for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::delivery::{Halt, OTHER_VERSION, Patience};
use bluefin_common::job::{EvalJob, Job};
use bluefin_common::session::Session;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::task::{Task, TaskRef};
use bluefin_common::wire;
use bluefin_miopen::process;
use bytes::Bytes;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::artifacts::{Artifact, Artifacts};
use super::gpu_lock::{GpuLock, Held};
use super::stop::Stop;
use super::tasks::Tasks;
use crate::supervisor::Translators;
use crate::timing::Limits;

/// A GPU is a job's alone, until this is dropped. The file is let go first, so that the next job of this process finds it free.
pub(crate) struct Turn<'a> {
    gpu: Held,
    _turn: MutexGuard<'a, ()>,
}

/// A job that is to be evaluated. It is for the target and a method of whoever has it, has something built for each of its
/// candidates if its method compiles, and has no outcome yet.
pub struct Assignment<'a> {
    pub eval_job: &'a EvalJob,
    /// That the job is of.
    pub session: &'a Session,
    /// What samples may take.
    pub limits: &'a Limits,
    pub store: &'a dyn Store,
    /// With a store that is away.
    pub patience: &'a Patience,
    pub(crate) artifacts: &'a Artifacts,
    pub(crate) tasks: &'a Tasks,
    /// Held by the job that is at work.
    pub(crate) turn: &'a Mutex<()>,
    /// No job is begun any more.
    pub(crate) draining: &'a CancellationToken,
}

impl Assignment<'_> {
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.eval_job.job
    }

    /// What the candidates are checked by.
    ///
    /// # Errors
    /// Ends the way of a job that has none, or none that can be read.
    pub async fn task(&self) -> Result<Arc<Task>, Stop> {
        let digest = match &self.eval_job.task {
            TaskRef::None => {
                return Err(Stop::Bury("task: found none, expected one to check candidates by".to_string()));
            }
            TaskRef::Inline(task) => return Ok(Arc::new(Task::clone(task))),
            TaskRef::Blob(digest) => *digest,
        };
        if let Some(task) = self.tasks.get(digest) {
            return Ok(task);
        }
        let fetch = || async {
            match self.store.blob(digest).await {
                // It is made anew, and put in its place.
                Err(StoreError::Tampered { .. }) => Ok(None),
                found => found,
            }
        };
        let found = self.patience.with("fetch task", fetch).await?;
        match wire::decode(&found.ok_or(Stop::SendBack)?) {
            Ok(task) => Ok(self.tasks.put(digest, task)),
            Err(error) if error.is_of_another_version() => {
                tracing::error!(task = %digest.short(), %error, "handed back to workers of that version");
                Err(Halt::Later(OTHER_VERSION).into())
            }
            Err(error) => Err(Stop::Bury(error.to_string())),
        }
    }

    /// The data that the buffers of `task` hold before a launch, in their order.
    ///
    /// # Errors
    /// Ends the way of a job whose data nobody has any more.
    pub async fn data(&self, task: &Task) -> Result<Vec<Bytes>, Stop> {
        let mut all = Vec::new();
        for (buffer, data) in task.data() {
            if let Some(known) = self.tasks.data(data.digest) {
                all.push(known);
                continue;
            }
            let found = self.patience.with("fetch data", || self.store.blob(data.digest)).await?;
            // Whoever enqueues the spec again puts it there.
            let found = found.filter(|found| found.len() as u64 == data.size).ok_or_else(|| {
                let digest = data.digest.short();
                Stop::Bury(format!("buffer {}: its data {digest} is not in the store", buffer.name))
            })?;
            all.push(self.tasks.put_data(data.digest, found.into()));
        }
        Ok(all)
    }

    /// An artifact, from memory if it was needed before. `translators`: those that make of it what is loaded in its place, if
    /// there are any.
    ///
    /// # Errors
    /// Ends the way of a job whose artifact is gone.
    pub async fn artifact(&self, artifact: ArtifactRef, translators: Option<&Translators>) -> Result<Artifact, Stop> {
        let get = || self.artifacts.get(self.store, artifact, translators);
        self.patience.with("fetch artifact", get).await?.ok_or(Stop::SendBack)
    }

    /// Makes the bytes of an artifact last.
    ///
    /// # Errors
    /// If the store is away for too long.
    pub async fn keep(&self, bytes: &[u8]) -> Result<(), Stop> {
        self.patience.with("keep artifact", || self.store.put_blob(bytes)).await?;
        Ok(())
    }

    /// Does `work` while the device is this job's alone; what came of it and how long it took.
    ///
    /// # Errors
    /// Ends the way of the job if the worker drains before the work is begun, or its grace period ends while it is done.
    pub async fn alone<T>(&self, work: impl Future<Output = T>) -> Result<(T, Duration), Stop> {
        self.alone_on(&GpuLock::of(""), work).await
    }

    /// As [`Self::alone`], for a `gpu` that other processes of this host may come to as well.
    ///
    /// # Errors
    /// Ends the way of the job if the worker drains before the work is begun, or its grace period ends while it is done.
    pub(crate) async fn alone_on<T>(
        &self,
        gpu: &GpuLock,
        work: impl Future<Output = T>,
    ) -> Result<(T, Duration), Stop> {
        let turn = self.turn_on(gpu).await?;
        let done = self.timed(process::holding(turn.gpu.file(), work)).await?;
        turn.gpu.end();
        Ok(done)
    }

    /// As [`Self::alone_on`], but that `known` is asked first, when it is this job's turn in its process: the GPU is waited for if it knows nothing.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn alone_unless<T>(
        &self,
        gpu: &GpuLock,
        mut known: impl FnMut() -> Option<T>,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let turn = self.in_turn(self.turn.lock()).await?;
        if let Some(known) = known() {
            return Ok(known);
        }
        let turn = Turn { gpu: self.in_turn(gpu.hold()).await?, _turn: turn };
        let (done, _) = self.timed(process::holding(turn.gpu.file(), work)).await?;
        turn.gpu.end();
        Ok(done)
    }

    /// Waits until a GPU is this job's alone.
    ///
    /// # Errors
    /// Ends the way of the job if the worker drains before.
    pub(crate) async fn turn_on(&self, gpu: &GpuLock) -> Result<Turn<'_>, Stop> {
        self.in_turn(async {
            let turn = self.turn.lock().await;
            Turn { gpu: gpu.hold().await, _turn: turn }
        })
        .await
    }

    /// Waits for what others have, unless the worker drains before.
    async fn in_turn<T>(&self, free: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(Stop::drained()),
            free = free => Ok(free),
        }
    }

    /// Does `work` in this job's turn; what came of it and how long it took.
    ///
    /// # Errors
    /// Ends the way of the job if its grace period ends meanwhile.
    pub(crate) async fn timed<T>(&self, work: impl Future<Output = T>) -> Result<(T, Duration), Stop> {
        let began = Instant::now();
        tokio::select! {
            result = work => Ok((result, began.elapsed())),
            () = self.patience.expired.cancelled() => Err(Stop::drained()),
        }
    }
}
