//! Memory instructions, in kernels written in assembly.

use bluefin_amd::{Access, Fault, Memory, Place, Target};

use crate::support::{Arguments, Tools, dwords, launch, run, targets, verdict};

/// A kernel around instructions. s[2:3] is the address of `out`, s[4:5] that of `in`, v0 the lane, v1 its offset of 16 bytes.
/// `$STORE` stores v2 to `out`.
pub fn kernel(target: &Target, body: &str) -> String {
    let gfx9 = target.name != "gfx1100";
    let load = if gfx9 { "s_load_dwordx4 s[4:7], s[0:1], 0x0" } else { "s_load_b128 s[4:7], s[0:1], 0x0" };
    let body = if gfx9 { body.to_string() } else { rdna(body) };
    let accumulators = if gfx9 { ".amdhsa_accum_offset 64" } else { ".amdhsa_wavefront_size32 1" };
    let scratch = match target.name {
        "gfx90a" => {
            ".amdhsa_private_segment_fixed_size 64\n.amdhsa_user_sgpr_private_segment_buffer 1\n.amdhsa_system_sgpr_private_segment_wavefront_offset 1"
        }
        _ => ".amdhsa_private_segment_fixed_size 64\n.amdhsa_enable_private_segment 1",
    };
    // gfx90a finds the descriptor of its scratch before the address of the arguments.
    let arguments =
        if target.name == "gfx90a" { "s_mov_b64 s[12:13], s[4:5]\n" } else { "s_mov_b64 s[12:13], s[0:1]\n" };
    let wave_offset = if target.name == "gfx90a" {
        "s_add_u32 s0, s0, s7\ns_addc_u32 s1, s1, 0\ns_mov_b64 s[8:9], s[0:1]\ns_mov_b64 s[10:11], s[2:3]\n"
    } else {
        ""
    };
    let load = load.replace("s[0:1]", "s[12:13]");
    format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{}\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{arguments}{wave_offset}{load}\n\
         v_lshlrev_b32_e32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\ns_mov_b64 s[2:3], s[4:5]\ns_mov_b64 s[4:5], s[6:7]\n{body}\ns_endpgm\n\
         .rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 64\n.amdhsa_next_free_sgpr 32\n.amdhsa_kernarg_size 16\n\
         .amdhsa_group_segment_fixed_size 2048\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n{accumulators}\n{scratch}\n.end_amdhsa_kernel\n",
        target.name
    )
}

/// The same instructions by gfx11's names.
fn rdna(body: &str) -> String {
    let names = [
        ("_dwordx4", "_b128"),
        ("_dwordx3", "_b96"),
        ("_dwordx2", "_b64"),
        ("_dword ", "_b32 "),
        ("_load_ushort ", "_load_u16 "),
        ("_load_sshort ", "_load_i16 "),
        ("_load_ubyte ", "_load_u8 "),
        ("_load_sbyte ", "_load_i8 "),
        ("_load_short_d16_hi", "_load_d16_hi_b16"),
        ("_load_short_d16 ", "_load_d16_b16 "),
        ("_store_short_d16_hi", "_store_d16_hi_b16"),
        ("_store_short ", "_store_b16 "),
        ("_store_byte ", "_store_b8 "),
        ("ds_read2st64_", "ds_load_2addr_stride64_"),
        ("ds_write2st64_", "ds_store_2addr_stride64_"),
        ("ds_read2_", "ds_load_2addr_"),
        ("ds_write2_", "ds_store_2addr_"),
        ("ds_wrxchg2st64_", "ds_storexchg_2addr_stride64_"),
        ("ds_wrxchg2_", "ds_storexchg_2addr_"),
        ("ds_read_", "ds_load_"),
        ("ds_write_", "ds_store_"),
        ("ds_cmpst_rtn_b32 v4, v1, v8, v9", "ds_cmpstore_rtn_b32 v4, v1, v9, v8"),
        ("ds_cmpst_rtn_f32 v4, v1, v8, v9", "ds_cmpstore_rtn_f32 v4, v1, v9, v8"),
        ("global_atomic_add ", "global_atomic_add_u32 "),
        ("global_atomic_cmpswap ", "global_atomic_cmpswap_b32 "),
        ("v_add_u32_e32", "v_add_nc_u32_e32"),
    ];
    names.iter().fold(body.to_string(), |body, (from, to)| body.replace(from, to))
}

