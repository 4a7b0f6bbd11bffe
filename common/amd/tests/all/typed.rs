//! Typed buffers, in kernels written in assembly for every target that the assembler knows.

use bluefin_amd::{Fault, Generation, Memory, Other, Place, Program, Target, Verdict};

use crate::support::{Arguments, Tools, compiled_targets, dwords, launch, run, verdict};

/// Bytes of a record: one for each lane.
const RECORD: usize = 16;
pub const LANES: usize = 4;
/// Bytes of `out`.
const OUT: usize = 16 * RECORD * LANES;
/// As integers, then FP16: 1, -2, a third, the smallest one.
const BYTES: [u8; RECORD] =
    [0x80, 0xff, 0x01, 0x7f, 0x78, 0x56, 0x34, 0x12, 0x00, 0x3c, 0x00, 0xc0, 0x55, 0x35, 0x01, 0x00];
/// "DST_SEL" of the components as they are.
pub const PLAIN: u32 = 0xfac;

/// Data format, number format, and the number of both together of gfx10 and of what came after it.
const FORMATS: [(&str, u32, u32, u32, u32); 4] = [
    ("8_8_8_8_UNORM", 10, 0, 56, 42),
    ("16_16_FLOAT", 5, 7, 29, 29),
    ("2_10_10_10_UINT", 9, 4, 54, 40),
    ("32_32_SINT", 11, 5, 63, 49),
];

fn is_rdna(target: &Target) -> bool {
    matches!(target.generation, Generation::Rdna2 | Generation::Rdna3 | Generation::Rdna4)
}

/// The last word of a descriptor.
fn last_word(target: &Target, name: &str, select: u32) -> u32 {
    let (_, data, number, rdna2, rdna3) = FORMATS.iter().find(|row| row.0 == name).expect("a format");
    let format = match target.generation {
        Generation::Rdna2 => *rdna2,
        Generation::Rdna3 | Generation::Rdna4 => *rdna3,
        _ => number | data << 3,
    };
    select | format << 12
}

/// A format of an instruction, `8_8_UNORM`, as the target's assembler has it.
fn format(target: &Target, name: &str) -> String {
    let (data, number) = name.rsplit_once('_').expect("two parts");
    match is_rdna(target) {
        true => format!("format:[BUF_FMT_{name}]"),
        false => format!("format:[BUF_DATA_FORMAT_{data},BUF_NUM_FORMAT_{number}]"),
    }
}

