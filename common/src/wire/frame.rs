//! Bodies that are packed: one zstd frame each, with a checksum. The contexts of a thread are used again and again, as making
//! one takes longer than what it does.

use std::cell::{Cell, RefCell};
use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use super::{HEADER, MAX_BODY, WireError};

/// Fast: an outcome is packed by the worker that evaluated it, which is at work on the next one.
const LEVEL: i32 = 1;

thread_local! {
    static PACKS: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKS: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    static UNPACKED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps memory for what it unpacks next, up to so much.
const KEPT: usize = 256 << 10;

/// A frame that holds `body`.
pub(super) fn pack(body: &[u8]) -> io::Result<Vec<u8>> {
    PACKS.with_borrow_mut(|packs| {
        let packs = match packs {
            Some(packs) => packs,
            None => {
                let mut new = Compressor::new(LEVEL)?;
                new.include_checksum(true)?;
                packs.insert(new)
            }
        };
        packs.compress(body)
    })
}

/// Reads what is in `frame`, behind which nothing may follow. It takes no more memory than a body may.
pub(super) fn unpack<T>(
    expected: &'static str,
    frame: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let broken = |reason: String| WireError::Body { expected, position: HEADER, reason };
    let length = zstd_safe::find_frame_compressed_size(frame);
    let length = length.map_err(|code| broken(zstd_safe::get_error_name(code).to_string()))?;
    let extra = frame.len().saturating_sub(length);
    if extra > 0 {
        return Err(WireError::Trailing { expected, extra });
    }
    let size = zstd_safe::get_frame_content_size(frame).ok().flatten();
    let size = size.ok_or_else(|| broken("a frame that does not say how large its content is".to_string()))?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > MAX_BODY {
        return Err(WireError::Size { expected, found: size });
    }
    let mut unpacked = UNPACKED.take();
    unpacked.clear();
    unpacked.reserve(size);
    let unpacking = UNPACKS.with_borrow_mut(|unpacks| {
        let unpacks = match unpacks {
            Some(unpacks) => unpacks,
            None => unpacks.insert(Decompressor::new()?),
        };
        unpacks.decompress_to_buffer(frame, &mut unpacked)
    });
    let value = unpacking.map_err(|error| broken(error.to_string())).and_then(|_| read(&unpacked));
    if unpacked.capacity() <= KEPT {
        UNPACKED.set(unpacked);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(frame: &[u8]) -> Result<Vec<u8>, WireError> {
        unpack("test", frame, |body| Ok(body.to_vec()))
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        for size in [0, 1, 100, 1 << 20] {
            let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let frame = pack(&body).unwrap();
            assert!(unpacked(&frame).unwrap() == body, "{size}");
            let longer = [frame.as_slice(), b"!"].concat();
            assert!(matches!(unpacked(&longer), Err(WireError::Trailing { extra: 1, .. })));
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let body = b"an outcome that is long enough to be packed ".repeat(20);
        let frame = pack(&body).unwrap();
        for position in 0..frame.len() {
            let mut changed = frame.clone();
            changed[position] ^= 0x10;
            // Bits that no decoder looks at may change nothing: then the content must still be right.
            if let Ok(read) = unpacked(&changed) {
                assert!(read == body, "{position}");
            }
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = pack(&vec![0; MAX_BODY + 1]).unwrap();
        assert!(bomb.len() < 10_000);
        assert!(matches!(unpacked(&bomb), Err(WireError::Size { .. })));
        let unsized_frame = zstd::stream::encode_all(b"body".as_slice(), LEVEL).unwrap();
        assert!(matches!(unpacked(&unsized_frame), Err(WireError::Body { .. })));
    }
}
