//! What a device is asked to do.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::code::{Function, Value};
use super::memory::{Pattern, Snapshot, copy_in, fill};
use crate::gate::Twist;
use crate::runtime::Geometry;

/// When an event happened.
pub type Stamp = Arc<OnceLock<Instant>>;

/// Not a number as FP32, and as two of FP16 or BF16.
const NAN: [u8; 4] = [0xff, 0x7f, 0xff, 0x7f];

pub enum Operation {
    Kernel { function: Arc<Function>, geometry: Geometry, arguments: Vec<Value> },
    Fill { to: u64, pattern: Pattern, bytes: usize },
    Copy { from: u64, to: u64, bytes: usize },
    Record(Stamp),
}

impl Operation {
    /// Where it may write.
    pub fn addresses(&self) -> Vec<u64> {
        match self {
            Self::Kernel { arguments, .. } => arguments.iter().map(|value| u64::from_ne_bytes(*value)).collect(),
            Self::Fill { .. } | Self::Copy { .. } | Self::Record(_) => Vec::new(),
        }
    }

    /// Does it. `touched` are the allocations that it may write.
    pub fn run(self, twist: Twist, touched: &[(u64, usize)]) {
        match self {
            Self::Record(stamp) => {
                // A stamp is recorded once: each record of an event makes a new one.
                let _ = stamp.set(Instant::now());
            }
            _ if twist == Twist::Skip => {}
            // SAFETY: the range was checked, and memory is not freed before its operations are done.
            Self::Fill { to, pattern, bytes } => unsafe { fill(to, pattern, bytes) },
            // SAFETY: both ranges were checked, and memory is not freed before its operations are done.
            Self::Copy { from, to, bytes } => unsafe {
                copy_in(to, std::ptr::with_exposed_provenance(from as usize), bytes);
            },
            Self::Kernel { function, geometry, mut arguments } => {
                let before = matches!(twist, Twist::Wrong | Twist::Nan).then(|| Snapshot::of(touched));
                function.run(geometry, &mut arguments);
                match twist {
                    // The exponent of FP32, the upper half of the mantissa of FP16 and BF16.
                    Twist::Wrong => before.iter().for_each(|before| before.damage(|word| word[3] ^= 1)),
                    Twist::Nan => before.iter().for_each(|before| before.damage(|word| *word = NAN)),
                    _ => {}
                }
            }
        }
        if let Twist::Slow(ms) = twist {
            std::thread::sleep(Duration::from_secs_f64(ms / 1000.0));
        }
    }
}
