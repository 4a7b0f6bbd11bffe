//! From words to an instruction.

use super::operand::{LITERAL, Refused, VGPRS, signed};
use super::table::{Encoding, Field, Place, Row, Spec, Width};
use super::trailer::{Trailer, TrailerKind, dpp8, dpp16, sdwa};
use super::{At, Encoded, Family, Isa, Modifiers, Operand, words_text};
use crate::target::Generation;

const SDWA: u32 = 249;
const DPP16: u32 = 250;
/// The second reads lanes that EXEC leaves out.
const DPP8: [u32; 2] = [233, 234];
/// What is in front of a matrix instruction with scales, and says where they are.
pub(super) const SCALES: &str = "v_mfma_ld_scale_b32";
/// The first bits of instructions on images, which gfx9 has by its numbers alone.
const IMAGES: u32 = 0x3c;
/// A source that is not there may say that it is the constant 0.
const ZERO: u32 = 128;

/// What an instruction is, or why that is not known, and how many words it has.
pub(crate) fn decode(isa: &Isa, lanes: u32, words: &[u32]) -> (Result<Encoded, String>, usize) {
    let Some(first) = words.first() else { return (Err("no words".into()), 0) };
    let mut refusal = (unknown(*first), guessed_length(*first));
    for encoding in isa.encodings.iter().filter(|encoding| first & encoding.mask == encoding.fixed) {
        if encoding.family == Family::Vopdy || words.len() < encoding.dwords {
            continue;
        }
        let mut decoder = Decoder::new(isa, encoding, lanes, words);
        match decoder.instruction() {
            Ok(Some(encoded)) if encoded.name == SCALES => return decoder.scaled(&encoded),
            Ok(Some(encoded)) => return (Ok(encoded), decoder.used),
            Ok(None) => refusal = (refusal.0, refusal.1.max(encoding.dwords)),
            Err(reason) => {
                refusal = (reason, decoder.used);
                break;
            }
        }
    }
    let length = refusal.1.min(words.len());
    (Err(format!("the words {} ({})", words_text(&words[..length]), refusal.0)), length)
}

/// Why no encoding begins so.
fn unknown(first: u32) -> String {
    if first >> 26 == IMAGES { "an instruction on images".into() } else { "no encoding begins so".into() }
}

/// Words of an instruction of no known encoding: those of images and of graphics have two.
fn guessed_length(first: u32) -> usize {
    if first >> 30 == 3 { 2 } else { 1 }
}

pub(super) struct Decoder<'a> {
    pub isa: &'static Isa,
    pub encoding: &'a Encoding,
    pub lanes: u32,
    pub words: &'a [u32],
    /// The words of the encoding itself.
    pub whole: u128,
    pub used: usize,
    literal: Option<u32>,
}

impl<'a> Decoder<'a> {
    fn new(isa: &Isa, encoding: &'a Encoding, lanes: u32, words: &'a [u32]) -> Self {
        let whole = (0..encoding.dwords).fold(0, |whole, at| whole | u128::from(words[at]) << (32 * at));
        let isa = Isa::of(isa.target);
        Self { isa, encoding, lanes, words, whole, used: encoding.dwords, literal: None }
    }

    pub fn value(&self, field: Field) -> u32 {
        self.encoding.value(field, self.whole)
    }

    pub fn flag(&self, field: Field) -> bool {
        self.encoding.flag(field, self.whole)
    }

    /// The next word behind the encoding.
    pub fn behind(&mut self) -> Refused<u32> {
        let word = self.words.get(self.used).copied().ok_or("a word is missing")?;
        self.used += 1;
        Ok(word)
    }

    /// `None` if there is no instruction of that number in the encoding.
    fn instruction(&mut self) -> Result<Option<Encoded>, String> {
        let Some(row) = self.encoding.row(self.whole) else { return Ok(None) };
        if self.encoding.family == Family::Vopdx {
            return self.dual(row).map(Some);
        }
        self.check_bits(row)?;
        self.check_flat(row)?;
        let mut modifiers = self.modifiers(row);
        let mut operands = Vec::with_capacity(row.operands.len());
        let trailer = self.trailer(row, &mut modifiers)?;
        for spec in &row.operands {
            self.operand(*spec, &modifiers, trailer, &mut operands)?;
        }
        if let Some(trailer) = trailer {
            self.check_trailer(row, trailer, &operands)?;
        }
        self.count_addresses(&mut modifiers, &operands);
        let simm16 = self.whole as u16;
        let family = self.encoding.family;
        let target = self.isa.target;
        Ok(Some(Encoded { name: row.name, family, target, operands, modifiers, simm16, other: None }))
    }

