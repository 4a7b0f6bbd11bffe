//! What buffers there are, and what is in all of them at a time, so that two executions can be compared.

use super::{ALIGNMENT, Memory};
use crate::races::Contents;

impl Memory {
    /// Where the next buffer will be.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Frees the buffers that were allocated since the mark, whose addresses no kernel has kept.
    pub(crate) fn release(&mut self, mark: u64) {
        let images = &self.images;
        self.buffers.retain(|buffer| buffer.base < mark || images.iter().any(|(_, base)| *base == buffer.base));
        self.next = self.buffers.iter().map(|buffer| buffer.base + buffer.bytes.len() as u64).fold(mark, u64::max);
        self.next = self.next.next_multiple_of(ALIGNMENT);
    }

    /// The bytes of all buffers, `None` where those are more than `most`.
    pub(crate) fn contents(&self, most: usize) -> Option<Contents> {
        let size: usize = self.buffers.iter().map(|buffer| buffer.bytes.len()).sum();
        (size <= most).then(|| self.buffers.iter().map(|buffer| (buffer.base, buffer.bytes.clone())).collect())
    }

    /// Whether all buffers have these bytes, and so many of them were written.
    pub(crate) fn has(&self, contents: &Contents, written: usize) -> bool {
        let same =
            |(buffer, (base, bytes)): (&super::Buffer, &(u64, Vec<u8>))| buffer.base == *base && buffer.bytes == *bytes;
        self.buffers.len() == contents.len()
            && self.buffers.iter().zip(contents).all(same)
            && self.count_written() == written
    }

    /// Bytes that were written.
    pub(crate) fn count_written(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.written.iter().filter(|of| **of == 1).count()).sum()
    }
}
