//! Kernels that touch what they must not: the fault becomes the sticky error that HIP makes of it.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Once, OnceLock};

use crate::codes::Code;
use crate::gate;

thread_local! {
    /// The device whose work this thread does at the moment.
    static RUNNING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Who was told of faults before.
static PREVIOUS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Does the work of the device at `index`; a fault in it never returns, and all that use the device are told.
pub fn guarded(index: usize, work: impl FnOnce()) {
    RUNNING.set(Some(index));
    work();
    RUNNING.set(None);
}

/// Catches faults from now on.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = SIGNALS.map(|signal| {
            let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: asks for the action only, and writes it whole; zeros are one too.
            unsafe {
                libc::sigaction(signal, std::ptr::null(), previous.as_mut_ptr());
                previous.assume_init()
            }
        });
        let _ = PREVIOUS.set(previous);
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
        // SAFETY: zeros are a valid action, and the handler only does what is allowed in one.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            for signal in SIGNALS {
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

extern "C" fn on_fault(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    if let Some(index) = RUNNING.get() {
        gate::fail(index, Code::ILLEGAL_ADDRESS);
        loop {
            // SAFETY: waits, and changes nothing. The kernel can not go on.
            unsafe { libc::pause() };
        }
    }
    // Not ours: whoever was there before gets it when the instruction is tried again.
    if let Some(previous) = PREVIOUS.get().and_then(|all| all.get(usize::from(signal == libc::SIGBUS))) {
        // SAFETY: an action that was in force before.
        unsafe { libc::sigaction(signal, previous, std::ptr::null_mut()) };
    }
}
