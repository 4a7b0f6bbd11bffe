//! Instructions as they are executed: everything that text and names say is resolved.

mod cross;
mod image;
mod wait;

pub(crate) use self::cross::{Cross, Exchange};
pub(crate) use self::image::{Extent, ImageAddress, Sampling};
pub(crate) use self::wait::{Counter, Wait};
use crate::matrix::{Layout, Matrix, Modifiers as MatrixModifiers, Refused};
use crate::operations::memory::{Atomic, Kind as MemoryKind, Space, Transposed};
use crate::operations::scalar;
use crate::operations::scaled::Blocks;
use crate::operations::vector::{Kind, Run};

/// Where a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Vgpr(u16),
    Sgpr(u8),
    Constant(u64),
    Scc,
    ExecZero,
    VccZero,
    /// Upper half of the first address of LDS in flat addresses, and of scratch.
    SharedBase,
    PrivateBase,
}

/// A source of a vector instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorSource {
    pub at: Source,
    pub kind: Kind,
    pub change: Change,
}

/// What is done to a source before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// `op_sel`, or a register's upper half by name.
    pub high: bool,
    pub select: Option<Select>,
    pub extend: bool,
    pub absolute: bool,
    pub negate: bool,
}

/// The part of a register that is used, of SDWA and of halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    Byte(u8),
    Word(u8),
    Dword,
    /// Two halves, each the upper one where its flag is set, and negated where its other flag is.
    Halves {
        low: bool,
        high: bool,
        negate: [bool; 2],
    },
}

/// What SDWA does to the rest of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unused {
    Pad,
    Sext,
    Preserve,
}

/// What is done to a result before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub clamp: bool,
    /// 1 to 3: times 2, times 4, halved.
    pub omod: u8,
}

/// Which lane a lane reads its first source from (DPP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permutation {
    Quad([u8; 4]),
    RowShiftLeft(u8),
    RowShiftRight(u8),
    RowRotateRight(u8),
    WaveShiftLeft,
    WaveRotateLeft,
    WaveShiftRight,
    WaveRotateRight,
    RowMirror,
    RowHalfMirror,
    /// The last lane of each row, for the next row.
    Broadcast15,
    /// Lane 31, for the lanes behind it.
    Broadcast31,
    RowShare(u8),
    RowXor(u8),
    /// Within eight lanes.
    Eight([u8; 8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dpp {
    pub permutation: Permutation,
    pub row_mask: u8,
    pub bank_mask: u8,
    /// A lane without a source reads 0; otherwise it is not written.
    pub bound_zero: bool,
    /// Lanes that EXEC leaves out are read.
    pub fetch_inactive: bool,
}

/// Which halves VOP3P takes, and which it negates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halves {
    pub low: [bool; 3],
    pub high: [bool; 3],
    pub negate_low: [bool; 3],
    pub negate_high: [bool; 3],
}

impl Default for Halves {
    fn default() -> Self {
        Self { low: [false; 3], high: [true; 3], negate_low: [false; 3], negate_high: [false; 3] }
    }
}

/// Where a vector instruction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Vgpr(u16),
    /// Only this half of the register.
    Half(u16, bool),
    /// A half; the other one becomes 0.
    Cleared(u16),
    /// A part of the register.
    Part(u16, Select, Unused),
    /// A mask of lanes.
    Mask(u8),
    /// One scalar register, whatever EXEC says ("V_S_RCP_F32" and its like).
    Sgpr(u8),
    /// The mask of lanes that execute, and with gfx9 a register too.
    Exec(Option<u8>),
}

/// What is done to the index of registers ("S_SET_GPR_IDX_ON" and its like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    On(Source, u8),
    Off,
    /// Bits 0 to 7 of M0.
    Number(Source),
    /// Bits 12 to 15.
    Enabled(u8),
}

/// A vector ALU instruction.
#[derive(Clone)]
pub(crate) struct Vector {
    pub run: Run,
    pub result: Kind,
    pub to: Destination,
    /// A second result, a mask of lanes.
    pub mask_to: Option<u8>,
    pub sources: [VectorSource; 3],
    pub count: usize,
    /// A mask of lanes that is a source.
    pub mask: Option<u8>,
    pub bitwise: bool,
    pub upward: bool,
    /// No change, no permutation, no change of the output, whole registers throughout.
    pub simple: bool,
    pub dpp: Option<Dpp>,
    pub output: Output,
    pub halves: Halves,
}

