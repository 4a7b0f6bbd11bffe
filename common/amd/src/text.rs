//! The text of one instruction, taken apart.

/// Mnemonic, operands and modifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub mnemonic: &'a str,
    pub operands: Vec<&'a str>,
    /// `offset:16` is a name with a value, `offen` a name alone.
    pub modifiers: Vec<(&'a str, &'a str)>,
}

impl<'a> Text<'a> {
    pub fn parse(text: &'a str) -> Self {
        let text = text.trim();
        let (mnemonic, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (mut operands, mut modifiers) = (Vec::new(), Vec::new());
        for part in split(rest, |byte| byte == b',') {
            for (at, word) in split(part, |byte| byte.is_ascii_whitespace()).into_iter().enumerate() {
                if at == 0 && (!word.contains(':') || word.contains('[') && !word.contains(":[")) {
                    operands.push(word);
                } else {
                    modifiers.push(word.split_once(':').unwrap_or((word, "")));
                }
            }
        }
        Self { mnemonic, operands, modifiers }
    }

    pub fn modifier(&self, name: &str) -> Option<&'a str> {
        self.modifiers.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// The value of a modifier that is a number, 0 if it is not there.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.modifier(name).map_or(Some(0), integer)
    }

    /// The values of a modifier that is a list of bits.
    pub fn bits(&self, name: &str) -> Option<Vec<bool>> {
        let list = self.modifier(name)?.trim_start_matches('[').trim_end_matches(']');
        Some(list.split(',').map(|bit| bit.trim() == "1").collect())
    }
}

/// The parts of a text between what is outside of all brackets.
fn split(text: &str, is_between: impl Fn(u8) -> bool) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_between(byte) => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Decimal or hexadecimal, with or without a sign.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
        None => digits.parse().ok()?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_and_modifiers_are_told_apart() {
        let text = Text::parse("v_pk_fma_f32 v[2:3], v[4:5], |v6|, s[2:3] op_sel_hi:[1,0,1] clamp");
        assert_eq!(text.mnemonic, "v_pk_fma_f32");
        assert_eq!(text.operands, ["v[2:3]", "v[4:5]", "|v6|", "s[2:3]"]);
        assert_eq!(text.bits("op_sel_hi"), Some(vec![true, false, true]));
        assert_eq!((text.modifier("clamp"), text.modifier("op_sel")), (Some(""), None));
        let text = Text::parse("buffer_load_dword v0, v1, s[0:3], 0 offen offset:16 sc0");
        assert_eq!(text.operands, ["v0", "v1", "s[0:3]", "0"]);
        assert_eq!(
            (text.number("offset"), text.modifier("offen"), text.number("offset1")),
            (Some(16), Some(""), Some(0))
        );
        let text = Text::parse("s_endpgm");
        assert_eq!((text.mnemonic, text.operands.len()), ("s_endpgm", 0));
        let text = Text::parse("s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 4)");
        assert_eq!(text.operands, ["s0", "hwreg(HW_REG_MODE, 0, 4)"]);
        let text = Text::parse("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)");
        assert_eq!(text.modifier("offset"), Some("swizzle(SWAP,16)"));
        let text = Text::parse("v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf");
        assert_eq!(text.operands, ["v0", "v1"]);
        assert_eq!((text.modifier("quad_perm"), text.number("row_mask")), (Some("[1,0,3,2]"), Some(15)));
    }

    #[test]
    fn integers_have_signs_and_bases() {
        assert_eq!(integer("-16"), Some(-16));
        assert_eq!(integer("0xff800000"), Some(0xff80_0000));
        assert_eq!(integer("1.0"), None);
    }
}
