//! An instruction as text, as LLVM prints it.

use std::fmt::{self, Display, Formatter, Write as _};

use super::image::DIMENSIONS;
use super::{At, Encoded, Family, Modifiers, Operand, Sdwa};
use crate::instruction::{Dpp, Permutation, Select, Unused};
use crate::registers::{ACCUMULATION, EXEC, FLAT_SCRATCH, M0, NULL, TTMP, VCC, XNACK_MASK};
use crate::target::Generation;
use crate::typed;

const FLOATS: [&str; 9] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494"];

/// Which of them is 1 / (2 pi).
const TURN: u8 = 8;
/// "Hardware Registers" that kernels use.
const HARDWARE: [(u16, &str); 14] = [
    (1, "MODE"),
    (2, "STATUS"),
    (3, "TRAPSTS"),
    (4, "HW_ID"),
    (5, "GPR_ALLOC"),
    (6, "LDS_ALLOC"),
    (7, "IB_STS"),
    (15, "SH_MEM_BASES"),
    (20, "XCC_ID"),
    (21, "SQ_PERF_SNAPSHOT_DATA"),
    (23, "HW_ID1"),
    (24, "HW_ID2"),
    (29, "SHADER_CYCLES"),
    (30, "SHADER_CYCLES_HI"),
];

/// Messages that return something.
const MESSAGES: [(u8, &str); 6] = [
    (128, "GET_DOORBELL"),
    (129, "GET_DDID"),
    (130, "GET_TMA"),
    (131, "GET_REALTIME"),
    (132, "SAVE_WAVE"),
    (133, "GET_TBA"),
];

impl Display for Encoded {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name(f)?;
        for (at, operand) in self.operands.iter().enumerate() {
            let is_modifier = self.family == Family::Smem && at == 3;
            f.write_str(if at == 0 || is_modifier { " " } else { ", " })?;
            // Addresses that are apart are in brackets.
            let addresses = self.modifiers.image.map_or(0, |image| usize::from(image.addresses));
            f.write_str(if addresses > 1 && at == 1 { "[" } else { "" })?;
            self.operand(f, at, operand)?;
            f.write_str(if addresses > 1 && at == addresses { "]" } else { "" })?;
        }
        self.modifiers(f)?;
        match &self.other {
            Some(other) => write!(f, " :: {other}"),
            None => Ok(()),
        }
    }
}

impl Encoded {
    /// With what DPP and SDWA add to it.
    fn name(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let short = || self.name.strip_suffix("_e32").unwrap_or(self.name);
        let is_long = matches!(self.family, Family::Vop3 | Family::Vop3b | Family::Vop3p);
        match (&self.modifiers.dpp, &self.modifiers.sdwa) {
            (Some(_), _) if is_long => write!(f, "{}_e64_dpp", self.name.trim_end_matches("_e64")),
            (Some(_), _) => write!(f, "{}_dpp", short()),
            (_, Some(_)) => write!(f, "{}_sdwa", short()),
            _ => f.write_str(self.name),
        }
    }

    fn operand(&self, f: &mut Formatter<'_>, at: usize, operand: &Operand) -> fmt::Result {
        match operand.at {
            // A second constant of scalar memory is a modifier.
            At::Immediate(value) if self.family == Family::Smem && at == 3 => write!(f, "offset:{value:#x}"),
            At::Immediate(0) if self.family == Family::Smem && self.target.generation == Generation::Rdna3 => {
                f.write_str("null")
            }
            At::Immediate(value) if self.family == Family::Smem => hexadecimal(f, value),
            At::Immediate(value) if self.family == Family::Sopc => write!(f, "{value:#x}"),
            At::Immediate(_) => self.immediate(f),
            // The same number as single precision has, with more digits.
            At::Float(TURN) if operand.dwords == 2 && operand.negate => f.write_str("neg(0.15915494309189532)"),
            At::Float(TURN) if operand.dwords == 2 => f.write_str("0.15915494309189532"),
            At::Sgpr(at @ FLAT_SCRATCH..VCC, count) if self.target.is_gfx9() => {
                let name = if at < XNACK_MASK { "flat_scratch" } else { "xnack_mask" };
                f.write_str(name)?;
                f.write_str(if count == 2 {
                    ""
                } else if at % 2 == 0 {
                    "_lo"
                } else {
                    "_hi"
                })
            }
            // "V_FMA_MIX": signs stand where others have those of halves.
            _ if self.name.contains("_mix") => {
                let bit = |bits: u8| operand.source.is_some_and(|source| bits >> source & 1 == 1);
                let (negate, absolute) = (bit(self.modifiers.neg_lo), bit(self.modifiers.neg_hi));
                Operand { negate, absolute, ..*operand }.fmt(f)
            }
            _ => operand.fmt(f),
        }
    }

