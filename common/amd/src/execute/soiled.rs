//! What scalar stores wrote: before an `s_dcache_wb` has written it back, only scalar loads of the same unit find it.

use super::Block;
use super::Lane;
use crate::bank::Loaded;
use crate::races::Raced;
use crate::shadow::Toucher;
use crate::verdict::{Access, Fault, Other};

impl Block<'_> {
    /// Who stored by scalars what is touched and is not written back, and where, in bytes from the address.
    fn soiled(&self, address: u64, bytes: usize, scalar: bool, by: &Toucher<'_>) -> Vec<(i64, Other)> {
        let own = self.own.start..self.own.end;
        let all = self.memory.soiled(address, bytes).filter(|(_, of)| !of.is_back(by));
        let others = all.filter(|(_, of)| !scalar || !own.contains(&of.number));
        others
            .map(|(at, of)| match own.contains(&of.number) {
                true => (at, Other::Wave(of.met.wave)),
                false => (at, Other::Block(of.met.block)),
            })
            .collect()
    }

    /// Notes that what is loaded may not be what was stored last.
    #[cold]
    pub(super) fn load_soiled(
        &mut self,
        (address, bytes): (u64, usize),
        scalar: bool,
        by: &Toucher<'_>,
        loaded: &mut Loaded,
    ) {
        if self.races.is_trusting() {
            return;
        }
        for (at, other) in self.soiled(address, bytes, scalar, by) {
            let place = self.memory.place(address.wrapping_add_signed(at.max(0)));
            let fault = Fault::Stale { place, other, missing: "s_dcache_wb" };
            self.races.read.get_or_insert(Raced::Read(fault));
            for byte in (at..at + 4).filter(|byte| (0..bytes as i64).contains(byte)) {
                loaded.unwritten |= 1 << byte;
            }
        }
    }

    /// # Errors
    /// What is stored there by scalars is still to be written back, over what is stored now.
    #[cold]
    pub(super) fn store_soiled(
        &mut self,
        (address, bytes): (u64, usize),
        access: Access,
        scalar: bool,
        by: &Toucher<'_>,
    ) -> Lane<()> {
        let Some((at, other)) = self.soiled(address, bytes, scalar, by).into_iter().next() else {
            self.memory.clean(address, bytes);
            return Ok(());
        };
        let place = self.memory.place(address.wrapping_add_signed(at.max(0)));
        Err(match access {
            Access::Write => Fault::Race { access, place, other, by: None, wrote: true, rounding: None },
            _ => Fault::Stale { place, other, missing: "s_dcache_wb" },
        })
    }
}
