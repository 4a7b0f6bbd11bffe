//! Floats of the scalar ALU, which gfx1150 and gfx12 have: to the nearest even, denormals kept.

use super::scalar::{Definition, op};

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

macro_rules! compare {
    (|$a:ident, $b:ident| $holds:expr) => {
        op!(0 [1 1] writes_scc; |a, b, _, scc| {
            let ($a, $b) = (single(a), single(b));
            *scc = $holds;
            0
        })
    };
}

pub(super) fn rows() -> Vec<(&'static str, Definition)> {
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
        ("s_min_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), false)))),
        ("s_max_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), true)))),
        ("s_min_num_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), false)))),
        ("s_max_num_f32", op!(1 [1 1]; |a, b, _, _| bits(extreme(single(a), single(b), true)))),
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
        let converted = (rows()[0].1.run)(u64::from(-3_i32 as u32), 0, 0, &mut false);
        assert_eq!(single(converted), -3.0);
    }
}
