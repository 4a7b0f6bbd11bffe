//! HIP as a C program would call it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use libloading::Library;

type Pointer = *mut c_void;

/// The loaded library.
pub struct Hip(Library);

/// Whether a call went well.
pub type Result<T> = std::result::Result<T, c_int>;

macro_rules! call {
    ($hip:expr, $name:literal, $($argument:expr => $type:ty),*) => {{
        // SAFETY: HIP's signature, and arguments that live as long as the call.
        let code = unsafe {
            let function = $hip.0.get::<unsafe extern "C" fn($($type),*) -> c_int>($name).expect($name);
            function($($argument),*)
        };
        if code == 0 { Ok(()) } else { Err(code) }
    }};
}

impl Hip {
    pub fn load(path: &Path) -> Self {
        // SAFETY: the stand-in's constructors do nothing.
        let hip = Self(unsafe { Library::new(path) }.unwrap());
        assert_eq!(call!(hip, "hipInit", 0 => c_uint), Ok(()));
        hip
    }

    pub fn has(&self, symbol: &str) -> bool {
        // SAFETY: only looked for.
        unsafe { self.0.get::<Pointer>(symbol) }.is_ok()
    }

    pub fn init(&self) -> Result<()> {
        call!(self, "hipInit", 0 => c_uint)
    }

    pub fn count(&self) -> Result<i32> {
        let mut count = -1;
        call!(self, "hipGetDeviceCount", &raw mut count => *mut c_int)?;
        Ok(count)
    }

    pub fn select(&self, device: c_int) -> Result<()> {
        call!(self, "hipSetDevice", device => c_int)
    }

    pub fn name(&self, device: c_int) -> Result<String> {
        self.text(|to| call!(self, "hipDeviceGetName", to => *mut c_char, 64 => c_int, device => c_int))
    }

    pub fn pci_bus_id(&self, device: c_int) -> Result<String> {
        self.text(|to| call!(self, "hipDeviceGetPCIBusId", to => *mut c_char, 64 => c_int, device => c_int))
    }

    pub fn uuid(&self, device: c_int) -> Result<String> {
        let mut uuid = [0_u8; 16];
        call!(self, "hipDeviceGetUuid", &raw mut uuid => *mut [u8; 16], device => c_int)?;
        Ok(String::from_utf8(uuid.to_vec()).unwrap())
    }

    pub fn attribute(&self, attribute: c_uint, device: c_int) -> Result<i32> {
        let mut value = -1;
        call!(
            self,
            "hipDeviceGetAttribute",
            &raw mut value => *mut c_int, attribute => c_uint, device => c_int
        )?;
        Ok(value)
    }

    pub fn version(&self) -> Result<i32> {
        let mut version = -1;
        call!(self, "hipDriverGetVersion", &raw mut version => *mut c_int)?;
        Ok(version)
    }