    /// The constant of SOPP and SOPK.
    fn immediate(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let constant = self.simm16;
        match self.name {
            "s_waitcnt" => return self.waits(f),
            "s_nop" | "s_sleep" | "s_setprio" | "s_branch" | "s_trap" | "s_call_b64" => return write!(f, "{constant}"),
            _ => {}
        }
        if self.name.starts_with("s_cbranch") {
            return write!(f, "{constant}");
        }
        if self.name.starts_with("s_getreg") || self.name.starts_with("s_setreg") {
            let (register, offset, width) = (constant & 63, constant >> 6 & 31, (constant >> 11) + 1);
            let name = HARDWARE.iter().find(|(number, _)| *number == register).map(|(_, name)| *name);
            let name = match (register, self.target.generation) {
                (20, Generation::Rdna2 | Generation::Rdna3) => Some("FLAT_SCR_LO"),
                (21, Generation::Rdna2 | Generation::Rdna3) => Some("FLAT_SCR_HI"),
                (29, Generation::Rdna4) => Some("SHADER_CYCLES_LO"),
                _ => name,
            };
            let name = name.map_or_else(|| register.to_string(), |name| format!("HW_REG_{name}"));
            return match (offset, width) {
                (0, 32) => write!(f, "hwreg({name})"),
                _ => write!(f, "hwreg({name}, {offset}, {width})"),
            };
        }
        write!(f, "{constant:#x}")
    }

    /// "S_WAITCNT": counters that it waits for.
    fn waits(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let constant = self.simm16;
        let upper = constant & 15 | constant >> 14 << 4;
        let counters = match self.target.generation {
            Generation::Rdna3 | Generation::Rdna4 => {
                [(constant >> 10, 63, "vmcnt"), (constant & 7, 7, "expcnt"), (constant >> 4 & 63, 63, "lgkmcnt")]
            }
            Generation::Rdna2 => {
                [(upper, 63, "vmcnt"), (constant >> 4 & 7, 7, "expcnt"), (constant >> 8 & 63, 63, "lgkmcnt")]
            }
            _ => [(upper, 63, "vmcnt"), (constant >> 4 & 7, 7, "expcnt"), (constant >> 8 & 15, 15, "lgkmcnt")],
        };
        let all = counters.iter().all(|(count, most, _)| count == most);
        let named: Vec<String> = counters
            .iter()
            .filter(|(count, most, _)| all || count != most)
            .map(|(count, _, name)| format!("{name}({count})"))
            .collect();
        f.write_str(&named.join(" "))
    }

    fn modifiers(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let modifiers = &self.modifiers;
        match self.family {
            Family::Ds => ds(f, modifiers),
            Family::Flat | Family::Scratch | Family::Global | Family::Mubuf | Family::Mtbuf | Family::Smem => {
                memory(f, self)
            }
            Family::Mimg | Family::Vimage | Family::Vsample => image(f, self),
            Family::Vop3p => packed(f, self),
            Family::Mai => matrix(f, self),
            _ => {
                self.op_sel(f)?;
                modifiers.table.map_or(Ok(()), |table| write!(f, " bitop3:{table:#x}"))?;
                clamp_and_omod(f, modifiers)?;
                modifiers.sdwa.map_or(Ok(()), |parts| sdwa(f, parts, &self.operands))?;
                modifiers.dpp.map_or(Ok(()), |how| dpp(f, how))
            }
        }
    }

