//! Small kernels on all targets.

use bluefin_amd::{Memory, TARGETS};

use crate::support::{Arguments, Tools, compiled_targets, floats, launch, read_floats, run};

const SAXPY: &str = r#"
extern "C" __attribute__((global)) void saxpy(float* y, const float* x, float a, int n) {
    const int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] = a * x[i] + y[i] / 3.0f;
}
"#;

#[test]
fn saxpy_on_all_targets() {
    let Some(tools) = Tools::find() else { return };
    for target in compiled_targets() {
        let program = tools.program(SAXPY, target);
        assert_eq!(program.kernel("saxpy").map(|kernel| kernel.arguments.len()), Some(4));
        let mut memory = Memory::new();
        let n = 1000;
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
        let (to, from) = (floats(&mut memory, "y", &y), floats(&mut memory, "x", &x));
        let arguments = Arguments::default().pointer(to).pointer(from).int(2.5_f32.to_bits() as i32).int(n);
        let report = run(&program, &mut memory, &launch("saxpy", 4, 256, &arguments), 7);
        assert_eq!((report.blocks, report.waves), (4, 4 * 256 / u64::from(program.kernel("saxpy").unwrap().lanes)));
        let found = read_floats(&memory, to, n as usize);
        for (i, found) in found.iter().enumerate() {
            let expected = 2.5_f32.mul_add(x[i], y[i] / 3.0);
            let apart = 2.5 * x[i] + y[i] / 3.0;
            assert!(
                *found == expected || *found == apart,
                "{}: element {i}: {found}, expected {expected}",
                target.name
            );
        }
    }
}

#[test]
fn a_program_is_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<bluefin_amd::Program>();
    shared::<Memory>();
}

#[test]
fn arguments_are_laid_out_as_the_kernel_wants_them() {
    let Some(tools) = Tools::find() else { return };
    let source = "extern \"C\" __attribute__((global)) void f(char c, double* d, short s, int i) { *d = c + s + i; }";
    let Some(target) = TARGETS.first() else { return };
    let program = tools.program(source, target);
    let kernel = program.kernel("f").expect("the kernel");
    let packed = kernel.pack(&[&[1], &[2; 8], &[3; 2], &[4; 4]]).expect("its arguments");
    assert_eq!(packed, [1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 0, 0, 4, 4, 4, 4]);
    assert!(kernel.pack(&[&[1], &[2; 8], &[3; 2]]).is_err());
    assert!(kernel.pack(&[&[1], &[2; 4], &[3; 2], &[4; 4]]).is_err());
}
