//! What nobody wrote is refused.

use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::Wave;

pub(super) fn unwritten(lane: usize, used: Use, wave: &Wave) -> Box<Raised> {
    Raised::at(lane, Fault::Unwritten { used, origin: wave.origin.clone() })
}

/// Refuses an address that has bits that nobody wrote.
pub(super) fn check_address(wave: &Wave, poison: u64, exec: u64) -> Step {
    match poison & exec {
        0 => Ok(()),
        bad => Err(unwritten(bad.trailing_zeros() as usize, Use::Address, wave)),
    }
}
