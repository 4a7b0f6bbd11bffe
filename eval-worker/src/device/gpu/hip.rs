//! What only HIP has, or does in its own way.

use std::ffi::{c_char, c_int};
use std::ptr;

use libloading::Library;

use super::calls::{Attributes, driver_text, needed};

/// Calls of HIP alone.
pub(super) struct Special {
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    pub(super) runtime_version: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_name: unsafe extern "C" fn(c_int) -> *const c_char,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Special {
    pub(super) fn resolve(library: &Library) -> Result<Self, &'static str> {
        // SAFETY: the signatures are hip_runtime_api.h's; whoever holds the table holds the library.
        unsafe {
            Ok(Self {
                set_device: needed(library, "hipSetDevice")?,
                runtime_version: needed(library, "hipRuntimeGetVersion")?,
                error_name: needed(library, "hipGetErrorName")?,
                error_text: needed(library, "hipGetErrorString")?,
            })
        }
    }

    pub(super) fn describe(&self, code: i32) -> String {
        // SAFETY: any number may be asked about; what the pointers point to is constant.
        unsafe { format!("{} ({})", driver_text((self.error_name)(code)), driver_text((self.error_text)(code))) }
    }

    pub(super) fn open_device(&self, ordinal: i32) -> i32 {
        // SAFETY: devices are named by their ordinals.
        unsafe { (self.set_device)(ordinal) }
    }

    /// `HIP_VERSION`: 10 000 000 times the major version, 100 000 times the minor one, and the patch.
    pub(super) fn version(&self) -> Option<String> {
        let mut version = 0;
        // SAFETY: a number is written.
        let code = unsafe { (self.runtime_version)(ptr::from_mut(&mut version)) };
        (code == 0).then(|| format!("{}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000))
    }
}

/// Numbers of the attributes that are asked for.
pub(super) const ATTRIBUTES: Attributes = Attributes {
    units: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount as c_int,
    clock: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeClockRate as c_int,
    memory_clock: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeMemoryClockRate as c_int,
    cache: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeL2CacheSize as c_int,
    major: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMajor as c_int,
    minor: hip_sys::hipDeviceAttribute_t_hipDeviceAttributeComputeCapabilityMinor as c_int,
};