/// The first lanes' dwords of `out` (four for each lane) after a wave; `in` holds bytes 0, 1, 2 and so on.
pub fn words(tools: &Tools, target: &'static Target, body: &str) -> Vec<u32> {
    let wave = if target.name == "gfx1100" { 32 } else { 64 };
    let program = tools.load(&tools.compile("kernel.s", &kernel(target, body), target, &[]), target);
    assert!(program.unimplemented().is_empty(), "{}: {:?}", target.name, program.unimplemented());
    let mut memory = Memory::new();
    let (out, input) = (memory.allocate("out", wave * 16, 4), memory.allocate("in", wave * 16 + 256, 1));
    let bytes: Vec<u8> = (0..wave * 16 + 256).map(|byte| byte as u8).collect();
    memory.write(input, &bytes).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(input);
    run(&program, &mut memory, &launch("k", 1, wave as u32, &arguments), 0);
    dwords(&memory, out, wave * 4)
}

/// Asserts the four dwords of lane 1 (offset 16 in `in`).
pub fn check(body: &str, expected: [u32; 4]) {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let found = words(&tools, target, body);
        assert_eq!(found[4..8], expected, "{}:\n{body}", target.name);
    }
}

pub const STORE: &str = "s_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dwordx4 v1, v[4:7], s[2:3]";
pub const CLEAR: &str = "v_mov_b32_e32 v4, -1\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n";

#[test]
fn global_loads_of_every_width() {
    check(
        &format!("global_load_dwordx4 v[4:7], v1, s[4:5]\n{STORE}"),
        [0x1312_1110, 0x1716_1514, 0x1b1a_1918, 0x1f1e_1d1c],
    );
    check(
        &format!("{CLEAR}global_load_dwordx3 v[4:6], v1, s[4:5] offset:4\n{STORE}"),
        [0x1716_1514, 0x1b1a_1918, 0x1f1e_1d1c, 0],
    );
    check(
        &format!("{CLEAR}global_load_dwordx2 v[4:5], v1, s[4:5] offset:-8\n{STORE}").replace("offset:-8", "offset:2"),
        [0x1514_1312, 0x1918_1716, 0, 0],
    );
    check(
        &format!("{CLEAR}global_load_dword v4, v1, s[4:5]\nglobal_load_ubyte v5, v1, s[4:5] offset:1\n{STORE}"),
        [0x1312_1110, 0x11, 0, 0],
    );
    check(
        &format!(
            "{CLEAR}global_load_ushort v4, v1, s[4:5]\nglobal_load_sbyte v5, v1, s[4:5] offset:112\nglobal_load_sshort v6, v1, s[4:5] offset:112\n{STORE}"
        ),
        [0x1110, 0xffff_ff80, 0xffff_8180, 0],
    );
    check(
        &format!(
            "{CLEAR}global_load_short_d16 v4, v1, s[4:5]\nglobal_load_short_d16_hi v5, v1, s[4:5] offset:2\n{STORE}"
        ),
        [0xffff_1110, 0x1312_0000, 0, 0],
    );
}

#[test]
fn global_stores_of_every_width() {
    let four = "v_mov_b32_e32 v4, 0x44332211\nv_mov_b32_e32 v5, 0x88776655\nv_mov_b32_e32 v6, 6\nv_mov_b32_e32 v7, 7\n";
    check(&format!("{four}global_store_dwordx4 v1, v[4:7], s[2:3]"), [0x4433_2211, 0x8877_6655, 6, 7]);
    let zero = "v_mov_b32_e32 v8, 0\nv_mov_b32_e32 v9, 0\nv_mov_b32_e32 v10, 0\nv_mov_b32_e32 v11, 0\nglobal_store_dwordx4 v1, v[8:11], s[2:3]\n";
    check(
        &format!(
            "{four}{zero}global_store_short v1, v4, s[2:3]\nglobal_store_byte v1, v4, s[2:3] offset:3\nglobal_store_short_d16_hi v1, v4, s[2:3] offset:6\nglobal_store_dword v1, v6, s[2:3] offset:8"
        ),
        [0x1100_2211, 0x4433_0000, 6, 0],
    );
    check(
        &format!(
            "{four}{zero}v_mov_b32_e32 v12, s2\nv_add_u32_e32 v12, v12, v1\nv_mov_b32_e32 v13, s3\nglobal_store_dwordx2 v[12:13], v[4:5], off offset:8"
        ),
        [0, 0, 0x4433_2211, 0x8877_6655],
    );
    check(
        &format!(
            "{four}{zero}v_mov_b32_e32 v12, s2\nv_add_u32_e32 v12, v12, v1\nv_mov_b32_e32 v13, s3\nflat_store_dword v[12:13], v5\nglobal_store_dwordx3 v1, v[4:6], s[2:3] offset:4"
        ),
        [0x8877_6655, 0x4433_2211, 0x8877_6655, 6],
    );
}

