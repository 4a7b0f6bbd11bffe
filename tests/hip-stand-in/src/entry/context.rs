//! What works on the selected device.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::{handle, number, pass, pass_kernel, put, status};
use crate::codes::{Code, Result};
use crate::gate::{Kind, Twist};
use crate::runtime::{Geometry, Order};

/// The name of each function, for faults of a kernel.
static NAMES: LazyLock<Mutex<HashMap<u64, String>>> = LazyLock::new(Mutex::default);

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    status(pass("hipMemGetInfo", Kind::Use).and_then(|it| {
        let memory = it.runtime.memory(it.device)?;
        // SAFETY: by HIP's contract.
        unsafe {
            put(free, memory.0 as usize)?;
            put(total, memory.1 as usize)
        }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(address: *mut *mut c_void, bytes: usize) -> c_int {
    status(pass("hipMalloc", Kind::Use).and_then(|it| {
        // HIP gives a null pointer for nothing.
        let found = if bytes == 0 { 0 } else { it.runtime.allocate(it.device, bytes)? };
        // SAFETY: by HIP's contract.
        unsafe { put(address, handle(found)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipFree(address: *mut c_void) -> c_int {
    status(pass("hipFree", Kind::Wait).and_then(|it| {
        if address.is_null() {
            return Ok(());
        }
        it.runtime.free(it.device, number(address))
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyHtoD(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int {
    status(
        pass("hipMemcpyHtoD", Kind::Wait)
            // SAFETY: by HIP's contract.
            .and_then(|it| unsafe { it.runtime.write(it.device, number(to), from, bytes) }),
    )
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoH(to: *mut c_void, from: *mut c_void, bytes: usize) -> c_int {
    status(
        pass("hipMemcpyDtoH", Kind::Wait)
            // SAFETY: by HIP's contract.
            .and_then(|it| unsafe { it.runtime.read(it.device, to, number(from), bytes) }),
    )
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyDtoDAsync(
    to: *mut c_void,
    from: *mut c_void,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    status(pass("hipMemcpyDtoDAsync", Kind::Use).and_then(|it| {
        let order = Order { stream: number(stream), twist: it.twist };
        it.runtime.copy(it.device, number(to), number(from), bytes, order)
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetD8Async(to: *mut c_void, value: c_uchar, count: usize, stream: *mut c_void) -> c_int {
    status(pass("hipMemsetD8Async", Kind::Use).and_then(|it| {
        let order = Order { stream: number(stream), twist: it.twist };
        it.runtime.fill(it.device, number(to), u32::from(value), 1, count, order)
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetD32Async(to: *mut c_void, value: c_int, count: usize, stream: *mut c_void) -> c_int {
    status(pass("hipMemsetD32Async", Kind::Use).and_then(|it| {
        let order = Order { stream: number(stream), twist: it.twist };
        it.runtime.fill(it.device, number(to), value as u32, 4, count, order)
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> c_int {
    status(pass("hipModuleLoadData", Kind::Use).and_then(|it| {
        if image.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by HIP's contract, in which an image knows its size.
        unsafe { put(module, handle(it.runtime.load(it.device, image)?)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleUnload(module: *mut c_void) -> c_int {
    status(pass("hipModuleUnload", Kind::Wait).and_then(|it| it.runtime.unload(it.device, number(module))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    status(pass("hipModuleGetFunction", Kind::Use).and_then(|it| {
        if name.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: by HIP's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Code::NOT_FOUND)?;
        let found = it.runtime.function(it.device, number(module), name)?;
        NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(found, name.to_string());
        // SAFETY: by HIP's contract.
        unsafe { put(function, handle(found)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipFuncGetAttribute(value: *mut c_int, attribute: c_int, function: *mut c_void) -> c_int {
    status(pass("hipFuncGetAttribute", Kind::Use).and_then(|it| {
        let found = it.runtime.function_attribute(it.device, number(function), attribute)?;
        // SAFETY: by HIP's contract.
        unsafe { put(value, found) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: *mut c_void,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    let geometry = Geometry { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
    let name = NAMES.lock().unwrap_or_else(PoisonError::into_inner).get(&number(function)).cloned();
    status(pass_kernel("hipModuleLaunchKernel", Kind::Use, name.as_deref()).and_then(|it| {
        // Arguments in one packed buffer are no way of bluefin's.
        if !extra.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let order = Order { stream: number(stream), twist: it.twist };
        // SAFETY: by HIP's contract.
        unsafe { it.runtime.launch(it.device, number(function), geometry, arguments, order) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint) -> c_int {
    status(pass("hipStreamCreateWithFlags", Kind::Use).and_then(|it| {
        let found = it.runtime.create_stream(it.device, flags)?;
        // SAFETY: by HIP's contract.
        unsafe { put(stream, handle(found)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamDestroy(stream: *mut c_void) -> c_int {
    status(pass("hipStreamDestroy", Kind::Use).and_then(|it| it.runtime.destroy_stream(it.device, number(stream))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    let result = pass("hipStreamSynchronize", Kind::Wait);
    status(result.and_then(|it| it.runtime.synchronize_stream(it.device, number(stream))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamQuery(stream: *mut c_void) -> c_int {
    status(pass("hipStreamQuery", Kind::Query).and_then(|it| it.runtime.query_stream(it.device, number(stream))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreateWithFlags(event: *mut *mut c_void, flags: c_uint) -> c_int {
    status(pass("hipEventCreateWithFlags", Kind::Use).and_then(|it| {
        let found = it.runtime.create_event(it.device, flags)?;
        // SAFETY: by HIP's contract.
        unsafe { put(event, handle(found)) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    let result = pass("hipEventRecord", Kind::Use);
    status(result.and_then(|it| it.runtime.record(it.device, number(event), number(stream))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventSynchronize(event: *mut c_void) -> c_int {
    let result = pass("hipEventSynchronize", Kind::Wait);
    status(result.and_then(|it| it.runtime.synchronize_event(it.device, number(event))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(ms: *mut f32, from: *mut c_void, to: *mut c_void) -> c_int {
    status(pass("hipEventElapsedTime", Kind::Query).and_then(|it| {
        let elapsed = it.runtime.elapsed(it.device, number(from), number(to))?;
        let elapsed = if let Twist::Time(other) = it.twist { other } else { elapsed };
        // SAFETY: by HIP's contract.
        unsafe { put(ms, elapsed) }
    }))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventDestroy(event: *mut c_void) -> c_int {
    status(pass("hipEventDestroy", Kind::Use).and_then(|it| it.runtime.destroy_event(it.device, number(event))))
}

/// # Safety
/// As HIP's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceSynchronize() -> c_int {
    let result: Result<()> = pass("hipDeviceSynchronize", Kind::Wait).and_then(|it| it.runtime.synchronize(it.device));
    status(result)
}
