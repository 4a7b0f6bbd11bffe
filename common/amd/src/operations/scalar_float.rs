//! Floats of the scalar ALU, which gfx1150 and gfx12 have: to the nearest even, denormals kept.

use super::scalar::{Definition, op};
use crate::number::{self, F16, F32, Mode};

fn single(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn bits(value: f32) -> u64 {
    // The default NaN, whatever the host makes.
    u64::from(if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() })
}

/// The other one where one is a NaN.
fn extreme(a: f32, b: f32, larger: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        // -0 is less than +0.
        _ if a == b => {
            if a.is_sign_negative() == larger {
                b
            } else {
                a
            }
        }
        _ if (a > b) == larger => a,
        _ => b,
    }
}

/// The larger or the smaller one, a NaN, quieted, where one is ("minimum" and "maximum" of IEEE 754-2019).
fn extreme_or_nan(a: u64, b: u64, larger: bool) -> u64 {
    u64::from(super::newer::extreme::<F32>(&Mode::default(), larger, a as u32, b as u32))
}

fn half_or_nan(a: u64, b: u64, larger: bool) -> u64 {
    u64::from(super::newer::extreme::<F16>(&Mode::default(), larger, a as u16, b as u16))
}

macro_rules! compare {
    (|$a:ident, $b:ident| $holds:expr) => {
        op!(0 [1 1] writes_scc; |a, b, _, scc| {
            let ($a, $b) = (single(a), single(b));
            *scc = $holds;
            0
        })
    };
}

/// FP16, in the lower half of a register; the upper one becomes 0.
macro_rules! half {
    (1, $name:ident) => {
        op!(1 [1]; |a, _, _, _| u64::from(number::$name::<F16>(&Mode::default(), a as u16)))
    };
    (2, $name:ident) => {
        op!(1 [1 1]; |a, b, _, _| u64::from(number::$name::<F16>(&Mode::default(), a as u16, b as u16)))
    };
    (3, $name:ident) => {
        op!(1 [1 1] reads_old; |a, b, old, _| {
            u64::from(number::$name::<F16>(&Mode::default(), a as u16, b as u16, old as u16))
        })
    };
    (compare |$a:ident, $b:ident| $holds:expr) => {
        op!(0 [1 1] writes_scc; |a, b, _, scc| {
            let ($a, $b) = (widened(a), widened(b));
            *scc = $holds;
            0
        })
    };
}

fn widened(value: u64) -> f32 {
    number::half_to_single(value as u16)
}

pub(super) fn rows() -> Vec<(&'static str, Definition)> {
    [singles(), halves()].concat()
}

