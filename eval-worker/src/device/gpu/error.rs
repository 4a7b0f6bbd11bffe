//! What the error numbers of a driver mean. HIP's are CUDA's wherever both have the error.

use super::super::DeviceError;

/// What a failed call means for the process that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    OutOfMemory,
    /// The code object is for another device.
    WrongTarget,
    /// The code object is no good, or lacks a symbol.
    Load,
    /// Refused; the next call may succeed.
    Refused,
    /// A kernel broke the context: no later call succeeds.
    Fault,
    /// The device is gone.
    Lost,
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {text}")]
pub(super) struct CallError {
    /// As the driver names it.
    pub(super) call: &'static str,
    pub(super) code: i32,
    /// Name and explanation, as the driver gives them.
    pub(super) text: String,
}

impl CallError {
    pub(super) fn class(&self) -> Class {
        classify(self.code)
    }
}

/// By cuda.h's `CUresult`; 1052 and 1053 are HIP's own, for failures of the HSA run-time.
fn classify(number: i32) -> Class {
    match number {
        2 | 1052 => Class::OutOfMemory,
        209 => Class::WrongTarget,
        // Invalid image, invalid PTX, no compiler for it or one too old, invalid source, shared object, no such symbol.
        200 | 218 | 221..=223 | 300..=303 | 500 => Class::Load,
        // Not initialised, unavailable, no device, invalid device, ECC, NVLink, operating system, driver not ready.
        3 | 4 | 46 | 100 | 101 | 214 | 220 | 304 | 802 | 803 => Class::Lost,
        // Illegal address, time-out, broken context, assertion, then from the stack to whatever else ends a kernel.
        700 | 702 | 709 | 710 | 714..=719 | 999 | 1053 => Class::Fault,
        _ => Class::Refused,
    }
}

impl From<CallError> for DeviceError {
    fn from(error: CallError) -> Self {
        let text = error.to_string();
        match error.class() {
            Class::OutOfMemory => Self::OutOfMemory(text),
            Class::WrongTarget => Self::WrongTarget(text),
            Class::Load => Self::Load(text),
            Class::Refused => Self::Launch(text),
            Class::Fault => Self::Fault(text),
            Class::Lost => Self::Lost(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys::cudaError_enum as Cuda;

    use super::*;

    #[test]
    fn numbers_of_cuda() {
        for (error, class) in [
            (Cuda::CUDA_ERROR_OUT_OF_MEMORY, Class::OutOfMemory),
            (Cuda::CUDA_ERROR_INVALID_VALUE, Class::Refused),
            (Cuda::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, Class::Refused),
            (Cuda::CUDA_ERROR_INVALID_IMAGE, Class::Load),
            (Cuda::CUDA_ERROR_INVALID_PTX, Class::Load),
            (Cuda::CUDA_ERROR_JIT_COMPILER_NOT_FOUND, Class::Load),
            (Cuda::CUDA_ERROR_JIT_COMPILATION_DISABLED, Class::Load),
            (Cuda::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, Class::Load),
            (Cuda::CUDA_ERROR_NOT_FOUND, Class::Load),
            (Cuda::CUDA_ERROR_NO_BINARY_FOR_GPU, Class::WrongTarget),
            (Cuda::CUDA_ERROR_DEVICE_UNAVAILABLE, Class::Lost),
            (Cuda::CUDA_ERROR_NO_DEVICE, Class::Lost),
            (Cuda::CUDA_ERROR_ECC_UNCORRECTABLE, Class::Lost),
            (Cuda::CUDA_ERROR_NVLINK_UNCORRECTABLE, Class::Lost),
            (Cuda::CUDA_ERROR_OPERATING_SYSTEM, Class::Lost),
            (Cuda::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, Class::Lost),
            (Cuda::CUDA_ERROR_ILLEGAL_ADDRESS, Class::Fault),
            (Cuda::CUDA_ERROR_LAUNCH_TIMEOUT, Class::Fault),
            (Cuda::CUDA_ERROR_ASSERT, Class::Fault),
            (Cuda::CUDA_ERROR_HARDWARE_STACK_ERROR, Class::Fault),
            (Cuda::CUDA_ERROR_MISALIGNED_ADDRESS, Class::Fault),
            (Cuda::CUDA_ERROR_LAUNCH_FAILED, Class::Fault),
            (Cuda::CUDA_ERROR_UNKNOWN, Class::Fault),
        ] {
            assert_eq!(classify(error as i32), class, "{error:?}");
        }
    }

    #[test]
    fn numbers_of_hip() {
        for (error, class) in [
            (hip_sys::hipError_t_hipErrorOutOfMemory, Class::OutOfMemory),
            (hip_sys::hipError_t_hipErrorRuntimeMemory, Class::OutOfMemory),
            (hip_sys::hipError_t_hipErrorInvalidConfiguration, Class::Refused),
            (hip_sys::hipError_t_hipErrorInvalidImage, Class::Load),
            (hip_sys::hipError_t_hipErrorInvalidKernelFile, Class::Load),
            (hip_sys::hipError_t_hipErrorSharedObjectInitFailed, Class::Load),
            (hip_sys::hipError_t_hipErrorNotFound, Class::Load),
            (hip_sys::hipError_t_hipErrorNoBinaryForGpu, Class::WrongTarget),
            (hip_sys::hipError_t_hipErrorNoDevice, Class::Lost),
            (hip_sys::hipError_t_hipErrorInvalidDevice, Class::Lost),
            (hip_sys::hipError_t_hipErrorECCNotCorrectable, Class::Lost),
            (hip_sys::hipError_t_hipErrorIllegalAddress, Class::Fault),
            (hip_sys::hipError_t_hipErrorLaunchFailure, Class::Fault),
            (hip_sys::hipError_t_hipErrorRuntimeOther, Class::Fault),
            (hip_sys::hipError_t_hipErrorUnknown, Class::Fault),
        ] {
            assert_eq!(classify(error as i32), class, "{error}");
        }
    }
}
