//! What a kernel takes of a GPU, as its driver says of what it loaded, and whether the GPU has as much.

use std::ffi::{c_int, c_void};

use bluefin_common::outcome::Resources;
use libloading::Library;

use super::super::DeviceError;
use super::calls::{Handle, optional};
use super::kernel::Kernel;

/// Numbers of a function's attributes, which are the same in cuda.h and hip_runtime_api.h.
const MAX_THREADS: c_int = 0;
const SHARED: c_int = 1;
const LOCAL: c_int = 3;
const REGISTERS: c_int = 4;

type Attribute = unsafe extern "C" fn(*mut c_int, c_int, Handle) -> c_int;
type Resident = unsafe extern "C" fn(*mut c_int, Handle, c_int, usize) -> c_int;

/// The calls that say it. A driver may lack them, as what stands in for one does: nobody says what a kernel takes then.
pub(super) struct Questions {
    attribute: Option<Attribute>,
    resident: Option<Resident>,
}

impl Questions {
    pub(super) fn resolve(library: &Library, cuda: bool) -> Self {
        let [attribute, resident] = match cuda {
            true => ["cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"],
            false => ["hipFuncGetAttribute", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"],
        };
        // SAFETY: the signatures are those of cuda.h and hip_runtime_api.h; whoever holds these holds the library.
        unsafe { Self { attribute: optional(library, attribute), resident: optional(library, resident) } }
    }

    fn attribute(&self, function: Handle, attribute: c_int) -> Option<u32> {
        let (ask, mut value) = (self.attribute?, 0);
        // SAFETY: the function is one of a loaded module, and a number is written.
        let code = unsafe { ask(&mut value, attribute, function) };
        u32::try_from(value).ok().filter(|_| code == 0)
    }

    fn resident(&self, kernel: &Kernel) -> Option<u32> {
        let (ask, mut blocks) = (self.resident?, 0);
        let threads = c_int::try_from(kernel.threads()).ok()?;
        // SAFETY: the same.
        let code = unsafe { ask(&mut blocks, kernel.function.cast::<c_void>(), threads, kernel.shared as usize) };
        u32::try_from(blocks).ok().filter(|_| code == 0)
    }

    /// What `kernel` takes. `None`: the driver does not say.
    pub(super) fn of(&self, kernel: &Kernel) -> Option<Resources> {
        let ask = |attribute| self.attribute(kernel.function, attribute);
        Some(Resources {
            registers: ask(REGISTERS)?,
            spilled: ask(LOCAL)?,
            shared: ask(SHARED)?.saturating_add(kernel.shared),
            resident: self.resident(kernel),
        })
    }

    /// Whether a GPU whose blocks have up to `shared` bytes of shared memory can run `kernel`, the entry `name`: said before anything
    /// runs, with what it needs and what there is. 0 bytes: nobody knows how many there are.
    ///
    /// # Errors
    /// If it can not.
    pub(super) fn fits(&self, kernel: &Kernel, name: &str, shared: u64) -> Result<(), DeviceError> {
        let Some(taken) = self.of(kernel) else { return Ok(()) };
        let most = self.attribute(kernel.function, MAX_THREADS);
        refuse(name, kernel.threads(), most, taken, shared).map_or(Ok(()), |reason| Err(DeviceError::Launch(reason)))
    }
}

/// Why a block of so many threads can not be had.
fn refuse(name: &str, threads: u64, most: Option<u32>, taken: Resources, shared: u64) -> Option<String> {
    if let Some(most) = most.filter(|most| threads > u64::from(*most)) {
        let Resources { registers, .. } = taken;
        return Some(format!(
            "{name}: a block has {threads} threads of {registers} registers, expected at most {most} of this kernel"
        ));
    }
    let too_much = shared > 0 && u64::from(taken.shared) > shared;
    too_much
        .then(|| format!("{name}: a block takes {} bytes of shared memory, expected at most {shared}", taken.shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_fit_says_what_it_needs_and_what_there_is() {
        let taken = Resources { registers: 168, spilled: 0, shared: 70_000, resident: Some(0) };
        let refused = |threads, most, shared| refuse("tile", threads, most, taken, shared);
        assert_eq!(refused(256, Some(384), 232_448), None);
        assert_eq!(refused(384, Some(384), 0), None, "nobody knows how much there is");
        assert_eq!(refused(1024, None, 70_000), None);
        assert_eq!(
            refused(512, Some(384), 65_536).unwrap(),
            "tile: a block has 512 threads of 168 registers, expected at most 384 of this kernel"
        );
        assert_eq!(
            refused(256, Some(384), 65_536).unwrap(),
            "tile: a block takes 70000 bytes of shared memory, expected at most 65536"
        );
    }
}
