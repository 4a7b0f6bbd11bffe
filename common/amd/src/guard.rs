//! What keeps a kernel right: waits, barriers and bounds, and a kernel without one of them.

use crate::execute::Block;
use crate::instruction::{Action, Destination, SaveExec};
use crate::registers::EXEC;
use crate::verdict::{Site, Step};
use crate::wave::Wave;

/// An instruction that computes nothing, but keeps a kernel right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// `s_waitcnt` and its like.
    Wait,
    Barrier,
    /// A condition of lanes: EXEC and a mask become EXEC, or a comparison does.
    Bound,
}

impl Guard {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Barrier => "barrier",
            Self::Bound => "bound",
        }
    }
}

/// One that a launch has executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub site: Site,
    pub guard: Guard,
    /// Whether it did anything: something was under way that it waited for, there was another wave, a lane was left out.
    pub acts: bool,
}

/// What an instruction guards.
pub(crate) fn guard(action: &Action) -> Option<Guard> {
    match action {
        Action::Wait(_) => Some(Guard::Wait),
        Action::Barrier => Some(Guard::Barrier),
        Action::SaveExec { how: SaveExec::And, .. } => Some(Guard::Bound),
        Action::Vector(vector) if matches!(vector.to, Destination::Exec(_)) => Some(Guard::Bound),
        Action::Scalar(scalar) if scalar.to == EXEC && scalar.definition.intersects() => Some(Guard::Bound),
        _ => None,
    }
}

impl Block<'_> {
    /// Executes an instruction that guards something as if it did not.
    pub(crate) fn leave_out(&self, wave: &mut Wave, action: &Action) -> Step {
        let exec = wave.registers.exec();
        let saved = match action {
            Action::SaveExec { to, .. } => Some(*to),
            Action::Vector(vector) => match vector.to {
                Destination::Exec(to) => to,
                _ => None,
            },
            _ => None,
        };
        if let Action::SaveExec { .. } = action {
            (wave.registers.scc, wave.registers.scc_poison) = (exec != 0, false);
        }
        saved.map_or(Ok(()), |to| wave.registers.set_mask(to, exec, 0))
    }
}