    fn check_bits(&self, row: &Row) -> Refused<()> {
        if self.whole & row.fixed.0 != row.fixed.1 {
            return Err(format!("{} with other halves", row.name));
        }
        let mut left = self.whole & !row.known;
        for field in [Field::Src1, Field::Src2] {
            if let Some(place) = self.encoding.place(field).filter(|place| left & place.mask() != 0)
                && place.of(left) == ZERO
            {
                left &= !place.mask();
            }
        }
        if matches!(self.encoding.family, Family::Vop3p) || row.name.starts_with("v_accvgpr_") {
            // Halves of sources that are not there, or that have none.
            for field in [Field::Opselhi, Field::Opselhi2] {
                left &= !self.encoding.place(field).map_or(0, Place::mask);
            }
        }
        if row.name.starts_with("v_accvgpr_") && self.encoding.family == Family::Mai {
            left &= !(1 << 14 | 3 << 59);
        }
        if row.name == "buffer_wbl2" && self.isa.target.generation == Generation::Cdna2 {
            // LLVM sets these of a release for the system, which its assembler does not have (SIMemoryLegalizer).
            for field in [Field::Glc, Field::Sc1] {
                left &= !self.encoding.place(field).map_or(0, Place::mask);
            }
        }
        if self.encoding.family == Family::Vop3 && row.name.starts_with("v_cmpx_") && self.value(Field::Vdst) == 126 {
            left &= !self.encoding.place(Field::Vdst).map_or(0, Place::mask);
        }
        if left == 0 {
            return Ok(());
        }
        let bits: Vec<String> = (0..128).filter(|bit| left >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
        Err(format!("{} has no use for bit {}", row.name, bits.join(", ")))
    }

    /// # Errors
    /// A flat address with a scalar base, or with an offset that is negative, which only the others have.
    fn check_flat(&self, row: &Row) -> Refused<()> {
        let without = self.encoding.family == Family::Global && !row.operands.contains(&Spec::Saddr);
        if self.encoding.family != Family::Flat && !without {
            return Ok(());
        }
        // Of gfx9 the field is 0.
        let none = self.isa.target.is_gfx9() && self.value(Field::Saddr) == 0;
        if self.encoding.place(Field::Saddr).is_some() && !none && self.scalar_base()? != At::Off {
            return Err(format!("{} with a scalar base", row.name));
        }
        let negative = self.isa.target.generation != Generation::Rdna4 && self.offset(row) < 0;
        if negative { Err(format!("{} with a negative offset", row.name)) } else { Ok(()) }
    }

    fn modifiers(&self, row: &Row) -> Modifiers {
        let byte = |field| self.value(field) as u8;
        let packed = self.encoding.family == Family::Vop3p;
        let mut modifiers = Modifiers {
            clamp: self.flag(Field::Clamp),
            omod: byte(Field::Omod),
            op_sel: byte(Field::Opsel),
            op_sel_hi: byte(Field::Opselhi) | byte(Field::Opselhi2) << 2,
            neg_lo: if packed { byte(Field::Neg) } else { 0 },
            neg_hi: byte(Field::Neghi),
            cbsz: byte(Field::Cbsz),
            abid: byte(Field::Abid),
            blgp: byte(Field::Blgp),
            offset: self.offset(row),
            offset1: None,
            offen: self.flag(Field::Offen),
            idxen: self.flag(Field::Idxen),
            lds: self.flag(Field::Lds),
            gds: self.flag(Field::Gds),
            tfe: self.says_faults(),
            format: byte(Field::Format),
            glc: self.flag(Field::Glc),
            slc: self.flag(Field::Slc),
            dlc: self.flag(Field::Dlc),
            sc1: self.flag(Field::Sc1),
            nv: self.flag(Field::Nv),
            scope: byte(Field::Scope),
            th: byte(Field::Th),
            image: self.image(row),
            ..Modifiers::default()
        };
        if row.name.starts_with("v_bitop3_") {
            // It stands where others have signs and OMOD.
            modifiers.table = Some(byte(Field::Neg) | byte(Field::Abs) << 3 | byte(Field::Omod) << 6);
            modifiers.omod = 0;
        }
        if row.two_offsets {
            modifiers.offset = i64::from(self.value(Field::Offset0));
            modifiers.offset1 = Some(byte(Field::Offset1));
        }
        modifiers
    }

    fn offset(&self, row: &Row) -> i64 {
        match self.encoding.family {
            Family::Ds if !row.two_offsets => i64::from(self.value(Field::Offset0) | self.value(Field::Offset1) << 8),
            Family::Mubuf | Family::Mtbuf => i64::from(self.value(Field::Offset)),
            Family::Flat | Family::Scratch | Family::Global => {
                let width = self.encoding.place(Field::Offset).map_or(1, |place| place.width);
                signed(self.value(Field::Offset), width)
            }
            _ => 0,
        }
    }

    /// The word of DPP or SDWA, which holds the first source.
    fn trailer(&mut self, row: &Row, modifiers: &mut Modifiers) -> Refused<Option<Trailer>> {
        let has = matches!(
            self.encoding.family,
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3b | Family::Vop3p
        );
        if !has {
            return Ok(None);
        }
        let code = self.value(Field::Src0);
        let refused = |what: &str| Err(format!("{} has no {what}", row.name));
        let kind = match code {
            DPP16 if row.dpp16 => TrailerKind::Dpp16,
            DPP16 => return refused("DPP"),
            code if DPP8.contains(&code) && row.dpp8 => TrailerKind::Dpp8,
            code if DPP8.contains(&code) => return refused("DPP8"),
            SDWA if row.sdwa => TrailerKind::Sdwa,
            SDWA => return refused("SDWA"),
            _ => return Ok(None),
        };
        let word = self.behind()?;
        match kind {
            TrailerKind::Dpp16 => modifiers.dpp = Some(dpp16(word)?),
            TrailerKind::Dpp8 => modifiers.dpp = Some(dpp8(word, code == DPP8[1])),
            TrailerKind::Sdwa => {
                let compares = self.encoding.family == Family::Vopc;
                modifiers.sdwa = Some(sdwa(word, compares)?);
                if !compares {
                    modifiers.clamp = word >> 13 & 1 == 1;
                    modifiers.omod = (word >> 14 & 3) as u8;
                }
            }
        }
        Ok(Some(Trailer { kind, word }))
    }

    /// # Errors
    /// A sign of a source that is not there.
    fn check_trailer(&self, row: &Row, trailer: Trailer, operands: &[Operand]) -> Refused<()> {
        let has_second = operands.iter().any(|operand| operand.source == Some(1));
        let second = match trailer.kind {
            TrailerKind::Dpp16 => trailer.word >> 22 & 3,
            TrailerKind::Dpp8 => 0,
            TrailerKind::Sdwa if has_second => 0,
            TrailerKind::Sdwa => match trailer.word >> 24 & 0xff {
                // "DWORD", which is the default, and the first byte.
                6 => 0,
                other => other,
            },
        };
        let long = matches!(self.encoding.family, Family::Vop3 | Family::Vop3b | Family::Vop3p);
        let signs = long && trailer.kind == TrailerKind::Dpp16 && trailer.word >> 20 & 15 != 0;
        if !has_second && second != 0 || signs {
            return Err(format!("{} has no use for a sign of DPP", row.name));
        }
        Ok(())
    }

    pub(super) fn operand(
        &mut self,
        spec: Spec,
        modifiers: &Modifiers,
        trailer: Option<Trailer>,
        operands: &mut Vec<Operand>,
    ) -> Refused<()> {
        match spec {
            Spec::Literal => {
                let value = self.literal()?;
                operands.push(At::Literal(value).into());
            }
            Spec::Simm16 => operands.push(At::Immediate(i64::from(self.value(Field::Simm16))).into()),
            Spec::Message => operands.push(At::Message(self.value(Field::Ssrc0) as u8).into()),
            Spec::Offset => self.scalar_offset(operands)?,
            Spec::Saddr => {
                let base = self.scalar_base()?;
                operands.push(base.into());
            }
            Spec::ImageData(count) => operands.push(self.image_data(count)?.into()),
            Spec::ImageAddresses => self.image_addresses(operands)?,
            Spec::Vaddr => operands.push(self.buffer_address()?.into()),
            Spec::Named(name) => operands.push(self.named(name, trailer)?),
            Spec::Field { optional: true, field, .. } if !modifiers.glc && modifiers.th & 1 == 0 => {
                self.unused(field, "a register for what is not returned")?;
            }
            // What is loaded goes to LDS.
            Spec::Field { field: Field::Vdata, .. } if modifiers.lds => {
                self.unused(Field::Vdata, "a register for what goes to LDS")?;
            }
            Spec::Field { field, place, width, accumulation, scalar, .. } => {
                let operand = self.field(field, place, width, (accumulation, scalar), modifiers, trailer)?;
                operands.push(operand);
            }
        }
        Ok(())
    }

    /// The word behind: one, however many operands it is.
    fn literal(&mut self) -> Refused<u32> {
        match self.literal {
            Some(value) => Ok(value),
            None => {
                let value = self.behind()?;
                self.literal = Some(value);
                Ok(value)
            }
        }
    }

    fn named(&self, name: &'static str, trailer: Option<Trailer>) -> Refused<Operand> {
        let dwords = (self.lanes / 32) as u8;
        match (name, trailer) {
            // A comparison by SDWA says where its mask goes.
            ("vcc", Some(Trailer { kind: TrailerKind::Sdwa, word }))
                if self.encoding.family == Family::Vopc && word >> 15 & 1 == 1 =>
            {
                self.isa.scalar(word >> 8 & 0x7f, dwords).map(Operand::from)
            }
            ("vcc" | "vcc_lo", _) => self.isa.scalar(106, dwords).map(Operand::from),
            ("exec" | "exec_lo", _) => self.isa.scalar(126, dwords).map(Operand::from),
            _ => Ok(At::Other(name).into()),
        }
    }

    fn field(
        &mut self,
        field: Field,
        place: Place,
        width: Width,
        (accumulation, scalar): (bool, bool),
        modifiers: &Modifiers,
        trailer: Option<Trailer>,
    ) -> Refused<Operand> {
        let number = place.of(self.whole);
        let dwords = self.dwords(field, width, modifiers);
        let source = match field {
            Field::Src0 | Field::Srcx0 | Field::Srcy0 => Some(0),
            Field::Src1 | Field::Vsrc1 | Field::Vsrcx1 | Field::Vsrcy1 => Some(1),
            Field::Src2 => Some(2),
            _ => None,
        };
        let accumulation = accumulation || self.accumulates(field);
        let short = matches!(self.encoding.family, Family::Vop1 | Family::Vop2 | Family::Vopc);
        let half = width == Width::Half;
        let mut operand: Operand = match field {
            // A constant in place of a source.
            Field::Ssrc1 if dwords == 0 => At::Immediate(i64::from(number)).into(),
            Field::Vdst if scalar => self.isa.scalar(number, dwords)?.into(),
            Field::Sdst | Field::Sdata => self.isa.scalar(number, dwords)?.into(),
            Field::Sbase => self.isa.scalar(number * 2, dwords)?.into(),
            Field::Srsrc | Field::Ssamp => self.isa.scalar(number * 4, dwords)?.into(),
            Field::Rsrc | Field::Samp => self.isa.scalar(number, dwords)?.into(),
            Field::Vaddr => match self.flat_address()? {
                Some(dwords) => self.isa.vector(number, dwords, false)?.into(),
                None => {
                    self.unused(Field::Vaddr, "an address that is not used")?;
                    At::Off.into()
                }
            },
            Field::Src0 if trailer.is_some() => self.first_of(trailer, short && half, dwords)?,
            Field::Vsrc1
                if trailer.is_some_and(|trailer| trailer.kind == TrailerKind::Sdwa && trailer.word >> 31 == 1) =>
            {
                self.isa.scalar(number, dwords)?.into()
            }
            // A and B of a matrix instruction, which C is not.
            Field::Src0 | Field::Src1 if accumulation && number < VGPRS => {
                return Err(format!("source {number} as an accumulation register"));
            }
            Field::Ssrc0
            | Field::Ssrc1
            | Field::Soffset
            | Field::Src0
            | Field::Src1
            | Field::Src2
            | Field::Srcx0
            | Field::Srcy0 => self.any_source(number, dwords, accumulation, short && half)?,
            Field::Vdsty => {
                let even = self.value(Field::Vdstx) & 1;
                self.isa.vector(number << 1 | (even ^ 1), dwords, false)?.into()
            }
            _ if short && half => {
                Operand { half: Some(number & 128 != 0), ..self.isa.vector(number & 127, 1, false)?.into() }
            }
            _ => self.isa.vector(number, dwords, accumulation)?.into(),
        };
        (operand.source, operand.dwords) = (source, dwords);
        self.change(&mut operand, field, half && !short, modifiers, trailer);
        Ok(operand)
    }

    fn any_source(&mut self, number: u32, dwords: u8, accumulation: bool, short_half: bool) -> Refused<Operand> {
        if short_half && number >= 256 {
            let half = Some(number & 128 != 0);
            return Ok(Operand { half, ..self.isa.vector(number & 127, 1, accumulation)?.into() });
        }
        match self.isa.source(number, dwords, accumulation)? {
            Some(at) => Ok(at.into()),
            None if self.isa.target.is_gfx9() && self.encoding.dwords > 1 => {
                Err(format!("source {LITERAL}, a literal, which this encoding does not have"))
            }
            None => Ok(At::Literal(self.literal()?).into()),
        }
    }

    /// The first source, in the word of DPP or SDWA.
    fn first_of(&self, trailer: Option<Trailer>, short_half: bool, dwords: u8) -> Refused<Operand> {
        let Some(trailer) = trailer else { return Err("no word behind".into()) };
        let number = trailer.word & 0xff;
        if trailer.kind == TrailerKind::Sdwa && trailer.word >> 23 & 1 == 1 {
            return self
                .isa
                .source(number, dwords, false)?
                .map(Operand::from)
                .ok_or_else(|| "a literal of SDWA".into());
        }
        if short_half {
            return Ok(Operand { half: Some(number & 128 != 0), ..self.isa.vector(number & 127, 1, false)?.into() });
        }
        self.isa.vector(number, dwords, false).map(Operand::from)
    }

    /// Signs and halves of an operand.
    fn change(
        &self,
        operand: &mut Operand,
        field: Field,
        long_half: bool,
        modifiers: &Modifiers,
        trailer: Option<Trailer>,
    ) {
        let selected = |at: u8| self.value(Field::Opsel) >> at & 1 == 1;
        let Some(at) = operand.source else {
            if long_half && field == Field::Vdst {
                operand.half = Some(selected(3));
            }
            return;
        };
        let bit = |field: Field| self.value(field) >> at & 1 == 1;
        if modifiers.table.is_none() && matches!(self.encoding.family, Family::Vop3 | Family::Vop3b) {
            (operand.absolute, operand.negate) = (bit(Field::Abs), bit(Field::Neg));
        }
        if long_half {
            operand.half = Some(selected(at));
        }
        match trailer {
            Some(Trailer { kind: TrailerKind::Dpp16, word })
                if !matches!(self.encoding.family, Family::Vop3 | Family::Vop3b | Family::Vop3p) && at < 2 =>
            {
                let bits = word >> (20 + 2 * at);
                (operand.negate, operand.absolute) = (bits & 1 == 1, bits & 2 == 2);
            }
            Some(Trailer { kind: TrailerKind::Sdwa, word }) if at < 2 => {
                let bits = word >> (19 + 8 * at);
                (operand.extend, operand.negate, operand.absolute) = (bits & 1 == 1, bits & 2 == 2, bits & 4 == 4);
            }
            _ => {}
        }
    }
}