#[test]
fn lds_accesses_of_every_width() {
    let fill = "global_load_dwordx4 v[8:11], v1, s[4:5]\ns_waitcnt vmcnt(0)\nds_write_b128 v1, v[8:11]\n";
    let all = [0x1312_1110, 0x1716_1514, 0x1b1a_1918, 0x1f1e_1d1c];
    check(&format!("{fill}ds_read_b128 v[4:7], v1\n{STORE}"), all);
    check(
        &format!(
            "{fill}{CLEAR}ds_read_b64 v[4:5], v1 offset:8\nds_read_b32 v6, v1 offset:4\nds_read_u16 v7, v1 offset:2\n{STORE}"
        ),
        [all[2], all[3], all[1], 0x1312],
    );
    check(
        &format!("{fill}ds_read2_b32 v[4:5], v1 offset0:3 offset1:1\nds_read2_b32 v[6:7], v1 offset1:2\n{STORE}"),
        [all[3], all[1], all[0], all[2]],
    );
    check(&format!("{fill}ds_read2_b64 v[4:7], v1 offset0:1\n{STORE}"), [all[2], all[3], all[0], all[1]]);
    check(
        &format!(
            "{fill}v_and_b32_e32 v12, 0x7f, v1\nds_read_u8 v4, v1 offset:1\nds_read_i8 v5, v12 offset:112\nds_read_i16 v6, v12 offset:112\nv_mov_b32_e32 v7, 0\n{STORE}"
        ),
        [0x11, 0xffff_ff80, 0xffff_8180, 0],
    );
    let two = "global_load_dwordx4 v[8:11], v1, s[4:5]\ns_waitcnt vmcnt(0)\n";
    check(
        &format!(
            "{two}ds_write2_b32 v1, v8, v9 offset0:2 offset1:3\nds_write2_b32 v1, v10, v11 offset1:1\nds_read_b128 v[4:7], v1\n{STORE}"
        ),
        [all[2], all[3], all[0], all[1]],
    );
    check(
        &format!("{two}ds_write2_b64 v1, v[8:9], v[10:11] offset0:1\nds_read_b128 v[4:7], v1\n{STORE}"),
        [all[2], all[3], all[0], all[1]],
    );
    // 64 times the element's size apart.
    check(
        &format!(
            "{two}v_lshlrev_b32_e32 v12, 3, v0\nds_write2st64_b64 v12, v[8:9], v[10:11] offset0:1 offset1:2\nds_read2st64_b64 v[4:7], v12 offset0:2 offset1:1\n{STORE}"
        ),
        [all[2], all[3], all[0], all[1]],
    );
    check(
        &format!(
            "{two}ds_write_b64 v1, v[8:9]\nds_write_b32 v1, v10 offset:8\nds_write_b16 v1, v11 offset:12\nds_write_b8 v1, v11 offset:14\nds_write_b8 v1, v11 offset:15\nds_read_b128 v[4:7], v1\n{STORE}"
        ),
        [all[0], all[1], all[2], 0x1c1c_1d1c],
    );
    // A negative base and an offset.
    check(
        &format!(
            "{fill}{CLEAR}v_add_u32_e32 v12, -16, v1\nv_add_u32_e32 v12, -16, v12\nds_read_b32 v4, v12 offset:32\n{STORE}"
        ),
        [all[0], 0, 0, 0],
    );
}

