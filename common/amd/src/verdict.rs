//! What ends a launch: a fault of the kernel, and where it was met.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::error::LaunchError;

/// Number of the trap that stands in code for AMD's GPUs where the source has inline PTX (`shim/gpu.h` of `bluefin-kernel-spec`). The compiler
/// and the runtimes use 1 to 3.
pub const PTX_TRAP: u32 = 120;
/// Number of the trap of an `assert` that fails (`shim/indices.h`).
pub const ASSERT_TRAP: u32 = 121;
/// Number of the trap of a texture that is a variable, which a host binds (`shim/textures.h`).
pub const TEXTURE_TRAP: u32 = 122;

/// Where a value came from that an atomic was to change, though nobody had written it.
pub(crate) const NOBODYS_ATOMIC: &str = "an atomic on what nobody wrote";

/// Why a launch did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not begun.
    Launch(LaunchError),
    /// A kernel did what it must not.
    Verdict(Box<Verdict>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch(error) => error.fmt(f),
            Self::Verdict(verdict) => verdict.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

/// An instruction of a code object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// From the code object's base.
    pub address: u64,
    /// As LLVM prints it.
    pub text: String,
    /// File and line that it was compiled from, where the code object says so.
    pub source: Option<Arc<str>>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {:#x}", self.text, self.address)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

/// A fault, and who met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub kernel: String,
    pub fault: Fault,
    /// `None` where no instruction is at fault: execution left the code.
    pub instruction: Option<Site>,
    pub block: [u32; 3],
    /// Within its block.
    pub wave: u32,
    /// Within its wave, where one lane is at fault.
    pub lane: Option<u32>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "{}: {}", source_name(&self.kernel), self.fault)?;
        if let Some(site) = &self.instruction {
            write!(f, ", by {site}")?;
        }
        write!(f, ", block ({x}, {y}, {z}), wave {}", self.wave)?;
        match self.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

/// The name of a kernel or a variable as its source has it, where its symbol is one of C++'s.
pub(crate) fn source_name(symbol: &str) -> Cow<'_, str> {
    // `v` alone would be a type.
    let mangled = Some(symbol).filter(|symbol| symbol.starts_with("_Z"));
    let demangled = mangled.and_then(|symbol| cpp_demangle::Symbol::new(symbol).ok()?.demangle().ok());
    demangled.map_or(Cow::Borrowed(symbol), Cow::Owned)
}

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
        })
    }
}

/// What an address means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a buffer, or near one: `offset` is in bytes from its start, `element` in its elements, which number `elements`.
    Buffer { name: String, offset: i64, element: i64, elements: u64 },
    /// In a buffer that was freed.
    Freed { name: String, offset: i64 },
    /// In a block's LDS of `size` bytes.
    Lds { offset: u64, size: u64 },
    /// In a lane's scratch.
    Scratch { offset: u64, size: u64 },
    /// Near nothing.
    Nowhere { address: u64 },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer { name, element, elements, offset } => {
                write!(f, "element {element} of {name} ({elements} elements; byte {offset})")
            }
            Self::Freed { name, offset } => write!(f, "byte {offset} of {name}, which was freed"),
            Self::Lds { offset, size } => write!(f, "byte {offset} of {size} bytes of LDS"),
            Self::Scratch { offset, size } => write!(f, "byte {offset} of {size} bytes of scratch"),
            Self::Nowhere { address } => write!(f, "address {address:#x}, which is near no buffer"),
        }
    }
}

/// Who else touched a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Other {
    /// Another lane of the wave, by the same instruction, with another value.
    Lane(u32),
    /// A wave of the same block, with no barrier between.
    Wave(u32),
    /// More than one wave of the same block.
    Waves,
    /// Another block of the launch.
    Block([u32; 3]),
    /// More than one block.
    Blocks,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(lane) => write!(f, "lane {lane} of the wave"),
            Self::Wave(wave) => write!(f, "wave {wave} of the block"),
            Self::Waves => f.write_str("several waves of the block"),
            Self::Block([x, y, z]) => write!(f, "block ({x}, {y}, {z})"),
            Self::Blocks => f.write_str("several blocks"),
        }
    }
}

/// What a value that nobody wrote decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    Address,
    Branch,
    /// The mask of lanes that execute.
    Exec,
    /// The number of a lane, or a count of bits, that selects what an instruction does.
    Selector,
    Store(Place),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("an address"),
            Self::Branch => f.write_str("a branch"),
            Self::Exec => f.write_str("EXEC"),
            Self::Selector => f.write_str("which lane is read"),
            Self::Store(place) => write!(f, "what is stored to {place}"),
        }
    }
}

