//! The arguments of a module's launches, as drivers want them: pointers to values.

use std::ffi::c_void;

use bluefin_common::artifact::{Argument, Launch};
use bluefin_common::structure::{Pointed, Structure};
use bluefin_common::tensor::Tensor;

use super::{Buffers, DeviceError};

/// Where the copies of a task's buffers and the workspace are, as addresses of the device.
pub(super) struct Addresses<'a> {
    pub(super) buffers: u64,
    /// Offset of each buffer within a copy.
    pub(super) offsets: &'a [u64],
    /// Bytes from one copy to the next.
    pub(super) stride: u64,
    pub(super) copies: usize,
    /// 0 for a candidate that asks for none.
    pub(super) workspace: u64,
}

impl<'a> Addresses<'a> {
    pub(super) fn new<M>(buffers: &Buffers<'a, M>, workspace: Option<&M>, address: impl Fn(&M) -> u64) -> Self {
        Self {
            buffers: address(buffers.memory),
            offsets: buffers.offsets,
            stride: buffers.stride,
            copies: buffers.copies,
            workspace: workspace.map_or(0, address),
        }
    }
}

/// The arguments of all launches for every copy of the buffers.
pub(super) struct Bindings {
    /// What `values` of all copies are at; arguments of one copy after those of another.
    pointers: Box<[*mut c_void]>,
    /// For each launch, where its arguments start within those of a copy.
    starts: Vec<usize>,
    /// Arguments of all launches of one copy.
    stride: usize,
    copies: usize,
    /// What the pointers point to.
    _values: Box<[u64]>,
    _maps: Box<[Map]>,
    _structures: Box<[Aligned]>,
}

/// A tensor map of CUDA's, `CUtensorMap`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Map(pub(super) [u64; 16]);

/// A part of a structure. Drivers copy as many bytes as the kernel's parameter has.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Part([u8; 64]);

/// A structure in whole parts, which stay where they are.
type Aligned = Box<[Part]>;

/// The value of an argument.
enum Value {
    /// At the start of a slot.
    Slot(u64),
    Map(Map),
    Structure(Aligned),
}

/// How a device makes a map of a tensor whose first element is at an address.
pub(super) type MakeMap<'a> = &'a dyn Fn(&Tensor, u64) -> Result<Map, DeviceError>;

/// That of a device that has none.
pub(super) fn no_maps(_: &Tensor, _: u64) -> Result<Map, DeviceError> {
    Err(DeviceError::Launch("argument: found a tensor map, which is CUDA's".to_string()))
}

impl Bindings {
    pub(super) fn new(launches: &[Launch], addresses: &Addresses<'_>, make: MakeMap<'_>) -> Result<Self, DeviceError> {
        let mut values = Vec::new();
        for copy in 0..addresses.copies {
            for argument in launches.iter().flat_map(|launch| &launch.arguments) {
                values.push(value(argument, addresses, copy, make)?);
            }
        }
        let slot = |value: &Value| if let Value::Slot(slot) = value { Some(*slot) } else { None };
        let map = |value: &Value| if let Value::Map(map) = value { Some(*map) } else { None };
        let mut slots: Box<[u64]> = values.iter().filter_map(slot).collect();
        let mut maps: Box<[Map]> = values.iter().filter_map(map).collect();
        let (mut of_slots, mut of_maps) = (slots.iter_mut(), maps.iter_mut());
        let mut structures = Vec::new();
        let pointer = |value: Value| match value {
            Value::Slot(_) => of_slots.next().map(|slot| std::ptr::from_mut(slot).cast::<c_void>()),
            Value::Map(_) => of_maps.next().map(|map| std::ptr::from_mut(map).cast::<c_void>()),
            Value::Structure(mut parts) => {
                let pointer = parts.as_mut_ptr().cast::<c_void>();
                structures.push(parts);
                Some(pointer)
            }
        };
        let pointers = values.into_iter().filter_map(pointer).collect();
        let structures = structures.into_boxed_slice();
        let mut stride = 0;
        let mut starts = Vec::new();
        for launch in launches {
            starts.push(stride);
            stride += launch.arguments.len();
        }
        Ok(Self {
            pointers,
            starts,
            stride,
            copies: addresses.copies,
            _values: slots,
            _maps: maps,
            _structures: structures,
        })
    }

    pub(super) fn copies(&self) -> usize {
        self.copies
    }

    /// The arguments of each launch on `copy`. The pointers, and what they point to, live as long as `self`.
    pub(super) fn launches(&self, copy: usize) -> impl Iterator<Item = *mut *mut c_void> + '_ {
        assert!(copy < self.copies);
        // In bounds: there are `copies * stride` pointers, and a launch without arguments may get one past the end.
        let first = self.pointers.as_ptr().wrapping_add(copy * self.stride).cast_mut();
        self.starts.iter().map(move |start| first.wrapping_add(*start))
    }
}

/// The parts of a structure whose pointers are at `address`.
fn aligned(
    structure: &Structure,
    address: impl Fn(Pointed) -> Result<u64, DeviceError>,
) -> Result<Aligned, DeviceError> {
    let bytes = structure.placed(address)?;
    let part = |bytes: &[u8]| {
        let mut part = [0; 64];
        part.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        Part(part)
    };
    // One without bytes is somewhere too.
    Ok(bytes.chunks(64).map(part).chain(bytes.is_empty().then_some(Part([0; 64]))).collect())
}

