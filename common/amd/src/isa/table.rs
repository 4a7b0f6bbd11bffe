//! The tables of encodings and instructions, put together for a target.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use super::Family;
use crate::target::{Generation, Target};

const ENCODINGS: &str = include_str!("../../isa/encodings.tsv");
const INSTRUCTIONS: &str = include_str!("../../isa/instructions.tsv");

/// First bit and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub low: u8,
    pub width: u8,
}

impl Place {
    pub fn of(self, words: u128) -> u32 {
        ((words >> self.low) & self.ones()) as u32
    }

    fn ones(self) -> u128 {
        (1 << self.width) - 1
    }

    pub fn mask(self) -> u128 {
        self.ones() << self.low
    }
}

/// The fields of encodings, by name.
macro_rules! fields {
    ($($field:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field { $($field),* }

        const FIELDS: &[(&str, Field)] = &[$(($name, Field::$field)),*];
    };
}

fields! {
    Op "op", Opm "opm", Sdst "sdst", Ssrc0 "ssrc0", Ssrc1 "ssrc1", Simm16 "simm16", Sbase "sbase", Sdata "sdata", Soe "soe", Nv "nv", Glc "glc", Imm "imm",
    Ioffset "ioffset", Soffset "soffset", Dlc "dlc", Scope "scope", Th "th", Vdst "vdst", Src0 "src0", Vsrc1 "vsrc1", Src1 "src1", Src2 "src2",
    Cbsz "cbsz", Abid "abid", Acccd "acccd", Acc "acc", Blgp "blgp", Neghi "neghi", Opsel "opsel", Opselhi2 "opselhi2", Clamp "clamp",
    Opselhi "opselhi", Neg "neg", Omod "omod", Abs "abs", Opy "opy", Vsrcx1 "vsrcx1", Srcx0 "srcx0", Srcy0 "srcy0", Vsrcy1 "vsrcy1",
    Vdsty "vdsty", Vdstx "vdstx", Offset0 "offset0", Offset1 "offset1", Gds "gds", Dacc "dacc", Addr "addr", Data0 "data0", Data1 "data1",
    Offset "offset", Lds "lds", Slc "slc", Sc1 "sc1", Vaddr "vaddr", Data "data", Saddr "saddr", Sve "sve", Offen "offen", Idxen "idxen",
    Vdata "vdata", Srsrc "srsrc", Rsrc "rsrc", Tfe "tfe", Format "format", Dim "dim", Nsa "nsa", Dmask "dmask", Unorm "unorm", R128 "r128", Lwe "lwe", A16 "a16", D16 "d16", Da "da",
    Ssamp "ssamp", Samp "samp", Vaddr0 "vaddr0", Vaddr1 "vaddr1", Vaddr2 "vaddr2", Vaddr3 "vaddr3", Vaddr4 "vaddr4",
}

/// Letters that all names of targets begin with.
const NAME_LETTERS: usize = 3;

const FAMILIES: &[(&str, Family)] = &[
    ("sop1", Family::Sop1),
    ("sop2", Family::Sop2),
    ("sopc", Family::Sopc),
    ("sopk", Family::Sopk),
    ("sopp", Family::Sopp),
    ("smem", Family::Smem),
    ("vop1", Family::Vop1),
    ("vop2", Family::Vop2),
    ("vopc", Family::Vopc),
    ("vop3", Family::Vop3),
    ("vop3b", Family::Vop3b),
    ("vop3p", Family::Vop3p),
    ("mai", Family::Mai),
    ("vopdx", Family::Vopdx),
    ("vopdy", Family::Vopdy),
    ("ds", Family::Ds),
    ("flat", Family::Flat),
    ("scratch", Family::Scratch),
    ("global", Family::Global),
    ("mubuf", Family::Mubuf),
    ("mtbuf", Family::Mtbuf),
    ("mimg", Family::Mimg),
    ("vimage", Family::Vimage),
    ("vsample", Family::Vsample),
];

/// How many registers an operand has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Dwords(u8),
    /// 32 or 64 lanes.
    ByLanes(u8, u8),
    /// A bit for each lane.
    Mask,
    /// A half of one.
    Half,
}

