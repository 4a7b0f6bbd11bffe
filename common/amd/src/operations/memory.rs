//! Memory instructions by name: where they go and what they move ("Vector Memory", "Flat Memory", "Data Share" and "Scalar
//! Memory" of the instruction set documents).

use crate::number::{self, F16, F32, F64, Mode};
use crate::typed::Typed;

/// Which addresses an instruction uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Flat,
    Scratch,
    Buffer,
    Lds,
    /// Texels by coordinates.
    Image,
}

/// Where the bytes of a lane go in its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are, in whole dwords.
    Dwords,
    /// One or two bytes, zero-extended.
    Unsigned,
    /// One or two bytes, sign-extended.
    Signed,
    /// One or two bytes, extended to 16 bits, into the lower half; the upper one stays (of loads).
    Low { signed: bool },
    /// The same for the upper half, which is also where stores take them from.
    High { signed: bool },
}

/// An atomic, by what it leaves in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Swap,
    /// Of each half: the data, whose highest bit says whether, and becomes 0 (DS_CONDXCHG32).
    SwapConditional,
    CompareSwap,
    /// Equal as floats are: zeros of both signs, and no NaN; denormals as they are.
    CompareSwapFloat,
    Add,
    /// By a lane for all that execute, whose number it adds (DS_APPEND) or takes away (DS_CONSUME).
    Append,
    Consume,
    Sub,
    /// 0 where the result would be negative.
    SubClamped,
    /// Nothing is done where the result would be negative.
    SubConditional,
    /// Memory from the data.
    SubReversed,
    /// Bits of a mask replaced by others (DS_MSKOR).
    MaskedOr,
    /// Subtracts, or adds another value where the result would be negative (DS_WRAP).
    Wrap,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
    AddF32,
    AddF64,
    MinF32,
    MinF64,
    MaxF32,
    MaxF64,
    AddHalves,
    AddBf16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load {
        bytes: u8,
        form: Form,
    },
    Store {
        bytes: u8,
        form: Form,
    },
    /// Two elements at two offsets, which count elements, or 64 of them.
    LoadTwo {
        bytes: u8,
        stride: u32,
    },
    StoreTwo {
        bytes: u8,
        stride: u32,
    },
    /// Two elements at two offsets, exchanged for what was there.
    ExchangeTwo {
        bytes: u8,
        stride: u32,
    },
    /// What goes to LDS instead of registers: whole dwords, or one or two bytes that are extended to a dword.
    LoadToLds {
        bytes: u8,
        form: Form,
    },
    Atomic {
        kind: Atomic,
        bytes: u8,
        returns: bool,
    },
    /// Elements of a typed buffer.
    LoadTyped(Typed),
    StoreTyped(Typed),
    /// Texels of an image at coordinates that are floats, filtered, or each for itself.
    Sample(Typed),
    /// Width, height, depth and levels of an image: those of the bits.
    ImageSize(u8),
}

/// The memory instruction of that name.
pub(crate) fn find(name: &str) -> Option<(Space, Kind)> {
    let spaces = [
        ("global_", Space::Global),
        ("flat_", Space::Flat),
        ("scratch_", Space::Scratch),
        ("buffer_", Space::Buffer),
        ("tbuffer_", Space::Buffer),
        ("ds_", Space::Lds),
    ];
    let (rest, space) = spaces.iter().find_map(|(prefix, space)| Some((name.strip_prefix(prefix)?, *space)))?;
    let plain = rest.replace("_num_", "_");
    let rest = plain.as_str();
    let kind = if space == Space::Lds { data_share(rest) } else { None };
    Some((space, kind.or_else(|| moved(rest, space)).or_else(|| atomic(rest, space))?))
}

/// How a load transposes what lanes have loaded: elements of so many bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transposed {
    /// 16 lanes hold a matrix of 16 columns, lanes that are beside each other the rows ("DS_READ_B64_TR_B16" and its like, CDNA 4).
    Rows(u8),
    /// The wave holds a matrix of 16 by 16, whose parts of 8 columns are taken in the order that WMMA wants ("GLOBAL_LOAD_TR_B128" and
    /// "GLOBAL_LOAD_TR_B64", RDNA 4).
    Tiles(u8),
}