/// A dword for each lane, whatever is loaded.
#[test]
fn bytes_that_go_to_lds_are_extended() {
    let (Some(tools), Some(target)) = (Tools::find(), Target::named("gfx942")) else { return };
    let load = |kind: &str, to: &str| {
        format!(
            "s_mov_b32 m0, 0\nglobal_load_lds_{kind} v1, s[4:5] offset:112\ns_waitcnt vmcnt(0)\nds_read_b32 {to}, v12 offset:112\n\
             s_waitcnt lgkmcnt(0)\n"
        )
    };
    let loads = [("sbyte", "v4"), ("ubyte", "v5"), ("sshort", "v6"), ("ushort", "v7")].map(|(kind, to)| load(kind, to));
    // Nowhere, as Triton has it.
    let nowhere = "s_mov_b32 m0, 0x7fffffff\nglobal_load_lds_dword v1, s[4:5] offset:112\ns_waitcnt vmcnt(0)\n";
    let found = words(&tools, target, &format!("v_lshrrev_b32_e32 v12, 2, v1\n{}{nowhere}{STORE}", loads.concat()));
    assert_eq!(found[4..8], [0xffff_ff80, 0x80, 0xffff_8180, 0x8180]);
    assert_eq!(found[..4], [0x70, 0x70, 0x7170, 0x7170]);
}

#[test]
fn atomics_return_what_was_there() {
    let set = "v_mov_b32_e32 v8, 5\nv_mov_b32_e32 v9, 9\nv_mov_b32_e32 v10, 0\nv_mov_b32_e32 v11, 0\n";
    check(
        &format!(
            "{set}ds_write_b32 v1, v8\nds_add_rtn_u32 v4, v1, v9\nds_read_b32 v5, v1\nds_max_rtn_i32 v6, v1, v8\nds_add_u32 v1, v9\nds_read_b32 v7, v1\n{STORE}"
        ),
        [5, 14, 14, 23],
    );
    check(
        &format!(
            "{set}ds_write_b32 v1, v8\nds_cmpst_rtn_b32 v4, v1, v8, v9\nds_read_b32 v5, v1\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n{STORE}"
        ),
        [5, 9, 0, 0],
    );
    // -0 is +0 where floats are compared.
    check(
        &format!(
            "{set}v_bfrev_b32_e32 v8, 1\nds_write_b32 v1, v10\nds_cmpst_rtn_f32 v4, v1, v8, v9\nds_read_b32 v5, v1\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n{STORE}"
        ),
        [0, 9, 0, 0],
    );
    // Two operands: a mask and bits; what is subtracted, and what is added where that is too large.
    check(
        &format!(
            "{set}ds_write_b32 v1, v8\nds_mskor_rtn_b32 v4, v1, v8, v9\nds_wrap_rtn_b32 v5, v1, v8, v9\nds_rsub_rtn_u32 v6, v1, v9\nds_read_b32 v7, v1\n{STORE}"
        ),
        [5, 9, 4, 5],
    );
    // The lanes that execute are counted once for all of them, at an address of M0: the first three here.
    check(
        &format!(
            "{set}{CLEAR}s_mov_b32 m0, 256\nv_mov_b32_e32 v12, 0\nds_write_b32 v12, v8 offset:264\ns_mov_b64 s[14:15], exec\n\
             s_mov_b64 exec, 7\nds_append v4 offset:8\nds_append v5 offset:8\nds_consume v6 offset:8\n\
             s_mov_b64 exec, s[14:15]\nds_read_b32 v7, v12 offset:264\n{STORE}"
        ),
        [5, 8, 11, 8],
    );
    check(
        &format!(
            "{set}global_store_dwordx4 v1, v[8:11], s[2:3]\nglobal_atomic_add v1, v9, s[2:3]\nglobal_atomic_add v1, v8, s[2:3] offset:4"
        ),
        [14, 14, 0, 0],
    );
    // v[8:9] is the new value and the comparand.
    check(
        &format!("{set}global_store_dwordx4 v1, v[8:11], s[2:3]\nglobal_atomic_cmpswap v1, v[8:9], s[2:3] offset:4"),
        [5, 5, 0, 0],
    );
}

