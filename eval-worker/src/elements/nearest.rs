//! Rounding to floats of few bits.

/// The code of the number of few bits that is nearest to `number`, without its sign: of two the one whose last bit is 0, of what is too
/// large `largest`.
pub(super) fn nearest(number: f32, mantissa: u32, bias: i32, largest: u32) -> u32 {
    let (bits, fraction) = (number.to_bits(), number.to_bits() & 0x7F_FFFF);
    let exponent = (bits >> 23 & 0xFF) as i32 - 127;
    let raised = exponent.max(1 - bias);
    let whole = if exponent == -127 { fraction } else { fraction | 1 << 23 };
    let shift = 23 - mantissa + raised.abs_diff(exponent);
    let units = match shift {
        0 => whole,
        1..32 => {
            let (rest, half) = (whole & ((1 << shift) - 1), 1 << (shift - 1));
            let units = whole >> shift;
            units + u32::from(rest > half || rest == half && units & 1 == 1)
        }
        _ => 0,
    };
    ((((raised + bias - 1) as u32) << mantissa) + units).min(largest)
}
