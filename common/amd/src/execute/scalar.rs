//! Scalar ALU, with SCC and EXEC.

use crate::instruction::{SaveExec, Scalar, Source};
use crate::registers::{EXEC, LANES, Registers, VCC};
use crate::verdict::Step;

/// A scalar source: its value, and the bits of it that nobody wrote.
pub(super) fn read(registers: &Registers, source: Source, dwords: u8) -> (u64, u64) {
    let low = |(value, poison): (u64, u64)| {
        if dwords == 1 { (value & 0xffff_ffff, poison & 0xffff_ffff) } else { (value, poison) }
    };
    low(match source {
        Source::Sgpr(at) => (registers.pair(at), registers.pair_poison(at)),
        Source::Constant(value) => (value, 0),
        Source::Scc => (u64::from(registers.scc), u64::from(registers.scc_poison)),
        Source::ExecZero => (u64::from(registers.exec() == 0), 0),
        Source::VccZero => (u64::from(registers.mask(VCC) == 0), u64::from(registers.mask_poison(VCC) != 0)),
        Source::SharedBase => (super::SHARED_BASE, 0),
        Source::PrivateBase => (super::PRIVATE_BASE, 0),
        // The decoder refuses vector registers here.
        Source::Vgpr(_) => (0, u64::MAX),
    })
}

pub(super) fn run(registers: &mut Registers, scalar: &Scalar) -> Step {
    let definition = &scalar.definition;
    let ((mut a, mut a_poison), (mut b, mut b_poison)) = ((0, 0), (0, 0));
    if let Some(dwords) = definition.sources.first() {
        (a, a_poison) = read(registers, scalar.sources[0], *dwords);
    }
    if let Some(dwords) = definition.sources.get(1) {
        (b, b_poison) = read(registers, scalar.sources[1], *dwords);
    }
    let (mut old, mut old_poison) = (0, 0);
    if definition.reads_old {
        (old, old_poison) = read(registers, scalar.third.unwrap_or(Source::Sgpr(scalar.to)), definition.result);
    }
    let mut scc = registers.scc;
    let value = (definition.run)(a, b, old, &mut scc);
    let scc_poison = definition.reads_scc && registers.scc_poison;
    let mut poison = 0;
    let mut scc_unknown = false;
    if a_poison | b_poison | old_poison != 0 || scc_poison {
        if definition.bitwise && !scc_poison {
            poison = differing(definition.run, (a, a_poison), (b, b_poison), old, registers.scc);
            // SCC says whether any bit is set.
            scc_unknown = poison != 0 && value & !poison == 0;
        } else {
            (poison, scc_unknown) = (u64::MAX, true);
        }
    }
    if definition.writes_scc {
        (registers.scc, registers.scc_poison) = (scc, scc_unknown);
    }
    match definition.result {
        0 => Ok(()),
        1 => registers.set(scalar.to, value as u32, poison as u32),
        _ => registers.set_pair(scalar.to, value, poison),
    }
}

/// The bits of a result that depend on bits that nobody wrote: those that differ when these are all 0, all 1, or mixed.
fn differing(run: crate::operations::scalar::Run, a: (u64, u64), b: (u64, u64), old: u64, scc: bool) -> u64 {
    let with = |a_fill: u64, b_fill: u64| {
        let mut scc = scc;
        run(a.0 & !a.1 | a_fill & a.1, b.0 & !b.1 | b_fill & b.1, old, &mut scc)
    };
    let zero = with(0, 0);
    [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0)].iter().fold(0, |bits, (a, b)| bits | zero ^ with(*a, *b))
}

fn mask_dwords(registers: &Registers) -> u8 {
    if registers.lanes == LANES { 2 } else { 1 }
}

fn update_exec(registers: &mut Registers, to: u8, value: u64, poison: u64) -> Step {
    let exec = registers.exec();
    registers.set_mask(EXEC, value & registers.all(), poison & registers.all())?;
    registers.set_mask(to, exec, 0)?;
    (registers.scc, registers.scc_poison) = (value & registers.all() != 0, false);
    Ok(())
}

pub(super) fn save_exec(registers: &mut Registers, how: SaveExec, to: u8, source: Source) -> Step {
    let (value, poison) = read(registers, source, mask_dwords(registers));
    let exec = registers.exec();
    let combine = |value: u64| match how {
        SaveExec::And => value & exec,
        SaveExec::Or => value | exec,
        SaveExec::Xor => value ^ exec,
        SaveExec::Nand => !(value & exec),
        SaveExec::Nor => !(value | exec),
        SaveExec::Xnor => !(value ^ exec),
        SaveExec::AndNotSource => !value & exec,
        SaveExec::AndNotExec => value & !exec,
        SaveExec::OrNotSource => !value | exec,
        SaveExec::OrNotExec => value | !exec,
    };
    let unknown = combine(value & !poison) ^ combine(value | poison);
    update_exec(registers, to, combine(value), unknown)
}

/// S_ANDN1_WREXEC, S_ANDN2_WREXEC: the destination receives the new EXEC.
pub(super) fn write_exec(registers: &mut Registers, negate_source: bool, to: u8, source: Source) -> Step {
    let (value, poison) = read(registers, source, mask_dwords(registers));
    let exec = registers.exec();
    let combine = |value: u64| if negate_source { !value & exec } else { value & !exec };
    let unknown = combine(value & !poison) ^ combine(value | poison);
    update_exec(registers, to, combine(value), unknown)?;
    let exec = registers.exec();
    registers.set_mask(to, exec, 0)
}
