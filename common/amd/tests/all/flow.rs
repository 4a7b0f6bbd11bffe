//! Calls, arguments and what a wave begins with.

use bluefin_amd::{Fault, Launch, LaunchError, Memory, Options, Program, TARGETS, Target};

use crate::support::{Arguments, Tools, compiled_targets, dwords, launch, run, targets, verdict};

const CALLS: &str = r#"
__attribute__((device, noinline)) int twice(int x) { return x * 2 + 1; }
extern "C" __attribute__((global)) void calls(int* out) {
    const int i = __builtin_amdgcn_workitem_id_x();
    out[i] = twice(i) + twice(i + 1);
}
"#;

#[test]
fn functions_are_called() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let program = tools.program(CALLS, target);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 64 * 4, 4);
        let arguments = Arguments::default().pointer(out);
        let report = run(&program, &mut memory, &launch("calls", 1, 64, &arguments), 0);
        assert!(
            report.mnemonics().contains_key("s_swappc_b64") || report.mnemonics().contains_key("s_setpc_b64"),
            "{}",
            target.name
        );
        let expected: Vec<u32> = (0..64).map(|i| 4 * i + 4).collect();
        assert_eq!(dwords(&memory, out, 64), expected, "{}", target.name);
    }
}

const HIDDEN: &str = r#"
extern "C" __attribute__((global)) void hidden(int* out, char c, short s, double d) {
    const __attribute__((address_space(4))) unsigned char* hidden =
        (const __attribute__((address_space(4))) unsigned char*)__builtin_amdgcn_implicitarg_ptr();
    const int x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
    const int bx = __builtin_amdgcn_workgroup_id_x(), by = __builtin_amdgcn_workgroup_id_y(), bz = __builtin_amdgcn_workgroup_id_z();
    const __attribute__((address_space(4))) unsigned* counts = (const __attribute__((address_space(4))) unsigned*)hidden;
    const __attribute__((address_space(4))) unsigned short* sizes = (const __attribute__((address_space(4))) unsigned short*)(hidden + 12);
    const int thread = x + sizes[0] * (y + sizes[1] * z), block = bx + counts[0] * (by + counts[1] * bz);
    out[block * sizes[0] * sizes[1] * sizes[2] + thread] = block * 100 + thread + c + s + (int)d;
}
"#;

#[test]
fn hidden_arguments_and_three_dimensions_are_there() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let program = tools.program(HIDDEN, target);
        let (grid, block) = ([2, 3, 2], [5, 3, 2]);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 12 * 30 * 4, 4);
        let mut bytes = out.to_le_bytes().to_vec();
        bytes.extend([1, 0, 2, 0, 0, 0, 0, 0]);
        bytes.extend(4.0_f64.to_le_bytes());
        let launch = Launch { kernel: "hidden", grid, block, dynamic_lds: 0, arguments: &bytes };
        run(&program, &mut memory, &launch, 5);
        let expected: Vec<u32> =
            (0..12).flat_map(|block| (0..30).map(move |thread| block * 100 + thread + 7)).collect();
        assert_eq!(dwords(&memory, out, 360), expected, "{}", target.name);
    }
}

#[test]
fn preloaded_arguments_are_in_registers() {
    let Some(tools) = Tools::find() else { return };
    let source = "extern \"C\" __attribute__((global)) void f(int* out, int a, int b) { out[__builtin_amdgcn_workitem_id_x()] = a * b; }";
    for target in targets().filter(|target| target.name != "gfx1100") {
        let object = tools.compile("kernel.hip", source, target, &["-mllvm", "-amdgpu-kernarg-preload-count=16"]);
        let program = tools.load(&object, target);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 64 * 4, 4);
        let arguments = Arguments::default().pointer(out).int(6).int(7);
        let report = run(&program, &mut memory, &launch("f", 1, 64, &arguments), 0);
        assert_eq!(dwords(&memory, out, 64), [42; 64]);
        let loads = report.instructions.iter().filter(|(site, _)| site.text.starts_with("s_load")).count();
        assert_eq!(loads, 0, "{}: they are in registers", target.name);
    }
}

/// An offload bundle of the host's nothing and a code object ("Clang Offload Bundler").
fn bundle(object: &[u8], arch: &str) -> Vec<u8> {
    let ids = ["host-x86_64-unknown-linux-gnu-".to_string(), format!("hipv4-amdgcn-amd-amdhsa--{arch}")];
    let header = 24 + 8 + ids.iter().map(|id| 24 + id.len()).sum::<usize>();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend(2_u64.to_le_bytes());
    for (id, size) in ids.iter().zip([0, object.len()]) {
        bytes.extend((header as u64).to_le_bytes());
        bytes.extend((size as u64).to_le_bytes());
        bytes.extend((id.len() as u64).to_le_bytes());
        bytes.extend(id.as_bytes());
    }
    bytes.extend(object);
    bytes
}

