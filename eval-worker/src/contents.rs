//! What buffers hold before a launch.

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::task::{Buffer, Content, Role};

use crate::elements::{Random, encode, fill_poison, fill_random, fill_uniform};

/// Bytes of the number of a row.
const INDEX_BYTES: usize = 4;
const INDEX: u64 = INDEX_BYTES as u64;

/// The data of a task's buffers, for each of them.
#[derive(Debug)]
pub struct Contents<'a>(Vec<Option<&'a [u8]>>);

impl<'a> Contents<'a> {
    /// `data`: that of the buffers which have some, in their order, as [`Task::data`](bluefin_common::task::Task::data) names it.
    ///
    /// # Errors
    /// If that is not what the buffers ask for.
    pub fn of<B: AsRef<[u8]>>(buffers: &[Buffer], data: &'a [B]) -> Result<Self, Failure> {
        let mut left = data.iter().map(AsRef::as_ref);
        let mut next = |buffer: &Buffer| {
            let (data, expected) = match buffer.content {
                Content::Data(data) | Content::Drawn { data, .. } => (data, buffer.bytes()),
                Content::Rows { rows, row, .. } => (rows, buffer.length / u64::from(row.max(1)) * INDEX),
                Content::Random | Content::Uniform { .. } | Content::Fill(_) | Content::Steps { .. } => {
                    return Ok(None);
                }
            };
            let bytes: &[u8] = left.next().unwrap_or_default();
            if bytes.len() as u64 == data.size && data.size == expected {
                return Ok(Some(bytes));
            }
            let detail = format!("buffer {}: found {} bytes of data, expected {expected}", buffer.name, bytes.len());
            Err(Failure::new(FailureKind::CorruptArtifact, detail))
        };
        buffers.iter().map(&mut next).collect::<Result<_, _>>().map(Self)
    }

    /// Makes the piece of the buffer at `index` that begins at its byte `at`. Pieces are asked for in their order, and have whole
    /// elements; `random` is the buffer's own, `source` what is in the buffer that it has rows of, if it has.
    pub fn make(
        &self,
        (index, buffer): (usize, &Buffer),
        (random, source): (&mut Random, &[u8]),
        at: u64,
        piece: &mut [u8],
    ) {
        match (buffer.role, buffer.content) {
            (Role::Output, _) => fill_poison(buffer.data_type, piece),
            (_, Content::Random) => fill_random(buffer.data_type, random, piece),
            (_, Content::Uniform { low, high }) => fill_uniform(buffer.data_type, (low, high), random, piece),
            (_, Content::Fill(value)) => {
                piece.chunks_exact_mut(buffer.data_type.size()).for_each(|one| encode(buffer.data_type, value, one));
            }
            (_, Content::Steps { first, step }) => {
                let most = buffer.data_type.integers().map_or(i64::MAX.into(), |(_, most)| most);
                let size = buffer.data_type.size();
                for (place, one) in (at / size as u64..).zip(piece.chunks_exact_mut(size)) {
                    let value = (i128::from(first) + i128::from(place) * i128::from(step)).min(most);
                    one.iter_mut().zip(value.to_le_bytes()).for_each(|(byte, of)| *byte = of);
                }
            }
            (_, Content::Data(_) | Content::Drawn { .. }) => {
                let data = self.0.get(index).copied().flatten().unwrap_or_default();
                let data = usize::try_from(at).ok().and_then(|at| data.get(at..)?.get(..piece.len()));
                // Its size was checked.
                piece.copy_from_slice(data.unwrap_or(&vec![0; piece.len()]));
            }
            (_, Content::Rows { row, .. }) => {
                let rows = self.0.get(index).copied().flatten().unwrap_or_default();
                let bytes = usize::try_from(row).unwrap_or(1).max(1) * buffer.data_type.size();
                copy_rows(source, rows, bytes, usize::try_from(at).unwrap_or(usize::MAX), piece);
            }
        }
    }
}

/// The buffer that `buffer` has rows of.
#[must_use]
pub fn source_of(buffer: &Buffer) -> Option<usize> {
    match buffer.content {
        Content::Rows { of, .. } => Some(of.into()),
        Content::Random
        | Content::Uniform { .. }
        | Content::Fill(_)
        | Content::Data(_)
        | Content::Drawn { .. }
        | Content::Steps { .. } => None,
    }
}