impl Width {
    pub fn dwords(self, lanes: u32) -> u8 {
        match self {
            Self::Dwords(count) => count,
            Self::ByLanes(narrow, wide) => {
                if lanes == 32 {
                    narrow
                } else {
                    wide
                }
            }
            Self::Mask => u8::try_from(lanes / 32).unwrap_or(2),
            Self::Half => 1,
        }
    }
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Field {
        field: Field,
        place: Place,
        width: Width,
        /// An accumulation register, always.
        accumulation: bool,
        /// A scalar register, where the field is one of vector registers otherwise.
        scalar: bool,
        /// Only if the old value is returned.
        optional: bool,
    },
    /// The word behind the instruction.
    Literal,
    Simm16,
    /// The number of a message, in the place of the first scalar source.
    Message,
    /// Of scalar memory: a constant, a register, or both.
    Offset,
    /// The scalar base of an address, or `off`.
    Saddr,
    /// The vector address of a buffer's instruction.
    Vaddr,
    Named(&'static str),
    /// Of images: the data, so many registers or as many as there are components; and the addresses.
    ImageData(Option<u8>),
    ImageAddresses,
}

/// An instruction of a target.
#[derive(Debug)]
pub(super) struct Row {
    pub name: &'static str,
    pub operands: Vec<Spec>,
    /// Bits that may be set.
    pub known: u128,
    /// Bits that have to be as said.
    pub fixed: (u128, u128),
    pub dpp16: bool,
    pub dpp8: bool,
    pub sdwa: bool,
    pub two_offsets: bool,
    /// Of images: registers of the addresses by dimension, of 32 bits and of 16.
    pub addresses: [[u8; 8]; 2],
    /// Of ray tracing, whose addresses are not alike.
    pub rays: bool,
}

impl Row {
    /// One without operands and modifiers.
    fn named(name: &'static str) -> Self {
        Self {
            name,
            operands: Vec::new(),
            known: 0,
            fixed: (0, 0),
            dpp16: false,
            dpp8: false,
            sdwa: false,
            two_offsets: false,
            addresses: [[0; 8]; 2],
            rays: false,
        }
    }
}

/// An encoding of a target.
pub(super) struct Encoding {
    pub family: Family,
    pub dwords: usize,
    pub fixed: u32,
    pub mask: u32,
    places: [Option<Place>; FIELDS.len()],
    pub rows: HashMap<u32, Row>,
}

impl Encoding {
    pub fn place(&self, field: Field) -> Option<Place> {
        self.places.get(field as usize).copied().flatten()
    }

    /// What a field holds, 0 if there is none.
    pub fn value(&self, field: Field, words: u128) -> u32 {
        self.place(field).map_or(0, |place| place.of(words))
    }

    /// Which instruction it is, if there is one of that number.
    pub fn row(&self, words: u128) -> Option<&Row> {
        let low = self.place(Field::Op).map_or(0, |place| place.width);
        self.rows.get(&(self.value(Field::Op, words) | self.value(Field::Opm, words) << low))
    }

