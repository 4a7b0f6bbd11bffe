//! What can be asked without a context.

use std::ffi::{c_char, c_int, c_uint};

use super::{SELECTED, pass_about, put, put_text, status};
use crate::backend::runtime;
use crate::codes::Code;
use crate::gate::{self, Kind};

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipInit(flags: c_uint) -> c_int {
    status((|| {
        gate::enter("hipInit", Kind::Ask, None, None)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        runtime()?.init()
    })())
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDriverGetVersion(version: *mut c_int) -> c_int {
    status((|| {
        gate::enter("hipDriverGetVersion", Kind::Ask, None, None)?;
        // SAFETY: by HIP's contract.
        unsafe { put(version, runtime()?.version()?) }
    })())
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    status((|| {
        gate::enter("hipRuntimeGetVersion", Kind::Ask, None, None)?;
        // SAFETY: by HIP's contract.
        unsafe { put(version, runtime()?.version()?) }
    })())
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    status((|| {
        gate::enter("hipGetDeviceCount", Kind::Ask, None, None)?;
        let devices = runtime()?.devices().len();
        // SAFETY: by HIP's contract.
        unsafe { put(count, devices as c_int) }?;
        if devices == 0 { Err(Code::NO_DEVICE) } else { Ok(()) }
    })())
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSetDevice(ordinal: c_int) -> c_int {
    status(pass_about("hipSetDevice", ordinal).and_then(|(runtime, device)| {
        runtime.select(device)?;
        SELECTED.set(device);
        Ok(())
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    // SAFETY: by HIP's contract.
    status(pass_about("hipDeviceGet", ordinal).and_then(|_| unsafe { put(device, ordinal) }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_int {
    status(
        pass_about("hipDeviceGetName", device)
            // SAFETY: by HIP's contract.
            .and_then(|(runtime, device)| unsafe { put_text(name, length, &runtime.name(device)?) }),
    )
}

/// `hipUUID`: characters without an end.
#[repr(C)]
pub struct Uuid([u8; 16]);

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetUuid(uuid: *mut Uuid, device: c_int) -> c_int {
    status(pass_about("hipDeviceGetUuid", device).and_then(|(runtime, device)| {
        let text = runtime.uuid(device)?;
        let bytes = text.as_bytes().try_into().map_err(|_| Code::UNKNOWN)?;
        // SAFETY: by HIP's contract.
        unsafe { put(uuid, Uuid(bytes)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> c_int {
    status(
        pass_about("hipDeviceGetAttribute", device)
            // SAFETY: by HIP's contract.
            .and_then(|(runtime, device)| unsafe { put(value, runtime.attribute(device, attribute as i32)?) }),
    )
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> c_int {
    status(
        pass_about("hipDeviceTotalMem", device)
            // SAFETY: by HIP's contract.
            .and_then(|(runtime, device)| unsafe { put(bytes, runtime.total_memory(device)? as usize) }),
    )
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) -> c_int {
    status(
        pass_about("hipDeviceGetPCIBusId", device)
            // SAFETY: by HIP's contract.
            .and_then(|(runtime, device)| unsafe { put_text(id, length, &runtime.pci_bus_id(device)?) }),
    )
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorName(error: c_int) -> *const c_char {
    Code(error).name().as_ptr()
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorString(error: c_int) -> *const c_char {
    Code(error).text().as_ptr()
}