#[test]
fn scratch_belongs_to_each_lane() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let fill = "global_load_dwordx4 v[8:11], v1, s[4:5]\ns_waitcnt vmcnt(0)\n";
        let body = match target.name {
            "gfx90a" => format!(
                "{fill}buffer_store_dwordx4 v[8:11], off, s[8:11], 0 offset:4\nv_mov_b32_e32 v12, 4\nbuffer_load_dword v4, v12, s[8:11], 0 offen offset:12\n\
                 buffer_load_dword v5, off, s[8:11], 0 offset:4\nbuffer_load_ushort v6, off, s[8:11], 0 offset:10\nv_mov_b32_e32 v7, 0\n{STORE}"
            ),
            _ => format!(
                "{fill}scratch_store_dwordx4 off, v[8:11], off offset:4\nv_mov_b32_e32 v12, 4\nscratch_load_dword v4, v12, off offset:12\n\
                 scratch_load_dword v5, off, off offset:4\nscratch_load_ushort v6, off, off offset:10\nv_mov_b32_e32 v7, 0\n{STORE}"
            ),
        };
        let found = words(&tools, target, &body);
        for lane in 0..4_u32 {
            let byte = |at: u32| (lane * 16 + at) & 0xff;
            let dword = |at: u32| byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
            let at = lane as usize * 4;
            assert_eq!(found[at..at + 4], [dword(12), dword(0), dword(6) & 0xffff, 0], "{}: lane {lane}", target.name);
        }
    }
}

/// A descriptor of `in` with so many bytes, in s[8:11].
fn descriptor(target: &Target, records: &str) -> String {
    let word3 = if target.name == "gfx1100" { "0x31027000" } else { "0x27000" };
    format!("s_mov_b64 s[8:9], s[4:5]\ns_mov_b32 s10, {records}\ns_mov_b32 s11, {word3}\n")
}

#[test]
fn buffer_loads_out_of_range_give_0_and_stores_do_nothing() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let body = format!(
            "{}buffer_load_dwordx2 v[4:5], v1, s[8:11], 0 offen offset:4\nv_mov_b32_e32 v12, 0x80000000\n\
             buffer_load_dword v6, v12, s[8:11], 0 offen\nbuffer_load_ushort v7, v1, s[8:11], 0 offen offset:2\n\
             s_waitcnt vmcnt(0)\nbuffer_store_short v4, v12, s[8:11], 0 offen\nglobal_store_dwordx4 v1, v[4:7], s[2:3]",
            descriptor(target, "36")
        );
        let found = words(&tools, target, &body);
        assert_eq!(found[4..8], [0x1716_1514, 0x1b1a_1918, 0, 0x1312], "{}", target.name);
        // Lane 2 is behind the end, which is after its first four bytes.
        assert_eq!(found[8..12], [0, 0, 0, 0x2322], "{}", target.name);
    }
}

/// LLVM counts an offset down and adds a constant in the instruction, which brings it back.
#[test]
fn offsets_of_buffers_are_added_modulo_2_to_the_32() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let body = format!(
            "{}v_mov_b32_e32 v12, 0xffffffc0\nv_lshl_add_u32 v12, v1, 0, v12\nv_mov_b32_e32 v7, 0\n\
             buffer_load_dwordx2 v[4:5], v12, s[8:11], 0 offen offset:64\nbuffer_load_dword v6, v12, s[8:11], 0 offen\n\
             s_waitcnt vmcnt(0)\nglobal_store_dwordx4 v1, v[4:7], s[2:3]",
            descriptor(target, "0x400")
        );
        let found = words(&tools, target, &body);
        assert_eq!(found[..4], [0x0302_0100, 0x0706_0504, 0, 0], "{}", target.name);
        assert_eq!(found[16..20], [0x4342_4140, 0x4746_4544, 0x0302_0100, 0], "{}", target.name);
    }
}

