//! Batch norms: commands, keys, fin's config.

use super::*;

fn norm() -> BatchNormProblem {
    BatchNormProblem {
        direction: NormDirection::Training,
        mode: NormMode::Spatial,
        n: 256,
        c: 64,
        input: [1, 56, 28],
        layout: Layout::Nchw,
        data_type: DataType::Fp16,
        mixed: false,
        save: true,
        run: true,
    }
}

#[test]
fn reads_as_a_driver_command() {
    let canonical = "bnormfp16 -n 256 -c 64 -H 56 -W 28 -m 1 --forw 1 -b 0 -s 1 -r 1 --layout NCHW";
    assert_eq!(norm().canonical(), canonical);
    assert_eq!(norm().label(), "bnorm Trn spatial 64x56x28 n256 FP16");
    let deep = BatchNormProblem { layout: Layout::Ndhwc, input: [3, 4, 5], mixed: true, ..norm() };
    assert_eq!(deep.label(), "bnorm Trn spatial 64x3x4x5 n256 NDHWC FP16 mixed");
    assert!(deep.canonical().starts_with("bnormfp16fp32 -n 256 -c 64 -D 3 -H 4 "));
}

#[test]
fn keys_have_thirteen_fields() {
    assert_eq!(norm().perf_db_key(), "2x256x64x56x28x1x1x1x0xNCHWxTrnxFP16x1");
    let back = BatchNormProblem { direction: NormDirection::Backward, ..norm() };
    assert_eq!(back.perf_db_key(), "2x256x64x56x28x1x0x0x1xNCHWxBwdxFP16x1");
    let deep = BatchNormProblem { layout: Layout::Ncdhw, direction: NormDirection::Inference, ..norm() };
    let deep = BatchNormProblem { mode: NormMode::PerActivation, input: [3, 4, 5], ..deep };
    assert_eq!(deep.perf_db_key(), "3x256x64x4x5x3x0x0x0xNCDHWxInfxFP16x0");
    assert_eq!(BatchNormProblem::from_perf_db_key(&norm().perf_db_key()), Ok(norm()));
    assert_eq!(BatchNormProblem::from_perf_db_key(&back.perf_db_key()).unwrap().perf_db_key(), back.perf_db_key());
    for (wrong, message) in [
        ("2x256", "perf-db key of a batch norm: found 2 fields, expected 13"),
        ("2x256x64x56x28x1x1x1x0xNCHWxFwdxFP16x1", "direction: found \"Fwd\", expected Trn, Inf or Bwd"),
        ("3x256x64x56x28x1x1x1x0xNCHWxTrnxFP16x1", "spatial_dim: found 3, expected 2, as NCHW has"),
        ("2x256x64x56x28x1x1x1x1xNCHWxTrnxFP16x1", "perf-db key of a batch norm: found 2x256"),
    ] {
        let error = BatchNormProblem::from_perf_db_key(wrong).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn fin_is_told_one_direction() {
    for (direction, forw, back, bit) in
        [(NormDirection::Training, 1, 0, 1), (NormDirection::Inference, 2, 0, 2), (NormDirection::Backward, 0, 1, 4)]
    {
        let config = BatchNormProblem { direction, ..norm() }.fin_config();
        let shown = ["forw", "back", "direction"].map(|field| config[field].as_u64().unwrap());
        assert_eq!(shown, [forw, back, bit]);
        assert_eq!((&config["cmd"], &config["mode"], &config["save"]), (&json!("bnormfp16"), &json!(1), &json!(1)));
    }
}

#[test]
fn fields_are_checked() {
    for (wrong, message) in [
        (BatchNormProblem { n: 0, ..norm() }, "batch size: found 0, expected 1 to 2147483647"),
        (BatchNormProblem { layout: Layout::Chwn, ..norm() }, "layout: found CHWN, expected NCHW, NHWC"),
        (BatchNormProblem { data_type: DataType::Int8, ..norm() }, "data type: found INT8, expected FP32, FP16"),
        (BatchNormProblem { data_type: DataType::Fp32, mixed: true, ..norm() }, "data type: found FP32 with"),
        (BatchNormProblem { n: 1 << 30, c: 1 << 30, ..norm() }, "elements of x: found"),
    ] {
        let error = wrong.checked().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert_eq!(BatchNormProblem { input: [9, 56, 28], ..norm() }.checked().unwrap(), norm());
}