/// What a kernel must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A touch outside of what there is.
    OutOfBounds { access: Access, bytes: u32, place: Place },
    /// A write to what is read only.
    ReadOnly { place: Place },
    /// An access that the target forbids at this address.
    Misaligned { access: Access, bytes: u32, place: Place },
    /// A value that nobody wrote, or that was made of one, is used.
    Unwritten { used: Use, origin: Option<String> },
    /// Two touch one place, one of them writing, and nothing orders them. `by`: the last instruction by which the other one did before, as far as that
    /// is known. `rounding`: both write, and what
    /// they write is, as this type, a few roundings apart.
    Race {
        access: Access,
        place: Place,
        other: Other,
        by: Option<Box<Site>>,
        wrote: bool,
        rounding: Option<&'static str>,
    },
    /// What another wave wrote is read behind a barrier or an atomic, but a cache may hold what was there before: an instruction is
    /// missing that empties it.
    Stale { place: Place, other: Other, missing: &'static str },
    /// What is stored to a place never leaves the cache that it is in: an instruction is missing that writes it back.
    NotWrittenBack { place: Place, missing: &'static str },
    /// A register is used before what was loaded into it, or is stored from it, is there.
    Unwaited { register: String, counter: &'static str, issued: Site },
    /// Some threads of the block go on without the barrier.
    Barrier { missing: Missing },
    /// More instructions than the limit.
    Hang { limit: u64 },
    /// A matrix instruction's operand whose lanes are no copies of the first 16, as it wants them ("wave matrix multiply
    /// accumulate", RDNA 3).
    NotReplicated { register: String },
    /// The register of a matrix instruction that says which elements of a sparse operand are there has a pair whose second is not
    /// behind the first ("Sparse matrices", CDNA 3).
    Disordered { register: String },
    /// An instruction, modifier or mode that is not executed.
    Unimplemented { what: String },
    /// Execution went where no instruction is.
    LeftCode { address: u64 },
    /// The kernel gave up (`s_trap`): by itself, or at what bluefin's headers make a trap of: [`PTX_TRAP`], [`ASSERT_TRAP`],
    /// [`TEXTURE_TRAP`].
    Trap { number: u32 },
}

impl Fault {
    /// Whether another number of threads or blocks may be without it: a touch out of bounds, a race, a barrier that some do not reach, what the kernel
    /// gives up at by itself.
    #[must_use]
    pub const fn may_be_of_launch(&self) -> bool {
        match self {
            Self::OutOfBounds { .. } | Self::Unwritten { .. } | Self::Race { .. } | Self::Barrier { .. } => true,
            Self::Trap { number } => !matches!(*number, PTX_TRAP | TEXTURE_TRAP),
            _ => false,
        }
    }
}

/// Who does not reach a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A wave that waits at another one.
    Elsewhere { wave: u32, at: Site },
    /// Lanes of the wave itself, which EXEC leaves out, and which go on behind it.
    Lanes {
        lanes: u64,
        /// What they do next together with lanes that came to it.
        on: Site,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { access, bytes, place } => {
                write!(f, "out of bounds: {access} of {bytes} bytes at {place}")
            }
            Self::ReadOnly { place } => write!(f, "write to read-only memory: {place}"),
            Self::Misaligned { access, bytes, place } => write!(f, "misaligned: {access} of {bytes} bytes at {place}"),
            Self::Unwritten { used, origin } => {
                write!(f, "a value that nobody wrote decides {used}")?;
                match origin {
                    Some(origin) => write!(f, " ({origin})"),
                    None => Ok(()),
                }
            }
            Self::Race { access, place, other, by, wrote, rounding } => {
                write!(f, "race: {access} of {place}, ")?;
                match (other, wrote) {
                    (Other::Lane(_), _) => write!(f, "to which {other} writes another value in the same instruction")?,
                    _ => {
                        let did = if *wrote { "wrote" } else { "read" };
                        // No barrier orders blocks.
                        let missing = match other {
                            Other::Block(_) | Other::Blocks => "no release and acquire in between",
                            _ => "no barrier in between that waited for it",
                        };
                        write!(f, "which {other} {did} ")?;
                        if let Some(by) = by {
                            write!(f, "by {by} ")?;
                        }
                        write!(f, "with {missing}")?;
                    }
                }
                match rounding {
                    Some(of) => write!(f, "; as {of}, both values differ by a rounding"),
                    None => Ok(()),
                }
            }
            Self::Stale { place, other, missing } => {
                write!(f, "stale: read of {place}, which {other} wrote, with no {missing} between")
            }
            Self::NotWrittenBack { place, missing } => {
                write!(f, "store to {place}, which stays in a cache: there is no {missing} before the wave ends")
            }
            Self::Unwaited { register, counter, issued } => {
                // gfx12 has an instruction for each of its counters.
                match *counter {
                    "vmcnt" | "lgkmcnt" => {
                        write!(f, "{register} is used without the s_waitcnt ({counter}) for {issued}")
                    }
                    counter => write!(f, "{register} is used without the s_wait_{counter} for {issued}"),
                }
            }
            Self::Barrier { missing: Missing::Elsewhere { wave, at } } => {
                write!(f, "divergent barrier: wave {wave} waits at {at} instead")
            }
            Self::Barrier { missing: Missing::Lanes { lanes, on } } => {
                write!(f, "divergent barrier: lanes {lanes:#x} do not reach it, and go on with {on}")
            }
            Self::Hang { limit } => write!(f, "more than {limit} instructions"),
            Self::NotReplicated { register } => {
                write!(f, "{register}: lanes from 16 on are no copies of those before them, as this instruction wants")
            }
            Self::Disordered { register } => {
                write!(f, "{register}: of the two elements that are there of four, the second is not behind the first")
            }
            Self::Unimplemented { what } => write!(f, "not implemented: {what}"),
            Self::LeftCode { address } => write!(f, "execution at {address:#x}, where no instruction is"),
            Self::Trap { number: PTX_TRAP } => write!(f, "inline PTX, which is for no AMD GPU (trap {PTX_TRAP})"),
            Self::Trap { number: TEXTURE_TRAP } => {
                write!(
                    f,
                    "a texture that is a variable, of which only its host knows what is in it (trap {TEXTURE_TRAP})"
                )
            }
            Self::Trap { number: ASSERT_TRAP } => write!(f, "an assert fails (trap {ASSERT_TRAP})"),
            Self::Trap { number } => write!(f, "trap {number}"),
        }
    }
}

