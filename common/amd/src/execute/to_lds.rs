//! Loads whose data goes to LDS, not into registers (`global_load_lds_*`, `buffer_load_* lds`).

use std::rc::Rc;

use super::address::{Addresses, To, place, unwritten};
use super::memory::{extended, lanes_of};
use super::{Block, scalar};
use crate::instruction::{Memory, Source};
use crate::operations::memory::Form;
use crate::registers::{LANES, M0};
use crate::verdict::{Raised, Step, Use};
use crate::wave::Wave;

/// What Triton has M0 be in waves that have nothing to store: it is behind the end of LDS, where a GPU stores nothing.
const NOWHERE: u64 = i32::MAX as u64;

impl Block<'_> {
    /// Dwords of each lane to LDS: from what M0 says on, a lane behind the other. Where they went. One or two bytes become a dword.
    pub(super) fn load_to_lds(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        (bytes, form): (u8, Form),
    ) -> Step<[u32; LANES]> {
        let (part, signed) = (bytes, form == Form::Signed);
        let (bytes, whole) = (usize::from(bytes), usize::from(bytes.next_multiple_of(4)));
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        let (base, poison) = scalar::read(&wave.registers, Source::Sgpr(M0), 1);
        if poison != 0 {
            return Err(unwritten(0, Use::Address, wave));
        }
        let mut offsets = [0; LANES];
        for lane in lanes_of(exec) {
            let from = place(self.resolve(memory, addresses, lane, bytes as u64), memory.offset);
            let to = (base as u32).wrapping_add(memory.offset as u32).wrapping_add((lane * whole) as u32);
            offsets[lane] = to;
            let mut loaded = self.lane_load(wave, from, bytes, lane, &by).map_err(|fault| Raised::at(lane, fault))?;
            if bytes < whole {
                loaded = extended(loaded, part, signed);
            }
            let data: Vec<u8> = loaded.dwords.iter().flat_map(|dword| dword.to_le_bytes()).take(whole).collect();
            self.settle(wave, lane, &by, &clock);
            if base == NOWHERE {
                continue;
            }
            let stored = self.lane_store(wave, To::Lds(to.into()), &data, loaded.unwritten, lane, &by);
            stored.map_err(|fault| Raised::at(lane, fault))?;
            self.settle(wave, lane, &by, &clock);
        }
        Ok(offsets)
    }
}
