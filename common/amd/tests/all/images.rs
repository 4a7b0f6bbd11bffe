//! Images whose texels lie one behind the other, in kernels written in assembly.

use bluefin_amd::{Fault, Generation, Target};

use crate::support::{Tools, compiled_targets};
use crate::typed::{PLAIN, SHOW, bits, found, refused};

/// Numbers of formats: of gfx10, and of what came after it.
const UNORM: [u32; 2] = [56, 42];
const UINT: [u32; 2] = [20, 20];

fn targets() -> impl Iterator<Item = &'static Target> {
    use Generation::{Rdna2, Rdna3, Rdna4};
    compiled_targets().filter(|target| matches!(target.generation, Rdna2 | Rdna3 | Rdna4))
}

/// Instructions that make a descriptor of 4 by 4 texels in s[16:23] of `in` (s[6:7]), or of `out` (s[4:5]): of a format, dimensions, and what
/// is added to the word of its layout.
fn descriptor(target: &Target, buffer: &str, format: [u32; 2], dimensions: u32, layout: u32) -> String {
    described(target, buffer, format, 4, (7 + dimensions) << 28 | layout, 4 - 1)
}

/// The same of so many texels in width and in height, and with the word behind that of its layout.
fn described(target: &Target, buffer: &str, format: [u32; 2], size: u32, layout: u32, last: u32) -> String {
    let (format, place) = match target.generation {
        Generation::Rdna2 => (format[0], 20),
        Generation::Rdna3 => (format[1], 20),
        _ => (format[1], 17),
    };
    let (width, height) = (size - 1, size - 1);
    format!(
        "s_lshr_b64 s[16:17], {buffer}, 8\ns_or_b32 s17, s17, {:#x}\ns_mov_b32 s18, {:#x}\ns_mov_b32 s19, {:#x}\ns_mov_b32 s20, {}\n\
         s_mov_b32 s21, 0\ns_mov_b32 s22, 0\ns_mov_b32 s23, 0\n",
        format << place | (width & 3) << 30,
        width >> 2 | height << 14,
        PLAIN | layout,
        last,
    )
}

/// An instruction with an address of two registers.
fn at(target: &Target, instruction: &str, data: &str, rest: &str) -> String {
    let address = if target.generation == Generation::Rdna4 { "[v8, v9]" } else { "v[8:9]" };
    format!("{instruction} {data}, {address}, s[16:23] {rest}\n")
}

#[test]
fn texels_are_loaded() {
    let Some(tools) = Tools::find() else { return };
    // The second texel of the row of a lane: 78 56 34 12.
    let coordinates = "v_mov_b32_e32 v8, 1\nv_mov_b32_e32 v9, v0\n";
    let all = [0x78, 0x56, 0x34, 0x12].map(|byte| byte as f32 / 255.0);
    for target in targets() {
        let image = |format, dimensions| descriptor(target, "s[6:7]", format, dimensions, 0);
        let show = |body: String| found(&tools, target, &format!("{body}{SHOW}"), [0, 0])[..4].to_vec();
        let load = at(target, "image_load", "v[4:7]", "dmask:0xf dim:SQ_RSRC_IMG_2D");
        assert_eq!(show(format!("{}{coordinates}{load}", image(UNORM, 2))), bits(all), "{}", target.name);
        // The second component and the last one.
        let load = at(target, "image_load", "v[4:5]", "dmask:0xa dim:SQ_RSRC_IMG_2D");
        let found = show(format!("{}{coordinates}{load}", image(UNORM, 2)));
        assert_eq!(found, [all[1].to_bits(), all[3].to_bits(), u32::MAX, u32::MAX], "{}", target.name);
        // FP16, two in a register.
        let load = at(target, "image_load", "v[4:5]", "dmask:0x7 dim:SQ_RSRC_IMG_2D d16");
        let found = show(format!("{}{coordinates}{load}", image(UNORM, 2)));
        assert_eq!(found, [0x3565_3788, 0xffff_3287, u32::MAX, u32::MAX], "{}", target.name);
        // In one dimension, and with coordinates of 16 bits.
        let load = "image_load v4, v0, s[16:23] dmask:0x1 dim:SQ_RSRC_IMG_1D\n";
        assert_eq!(show(format!("{}{load}", image(UINT, 1)))[0], 0x1234_5678, "{}", target.name);
        let halves = "v_lshlrev_b32_e32 v8, 16, v0\nv_or_b32_e32 v8, 2, v8\n";
        let load = "image_load v4, v8, s[16:23] dmask:0x1 dim:SQ_RSRC_IMG_2D a16\n";
        assert_eq!(show(format!("{}{halves}{load}", image(UINT, 2)))[0], 0xc000_3c00, "{}", target.name);
        // Below the last row, there is nothing.
        let below = "v_mov_b32_e32 v8, 1\nv_add_nc_u32_e32 v9, 3, v0\n";
        let load = at(target, "image_load", "v[4:7]", "dmask:0xf dim:SQ_RSRC_IMG_2D");
        assert_eq!(show(format!("{}{below}{load}", image(UNORM, 2))), [0; 4], "{}", target.name);
    }
}

