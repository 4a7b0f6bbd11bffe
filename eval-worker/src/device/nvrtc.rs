//! NVRTC, CUDA's compiler as a library. Its calls are in this folder because they are unsafe; no device is needed for them.
#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::DirEntry;
use std::path::Path;
use std::ptr;

use libloading::Library;

/// What a call returns where all is well, and what `nvrtcCompileProgram` returns where the source is at fault: `nvrtc.h`.
const SUCCESS: c_int = 0;
const COMPILATION: c_int = 6;

/// A program that is compiled.
type Handle = *mut c_void;

type OfTwo = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type OfOne = unsafe extern "C" fn(*mut c_int) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type Text = unsafe extern "C" fn(c_int) -> *const c_char;

/// What the library loads when it compiles, by name: begins the name of a file that lies beside it.
const BUILTINS: &str = "libnvrtc-builtins.so";

/// The library, loaded. Releases 11.2 and later have all that is called.
pub struct Nvrtc {
    library: Library,
    /// It is found by its name once it is loaded, also where the loader does not look, as in a folder of Python's.
    _builtins: Vec<Library>,
}

impl Nvrtc {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// What the loader says.
    pub fn open(path: &Path) -> Result<Self, String> {
        let beside = path.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
        let is_builtins = |file: &DirEntry| file.file_name().to_string_lossy().starts_with(BUILTINS);
        let builtins = beside.filter(is_builtins);
        // SAFETY: these are CUDA's, which run nothing of a candidate when they are loaded. One that can not be is told of when it is missed.
        let builtins = builtins.filter_map(|file| unsafe { Library::new(file.path()) }.ok()).collect();
        // SAFETY: so is this.
        let library = unsafe { Library::new(path) };
        let said = |error: libloading::Error| error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let library = library.map_err(|error| format!("{}: {}", path.display(), said(error)))?;
        Ok(Self { library, _builtins: builtins })
    }

    /// The release: 13 and 0 for CUDA 13.0.
    ///
    /// # Errors
    /// It is no NVRTC.
    pub fn release(&self) -> Result<(c_int, c_int), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: nvrtc.h declares `nvrtcVersion` like that; both pointers are to live numbers.
        let result = unsafe { self.call::<OfTwo>("nvrtcVersion")?(&raw mut major, &raw mut minor) };
        self.succeeded("nvrtcVersion", result)?;
        Ok((major, minor))
    }

    /// The architectures that it compiles for, by number: 90 for sm_90.
    ///
    /// # Errors
    /// It does not tell.
    pub fn architectures(&self) -> Result<Vec<c_int>, String> {
        let mut count = 0;
        // SAFETY: nvrtc.h declares it like that; the pointer is to a live number.
        let result = unsafe { self.call::<OfOne>("nvrtcGetNumSupportedArchs")?(&raw mut count) };
        self.succeeded("nvrtcGetNumSupportedArchs", result)?;
        let mut known = vec![0; usize::try_from(count).unwrap_or_default()];
        // SAFETY: nvrtc.h declares it like that; there is room for as many numbers as it said.
        let result = unsafe { self.call::<OfOne>("nvrtcGetSupportedArchs")?(known.as_mut_ptr()) };
        self.succeeded("nvrtcGetSupportedArchs", result)?;
        Ok(known)
    }

    /// The code object of `source`, which messages call `name`.
    ///
    /// # Errors
    /// What the compiler says of the source, or that it can not compile.
    pub fn compile(&self, name: &CStr, source: &CStr, options: &[CString]) -> Result<Vec<u8>, String> {
        let mut program = Program { nvrtc: self, handle: ptr::null_mut() };
        let (source, name) = (source.as_ptr(), name.as_ptr());
        // SAFETY: nvrtc.h declares it like that; the texts end with a zero and live on, and there are no headers.
        let result = unsafe {
            self.call::<Create>("nvrtcCreateProgram")?(
                &raw mut program.handle,
                source,
                name,
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        self.succeeded("nvrtcCreateProgram", result)?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(options.len()).map_err(|_| "too many options".to_string())?;
        // SAFETY: the handle is that of a program; there are as many options, which end with a zero, as it is told.
        let result = unsafe { self.call::<Compile>("nvrtcCompileProgram")?(program.handle, count, options.as_ptr()) };
        if result != SUCCESS {
            let said = program.bytes("nvrtcGetProgramLogSize", "nvrtcGetProgramLog").unwrap_or_default();
            let said = String::from_utf8_lossy(&said).trim_matches('\0').trim().to_string();
            let why = if result == COMPILATION { String::new() } else { self.told("nvrtcCompileProgram", result) };
            return Err([why, said].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"));
        }
        program.bytes("nvrtcGetCUBINSize", "nvrtcGetCUBIN")
    }

    /// The function `name`, whose type is `T` by `nvrtc.h`.
    fn call<T: Copy>(&self, name: &'static str) -> Result<T, String> {
        // SAFETY: all callers name the type that nvrtc.h declares, and call it while the library is loaded.
        let symbol = unsafe { self.library.get::<T>(name) };
        symbol.map(|symbol| *symbol).map_err(|_| format!("it has no {name}, expected NVRTC 11.2 or later"))
    }

    fn succeeded(&self, call: &str, result: c_int) -> Result<(), String> {
        if result == SUCCESS { Ok(()) } else { Err(self.told(call, result)) }
    }

    /// What a result of `call` means.
    fn told(&self, call: &str, result: c_int) -> String {
        let text = self.call::<Text>("nvrtcGetErrorString").map(|text| {
            // SAFETY: nvrtc.h declares it like that; it takes any number.
            let text = unsafe { text(result) };
            // SAFETY: what it returns is a text of the library, which stays.
            (!text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().replace('_', " ").to_lowercase())
        });
        format!("{call}: {}", text.ok().flatten().unwrap_or_else(|| format!("error {result}")))
    }
}

/// A program of NVRTC's, freed when it is dropped.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl Program<'_> {
    /// What `get` writes, as many bytes as `size` says.
    fn bytes(&self, size: &'static str, get: &'static str) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: nvrtc.h declares both kinds like that; the handle is that of a program.
        let result = unsafe { self.nvrtc.call::<Size>(size)?(self.handle, &raw mut length) };
        self.nvrtc.succeeded(size, result)?;
        let mut bytes = vec![0; length];
        // SAFETY: there is room for as many bytes as it said.
        let result = unsafe { self.nvrtc.call::<Bytes>(get)?(self.handle, bytes.as_mut_ptr().cast()) };
        self.nvrtc.succeeded(get, result)?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if let Ok(destroy) = self.nvrtc.call::<Destroy>("nvrtcDestroyProgram") {
            // SAFETY: the handle is that of a program or null, which it refuses.
            unsafe { destroy(&raw mut self.handle) };
        }
    }
}
