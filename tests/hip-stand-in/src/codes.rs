//! `hipError_t` and `hipDeviceAttribute_t` by number, as in `hip_runtime_api.h` of ROCm 6 and 7.

use std::ffi::CStr;

/// An error as HIP counts them; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    pub const INVALID_VALUE: Self = Self(1);
    pub const OUT_OF_MEMORY: Self = Self(2);
    pub const NOT_INITIALIZED: Self = Self(3);
    pub const INVALID_CONFIGURATION: Self = Self(9);
    pub const NO_DEVICE: Self = Self(100);
    pub const INVALID_DEVICE: Self = Self(101);
    pub const INVALID_IMAGE: Self = Self(200);
    pub const NO_BINARY_FOR_GPU: Self = Self(209);
    pub const ECC_NOT_CORRECTABLE: Self = Self(214);
    pub const INVALID_HANDLE: Self = Self(400);
    pub const NOT_FOUND: Self = Self(500);
    pub const NOT_READY: Self = Self(600);
    pub const ILLEGAL_ADDRESS: Self = Self(700);
    pub const LAUNCH_OUT_OF_RESOURCES: Self = Self(701);
    pub const LAUNCH_FAILURE: Self = Self(719);
    pub const NOT_SUPPORTED: Self = Self(801);
    pub const UNKNOWN: Self = Self(999);

    /// As C writes it.
    pub(crate) fn name(self) -> &'static CStr {
        self.texts().0
    }

    /// For people.
    pub(crate) fn text(self) -> &'static CStr {
        self.texts().1
    }

    fn texts(self) -> (&'static CStr, &'static CStr) {
        match self.0 {
            0 => (c"hipSuccess", c"no error"),
            1 => (c"hipErrorInvalidValue", c"invalid argument"),
            2 => (c"hipErrorOutOfMemory", c"out of memory"),
            3 => (c"hipErrorNotInitialized", c"initialization error"),
            9 => (c"hipErrorInvalidConfiguration", c"invalid configuration argument"),
            100 => (c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
            101 => (c"hipErrorInvalidDevice", c"invalid device ordinal"),
            200 => (c"hipErrorInvalidImage", c"device kernel image is invalid"),
            209 => (c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device"),
            214 => (c"hipErrorECCNotCorrectable", c"uncorrectable ECC error encountered"),
            400 => (c"hipErrorInvalidHandle", c"invalid resource handle"),
            500 => (c"hipErrorNotFound", c"named symbol not found"),
            600 => (c"hipErrorNotReady", c"device not ready"),
            700 => (c"hipErrorIllegalAddress", c"an illegal memory access was encountered"),
            701 => (c"hipErrorLaunchOutOfResources", c"too many resources requested for launch"),
            719 => (c"hipErrorLaunchFailure", c"unspecified launch failure"),
            801 => (c"hipErrorNotSupported", c"operation not supported"),
            999 => (c"hipErrorUnknown", c"unknown error"),
            _ => (c"hipErrorUnknown", c"unknown error"),
        }
    }
}

pub type Result<T> = std::result::Result<T, Code>;

/// `hipDeviceAttribute_t`.
pub mod attribute {
    pub const CLOCK_RATE: i32 = 5;
    pub const L2_CACHE_SIZE: i32 = 19;
    pub const COMPUTE_CAPABILITY_MAJOR: i32 = 23;
    pub const MAX_BLOCK_DIM_X: i32 = 26;
    pub const MAX_BLOCK_DIM_Y: i32 = 27;
    pub const MAX_BLOCK_DIM_Z: i32 = 28;
    pub const MAX_GRID_DIM_X: i32 = 29;
    pub const MAX_GRID_DIM_Y: i32 = 30;
    pub const MAX_GRID_DIM_Z: i32 = 31;
    pub const MAX_THREADS_PER_BLOCK: i32 = 56;
    pub const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 57;
    pub const MEMORY_BUS_WIDTH: i32 = 59;
    pub const MEMORY_CLOCK_RATE: i32 = 60;
    pub const COMPUTE_CAPABILITY_MINOR: i32 = 61;
    pub const MULTIPROCESSOR_COUNT: i32 = 63;
    pub const PCI_BUS_ID: i32 = 67;
    pub const PCI_DEVICE_ID: i32 = 68;
    pub const PCI_DOMAIN_ID: i32 = 69;
    pub const MAX_REGISTERS_PER_BLOCK: i32 = 71;
    pub const MAX_SHARED_MEMORY_PER_BLOCK: i32 = 74;
    pub const SHARED_MEMORY_PER_MULTIPROCESSOR: i32 = 76;
    pub const WARP_SIZE: i32 = 87;
    pub const WALL_CLOCK_RATE: i32 = 10017;
    pub const NUMBER_OF_XCCS: i32 = 10018;
}