/// A scalar ALU instruction.
#[derive(Clone)]
pub(crate) struct Scalar {
    pub definition: scalar::Definition,
    pub to: u8,
    pub sources: [Source; 2],
    /// The third one, in the place of what the destination held.
    pub third: Option<Source>,
}

/// How EXEC and a source become the new EXEC; the old one is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveExec {
    And,
    Or,
    Xor,
    Nand,
    Nor,
    Xnor,
    /// EXEC and not the source.
    AndNotSource,
    /// The source and not EXEC.
    AndNotExec,
    OrNotSource,
    OrNotExec,
}

/// What a branch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    Scc(bool),
    VccZero(bool),
    ExecZero(bool),
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A VGPR pair.
    Pair(u16),
    /// An SGPR pair, with an offset in a VGPR.
    Base(u8, Option<u16>),
    /// Of scratch: a VGPR and an SGPR or constant, each if it is there.
    Offset(Option<u16>, Option<Source>),
    /// A buffer descriptor, an index, an offset and a scalar offset.
    Descriptor {
        descriptor: u8,
        index: Option<u16>,
        offset: Option<u16>,
        scalar: Source,
    },
    /// LDS.
    Lds(u16),
    /// LDS, where M0 says.
    M0,
    /// A lane every four bytes: from an SGPR pair on, if it is there, or in LDS from where M0 says.
    ByLane(Option<u8>),
    Image(ImageAddress),
}

impl Address {
    /// The vector registers that it is made of.
    pub fn vgprs(&self) -> Vec<u16> {
        match *self {
            Self::Lds(at) => vec![at],
            Self::M0 | Self::ByLane(_) => Vec::new(),
            Self::Image(image) => image.vgprs(),
            Self::Pair(at) => vec![at, at + 1],
            Self::Base(_, at) | Self::Offset(at, _) => at.into_iter().collect(),
            Self::Descriptor { index, offset, .. } => index.into_iter().chain(offset).collect(),
        }
    }
}

/// A vector memory or LDS instruction.
pub(crate) struct Memory {
    pub space: Space,
    pub kind: MemoryKind,
    pub address: Address,
    pub offset: i64,
    /// Of the second element.
    pub second: i64,
    /// What is loaded, or what an atomic returns.
    pub to: u16,
    /// What is stored.
    pub data: u16,
    /// The second thing that is stored.
    pub data2: u16,
    /// A comparing atomic's comparand.
    pub compare: u16,
    /// A load or store that is an atomic one, by its modifiers or since it is repeated until it finds what it waits for.
    pub sync: bool,
    /// It is repeated so: of LDS, modifiers say nothing, as they are of caches (a flat access may be volatile).
    pub waits: bool,
    /// An atomic store for the whole device, which its modifiers tell from a plain one.
    pub device: bool,
    /// What is loaded is transposed among lanes.
    pub transposed: Option<Transposed>,
}

/// Where an instruction of scalar memory goes.
pub(crate) struct ScalarPlace {
    pub base: u8,
    /// `base` is a buffer descriptor.
    pub buffer: bool,
    pub offset: Source,
    pub immediate: i64,
}

/// A scalar load.
pub(crate) struct ScalarLoad {
    pub to: u8,
    pub dwords: u8,
    /// Not a whole dword, but so many bytes of it, extended with their sign or with zeros.
    pub part: Option<(u8, bool)>,
    pub place: ScalarPlace,
}

/// A scalar store.
pub(crate) struct ScalarStore {
    pub data: u8,
    pub dwords: u8,
    pub place: ScalarPlace,
}

/// A scalar atomic. A comparand is behind the data; what is returned goes where the data is.
pub(crate) struct ScalarAtomic {
    pub kind: Atomic,
    pub bytes: u8,
    pub data: u8,
    pub returns: bool,
    pub place: ScalarPlace,
}

/// A matrix instruction.
pub(crate) struct MatrixMultiply {
    pub matrix: Matrix,
    /// Where the scales of A and B are, and which byte of them.
    pub scales: Option<([Source; 2], [u8; 2])>,
    pub modifiers: MatrixModifiers,
    /// Where everything is, or why it is not executed.
    pub layout: Result<Layout, Refused>,
    pub a: u16,
    pub b: u16,
    /// Registers, or one value for all elements.
    pub c: Source,
    pub d: u16,
    /// Where the indices of a sparse A are.
    pub index: Option<u16>,
}