/// The bytes of an argument.
fn value(argument: &Argument, addresses: &Addresses<'_>, copy: usize, make: MakeMap<'_>) -> Result<Value, DeviceError> {
    let slot = |bytes: [u8; 4]| {
        let mut slot = [0; 8];
        slot[..4].copy_from_slice(&bytes);
        u64::from_ne_bytes(slot)
    };
    let buffer = |index: u16| {
        let offset = addresses.offsets.get(usize::from(index)).ok_or_else(|| {
            DeviceError::Launch(format!(
                "argument: found buffer {index}, expected less than {}",
                addresses.offsets.len()
            ))
        })?;
        Ok::<_, DeviceError>(addresses.buffers + offset + addresses.stride * copy as u64)
    };
    Ok(Value::Slot(match *argument {
        Argument::Structure(ref structure) => {
            let address = |pointed| match pointed {
                Pointed::Buffer { buffer: index, bytes } => Ok(buffer(index)?.wrapping_add(bytes)),
                Pointed::Workspace => Ok(addresses.workspace),
            };
            return aligned(structure, address).map(Value::Structure);
        }
        Argument::Tensor(tensor) => {
            return make(&tensor, buffer(tensor.buffer)?.wrapping_add(tensor.bytes)).map(Value::Map);
        }
        Argument::Buffer(index) => buffer(index)?,
        Argument::BufferAt { buffer: index, bytes } => buffer(index)?.wrapping_add(bytes),
        Argument::Workspace => addresses.workspace,
        Argument::WorkspaceAt(bytes) => addresses.workspace.wrapping_add(bytes),
        Argument::I32(value) => slot(value.to_ne_bytes()),
        Argument::F32(value) => slot(value.to_ne_bytes()),
        Argument::I64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
        Argument::F64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
    }))
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use bluefin_common::structure::Pointer;

    use super::*;

    #[test]
    fn maps_and_numbers_are_where_pointers_say() {
        let tensor = |buffer, bytes| Argument::Tensor(Tensor { buffer, bytes, ..Tensor::default() });
        let arguments = vec![Argument::I32(7), tensor(1, 16), Argument::WorkspaceAt(256), tensor(0, 0)];
        let launch = |arguments| Launch { entry: String::new(), grid: [1; 3], block: [1; 3], shared: 0, arguments };
        let launches = [launch(arguments), launch(vec![Argument::Buffer(1)])];
        let addresses = Addresses { buffers: 4096, offsets: &[0, 512], stride: 1024, copies: 2, workspace: 64 };
        let mark = |tensor: &Tensor, address: u64| Ok(Map([address + u64::from(tensor.buffer); 16]));
        let bindings = Bindings::new(&launches, &addresses, &mark).unwrap();
        for (copy, base) in [(0, 4096), (1, 5120)] {
            let found: Vec<*mut *mut c_void> = bindings.launches(copy).collect();
            let expected = [vec![7, base + 512 + 16 + 1, 64 + 256, base], vec![base + 512]];
            for (pointers, values) in found.into_iter().zip(expected) {
                for (at, value) in values.into_iter().enumerate() {
                    // SAFETY: there are as many pointers as arguments, each to a value of 8 bytes at least.
                    let (address, found) = unsafe { (*pointers.add(at), *(*pointers.add(at)).cast::<u64>()) };
                    assert_eq!(found, value);
                    assert!(!matches!(at, 1 | 3) || (address as usize).is_multiple_of(64));
                }
            }
        }
        assert!(Bindings::new(&launches, &addresses, &no_maps).is_err());
    }

    #[test]
    fn structures_are_aligned_and_have_addresses() {
        let to = Pointed::Buffer { buffer: 1, bytes: 8 };
        let pointers = vec![Pointer { at: 64, to }, Pointer { at: 0, to: Pointed::Workspace }];
        let structure = |pointers| Structure { bytes: vec![5; 80], pointers };
        let arguments = vec![Argument::I32(7), Argument::Structure(structure(pointers)), Argument::Buffer(0)];
        let launches = [Launch { entry: String::new(), grid: [1; 3], block: [1; 3], shared: 0, arguments }];
        let addresses = Addresses { buffers: 4096, offsets: &[0, 512], stride: 1024, copies: 2, workspace: 64 };
        let bindings = Bindings::new(&launches, &addresses, &no_maps).unwrap();
        for (copy, base) in [(0, 4096_u64), (1, 5120)] {
            let pointers = bindings.launches(copy).next().unwrap();
            // SAFETY: there are three pointers, the second to 80 bytes, the third to a value of 8.
            let (address, found, last) = unsafe {
                let (structure, last) = (*pointers.add(1), *pointers.add(2));
                (structure as usize, *structure.cast::<[u8; 80]>(), *last.cast::<u64>())
            };
            let middle = [5_u8; 56];
            let expected = [&64_u64.to_le_bytes()[..], &middle, &(base + 520).to_le_bytes(), &[5; 8]].concat();
            assert_eq!((found.as_slice(), last), (expected.as_slice(), base));
            assert!(address.is_multiple_of(64));
        }
        let beyond = Pointer { at: 0, to: Pointed::Buffer { buffer: 2, bytes: 0 } };
        let arguments = vec![Argument::Structure(structure(vec![beyond]))];
        let launches = [Launch { entry: String::new(), grid: [1; 3], block: [1; 3], shared: 0, arguments }];
        assert!(Bindings::new(&launches, &addresses, &no_maps).is_err());
    }
}
