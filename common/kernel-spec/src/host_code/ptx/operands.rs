//! What a statement of PTX reads and writes: operands of its C++, registers of its own, numbers and what hardware tells.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::Token;

/// The type of C++ that a type of PTX is.
pub(super) fn type_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "pred" => "bool",
        "b8" | "u8" => "unsigned char",
        "s8" => "signed char",
        "b16" | "u16" => "unsigned short",
        "s16" => "short",
        "b32" | "u32" => "unsigned",
        "s32" => "int",
        "b64" | "u64" => "unsigned long long",
        "s64" => "long long",
        "f16" => "_Float16",
        "f16x2" => "bluefin_halves",
        "f32" => "float",
        "f64" => "double",
        _ => return None,
    })
}

/// The operands of an instruction.
pub(super) fn list(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let parts = text.split(|found: char| {
        match found {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
        found == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// An operand of a statement.
struct Operand {
    name: Option<String>,
    constraint: String,
    expression: String,
}

/// A register in C++.
struct Register {
    name: String,
    is_predicate: bool,
}

/// The operands of a statement, those that it writes first, and its registers by their names in PTX.
#[derive(Default)]
pub(super) struct Operands {
    all: Vec<Operand>,
    written: usize,
    registers: BTreeMap<String, Register>,
    /// Whether an instruction left a carry.
    pub(super) has_carry: bool,
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
        let written = operands.written;
        let is_tied = |one: &Operand| one.constraint.parse::<usize>().is_ok_and(|tied| tied < written);
        let is_known = |one: &Operand| {
            let kind = one.constraint.trim_start_matches(['=', '+', '&']);
            matches!(kind, "h" | "r" | "l" | "f" | "d") || !one.is_written() && (one.is_constant() || is_tied(one))
        };
        (is_order && operands.all.iter().all(is_known)).then_some(operands)
    }

    /// Names for the operands: what is read is taken before anything is written.
    pub(super) fn declared(&self) -> String {
        let mut words = String::new();
        for (at, Operand { expression, .. }) in self.all.iter().enumerate() {
            let _ = match at < self.written {
                true => write!(words, "auto& bluefin_o{at} = {expression}; "),
                false => write!(words, "const auto bluefin_i{at} = {expression}; "),
            };
        }
        for (at, Operand { constraint, .. }) in self.all.iter().enumerate() {
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
            let register = Register { name: own.clone(), is_predicate: type_ == "bool" };
            self.registers.insert(plain.to_string(), register);
            format!("{type_} {own} = 0; ")
        })
    }

    /// What is read of `operand` as `type_`.
    pub(super) fn read(&self, operand: &str, type_: &str) -> Option<String> {
        if let Some(other) = operand.strip_prefix('!') {
            return Some(format!("!{}", self.read(other, type_).filter(|_| type_ == "bool")?));
        }
        let value = match self.place(operand, type_) {
            Some((place, true)) => return Some(format!("({type_})({place})")),
            Some((place, false)) => place,
            None => match number(operand, type_) {
                Some(number) => return Some(number),
                None => of_hardware(operand).filter(|_| type_ != "bool")?,
            },
        };
        Some(format!("bluefin_get<{type_}>({value})"))
    }

    /// `value`, of `type_`, written to `operand`.
    pub(super) fn write(&self, operand: &str, type_: &str, value: &str) -> Option<String> {
        if operand == "_" {
            return Some(format!("(void)({value}); "));
        }
        let (place, _) = self.place(operand, type_).filter(|(place, _)| !place.starts_with("bluefin_i"))?;
        Some(format!("bluefin_set({place}, ({type_})({value})); "))
    }

    /// What holds an operand or a register as `type_`, and whether it is a constant, whose own type says nothing. A predicate is nothing else.
    fn place(&self, operand: &str, type_: &str) -> Option<(String, bool)> {
        let name = operand.trim_start_matches('%');
        let of_text = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let index = match of_text {
            Some(of_text) => self.all.iter().position(|one| one.name.as_deref() == Some(of_text)),
            None if operand.starts_with('%') => name.parse().ok(),
            None => None,
        };
        let is_predicate = type_ == "bool";
        match index {
            Some(_) if is_predicate => None,
            Some(at) if at < self.written => Some((format!("bluefin_o{at}"), false)),
            Some(at) => Some((format!("bluefin_i{at}"), self.all.get(at)?.is_constant())),
            None => {
                let register = self.registers.get(name).filter(|register| register.is_predicate == is_predicate)?;
                Some((register.name.clone(), false))
            }
        }
    }
}

impl Operand {
    fn is_written(&self) -> bool {
        self.constraint.starts_with(['=', '+'])
    }

    /// Whether it is a number in the instruction itself.
    fn is_constant(&self) -> bool {
        matches!(self.constraint.as_str(), "n" | "i")
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

/// A number of `type_` in C++: bits of floats are in as many digits as there are.
fn number(text: &str, type_: &str) -> Option<String> {
    let bits = |prefixes: [&str; 2], digits: usize| {
        let bits = prefixes.iter().find_map(|prefix| text.strip_prefix(*prefix))?;
        (bits.len() == digits && bits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(bits)
    };
    if let Some(bits) = bits(["0f", "0F"], 8) {
        return matches!(type_, "float" | "unsigned" | "int").then(|| format!("bluefin_get<{type_}>(0x{bits}u)"));
    }
    if let Some(bits) = bits(["0d", "0D"], 16) {
        let is_wide = matches!(type_, "double" | "unsigned long long" | "long long");
        return is_wide.then(|| format!("bluefin_get<{type_}>(0x{bits}ull)"));
    }
    if matches!(type_, "float" | "double") {
        let is_fraction = text.contains('.') && !text.starts_with('+') && text.parse::<f64>().is_ok();
        return is_fraction.then(|| format!("({type_})({text})"));
    }
    let is_whole = !matches!(type_, "_Float16" | "bluefin_halves");
    whole(text).filter(|_| is_whole).map(|value| format!("({type_})({value}ull)"))
}

/// The bits of a whole number, as PTX has them: 64.
pub(super) fn whole(text: &str) -> Option<u64> {
    let (is_negative, plain) = text.strip_prefix('-').map_or((false, text), |plain| (true, plain));
    let plain = plain.strip_suffix(['u', 'U']).unwrap_or(plain);
    let of = |digits: &str, base: u32| {
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(digits, base).ok()).flatten()
    };
    let value = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(digits) => of(digits, 16)?,
        None if plain.len() > 1 && plain.starts_with('0') => of(plain, 8)?,
        None => of(plain, 10)?,
    };
    Some(if is_negative { value.wrapping_neg() } else { value })
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

#[cfg(test)]
mod tests {
    use super::{number, whole};

    #[test]
    fn numbers_have_the_type_of_their_instruction() {
        for (text, type_, words) in [
            ("-1", "long long", Some("(long long)(18446744073709551615ull)")),
            ("-0x80000000", "long long", Some("(long long)(18446744071562067968ull)")),
            ("0x10U", "unsigned", Some("(unsigned)(16ull)")),
            ("010", "int", Some("(int)(8ull)")),
            ("0.5", "float", Some("(float)(0.5)")),
            ("0f3f000000", "float", Some("bluefin_get<float>(0x3f000000u)")),
            ("0d3fe0000000000000", "double", Some("bluefin_get<double>(0x3fe0000000000000ull)")),
            ("0f3f000000", "double", None),
            ("1", "float", None),
            ("1", "_Float16", None),
            ("0.5", "int", None),
            ("inf.", "float", None),
        ] {
            assert_eq!(number(text, type_).as_deref(), words, "{text} {type_}");
        }
        assert_eq!(["--1", "+1", "0x", "", "09", "1_0", "99999999999999999999"].map(whole), [None; 7]);
    }
}
