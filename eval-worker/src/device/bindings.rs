//! The arguments of a module's launches, as drivers want them: pointers to values.

use std::ffi::c_void;

use bluefin_common::artifact::{Argument, Launch};

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
}

impl Bindings {
    pub(super) fn new(launches: &[Launch], addresses: &Addresses<'_>) -> Result<Self, DeviceError> {
        let mut values = Vec::new();
        for copy in 0..addresses.copies {
            for argument in launches.iter().flat_map(|launch| &launch.arguments) {
                values.push(value(*argument, addresses, copy)?);
            }
        }
        let mut values = values.into_boxed_slice();
        let pointers = values.iter_mut().map(|value| std::ptr::from_mut(value).cast::<c_void>()).collect();
        let mut stride = 0;
        let mut starts = Vec::new();
        for launch in launches {
            starts.push(stride);
            stride += launch.arguments.len();
        }
        Ok(Self { pointers, starts, stride, copies: addresses.copies, _values: values })
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

/// The bytes of an argument, at the start of a slot.
fn value(argument: Argument, addresses: &Addresses<'_>, copy: usize) -> Result<u64, DeviceError> {
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
    Ok(match argument {
        Argument::Buffer(index) => buffer(index)?,
        Argument::BufferAt { buffer: index, bytes } => buffer(index)?.wrapping_add(bytes),
        Argument::Workspace => addresses.workspace,
        Argument::I32(value) => slot(value.to_ne_bytes()),
        Argument::F32(value) => slot(value.to_ne_bytes()),
        Argument::I64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
        Argument::F64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
    })
}