/// Whether each lane of the access of that name goes four bytes behind the one before it.
pub(crate) fn is_by_lane(name: &str) -> bool {
    name.contains("_addtid")
}

/// Whether and how the load of that name transposes.
pub(crate) fn transposed(name: &str) -> Option<Transposed> {
    match name {
        "global_load_tr_b128" => Some(Transposed::Tiles(16)),
        "global_load_tr_b64" => Some(Transposed::Tiles(8)),
        _ => {
            let (_, bits) = name.strip_prefix("ds_read_")?.split_once("_tr_b")?;
            bits.parse().ok().map(Transposed::Rows)
        }
    }
}

fn moved(name: &str, space: Space) -> Option<Kind> {
    let load = name.strip_prefix("load_").or_else(|| name.strip_prefix("read_").filter(|_| space == Space::Lds));
    let store = name.strip_prefix("store_").or_else(|| name.strip_prefix("write_").filter(|_| space == Space::Lds));
    let dwords = |what: &str| {
        Some(match what {
            "dword" | "b32" => 4,
            "dwordx2" | "b64" => 8,
            "dwordx3" | "b96" => 12,
            "dwordx4" | "b128" => 16,
            "dword_addtid" | "addtid_b32" if space == Space::Global => 4,
            _ => return None,
        })
    };
    // Extended to a dword.
    let part = |what: &str| {
        Some(match what {
            "ubyte" | "u8" => (1, Form::Unsigned),
            "sbyte" | "i8" => (1, Form::Signed),
            "ushort" | "u16" => (2, Form::Unsigned),
            "sshort" | "i16" => (2, Form::Signed),
            _ => return None,
        })
    };
    if let (Some(typed), Space::Buffer) = (load.or(store).and_then(Typed::named), space) {
        return Some(if load.is_some() { Kind::LoadTyped(typed) } else { Kind::StoreTyped(typed) });
    }
    if let Some(what) = load {
        if let Some(what) = what.strip_prefix("lds_") {
            let (bytes, form) = dwords(what).map(|bytes| (bytes, Form::Dwords)).or_else(|| part(what))?;
            return Some(Kind::LoadToLds { bytes, form });
        }
        // What is transposed, see `transposed`.
        let plain = what.strip_prefix("tr_").filter(|_| space == Space::Global).unwrap_or(what);
        if let Some(bytes) = dwords(plain) {
            return Some(Kind::Load { bytes, form: Form::Dwords });
        }
        let (bytes, form) = match what {
            _ if part(what).is_some() => part(what)?,
            "short_d16" | "d16_b16" | "u16_d16" => (2, Form::Low { signed: false }),
            "short_d16_hi" | "d16_hi_b16" | "u16_d16_hi" => (2, Form::High { signed: false }),
            "ubyte_d16" | "d16_u8" | "u8_d16" => (1, Form::Low { signed: false }),
            "ubyte_d16_hi" | "d16_hi_u8" | "u8_d16_hi" => (1, Form::High { signed: false }),
            "sbyte_d16" | "d16_i8" | "i8_d16" => (1, Form::Low { signed: true }),
            "sbyte_d16_hi" | "d16_hi_i8" | "i8_d16_hi" => (1, Form::High { signed: true }),
            _ => return None,
        };
        return Some(Kind::Load { bytes, form });
    }
    let what = store?;
    if let Some(bytes) = dwords(what) {
        return Some(Kind::Store { bytes, form: Form::Dwords });
    }
    let (bytes, form) = match what {
        "byte" | "b8" => (1, Form::Unsigned),
        "short" | "b16" => (2, Form::Unsigned),
        "byte_d16_hi" | "d16_hi_b8" | "b8_d16_hi" => (1, Form::High { signed: false }),
        "short_d16_hi" | "d16_hi_b16" | "b16_d16_hi" => (2, Form::High { signed: false }),
        _ => return None,
    };
    Some(Kind::Store { bytes, form })
}

