//! The functions of `libcuda.so.1` that are needed, by the names and signatures of `cuda.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

type Pointer = *mut c_void;

macro_rules! driver {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver, loaded until the process ends.
        pub struct Driver {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            pub fn load() -> Result<Self, libloading::Error> {
                // SAFETY: the driver's constructors are meant to be run.
                let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) }?;
                // SAFETY: these are the signatures of `cuda.h`.
                let driver = unsafe { Self { $($name: *library.get($symbol)?,)* } };
                std::mem::forget(library);
                Ok(driver)
            }
        }
    };
}

driver! {
    init: "cuInit" (c_uint);
    driver_get_version: "cuDriverGetVersion" (*mut c_int);
    device_get_count: "cuDeviceGetCount" (*mut c_int);
    device_get: "cuDeviceGet" (*mut c_int, c_int);
    device_get_name: "cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_get_uuid: "cuDeviceGetUuid_v2" (*mut [u8; 16], c_int);
    device_get_attribute: "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    device_total_memory: "cuDeviceTotalMem_v2" (*mut usize, c_int);
    device_get_pci_bus_id: "cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
    primary_context_retain: "cuDevicePrimaryCtxRetain" (*mut Pointer, c_int);
    context_set_current: "cuCtxSetCurrent" (Pointer);
    context_synchronize: "cuCtxSynchronize" ();
    memory_get_info: "cuMemGetInfo_v2" (*mut usize, *mut usize);
    memory_allocate: "cuMemAlloc_v2" (*mut u64, usize);
    memory_free: "cuMemFree_v2" (u64);
    copy_to_device: "cuMemcpyHtoD_v2" (u64, *const c_void, usize);
    copy_to_host: "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    copy_on_device: "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Pointer);
    fill_bytes: "cuMemsetD8Async" (u64, u8, usize, Pointer);
    fill_words: "cuMemsetD32Async" (u64, c_uint, usize, Pointer);
    module_load: "cuModuleLoadData" (*mut Pointer, *const c_void);
    module_unload: "cuModuleUnload" (Pointer);
    module_get_function: "cuModuleGetFunction" (*mut Pointer, Pointer, *const c_char);
    function_set_attribute: "cuFuncSetAttribute" (Pointer, c_int, c_int);
    launch: "cuLaunchKernel" (
        Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *mut Pointer
    );
    stream_create: "cuStreamCreate" (*mut Pointer, c_uint);
    stream_destroy: "cuStreamDestroy_v2" (Pointer);
    stream_synchronize: "cuStreamSynchronize" (Pointer);
    stream_query: "cuStreamQuery" (Pointer);
    event_create: "cuEventCreate" (*mut Pointer, c_uint);
    event_record: "cuEventRecord" (Pointer, Pointer);
    event_synchronize: "cuEventSynchronize" (Pointer);
    event_elapsed: "cuEventElapsedTime" (*mut f32, Pointer, Pointer);
    event_destroy: "cuEventDestroy_v2" (Pointer);
}