/// A conversion of 32 elements of each lane.
pub(crate) struct Conversion {
    pub blocks: Blocks,
    pub to: u16,
    /// The second one where there are two.
    pub from: [u16; 2],
    pub random: Source,
    pub scale: Source,
}

/// V_MQSAD_U32_U8: eight bytes, four to compare them with, and four sums.
pub(crate) struct Sums {
    pub to: u16,
    pub bytes: [Source; 2],
    pub reference: Source,
    pub sums: [Source; 4],
    pub saturate: bool,
}

pub(crate) enum Action {
    Vector(Box<Vector>),
    /// Registers of it are numbered from M0 on: bits 0 to 2 for the sources, bit 3 for the result; with bit 4, M0 has a number for each.
    Relative(Box<Vector>, u8),
    /// The same of a scalar move.
    RelativeScalar(Box<Scalar>, u8),
    /// From here on, registers of vector instructions are so, as M0 says.
    Index(Index),
    /// Both read before either writes.
    Dual(Box<[Vector; 2]>),
    Matrix(Box<MatrixMultiply>),
    Convert(Box<Conversion>),
    Sums(Box<Sums>),
    Cross(Cross),
    Scalar(Box<Scalar>),
    SaveExec {
        how: SaveExec,
        to: u8,
        source: Source,
    },
    /// EXEC and not a source, into EXEC and a register (`s_andn1_wrexec`, `s_andn2_wrexec`).
    WriteExec {
        negate_source: bool,
        to: u8,
        source: Source,
    },
    Memory(Box<Memory>),
    Exchange(Exchange),
    ScalarLoad(Box<ScalarLoad>),
    ScalarStore(Box<ScalarStore>),
    ScalarAtomic(Box<ScalarAtomic>),
    Branch {
        condition: Condition,
        target: usize,
    },
    GetPc {
        to: u8,
    },
    SetPc {
        from: u8,
    },
    SwapPc {
        to: u8,
        from: u8,
    },
    Call {
        to: u8,
        target: usize,
    },
    GetRegister {
        to: u8,
        register: Hardware,
        offset: u8,
        width: u8,
    },
    /// Bits of MODE.
    SetRegister {
        offset: u8,
        width: u8,
        value: Source,
    },
    /// Bits 0 to 3 (rounding) or 4 to 7 (denormals) of MODE.
    SetMode {
        shift: u8,
        value: u8,
    },
    Clock {
        to: u8,
        dwords: u8,
    },
    /// What a message returns that says nothing of time: of the queue, and of the trap handler, of which there is none.
    Message {
        to: u8,
        dwords: u8,
    },
    Wait(Wait),
    /// Caches hold nothing old any more: those of the unit, those behind them, or both.
    Invalidate {
        near: bool,
        far: bool,
    },
    /// The cache of scalars holds nothing old any more.
    InvalidateScalars,
    /// What scalar stores wrote is on its way to where all see it.
    WriteBackScalars,
    /// What caches hold is on its way to where all see it.
    WriteBack,
    Barrier,
    /// A wave says that it has come to the barrier, and asks whether it is the first: into SCC.
    Signal {
        asks: bool,
    },
    /// What a barrier counts.
    BarrierState {
        to: u8,
    },
    End,
    Trap(u32),
    Nothing,
    Unimplemented(Box<str>),
}

/// A hardware register that `s_getreg` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hardware {
    Mode,
    /// The unit that a wave runs on: always the first.
    Unit,
    /// Where LDS and scratch are in flat addresses.
    Apertures,
    /// The lower 20 bits of the clock; its lower and its upper dword.
    Cycles,
    CyclesLow,
    CyclesHigh,
}

/// Vector registers: the first, how many, and which half of them where that is all (the upper one if true).
pub(crate) type Span = (u16, u16, Option<bool>);

/// Registers that an instruction reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touches {
    pub vgprs: Vec<Span>,
    /// One bit each.
    pub sgprs: u128,
    /// What a load that returns in order writes.
    pub loaded: Option<(Span, Counter)>,
}

pub(crate) struct Instruction {
    pub action: Action,
    pub touches: Touches,
    /// The vector registers among them.
    pub words: Vec<(usize, u64)>,
    /// Behind it.
    pub next_address: u64,
}
