//! What buffers hold before a launch.

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::task::{Buffer, Content, Role};

use crate::elements::{Random, encode, fill_poison, fill_random, fill_uniform};

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
            let Content::Data(expected) = buffer.content else { return Ok(None) };
            let bytes: &[u8] = left.next().unwrap_or_default();
            if bytes.len() as u64 == expected.size && expected.size == buffer.bytes() {
                return Ok(Some(bytes));
            }
            let detail =
                format!("buffer {}: found {} bytes of data, expected {}", buffer.name, bytes.len(), buffer.bytes());
            Err(Failure::new(FailureKind::CorruptArtifact, detail))
        };
        buffers.iter().map(&mut next).collect::<Result<_, _>>().map(Self)
    }

    /// Makes the piece of the buffer at `index` that begins at its byte `at`. Pieces are asked for in their order, and have whole
    /// elements; `random` is the buffer's own.
    pub fn make(&self, (index, buffer): (usize, &Buffer), random: &mut Random, at: u64, piece: &mut [u8]) {
        match (buffer.role, buffer.content) {
            (Role::Output, _) => fill_poison(buffer.data_type, piece),
            (_, Content::Random) => fill_random(buffer.data_type, random, piece),
            (_, Content::Uniform { low, high }) => fill_uniform(buffer.data_type, (low, high), random, piece),
            (_, Content::Fill(value)) => {
                piece.chunks_exact_mut(buffer.data_type.size()).for_each(|one| encode(buffer.data_type, value, one));
            }
            (_, Content::Data(_)) => {
                let data = self.0.get(index).copied().flatten().unwrap_or_default();
                let data = usize::try_from(at).ok().and_then(|at| data.get(at..)?.get(..piece.len()));
                // Its size was checked.
                piece.copy_from_slice(data.unwrap_or(&vec![0; piece.len()]));
            }
        }
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
        ];
        let all = [&data];
        let contents = Contents::of(&buffers, &all).unwrap();
        let made = |index: usize| {
            let mut bytes = vec![0; buffers[index].bytes() as usize];
            contents.make((index, &buffers[index]), &mut Random::new(1), 0, &mut bytes);
            bytes
        };
        assert_eq!(made(0), 0xBE00_u16.to_ne_bytes().repeat(4));
        assert_eq!(made(1), data);
        assert_eq!(made(2), [3; 4]);
        let mut second = vec![0; 4];
        contents.make((1, &buffers[1]), &mut Random::new(1), 12, &mut second);
        assert_eq!(second, data[12..]);
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
