//! Code objects: shared objects for this machine, which hold kernels as README.md says.

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

use crate::codes::{Code, Result};
use crate::runtime::Geometry;

/// `e_machine` of this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Bytes of an argument.
pub type Value = [u8; 8];

type Run = unsafe extern "C" fn(arguments: *mut *mut c_void, geometry: *const u32);

/// A loaded code object.
pub struct Module {
    library: Library,
    /// The loader knows libraries by their path, which names this descriptor.
    _file: OwnedFd,
}

impl Module {
    /// Loads `image` for a GPU of architecture `arch`.
    ///
    /// # Safety
    /// `image` is an ELF file, or differs from one in its first bytes.
    pub unsafe fn load(image: *const u8, arch: &str) -> Result<Self> {
        // SAFETY: as promised.
        let code = unsafe { image_of(image) }?;
        if half(code, 18) != u64::from(MACHINE) {
            return Err(Code::NO_BINARY_FOR_GPU);
        }
        let module = Self::open(code).ok_or(Code::INVALID_IMAGE)?;
        // SAFETY: by the contract of these code objects it is the beginning of a text.
        let built_for = unsafe { module.library.get::<*const c_char>(b"bluefin_standin_arch") };
        // SAFETY: the same.
        let built_for = built_for.ok().map(|text| unsafe { CStr::from_ptr(text.as_raw_ptr().cast()) });
        match built_for {
            Some(built_for) if built_for.to_bytes() != arch.as_bytes() => Err(Code::NO_BINARY_FOR_GPU),
            _ => Ok(module),
        }
    }

    fn open(code: &[u8]) -> Option<Self> {
        let mut file = std::fs::File::from(memfd_create("hip-module", MemfdFlags::CLOEXEC).ok()?);
        file.write_all(code).ok()?;
        // Out of the reach of kernels that close what is not theirs.
        let file = fcntl_dupfd_cloexec(OwnedFd::from(file), 512).ok()?;
        // SAFETY: its constructors are code of a test.
        let library =
            unsafe { Library::open(Some(format!("/proc/self/fd/{}", file.as_raw_fd())), RTLD_NOW | RTLD_LOCAL) };
        Some(Self { library: library.ok()?, _file: file })
    }
}

/// All of the ELF file that begins at `image`.
///
/// # Safety
/// `image` is an ELF file, which lives as long as the caller says, or differs from one in its first bytes.
pub unsafe fn image_of<'a>(image: *const u8) -> Result<&'a [u8]> {
    // SAFETY: no byte is read behind one that is not as expected.
    if !(0..6).zip([0x7f, b'E', b'L', b'F', 2, 1]).all(|(at, byte)| unsafe { image.add(at).read() } == byte) {
        return Err(Code::INVALID_IMAGE);
    }
    // SAFETY: an ELF file has its header.
    let header = unsafe { std::slice::from_raw_parts(image, 64) };
    // The table of sections is the last thing in a file.
    let size = word(header, 40) + half(header, 58) * half(header, 60);
    // SAFETY: an ELF file is as long as that.
    Ok(unsafe { std::slice::from_raw_parts(image, size as usize) })
}

/// A kernel.
pub struct Function {
    run: Run,
    /// Bytes of each argument, 4 or 8.
    sizes: Vec<u32>,
    module: Arc<Module>,
}

impl Function {
    pub fn find(module: &Arc<Module>, name: &str) -> Result<Self> {
        let (run, list) = (format!("bluefin_standin_{name}"), format!("bluefin_standin_{name}_sizes"));
        // SAFETY: by the contract of these code objects they are of these types.
        let (run, list) = unsafe { (module.library.get::<Run>(&run), module.library.get::<*const u32>(&list)) };
        let (Ok(run), Ok(list)) = (run, list) else { return Err(Code::NOT_FOUND) };
        let list = list.as_raw_ptr().cast::<u32>();
        // SAFETY: the list ends with a zero.
        let sizes = (0..).map(|at| unsafe { list.add(at).read() }).take_while(|size| *size != 0).collect();
        Ok(Self { run: *run, sizes, module: Arc::clone(module) })
    }

    pub fn is_of(&self, module: &Arc<Module>) -> bool {
        Arc::ptr_eq(&self.module, module)
    }

    /// What the arguments are now: they may change once a launch has returned.
    ///
    /// # Safety
    /// `arguments` points to as many pointers as there are arguments, and each of them to its value.
    pub unsafe fn copy_arguments(&self, arguments: *mut *mut c_void) -> Result<Vec<Value>> {
        if arguments.is_null() && !self.sizes.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        let copy = |(at, size): (usize, &u32)| {
            // SAFETY: as promised.
            let from = unsafe { arguments.add(at).read() }.cast::<u8>();
            let size = (*size as usize).min(size_of::<Value>());
            if from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            let mut value = Value::default();
            // SAFETY: as promised.
            unsafe { value.as_mut_ptr().copy_from_nonoverlapping(from, size) };
            Ok(value)
        };
        self.sizes.iter().enumerate().map(copy).collect()
    }

    pub fn run(&self, geometry: Geometry, arguments: &mut [Value]) {
        let mut pointers: Vec<*mut c_void> = arguments.iter_mut().map(|value| value.as_mut_ptr().cast()).collect();
        let ([x, y, z], [block_x, block_y, block_z]) = (geometry.grid, geometry.block);
        let numbers = [x, y, z, block_x, block_y, block_z, geometry.shared];
        // SAFETY: by the contract of these code objects; what it does beyond that is trapped.
        unsafe { (self.run)(pointers.as_mut_ptr(), numbers.as_ptr()) };
    }
}

/// The little-endian number of two bytes at `at`.
fn half(header: &[u8], at: usize) -> u64 {
    u64::from(header[at]) | u64::from(header[at + 1]) << 8
}

/// The little-endian number of eight bytes at `at`.
fn word(header: &[u8], at: usize) -> u64 {
    (0..4).map(|part| half(header, at + 2 * part) << (16 * part)).sum()
}
