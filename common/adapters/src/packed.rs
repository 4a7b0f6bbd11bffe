//! Artifacts and blobs as they are stored: one zstd frame, named by the digest of what is in it.
//!
//! What is read back is unpacked within the size that was stated and compared with its digest, so that neither a changed
//! byte nor a decompression bomb gets past this module.

use std::io::Read;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::digest::Digest;
use bluefin_common::store::StoreError;

/// Largest artifact or blob, in bytes.
pub const MAX_BLOB: u64 = 256 << 20;

/// Fast: artifacts are written once and read a few times, soon after.
const LEVEL: i32 = 1;

/// Packing or unpacking more than this would hold up the other tasks of its thread.
const INLINE: usize = 64 << 10;

/// Bytes ready to be stored.
pub(crate) struct Packed {
    pub artifact: ArtifactRef,
    pub bytes: Vec<u8>,
}

/// Packs `bytes`.
pub(crate) async fn pack(what: &'static str, bytes: &[u8]) -> Result<Packed, StoreError> {
    if bytes.len() as u64 > MAX_BLOB {
        let reason = format!("{what}: found {} bytes, expected at most {MAX_BLOB}", bytes.len());
        return Err(StoreError::Misconfigured { reason });
    }
    if bytes.len() <= INLINE {
        return pack_now(what, bytes);
    }
    let bytes = bytes.to_vec();
    off_thread(move || pack_now(what, &bytes)).await
}

fn pack_now(what: &'static str, bytes: &[u8]) -> Result<Packed, StoreError> {
    let artifact = ArtifactRef::of(bytes);
    let packed = zstd::bulk::compress(bytes, LEVEL)
        .map_err(|error| StoreError::Misconfigured { reason: format!("{what} {}: {error}", artifact.digest) })?;
    Ok(Packed { artifact, bytes: packed })
}

/// Unpacks what is stored under `digest` and checks it, and its size where one is stated.
pub(crate) async fn unpack<P>(
    what: &'static str,
    packed: P,
    digest: Digest,
    size: Option<u64>,
) -> Result<Vec<u8>, StoreError>
where
    P: AsRef<[u8]> + Send + 'static,
{
    let large = packed.as_ref().len() > INLINE || size.is_some_and(|size| size > INLINE as u64);
    let unpacked = if large {
        off_thread(move || Ok(unpack_now(packed.as_ref(), digest, size))).await?
    } else {
        unpack_now(packed.as_ref(), digest, size)
    };
    unpacked.ok_or(StoreError::Tampered { what, digest })
}

fn unpack_now(packed: &[u8], digest: Digest, size: Option<u64>) -> Option<Vec<u8>> {
    let limit = size.unwrap_or(MAX_BLOB).min(MAX_BLOB);
    let mut bytes = Vec::new();
    // One byte more than may be there, to see that it is not.
    zstd::Decoder::new(packed).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    let sized = bytes.len() as u64 <= limit && size.is_none_or(|size| size == bytes.len() as u64);
    (sized && Digest::of(&bytes) == digest).then_some(bytes)
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    // It fails to join only when the runtime shuts down underneath it.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StoreError::Unavailable { store: "compression".into(), reason: error.to_string() })?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn packed(bytes: &[u8]) -> Packed {
        pack("artifact", bytes).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_packed_is_unpacked() {
        for size in [0, 1, 1000, INLINE, INLINE + 1, 3 << 20] {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let Packed { artifact, bytes: stored } = packed(&bytes).await;
            assert_eq!(artifact, ArtifactRef::of(&bytes));
            let back = unpack("artifact", stored, artifact.digest, Some(artifact.size)).await.unwrap();
            assert!(back == bytes, "{size} bytes");
        }
    }

    #[tokio::test]
    async fn a_wrong_size_is_refused() {
        let Packed { artifact, bytes } = packed(b"kernel").await;
        for size in [0, 5, 7, u64::MAX] {
            let refused = unpack("artifact", bytes.clone(), artifact.digest, Some(size)).await;
            assert!(matches!(refused, Err(StoreError::Tampered { .. })), "{size}");
        }
    }

    #[tokio::test]
    async fn a_bomb_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], LEVEL).unwrap();
        assert!(bomb.len() < INLINE);
        assert!(unpack_now(&bomb, Digest::of(b""), Some(10)).is_none());
    }

    #[tokio::test]
    async fn any_changed_byte_is_noticed() {
        let Packed { artifact, bytes } = packed(&b"a kernel that is long enough to be compressed ".repeat(20)).await;
        for position in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[position] ^= 0x10;
            // Bits that no decoder looks at may change nothing: then the content must still be right.
            if let Some(read) = unpack_now(&changed, artifact.digest, Some(artifact.size)) {
                assert_eq!(Digest::of(&read), artifact.digest);
            }
        }
        let longer = [bytes.as_slice(), b"junk"].concat();
        assert!(unpack_now(&longer, artifact.digest, Some(artifact.size)).is_none());
    }
}