    /// Whether a field of one bit is set.
    pub fn flag(&self, field: Field, words: u128) -> bool {
        self.value(field, words) != 0
    }
}

/// The instructions of a target.
pub(crate) struct Isa {
    pub(super) target: &'static Target,
    pub(super) encodings: Vec<Encoding>,
}

impl Isa {
    /// That of a target, made once.
    pub fn of(target: &'static Target) -> &'static Self {
        static MADE: OnceLock<Mutex<HashMap<&'static str, &'static Isa>>> = OnceLock::new();
        let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.entry(target.name).or_insert_with(|| Box::leak(Box::new(Self::read(target))))
    }

    fn read(target: &'static Target) -> Self {
        let generation = match target.generation {
            Generation::Cdna1 | Generation::Cdna2 | Generation::Cdna3 | Generation::Cdna4 => "9",
            Generation::Rdna2 => "10",
            Generation::Rdna3 => "11",
            Generation::Rdna4 => "12",
        };
        let rows = |text: &'static str| text.lines().filter(|row| !row.starts_with('#'));
        let mut encodings: Vec<Encoding> = rows(ENCODINGS).filter_map(|row| encoding(row, generation)).collect();
        // The second half of VOPD is of the same words.
        let second = encodings.iter().find(|encoding| encoding.family == Family::Vopdx).map(|first| Encoding {
            family: Family::Vopdy,
            rows: HashMap::new(),
            ..*first
        });
        encodings.extend(second);
        // Of its name, the number.
        let name = target.name.get(NAME_LETTERS..).unwrap_or_default();
        for row in rows(INSTRUCTIONS) {
            let mut columns = row.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            let (family, mnemonic, operands, modifiers, forms, opcodes) =
                (next(), next(), next(), next(), next(), next());
            let opcode = opcodes.split(' ').find_map(|part| {
                let (opcode, targets) = part.split_once(':')?;
                targets.split(',').any(|target| target == name).then(|| u32::from_str_radix(opcode, 16).ok())?
            });
            let family = FAMILIES.iter().find(|(name, _)| *name == family).map(|(_, family)| *family);
            let encoding = encodings.iter_mut().find(|encoding| Some(encoding.family) == family);
            if let (Some(opcode), Some(encoding)) = (opcode, encoding) {
                let row = instruction(encoding, mnemonic, operands, modifiers, forms);
                encoding.rows.insert(opcode, row);
            }
        }
        Self { target, encodings }
    }

    pub(super) fn family(&self, family: Family) -> Option<&Encoding> {
        self.encodings.iter().find(|encoding| encoding.family == family)
    }

    /// All encodings with their instructions.
    #[cfg(test)]
    pub fn names(&self) -> impl Iterator<Item = (Family, &'static str)> + '_ {
        self.encodings.iter().flat_map(|encoding| encoding.rows.values().map(|row| (encoding.family, row.name)))
    }
}

fn encoding(row: &str, generation: &str) -> Option<Encoding> {
    let mut columns = row.split('\t');
    let mut next = || columns.next();
    let (name, generations, dwords, fixed, mask, fields) = (next()?, next()?, next()?, next()?, next()?, next()?);
    if !generations.split(' ').any(|found| found == generation) {
        return None;
    }
    let mut places = [None; FIELDS.len()];
    for field in fields.split(' ') {
        let (name, place) = field.split_once(':')?;
        let (low, width) = place.split_once('+')?;
        let (_, field) = FIELDS.iter().find(|(found, _)| *found == name)?;
        *places.get_mut(*field as usize)? = Some(Place { low: low.parse().ok()?, width: width.parse().ok()? });
    }
    Some(Encoding {
        family: FAMILIES.iter().find(|(found, _)| *found == name)?.1,
        dwords: dwords.parse().ok()?,
        fixed: u32::from_str_radix(fixed, 16).ok()?,
        mask: u32::from_str_radix(mask, 16).ok()?,
        places,
        rows: HashMap::new(),
    })
}

fn instruction(encoding: &Encoding, name: &'static str, operands: &'static str, modifiers: &str, forms: &str) -> Row {
    let field = |name: &str| FIELDS.iter().find(|(found, _)| *found == name).map(|(_, field)| *field);
    let words = |text: &'static str| text.split(' ').filter(|word| !word.is_empty());
    let is_image = matches!(encoding.family, Family::Mimg | Family::Vimage | Family::Vsample);
    let specify = |word| if is_image { image_spec(encoding, word) } else { spec(encoding, word) };
    let operands: Vec<Spec> = words(operands).filter_map(specify).collect();
    let mut known = u128::from(encoding.mask);
    let mut fixed = (0, 0);
    // Fields that say where operands are, and offsets, have a meaning in every instruction of their encoding that has such operands.
    let mut knows = |field: Field| known |= encoding.place(field).map_or(0, Place::mask);
    [Field::Op, Field::Opm].into_iter().for_each(&mut knows);
    for spec in &operands {
        match spec {
            Spec::Field { field, .. } => knows(*field),
            Spec::Literal | Spec::Named(_) => {}
            Spec::ImageData(_) => knows(Field::Vdata),
            Spec::ImageAddresses => {
                let own = [Field::Vaddr0, Field::Vaddr1, Field::Vaddr2, Field::Vaddr3, Field::Vaddr4];
                [Field::Vaddr, Field::Nsa].into_iter().chain(own).for_each(&mut knows);
            }
            Spec::Simm16 => knows(Field::Simm16),
            Spec::Message => knows(Field::Ssrc0),
            Spec::Offset => [Field::Ioffset, Field::Soffset, Field::Soe, Field::Imm].into_iter().for_each(&mut knows),
            Spec::Saddr => [Field::Saddr, Field::Sve].into_iter().for_each(&mut knows),
            Spec::Vaddr => [Field::Vaddr, Field::Offen, Field::Idxen].into_iter().for_each(&mut knows),
        }
    }
    if forms.contains(['1', '2']) {
        [Field::Offset0, Field::Offset1, Field::Offset].into_iter().for_each(&mut knows);
    }
    if encoding.family == Family::Mubuf {
        // Of gfx12: 1 where the format is the descriptor's.
        known |= encoding.place(Field::Format).map_or(0, |place| 1 << place.low);
    }
    if encoding.family == Family::Flat || encoding.family == Family::Global && !operands.contains(&Spec::Saddr) {
        // A flat address has no scalar base, which the field says on most targets.
        known |= encoding.place(Field::Saddr).map_or(0, Place::mask);
    }
    for modifier in modifiers.split(' ').filter(|word| !word.is_empty()) {
        let (name, value, is_fixed) = match modifier.split_once('=') {
            Some((name, value)) => (name, value, true),
            None => modifier.split_once(':').map_or((modifier, "", false), |(name, value)| (name, value, false)),
        };
        let place = field(name).and_then(|field| encoding.place(field));
        if let (Some(place), Ok(value)) = (place, u128::from_str_radix(value, 16)) {
            if is_fixed {
                fixed = (fixed.0 | place.mask(), fixed.1 | value << place.low);
                known |= place.mask();
            } else {
                known |= value << place.low;
            }
        }
    }
    if is_image {
        let counts = |letter: char| {
            let digits = forms.split_once(letter).map_or("", |(_, behind)| behind);
            std::array::from_fn(|at| digits.chars().nth(at).and_then(|digit| digit.to_digit(16)).unwrap_or(0) as u8)
        };
        let rays = forms.starts_with('b');
        let addresses = [counts('a'), counts('A')];
        return Row { operands, known, fixed, addresses, rays, ..Row::named(name) };
    }
    let has = |form: char| forms.contains(form);
    Row {
        operands,
        known,
        fixed,
        dpp16: has('d'),
        dpp8: has('8'),
        sdwa: has('s'),
        two_offsets: has('2'),
        ..Row::named(name)
    }
}

/// The same of an instruction on images: `vdata:n`, `vdata:4`, `vaddr`.
fn image_spec(encoding: &Encoding, word: &'static str) -> Option<Spec> {
    match word.split_once(':') {
        None => Some(Spec::ImageAddresses),
        Some(("vdata", count)) => Some(Spec::ImageData(count.parse().ok())),
        Some(_) => spec(encoding, word),
    }
}

/// `vdst:1`, `src0:4/2`, `vdst?:2`, `=vcc`.
fn spec(encoding: &Encoding, word: &'static str) -> Option<Spec> {
    match word {
        "literal" => return Some(Spec::Literal),
        "simm16" => return Some(Spec::Simm16),
        "message" => return Some(Spec::Message),
        "offset" => return Some(Spec::Offset),
        "saddr" => return Some(Spec::Saddr),
        "vaddr" => return Some(Spec::Vaddr),
        _ => {}
    }
    if let Some(name) = word.strip_prefix('=') {
        return Some(Spec::Named(name));
    }
    let (name, width) = word.split_once(':')?;
    let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
    let (width, accumulation) = width.strip_suffix('a').map_or((width, false), |width| (width, true));
    let (width, scalar) = width.strip_suffix('s').map_or((width, false), |width| (width, true));
    let width = match (width, width.split_once('/')) {
        ("h", _) => Width::Half,
        ("m", _) => Width::Mask,
        (_, Some((narrow, wide))) => Width::ByLanes(narrow.parse().ok()?, wide.parse().ok()?),
        (count, None) => Width::Dwords(count.parse().ok()?),
    };
    let (_, field) = FIELDS.iter().find(|(found, _)| *found == name)?;
    Some(Spec::Field { field: *field, place: encoding.place(*field)?, width, accumulation, scalar, optional })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TARGETS;

    /// Every row of the tables is read: nothing in them is misspelt.
    #[test]
    fn every_row_is_of_a_known_encoding_with_known_fields() {
        for row in INSTRUCTIONS.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<&str> = row.split('\t').collect();
            let [family, _, operands, modifiers, _, opcodes] = columns[..] else { panic!("{row}") };
            assert!(FAMILIES.iter().any(|(name, _)| *name == family), "{row}");
            let plain = ["literal", "simm16", "message", "offset", "saddr", "vaddr"];
            for operand in operands.split(' ').filter(|word| !word.is_empty() && !plain.contains(word)) {
                let name = operand.split([':', '?']).next().unwrap_or_default();
                assert!(operand.starts_with('=') || FIELDS.iter().any(|(found, _)| *found == name), "{row}: {operand}");
            }
            for modifier in modifiers.split(' ').filter(|word| !word.is_empty()) {
                let name = modifier.split([':', '=']).next().unwrap_or_default();
                assert!(FIELDS.iter().any(|(found, _)| *found == name), "{row}: {modifier}");
            }
            for opcode in opcodes.split(' ') {
                let (number, targets) = opcode.split_once(':').expect("an opcode and targets");
                assert!(u32::from_str_radix(number, 16).is_ok() && !targets.is_empty(), "{row}");
            }
        }
    }

    #[test]
    fn each_target_has_its_instructions() {
        for target in &TARGETS {
            let isa = Isa::of(target);
            let count: usize = isa.encodings.iter().map(|encoding| encoding.rows.len()).sum();
            assert!(count > 1000, "{}: {count}", target.name);
            // CDNA 3 and later have no images.
            let without = |encoding: &&Encoding| encoding.rows.is_empty() && encoding.family != Family::Mimg;
            let in_no_family = isa.encodings.iter().find(without);
            assert!(in_no_family.is_none(), "{}: {:?}", target.name, in_no_family.map(|encoding| encoding.family));
        }
    }
}
