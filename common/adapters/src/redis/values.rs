//! Values that their digest names: blobs, which last, and artifacts, which a cache may lose.

use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::{ArtifactRef, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::store::{Artifacts, Blobs, Fullness, StoreError};
use bluefin_common::wire;
use bytes::Bytes;
use redis::cmd;

use super::link::Request;
use super::{RECORDS, RedisStore, check, corrupt, keys, query};
use crate::packed::{pack, unpack};

#[async_trait]
impl Blobs for RedisStore {
    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let packed = pack("blob", bytes).await?;
        let digest = packed.artifact.digest;
        let mut command = cmd("SET");
        command.arg(keys::blob(digest)).arg(packed.bytes);
        let () = self.blobs.write(Request::Command(&command)).await?;
        Ok(digest)
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let stored: Option<Bytes> = query(&self.blobs, cmd("GET").arg(keys::blob(digest))).await?;
        match stored {
            Some(packed) => unpack("blob", packed, digest, None).await.map(Some),
            None => Ok(None),
        }
    }

    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError> {
        let mut sizes = Vec::with_capacity(digests.len());
        for chunk in digests.chunks(RECORDS) {
            let mut pipeline = redis::pipe();
            for digest in chunk {
                pipeline.strlen(keys::blob(*digest));
            }
            sizes.extend(self.main.call::<Vec<u64>>(Request::Pipeline(&pipeline)).await?);
        }
        Ok(sizes)
    }

    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError> {
        for chunk in digests.chunks(RECORDS) {
            let keys: Vec<String> = chunk.iter().map(|digest| keys::blob(*digest)).collect();
            let () = self.writes().write(Request::Command(cmd("UNLINK").arg(keys))).await?;
        }
        Ok(())
    }

    async fn idle_blobs(&self, idle: Duration) -> Result<Vec<Digest>, StoreError> {
        self.blobs_idle_for(idle).await
    }
}

#[async_trait]
impl Artifacts for RedisStore {
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError> {
        let packed = pack("artifact", bytes).await?;
        let key = keys::artifact(packed.artifact.digest);
        let () =
            query(&self.artifacts, cmd("SET").arg(key).arg(packed.bytes).arg("PX").arg(self.artifact_ttl_ms)).await?;
        Ok(packed.artifact)
    }

    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        let key = keys::artifact(artifact.digest);
        let mut pipeline = redis::pipe();
        pipeline.cmd("PEXPIRE").arg(&key).arg(self.artifact_ttl_ms).ignore().get(&key);
        let (stored,): (Option<Bytes>,) = self.artifacts.call(Request::Pipeline(&pipeline)).await?;
        let Some(packed) = stored else { return Ok(None) };
        let unpacked = unpack("artifact", packed, artifact.digest, Some(artifact.size)).await;
        if let Err(StoreError::Tampered { .. }) = &unpacked {
            let () = query(&self.cache, cmd("UNLINK").arg(&key)).await?;
        }
        unpacked.map(|bytes| Some(bytes.into()))
    }

    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError> {
        let key = keys::artifact(artifact.digest);
        query(&self.cache, cmd("PEXPIRE").arg(key).arg(self.artifact_ttl_ms)).await
    }

    async fn put_compiled(&self, record: &CompileRecord) -> Result<(), StoreError> {
        let key = keys::compiled(record.key);
        let bytes = wire::encode(record).map_err(|source| corrupt(&key, source))?;
        query(&self.cache, cmd("SET").arg(key).arg(bytes).arg("PX").arg(self.artifact_ttl_ms)).await
    }

    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError> {
        let stored: Option<Vec<u8>> = query(&self.cache, cmd("GET").arg(keys::compiled(key))).await?;
        Ok(crate::cached_record(key, stored.as_deref()))
    }

    async fn fullness(&self) -> Result<Fullness, StoreError> {
        check::fullness(&self.cache).await
    }
}