fn data_share(name: &str) -> Option<Kind> {
    Some(match name {
        // What they transpose, see `transposed`.
        "read_b64_tr_b16" | "read_b64_tr_b8" | "read_b64_tr_b4" => Kind::Load { bytes: 8, form: Form::Dwords },
        "read_b96_tr_b6" => Kind::Load { bytes: 12, form: Form::Dwords },
        "append" => Kind::Atomic { kind: Atomic::Append, bytes: 4, returns: true },
        "consume" => Kind::Atomic { kind: Atomic::Consume, bytes: 4, returns: true },
        "read2_b32" | "load_2addr_b32" => Kind::LoadTwo { bytes: 4, stride: 4 },
        "read2st64_b32" | "load_2addr_stride64_b32" => Kind::LoadTwo { bytes: 4, stride: 4 * 64 },
        "read2_b64" | "load_2addr_b64" => Kind::LoadTwo { bytes: 8, stride: 8 },
        "read2st64_b64" | "load_2addr_stride64_b64" => Kind::LoadTwo { bytes: 8, stride: 8 * 64 },
        "write2_b32" | "store_2addr_b32" => Kind::StoreTwo { bytes: 4, stride: 4 },
        "write2st64_b32" | "store_2addr_stride64_b32" => Kind::StoreTwo { bytes: 4, stride: 4 * 64 },
        "write2_b64" | "store_2addr_b64" => Kind::StoreTwo { bytes: 8, stride: 8 },
        "write2st64_b64" | "store_2addr_stride64_b64" => Kind::StoreTwo { bytes: 8, stride: 8 * 64 },
        "wrxchg2_rtn_b32" | "storexchg_2addr_rtn_b32" => Kind::ExchangeTwo { bytes: 4, stride: 4 },
        "wrxchg2st64_rtn_b32" | "storexchg_2addr_stride64_rtn_b32" => Kind::ExchangeTwo { bytes: 4, stride: 4 * 64 },
        "wrxchg2_rtn_b64" | "storexchg_2addr_rtn_b64" => Kind::ExchangeTwo { bytes: 8, stride: 8 },
        "wrxchg2st64_rtn_b64" | "storexchg_2addr_stride64_rtn_b64" => Kind::ExchangeTwo { bytes: 8, stride: 8 * 64 },
        "read_addtid_b32" | "load_addtid_b32" => Kind::Load { bytes: 4, form: Form::Dwords },
        "write_addtid_b32" | "store_addtid_b32" => Kind::Store { bytes: 4, form: Form::Dwords },
        _ => return None,
    })
}

