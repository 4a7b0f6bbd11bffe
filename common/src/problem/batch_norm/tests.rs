//! Batch norms: commands, and values that make none.

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