#[test]
fn code_objects_of_both_versions_and_bundles_are_loaded() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        for version in ["5", "6"] {
            let flag = format!("-mcode-object-version={version}");
            let program = tools.load(&tools.compile("kernel.hip", CALLS, target, &[&flag]), target);
            assert_eq!(program.kernels().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["calls"]);
        }
        let old = tools.compile("kernel.hip", CALLS, target, &["-mcode-object-version=4"]);
        assert!(Program::load(&old, target).is_err_and(|error| error.to_string().contains("ABI version is 2")));
        let bundle = bundle(&tools.compile("kernel.hip", CALLS, target, &[]), target.name);
        assert!(tools.load(&bundle, target).kernel("calls").is_some());
        for other in targets().filter(|other| *other != target) {
            assert!(Program::load(&bundle, other).is_err());
            assert!(Program::load(&old, other).is_err());
        }
        for cut in [0, 3, 20, 64, 500, bundle.len() / 2] {
            assert!(Program::load(&bundle[..cut], target).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn waves_of_64_lanes_run_on_gfx11() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = targets().find(|target| target.name == "gfx1100") else { return };
    let program = tools.load(&tools.compile("kernel.hip", CALLS, target, &["-mwavefrontsize64"]), target);
    assert_eq!(program.kernel("calls").map(|kernel| kernel.lanes), Some(64));
    let mut memory = Memory::new();
    let out = memory.allocate("out", 100 * 4, 4);
    let arguments = Arguments::default().pointer(out);
    run(&program, &mut memory, &launch("calls", 1, 100, &arguments), 0);
    let expected: Vec<u32> = (0..100).map(|i| 4 * i + 4).collect();
    assert_eq!(dwords(&memory, out, 100), expected);
}

#[test]
fn a_launch_that_does_not_fit_is_refused() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = TARGETS.first() else { return };
    let program = tools.program(CALLS, target);
    let mut memory = Memory::new();
    let arguments = Arguments::default().pointer(0);
    let mut refused = |change: &dyn Fn(&mut Launch<'_>)| {
        let mut launch = launch("calls", 1, 64, &arguments);
        change(&mut launch);
        match program.run(&mut memory, &launch, &Options::default()) {
            Err(bluefin_amd::Failure::Launch(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&|launch| launch.kernel = "other"), LaunchError::NoKernel { name: "other".into() });
    assert!(matches!(refused(&|launch| launch.grid = [0, 1, 1]), LaunchError::Grid { .. }));
    assert!(matches!(refused(&|launch| launch.grid = [u32::MAX; 3]), LaunchError::Blocks { .. }));
    assert!(matches!(refused(&|launch| launch.block = [u32::MAX; 3]), LaunchError::Block { found: u64::MAX, .. }));
    assert!(matches!(refused(&|launch| launch.block = [64, 64, 1]), LaunchError::Block { found: 4096, .. }));
    assert!(matches!(refused(&|launch| launch.dynamic_lds = 100_000), LaunchError::Lds { .. }));
    assert!(matches!(refused(&|launch| launch.arguments = &[]), LaunchError::Arguments { found: 0, expected: 8, .. }));
}

#[test]
fn what_is_not_implemented_is_named_when_it_is_reached() {
    let Some(tools) = Tools::find() else { return };
    let source = "extern \"C\" __attribute__((global)) void f(int* out) {\n if (out) asm volatile(\"s_sleep 1\"); else asm volatile(\"ds_gws_barrier v0 gds\"); out[__builtin_amdgcn_workitem_id_x()] = 1; }";
    for target in targets().filter(|target| target.name != "gfx1100") {
        let program = tools.program(source, target);
        let missing = program.unimplemented();
        assert_eq!(missing.len(), 1, "{missing:?}");
        let mut memory = Memory::new();
        let out = memory.allocate("out", 64 * 4, 4);
        run(&program, &mut memory, &launch("f", 1, 64, &Arguments::default().pointer(out)), 0);
        let verdict = verdict(&program, &mut memory, &launch("f", 1, 64, &Arguments::default().pointer(0)));
        let Fault::Unimplemented { what } = &verdict.fault else { panic!("{verdict}") };
        assert!(what.contains("gds"), "{what}");
        assert_eq!(verdict.instruction.map(|site| site.address), missing.first().map(|(site, _)| site.address));
    }
}

const STACK: &str = r#"
__attribute__((device, noinline)) int pick(const volatile int* values, int at) { return values[at & 15]; }
extern "C" __attribute__((global)) void stack(int* out, int n) {
    const int t = __builtin_amdgcn_workitem_id_x();
    volatile int values[16];
    for (int i = 0; i < 16; ++i) values[(i * n + t) & 15] = i * 10 + t;
    out[t] = pick(values, t) + values[(t * n) & 15];
}
"#;

/// An array of a lane is reached by its own addresses, and by flat ones in a function.
#[test]
fn arrays_of_a_lane_are_in_scratch() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let program = tools.program(STACK, target);
        assert!(program.kernel("stack").is_some_and(|kernel| kernel.scratch >= 64));
        let mut memory = Memory::new();
        let out = memory.allocate("out", 64 * 4, 4);
        let arguments = Arguments::default().pointer(out).int(5);
        run(&program, &mut memory, &launch("stack", 1, 64, &arguments), 0);
        let lane = |t: u32| {
            let mut values = [0; 16];
            (0..16).for_each(|i| values[((i * 5 + t) & 15) as usize] = i * 10 + t);
            values[(t & 15) as usize] + values[((t * 5) & 15) as usize]
        };
        let expected: Vec<u32> = (0..64).map(lane).collect();
        assert_eq!(dwords(&memory, out, 64), expected, "{}", target.name);
    }
}

