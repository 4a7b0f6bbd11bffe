//! What kernels take for a tensor descriptor.

use bluefin_common::artifact::Argument;
use bluefin_common::tensor::{RANK, Tensor, TensorMap};

/// Where the kernel was compiled to read the tensor by itself: a map, and its sizes.
pub(crate) fn mapped(tensor: Tensor, map: TensorMap) -> Vec<Argument> {
    let mapped = Tensor { map: Some(map), ..tensor };
    std::iter::once(Argument::Tensor(mapped)).chain(sizes(&tensor)).collect()
}

/// Where the hardware knows no such thing: a pointer, sizes, whether what is outside is no number, whether numbers are rounded, of which a
/// compiler may know the first `flags`, and sizes again.
pub(crate) fn taken_apart(tensor: Tensor, flags: usize) -> Vec<Argument> {
    let pointer = match tensor.bytes {
        0 => Argument::Buffer(tensor.buffer),
        bytes => Argument::BufferAt { buffer: tensor.buffer, bytes },
    };
    let flags = [tensor.nan, tensor.tf32].into_iter().take(flags).map(|flag| Argument::I32(i32::from(flag)));
    let first = dimensions(&tensor, tensor.shape).chain(dimensions(&tensor, tensor.strides));
    std::iter::once(pointer).chain(first).chain(flags).chain(sizes(&tensor)).collect()
}

/// Elements and strides, as kernels take them beside a map.
fn sizes(tensor: &Tensor) -> impl Iterator<Item = Argument> {
    // What does not fit is refused where a spec says it.
    let size = |size| Argument::I32(i32::try_from(size).unwrap_or(i32::MAX));
    tensor.shape.into_iter().take(tensor.rank.into()).map(size).chain(dimensions(tensor, tensor.strides))
}

fn dimensions(tensor: &Tensor, of: [u64; RANK]) -> impl Iterator<Item = Argument> + use<> {
    of.into_iter().take(tensor.rank.into()).map(|size| Argument::I64(size.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_both_kinds() {
        let tensor = Tensor {
            buffer: 3,
            bytes: 16,
            rank: 2,
            shape: [7, 5, 9, 9, 9],
            strides: [8, 1, 9, 9, 9],
            nan: true,
            ..Tensor::default()
        };
        let map = TensorMap { element: 6, ..TensorMap::default() };
        let sizes = [Argument::I32(7), Argument::I32(5), Argument::I64(8), Argument::I64(1)];
        let given = mapped(tensor, map);
        assert_eq!(given[0], Argument::Tensor(Tensor { map: Some(map), ..tensor }));
        assert_eq!(given[1..], sizes);
        let apart = taken_apart(tensor, 2);
        assert_eq!(apart[0], Argument::BufferAt { buffer: 3, bytes: 16 });
        assert_eq!(apart[1..5], [7, 5, 8, 1].map(Argument::I64));
        assert_eq!(apart[5..7], [1, 0].map(Argument::I32));
        assert_eq!(apart[7..], sizes);
        assert_eq!(taken_apart(Tensor { bytes: 0, ..tensor }, 0)[0], Argument::Buffer(3));
        assert_eq!(taken_apart(tensor, 0)[5..], sizes);
    }
}
