//! Instructions that are made of two: VOPD, and matrix instructions with scales.

use super::decode::{Decoder, SCALES, decode};
use super::operand::Refused;
use super::table::{Field, Place, Row};
use super::{Encoded, Family, Modifiers, Scales};

/// A bit of ABID that says that there are scales.
const SCALED: u32 = 1 << 11;

impl Decoder<'_> {
    /// A matrix instruction with scales: four words.
    pub fn scaled(&self, prefix: &Encoded) -> (Result<Encoded, String>, usize) {
        let mut words: Vec<u32> = self.words.iter().skip(self.used).take(2).copied().collect();
        if let Some(first) = words.first_mut() {
            *first &= !SCALED;
        }
        let (encoded, length) = decode(self.isa, self.lanes, &words);
        let whole = encoded.and_then(|mut encoded| {
            let [a, b] = prefix.operands.as_slice() else { return Err(format!("{SCALES} with other operands")) };
            encoded.name = match encoded.name {
                "v_mfma_f32_16x16x128_f8f6f4" => "v_mfma_scale_f32_16x16x128_f8f6f4",
                "v_mfma_f32_32x32x64_f8f6f4" => "v_mfma_scale_f32_32x32x64_f8f6f4",
                other => return Err(format!("{SCALES} in front of {other}")),
            };
            // They stand where other matrix instructions have ABID and ACC.
            let (op_sel, op_sel_hi) = (prefix.modifiers.abid & 3, self.value(Field::Acc) as u8);
            encoded.modifiers.scales = Some(Scales { a: a.at, b: b.at, op_sel, op_sel_hi });
            encoded.operands.extend([*a, *b]);
            Ok(encoded)
        });
        (whole, self.used + length)
    }

    /// VOPD: two instructions in one, which share a literal.
    pub fn dual(&mut self, first: &Row) -> Refused<Encoded> {
        let isa = self.isa;
        let second = isa.family(Family::Vopdy).and_then(|encoding| encoding.rows.get(&self.value(Field::Opy)));
        let second = second.ok_or_else(|| format!("{} with operation {}", first.name, self.value(Field::Opy)))?;
        let known = first.known | second.known | self.encoding.place(Field::Opy).map_or(0, Place::mask);
        if self.whole & !known != 0 {
            return Err(format!("{} and {} have no use for a bit", first.name, second.name));
        }
        let mut half = |row: &Row, family| {
            let (mut operands, modifiers) = (Vec::new(), Modifiers::default());
            for spec in &row.operands {
                self.operand(*spec, &modifiers, None, &mut operands)?;
            }
            Ok::<_, String>(Encoded {
                name: row.name,
                family,
                target: isa.target,
                operands,
                modifiers,
                simm16: 0,
                other: None,
            })
        };
        let encoded = half(first, Family::Vopdx)?;
        let other = half(second, Family::Vopdy)?;
        Ok(Encoded { other: Some(Box::new(other)), ..encoded })
    }
}