#[test]
fn texels_are_stored() {
    let Some(tools) = Tools::find() else { return };
    let data = "v_mov_b32_e32 v8, 1\nv_mov_b32_e32 v9, v0\nv_mov_b32_e32 v4, 1.0\nv_mov_b32_e32 v5, 0\nv_mov_b32_e32 v6, 0.5\nv_mov_b32_e32 v7, 1.0\n";
    for target in targets() {
        let image = descriptor(target, "s[4:5]", UNORM, 2, 0);
        let store = at(target, "image_store", "v[4:7]", "dmask:0xf dim:SQ_RSRC_IMG_2D");
        let stored = found(&tools, target, &format!("{image}{data}{store}"), [0, 0]);
        assert_eq!(stored[..4], [0, 0xff80_00ff, 0, 0], "{}", target.name);
        let size = "v_mov_b32_e32 v8, 0\nimage_get_resinfo v[4:7], v8, s[16:23] dmask:0xf dim:SQ_RSRC_IMG_2D\n";
        let sizes = found(&tools, target, &format!("{image}{size}{SHOW}"), [0, 0]);
        assert_eq!(sizes[..4], [4, 4, 1, 1], "{}", target.name);
    }
}

#[test]
fn texels_are_changed() {
    let Some(tools) = Tools::find() else { return };
    let data = "v_mov_b32_e32 v8, 1\nv_mov_b32_e32 v9, v0\nv_mov_b32_e32 v4, 5\nv_mov_b32_e32 v5, 7\nv_mov_b32_e32 v6, 9\nv_mov_b32_e32 v7, 5\n";
    for target in targets() {
        let newest = target.generation == Generation::Rdna4;
        let image = descriptor(target, "s[4:5]", UINT, 2, 0);
        let (add, returns) =
            if newest { ("image_atomic_add_uint", "th:TH_ATOMIC_RETURN") } else { ("image_atomic_add", "glc") };
        let atomics = [
            at(target, add, "v4", "dmask:0x1 dim:SQ_RSRC_IMG_2D"),
            // What was there, 5, and then 12 in its place; of two registers, the second one is what it is compared with.
            at(target, add, "v5", &format!("dmask:0x1 dim:SQ_RSRC_IMG_2D {returns}")),
            "v_mov_b32_e32 v7, 12\n".into(),
            at(target, "image_atomic_cmpswap", "v[6:7]", &format!("dmask:0x3 dim:SQ_RSRC_IMG_2D {returns}")),
        ];
        let show = "$WAIT\n$STORED\nglobal_store_dwordx4 v1, v[4:7], s[4:5] offset:64";
        let found = found(&tools, target, &format!("{image}{data}{}{show}", atomics.concat()), [0, 0]);
        assert_eq!(found[..4], [0, 9, 0, 0], "{}", target.name);
        assert_eq!(found[16..20], [5, 5, 12, 12], "{}", target.name);
        // A texel of one byte has none.
        let image = descriptor(target, "s[4:5]", [5, 5], 2, 0);
        let verdict = refused(&tools, target, &format!("{image}{data}{}", atomics[0]), [0, 0]);
        assert!(matches!(verdict.fault, Fault::Unimplemented { .. }), "{}: {verdict}", target.name);
    }
}

