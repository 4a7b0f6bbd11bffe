//! Registers of an operand, where not only the table says how many there are and of which kind.

use super::decode::{Decoder, SCALES};
use super::table::{Field, Width};
use super::{Family, Modifiers};
use crate::target::Generation;

impl Decoder<'_> {
    /// Registers of an operand, where the modifiers say it, too.
    pub fn dwords(&self, field: Field, width: Width, modifiers: &Modifiers) -> u8 {
        let format = match (self.encoding.family, field) {
            (Family::Mai, Field::Src0) => modifiers.cbsz,
            (Family::Mai, Field::Src1) => modifiers.blgp,
            // Behind the data, whether it was there.
            (Family::Mubuf, Field::Vdata) if modifiers.tfe => return width.dwords(self.lanes) + 1,
            _ => return width.dwords(self.lanes),
        };
        let row = self.encoding.row(self.whole);
        if !row.is_some_and(|row| row.name.ends_with("_f8f6f4")) {
            return width.dwords(self.lanes);
        }
        // FP8 and BF8, then FP6 and BF6, then FP4, of which 32 each are a lane's.
        match format {
            0 | 1 => 8,
            2 | 3 => 6,
            _ => 4,
        }
    }

    /// Whether a field is one of accumulation registers.
    pub fn accumulates(&self, field: Field) -> bool {
        let row = self.encoding.row(self.whole);
        match (self.encoding.family, field) {
            // Those that move accumulation registers say so by their names; scales have other modifiers there.
            (Family::Mai, _) if row.is_some_and(|row| row.name.starts_with("v_accvgpr_") || row.name == SCALES) => {
                false
            }
            // Indices are not in accumulation registers, wherever the result is ("Sparse matrices").
            (Family::Mai, Field::Src2) if row.is_some_and(|row| row.name.starts_with("v_smfmac_")) => false,
            (Family::Ds, Field::Addr) => {
                row.is_some_and(|row| row.name.starts_with("ds_gws_")) && self.flag(Field::Dacc)
            }
            (Family::Mai, Field::Vdst | Field::Src2) => self.flag(Field::Acccd),
            (Family::Mai, Field::Src0) => self.value(Field::Acc) & 1 == 1,
            (Family::Mai, Field::Src1) => self.value(Field::Acc) & 2 == 2,
            (_, Field::Vdst | Field::Data | Field::Data0 | Field::Data1 | Field::Vdata) => {
                self.flag(Field::Dacc) && !self.has_fault_flag()
            }
            _ => false,
        }
    }

    /// Whether a register behind the data says what was not there ("TFE").
    pub fn says_faults(&self) -> bool {
        self.flag(Field::Tfe) && !self.has_accumulation_images() || self.has_fault_flag() && self.flag(Field::Dacc)
    }

    /// Of gfx90a, TFE of images says that the data is in accumulation registers.
    pub fn has_accumulation_images(&self) -> bool {
        self.encoding.family == Family::Mimg && self.isa.target.generation == Generation::Cdna2
    }

    /// Of gfx908, TFE is where its successors say that the data is in accumulation registers.
    pub fn has_fault_flag(&self) -> bool {
        self.isa.target.generation == Generation::Cdna1
    }
}
