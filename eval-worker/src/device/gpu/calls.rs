//! The calls of a GPU's driver. CUDA's driver API and HIP have the same calls with the same signatures under different
//! names, so one table holds either; what differs is in [`super::cuda`] and [`super::hip`].
//!
//! All symbols are looked up once, when the library is opened: one that is missing is an error that names it, not a crash
//! in the middle of a job. Results are plain integers, since a newer driver may return a number that no enum of today has.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

/// A module, function, stream or event of the driver.
pub(super) type Handle = *mut c_void;

/// Looks up a symbol that has the signature `F`.
///
/// # Safety
/// It must have that signature, and may only be called while `library` is loaded.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller's promise.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

/// A symbol that a library may lack.
///
/// # Safety
/// As for [`symbol`].
pub(super) unsafe fn optional<F: Copy>(library: &Library, name: &'static str) -> Option<F> {
    // SAFETY: the caller's promise.
    unsafe { symbol(library, name) }
}

/// A symbol that only one interface has.
///
/// # Safety
/// As for [`symbol`].
pub(super) unsafe fn needed<F: Copy>(library: &Library, name: &'static str) -> Result<F, &'static str> {
    // SAFETY: the caller's promise.
    unsafe { symbol(library, name) }.ok_or(name)
}

/// The text at a pointer that a driver gave.
///
/// # Safety
/// It is null, or a C string that lives for the call.
pub(super) unsafe fn driver_text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".to_string();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Numbers of the attributes that are asked for; the two interfaces count them differently.
pub(super) struct Attributes {
    pub(super) units: c_int,
    pub(super) clock: c_int,
    pub(super) memory_clock: c_int,
    pub(super) cache: c_int,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}

macro_rules! calls {
    ($($field:ident: $cuda:ident | $hip:ident ( $($argument:ty),* );)*) => {
        /// The calls that both interfaces have.
        pub(super) struct Calls {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Calls {
            /// Looks up CUDA's names, or HIP's; the names that `library` lacks.
            pub(super) fn resolve(library: &Library, cuda: bool) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    let name = if cuda { stringify!($cuda) } else { stringify!($hip) };
                    // SAFETY: the signature is that of cuda.h and hip_runtime_api.h for these names; whoever holds the
                    // table holds the library.
                    let $field = unsafe { symbol::<unsafe extern "C" fn($($argument),*) -> c_int>(library, name) };
                    if $field.is_none() {
                        missing.push(name);
                    }
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Self { $($field),* }),
                    _ => Err(missing),
                }
            }
        }
    };
}

calls! {
    init: cuInit | hipInit(c_uint);
    driver_version: cuDriverGetVersion | hipDriverGetVersion(*mut c_int);
    count: cuDeviceGetCount | hipGetDeviceCount(*mut c_int);
    device: cuDeviceGet | hipDeviceGet(*mut c_int, c_int);
    name: cuDeviceGetName | hipDeviceGetName(*mut c_char, c_int, c_int);
    uuid: cuDeviceGetUuid_v2 | hipDeviceGetUuid(*mut [u8; 16], c_int);
    attribute: cuDeviceGetAttribute | hipDeviceGetAttribute(*mut c_int, c_int, c_int);
    total_memory: cuDeviceTotalMem_v2 | hipDeviceTotalMem(*mut usize, c_int);
    pci: cuDeviceGetPCIBusId | hipDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    memory_info: cuMemGetInfo_v2 | hipMemGetInfo(*mut usize, *mut usize);
    allocate: cuMemAlloc_v2 | hipMalloc(*mut u64, usize);
    free: cuMemFree_v2 | hipFree(u64);
    copy_in: cuMemcpyHtoD_v2 | hipMemcpyHtoD(u64, *const c_void, usize);
    copy_out: cuMemcpyDtoH_v2 | hipMemcpyDtoH(*mut c_void, u64, usize);
    copy: cuMemcpyDtoDAsync_v2 | hipMemcpyDtoDAsync(u64, u64, usize, Handle);
    fill: cuMemsetD8Async | hipMemsetD8Async(u64, u8, usize, Handle);
    load: cuModuleLoadData | hipModuleLoadData(*mut Handle, *const c_void);
    unload: cuModuleUnload | hipModuleUnload(Handle);
    function: cuModuleGetFunction | hipModuleGetFunction(*mut Handle, Handle, *const c_char);
    launch: cuLaunchKernel | hipModuleLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
    stream: cuStreamCreate | hipStreamCreateWithFlags(*mut Handle, c_uint);
    destroy_stream: cuStreamDestroy_v2 | hipStreamDestroy(Handle);
    wait: cuStreamSynchronize | hipStreamSynchronize(Handle);
    query: cuStreamQuery | hipStreamQuery(Handle);
    event: cuEventCreate | hipEventCreateWithFlags(*mut Handle, c_uint);
    destroy_event: cuEventDestroy_v2 | hipEventDestroy(Handle);
    record: cuEventRecord | hipEventRecord(Handle, Handle);
    elapsed: cuEventElapsedTime | hipEventElapsedTime(*mut f32, Handle, Handle);
}
