//! Memory instructions that no compiler has, but authors may.

use bluefin_amd::{Fault, Memory, Target};

use crate::memory::{CLEAR, STORE, check, kernel, words};
use crate::support::{Arguments, Tools, dwords, launch, run, targets, verdict};

const ALL: [u32; 4] = [0x1312_1110, 0x1716_1514, 0x1b1a_1918, 0x1f1e_1d1c];
const FILL: &str = "global_load_dwordx4 v[8:11], v1, s[4:5]\ns_waitcnt vmcnt(0)\nds_write_b128 v1, v[8:11]\n";

#[test]
fn two_elements_are_exchanged() {
    // The first result lies where the second element comes from.
    check(
        &format!(
            "{FILL}{CLEAR}v_mov_b32_e32 v5, 7\nv_mov_b32_e32 v6, 9\nds_wrxchg2_rtn_b32 v[6:7], v1, v5, v6 offset0:3 offset1:1\n\
             ds_read_b32 v4, v1 offset:12\nds_read_b32 v5, v1 offset:4\n{STORE}"
        ),
        [7, 9, ALL[3], ALL[1]],
    );
    check(
        &format!("{FILL}ds_wrxchg2_rtn_b64 v[4:7], v1, v[8:9], v[10:11] offset0:1\n{STORE}"),
        [ALL[2], ALL[3], ALL[0], ALL[1]],
    );
    let swapped = format!(
        "{FILL}v_lshlrev_b32_e32 v12, 3, v0\nds_write2st64_b64 v12, v[8:9], v[10:11] offset0:1 offset1:2\n\
         ds_wrxchg2st64_rtn_b64 v[4:7], v12, v[8:9], v[8:9] offset0:2 offset1:1\n"
    );
    check(&format!("{swapped}{STORE}"), [ALL[2], ALL[3], ALL[0], ALL[1]]);
    check(
        &format!("{swapped}ds_read2st64_b64 v[4:7], v12 offset0:1 offset1:2\n{STORE}"),
        [ALL[0], ALL[1], ALL[0], ALL[1]],
    );
}

/// Of each half, the highest bit says whether, and is not stored.
#[test]
fn halves_are_exchanged_by_their_highest_bit() {
    let data = "v_mov_b32_e32 v14, 0x80000005\nv_mov_b32_e32 v15, 6\n";
    check(
        &format!(
            "{FILL}{data}ds_condxchg32_rtn_b64 v[4:5], v1, v[14:15] offset:8\nds_read_b64 v[6:7], v1 offset:8\n{STORE}"
        ),
        [ALL[2], ALL[3], 5, ALL[3]],
    );
    check(
        &format!(
            "{FILL}{data}ds_condxchg32_rtn_b64 v[4:5], v1, v[14:15]\nds_condxchg32_rtn_b64 v[6:7], v1, v[14:15]\n{STORE}"
        ),
        [ALL[0], ALL[1], 5, ALL[1]],
    );
}

/// Lane 1 has the dword behind that of lane 0; only the lower half of M0 counts.
#[test]
fn lanes_are_beside_each_other() {
    check(
        &format!(
            "{FILL}s_mov_b32 m0, 0x10004\nds_read_addtid_b32 v4 offset:8\nv_mov_b32_e32 v7, 5\nds_write_addtid_b32 v7 offset:12\n\
             ds_read_b32 v5, v1 offset:4\nds_read_addtid_b32 v6 offset:12\n{STORE}"
        ),
        // Lane 1 reads byte 16 and writes byte 20.
        [ALL[0], 5, 5, 5],
    );
}

#[test]
fn lanes_are_beside_each_other_in_memory() {
    let (Some(tools), Some(target)) = (Tools::find(), Target::named("gfx1100")) else { return };
    let body = format!(
        "{CLEAR}global_load_addtid_b32 v4, s[4:5] offset:12\ns_waitcnt vmcnt(0)\nv_add_nc_u32_e32 v5, 1, v4\n\
         global_store_addtid_b32 v5, s[2:3] offset:1024\n{STORE}"
    );
    let source = kernel(target, &body);
    let program = tools.load(&tools.compile("kernel.s", &source, target, &[]), target);
    let mut memory = Memory::new();
    let (out, input) = (memory.allocate("out", 1024 + 128, 4), memory.allocate("in", 140, 4));
    memory.write(input, &(0..140).collect::<Vec<u8>>()).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(input);
    run(&program, &mut memory, &launch("k", 1, 32, &arguments), 0);
    assert_eq!(dwords(&memory, out, 5)[4], ALL[0]);
    assert_eq!(dwords(&memory, out + 1024, 2), [0x0f0e_0d0d, 0x1312_1111]);
    // One lane less is there.
    let mut memory = Memory::new();
    let (out, input) = (memory.allocate("out", 1024 + 128, 4), memory.allocate("in", 136, 4));
    memory.fill(input, 0, 136).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(input);
    let found = verdict(&program, &mut memory, &launch("k", 1, 32, &arguments));
    assert!(matches!(found.fault, Fault::OutOfBounds { bytes: 4, .. }), "{found}");
    assert_eq!(found.lane, Some(31));
}

