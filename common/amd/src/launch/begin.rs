//! What a wave finds in its registers when it begins ("Initial Kernel Execution State" of LLVM's user guide).

use super::Prepared;
use crate::execute::SCRATCH_BASE;
use crate::order::Order;
use crate::registers::{EXEC, Registers, TTMP};
use crate::target::Generation;
use crate::wave::{State, Wave};

/// Bits of kernel_code_properties: user SGPRs in their order, with how many registers each has.
const USER_SGPRS: [(u16, u8); 7] = [(0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)];

impl Prepared<'_> {
    /// A wave's registers at its beginning.
    pub(super) fn begin(&self, wave: &mut Wave, number: u32, id: [u32; 3], wave_scratch: u64) {
        let (lanes, target) = (self.kernel.lanes, self.program.target());
        wave.registers.reset(lanes as usize, &self.code.vgprs);
        wave.pending.clear();
        (wave.at, wave.state, wave.number, wave.origin) = (self.entry, State::Running, number, None);
        (wave.order, wave.indexed, wave.raced) = (Order::default(), false, None);
        (wave.barriers, wave.elsewhere, wave.whole) = (0, None, false);
        wave.skipped.clear();
        let [first, second, _] = self.kernel.resources;
        wave.set_mode(first >> 12 & 0xff | (first >> 21 & 1) << 8 | (first >> 23 & 1) << 9 | (first >> 26 & 1) << 23);
        let left = self.threads - number * lanes;
        wave.lanes = if left >= lanes { wave.registers.all() } else { (1 << left) - 1 };
        wave.scratch = SCRATCH_BASE + u64::from(number) * wave_scratch;
        let mut at = 0;
        let registers = &mut wave.registers;
        put(registers, EXEC, wave.lanes as u32, 0);
        put(registers, EXEC + 1, (wave.lanes >> 32) as u32, 0);
        let mut next = |value: u32, poison: u32| {
            put(registers, at, value, poison);
            at += 1;
        };
        for (bit, _) in USER_SGPRS.iter().filter(|(bit, _)| self.kernel.properties >> bit & 1 == 1) {
            match bit {
                // A descriptor of all scratch, swizzled by lanes: an index stride of as many as a wave has, the lane's number added.
                0 => {
                    let stride = if lanes == 32 { 2 } else { 3 };
                    let words =
                        [SCRATCH_BASE as u32, (SCRATCH_BASE >> 32) as u32 | 1 << 31, u32::MAX, 1 << 23 | stride << 21];
                    words.iter().for_each(|word| next(*word, 0));
                }
                1 => pair(&mut next, self.dispatch),
                // There is no queue.
                2 => (0..2).for_each(|_| next(0, u32::MAX)),
                3 => pair(&mut next, self.arguments),
                5 => pair(&mut next, SCRATCH_BASE),
                6 => next(self.kernel.lane_scratch(), 0),
                _ => pair(&mut next, 0),
            }
        }
        self.preloaded.iter().for_each(|(value, poison)| next(*value, *poison));
        // More are counted than are asked for where the hardware wants so many.
        at = at.max((second >> 1 & 31) as u8);
        let mut next = |value: u32, poison: u32| {
            put(registers, at, value, poison);
            at += 1;
        };
        for (axis, block) in id.iter().enumerate() {
            if second >> (7 + axis) & 1 == 1 {
                next(*block, 0);
            }
        }
        if second >> 10 & 1 == 1 {
            next(0, 0);
        }
        if second & 1 == 1 && !target.architected_scratch {
            next((wave.scratch - SCRATCH_BASE) as u32, 0);
        }
        if target.generation == Generation::Rdna4 {
            put(registers, TTMP + 9, id[0], 0);
            put(registers, TTMP + 7, id[1] & 0xffff | id[2] << 16, 0);
            put(registers, TTMP + 8, number << 25, 0);
        }
        let axes = second >> 11 & 3;
        let [x, y, _] = self.launch.block;
        let packed = target.packed_ids;
        let first = number * lanes;
        let mut thread = [first % x, first / x % y, first / (x * y)];
        for lane in 0..lanes as usize {
            for (axis, of) in thread.into_iter().enumerate() {
                match (axis <= axes as usize, packed) {
                    (false, _) => {}
                    (true, true) if axis == 0 => registers.v[0][lane] = of,
                    (true, true) => registers.v[0][lane] |= of << (10 * axis),
                    (true, false) => registers.v[axis][lane] = of,
                }
            }
            // Counted on, as divisions for each lane are slow.
            thread[0] += 1;
            if thread[0] == x {
                (thread[0], thread[1]) = (0, thread[1] + 1);
            }
            if thread[1] == y {
                (thread[1], thread[2]) = (0, thread[2] + 1);
            }
        }
        for axis in 0..if packed { 1 } else { axes as usize + 1 } {
            registers.poison[axis] = [!wave.lanes; 4];
        }
    }
}

fn put(registers: &mut Registers, at: u8, value: u32, poison: u32) {
    registers.s[usize::from(at)] = value;
    registers.s_poison[usize::from(at)] = poison;
}

fn pair(next: &mut impl FnMut(u32, u32), value: u64) {
    next(value as u32, 0);
    next((value >> 32) as u32, 0);
}