#[test]
fn buffer_accesses_of_every_width() {
    let Some(tools) = Tools::find() else { return };
    let all = [0x1312_1110, 0x1716_1514, 0x1b1a_1918, 0x1f1e_1d1c];
    for target in targets() {
        let word3 = if target.name == "gfx1100" { "0x31027000" } else { "0x27000" };
        // `out` behind s[16:19].
        let start = format!(
            "{}s_mov_b64 s[16:17], s[2:3]\ns_mov_b32 s18, 0x400\ns_mov_b32 s19, {word3}\n\
             buffer_load_dwordx4 v[4:7], v1, s[8:11], 0 offen\ns_waitcnt vmcnt(0)\n",
            descriptor(target, "0x400")
        );
        for stores in [
            "buffer_store_dwordx4 v[4:7], v1, s[16:19], 0 offen\n",
            "buffer_store_dwordx2 v[4:5], v1, s[16:19], 0 offen\nbuffer_store_dword v6, v1, s[16:19], 0 offen offset:8\n\
             buffer_store_short v7, v1, s[16:19], 0 offen offset:12\nv_lshrrev_b32_e32 v8, 16, v7\n\
             buffer_store_byte v8, v1, s[16:19], 0 offen offset:14\nv_lshrrev_b32_e32 v8, 24, v7\n\
             buffer_store_byte v8, v1, s[16:19], 0 offen offset:15\n",
            // The offset of a scalar register counts as well.
            "s_mov_b32 s20, 4\nv_mov_b32_e32 v8, v5\nv_mov_b32_e32 v9, v6\nv_mov_b32_e32 v10, v7\n\
             buffer_store_dwordx3 v[8:10], v1, s[16:19], s20 offen\nbuffer_store_dword v4, v1, s[16:19], 0 offen\n",
        ] {
            let found = words(&tools, target, &format!("{start}{stores}"));
            assert_eq!(found[4..8], all, "{}:\n{stores}", target.name);
        }
    }
}

#[test]
fn scratch_accesses_of_two_dwords() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let body = match target.name {
            "gfx90a" => {
                "buffer_store_dwordx2 v[8:9], off, s[8:11], 0 offset:4\nbuffer_store_dword v10, off, s[8:11], 0 offset:12\n\
                 buffer_load_dwordx2 v[4:5], off, s[8:11], 0 offset:8\nbuffer_load_dword v6, off, s[8:11], 0 offset:4\n"
            }
            _ => {
                "scratch_store_dwordx2 off, v[8:9], off offset:4\nscratch_store_dword off, v10, off offset:12\n\
                 scratch_load_dwordx2 v[4:5], off, off offset:8\nscratch_load_dword v6, off, off offset:4\n"
            }
        };
        let fill = "global_load_dwordx4 v[8:11], v1, s[4:5]\ns_waitcnt vmcnt(0)\n";
        let found = words(&tools, target, &format!("{fill}{body}v_mov_b32_e32 v7, 0\n{STORE}"));
        assert_eq!(found[4..8], [0x1716_1514, 0x1b1a_1918, 0x1312_1110, 0], "{}", target.name);
    }
}

#[test]
fn scalar_loads_of_every_width() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let names = if target.name == "gfx1100" {
            ["s_load_b64", "s_load_b128", "s_load_b256", "s_load_b512"]
        } else {
            ["s_load_dwordx2", "s_load_dwordx4", "s_load_dwordx8", "s_load_dwordx16"]
        };
        for (name, dwords) in names.into_iter().zip([2_u32, 4, 8, 16]) {
            let last = 8 + dwords - 1;
            let body = format!(
                "{name} s[8:{last}], s[4:5], 0x4\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v4, s8\nv_mov_b32_e32 v5, s9\n\
                 v_mov_b32_e32 v6, s{last}\nv_mov_b32_e32 v7, 0\n{STORE}"
            );
            let end = 0x0302_0100 + 0x0404_0404 * dwords;
            assert_eq!(
                words(&tools, target, &body)[..4],
                [0x0706_0504, 0x0b0a_0908, end, 0],
                "{}: {name}",
                target.name
            );
        }
    }
}

#[test]
fn scalar_loads_are_of_dwords() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let (load, x8) =
            if target.name == "gfx1100" { ("s_load_b32", "s_load_b256") } else { ("s_load_dword", "s_load_dwordx8") };
        let body = format!(
            "s_mov_b32 s7, 4\n{load} s6, s[4:5], 0x10\n{x8} s[16:23], s[4:5], 0x20\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v4, s6\n\
             v_mov_b32_e32 v5, s16\nv_mov_b32_e32 v6, s23\nv_mov_b32_e32 v7, 0\n{STORE}"
        );
        assert_eq!(words(&tools, target, &body)[..4], [0x1312_1110, 0x2322_2120, 0x3f3e_3d3c, 0], "{}", target.name);
        let source = kernel(target, &format!("{load} s6, s[4:5], 0x2"));
        let program = tools.load(&tools.compile("kernel.s", &source, target, &[]), target);
        let mut memory = Memory::new();
        let buffer = memory.allocate("in", 64, 4);
        let arguments = Arguments::default().pointer(buffer).pointer(buffer);
        let verdict = verdict(&program, &mut memory, &launch("k", 1, 32, &arguments));
        assert!(matches!(verdict.fault, Fault::Misaligned { place: Place::Buffer { .. }, .. }), "{verdict}");
    }
}

