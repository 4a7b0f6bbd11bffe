//! 2 / pi, for the reduction of the arguments of sine and cosine in FP64.

/// 2 / pi behind the point: 1201 bits, the first in the highest bit of the first word.
#[rustfmt::skip]
const TWO_BY_PI: [u32; 38] = [
    0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab, 0xdebb_c561,
    0xb724_6e3a, 0x424d_d2e0, 0x0649_2eea, 0x09d1_921c, 0xfe1d_eb1c, 0xb129_a73e, 0xe882_35f5, 0x2ebb_4484,
    0xe99c_7026, 0xb45f_7e41, 0x3991_d639, 0x8353_39f4, 0x9c84_5f8b, 0xbdf9_283b, 0x1ff8_97ff, 0xde05_980f,
    0xef2f_118b, 0x5a0a_6d1f, 0x6d36_7ecf, 0x27cb_09b7, 0x4f46_3f66, 0x9e5f_ea2d, 0x7527_bac7, 0xebe5_f17b,
    0x3d07_39f7, 0x8a52_92ea, 0x6bfb_5fb1, 0x1f8d_5d08, 0x5603_3046, 0xfc7b_0000,
];

/// The digits of 2 / pi from a bit on, 64 of them.
fn digits(from: usize) -> u64 {
    let word = |at: usize| u128::from(TWO_BY_PI.get(at).copied().unwrap_or(0));
    let at = from / 32;
    let all = word(at) << 64 | word(at + 1) << 32 | word(at + 2);
    ((all << (32 + from % 32)) >> 64) as u64
}

/// V_TRIG_PREOP_F64: 53 bits of 2 / pi, those that matter for an argument of such an exponent, as a number of their weight.
#[must_use]
pub fn trig_preop(value: u64, segment: u32) -> u64 {
    const MANTISSA: usize = 53;
    let exponent = (value >> 52 & 0x7ff) as usize;
    let shift = (segment & 31) as usize * MANTISSA + exponent.saturating_sub(1077);
    let bits = digits(shift) >> (64 - MANTISSA);
    let weight = -(MANTISSA as i32) - shift as i32 + if exponent >= 1968 { 128 } else { 0 };
    // In two steps, of which the first is exact: the weight alone may be below the smallest number.
    (bits as f64 * 2_f64.powi(weight / 2) * 2_f64.powi(weight - weight / 2)).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_parts_of_two_by_pi() {
        let [first, second, third] = [0, 1, 2].map(|segment| f64::from_bits(trig_preop(1_f64.to_bits(), segment)));
        assert_eq!(first + (second + third), std::f64::consts::FRAC_2_PI);
        assert!(first <= std::f64::consts::FRAC_2_PI && std::f64::consts::FRAC_2_PI - first < 2_f64.powi(-52));
        // The second is what the first leaves out: 2 / pi with 106 digits.
        assert!(second > 0.0 && second < 2_f64.powi(-53));
    }

    #[test]
    fn large_arguments_take_later_digits() {
        let of = |value: f64, segment| f64::from_bits(trig_preop(value.to_bits(), segment));
        // 2^60 has exponent 1083: six digits fewer in front.
        let shifted = of(2_f64.powi(60), 0);
        let whole = std::f64::consts::FRAC_2_PI * 64.0;
        assert!((shifted * 64.0 - whole.fract()).abs() < 1e-12, "{shifted}");
    }
}
