//! What accesses touch, where a place is watched.

use super::Block;
use super::address::place;
use super::memory::lanes_of;
use crate::instruction::Memory;
use crate::operations::memory::Kind;
use crate::verdict::LDS;
use crate::wave::Wave;

impl Block<'_> {
    /// Says what an access is about to touch, to whoever watches a place. Accesses of images are not told.
    #[cold]
    pub(super) fn watch(&mut self, wave: &Wave, memory: &Memory, exec: u64, at: usize) {
        // Where an address is a fault, it is met again.
        let Ok(addresses) = self.addresses(wave, memory, exec) else { return };
        let (bytes, reads, writes) = match memory.kind {
            Kind::Load { bytes, .. } | Kind::LoadTwo { bytes, .. } => (bytes, true, false),
            Kind::Store { bytes, .. } | Kind::StoreTwo { bytes, .. } => (bytes, false, true),
            Kind::Atomic { bytes, .. } | Kind::ExchangeTwo { bytes, .. } => (bytes, true, true),
            Kind::LoadToLds { .. }
            | Kind::LoadTyped(_)
            | Kind::Sample(_)
            | Kind::StoreTyped(_)
            | Kind::ImageSize(_) => (0, false, false),
        };
        let two = matches!(memory.kind, Kind::LoadTwo { .. } | Kind::StoreTwo { .. } | Kind::ExchangeTwo { .. });
        let offsets = [Some(memory.offset), two.then_some(memory.second)];
        let of_lane = |lane: usize| {
            let to = self.resolve(memory, &addresses, lane, bytes.into());
            offsets.into_iter().flatten().filter_map(move |offset| place(to, offset).key())
        };
        let ranges: Vec<(u64, u64)> = lanes_of(exec).flat_map(of_lane).map(|(key, _)| (key, bytes.into())).collect();
        let own = &*self.own;
        let Some(watch) = &mut self.races.watch else { return };
        // LDS of another block is another place.
        let is_here = |(key, _): &(u64, u64)| key & LDS == 0 || watch.is_of(own.id);
        let ranges: Vec<(u64, u64)> = ranges.into_iter().filter(is_here).collect();
        watch.touch((own.id, wave.number, at), (reads, writes), ranges.into_iter());
    }
}