    /// Of VOP3: of operands that do not show their half themselves.
    fn op_sel(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let halves = self.operands.iter().any(|operand| operand.half.is_some());
        if self.family != Family::Vop3 || self.modifiers.op_sel == 0 || halves {
            return Ok(());
        }
        let sources = self.operands.iter().filter(|operand| operand.source.is_some()).count();
        let mut bits: Vec<u8> = (0..sources).map(|at| self.modifiers.op_sel >> at & 1).collect();
        bits.push(self.modifiers.op_sel >> 3 & 1);
        list(f, "op_sel", &bits)
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let literal = matches!(self.at, At::Integer(_) | At::Float(_) | At::Literal(_));
        if self.extend {
            return write!(f, "sext({})", self.at);
        }
        match (self.negate, self.absolute) {
            (true, false) if literal => write!(f, "neg({})", self.at),
            (true, _) => f.write_char('-'),
            _ => Ok(()),
        }?;
        if self.negate && !self.absolute && literal {
            return Ok(());
        }
        let bar = if self.absolute { "|" } else { "" };
        let half = match (self.half, self.at) {
            (Some(high), At::Vgpr(..)) => {
                if high {
                    ".h"
                } else {
                    ".l"
                }
            }
            _ => "",
        };
        write!(f, "{bar}{}{half}{bar}", self.at)
    }
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Message(number) => match MESSAGES.iter().find(|(of, _)| *of == number) {
                Some((_, name)) => write!(f, "sendmsg(MSG_RTN_{name})"),
                None => write!(f, "sendmsg({number}, 0, 0)"),
            },
            Self::Vgpr(at, count) if at >= ACCUMULATION => range(f, "a", at - ACCUMULATION, count),
            Self::Vgpr(at, count) => range(f, "v", at, count),
            Self::Sgpr(at, count) => scalar(f, at, count),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(which) => f.write_str(FLOATS.get(usize::from(which)).unwrap_or(&"?")),
            Self::Literal(value) => write!(f, "{value:#x}"),
            Self::Immediate(value) => hexadecimal(f, value),
            Self::Scc => f.write_str("src_scc"),
            Self::ExecZero => f.write_str("src_execz"),
            Self::VccZero => f.write_str("src_vccz"),
            Self::SharedBase => f.write_str("src_shared_base"),
            Self::SharedLimit => f.write_str("src_shared_limit"),
            Self::PrivateBase => f.write_str("src_private_base"),
            Self::PrivateLimit => f.write_str("src_private_limit"),
            Self::Off => f.write_str("off"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

fn hexadecimal(f: &mut Formatter<'_>, value: i64) -> fmt::Result {
    if value < 0 { write!(f, "-{:#x}", -value) } else { write!(f, "{value:#x}") }
}

fn range(f: &mut Formatter<'_>, kind: &str, at: u16, count: u8) -> fmt::Result {
    match count {
        1 => write!(f, "{kind}{at}"),
        count => write!(f, "{kind}[{at}:{}]", at + u16::from(count) - 1),
    }
}

fn scalar(f: &mut Formatter<'_>, at: u8, count: u8) -> fmt::Result {
    let pair = |f: &mut Formatter<'_>, name: &str, first: u8| match (count, at - first) {
        (1, 0) => write!(f, "{name}_lo"),
        (1, _) => write!(f, "{name}_hi"),
        _ => f.write_str(name),
    };
    match at {
        VCC..=107 => pair(f, "vcc", VCC),
        TTMP..M0 => range(f, "ttmp", u16::from(at - TTMP), count),
        M0 => f.write_str("m0"),
        NULL => f.write_str("null"),
        EXEC..=127 => pair(f, "exec", EXEC),
        _ => range(f, "s", u16::from(at), count),
    }
}

fn list(f: &mut Formatter<'_>, name: &str, bits: &[u8]) -> fmt::Result {
    let bits: Vec<String> = bits.iter().map(u8::to_string).collect();
    write!(f, " {name}:[{}]", bits.join(","))
}

fn flag(f: &mut Formatter<'_>, name: &str, set: bool) -> fmt::Result {
    if set { write!(f, " {name}") } else { Ok(()) }
}

fn clamp_and_omod(f: &mut Formatter<'_>, modifiers: &Modifiers) -> fmt::Result {
    flag(f, "clamp", modifiers.clamp)?;
    f.write_str(["", " mul:2", " mul:4", " div:2"].get(usize::from(modifiers.omod)).unwrap_or(&""))
}

fn ds(f: &mut Formatter<'_>, modifiers: &Modifiers) -> fmt::Result {
    match modifiers.offset1 {
        Some(second) => {
            if modifiers.offset != 0 {
                write!(f, " offset0:{}", modifiers.offset)?;
            }
            if second != 0 {
                write!(f, " offset1:{second}")?;
            }
        }
        None if modifiers.offset != 0 => write!(f, " offset:{}", modifiers.offset)?,
        None => {}
    }
    flag(f, "gds", modifiers.gds)
}

fn memory(f: &mut Formatter<'_>, encoded: &Encoded) -> fmt::Result {
    let modifiers = &encoded.modifiers;
    if encoded.name.starts_with("tbuffer_") {
        f.write_str(&typed::text(modifiers.format, encoded.target.generation))?;
    }
    flag(f, "idxen", modifiers.idxen)?;
    flag(f, "offen", modifiers.offen)?;
    if encoded.family != Family::Smem && modifiers.offset != 0 {
        write!(f, " offset:{}", modifiers.offset)?;
    }
    let scalar = encoded.family == Family::Smem;
    let [first, second, third] = match encoded.target.generation {
        Generation::Cdna3 | Generation::Cdna4 if !scalar => ["sc0", "nt", "sc1"],
        Generation::Cdna2 => ["glc", "slc", "scc"],
        _ => ["glc", "slc", "sc1"],
    };
    flag(f, first, modifiers.glc)?;
    flag(f, second, modifiers.slc)?;
    flag(f, "dlc", modifiers.dlc)?;
    flag(f, third, modifiers.sc1)?;
    policy(f, encoded)?;
    scope(f, modifiers)?;
    flag(f, "tfe", modifiers.tfe)?;
    flag(f, "lds", modifiers.lds)
}

fn image(f: &mut Formatter<'_>, encoded: &Encoded) -> fmt::Result {
    let (modifiers, Some(image)) = (&encoded.modifiers, encoded.modifiers.image) else { return Ok(()) };
    if encoded.name.ends_with("_intersect_ray") {
        return flag(f, "a16", image.a16);
    }
    if image.dmask != 0 {
        write!(f, " dmask:{:#x}", image.dmask)?;
    }
    if let Some(dim) = image.dim {
        write!(f, " dim:SQ_RSRC_IMG_{}", DIMENSIONS.get(usize::from(dim)).unwrap_or(&"?"))?;
    }
    flag(f, "unorm", image.unorm)?;
    flag(f, "glc", modifiers.glc)?;
    flag(f, "slc", modifiers.slc)?;
    flag(f, "dlc", modifiers.dlc)?;
    flag(f, "scc", modifiers.sc1)?;
    policy(f, encoded)?;
    scope(f, modifiers)?;
    flag(f, "r128", image.r128)?;
    flag(f, "a16", image.a16)?;
    flag(f, "tfe", modifiers.tfe)?;
    flag(f, "lwe", image.lwe)?;
    flag(f, "da", image.da)?;
    flag(f, "d16", image.d16)
}

fn scope(f: &mut Formatter<'_>, modifiers: &Modifiers) -> fmt::Result {
    let names = ["", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS"];
    f.write_str(names.get(usize::from(modifiers.scope)).unwrap_or(&""))
}

/// "TH" of gfx12: how long caches keep what is moved.
fn policy(f: &mut Formatter<'_>, encoded: &Encoded) -> fmt::Result {
    let (th, scope) = (encoded.modifiers.th, encoded.modifiers.scope);
    if encoded.name.contains("_atomic_") {
        return match th {
            0 => Ok(()),
            1 => f.write_str(" th:TH_ATOMIC_RETURN"),
            2 => f.write_str(" th:TH_ATOMIC_NT"),
            3 => f.write_str(" th:TH_ATOMIC_NT_RETURN"),
            // "Cascading" is between the units of a device.
            _ if scope < 2 => write!(f, " th:TH_ATOMIC_{th:#x}"),
            th => write!(f, " th:TH_ATOMIC_CASCADE_{}", if th & 2 == 2 { "NT" } else { "RT" }),
        };
    }
    let stores = encoded.name.contains("store");
    let kind = if stores { "STORE" } else { "LOAD" };
    let name = match th {
        0 => return Ok(()),
        7 if !stores => return write!(f, " th:{th:#x}"),
        1 => "NT",
        2 => "HT",
        3 if scope == 3 => "BYPASS",
        3 if stores => "WB",
        3 => "LU",
        4 => "NT_RT",
        5 => "RT_NT",
        6 => "NT_HT",
        _ => "NT_WB",
    };
    write!(f, " th:TH_{kind}_{name}")
}

fn packed(f: &mut Formatter<'_>, encoded: &Encoded) -> fmt::Result {
    let modifiers = &encoded.modifiers;
    let sources = encoded.operands.iter().filter(|operand| operand.source.is_some()).count();
    let bits = |of: u8| (0..sources).map(|at| of >> at & 1).collect::<Vec<u8>>();
    let plain = (1 << sources) - 1;
    let mixed = encoded.name.contains("_mix");
    for (name, value, usual) in [
        ("op_sel", modifiers.op_sel, 0),
        ("op_sel_hi", modifiers.op_sel_hi & plain, if mixed { 0 } else { plain }),
        ("neg_lo", modifiers.neg_lo, 0),
        ("neg_hi", modifiers.neg_hi, 0),
    ] {
        let shown = !(mixed && name.starts_with("neg"));
        if value != usual && shown {
            list(f, name, &bits(value))?;
        }
    }
    flag(f, "clamp", modifiers.clamp)?;
    modifiers.dpp.map_or(Ok(()), |how| dpp(f, how))
}

fn matrix(f: &mut Formatter<'_>, encoded: &Encoded) -> fmt::Result {
    let modifiers = &encoded.modifiers;
    if encoded.name.starts_with("v_accvgpr") {
        return Ok(());
    }
    if let Some(scales) = modifiers.scales {
        for (name, value, usual) in [("op_sel", scales.op_sel, 0), ("op_sel_hi", scales.op_sel_hi, 3)] {
            if value != usual {
                list(f, name, &[value & 1, value >> 1 & 1])?;
            }
        }
    }
    for (name, value) in [("cbsz", modifiers.cbsz), ("abid", modifiers.abid)] {
        if value != 0 {
            write!(f, " {name}:{value}")?;
        }
    }
    match modifiers.blgp {
        0 => Ok(()),
        // "NEG": these bits are signs of the three sources.
        bits if encoded.name.contains("_f64") => list(f, "neg", &[bits & 1, bits >> 1 & 1, bits >> 2]),
        value => write!(f, " blgp:{value}"),
    }
}

fn sdwa(f: &mut Formatter<'_>, parts: Sdwa, operands: &[Operand]) -> fmt::Result {
    let name = |select: Select| match select {
        Select::Byte(byte) => format!("BYTE_{byte}"),
        Select::Word(word) => format!("WORD_{word}"),
        Select::Dword | Select::Halves { .. } => "DWORD".into(),
    };
    let pair = operands.first().is_some_and(|operand| operand.dwords == 2);
    if parts.has_result && !pair {
        let unused = match parts.unused {
            Unused::Pad => "UNUSED_PAD",
            Unused::Sext => "UNUSED_SEXT",
            Unused::Preserve => "UNUSED_PRESERVE",
        };
        write!(f, " dst_sel:{} dst_unused:{unused}", name(parts.to))?;
    }
    write!(f, " src0_sel:{}", name(parts.sources[0]))?;
    match operands.iter().any(|operand| operand.source == Some(1)) {
        true => write!(f, " src1_sel:{}", name(parts.sources[1])),
        false => Ok(()),
    }
}

fn dpp(f: &mut Formatter<'_>, how: Dpp) -> fmt::Result {
    let lanes = |lanes: &[u8]| lanes.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    match how.permutation {
        Permutation::Quad(of) => write!(f, " quad_perm:[{}]", lanes(&of))?,
        Permutation::Eight(of) => {
            write!(f, " dpp8:[{}]", lanes(&of))?;
            return if how.fetch_inactive { f.write_str(" fi:1") } else { Ok(()) };
        }
        Permutation::RowShiftLeft(by) => write!(f, " row_shl:{by}")?,
        Permutation::RowShiftRight(by) => write!(f, " row_shr:{by}")?,
        Permutation::RowRotateRight(by) => write!(f, " row_ror:{by}")?,
        Permutation::WaveShiftLeft => f.write_str(" wave_shl:1")?,
        Permutation::WaveRotateLeft => f.write_str(" wave_rol:1")?,
        Permutation::WaveShiftRight => f.write_str(" wave_shr:1")?,
        Permutation::WaveRotateRight => f.write_str(" wave_ror:1")?,
        Permutation::RowMirror => f.write_str(" row_mirror")?,
        Permutation::RowHalfMirror => f.write_str(" row_half_mirror")?,
        Permutation::Broadcast15 => f.write_str(" row_bcast:15")?,
        Permutation::Broadcast31 => f.write_str(" row_bcast:31")?,
        Permutation::RowShare(lane) => write!(f, " row_share:{lane}")?,
        Permutation::RowXor(mask) => write!(f, " row_xmask:{mask}")?,
    }
    write!(f, " row_mask:{:#x} bank_mask:{:#x}", how.row_mask, how.bank_mask)?;
    flag(f, "bound_ctrl:1", how.bound_zero)?;
    flag(f, "fi:1", how.fetch_inactive)
}
