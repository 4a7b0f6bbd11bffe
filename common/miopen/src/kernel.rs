//! Kernels as fin hands them over: a bzip2 stream in base64, with size and MD5 of the code object in it. They are stored
//! raw, checked at every hop and encoded again for the next call.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

use crate::db::{decompress, md5_hex};
use bluefin_common::artifact::{ArtifactRef, CodeObject, Packed};
use bluefin_common::failure::{Failure, FailureKind};

/// What stands in place of a checksum where bzip2 would not have made the code object smaller.
const NOT_COMPRESSED: &str = "Failed to compress kernel";
/// Largest bzip2 stream, in bytes: what one value of the store may hold, with room for its envelope.
const MAX_STREAM: usize = 200 << 20;

/// A kernel within fin's documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireKernel {
    /// Standard base64 with padding, no line breaks.
    pub blob: String,
    /// Compiler options without `-mcpu`.
    pub comp_options: String,
    /// Source file without `.o`.
    pub kernel_file: String,
    /// Lowercase hex MD5 of the code object.
    pub md5_sum: String,
    /// Bytes of the code object.
    pub uncompressed_size: u64,
}

impl WireKernel {
    /// The kernel and its bzip2 stream, checked.
    ///
    /// # Errors
    /// [`FailureKind::Uncompressed`] and [`FailureKind::CorruptArtifact`].
    pub fn open(&self) -> Result<(CodeObject, Vec<u8>), Failure> {
        if self.md5_sum == NOT_COMPRESSED || (self.blob.is_empty() && self.uncompressed_size == 0) {
            let detail = format!("kernel {}: could not be compressed; no kernel db can hold it", self.kernel_file);
            return Err(Failure::new(FailureKind::Uncompressed, detail));
        }
        if self.blob.len() / 4 * 3 > MAX_STREAM {
            let detail =
                format!("blob: found {} bytes of base64, expected at most {}", self.blob.len(), MAX_STREAM / 3 * 4);
            return Err(corrupt(&self.kernel_file, &detail));
        }
        let stream = STANDARD.decode(&self.blob).or_else(|_| URL_SAFE.decode(&self.blob));
        let stream = stream.map_err(|error| corrupt(&self.kernel_file, &format!("blob: {error}")))?;
        let kernel = CodeObject {
            artifact: ArtifactRef::of(&stream),
            file: self.kernel_file.clone(),
            options: self.comp_options.clone(),
            packed: Some(Packed { md5: self.md5_sum.clone(), size: self.uncompressed_size }),
        };
        check(&kernel, &stream)?;
        Ok((kernel, stream))
    }
}

/// Checks that `stream` is that of `kernel`: unpacks it and compares size and MD5.
///
/// # Errors
/// [`FailureKind::CorruptArtifact`], with what differs.
pub fn check(kernel: &CodeObject, stream: &[u8]) -> Result<(), Failure> {
    let Packed { md5, size } = packed(kernel)?;
    let code = decompress(stream, *size).map_err(|reason| corrupt(&kernel.file, &reason))?;
    let expected = md5_hex(&code);
    if expected != *md5 {
        let found: String = md5.chars().take(80).collect();
        return Err(corrupt(&kernel.file, &format!("md5_sum: found {found:?}, expected {expected}, of its content")));
    }
    Ok(())
}

/// `kernel` as fin takes it. `stream` has been checked.
///
/// # Errors
/// A kernel that is not packed, which fin did not compile.
pub fn to_wire(kernel: &CodeObject, stream: &[u8]) -> Result<WireKernel, Failure> {
    let Packed { md5, size } = packed(kernel)?;
    Ok(WireKernel {
        blob: STANDARD.encode(stream),
        comp_options: kernel.options.clone(),
        kernel_file: kernel.file.clone(),
        md5_sum: md5.clone(),
        uncompressed_size: *size,
    })
}

fn packed(kernel: &CodeObject) -> Result<&Packed, Failure> {
    kernel.packed.as_ref().ok_or_else(|| corrupt(&kernel.file, "it is no bzip2 stream"))
}

fn corrupt(file: &str, reason: &str) -> Failure {
    let file: String = file.chars().take(200).collect();
    Failure::new(FailureKind::CorruptArtifact, format!("kernel {file}: {reason}"))
}

/// Whether `solver` compiles kernels from sources of its own, so that none of them is an error. Solvers on top of rocBLAS
/// have none, and those on top of composable kernel bring theirs in a library.
#[must_use]
pub fn needs_kernels(solver: &str) -> bool {
    ["ConvAsm", "ConvOcl", "ConvBinWinograd", "ConvMPBidirectWinograd", "ConvWinograd", "ConvDirectNaive"]
        .iter()
        .any(|family| solver.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::compress;

    fn wire() -> WireKernel {
        let code = b"\x7fELF code ".repeat(50);
        let stream = compress(&code).unwrap();
        WireKernel {
            blob: STANDARD.encode(&stream),
            comp_options: " -Wa,-defsym,a=1".to_string(),
            kernel_file: "conv.s".to_string(),
            md5_sum: md5_hex(&code),
            uncompressed_size: code.len() as u64,
        }
    }

    #[test]
    fn there_and_back() {
        let (kernel, stream) = wire().open().unwrap();
        assert_eq!(&stream[..4], b"BZh9");
        assert_eq!(to_wire(&kernel, &stream).unwrap(), wire());
        // Written by an encoder with the other alphabet.
        let url = WireKernel { blob: URL_SAFE.encode(&stream), ..wire() };
        assert_eq!(url.open().unwrap(), (kernel, stream));
    }

    #[test]
    fn what_was_damaged_is_refused() {
        let kind = |wire: WireKernel| wire.open().unwrap_err().kind;
        let mut damaged = wire();
        damaged.blob.replace_range(40..41, if &damaged.blob[40..41] == "A" { "B" } else { "A" });
        for wire in [
            damaged,
            WireKernel { md5_sum: "0".repeat(32), ..wire() },
            WireKernel { uncompressed_size: 3, ..wire() },
            WireKernel { uncompressed_size: u64::MAX, ..wire() },
            WireKernel { blob: "?".to_string(), ..wire() },
            WireKernel { blob: String::new(), ..wire() },
            WireKernel { md5_sum: wire().md5_sum.to_uppercase(), ..wire() },
        ] {
            assert_eq!(kind(wire), FailureKind::CorruptArtifact);
        }
        let not = WireKernel { md5_sum: NOT_COMPRESSED.into(), uncompressed_size: 0, blob: String::new(), ..wire() };
        assert_eq!(kind(not), FailureKind::Uncompressed);
    }

    #[test]
    fn who_needs_kernels() {
        assert!(needs_kernels("ConvAsm1x1UV2") && needs_kernels("ConvWinograd3x3MultipassWrW<3-4>"));
        assert!(!needs_kernels("GemmFwdRest") && !needs_kernels("ConvHipImplicitGemmFwdXdlops"));
    }
}
