//! The thread that owns the connection. Work that arrives while it writes to disk is done together next, in one
//! transaction, so that many callers share one sync; each gets its answer after that sync.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::file;
use super::lock::StateLock;
use crate::store::StoreError;

/// Tasks that wait; more wait in their callers.
const WAITING: usize = 1024;

/// Tasks in one transaction.
const BATCH: usize = 512;

/// What work on the connection yields.
pub(super) type Answer<T> = Result<T, Fault>;

/// Why work failed: SQLite, or what it found.
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Work and where its answer goes.
trait Task: Send {
    /// Does the work; `false`: it failed and is to be undone.
    fn run(&mut self, connection: &Connection, path: &Path) -> bool;
    /// Answers, knowing what became of the transaction: `Some` says why it failed.
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

struct Call<T, F> {
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnOnce(&Connection) -> Answer<T> + Send> Task for Call<T, F> {
    fn run(&mut self, connection: &Connection, path: &Path) -> bool {
        self.result = self.work.take().map(|work| {
            work(connection).map_err(|fault| match fault {
                Fault::Sqlite(error) => file::failed(path, &error),
                Fault::Store(error) => error,
            })
        });
        matches!(self.result, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let Self { result, sender, .. } = *self;
        if let Some(answer) = failed.map(Err).or(result) {
            // The caller may have gone away.
            let _ = sender.send(answer);
        }
    }
}

/// Sends work to the thread.
pub(super) struct Engine {
    path: PathBuf,
    /// `None` after [`Engine::close`].
    running: Mutex<Option<Running>>,
}

struct Running {
    tasks: mpsc::Sender<Box<dyn Task>>,
    thread: JoinHandle<()>,
}

impl Engine {
    /// Gives `connection` to a thread. `lock` is held until the connection is closed.
    pub fn start(path: &Path, connection: Connection, lock: Option<StateLock>) -> Result<Self, StoreError> {
        let (tasks, inbox) = mpsc::channel(WAITING);
        let place = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || {
                serve(&place, &connection, inbox);
                if lock.is_some() {
                    file::tidy(&place, &connection);
                }
                drop(connection);
                drop(lock);
            })
            .map_err(|error| unavailable(path, error.to_string()))?;
        Ok(Self { path: path.to_owned(), running: Mutex::new(Some(Running { tasks, thread })) })
    }

    /// Does `work`, in a transaction with that of others. What it did is on disk when this returns `Ok`.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Answer<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || unavailable(&self.path, "closed".into());
        let tasks = self.lock().as_ref().map(|running| running.tasks.clone()).ok_or_else(closed)?;
        let (sender, receiver) = oneshot::channel();
        tasks.send(Box::new(Call { work: Some(work), result: None, sender })).await.map_err(|_| closed())?;
        receiver.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Finishes what was sent and closes the file. Again is harmless.
    pub async fn close(&self) {
        let running = self.lock().take();
        // It fails to join only when the runtime shuts down underneath it.
        let _ = tokio::task::spawn_blocking(move || end(running)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        // Nothing can panic while it is held.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        end(self.lock().take());
    }
}

fn end(running: Option<Running>) {
    if let Some(Running { tasks, thread }) = running {
        drop(tasks);
        if thread.join().is_err() {
            tracing::error!("the store's thread has panicked");
        }
    }
}

fn unavailable(path: &Path, reason: String) -> StoreError {
    StoreError::Unavailable { store: path.display().to_string(), reason }
}

fn serve(path: &Path, connection: &Connection, mut inbox: mpsc::Receiver<Box<dyn Task>>) {
    let mut batch = Vec::with_capacity(BATCH);
    while inbox.blocking_recv_many(&mut batch, BATCH) > 0 {
        let failed = transaction(connection, path, &mut batch).err().map(|error| {
            // After some errors SQLite has rolled back already.
            let _ = connection.execute_batch("ROLLBACK");
            error.to_string()
        });
        for task in batch.drain(..) {
            task.answer(failed.as_ref().map(|reason| unavailable(path, reason.clone())));
        }
    }
}

/// Does the work of a batch. Work that fails is undone and does not touch the rest of the batch.
fn transaction(connection: &Connection, path: &Path, batch: &mut [Box<dyn Task>]) -> rusqlite::Result<()> {
    let run = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
    run("BEGIN")?;
    for task in batch {
        run("SAVEPOINT task")?;
        if !task.run(connection, path) {
            run("ROLLBACK TO task")?;
        }
        run("RELEASE task")?;
    }
    run("COMMIT")
}