/// A kernel around instructions: s[8:11] describes `in`, s[12:15] `out`, both of records of 16 bytes, s3 is 0, v0 the lane. `$WAIT` waits for
/// loads, `$STORED` for stores; `$D16_` and `$HI_` name instructions of halves.
fn kernel(target: &Target, body: &str, words: [u32; 2]) -> String {
    let newer = matches!(target.generation, Generation::Rdna3 | Generation::Rdna4);
    let (load, wait, wait_loads, wait_stores) = match target.generation {
        Generation::Rdna4 => ("s_load_b128", "s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0", "s_wait_storecnt 0x0"),
        Generation::Rdna3 => ("s_load_b128", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0"),
        Generation::Rdna2 => {
            ("s_load_dwordx4", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0")
        }
        _ => ("s_load_dwordx4", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)"),
    };
    let body = body.replace("$WAIT", wait_loads).replace("$STORED", wait_stores);
    let body = body.replace("$D16_", if newer { "d16_format_" } else { "format_d16_" });
    let body = body.replace("$HI_", if newer { "d16_hi_format_" } else { "format_d16_hi_" });
    let body = if newer { body.replace("global_store_dwordx4", "global_store_b128") } else { body };
    let wave = if is_rdna(target) { ".amdhsa_wavefront_size32 1" } else { "" };
    let accumulators = match target.generation {
        Generation::Cdna2 | Generation::Cdna3 => ".amdhsa_accum_offset 64",
        _ => "",
    };
    format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{}\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{load} s[4:7], s[0:1], 0x0\n{wait}\n\
         s_mov_b32 s3, 0\ns_mov_b32 s8, s6\ns_or_b32 s9, s7, 0x100000\ns_mov_b32 s10, {LANES}\ns_mov_b32 s11, {:#x}\n\
         s_mov_b32 s12, s4\ns_or_b32 s13, s5, 0x100000\ns_mov_b32 s14, {LANES}\ns_mov_b32 s15, {:#x}\n\
         v_lshlrev_b32_e32 v1, 4, v0\n{CLEAR}{body}\ns_endpgm\n.rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 64\n.amdhsa_next_free_sgpr 32\n\
         .amdhsa_kernarg_size 16\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n{accumulators}\n{wave}\n.end_amdhsa_kernel\n",
        target.name, words[0], words[1]
    )
}

struct Made {
    program: Program,
    memory: Memory,
    arguments: Arguments,
    out: u64,
}

fn made(tools: &Tools, target: &'static Target, body: &str, words: [u32; 2]) -> Made {
    let program = tools.load(&tools.compile("kernel.s", &kernel(target, body, words), target, &[]), target);
    assert!(program.unimplemented().is_empty(), "{}: {:?}", target.name, program.unimplemented());
    let mut memory = Memory::new();
    let (out, input) = (memory.allocate("out", OUT, 4), memory.allocate("in", RECORD * LANES, 1));
    memory.write(input, &BYTES.repeat(LANES)).expect("a buffer");
    memory.fill(out, 0, OUT).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(input);
    Made { program, memory, arguments, out }
}

/// The dwords of `out`, from the first one of lane 1 on.
pub fn found(tools: &Tools, target: &'static Target, body: &str, words: [u32; 2]) -> Vec<u32> {
    let mut made = made(tools, target, body, words);
    run(&made.program, &mut made.memory, &launch("k", 1, LANES as u32, &made.arguments), 0);
    dwords(&made.memory, made.out, OUT / 4)[4..].to_vec()
}

pub fn refused(tools: &Tools, target: &'static Target, body: &str, words: [u32; 2]) -> Verdict {
    let mut made = made(tools, target, body, words);
    verdict(&made.program, &mut made.memory, &launch("k", 1, LANES as u32, &made.arguments))
}

pub fn bits(values: [f32; 4]) -> [u32; 4] {
    values.map(f32::to_bits)
}

pub const CLEAR: &str = "v_mov_b32_e32 v4, -1\nv_mov_b32_e32 v5, -1\nv_mov_b32_e32 v6, -1\nv_mov_b32_e32 v7, -1\n";
pub const SHOW: &str = "$WAIT\nglobal_store_dwordx4 v1, v[4:7], s[4:5]";

#[test]
fn loads_convert_by_the_format_of_the_instruction() {
    let Some(tools) = Tools::find() else { return };
    // 11 bits of 2^15 and of a denormal, 10 bits of 1.875.
    let small = bits([32768.0, 63.0 / 64.0 / 16384.0, 1.875, 0.0]);
    let rows = [
        ("8_UNORM", 0, bits([128.0 / 255.0, 0.0, 0.0, 0.0])),
        ("8_8_SINT", 0, [0xffff_ff80, 0xffff_ffff, 0, 0]),
        ("8_8_8_8_SNORM", 0, bits([-1.0, -1.0 / 127.0, 1.0 / 127.0, 1.0])),
        ("8_8_8_8_USCALED", 0, bits([128.0, 255.0, 1.0, 127.0])),
        ("16_UINT", 0, [0xff80, 0, 0, 0]),
        ("16_16_SSCALED", 0, bits([-128.0, 32513.0, 0.0, 0.0])),
        ("16_16_UNORM", 0, bits([65408.0 / 65535.0, 32513.0 / 65535.0, 0.0, 0.0])),
        ("16_16_16_16_FLOAT", 8, [0x3f80_0000, 0xc000_0000, 0x3eaa_a000, 0x3380_0000]),
        ("2_10_10_10_UINT", 0, [0x380, 0x7f, 0x3f0, 1]),
        ("2_10_10_10_SNORM", 0, bits([-128.0 / 511.0, 127.0 / 511.0, -16.0 / 511.0, 1.0])),
        ("10_10_10_2_UINT", 0, [0, 0x3e0, 0x01f, 0x1fc]),
        ("10_11_11_FLOAT", 0, small),
        ("32_SINT", 4, [0x1234_5678, 0, 0, 0]),
        ("32_32_FLOAT", 0, [0x7f01_ff80, 0x1234_5678, 0, 0]),
        ("32_32_32_UINT", 4, [0x1234_5678, 0xc000_3c00, 0x0001_3555, 0]),
        ("32_32_32_32_UINT", 0, [0x7f01_ff80, 0x1234_5678, 0xc000_3c00, 0x0001_3555]),
    ];
    for target in compiled_targets() {
        for (components, registers) in [("xyzw", "v[4:7]"), ("x", "v4")] {
            // Each format's four dwords are behind those of the one before it, of all lanes.
            let load = |(at, (name, offset, _)): (usize, &(&str, u32, [u32; 4]))| {
                let (format, at) = (format(target, name), at * RECORD * LANES);
                format!(
                    "{CLEAR}tbuffer_load_format_{components} {registers}, v0, s[8:11], s3 {format} idxen offset:{offset}\n{SHOW} offset:{at}\n$STORED\n"
                )
            };
            let body: String = rows.iter().enumerate().map(load).collect();
            let found = found(&tools, target, &body, [0, 0]);
            for ((name, _, mut expected), found) in rows.into_iter().zip(found.chunks(RECORD * LANES / 4)) {
                if components == "x" {
                    expected[1..].fill(u32::MAX);
                }
                assert_eq!(found[..4], expected, "{}: {name}", target.name);
            }
        }
    }
}

#[test]
fn loads_convert_and_select_by_the_descriptor() {
    let Some(tools) = Tools::find() else { return };
    // A, 1, 0, R.
    let swapped = 7 | 1 << 3 | 4 << 9;
    let body = format!("buffer_load_format_xyzw v[4:7], v0, s[8:11], s3 idxen\n{SHOW}");
    // One record less: the last lanes are behind the end.
    let short = format!("s_mov_b32 s10, 1\n{body}");
    for target in compiled_targets() {
        let show =
            |body: &str, name, select| found(&tools, target, body, [last_word(target, name, select), 0])[..4].to_vec();
        let unorm = bits([128.0 / 255.0, 1.0, 1.0 / 255.0, 127.0 / 255.0]);
        assert_eq!(show(&body, "8_8_8_8_UNORM", PLAIN), unorm, "{}", target.name);
        let expected = bits([127.0 / 255.0, 1.0, 0.0, 128.0 / 255.0]);
        assert_eq!(show(&body, "8_8_8_8_UNORM", swapped), expected, "{}", target.name);
        assert_eq!(show(&short, "8_8_8_8_UNORM", swapped), bits([0.0, 1.0, 0.0, 0.0]), "{}", target.name);
        // Of integers, 1 is one.
        assert_eq!(show(&body, "2_10_10_10_UINT", swapped), [1, 1, 0, 0x380], "{}", target.name);
        assert_eq!(show(&body, "32_32_SINT", PLAIN), [0x7f01_ff80, 0x1234_5678, 0, 0], "{}", target.name);
        let found = refused(&tools, target, &body, [PLAIN, 0]);
        assert!(matches!(found.fault, Fault::Unimplemented { .. }), "{}: {found}", target.name);
    }
}

#[test]
fn halves_of_registers_are_loaded() {
    let Some(tools) = Tools::find() else { return };
    for target in compiled_targets() {
        let unorm = last_word(target, "8_8_8_8_UNORM", PLAIN);
        let show = |body: &str| found(&tools, target, &format!("{body}{SHOW}"), [unorm, 0])[..4].to_vec();
        // 128 / 255, 1, 1 / 255 and 127 / 255 in FP16.
        let all = [0x3c00_3804, 0x37f8_1c04, u32::MAX, u32::MAX];
        let one = |name: &str| format!("buffer_load_{name} v4, v0, s[8:11], s3 idxen\n");
        assert_eq!(show(&one("$D16_x"))[0], 0xffff_3804, "{}", target.name);
        assert_eq!(show(&one("$HI_x"))[0], 0x3804_ffff, "{}", target.name);
        assert_eq!(show(&one("$D16_xy"))[..2], [0x3c00_3804, u32::MAX], "{}", target.name);
        let body = "buffer_load_$D16_xyz v[4:5], v0, s[8:11], s3 idxen\n";
        assert_eq!(show(body), [0x3c00_3804, 0xffff_1c04, u32::MAX, u32::MAX], "{}", target.name);
        assert_eq!(show("buffer_load_$D16_xyzw v[4:5], v0, s[8:11], s3 idxen\n"), all, "{}", target.name);
        let format = format(target, "16_16_SINT");
        let body = format!("tbuffer_load_$D16_xy v4, v0, s[8:11], s3 {format} idxen\n");
        assert_eq!(show(&body)[0], 0x7f01_ff80, "{}", target.name);
    }
}

/// -2 and 0.25 are 0 and 64 of 255; FP32 is truncated to FP16.
const STORED: &str =
    "v_mov_b32_e32 v4, 1.0\nv_mov_b32_e32 v5, -2.0\nv_mov_b32_e32 v6, 0x3e800000\nv_mov_b32_e32 v7, 0x3f803fff\n";

#[test]
fn stores_convert() {
    let Some(tools) = Tools::find() else { return };
    for target in compiled_targets() {
        let show = |body: &str, name| {
            found(&tools, target, &format!("{STORED}{body}"), [0, last_word(target, name, PLAIN)])[..4].to_vec()
        };
        let body = "buffer_store_format_xyzw v[4:7], v0, s[12:15], s3 idxen offset:4";
        assert_eq!(show(body, "8_8_8_8_UNORM"), [0, 0xff40_00ff, 0, 0], "{}", target.name);
        // Components that the format does not have are not stored.
        assert_eq!(show(body, "16_16_FLOAT"), [0, 0xc000_3c00, 0, 0], "{}", target.name);
        let typed = |components: &str, registers: &str, name: &str| {
            let format = format(target, name);
            show(&format!("tbuffer_store_{components} {registers}, v0, s[12:15], s3 {format} idxen"), "32_32_SINT")
        };
        assert_eq!(typed("format_x", "v7", "16_FLOAT"), [0x3c01, 0, 0, 0], "{}", target.name);
        assert_eq!(typed("format_xy", "v[6:7]", "16_16_SNORM"), [0x7fff_2000, 0, 0, 0], "{}", target.name);
        assert_eq!(
            typed("format_xyz", "v[4:6]", "32_32_32_FLOAT"),
            [0x3f80_0000, 0xc000_0000, 0x3e80_0000, 0],
            "{}",
            target.name
        );
        assert_eq!(typed("$D16_xy", "v7", "16_16_UINT"), [0x3f80_3fff, 0, 0, 0], "{}", target.name);
        let integers = "v_mov_b32_e32 v8, 0x3ff\nv_mov_b32_e32 v9, 1\nv_mov_b32_e32 v10, 2\nv_mov_b32_e32 v11, 3\n";
        let format = format(target, "2_10_10_10_UINT");
        let body = format!("{integers}tbuffer_store_format_xyzw v[8:11], v0, s[12:15], s3 {format} idxen");
        assert_eq!(show(&body, "32_32_SINT"), [0xc020_07ff, 0, 0, 0], "{}", target.name);
        // Behind the end, nothing is stored.
        let body = "s_mov_b32 s14, 1\nbuffer_store_format_xyzw v[4:7], v0, s[12:15], s3 idxen";
        assert_eq!(show(body, "8_8_8_8_UNORM"), [0; 4], "{}", target.name);
        let few = "buffer_store_format_xy v[4:5], v0, s[12:15], s3 idxen";
        if target.generation == Generation::Rdna4 {
            assert_eq!(show(few, "8_8_8_8_UNORM"), [0xffff_00ff, 0, 0, 0], "{}", target.name);
        } else {
            let found =
                refused(&tools, target, &format!("{STORED}{few}"), [0, last_word(target, "8_8_8_8_UNORM", PLAIN)]);
            assert!(matches!(found.fault, Fault::Unimplemented { .. }), "{}: {found}", target.name);
        }
    }
}

#[test]
fn what_typed_accesses_must_not_do_is_named() {
    let Some(tools) = Tools::find() else { return };
    for target in compiled_targets() {
        let unorm = last_word(target, "8_8_8_8_UNORM", PLAIN);
        let verdict = |body: &str| refused(&tools, target, body, [unorm, unorm]);
        let found = verdict("buffer_load_format_x v4, v0, s[8:11], s3 idxen offset:2");
        let place = Place::Buffer { name: "in".into(), offset: 2, element: 2, elements: 64 };
        assert!(
            matches!(&found.fault, Fault::Misaligned { bytes: 4, place: of, .. } if *of == place),
            "{}: {found}",
            target.name
        );
        // Used before it is there.
        let found = verdict("buffer_load_format_x v4, v0, s[8:11], s3 idxen\nv_mov_b32_e32 v5, v4");
        assert!(matches!(found.fault, Fault::Unwaited { .. }), "{}: {found}", target.name);
        // v20 to v23 hold nothing.
        let found = verdict("buffer_store_format_xyzw v[20:23], v0, s[12:15], s3 idxen");
        assert!(matches!(found.fault, Fault::Unwritten { .. }), "{}: {found}", target.name);
        // Every lane stores its number to the first record.
        let body = "v_cvt_f32_u32_e32 v8, v0\nv_mul_f32_e32 v8, 0x3e800000, v8\nv_mov_b32_e32 v9, 0\nv_mov_b32_e32 v10, 0\n\
                    v_mov_b32_e32 v11, 0\nv_mov_b32_e32 v12, 0\nbuffer_store_format_xyzw v[8:11], v12, s[12:15], s3 idxen";
        let found = verdict(body);
        assert!(matches!(found.fault, Fault::Race { other: Other::Lane(_), .. }), "{}: {found}", target.name);
        // An end that is before the memory's own is none; without it, it is.
        let body = "s_mov_b32 s10, 5\nv_add_nc_u32 v8, 1, v0\nbuffer_load_format_x v4, v8, s[8:11], s3 idxen";
        let body = if is_rdna(target) { body.into() } else { body.replace("v_add_nc_u32", "v_add_u32") };
        let found = verdict(&body);
        assert!(matches!(found.fault, Fault::OutOfBounds { bytes: 4, .. }), "{}: {found}", target.name);
        assert_eq!(found.lane, Some(3));
    }
}