    pub fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        call!(self, "hipMemGetInfo", &raw mut free => *mut usize, &raw mut total => *mut usize)?;
        Ok((free, total))
    }

    pub fn malloc(&self, bytes: usize) -> Result<Pointer> {
        let mut address = ptr::null_mut();
        call!(self, "hipMalloc", &raw mut address => *mut Pointer, bytes => usize)?;
        Ok(address)
    }

    pub fn free(&self, address: Pointer) -> Result<()> {
        call!(self, "hipFree", address => Pointer)
    }

    pub fn write(&self, to: Pointer, floats: &[f32]) -> Result<()> {
        call!(self, "hipMemcpyHtoD", to => Pointer, floats.as_ptr() => *const f32, size_of_val(floats) => usize)
    }

    pub fn read(&self, from: Pointer, count: usize) -> Result<Vec<f32>> {
        let mut floats = vec![0.0; count];
        call!(self, "hipMemcpyDtoH", floats.as_mut_ptr() => *mut f32, from => Pointer, 4 * count => usize)?;
        Ok(floats)
    }

    pub fn copy(&self, to: Pointer, from: Pointer, bytes: usize, stream: Pointer) -> Result<()> {
        call!(
            self,
            "hipMemcpyDtoDAsync",
            to => Pointer, from => Pointer, bytes => usize, stream => Pointer
        )
    }

    pub fn fill(&self, to: Pointer, value: i32, count: usize, stream: Pointer) -> Result<()> {
        call!(
            self,
            "hipMemsetD32Async",
            to => Pointer, value => c_int, count => usize, stream => Pointer
        )
    }

    pub fn load_module(&self, image: &[u8]) -> Result<Pointer> {
        let mut module = ptr::null_mut();
        call!(self, "hipModuleLoadData", &raw mut module => *mut Pointer, image.as_ptr() => *const u8)?;
        Ok(module)
    }

    pub fn unload(&self, module: Pointer) -> Result<()> {
        call!(self, "hipModuleUnload", module => Pointer)
    }

    pub fn function(&self, module: Pointer, name: &str) -> Result<Pointer> {
        let (name, mut function) = (CString::new(name).unwrap(), ptr::null_mut());
        call!(
            self,
            "hipModuleGetFunction",
            &raw mut function => *mut Pointer, module => Pointer, name.as_ptr() => *const c_char
        )?;
        Ok(function)
    }

    /// Launches with one block of `threads`, and the arguments that the pointers point to.
    pub fn launch(&self, function: Pointer, threads: u32, stream: Pointer, arguments: &mut [Pointer]) -> Result<()> {
        call!(
            self,
            "hipModuleLaunchKernel",
            function => Pointer, 2 => c_uint, 1 => c_uint, 1 => c_uint, threads => c_uint, 1 => c_uint, 1 => c_uint,
            0 => c_uint, stream => Pointer, arguments.as_mut_ptr() => *mut Pointer, ptr::null_mut() => *mut Pointer
        )
    }

    pub fn stream(&self) -> Result<Pointer> {
        let mut stream = ptr::null_mut();
        call!(self, "hipStreamCreateWithFlags", &raw mut stream => *mut Pointer, 1 => c_uint)?;
        Ok(stream)
    }

    pub fn synchronize(&self, stream: Pointer) -> Result<()> {
        call!(self, "hipStreamSynchronize", stream => Pointer)
    }

    pub fn query(&self, stream: Pointer) -> Result<()> {
        call!(self, "hipStreamQuery", stream => Pointer)
    }

    pub fn destroy_stream(&self, stream: Pointer) -> Result<()> {
        call!(self, "hipStreamDestroy", stream => Pointer)
    }

    pub fn event(&self) -> Result<Pointer> {
        let mut event = ptr::null_mut();
        call!(self, "hipEventCreateWithFlags", &raw mut event => *mut Pointer, 0 => c_uint)?;
        Ok(event)
    }

    pub fn record(&self, event: Pointer, stream: Pointer) -> Result<()> {
        call!(self, "hipEventRecord", event => Pointer, stream => Pointer)
    }

    pub fn synchronize_event(&self, event: Pointer) -> Result<()> {
        call!(self, "hipEventSynchronize", event => Pointer)
    }

    pub fn elapsed(&self, from: Pointer, to: Pointer) -> Result<f32> {
        let mut ms = -1.0;
        call!(self, "hipEventElapsedTime", &raw mut ms => *mut f32, from => Pointer, to => Pointer)?;
        Ok(ms)
    }

    pub fn destroy_event(&self, event: Pointer) -> Result<()> {
        call!(self, "hipEventDestroy", event => Pointer)
    }

    pub fn synchronize_device(&self) -> Result<()> {
        call!(self, "hipDeviceSynchronize",)
    }

    pub fn error_name(&self, code: c_int) -> String {
        // SAFETY: HIP's signature; the text is static.
        unsafe {
            let function =
                self.0.get::<unsafe extern "C" fn(c_int) -> *const c_char>("hipGetErrorName").expect("hipGetErrorName");
            CStr::from_ptr(function(code)).to_str().unwrap().to_string()
        }
    }

    fn text(&self, call: impl FnOnce(*mut c_char) -> Result<()>) -> Result<String> {
        let mut bytes = [1_u8; 64];
        call(bytes.as_mut_ptr().cast())?;
        Ok(CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_string())
    }
}
