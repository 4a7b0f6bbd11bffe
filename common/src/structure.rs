//! Structures by value among the arguments of a launch: bytes, some of which are addresses that a device alone knows.

use serde::{Deserialize, Serialize};

/// Most bytes of one: as many as all arguments of a kernel may have with every driver.
pub const MAX_BYTES: u32 = 4096;
/// Most bytes that one is aligned to.
pub const MAX_ALIGNMENT: u32 = 256;

/// A structure, as a kernel reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    /// Little endian; zeros where pointers are.
    pub bytes: Vec<u8>,
    /// Its fields that are addresses.
    pub pointers: Vec<Pointer>,
}

/// A field of eight bytes that is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Byte of the structure.
    pub at: u32,
    /// What it points to.
    pub to: Pointed,
}

/// What a field of a structure points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pointed {
    /// A buffer, from a byte of it on.
    Buffer {
        /// Index into [`Task::buffers`](crate::task::Task::buffers).
        buffer: u16,
        /// Bytes of it before what is pointed to.
        bytes: u64,
    },
    /// The scratch memory of [`Built::workspace`](crate::artifact::Built::workspace) bytes.
    Workspace,
}

impl Structure {
    /// Its bytes with the addresses that `address` knows.
    ///
    /// # Errors
    /// Those of `address`. A pointer beyond the structure is left out.
    pub fn placed<E>(&self, address: impl Fn(Pointed) -> Result<u64, E>) -> Result<Vec<u8>, E> {
        let mut bytes = self.bytes.clone();
        for Pointer { at, to } in &self.pointers {
            let found = address(*to)?.to_le_bytes();
            let at = *at as usize;
            if let Some(place) = bytes.get_mut(at..at.saturating_add(found.len())) {
                place.copy_from_slice(&found);
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_where_fields_are() {
        let pointer = |at, buffer| Pointer { at, to: Pointed::Buffer { buffer, bytes: 3 } };
        let pointers = vec![pointer(8, 1), pointer(4000, 2), Pointer { at: 0, to: Pointed::Workspace }];
        let structure = Structure { bytes: vec![9; 17], pointers };
        let address = |to| match to {
            Pointed::Buffer { buffer, bytes } => Ok(u64::from(buffer) * 256 + bytes),
            Pointed::Workspace => Ok::<_, ()>(7),
        };
        let expected = [7_u64.to_le_bytes().as_slice(), &259_u64.to_le_bytes(), &[9]].concat();
        assert_eq!(structure.placed(address), Ok(expected));
        assert_eq!(structure.placed(|_| Err(1)), Err(1));
    }
}
