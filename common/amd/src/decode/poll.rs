//! Loops that wait for what another wave writes. In LDS, and in memory where a unit's caches are enough, an atomic load is encoded as a
//! plain one; it is told by its loop, which loads one place again and again and does nothing else to memory: a compiler would have
//! taken a plain load out of it.

use crate::instruction::{Action, Address, Cross, Destination, Instruction, Memory, Source};
use crate::operations::memory::Kind;
use crate::registers::LANES;

/// Instructions of a loop that waits, at most.
const LONGEST: usize = LANES;
/// How far in front of it its first round may be.
const AHEAD: usize = 12;

/// Marks the loads of loops that wait.
pub(crate) fn mark(instructions: &mut [Instruction]) {
    for last in 0..instructions.len() {
        let Action::Branch { target, .. } = instructions[last].action else { continue };
        if target > last || last - target > LONGEST || !instructions[target..last].iter().all(is_of_waiting) {
            continue;
        }
        let waits: Vec<usize> = (target..last)
            .filter(|at| matches!(&instructions[*at].action, Action::Memory(memory) if is_fixed(memory, &instructions[target..last])))
            .collect();
        let before = peeled(&instructions[..=last], target, &waits);
        for at in waits.into_iter().chain(before) {
            if let Action::Memory(memory) = &mut instructions[at].action {
                (memory.sync, memory.waits) = (true, true);
            }
        }
    }
}

/// The loads in front of a loop that are its first round: what follows them branches around it.
fn peeled(instructions: &[Instruction], target: usize, waits: &[usize]) -> Vec<usize> {
    let behind = instructions.len();
    let skips = |at: &usize| matches!(instructions[*at].action, Action::Branch { target, .. } if target == behind);
    let Some(branch) = (target.saturating_sub(AHEAD)..target).rev().find(skips) else { return Vec::new() };
    let load = |at: usize| match &instructions[at].action {
        Action::Memory(memory) if matches!(memory.kind, Kind::Load { .. }) => {
            Some((memory.space, memory.kind, memory.offset))
        }
        _ => None,
    };
    let alike = |at: &usize| load(*at).is_some_and(|of| waits.iter().any(|wait| load(*wait) == Some(of)));
    (branch.saturating_sub(AHEAD)..branch).filter(alike).collect()
}

/// Whether an instruction may be in a loop that waits: nothing is stored, and no barrier is met.
fn is_of_waiting(instruction: &Instruction) -> bool {
    match &instruction.action {
        Action::Memory(memory) => matches!(memory.kind, Kind::Load { .. }),
        Action::Barrier | Action::End | Action::SetPc { .. } | Action::SwapPc { .. } | Action::Call { .. } => false,
        _ => true,
    }
}

/// Whether a load has the same address each time.
fn is_fixed(memory: &Memory, body: &[Instruction]) -> bool {
    if let Address::Offset(..) | Address::Descriptor { .. } = memory.address {
        return false;
    }
    let vgprs = memory.address.vgprs();
    let writers = |at: &u16| body.iter().filter(move |instruction| writes(&instruction.action, *at)).count();
    vgprs
        .iter()
        .all(|at| writers(at) == body.iter().filter(|instruction| is_constant(&instruction.action, *at)).count())
}

fn registers(to: Destination) -> Option<u16> {
    match to {
        Destination::Vgpr(at) | Destination::Half(at, _) | Destination::Cleared(at) | Destination::Part(at, ..) => {
            Some(at)
        }
        Destination::Mask(_) | Destination::Exec(_) | Destination::Sgpr(_) => None,
    }
}

/// Whether an action writes a vector register, or may.
fn writes(action: &Action, at: u16) -> bool {
    let within = |first: u16, count: u16| (first..first + count).contains(&at);
    match action {
        Action::Vector(vector) => {
            registers(vector.to).is_some_and(|to| within(to, if vector.result.is_wide() { 2 } else { 1 }))
        }
        Action::Dual(both) => both.iter().any(|vector| registers(vector.to).is_some_and(|to| within(to, 1))),
        Action::Memory(memory) => match memory.kind {
            Kind::Load { bytes, .. } => within(memory.to, u16::from(bytes).div_ceil(4)),
            Kind::Store { .. } | Kind::StoreTwo { .. } => false,
            _ => true,
        },
        Action::Exchange(exchange) => within(exchange.to(), 1),
        Action::Cross(Cross::ReadLane { .. } | Cross::ReadFirstLane { .. }) => false,
        Action::Convert(_)
        | Action::Sums(_)
        | Action::Cross(_)
        | Action::Matrix(_)
        | Action::Relative(..)
        | Action::Index(_)
        | Action::Unimplemented(_) => true,
        _ => false,
    }
}

/// Whether an action writes the same into a register each time.
fn is_constant(action: &Action, at: u16) -> bool {
    let Action::Vector(vector) = action else { return false };
    let same = |source: Source| matches!(source, Source::Constant(_) | Source::Sgpr(_));
    writes(action, at) && vector.count == 1 && vector.bitwise && same(vector.sources[0].at)
}