/// A texel of two coordinates.
type Texel = fn(usize, usize) -> usize;

/// Volumes and arrays of 2 by 2 texels of `out`, whose rows have 256 bytes.
#[test]
fn slices_lie_one_behind_the_other() {
    const ROW: usize = 256 / 4;
    let Some(tools) = Tools::find() else { return };
    // DIM, its number, the first and the last element, and the texel of `out` for two bits of a lane. A lane's first bit is y, x is 1; of an
    // array of one dimension it is x. The second bit is the slice.
    let images: [(&str, u32, u32, Texel); 3] = [
        ("3D", 10, 1, |y, z| (2 * z + y) * ROW + 1),
        ("2D_ARRAY", 13, 1 << 16 | 1, |y, z| (2 * (1 + z) + y) * ROW + 1),
        ("1D_ARRAY", 12, 1 << 16 | 2, |x, z| (1 + z) * ROW + x),
    ];
    let data =
        "v_mov_b32_e32 v8, 1\nv_and_b32_e32 v9, 1, v0\nv_lshrrev_b32_e32 v10, 1, v0\nv_add_nc_u32_e32 v4, 7, v0\n";
    for target in targets() {
        let newest = target.generation == Generation::Rdna4;
        let add = if newest { "image_atomic_add_uint" } else { "image_atomic_add" };
        for (dim, number, elements, texel) in images {
            let lines = dim == "1D_ARRAY";
            let address = match (newest, lines) {
                (true, true) => "[v9, v10]",
                (true, false) => "[v8, v9, v10]",
                (false, true) => "v[9:10]",
                (false, false) => "v[8:10]",
            };
            let [store, add, load] = [("image_store", 4), (add, 4), ("image_load", 5)].map(|(instruction, data)| {
                format!("{instruction} v{data}, {address}, s[16:23] dmask:0x1 dim:SQ_RSRC_IMG_{dim}\n")
            });
            let image = described(target, "s[4:5]", UINT, 2, number << 28, elements);
            let body = format!("{image}{data}{store}$STORED\n{add}$STORED\n{load}{SHOW}");
            let found = found(&tools, target, &body, [0, 0]);
            for lane in 1..4 {
                let (low, slice) = (lane % 2, lane / 2);
                // That array has one element.
                let outside = dim == "2D_ARRAY" && slice > 0;
                let expected = if outside { 0 } else { 2 * (7 + lane as u32) };
                assert_eq!(found[4 * (lane - 1) + 1], expected, "{} {dim} {lane}", target.name);
                if !outside {
                    assert_eq!(found[texel(low, slice) - 4], expected, "{} {dim} {lane}", target.name);
                }
            }
        }
        let image = described(target, "s[4:5]", UINT, 2, 10 << 28, 4);
        let size = "v_mov_b32_e32 v8, 0\nimage_get_resinfo v[4:7], v8, s[16:23] dmask:0xf dim:SQ_RSRC_IMG_3D\n";
        let sizes = found(&tools, target, &format!("{image}{size}{SHOW}"), [0, 0]);
        assert_eq!(sizes[..4], [2, 2, 5, 1], "{}", target.name);
    }
}

/// Of an image with one level, that is level 0.
#[test]
fn levels_are_looked_at() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let image = descriptor(target, "s[6:7]", UINT, 2, 0);
        let address = if target.generation == Generation::Rdna4 { "[v8, v9, v10]" } else { "v[8:10]" };
        let load = format!("image_load_mip v4, {address}, s[16:23] dmask:0x1 dim:SQ_RSRC_IMG_2D\n{SHOW}");
        let texel = "v_mov_b32_e32 v8, 1\nv_mov_b32_e32 v9, v0\n";
        let body = |level: u32| format!("{image}{texel}v_mov_b32_e32 v10, {level}\n{load}");
        assert_eq!(found(&tools, target, &body(0), [0, 0])[0], 0x1234_5678, "{}", target.name);
        let verdict = refused(&tools, target, &body(1), [0, 0]);
        assert!(matches!(verdict.fault, Fault::Unimplemented { .. }), "{}: {verdict}", target.name);
    }
}

