//! What a statement of PTX reads and writes: operands of its C++, registers of its own, numbers and what hardware tells.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::Token;

/// An operand of a statement.
struct Operand {
    name: Option<String>,
    constraint: String,
    expression: String,
}

/// The operands of a statement, those that it writes first, and its registers by their names in PTX.
#[derive(Default)]
pub(super) struct Operands {
    all: Vec<Operand>,
    written: usize,
    registers: BTreeMap<String, String>,
}

impl Operands {
    /// Of what stands behind the first colon of a statement in `text`.
    pub(super) fn of(text: &str, behind: &[Token<'_>]) -> Option<Self> {
        let mut sections = split(behind, ":").into_iter();
        let mut operands = Self::default();
        for section in sections.by_ref().take(2) {
            for part in split(section, ",").into_iter().filter(|part| !part.is_empty()) {
                operands.all.push(operand(text, part)?);
            }
            // Those that are read come second.
            if operands.written == 0 && operands.all.iter().all(Operand::is_written) {
                operands.written = operands.all.len();
            }
        }
        let is_order = operands.all.iter().enumerate().all(|(at, one)| one.is_written() == (at < operands.written));
        is_order.then_some(operands)
    }

    /// Names for the operands: what is read is taken before anything is written.
    pub(super) fn declared(&self) -> String {
        let mut words = String::new();
        for (at, Operand { constraint, expression, .. }) in self.all.iter().enumerate() {
            let _ = match at < self.written {
                true => write!(words, "auto& bluefin_o{at} = {expression}; "),
                false => write!(words, "const auto bluefin_i{at} = {expression}; "),
            };
            if let Ok(tied) = constraint.parse::<usize>() {
                let _ = write!(words, "bluefin_o{tied} = bluefin_i{at}; ");
            }
        }
        words
    }

    /// Declares a register; its words are returned.
    pub(super) fn register(&mut self, name: &str, type_: &str) -> Option<String> {
        let plain = name.trim_start_matches('%');
        let is_name = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let own = format!("bluefin_r_{plain}");
        is_name.then(|| {
            self.registers.insert(plain.to_string(), own.clone());
            format!("{type_} {own} = 0; ")
        })
    }

    /// What is read of `operand` as `type_`.
    pub(super) fn read(&self, operand: &str, type_: &str) -> Option<String> {
        if let Some(other) = operand.strip_prefix('!') {
            return Some(format!("!{}", self.read(other, type_)?));
        }
        let value = match self.place(operand) {
            Some(place) => place,
            None => number(operand).or_else(|| of_hardware(operand))?,
        };
        Some(format!("bluefin_get<{type_}>({value})"))
    }

    /// `value`, of `type_`, written to `operand`.
    pub(super) fn write(&self, operand: &str, type_: &str, value: &str) -> Option<String> {
        if operand == "_" {
            return Some(format!("(void)({value}); "));
        }
        let place = self.place(operand).filter(|place| !place.starts_with("bluefin_i"))?;
        Some(format!("bluefin_set({place}, ({type_})({value})); "))
    }

    /// What holds an operand or a register.
    fn place(&self, operand: &str) -> Option<String> {
        let name = operand.trim_start_matches('%');
        let of_text = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let index = match of_text {
            Some(of_text) => self.all.iter().position(|one| one.name.as_deref() == Some(of_text)),
            None if operand.starts_with('%') => name.parse().ok(),
            None => None,
        };
        match index {
            Some(at) if at < self.written => Some(format!("bluefin_o{at}")),
            Some(at) if at < self.all.len() => Some(format!("bluefin_i{at}")),
            Some(_) => None,
            None => self.registers.get(name).cloned(),
        }
    }
}

impl Operand {
    fn is_written(&self) -> bool {
        self.constraint.starts_with(['=', '+'])
    }
}

/// `"=r"(x)`, `[name] "r"(x)`
fn operand(text: &str, part: &[Token<'_>]) -> Option<Operand> {
    let (name, part) = match part {
        [open, name, close, part @ ..] if open.text == "[" && close.text == "]" => (Some(name.text.to_string()), part),
        part => (None, part),
    };
    let [constraint, open, .., close] = part else { return None };
    let constraint = constraint.text.strip_prefix('"')?.strip_suffix('"')?.to_string();
    let plain = text.get(open.at + 1..close.at).filter(|_| open.text == "(" && close.text == ")")?;
    // It becomes a part of a line.
    let expression = plain.replace("\\\r\n", " ").replace("\\\n", " ").replace(['\n', '\r'], " ");
    let is_plain = !expression.contains("//") && !expression.contains("/*") && !expression.trim().is_empty();
    is_plain.then_some(Operand { name, constraint, expression: expression.trim().to_string() })
}

/// The parts of a list that `sign` separates outside of all brackets.
fn split<'a, 'b>(tokens: &'b [Token<'a>], sign: &str) -> Vec<&'b [Token<'a>]> {
    let mut depth = 0_i32;
    let parts = tokens.split(|token| {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        token.text == sign && depth == 0
    });
    parts.collect()
}

/// A number as C++ has it.
fn number(text: &str) -> Option<String> {
    let bits = |prefixes: [&str; 2], digits: usize| {
        let bits = prefixes.iter().find_map(|prefix| text.strip_prefix(*prefix))?;
        (bits.len() == digits && bits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(bits)
    };
    if let Some(bits) = bits(["0f", "0F"], 8) {
        return Some(format!("0x{bits}u"));
    }
    if let Some(bits) = bits(["0d", "0D"], 16) {
        return Some(format!("0x{bits}ull"));
    }
    let plain = text.trim_start_matches('-').trim_end_matches(['u', 'U']);
    let digits = plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X"));
    let is_whole = match digits {
        Some(digits) => !digits.is_empty() && digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => plain.parse::<u64>().is_ok(),
    };
    let is_fraction = plain.contains('.') && plain.parse::<f64>().is_ok();
    (is_whole || is_fraction).then(|| text.to_string())
}

/// What a special register tells.
fn of_hardware(name: &str) -> Option<String> {
    let name = if name == "WARP_SZ" { name } else { name.strip_prefix("%%").or_else(|| name.strip_prefix('%'))? };
    Some(
        match name {
            "laneid" => "bluefin_lane()",
            "lanemask_eq" => "(1u << bluefin_lane())",
            "lanemask_lt" => "((1u << bluefin_lane()) - 1)",
            "lanemask_le" => "(~0u >> (31 - bluefin_lane()))",
            "lanemask_gt" => "~(~0u >> (31 - bluefin_lane()))",
            "lanemask_ge" => "(~0u << bluefin_lane())",
            "warpid" => "(bluefin_thread() / 32)",
            "smid" | "gridid" => "0u",
            "nsmid" => "1u",
            "WARP_SZ" => "32u",
            "clock" => "(unsigned)clock64()",
            "clock64" | "globaltimer" => "clock64()",
            _ => {
                let (register, axis) = name.split_once('.').filter(|(_, axis)| matches!(*axis, "x" | "y" | "z"))?;
                let variable = match register {
                    "tid" => "threadIdx",
                    "ntid" => "blockDim",
                    "ctaid" => "blockIdx",
                    "nctaid" => "gridDim",
                    _ => return None,
                };
                return Some(format!("{variable}.{axis}"));
            }
        }
        .to_string(),
    )
}