fn atomic(name: &str, space: Space) -> Option<Kind> {
    use Atomic::{
        Add, AddBf16, AddF32, AddF64, AddHalves, And, CompareSwap, CompareSwapFloat, Decrement, Increment, MaskedOr,
        MaxF32, MaxF64, MaxSigned, MaxUnsigned, MinF32, MinF64, MinSigned, MinUnsigned, Or, Sub, SubClamped,
        SubConditional, SubReversed, Swap, SwapConditional, Wrap, Xor,
    };
    if space == Space::Scratch {
        return None;
    }
    if space == Space::Lds {
        let (plain, returns) = match name.replacen("_rtn", "", 1) {
            plain if plain == name => (plain, false),
            plain => (plain, true),
        };
        let (kind, bytes) = match plain.as_str() {
            "wrxchg_b32" | "storexchg_b32" => (Swap, 4),
            "wrxchg_b64" | "storexchg_b64" => (Swap, 8),
            "condxchg32_b64" => (SwapConditional, 8),
            "add_u32" => (Add, 4),
            "add_u64" => (Add, 8),
            "sub_u32" => (Sub, 4),
            "sub_u64" => (Sub, 8),
            "sub_clamp_u32" => (SubClamped, 4),
            "cond_sub_u32" => (SubConditional, 4),
            "rsub_u32" => (SubReversed, 4),
            "rsub_u64" => (SubReversed, 8),
            "mskor_b32" => (MaskedOr, 4),
            "mskor_b64" => (MaskedOr, 8),
            "wrap_b32" => (Wrap, 4),
            "min_i32" => (MinSigned, 4),
            "min_i64" => (MinSigned, 8),
            "min_u32" => (MinUnsigned, 4),
            "min_u64" => (MinUnsigned, 8),
            "max_i32" => (MaxSigned, 4),
            "max_i64" => (MaxSigned, 8),
            "max_u32" => (MaxUnsigned, 4),
            "max_u64" => (MaxUnsigned, 8),
            "and_b32" => (And, 4),
            "and_b64" => (And, 8),
            "or_b32" => (Or, 4),
            "or_b64" => (Or, 8),
            "xor_b32" => (Xor, 4),
            "xor_b64" => (Xor, 8),
            "inc_u32" => (Increment, 4),
            "inc_u64" => (Increment, 8),
            "dec_u32" => (Decrement, 4),
            "dec_u64" => (Decrement, 8),
            "cmpst_b32" | "cmpstore_b32" => (CompareSwap, 4),
            "cmpst_b64" | "cmpstore_b64" => (CompareSwap, 8),
            "cmpst_f32" | "cmpstore_f32" => (CompareSwapFloat, 4),
            "cmpst_f64" | "cmpstore_f64" => (CompareSwapFloat, 8),
            "add_f32" => (AddF32, 4),
            "add_f64" => (AddF64, 8),
            "min_f32" => (MinF32, 4),
            "max_f32" => (MaxF32, 4),
            "min_f64" => (MinF64, 8),
            "max_f64" => (MaxF64, 8),
            "pk_add_f16" => (AddHalves, 4),
            "pk_add_bf16" => (AddBf16, 4),
            _ => return None,
        };
        return Some(Kind::Atomic { kind, bytes, returns });
    }
    let (plain, bytes) = match name.strip_suffix("_x2") {
        Some(plain) => (plain, 8),
        None => (name, 4),
    };
    let (kind, bytes) = match plain.strip_prefix("atomic_")? {
        "swap" | "swap_b32" => (Swap, bytes),
        "swap_b64" => (Swap, 8),
        "cmpswap" | "cmpswap_b32" => (CompareSwap, bytes),
        "cmpswap_b64" => (CompareSwap, 8),
        "fcmpswap" => (CompareSwapFloat, bytes),
        "cmpswap_f32" => (CompareSwapFloat, 4),
        "add" | "add_u32" => (Add, bytes),
        "add_u64" => (Add, 8),
        "sub" | "sub_u32" => (Sub, bytes),
        "sub_u64" => (Sub, 8),
        "csub" | "csub_u32" | "sub_clamp_u32" => (SubClamped, 4),
        "cond_sub_u32" => (SubConditional, 4),
        "smin" | "min_i32" => (MinSigned, bytes),
        "min_i64" => (MinSigned, 8),
        "umin" | "min_u32" => (MinUnsigned, bytes),
        "min_u64" => (MinUnsigned, 8),
        "smax" | "max_i32" => (MaxSigned, bytes),
        "max_i64" => (MaxSigned, 8),
        "umax" | "max_u32" => (MaxUnsigned, bytes),
        "max_u64" => (MaxUnsigned, 8),
        "and" | "and_b32" => (And, bytes),
        "and_b64" => (And, 8),
        "or" | "or_b32" => (Or, bytes),
        "or_b64" => (Or, 8),
        "xor" | "xor_b32" => (Xor, bytes),
        "xor_b64" => (Xor, 8),
        "inc" | "inc_u32" => (Increment, bytes),
        "inc_u64" => (Increment, 8),
        "dec" | "dec_u32" => (Decrement, bytes),
        "dec_u64" => (Decrement, 8),
        // gfx10's names.
        "fmin" => (if bytes == 8 { MinF64 } else { MinF32 }, bytes),
        "fmax" => (if bytes == 8 { MaxF64 } else { MaxF32 }, bytes),
        "add_f32" => (AddF32, 4),
        "add_f64" => (AddF64, 8),
        "min_f32" => (MinF32, 4),
        "max_f32" => (MaxF32, 4),
        "min_f64" => (MinF64, 8),
        "max_f64" => (MaxF64, 8),
        "pk_add_f16" => (AddHalves, 4),
        "pk_add_bf16" => (AddBf16, 4),
        _ => return None,
    };
    // Whether the old value is wanted is a modifier of these.
    Some(Kind::Atomic { kind, bytes, returns: false })
}

