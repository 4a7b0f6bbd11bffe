//! The calls of a stream, as the rest of the device wants them.

use std::ffi::c_void;
use std::ptr;

use super::super::DeviceError;
use super::calls::Handle;
use super::kernel::Kernel;
use super::library::Runtime;

/// A stream that does not wait for the default one; the same number in both interfaces.
const NON_BLOCKING: u32 = 1;

impl Runtime {
    pub(super) fn stream(&self) -> Result<Handle, DeviceError> {
        let mut stream = ptr::null_mut();
        // SAFETY: a handle is written.
        self.check("create stream", unsafe { (self.calls.stream)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    pub(super) fn event(&self) -> Result<Handle, DeviceError> {
        let mut event = ptr::null_mut();
        // SAFETY: a handle is written.
        self.check("create event", unsafe { (self.calls.event)(&mut event, 0) })?;
        Ok(event)
    }

    pub(super) fn record(&self, event: Handle, stream: Handle) -> Result<(), DeviceError> {
        // SAFETY: both are alive.
        Ok(self.check("record event", unsafe { (self.calls.record)(event, stream) })?)
    }

    pub(super) fn elapsed(&self, start: Handle, stop: Handle) -> Result<f64, DeviceError> {
        let mut ms = 0.0;
        // SAFETY: both events were recorded, and a number is written.
        self.check("elapsed time", unsafe { (self.calls.elapsed)(&mut ms, start, stop) })?;
        // A driver that counts nonsense would make a winner of whatever it is asked about.
        if !(ms.is_finite() && ms > 0.0) {
            return Err(DeviceError::Launch(format!("elapsed time: found {ms} ms, expected a time")));
        }
        Ok(f64::from(ms))
    }

    /// Waits for all that is on the stream.
    pub(super) fn wait(&self, stream: Handle) -> Result<(), DeviceError> {
        // SAFETY: the stream is alive.
        Ok(self.check("kernel", unsafe { (self.calls.wait)(stream) })?)
    }

    pub(super) fn is_busy(&self, stream: Handle) -> bool {
        // SAFETY: the stream is alive. 600: not ready, in both interfaces.
        unsafe { (self.calls.query)(stream) == 600 }
    }

    /// # Safety
    /// The kernel's module is still loaded, and `arguments` points to as many as it takes.
    pub(super) unsafe fn launch(
        &self,
        kernel: &Kernel,
        stream: Handle,
        arguments: *mut *mut c_void,
    ) -> Result<(), DeviceError> {
        let Kernel { function, grid: [gx, gy, gz], block: [bx, by, bz], shared } = *kernel;
        // SAFETY: the caller's promise.
        let code = unsafe {
            (self.calls.launch)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, ptr::null_mut())
        };
        Ok(self.check("launch", code)?)
    }
}