fn halves() -> Vec<(&'static str, Definition)> {
    vec![
        ("s_cvt_f16_f32", op!(1 [1]; |a, _, _, _| u64::from(number::single_to_half(single(a))))),
        (
            "s_cvt_pk_rtz_f16_f32",
            op!(1 [1 1]; |a, b, _, _| u64::from(number::pack_round_to_zero(&Mode::default(), a as u32, b as u32))),
        ),
        ("s_cvt_f32_f16", op!(1 [1]; |a, _, _, _| bits(widened(a)))),
        ("s_cvt_hi_f32_f16", op!(1 [1]; |a, _, _, _| bits(widened(a >> 16)))),
        ("s_ceil_f16", half!(1, ceil)),
        ("s_floor_f16", half!(1, floor)),
        ("s_trunc_f16", half!(1, trunc)),
        ("s_rndne_f16", half!(1, round_even)),
        ("s_add_f16", half!(2, add)),
        ("s_sub_f16", half!(2, sub)),
        ("s_mul_f16", half!(2, mul)),
        ("s_fmac_f16", half!(3, fma)),
        ("s_min_f16", half!(2, min)),
        ("s_max_f16", half!(2, max)),
        ("s_min_num_f16", half!(2, min)),
        ("s_max_num_f16", half!(2, max)),
        ("s_minimum_f16", op!(1 [1 1]; |a, b, _, _| half_or_nan(a, b, false))),
        ("s_maximum_f16", op!(1 [1 1]; |a, b, _, _| half_or_nan(a, b, true))),
        ("s_cmp_lt_f16", half!(compare | a, b | a < b)),
        ("s_cmp_eq_f16", half!(compare | a, b | a == b)),
        ("s_cmp_le_f16", half!(compare | a, b | a <= b)),
        ("s_cmp_gt_f16", half!(compare | a, b | a > b)),
        ("s_cmp_lg_f16", half!(compare | a, b | a.partial_cmp(&b).is_some_and(|order| order.is_ne()))),
        ("s_cmp_ge_f16", half!(compare | a, b | a >= b)),
        ("s_cmp_o_f16", half!(compare | a, b | !a.is_nan() && !b.is_nan())),
        ("s_cmp_u_f16", half!(compare | a, b | a.is_nan() || b.is_nan())),
        ("s_cmp_nge_f16", half!(compare | a, b | a.partial_cmp(&b).is_none_or(|order| order.is_lt()))),
        ("s_cmp_nlg_f16", half!(compare | a, b | a.partial_cmp(&b).is_none_or(|order| order.is_eq()))),
        ("s_cmp_ngt_f16", half!(compare | a, b | a.partial_cmp(&b).is_none_or(|order| order.is_le()))),
        ("s_cmp_nle_f16", half!(compare | a, b | a.partial_cmp(&b).is_none_or(|order| order.is_gt()))),
        ("s_cmp_neq_f16", half!(compare | a, b | a != b)),
        ("s_cmp_nlt_f16", half!(compare | a, b | a.partial_cmp(&b).is_none_or(|order| order.is_ge()))),
    ]
}