impl Atomic {
    /// Whether there is a second operand, which is the `compare` of [`Atomic::next`].
    pub fn has_two_operands(self) -> bool {
        matches!(self, Self::CompareSwap | Self::CompareSwapFloat | Self::MaskedOr | Self::Wrap)
    }

    /// Whether that is what memory is compared with.
    pub fn compares(self) -> bool {
        matches!(self, Self::CompareSwap | Self::CompareSwapFloat)
    }

    /// Whether one lane does it for all, whose data is their number.
    pub fn counts_lanes(self) -> bool {
        matches!(self, Self::Append | Self::Consume)
    }

    /// What is left in memory that held `old`.
    pub fn next(self, mode: &Mode, bytes: usize, old: u64, data: u64, compare: u64) -> u64 {
        let wide = bytes == 8;
        let sign = |value: u64| if wide { value as i64 } else { i64::from(value as u32 as i32) };
        let (low_old, low_data) = (old as u32, data as u32);
        let single = |value: u32| u64::from(value);
        match self {
            Self::Swap => data,
            Self::SwapConditional => {
                let half =
                    |old: u64, data: u64| if data >> 31 & 1 == 1 { data & 0x7fff_ffff } else { old & 0xffff_ffff };
                half(old, data) | half(old >> 32, data >> 32) << 32
            }
            Self::CompareSwap => {
                if old == compare {
                    data
                } else {
                    old
                }
            }
            Self::CompareSwapFloat => {
                let equal = if wide {
                    f64::from_bits(old) == f64::from_bits(compare)
                } else {
                    f32::from_bits(low_old) == f32::from_bits(compare as u32)
                };
                if equal { data } else { old }
            }
            Self::Add | Self::Append => old.wrapping_add(data),
            Self::Sub | Self::Consume => old.wrapping_sub(data),
            Self::SubClamped => old.saturating_sub(data),
            Self::SubConditional => old.checked_sub(data).unwrap_or(old),
            Self::SubReversed => data.wrapping_sub(old),
            Self::MaskedOr => old & !data | compare,
            Self::Wrap => old.checked_sub(data).unwrap_or(old.wrapping_add(compare)),
            Self::MinSigned => {
                if sign(data) < sign(old) {
                    data
                } else {
                    old
                }
            }
            Self::MaxSigned => {
                if sign(data) > sign(old) {
                    data
                } else {
                    old
                }
            }
            Self::MinUnsigned => old.min(data),
            Self::MaxUnsigned => old.max(data),
            Self::And => old & data,
            Self::Or => old | data,
            Self::Xor => old ^ data,
            Self::Increment => {
                if old >= data {
                    0
                } else {
                    old + 1
                }
            }
            Self::Decrement => {
                if old == 0 || old > data {
                    data
                } else {
                    old - 1
                }
            }
            Self::AddF32 => single(number::add::<F32>(mode, low_old, low_data)),
            Self::MinF32 => single(number::min::<F32>(mode, low_old, low_data)),
            Self::MaxF32 => single(number::max::<F32>(mode, low_old, low_data)),
            Self::AddF64 => number::add::<F64>(mode, old, data),
            Self::MinF64 => number::min::<F64>(mode, old, data),
            Self::MaxF64 => number::max::<F64>(mode, old, data),
            Self::AddHalves => {
                let half = |shift: u32| {
                    let (a, b) = ((old >> shift) as u16, (data >> shift) as u16);
                    u64::from(number::add::<F16>(mode, a, b)) << shift
                };
                half(0) | half(16)
            }
            Self::AddBf16 => {
                let half = |shift: u32| {
                    let [a, b] = [old, data].map(|value| number::bf16_to_f32((value >> shift) as u16));
                    u64::from(number::bf16_from_f32(number::add::<F32>(mode, a, b))) << shift
                };
                half(0) | half(16)
            }
        }
    }
}

#[cfg(test)]
mod tests;
