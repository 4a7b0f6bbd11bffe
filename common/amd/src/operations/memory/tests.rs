use super::*;

#[test]
fn subtractions_stop_or_wrap() {
    let next = |name: &str, old: u64, data: u64, second: u64| {
        let Some((_, Kind::Atomic { kind, bytes, .. })) = find(name) else { panic!("{name} is no atomic") };
        let mask = if bytes == 8 { u64::MAX } else { 0xffff_ffff };
        kind.next(&Mode::default(), usize::from(bytes), old, data, second) & mask
    };
    for name in ["global_atomic_csub", "buffer_atomic_csub_u32", "flat_atomic_sub_clamp_u32", "ds_sub_clamp_u32"] {
        assert_eq!([next(name, 7, 5, 0), next(name, 5, 7, 0)], [2, 0], "{name}");
    }
    for name in ["global_atomic_cond_sub_u32", "ds_cond_sub_rtn_u32"] {
        assert_eq!([next(name, 7, 5, 0), next(name, 5, 7, 0)], [2, 5], "{name}");
    }
    assert_eq!([next("ds_rsub_u32", 7, 5, 0), next("ds_rsub_rtn_u64", 1, 0, 0)], [0xffff_fffe, u64::MAX]);
    assert_eq!([next("ds_wrap_rtn_b32", 7, 5, 9), next("ds_wrap_rtn_b32", 4, 5, 9)], [2, 13]);
    let (two, nan) = (2f32.to_bits().into(), f32::NAN.to_bits().into());
    for name in ["ds_cmpst_rtn_f32", "ds_cmpstore_f32", "global_atomic_cmpswap_f32", "buffer_atomic_fcmpswap"] {
        assert_eq!(
            [next(name, 0, 7, 1 << 31), next(name, two, 7, two), next(name, nan, 7, nan)],
            [7, 7, nan],
            "{name}"
        );
        assert_eq!([next(name, 1, 7, 0), next(name, 1, 7, 1)], [1, 7], "{name}: a denormal is no zero");
    }
    for name in ["ds_cmpst_f64", "flat_atomic_fcmpswap_x2"] {
        assert_eq!([next(name, 1 << 63, 7, 0), next(name, 1, 7, 2)], [7, 1], "{name}");
    }
    assert_eq!(next("ds_mskor_b64", 0x1234_5678_9abc_def0, 0xff00, 0x5500), 0x1234_5678_9abc_55f0);
}