/// A comparing atomic on floats: v8 becomes what is there, v9 is compared; -0 is +0.
#[test]
fn floats_are_compared_and_exchanged() {
    let (Some(tools), Some(target)) = (Tools::find(), Target::named("gfx1100")) else { return };
    let clear = "v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n\
                 global_store_dwordx4 v1, v[4:7], s[2:3]\ns_waitcnt_vscnt null, 0x0\n";
    let body = format!(
        "{clear}v_mov_b32_e32 v8, 5\nv_bfrev_b32_e32 v9, 1\nglobal_atomic_cmpswap_f32 v1, v[8:9], s[2:3] offset:4\n\
         v_mov_b32_e32 v9, 1.0\nglobal_atomic_cmpswap_f32 v1, v[8:9], s[2:3] offset:8"
    );
    assert_eq!(words(&tools, target, &body)[4..8], [0, 5, 0, 0]);
}

/// What nobody wrote may be exchanged by who does not ask for it.
#[test]
fn what_nobody_wrote_is_exchanged() {
    let (Some(tools), Some(target)) = (Tools::find(), Target::named("gfx1100")) else { return };
    let body = "v_mov_b32_e32 v8, 5\nglobal_atomic_swap_b32 v1, v8, s[2:3] offset:4\n";
    assert_eq!(words(&tools, target, body)[5], 5);
}

/// The scalar stores and atomics that gfx9 has: what stores wrote has to be written back.
#[test]
fn scalars_are_stored() {
    let Some(tools) = Tools::find() else { return };
    let head = "s_load_dwordx4 s[16:19], s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\n";
    let stores = "s_store_dwordx2 s[16:17], s[2:3], 0x10\ns_mov_b32 s20, 0x18\ns_store_dword s18, s[2:3], s20\n\
                  s_mov_b64 s[8:9], s[2:3]\ns_mov_b32 s10, 0x20\ns_mov_b32 s11, 0x27000\n\
                  s_buffer_store_dwordx2 s[18:19], s[8:11], 0x1c\n";
    let clear = "v_mov_b32_e32 v4, 0\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0\nv_mov_b32_e32 v7, 0\n\
                 global_store_dwordx4 v1, v[4:7], s[2:3]\ns_waitcnt vmcnt(0)\n";
    let last = "s_waitcnt lgkmcnt(0)\ns_dcache_wb\n";
    for target in targets().filter(|target| target.name != "gfx1100") {
        let found = words(&tools, target, &format!("{head}{clear}{stores}{last}"));
        // The last dword is behind the descriptor's end.
        assert_eq!(found[4..9], [0x0302_0100, 0x0706_0504, 0x0b0a_0908, 0x0b0a_0908, 0], "{}", target.name);
        let atomics = "s_mov_b32 s20, 5\ns_mov_b32 s21, 0\ns_atomic_add s20, s[2:3], 0x10\n\
                       s_atomic_swap s20, s[2:3], 0x14 glc\ns_waitcnt lgkmcnt(0)\ns_mov_b64 s[22:23], 9\n\
                       s_atomic_add s20, s[2:3], 0x18\ns_mov_b32 s24, 7\ns_mov_b32 s25, 5\n\
                       s_atomic_cmpswap s[24:25], s[2:3], 0x14 glc\ns_waitcnt lgkmcnt(0)\ns_store_dword s24, s[2:3], 0x1c\n\
                       s_atomic_or_x2 s[22:23], s[2:3], 0x20\n";
        let found = words(&tools, target, &format!("{clear}{atomics}{last}"));
        assert_eq!(found[4..10], [5, 7, 0, 5, 9, 0], "{}", target.name);
        let source = kernel(target, &format!("{head}{stores}"));
        let program = tools.load(&tools.compile("kernel.s", &source, target, &[]), target);
        let mut memory = Memory::new();
        let buffer = memory.allocate("in", 64, 4);
        memory.fill(buffer, 0, 64).expect("a buffer");
        let arguments = Arguments::default().pointer(buffer).pointer(buffer);
        let found = verdict(&program, &mut memory, &launch("k", 1, 64, &arguments));
        assert!(matches!(found.fault, Fault::NotWrittenBack { missing: "s_dcache_wb", .. }), "{found}");
        assert!(found.instruction.is_some_and(|site| site.text.starts_with("s_buffer_store")), "{}", target.name);
    }
}
