//! What is the driver's and is given back: memory and modules.

use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

use super::super::DeviceError;
use super::calls::Handle;
use super::error::Class;
use super::library::{Runtime, Special};

/// Device memory. Clones share it.
#[derive(Clone)]
pub struct Memory(Rc<Block>);

struct Block {
    runtime: Rc<Runtime>,
    address: u64,
    bytes: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated and nobody has it any more; no kernel runs, since every launch is waited for. After a
        // fault the call fails, and the process that frees everything is near its end.
        unsafe { (self.runtime.calls.free)(self.address) };
    }
}

impl Memory {
    pub(super) fn allocate(runtime: &Rc<Runtime>, bytes: u64) -> Result<Self, DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two numbers are written.
        let known = unsafe { (runtime.calls.memory_info)(&mut free, &mut total) } == 0;
        let refused = || DeviceError::out_of_memory(bytes, if known { free as u64 } else { 0 });
        let wanted = usize::try_from(bytes.max(1)).map_err(|_| refused())?;
        let mut address = 0;
        // SAFETY: an address is written.
        match runtime.check("allocate", unsafe { (runtime.calls.allocate)(&mut address, wanted) }) {
            Ok(()) => Ok(Self(Rc::new(Block { runtime: Rc::clone(runtime), address, bytes }))),
            Err(error) if error.class() == Class::OutOfMemory => Err(refused()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn address(&self) -> u64 {
        self.0.address
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let to = self.range(offset, bytes.len())?;
        let runtime = &self.0.runtime;
        // SAFETY: `range` checked that as many bytes are there; they are read before the call returns.
        runtime.check("copy to device", unsafe { (runtime.calls.copy_in)(to, bytes.as_ptr().cast(), bytes.len()) })?;
        // They may still be on their way, and no other stream waits for the default one.
        runtime.wait(ptr::null_mut())
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let from = self.range(offset, bytes.len())?;
        // SAFETY: as in `write`.
        let code = unsafe { (self.0.runtime.calls.copy_out)(bytes.as_mut_ptr().cast(), from, bytes.len()) };
        Ok(self.0.runtime.check("copy from device", code)?)
    }

    /// Copies on `stream`, where what follows on it finds the bytes.
    pub(super) fn copy(from: (&Self, u64), to: (&Self, u64), bytes: u64, stream: Handle) -> Result<(), DeviceError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let runtime = &to.0.0.runtime;
        let (from, to) = (from.0.range(from.1, length)?, to.0.range(to.1, length)?);
        // SAFETY: `range` checked that both have as many bytes; memory is freed only when nothing runs.
        Ok(runtime.check("copy on device", unsafe { (runtime.calls.copy)(to, from, length, stream) })?)
    }

    /// Sets bytes on `stream`.
    pub(super) fn fill(&self, offset: u64, byte: u8, bytes: u64, stream: Handle) -> Result<(), DeviceError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let at = self.range(offset, length)?;
        // SAFETY: as in `copy`.
        Ok(self.0.runtime.check("fill memory", unsafe { (self.0.runtime.calls.fill)(at, byte, length, stream) })?)
    }

    fn range(&self, offset: u64, length: usize) -> Result<u64, DeviceError> {
        let Block { address, bytes, .. } = &*self.0;
        match offset.checked_add(length as u64) {
            Some(end) if end <= *bytes => Ok(address + offset),
            _ => Err(DeviceError::Launch(format!("bytes {offset} to {offset}+{length} of a buffer of {bytes}"))),
        }
    }
}

/// A loaded code object.
pub(super) struct Module {
    runtime: Rc<Runtime>,
    module: Handle,
    /// HIP does not copy it.
    _image: Vec<u8>,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded, and its functions are gone with it.
        unsafe { (self.runtime.calls.unload)(self.module) };
    }
}

impl Module {
    pub(super) fn load(runtime: &Rc<Runtime>, code: &[u8]) -> Result<Self, DeviceError> {
        // PTX is text, and ends with a zero.
        let mut image = code.to_vec();
        image.push(0);
        let mut module = ptr::null_mut();
        let (number, log) = match &runtime.special {
            Special::Cuda(special) => special.load(&mut module, &image),
            // SAFETY: the image is one object as its header says; it lives as long as the module.
            Special::Hip(_) => (unsafe { (runtime.calls.load)(&mut module, image.as_ptr().cast()) }, String::new()),
        };
        runtime.check("load module", number).map_err(|mut error| {
            if !log.is_empty() {
                error.text = format!("{}: {log}", error.text);
            }
            error
        })?;
        Ok(Self { runtime: Rc::clone(runtime), module, _image: image })
    }

    /// The kernel of this name; valid as long as `self`.
    pub(super) fn function(&self, entry: &CStr) -> Result<Handle, DeviceError> {
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, and the name is a C string.
        let code = unsafe { (self.runtime.calls.function)(&mut function, self.module, entry.as_ptr()) };
        self.runtime.check("find kernel", code).map_err(|mut error| {
            error.text = format!("{}: {}", entry.to_string_lossy(), error.text);
            error
        })?;
        Ok(function)
    }
}
