//! The winners' code objects on their way from the store into the kernel db: fetched and compressed side by side, written
//! in order.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::store::{Store, StoreError};

use crate::error::ExportError;
use crate::fold::{Code, KernelRef};
use bluefin_common::db::Refused;
use bluefin_common::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};

/// Fills the empty file at `path`. Returns the number of rows, and a warning for each code object that is gone.
pub(crate) async fn write(
    store: &dyn Store,
    kernels: BTreeMap<KernelName, KernelRef>,
    path: &Path,
) -> Result<(u64, Vec<String>), ExportError> {
    let threads = std::thread::available_parallelism().map_or(2, NonZero::get);
    let (rows, mut queue) = mpsc::channel::<KernelRow>(threads);
    let file = path.to_path_buf();
    let writer = tokio::task::spawn_blocking(move || {
        let mut writer = KernelDbWriter::create(&file)?;
        while let Some(row) = queue.blocking_recv() {
            writer.add(&row)?;
        }
        writer.finish()
    });
    let mut packed = stream::iter(kernels).map(|(name, kernel)| pack(store, name, kernel)).buffered(threads + 1);
    let mut warnings = Vec::new();
    while let Some(row) = packed.next().await {
        match row? {
            Ok(row) => {
                if rows.send(row).await.is_err() {
                    // The writer has failed; it says why below.
                    break;
                }
            }
            Err(warning) => warnings.push(warning),
        }
    }
    drop(rows);
    let written = writer.await?.map_err(ExportError::at(path))?;
    Ok((written, warnings))
}

/// The row of a code object, or a warning that it is gone.
async fn pack(
    store: &dyn Store,
    name: KernelName,
    kernel: KernelRef,
) -> Result<Result<KernelRow, String>, ExportError> {
    let artifact = kernel.code.artifact();
    let told = format!(
        "{}: not in the kernel db: {}{}: code object {}",
        kernel.problem, name.name, name.args, artifact.digest
    );
    match fetch(store, artifact).await? {
        Ok(bytes) => {
            let row = tokio::task::spawn_blocking(move || match kernel.code {
                Code::Plain(_) => Ok(Ok(KernelRow::new(name, &bytes)?)),
                Code::Packed(object) => {
                    name.check()?;
                    let row = KernelRow {
                        kernel: name,
                        blob: bytes.into(),
                        hash: object.md5,
                        uncompressed_size: object.size,
                    };
                    // MIOpen throws over a row that does not match its hash: one more look before it gets there.
                    Ok::<_, Refused>(row.code().map(|_| row).map_err(|error| error.to_string()))
                }
            });
            Ok(row.await??.map_err(|reason| format!("{told}: {reason}")))
        }
        Err(reason) => Ok(Err(format!("{told}: {reason}"))),
    }
}

/// A code object: kept for good, or else still in the artifact cache.
async fn fetch(store: &dyn Store, artifact: ArtifactRef) -> Result<Result<Bytes, String>, StoreError> {
    let mut reason = "gone from the store; tune its problem again".to_string();
    match store.blob(artifact.digest).await {
        Ok(Some(bytes)) if bytes.len() as u64 == artifact.size => return Ok(Ok(bytes.into())),
        Ok(_) => {}
        Err(error @ StoreError::Tampered { .. }) => reason = error.to_string(),
        Err(error) => return Err(error),
    }
    match store.artifact(artifact).await {
        Ok(Some(bytes)) => Ok(Ok(bytes)),
        Ok(None) => Ok(Err(reason)),
        Err(error @ StoreError::Tampered { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}
