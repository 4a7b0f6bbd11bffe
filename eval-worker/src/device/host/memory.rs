//! Memory of the host device: pages of their own, with pages that fault on either side.

use std::ffi::c_void;
use std::fs;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use bluefin_common::control_group::{ControlGroup, Room};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

use super::super::DeviceError;
use super::eviction;

/// Unit of mappings: a multiple of the page size of every machine.
const PAGE: u64 = 64 << 10;
/// Left to the rest of the machine, so that the kernel does not have to kill someone.
const RESERVE: u64 = 64 << 20;

/// Bytes that kernels read and write. Clones share them.
#[derive(Clone)]
pub struct Memory(Rc<Mapping>);

struct Mapping {
    /// Of the mapping; the bytes start one page later.
    base: NonNull<c_void>,
    /// Of the mapping in bytes.
    mapped: usize,
    /// Usable bytes.
    bytes: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has it any more. An error would leave it mapped, which harms nobody.
        let _ = unsafe { munmap(self.base.as_ptr(), self.mapped) };
    }
}

impl Memory {
    /// Memory of `bytes` bytes, all zero, if the machine and `group` have that much.
    pub(super) fn allocate(bytes: u64, group: &ControlGroup) -> Result<Self, DeviceError> {
        let refused = || DeviceError::OutOfMemory(refusal(bytes, group));
        if !fits(bytes, group) {
            return Err(refused());
        }
        let usable = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(refused)?;
        let usable = usize::try_from(usable).map_err(|_| refused())?;
        let page = PAGE as usize;
        let mapped = usable + 2 * page;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) };
        let base = base.ok().and_then(NonNull::new).ok_or_else(refused)?;
        let mapping = Mapping { base, mapped, bytes };
        // SAFETY: the range lies within the mapping, which nobody else knows yet.
        unsafe { mprotect(base.as_ptr().byte_add(page), usable, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| refused())?;
        let memory = Self(Rc::new(mapping));
        // Taken now, so that it is not available to whoever asks next.
        // SAFETY: the range lies within the mapping; its bytes stay what they are.
        let taken = unsafe { madvise(memory.start().cast(), usable, Advice::LinuxPopulateWrite) };
        if taken == Err(Errno::INVAL) {
            // A kernel before 5.14.
            // SAFETY: as in `write`.
            unsafe { ptr::write_bytes(memory.start(), 0, usable) };
        }
        Ok(memory)
    }

    /// The address of the first byte.
    pub(super) fn address(&self) -> u64 {
        self.start().expose_provenance() as u64
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let at = self.range(offset, bytes.len())?;
        // SAFETY: `range` checked that `at` has that many bytes; no reference into the mapping ever exists, and no kernel
        // runs now, since they run on this thread.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
        Ok(())
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.range(offset, bytes.len())?;
        // SAFETY: as in `write`; the bytes are initialised, since the pages of a new mapping are zero.
        unsafe { ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    pub(super) fn copy(from: (&Self, u64), to: (&Self, u64), bytes: u64) -> Result<(), DeviceError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (from, to) = (from.0.range(from.1, length)?, to.0.range(to.1, length)?);
        // SAFETY: as in `write` and `read`; ranges may overlap here.
        unsafe { ptr::copy(from, to, length) };
        Ok(())
    }

    pub(super) fn fill(&self, offset: u64, byte: u8, bytes: u64) -> Result<(), DeviceError> {
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let at = self.range(offset, length)?;
        // SAFETY: as in `write`.
        unsafe { ptr::write_bytes(at, byte, length) };
        Ok(())
    }

    /// Evicts from all caches what is at `offset` and up to `bytes` bytes behind it.
    pub(super) fn evict(&self, offset: u64, bytes: u64) {
        let offset = offset.min(self.0.bytes);
        let bytes = bytes.min(self.0.bytes - offset) as usize;
        // SAFETY: cut to the mapping, which can be read.
        unsafe { eviction::evict(self.start().wrapping_add(offset as usize), bytes) };
    }

    fn start(&self) -> *mut u8 {
        self.0.base.as_ptr().cast::<u8>().wrapping_add(PAGE as usize)
    }

    fn range(&self, offset: u64, length: usize) -> Result<*mut u8, DeviceError> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.0.bytes) {
            let bytes = self.0.bytes;
            return Err(DeviceError::Launch(format!("bytes {offset} to {offset}+{length} of a buffer of {bytes}")));
        }
        Ok(self.start().wrapping_add(offset as usize))
    }
}

