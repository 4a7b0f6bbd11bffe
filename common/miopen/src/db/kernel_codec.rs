//! Code objects as the kernel database holds them: one bzip2 stream of level 9 and work factor 30 (MIOpen 3.3,
//! src/bz2.cpp), or as they are where that is not smaller.

use std::io::Read as _;

use bzip2::read::BzDecoder;
use bzip2::{Action, Compress, Compression, Status};
use md5::{Digest as _, Md5};

/// MIOpen's, which is also what bzip2 takes by default. The output does not depend on it.
const WORK_FACTOR: u32 = 30;
/// Largest code object, in bytes.
pub const MAX_CODE: u64 = 1 << 30;

/// Lowercase hex MD5.
pub fn md5_hex(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None` if that would not be smaller.
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compress = Compress::new(Compression::best(), WORK_FACTOR);
    // No room for what is not smaller.
    let mut out = Vec::with_capacity(bytes.len().saturating_sub(1));
    let mut done = 0;
    loop {
        let before = (done, out.len());
        let rest = bytes.get(done..)?;
        let status = compress.compress_vec(rest, &mut out, Action::Finish).ok()?;
        done = usize::try_from(compress.total_in()).ok()?;
        match status {
            Status::StreamEnd => return Some(out),
            _ if out.len() == out.capacity() || before == (done, out.len()) => return None,
            _ => {}
        }
    }
}

/// The `size` bytes that `blob` was made of.
pub fn decompress(blob: &[u8], size: u64) -> Result<Vec<u8>, String> {
    if size > MAX_CODE {
        return Err(format!("uncompressed_size: found {size}, expected at most {MAX_CODE}"));
    }
    let mut bytes = Vec::new();
    // One more than there should be, to notice it.
    BzDecoder::new(blob).take(size + 1).read_to_end(&mut bytes).map_err(|error| format!("kernel_blob: {error}"))?;
    if bytes.len() as u64 != size {
        let more = if bytes.len() as u64 > size { " or more" } else { "" };
        return Err(format!("uncompressed_size: found {size}, but the blob holds {} bytes{more}", bytes.len()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        assert_eq!(compress(b""), None);
        assert_eq!(compress(b"bluefin"), None);
        let noise: Vec<u8> = (0..4096_u32).flat_map(|i| *blake(i).as_slice().first_chunk::<8>().unwrap()).collect();
        assert_eq!(compress(&noise), None);
    }

    fn blake(i: u32) -> Vec<u8> {
        bluefin_common::digest::Digest::of(&i.to_le_bytes()).0.to_vec()
    }

    #[test]
    fn level_nine_in_one_stream() {
        let zeros = vec![0; 2_000_000];
        let packed = compress(&zeros).unwrap();
        assert_eq!(&packed[..4], b"BZh9");
        assert_eq!(decompress(&packed, 2_000_000).unwrap(), zeros);
        assert!(decompress(&packed, 1_999_999).unwrap_err().contains("or more"));
        assert!(decompress(&packed, 2_000_001).unwrap_err().contains("holds 2000000 bytes"));
        assert!(decompress(&packed, u64::MAX).unwrap_err().contains("expected at most"));
        assert!(decompress(&packed[..packed.len() - 4], 2_000_000).is_err());
    }

    /// What the reference implementation of bzip2 makes of it.
    #[test]
    fn golden_bytes() {
        let text = b"bluefin ".repeat(100);
        let packed: String = compress(&text).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = "425a683931415926535918015eeb00006391804000132502002000508604052a00e91608bc45b22e1\
                        1708ba45e22f8bb9229c28480c00af758";
        assert_eq!(packed, expected.replace(' ', ""));
    }

    #[test]
    fn md5_is_lowercase() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    proptest! {
        // Each stream of level 9 works on megabytes, however short it is.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn round_trip(bytes in proptest::collection::vec(0_u8..4, 0..5000)) {
            if let Some(packed) = compress(&bytes) {
                prop_assert!(packed.len() < bytes.len());
                prop_assert_eq!(decompress(&packed, bytes.len() as u64).unwrap(), bytes);
            }
        }

        #[test]
        fn nothing_panics(blob in proptest::collection::vec(any::<u8>(), 0..300), size in any::<u64>()) {
            let _ = decompress(&blob, size);
            let _ = decompress(&blob, size % 1000);
            let _ = decompress(&[b"BZh9".as_slice(), &blob].concat(), 100);
        }
    }
}
