//! The C functions, with the signatures of `hip_runtime_api.h`.
#![allow(non_snake_case, reason = "these names are HIP's")]

mod context;
mod device;

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use crate::backend::runtime;
use crate::codes::{Code, Result};
use crate::gate::{self, Kind, Twist};
use crate::runtime::Runtime;

thread_local! {
    /// The device that this thread selected.
    static SELECTED: Cell<usize> = const { Cell::new(0) };
}

/// A call that has passed the gate.
struct Passed {
    runtime: &'static dyn Runtime,
    /// The selected device.
    device: usize,
    twist: Twist,
}

/// Lets a call on the selected device pass.
fn pass(call: &str, kind: Kind) -> Result<Passed> {
    pass_kernel(call, kind, None)
}

fn pass_kernel(call: &str, kind: Kind, kernel: Option<&str>) -> Result<Passed> {
    let runtime = runtime()?;
    let device = SELECTED.get();
    // Without a device there is no context.
    let physical = *runtime.devices().get(device).ok_or(Code::NO_DEVICE)?;
    let twist = gate::enter(call, kind, Some(physical), kernel)?;
    Ok(Passed { runtime, device, twist })
}

/// Lets a call about the device `ordinal` pass.
fn pass_about(call: &str, ordinal: c_int) -> Result<(&'static dyn Runtime, usize)> {
    let runtime = runtime()?;
    let device = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
    let physical = *runtime.devices().get(device).ok_or(Code::INVALID_DEVICE)?;
    gate::enter(call, Kind::Ask, Some(physical), None)?;
    Ok((runtime, device))
}

fn status(result: Result<()>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

/// Writes `value` to where the caller wants it.
///
/// # Safety
/// `to` is null or has room for a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as promised, and it is not null.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes `text` and its NUL, cut to `length` bytes.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
unsafe fn put_text(to: *mut c_char, length: c_int, text: &str) -> Result<()> {
    let room = usize::try_from(length).ok().filter(|length| *length > 0 && !to.is_null()).ok_or(Code::INVALID_VALUE)?;
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: one byte less than there is room for, and the last one.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        to.add(bytes.len()).write(0);
    }
    Ok(())
}

/// A handle as C holds it.
fn handle(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

fn number(handle: *mut c_void) -> u64 {
    handle.addr() as u64
}