/// Of the waves of a block, one is the first to signal its barrier, each time; a block of one wave has none.
#[test]
fn one_wave_is_the_first_to_signal_a_barrier() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx1201") else { return };
    let ask = "s_barrier_signal_isfirst -1\\n s_cselect_b32 %0, 1, 0\\n s_barrier_wait -1";
    let source = format!(
        "extern \"C\" __attribute__((global)) void f(int* out) {{ int first, again, state; \
         asm volatile(\"s_get_barrier_state %0, -1\\n s_wait_kmcnt 0\" : \"=s\"(state)); \
         asm volatile(\"{ask}\" : \"=s\"(first)); asm volatile(\"{ask}\" : \"=s\"(again)); \
         int* to = out + 3 * __builtin_amdgcn_workitem_id_x(); to[0] = first; to[1] = again; to[2] = state & 0xffff; }}"
    );
    let program = tools.program(&source, target);
    for (waves, expected) in [(4, 1), (1, 0)] {
        let mut memory = Memory::new();
        let out = memory.allocate("out", 32 * waves * 12, 4);
        run(&program, &mut memory, &launch("f", 1, 32 * waves as u32, &Arguments::default().pointer(out)), 3);
        let found = dwords(&memory, out, 32 * waves * 3);
        let firsts = |at: usize| (0..waves).map(|wave| found[96 * wave + at]).sum::<u32>();
        assert_eq!([firsts(0), firsts(1)], [expected; 2], "{waves} waves");
        assert_eq!(found[2], (waves as u32) << 4 | 1);
    }
}

/// Registers that M0 chooses, by a mode of gfx9 and by instructions of RDNA.
#[test]
fn registers_are_indexed() {
    let Some(tools) = Tools::find() else { return };
    let gfx9 = "s_set_gpr_idx_on %2, 1\n v_mov_b32 %0, v40\n s_set_gpr_idx_off\n s_set_gpr_idx_on %2, 8\n v_mov_b32 v40, 77\n s_set_gpr_idx_off\n v_mov_b32 %1, v43";
    let rdna = "s_mov_b32 m0, %2\n v_movrels_b32 %0, v40\n v_movreld_b32 v40, 77\n v_mov_b32 %1, v43";
    for target in compiled_targets() {
        let code = if target.name.starts_with("gfx9") { gfx9 } else { rdna };
        let source = format!(
            "extern \"C\" __attribute__((global)) void f(int* out, int which) {{ int found, written; \
             asm volatile(\"v_mov_b32 v43, 12\\n v_mov_b32 v42, 11\\n {}\" : \"=v\"(found), \"=v\"(written) : \"s\"(which) : \"v40\", \"v42\", \"v43\", \"m0\"); \
             out[2 * __builtin_amdgcn_workitem_id_x()] = found; out[2 * __builtin_amdgcn_workitem_id_x() + 1] = written; }}",
            code.replace('\n', "\\n")
        );
        let program = tools.program(&source, target);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 64 * 8, 4);
        run(&program, &mut memory, &launch("f", 1, 64, &Arguments::default().pointer(out).int(3)), 0);
        assert_eq!(dwords(&memory, out, 2), [12, 77], "{}", target.name);
    }
}
