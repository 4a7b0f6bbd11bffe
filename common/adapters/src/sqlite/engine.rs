//! The thread that owns the connection. Work that arrives while it writes to disk is done together next, in one
//! transaction, so that many callers share one sync; each gets its answer after that sync.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use crate::sqlite::file;
use crate::sqlite::lock::StateLock;
use bluefin_common::limits;
use bluefin_common::store::StoreError;

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
    /// Whether the work failed for what makes the file of no more use.
    fn is_lost(&self) -> bool;
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

    fn is_lost(&self) -> bool {
        matches!(&self.result, Some(Err(error)) if error.is_lost())
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
                let mut server = Server { path: &place, connection: &connection, lock, lost: None };
                match runtime::Builder::new_current_thread().enable_time().build() {
                    Ok(clock) => server.serve(&clock, inbox),
                    Err(error) => tracing::error!(%error, "the store's thread has no clock"),
                }
                let Server { lock, lost, .. } = server;
                // What is lost belongs to another process, or can not be written.
                if lock.is_some() && lost.is_none() {
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

fn lost(path: &Path, reason: String) -> StoreError {
    StoreError::Lost { store: path.display().to_string(), reason }
}

/// What the thread has.
struct Server<'a> {
    path: &'a Path,
    connection: &'a Connection,
    lock: Option<StateLock>,
    /// Why the file is of no more use to this process.
    lost: Option<String>,
}

impl Server<'_> {
    fn serve(&mut self, clock: &Runtime, mut inbox: mpsc::Receiver<Box<dyn Task>>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let received = match &self.lock {
                Some(lock) if self.lost.is_none() => {
                    let due = lock.due().into();
                    clock.block_on(async { timeout_at(due, inbox.recv_many(&mut batch, BATCH)).await })
                }
                _ => Ok(inbox.blocking_recv_many(&mut batch, BATCH)),
            };
            if let Ok(0) = received {
                break;
            }
            self.beat();
            if !batch.is_empty() {
                self.work(&mut batch);
            }
        }
    }

    /// Shows that this process lives, and learns whether another one took over: before anything is written, too.
    fn beat(&mut self) {
        let due = |lock: &&mut StateLock| lock.due() <= std::time::Instant::now();
        if self.lost.is_none()
            && let Some(lock) = self.lock.as_mut().filter(due)
            && let Err(StoreError::Lost { reason, .. }) = lock.beat()
        {
            self.lost = Some(reason);
        }
    }

    fn work(&mut self, batch: &mut Vec<Box<dyn Task>>) {
        let mut failed = None;
        if self.lost.is_none() {
            failed = transaction(self.connection, self.path, batch).err().map(|error| {
                // After some errors SQLite has rolled back already.
                let _ = self.connection.execute_batch("ROLLBACK");
                error.to_string()
            });
            let failed = failed.is_some() || batch.iter().any(|task| task.is_lost());
            // Whoever tries again meets it again.
            self.lost = limits::file_size_met().filter(|_| failed).map(|limit| limit.to_string());
        }
        for task in batch.drain(..) {
            task.answer(match (&self.lost, &failed) {
                (Some(reason), _) => Some(lost(self.path, reason.clone())),
                (None, Some(reason)) => Some(unavailable(self.path, reason.clone())),
                (None, None) => None,
            });
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