/// The piece from byte `at` on of the rows of `source` that `rows` names, each of so many bytes.
fn copy_rows(source: &[u8], rows: &[u8], bytes: usize, at: usize, piece: &mut [u8]) {
    let mut done = 0;
    while let Some(left) = piece.get_mut(done..).filter(|left| !left.is_empty()) {
        let (place, within) = ((at + done) / bytes, (at + done) % bytes);
        let index =
            rows.get(place * INDEX_BYTES..).and_then(<[u8]>::first_chunk).map(|index| i32::from_le_bytes(*index));
        let begin = index.and_then(|index| usize::try_from(index).ok()).and_then(|index| index.checked_mul(bytes));
        let count = left.len().min(bytes - within);
        let row = begin.and_then(|begin| source.get(begin + within..)?.get(..count));
        let left = left.split_at_mut(count).0;
        match row {
            Some(row) => left.copy_from_slice(row),
            None => left.fill(0),
        }
        done += count;
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::artifact::ArtifactRef;
    use bluefin_common::problem::DataType;

    use super::*;

    fn buffer(data_type: DataType, role: Role, content: Content) -> Buffer {
        Buffer { name: "b".to_string(), data_type, length: 4, role, content }
    }

    #[test]
    fn buffers_hold_what_is_said() {
        let data: Vec<u8> = [7_i32, -1, 0, 1 << 20].into_iter().flat_map(i32::to_le_bytes).collect();
        let buffers = [
            buffer(DataType::Fp16, Role::InOut, Content::Fill(-1.5)),
            buffer(DataType::Int32, Role::Input, Content::Data(ArtifactRef::of(&data))),
            buffer(DataType::Int8, Role::Input, Content::Uniform { low: 3.0, high: 3.0 }),
            buffer(DataType::Int8, Role::Input, Content::Steps { first: -1, step: 60 }),
            buffer(DataType::Uint64, Role::Input, Content::Steps { first: i64::MAX - 1, step: 1 }),
        ];
        let all = [&data];
        let contents = Contents::of(&buffers, &all).unwrap();
        let made = |index: usize| {
            let mut bytes = vec![0; buffers[index].bytes() as usize];
            contents.make((index, &buffers[index]), (&mut Random::new(1), &[]), 0, &mut bytes);
            bytes
        };
        assert_eq!(made(0), 0xBE00_u16.to_ne_bytes().repeat(4));
        assert_eq!(made(1), data);
        assert_eq!(made(2), [3; 4]);
        assert_eq!(made(3), [255, 59, 119, 127]);
        let ascending: Vec<u8> = (0..4_u64).flat_map(|at| ((1 << 63) - 2 + at).to_le_bytes()).collect();
        assert_eq!(made(4), ascending);
        let mut second = vec![0; 4];
        contents.make((1, &buffers[1]), (&mut Random::new(1), &[]), 12, &mut second);
        assert_eq!(second, data[12..]);
    }

    #[test]
    fn rows_are_those_of_another_buffer() {
        let rows: Vec<u8> = [1_i32, 3, 0, -1].into_iter().flat_map(i32::to_le_bytes).collect();
        let content = Content::Rows { of: 0, rows: ArtifactRef::of(&rows), row: 3 };
        let copy = Buffer { length: 12, ..buffer(DataType::Fp16, Role::Input, content) };
        let (buffers, all) = ([copy], [&rows]);
        let contents = Contents::of(&buffers, &all).unwrap();
        assert_eq!(source_of(&buffers[0]), Some(0));
        // Two rows and a half.
        let source: Vec<u8> = (1..=15).collect();
        let expected: Vec<u8> = (7..=12).chain([0; 6]).chain(1..=6).chain([0; 6]).collect();
        for size in [2, 4, 10, 24] {
            let mut made = vec![9; 24];
            for (at, piece) in made.chunks_mut(size).enumerate() {
                contents.make((0, &buffers[0]), (&mut Random::new(1), &source), (at * size) as u64, piece);
            }
            assert_eq!(made, expected, "{size}");
        }
        let other = [&rows[..12]];
        assert!(Contents::of(&buffers, &other).is_err());
    }

    #[test]
    fn data_of_another_size_is_refused() {
        let data = [0_u8; 12];
        let buffers = [buffer(DataType::Int32, Role::Input, Content::Data(ArtifactRef::of(&data)))];
        for found in [&[&data[..]][..], &[]] {
            let failure = Contents::of(&buffers, found).unwrap_err();
            assert!(
                failure.detail.starts_with("buffer b: found ") && failure.detail.ends_with("expected 16"),
                "{failure:?}"
            );
        }
    }
}