/// Set in the key of a place of LDS.
pub(crate) const LDS: u64 = 1 << 63;

/// A fault while it is not yet known who met it.
#[derive(Debug)]
pub(crate) struct Raised {
    pub fault: Fault,
    pub lane: Option<u32>,
    /// The wave, where it is not the one that was executed last, and the instruction.
    pub wave: Option<u32>,
    pub at: Option<usize>,
    /// The block, where it is another one.
    pub block: Option<[u32; 3]>,
}

/// Who met a fault, and where.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub fault: Fault,
    pub block: [u32; 3],
    pub wave: u32,
    /// Index of the instruction.
    pub at: usize,
    pub lane: usize,
}

impl Met {
    pub fn is_of_lds(&self) -> bool {
        matches!(self.fault, Fault::Race { place: Place::Lds { .. }, .. })
    }

    /// Whether lanes of one instruction wrote different values.
    pub fn is_of_lanes(&self) -> bool {
        matches!(self.fault, Fault::Race { other: Other::Lane(_), .. })
    }
}

impl Raised {
    pub fn at(lane: usize, fault: Fault) -> Box<Self> {
        Box::new(Self { lane: Some(lane as u32), ..Self::of_wave(fault) })
    }

    /// What was met before.
    pub fn before(Met { fault, block, wave, at, lane }: Met) -> Box<Self> {
        let lane = Some(lane as u32);
        Box::new(Self { wave: Some(wave), at: Some(at), block: Some(block), lane, ..Self::of_wave(fault) })
    }

    /// Whether a value decided something that nobody wrote, or that a race left open.
    pub fn is_unwritten(&self) -> bool {
        matches!(self.fault, Fault::Unwritten { .. })
    }

    pub fn wave(fault: Fault) -> Box<Self> {
        Box::new(Self::of_wave(fault))
    }

    pub fn of_wave(fault: Fault) -> Self {
        Self { fault, lane: None, wave: None, at: None, block: None }
    }
}

/// What an instruction's execution returns.
pub(crate) type Step<T = ()> = Result<T, Box<Raised>>;
