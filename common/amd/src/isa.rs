//! Instructions as their words say: which one it is, its operands and its modifiers. Two tables hold what the targets have: how instructions
//! are encoded (`isa/encodings.tsv`), and which there are (`isa/instructions.tsv`, made by `isa/instructions.py`).
//!
//! Every bit of the words is accounted for: one that is set and has no use makes the instruction one that is not known.

mod address;
mod composed;
mod decode;
mod image;
mod operand;
mod registers;
mod table;
mod text;
mod trailer;

use crate::instruction::{Dpp, Select, Unused};
use crate::source::Row;
use crate::target::Target;

pub(crate) use decode::decode;
pub(crate) use table::Isa;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// As LLVM names it, without what DPP and SDWA add.
    pub name: &'static str,
    pub family: Family,
    pub target: &'static Target,
    pub operands: Vec<Operand>,
    pub modifiers: Modifiers,
    /// The lower half of the first word: the constant of SOPP and SOPK.
    pub simm16: u16,
    /// The second half of VOPD.
    pub other: Option<Box<Encoded>>,
}

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3b,
    Vop3p,
    Mai,
    Vopdx,
    Vopdy,
    Ds,
    Flat,
    Scratch,
    Global,
    Mubuf,
    Mtbuf,
    Mimg,
    Vimage,
    Vsample,
}

/// What an operand is, before its width and its kind are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// First, accumulation registers being behind the others, and how many.
    Vgpr(u16, u8),
    Sgpr(u8, u8),
    /// A constant of the encoding.
    Integer(i8),
    /// Which of the floats of the encoding: 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1 / (2 pi).
    Float(u8),
    Literal(u32),
    /// A constant that is no source of an operation: of SOPP, SOPK and scalar memory.
    Immediate(i64),
    /// What `s_sendmsg_rtn` asks for.
    Message(u8),
    Scc,
    ExecZero,
    VccZero,
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
    /// No register where there could be one.
    Off,
    Other(&'static str),
}

/// An operand, and what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub at: At,
    pub negate: bool,
    pub absolute: bool,
    pub extend: bool,
    /// The half of a register that a 16-bit operand is, where the target lets it be either.
    pub half: Option<bool>,
    /// Whether it is the first, second or third source of a vector instruction.
    pub source: Option<u8>,
    /// Registers that it has, or would have if it is a constant.
    pub dwords: u8,
}

/// What is said of an instruction beside its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modifiers {
    pub clamp: bool,
    /// 1 to 3: times 2, times 4, halved.
    pub omod: u8,
    /// A bit for each source, and one for the result.
    pub op_sel: u8,
    pub op_sel_hi: u8,
    pub neg_lo: u8,
    pub neg_hi: u8,
    /// The truth table of V_BITOP3.
    pub table: Option<u8>,
    pub cbsz: u8,
    pub abid: u8,
    pub blgp: u8,
    pub dpp: Option<Dpp>,
    pub sdwa: Option<Sdwa>,
    pub offset: i64,
    /// The second offset of an instruction that has two.
    pub offset1: Option<u8>,
    pub offen: bool,
    pub idxen: bool,
    pub lds: bool,
    pub gds: bool,
    pub tfe: bool,
    /// Of typed buffers, by number.
    pub format: u8,
    /// `glc` or `sc0`.
    pub glc: bool,
    /// `slc` or `nt`.
    pub slc: bool,
    pub dlc: bool,
    pub sc1: bool,
    pub nv: bool,
    pub scope: u8,
    pub th: u8,
    /// The scales of a matrix instruction.
    pub scales: Option<Scales>,
    pub image: Option<ImageModifiers>,
}

/// What an instruction on images says beside its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageModifiers {
    /// Components, a bit each.
    pub dmask: u8,
    /// Which of [`DIMENSIONS`](image::DIMENSIONS); `None` of gfx9, whose descriptors say it, and of ray tracing.
    pub dim: Option<u8>,
    pub unorm: bool,
    pub r128: bool,
    pub a16: bool,
    pub d16: bool,
    pub lwe: bool,
    /// An array, of gfx9.
    pub da: bool,
    /// Operands that are addresses, behind the data.
    pub addresses: u8,
}

/// Where the scales of a matrix instruction are, and the two bits of each that choose a byte of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scales {
    pub a: At,
    pub b: At,
    pub op_sel: u8,
    pub op_sel_hi: u8,
}

/// SDWA: the parts of the result and the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sdwa {
    pub to: Select,
    pub unused: Unused,
    pub sources: [Select; 2],
    /// There is a result with parts, none of a comparison.
    pub has_result: bool,
}

/// One instruction of a code object.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub address: u64,
    pub words: Vec<u32>,
    /// What it is, or why that is not known.
    pub encoded: Result<Encoded, String>,
    /// The source, where the code object has a line table.
    pub row: Row,
}

impl From<At> for Operand {
    fn from(at: At) -> Self {
        Self { at, negate: false, absolute: false, extend: false, half: None, source: None, dwords: 1 }
    }
}

impl Line {
    /// As LLVM prints it, or its words.
    pub fn text(&self) -> String {
        match &self.encoded {
            Ok(encoded) => encoded.to_string(),
            Err(_) => format!(".long {}", words_text(&self.words)),
        }
    }
}

/// The first instruction of `words` as LLVM prints it, and how many words it has; or why it is not known.
pub fn disassemble(words: &[u32], target: &'static Target, lanes: u32) -> (Result<String, String>, usize) {
    let (encoded, length) = decode(Isa::of(target), lanes, words);
    (encoded.map(|encoded| encoded.to_string()), length)
}

fn words_text(words: &[u32]) -> String {
    words.iter().map(|word| format!("{word:08X}")).collect::<Vec<_>>().join(" ")
}