#[test]
fn other_images_are_refused() {
    let Some(tools) = Tools::find() else { return };
    let coordinates = "v_mov_b32_e32 v8, 1\nv_mov_b32_e32 v9, v0\n";
    for target in targets() {
        let load = at(target, "image_load", "v4", "dmask:0x1 dim:SQ_RSRC_IMG_2D");
        for (dimensions, layout, what) in [(2, 1 << 20, "tiled"), (1, 0, "other dimensions"), (2, 1 << 15, "levels")] {
            let image = descriptor(target, "s[6:7]", UNORM, dimensions, layout);
            let found = refused(&tools, target, &format!("{image}{coordinates}{load}"), [0, 0]);
            let Fault::Unimplemented { what: why } = &found.fault else { panic!("{}: {found}", target.name) };
            assert!(why.contains(what), "{}: {why}", target.name);
        }
        let image = descriptor(target, "s[6:7]", UNORM, 2, 0);
        let found = refused(&tools, target, &format!("{image}v_mov_b32_e32 v8, 1\n{load}"), [0, 0]);
        assert!(matches!(found.fault, Fault::Unwritten { .. }), "{}: {found}", target.name);
        // Used before it is there.
        let found = refused(&tools, target, &format!("{image}{coordinates}{load}v_mov_b32_e32 v5, v4\n"), [0, 0]);
        assert!(matches!(found.fault, Fault::Unwaited { .. }), "{}: {found}", target.name);
    }
}

/// Samples are waited for, on gfx12 with a counter of their own.
#[test]
fn samples_are_waited_for() {
    let Some(tools) = Tools::find() else { return };
    let middle = "v_mov_b32_e32 v8, 0.5\nv_mov_b32_e32 v9, 0.5\n";
    let sampler = "s_movk_i32 s24, 0x92\ns_mov_b32 s25, 0xfff000\ns_mov_b32 s26, 0x500000\ns_mov_b32 s27, 0\n";
    for target in targets() {
        let newest = target.generation == Generation::Rdna4;
        let sample = at(target, "image_sample_lz", "v[4:7]", "s[24:27] dmask:0xf dim:SQ_RSRC_IMG_2D")
            .replace("s[16:23] s", "s[16:23], s");
        let waited = if newest { SHOW.replace("$WAIT", "s_wait_samplecnt 0x0") } else { SHOW.into() };
        let image = descriptor(target, "s[6:7]", UNORM, 2, 0);
        // Between 78 56 34 12 and 00 3c 00 c0 of two rows that are the same.
        let all = found(&tools, target, &format!("{image}{sampler}{middle}{sample}{waited}"), [0, 0]);
        let mean = |left: u32, right: u32| (f64::from(left + right) / 2.0 / 255.0) as f32;
        assert_eq!(
            all[..4],
            bits([mean(0x78, 0), mean(0x56, 0x3c), mean(0x34, 0), mean(0x12, 0xc0)]),
            "{}",
            target.name
        );
        let early = refused(&tools, target, &format!("{image}{sampler}{middle}{sample}v_mov_b32_e32 v5, v4\n"), [0, 0]);
        assert!(matches!(early.fault, Fault::Unwaited { .. }), "{}: {early}", target.name);
        if newest {
            let early = refused(&tools, target, &format!("{image}{sampler}{middle}{sample}{SHOW}"), [0, 0]);
            assert!(matches!(early.fault, Fault::Unwaited { .. }), "{}: {early}", target.name);
        }
        // A load in the place of a sample may return before it.
        let load = at(target, "image_load", "v4", "dmask:0x1 dim:SQ_RSRC_IMG_2D");
        let over = refused(&tools, target, &format!("{image}{sampler}{middle}{sample}{load}"), [0, 0]);
        assert!(matches!(over.fault, Fault::Unwaited { .. }), "{}: {over}", target.name);
        // A coordinate, and a sampler, that nobody wrote.
        for (coordinates, sampler) in [("v_mov_b32_e32 v8, 0.5\n", sampler), (middle, "s_mov_b32 s24, 0\n")] {
            let unwritten = refused(&tools, target, &format!("{image}{sampler}{coordinates}{sample}"), [0, 0]);
            assert!(matches!(unwritten.fault, Fault::Unwritten { .. }), "{}: {unwritten}", target.name);
        }
    }
}
