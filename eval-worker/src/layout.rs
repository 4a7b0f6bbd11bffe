//! Where the buffers of a problem lie in one piece of memory, with guards between them that show an over-run.

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::task::Buffer;

use crate::contents::Contents;
use crate::elements::Random;

/// Every buffer starts at a multiple of this, as allocators of GPUs have it.
const ALIGNMENT: u64 = 256;
/// Bytes of guard before the first buffer and, at the least, behind each.
const GUARD: u64 = 256;
/// What guards hold: a large number in every float type, so that reading it shows as well.
pub const CANARY: u8 = 0xC7;
/// Bytes that are made at a time; whole elements of every type.
const PIECE: usize = 1 << 20;

/// Memory of one set of buffers: guard, buffer, guard, buffer, …, guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Offset of each buffer, in the order of the task's buffers.
    pub offsets: Vec<u64>,
    /// Bytes of each buffer.
    pub lengths: Vec<u64>,
    /// Bytes of the whole set, a multiple of the alignment.
    pub bytes: u64,
}

impl Layout {
    /// Lays out `buffers`.
    ///
    /// # Errors
    /// [`FailureKind::OutOfMemory`] if no machine has that much memory.
    pub fn of(buffers: &[Buffer]) -> Result<Self, Failure> {
        let mut layout = Self { offsets: Vec::new(), lengths: Vec::new(), bytes: GUARD };
        for buffer in buffers {
            let length = buffer.bytes();
            let end = layout.bytes.checked_add(length).and_then(|end| end.checked_add(GUARD));
            let end = end.and_then(|end| end.checked_next_multiple_of(ALIGNMENT)).ok_or_else(|| {
                let detail = format!("buffer {}: {length} bytes are more than there are addresses", buffer.name);
                Failure::new(FailureKind::OutOfMemory, detail)
            })?;
            layout.offsets.push(layout.bytes);
            layout.lengths.push(length);
            layout.bytes = end;
        }
        Ok(layout)
    }

    /// Offset and end of each buffer.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.offsets.iter().zip(&self.lengths).map(|(offset, length)| (*offset, offset + length))
    }

    /// Offset and end of each guard: the one before the first buffer, then the one behind each.
    pub fn guards(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let starts = std::iter::once(0).chain(self.ranges().map(|(_, end)| end));
        starts.zip(self.offsets.iter().copied().chain([self.bytes]))
    }

    /// What the buffer at `index` holds before a launch, piece by piece, `write(offset, bytes)`: what `contents` say, random values made
    /// from `seed`, and poison in an output.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn fill_one<E>(
        &self,
        (index, buffer): (usize, &Buffer),
        (contents, source): (&Contents<'_>, &[u8]),
        seed: u64,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((start, end)) = self.ranges().nth(index) else { return Ok(()) };
        let mut piece = Vec::new();
        let mut random = Random::new(seed_of(seed, index as u64));
        for at in (start..end).step_by(PIECE) {
            piece.resize(PIECE.min((end - at) as usize), 0);
            contents.make((index, buffer), (&mut random, source), at - start, &mut piece);
            write(at, &piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl Layout {
    /// A whole set before a launch.
    pub fn filled(&self, buffers: &[Buffer], seed: u64) -> Vec<u8> {
        let mut set = vec![CANARY; self.bytes as usize];
        let mut write = |at: u64, bytes: &[u8]| {
            set[at as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok::<(), Failure>(())
        };
        let contents = Contents::of::<&[u8]>(buffers, &[]).unwrap();
        buffers.iter().enumerate().for_each(|one| self.fill_one(one, (&contents, &[]), seed, &mut write).unwrap());
        set
    }
}

/// What the elements of the buffer at `index` are made from, if it is an input.
#[must_use]
pub fn seed_of(seed: u64, index: u64) -> u64 {
    seed ^ (index << 32)
}

/// First byte of a guard at or after `offset` that was overwritten, counted from the start of `bytes`.
#[must_use]
pub fn broken_guard(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte != CANARY)
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::DataType;
    use bluefin_common::task::{Content, Role};

    use super::*;
    use crate::elements::fill_random;

    fn buffer(role: Role, data_type: DataType, length: u64) -> Buffer {
        Buffer { name: "b".to_string(), data_type, length, role, content: Content::Random }
    }

    #[test]
    fn every_byte_is_a_buffer_or_a_guard() {
        let buffers = [
            buffer(Role::Input, DataType::Fp32, 100),
            buffer(Role::Input, DataType::Int8, 3),
            buffer(Role::Output, DataType::Fp16, 1024),
        ];
        let layout = Layout::of(&buffers).unwrap();
        let mut parts: Vec<_> = layout.ranges().chain(layout.guards()).collect();
        parts.sort_unstable();
        let mut at = 0;
        for (start, end) in parts {
            assert_eq!(start, at);
            at = end;
        }
        assert_eq!(at, layout.bytes);
        assert!(layout.offsets.iter().all(|offset| offset.is_multiple_of(ALIGNMENT)));
        assert!(layout.guards().all(|(start, end)| end - start >= GUARD));

        let mut memory = layout.filled(&buffers, 1);
        for (start, end) in layout.guards() {
            assert_eq!(broken_guard(&memory[start as usize..end as usize]), None);
        }
        memory[layout.offsets[1] as usize + 3] = 0;
        let broken = layout.guards().map(|(start, end)| broken_guard(&memory[start as usize..end as usize]));
        assert_eq!(broken.collect::<Vec<_>>(), [None, None, Some(0), None]);
    }

    #[test]
    fn two_inputs_differ() {
        let buffers = [buffer(Role::Input, DataType::Fp32, 64), buffer(Role::Input, DataType::Fp32, 64)];
        let layout = Layout::of(&buffers).unwrap();
        let memory = layout.filled(&buffers, 7);
        let inputs: Vec<_> = layout.ranges().map(|(start, end)| &memory[start as usize..end as usize]).collect();
        assert_ne!(inputs[0], inputs[1]);
    }

    #[test]
    fn pieces_are_of_one_sequence() {
        let length = PIECE as u64 / 4 + 5;
        let buffers = [buffer(Role::Output, DataType::Int8, 1), buffer(Role::Input, DataType::Fp32, length)];
        let layout = Layout::of(&buffers).unwrap();
        let (start, end) = layout.ranges().nth(1).unwrap();
        let mut whole = vec![0; (end - start) as usize];
        fill_random(DataType::Fp32, &mut Random::new(seed_of(3, 1)), &mut whole);
        assert!(layout.filled(&buffers, 3)[start as usize..end as usize] == whole);
    }

    #[test]
    fn absurd_sizes_are_out_of_memory() {
        let failure = Layout::of(&[buffer(Role::Input, DataType::Fp64, u64::MAX)]).unwrap_err();
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
    }
}
