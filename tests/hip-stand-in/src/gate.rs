//! What every call passes: the faults asked for, and what earlier ones left behind.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use crate::codes::{Code, Result};
use crate::faults::{Effect, FaultFile};
use crate::variables;

/// More GPUs than any test asks for.
const MOST: usize = 64;

/// The error of each device that no call gets past any more; 0 for none. Signal handlers write here.
static STICKY: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
/// Devices that never finish.
static HUNG: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

/// A fault that happens while a call is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Twist {
    #[default]
    None,
    Wrong,
    Nan,
    /// The call is accepted and not carried out.
    Skip,
    /// Milliseconds.
    Slow(f64),
    /// Milliseconds.
    Time(f32),
}

/// What a call does with its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it works on one that is lost.
    Ask,
    /// Needs a context without errors.
    Use,
    /// The same, and returns when work is done.
    Wait,
    /// The same, and says whether work is done.
    Query,
}

/// Lets `call` pass, or says what it returns.
pub fn enter(call: &str, kind: Kind, device: Option<usize>, kernel: Option<&str>) -> Result<Twist> {
    let effect = faults().and_then(|file| file.hit(call, device, kernel).unwrap_or_else(|error| broken(file, &error)));
    match effect {
        Some(Effect::Error(code)) => return Err(code),
        Some(Effect::Lost) => return Err(Code::NO_DEVICE),
        Some(Effect::Abort) => abort(device),
        _ => {}
    }
    if let (Some(device), true) = (device, kind != Kind::Ask) {
        check(device)?;
        if HUNG[device].load(Ordering::Acquire) {
            match kind {
                Kind::Ask | Kind::Use => {}
                Kind::Query => return Err(Code::NOT_READY),
                Kind::Wait => forever(),
            }
        }
    }
    Ok(match effect {
        Some(Effect::Sticky(code)) => {
            fail(device.unwrap_or_default(), code);
            Twist::Skip
        }
        Some(Effect::Hang) => {
            hang(device.unwrap_or_default());
            Twist::Skip
        }
        Some(Effect::Unwritten) => Twist::Skip,
        Some(Effect::Wrong) => Twist::Wrong,
        Some(Effect::Nan) => Twist::Nan,
        Some(Effect::Slow(ms)) => Twist::Slow(ms),
        Some(Effect::Time(ms)) => Twist::Time(ms),
        Some(Effect::Error(_) | Effect::Lost | Effect::Abort | Effect::Gone) | None => Twist::None,
    })
}

/// From now on every call that uses `device` returns `code`. Safe in a signal handler.
pub fn fail(device: usize, code: Code) {
    STICKY[device].store(code.0, Ordering::Release);
}

/// From now on nothing that `device` is asked for ends.
pub fn hang(device: usize) {
    HUNG[device].store(true, Ordering::Release);
}

/// The sticky error of `device`.
pub fn check(device: usize) -> Result<()> {
    match STICKY[device].load(Ordering::Acquire) {
        0 => Ok(()),
        code => Err(Code(code)),
    }
}

/// The devices that this process does not see.
pub fn gone() -> Vec<usize> {
    faults().map_or_else(Vec::new, |file| file.gone().unwrap_or_else(|error| broken(file, &error)))
}

/// Ends the process as ROCm's runtime does when a GPU reports a page fault.
fn abort(device: Option<usize>) -> ! {
    eprintln!(
        "Memory access fault by GPU node-{} on address 0xdead000. Reason: Page not present or supervisor privilege.",
        device.unwrap_or_default() + 1
    );
    std::process::abort()
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// A test with a fault file that makes no sense is a test of nothing.
fn broken(file: &FaultFile, error: &std::io::Error) -> ! {
    eprintln!("{}: {error}", file.path().display());
    std::process::abort()
}

fn faults() -> Option<&'static FaultFile> {
    static FILE: OnceLock<Option<FaultFile>> = OnceLock::new();
    FILE.get_or_init(|| std::env::var_os(variables::FAULTS).map(|path| FaultFile::at(path.into()))).as_ref()
}