/// Whether `bytes` bytes can be allocated without anyone being killed for it.
pub(super) fn fits(bytes: u64, group: &ControlGroup) -> bool {
    let group = group.room().map_or(u64::MAX, |room| room.available);
    bytes <= machine().min(group).saturating_sub(RESERVE)
}

/// Says that `bytes` bytes were wanted, what is available, and who limits it.
pub(super) fn refusal(bytes: u64, group: &ControlGroup) -> String {
    let machine = machine();
    match group.room().filter(|room| room.available < machine) {
        Some(Room { available, limit, file }) => {
            let (available, file) = (available.saturating_sub(RESERVE), file.display());
            format!("{bytes} bytes wanted, {available} available: the control group may have {limit}, {file}")
        }
        None => DeviceError::out_of_memory(bytes, machine.saturating_sub(RESERVE)).to_string(),
    }
}

/// Bytes that the machine has left.
fn machine() -> u64 {
    fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_of_machine(&text)).unwrap_or(u64::MAX)
}

/// Bytes that the machine has.
pub(super) fn total() -> u64 {
    fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:")).unwrap_or_default()
}

fn available_of_machine(meminfo: &str) -> Option<u64> {
    field(meminfo, "MemAvailable:")
}

fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn allocate(bytes: u64) -> Result<Memory, DeviceError> {
        Memory::allocate(bytes, &ControlGroup::of_this_process(Path::new("/")))
    }

    #[test]
    fn holds_what_was_written() {
        let memory = allocate(100_000).unwrap();
        memory.write(99_997, b"fin").unwrap();
        let mut bytes = [1; 4];
        memory.read(99_996, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0fin");
        assert!(memory.address().is_multiple_of(256));
        let other = allocate(8).unwrap();
        other.fill(2, 7, 3).unwrap();
        Memory::copy((&memory, 99_997), (&other, 3), 3).unwrap();
        let mut bytes = [1; 8];
        other.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0\x07fin\0\0");
    }

    #[test]
    fn nothing_beyond_its_end() {
        let memory = allocate(10).unwrap();
        assert!(memory.write(8, b"fin").is_err());
        assert!(memory.read(u64::MAX, &mut [0]).is_err());
        assert!(memory.fill(1, 0, 1 << 40).is_err());
        assert!(Memory::copy((&memory, 0), (&allocate(1).unwrap(), 0), 1 << 20).is_err());
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for bytes in [1 << 45, u64::MAX] {
            let Err(error) = allocate(bytes) else { panic!("{bytes}") };
            assert!(error.to_string().starts_with(&format!("{bytes} bytes wanted")), "{error}");
        }
    }

    #[test]
    fn more_than_the_control_group_has_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "0::/job/step\n");
        write("proc/self/mountinfo", "30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n");
        write("groups/job/memory.max", &(100 << 20).to_string());
        write("groups/job/memory.current", &(26 << 20).to_string());
        write("groups/job/step/memory.max", "max\n");
        let group = ControlGroup::of_this_process(root.path());
        assert!(Memory::allocate(10 << 20, &group).is_ok());
        let Err(error) = Memory::allocate((10 << 20) + 1, &group) else { panic!("10 MiB are left") };
        let expected = "10485761 bytes wanted, 10485760 available: the control group may have 104857600, ";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn what_was_allocated_is_gone_at_once() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            field(&status, "VmRSS:").unwrap()
        };
        let before = resident();
        let memory = allocate(256 << 20).unwrap();
        assert!(resident() >= before + (192 << 20), "not when it is touched");
        drop(memory);
    }

    #[test]
    fn meminfo() {
        let text = "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:     50 kB\n";
        assert_eq!(available_of_machine(text), Some(51_200));
        assert_eq!(available_of_machine("MemTotal: 100 kB\n"), None);
    }
}