#[test]
fn stores_are_waited_for_and_registers_given_back_on_gfx11() {
    let (Some(tools), Some(target)) = (Tools::find(), Target::named("gfx1100")) else { return };
    let body = "global_load_dwordx4 v[4:7], v1, s[4:5]\ns_waitcnt vmcnt(0)\nglobal_store_dwordx4 v1, v[4:7], s[2:3]\n\
                s_waitcnt_vscnt null, 0x0\ns_sendmsg sendmsg(MSG_DEALLOC_VGPRS)";
    assert_eq!(words(&tools, target, body)[..4], [0x0302_0100, 0x0706_0504, 0x0b0a_0908, 0x0f0e_0d0c]);
}

#[test]
fn branches_look_at_scc_vcc_and_exec() {
    let Some(tools) = Tools::find() else { return };
    // (what is set, the branch, whether it is taken)
    let rows = [
        ("s_cmp_eq_u32 s4, s4", "s_cbranch_scc1", true),
        ("s_cmp_eq_u32 s4, s4", "s_cbranch_scc0", false),
        ("s_cmp_lg_u32 s4, s4", "s_cbranch_scc0", true),
        ("v_cmp_eq_u32_e32 VCC, 5, v0", "s_cbranch_vccnz", true),
        ("v_cmp_eq_u32_e32 VCC, 5, v0", "s_cbranch_vccz", false),
        ("v_cmp_eq_u32_e32 VCC, 0x100, v0", "s_cbranch_vccz", true),
        ("s_nop 0", "s_cbranch_execnz", true),
        ("s_nop 0", "s_cbranch_execz", false),
        ("s_nop 0", "s_branch", true),
    ];
    for target in targets() {
        let vcc = if target.name == "gfx1100" { "vcc_lo" } else { "vcc" };
        let mut body =
            "v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n".to_string();
        for (at, (set, branch, _)) in rows.iter().enumerate() {
            let set = set.replace("VCC", vcc);
            body += &format!("{set}\n{branch} L{at}\nv_or_b32_e32 v4, {:#x}, v4\nL{at}:\n", 1 << at);
        }
        // A loop of three turns, backwards.
        body += "s_mov_b32 s6, 3\nLoop:\nv_add_u32_e32 v5, 2, v5\ns_sub_u32 s6, s6, 1\ns_cmp_lg_u32 s6, 0\ns_cbranch_scc1 Loop\n";
        let found = words(&tools, target, &format!("{body}{STORE}"));
        let expected = rows.iter().enumerate().filter(|(_, row)| !row.2).fold(0, |all, (at, _)| all | 1 << at);
        assert_eq!(found[..4], [expected, 6, 0, 0], "{}", target.name);
    }
}

/// Of a wide access, the element that is not there is named, not the one where it begins.
#[test]
fn the_element_that_a_wide_access_touches_wrongly_is_named() {
    let Some(tools) = Tools::find() else { return };
    let source = "using float4 = float __attribute__((ext_vector_type(4)));\nextern \"C\" __attribute__((global)) void f(float4* out, const float4* in) { out[0] = in[__builtin_amdgcn_workitem_id_x()]; }";
    for target in targets() {
        let program = tools.program(source, target);
        let mut memory = Memory::new();
        let (out, input) = (memory.allocate("out", 16, 4), memory.allocate("in", 40, 4));
        memory.fill(input, 0, 40).expect("a buffer");
        let arguments = Arguments::default().pointer(out).pointer(input);
        let found = verdict(&program, &mut memory, &launch("f", 1, 3, &arguments));
        let place = Place::Buffer { name: "in".into(), offset: 40, element: 10, elements: 10 };
        assert_eq!(found.fault, Fault::OutOfBounds { access: Access::Read, bytes: 16, place }, "{}", target.name);
        assert_eq!(found.lane, Some(2));
    }
}
