//! What a launch has changed, so that it can be undone: pages as they were before the first store to them.

use super::Buffer;

const PAGE: usize = 4096;

#[derive(Default)]
pub(super) struct Journal(Vec<Page>);

struct Page {
    /// Which of the buffers, and where in it.
    buffer: usize,
    start: usize,
    bytes: Vec<u8>,
    written: Vec<u8>,
}

impl Journal {
    /// Keeps the pages of a range, unless it has them.
    #[inline]
    pub fn save(&mut self, buffers: &mut [Buffer], at: usize, offset: usize, size: usize) {
        let Some(buffer) = buffers.get_mut(at) else { return };
        for page in offset / PAGE..=(offset + size.max(1) - 1) / PAGE {
            if buffer.saved.get(page / 64).is_none_or(|pages| pages >> (page % 64) & 1 == 0) {
                self.keep(buffer, at, page);
            }
        }
    }

    #[cold]
    fn keep(&mut self, buffer: &mut Buffer, at: usize, page: usize) {
        if buffer.saved.len() <= page / 64 {
            buffer.saved.resize(buffer.bytes.len().div_ceil(PAGE).div_ceil(64), 0);
        }
        buffer.saved[page / 64] |= 1 << (page % 64);
        let start = page * PAGE;
        let range = start..(start + PAGE).min(buffer.bytes.len());
        let (bytes, written) = (buffer.bytes[range.clone()].to_vec(), buffer.written[range].to_vec());
        self.0.push(Page { buffer: at, start, bytes, written });
    }

    pub fn clear(&mut self, buffers: &mut [Buffer]) {
        for page in self.0.drain(..) {
            if let Some(buffer) = buffers.get_mut(page.buffer) {
                buffer.saved.clear();
            }
        }
    }

    pub fn undo(&mut self, buffers: &mut [Buffer]) {
        for page in self.0.drain(..) {
            if let Some(buffer) = buffers.get_mut(page.buffer) {
                let range = page.start..page.start + page.bytes.len();
                buffer.bytes[range.clone()].copy_from_slice(&page.bytes);
                buffer.written[range].copy_from_slice(&page.written);
                buffer.saved.clear();
            }
        }
    }
}
