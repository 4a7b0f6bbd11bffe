//! Memory instructions that no compiler has, but authors may.

use bluefin_amd::{Fault, Memory, Target};

use crate::memory::{CLEAR, STORE, check, kernel};
use crate::support::{Arguments, Tools, dwords, launch, run, verdict};

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