fn singles() -> Vec<(&'static str, Definition)> {
    vec![
        ("s_cvt_f32_i32", op!(1 [1]; |a, _, _, _| bits(a as u32 as i32 as f32))),
        ("s_cvt_f32_u32", op!(1 [1]; |a, _, _, _| bits(a as u32 as f32))),
        ("s_cvt_i32_f32", op!(1 [1]; |a, _, _, _| u64::from(single(a) as i32 as u32))),
        ("s_cvt_u32_f32", op!(1 [1]; |a, _, _, _| u64::from(single(a) as u32))),
        ("s_ceil_f32", op!(1 [1]; |a, _, _, _| bits(single(a).ceil()))),
        ("s_floor_f32", op!(1 [1]; |a, _, _, _| bits(single(a).floor()))),
        ("s_trunc_f32", op!(1 [1]; |a, _, _, _| bits(single(a).trunc()))),
        ("s_rndne_f32", op!(1 [1]; |a, _, _, _| bits(single(a).round_ties_even()))),
        ("s_add_f32", op!(1 [1 1]; |a, b, _, _| bits(single(a) + single(b)))),
        ("s_sub_f32", op!(1 [1 1]; |a, b, _, _| bits(single(a) - single(b)))),
        ("s_mul_f32", op!(1 [1 1]; |a, b, _, _| bits(single(a) * single(b)))),
        ("s_fmac_f32", op!(1 [1 1] reads_old; |a, b, old, _| bits(single(a).mul_add(single(b), single(old))))),
        ("s_fmaak_f32", op!(1 [1 1] reads_old; |a, b, old, _| bits(single(a).mul_add(single(b), single(old))))),
        ("s_fmamk_f32", op!(1 [1 1] reads_old; |a, b, old, _| bits(single(a).mul_add(single(b), single(old))))),
        ("s_min_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), false)))),
        ("s_max_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), true)))),
        ("s_min_num_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), false)))),
        ("s_max_num_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), true)))),
        ("s_minimum_f32", op!(1 [1 1]; |a, b, _, _| extreme_or_nan(a, b, false))),
        ("s_maximum_f32", op!(1 [1 1]; |a, b, _, _| extreme_or_nan(a, b, true))),
        ("s_cmp_lt_f32", compare!(|a, b| a < b)),
        ("s_cmp_eq_f32", compare!(|a, b| a == b)),
        ("s_cmp_le_f32", compare!(|a, b| a <= b)),
        ("s_cmp_gt_f32", compare!(|a, b| a > b)),
        ("s_cmp_lg_f32", compare!(|a, b| a.partial_cmp(&b).is_some_and(|order| order.is_ne()))),
        ("s_cmp_ge_f32", compare!(|a, b| a >= b)),
        ("s_cmp_o_f32", compare!(|a, b| !a.is_nan() && !b.is_nan())),
        ("s_cmp_u_f32", compare!(|a, b| a.is_nan() || b.is_nan())),
        ("s_cmp_nge_f32", compare!(|a, b| a.partial_cmp(&b).is_none_or(|order| order.is_lt()))),
        ("s_cmp_nlg_f32", compare!(|a, b| a.partial_cmp(&b).is_none_or(|order| order.is_eq()))),
        ("s_cmp_ngt_f32", compare!(|a, b| a.partial_cmp(&b).is_none_or(|order| order.is_le()))),
        ("s_cmp_nle_f32", compare!(|a, b| a.partial_cmp(&b).is_none_or(|order| order.is_gt()))),
        ("s_cmp_neq_f32", compare!(|a, b| a != b)),
        ("s_cmp_nlt_f32", compare!(|a, b| a.partial_cmp(&b).is_none_or(|order| order.is_ge()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, a: f32, b: f32, old: f32) -> (f32, bool) {
        let (_, definition) = rows().into_iter().find(|(found, _)| *found == name).expect("a row");
        let [a, b, old] = [a, b, old].map(|value| u64::from(value.to_bits()));
        let mut scc = false;
        let result = (definition.run)(a, b, old, &mut scc);
        (single(result), scc)
    }

    #[test]
    fn scalars_are_computed_as_singles() {
        assert_eq!(run("s_add_f32", 1.5, 2.0, 0.0).0, 3.5);
        assert_eq!(run("s_fmac_f32", 3.0, 2.0, 1.0).0, 7.0);
        assert_eq!(run("s_rndne_f32", 2.5, 0.0, 0.0).0, 2.0);
        assert_eq!(run("s_min_num_f32", f32::NAN, 2.0, 0.0).0, 2.0);
        assert!(run("s_max_num_f32", -0.0, 0.0, 0.0).0.is_sign_positive());
        assert!(run("s_min_num_f32", 0.0, -0.0, 0.0).0.is_sign_negative());
        assert!(run("s_cmp_nlt_f32", f32::NAN, 1.0, 0.0).1 && !run("s_cmp_ge_f32", f32::NAN, 1.0, 0.0).1);
        let converted = (singles()[0].1.run)(u64::from(-3_i32 as u32), 0, 0, &mut false);
        assert_eq!(single(converted), -3.0);
    }

    #[test]
    fn halves_are_in_the_lower_half() {
        let run = |name: &str, a: u64, b: u64, old: u64| {
            let (_, definition) = rows().into_iter().find(|(found, _)| *found == name).expect("a row");
            let mut scc = false;
            ((definition.run)(a, b, old, &mut scc), scc)
        };
        let (one, two, three) = (0x3c00, 0x4000, 0x4200);
        let above = 0xabcd_0000;
        assert_eq!(run("s_add_f16", above | one, two, 0).0, three);
        assert_eq!(run("s_fmac_f16", two, two, above | three).0, 0x4700, "seven");
        assert_eq!(run("s_cvt_f16_f32", u64::from(3.0_f32.to_bits()), 0, 0).0, three);
        assert_eq!(run("s_cvt_f32_f16", above | three, 0, 0).0, u64::from(3.0_f32.to_bits()));
        assert_eq!(run("s_cvt_hi_f32_f16", three << 16 | one, 0, 0).0, u64::from(3.0_f32.to_bits()));
        assert!(run("s_cmp_lt_f16", above | one, two, 0).1 && !run("s_cmp_ngt_f16", two, one, 0).1);
        assert!(run("s_cmp_u_f16", 0x7e00, one, 0).1 && run("s_cmp_nlt_f16", 0x7e00, one, 0).1);
    }
}
