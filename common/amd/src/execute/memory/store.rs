//! Stores from vector registers.

use std::rc::Rc;

use super::lanes_of;
use crate::execute::Block;
use crate::execute::address::{Addresses, place};
use crate::instruction::Memory;
use crate::operations::memory::Form;
use crate::registers::any;
use crate::shadow::How;
use crate::verdict::{Raised, Step};
use crate::wave::Wave;

impl Block<'_> {
    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    pub(super) fn store(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        bytes: usize,
        form: Form,
        data: u16,
        offset: i64,
    ) -> Step {
        let clock = Rc::clone(&wave.order.clock);
        let (how, releases) = self.how(wave, memory, exec);
        let by = [self.toucher(wave, &clock), self.lds_toucher(wave, &clock)].map(|by| by.touching(how));
        let at = usize::from(data);
        let count = bytes.div_ceil(4);
        let any_poison = wave.registers.poison[at..at + count].iter().any(|poison| any(poison) & exec != 0);
        let byte = |wave: &Wave, lane: usize, byte: usize| {
            let byte = byte + if let Form::High { .. } = form { 2 } else { 0 };
            wave.registers.v[at + byte / 4][lane].to_le_bytes()[byte % 4]
        };
        let open = self.same_values(wave, memory, addresses, exec, (bytes as u64, bytes, offset), &byte)?;
        for lane in lanes_of(exec) {
            let mut raw = [0_u8; 16];
            for (chunk, values) in raw.as_chunks_mut().0.iter_mut().zip(&wave.registers.v[at..at + count]) {
                *chunk = values[lane].to_le_bytes();
            }
            let mut poison = 0_u16;
            if any_poison {
                for (byte, lanes) in wave.registers.poison[at..at + count].as_flattened().iter().enumerate() {
                    poison |= ((lanes >> lane & 1) as u16) << byte;
                }
            }
            if let Form::High { .. } = form {
                (raw[0], raw[1]) = (raw[2], raw[3]);
                poison >>= 2;
            }
            poison &= ((1_u32 << bytes) - 1) as u16;
            poison |= open.as_ref().map_or(0, |open| open[lane]);
            let changes = self.races.readers.is_some() && {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                !self.own.lds.has(&to, &raw[..bytes])
            };
            let may_hold = releases || wave.order.holds_any();
            let holding = may_hold.then(|| self.holding(wave, memory, addresses, lane, (bytes, offset, releases), by));
            let by = holding.as_ref().unwrap_or(&by);
            let done = if let Some((descriptor, ..)) = addresses.descriptor.as_ref().filter(|(of, ..)| of.swizzle) {
                let step = bytes.min(descriptor.element as usize).clamp(1, 4);
                (0..bytes).step_by(step).try_for_each(|at| {
                    let to = self.resolve(memory, &addresses.moved(lane, at as u64), lane, step as u64);
                    let part = poison >> at & ((1 << step) - 1);
                    self.lane_store(wave, to, &raw[at..at + step], part, lane, by)
                })
            } else {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                self.lane_store(wave, to, &raw[..bytes], poison, lane, by)
            };
            done.map_err(|fault| Raised::at(lane, fault))?;
            if changes && let Some((key, _)) = place(self.resolve(memory, addresses, lane, bytes as u64), offset).key()
            {
                match by[0].how {
                    How::Sync { handed: true } => self.changed(wave, lane, (key, bytes), None, by)?,
                    _ => self.overwritten((key, bytes), wave, by),
                }
            }
            self.settle(wave, lane, by, &clock);
        }
        if releases {
            // The store itself, if nothing else: a word may be a flag and a value in one.
            let clock = self.done(wave);
            for lane in lanes_of(exec) {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                if let Some((key, lds)) = to.key() {
                    self.release(wave, key, lds, &clock);
                }
            }
            self.begin_round(wave);
        }
        Ok(())
    }
}
