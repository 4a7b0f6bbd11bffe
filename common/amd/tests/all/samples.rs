//! Samples of images in kernels that LLVM compiled: descriptors come from memory, as those of HIP's textures do. What is found is compared with
//! a plain model of filters and borders.

mod kernels;
mod texture;

use bluefin_amd::{Fault, Generation, Memory, TARGETS, Target, Verdict};

use self::kernels::{intrinsic, kernel, plain};
use self::texture::{
    BORDER, DIMENSIONS, EDGE, FLOAT, MIRROR, MIRROR_ONCE, MIRROR_ONCE_BORDER, POINTS, SNORM, Texture, UINT, UNORM,
    WRAP, points,
};
use crate::support::{Arguments, Tools, compiled_targets, dwords, launch, run, verdict};

struct Made {
    memory: Memory,
    arguments: Arguments,
    out: u64,
    descriptors: u64,
}

fn made(texture: &Texture, target: &Target, points: &[[f32; 4]]) -> Made {
    let mut memory = Memory::new();
    let out = memory.allocate("out", 16 * POINTS, 4);
    memory.fill(out, 0, 16 * POINTS).expect("a buffer");
    let bytes = texture.bytes();
    let length = bytes.len() - texture.missing;
    let image = memory.allocate("image", length, 4);
    memory.write(image, &bytes[..length - texture.unwritten]).expect("a buffer");
    let at = memory.allocate("points", 16 * POINTS, 4);
    let all: Vec<u8> = points.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    memory.write(at, &all).expect("a buffer");
    let descriptors = memory.allocate("descriptors", 48, 4);
    let words: Vec<u8> = texture.descriptors(target, image).iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(descriptors, &words).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(at).pointer(descriptors);
    Made { memory, arguments, out, descriptors }
}

/// `tex2D<float4>` as ROCm's device library has it, and a kernel that makes an image half as wide and as high.
const HALVE: &str = r#"
typedef unsigned int __attribute__((ext_vector_type(8))) Image;
typedef unsigned int __attribute__((ext_vector_type(4))) Sampler;
typedef float __attribute__((ext_vector_type(4))) Texel;
extern "C" __attribute__((device)) Texel sample(int dmask, float x, float y, Image, Sampler, bool unnormalized, int fault, int cache)
    __asm("llvm.amdgcn.image.sample.lz.2d.v4f32.f32");
typedef const __attribute__((address_space(4))) unsigned int* Texture;
static __attribute__((device)) Texel tex2D(unsigned long long texture, float x, float y) {
    Texture words = (Texture)texture;
    return sample(15, x, y, *(const __attribute__((address_space(4))) Image*)words,
                  *(const __attribute__((address_space(4))) Sampler*)(words + 8), false, 0, 0);
}
extern "C" __attribute__((global)) void halve(Texel* out, unsigned long long texture, int width, int height) {
    const int i = __builtin_amdgcn_workgroup_id_x() * 32 + __builtin_amdgcn_workitem_id_x();
    if (i < width * height) out[i] = 4.0f * tex2D(texture, i % width * 2 + 1, i / width * 2 + 1);
}
"#;

/// A target, and the assembled kernel for it.
type Compiled = (&'static Target, Vec<u8>);

/// What a kernel finds at points.
fn found(tools: &Tools, (target, code): &Compiled, texture: &Texture, points: &[[f32; 4]]) -> Vec<[u32; 4]> {
    let program = tools.load(code, target);
    let unimplemented = program.unimplemented().iter().find(|(site, _)| site.text.starts_with("image_")).cloned();
    assert!(unimplemented.is_none(), "{}: {unimplemented:?}", target.name);
    let mut made = made(texture, target, points);
    run(&program, &mut made.memory, &launch("k", 1, POINTS as u32, &made.arguments), 0);
    dwords(&made.memory, made.out, 4 * POINTS).as_chunks().0.to_vec()
}

fn refused(tools: &Tools, (target, code): &Compiled, texture: &Texture, points: &[[f32; 4]]) -> Verdict {
    let program = tools.load(code, target);
    let mut made = made(texture, target, points);
    verdict(&program, &mut made.memory, &launch("k", 1, POINTS as u32, &made.arguments))
}

fn compiled(tools: &Tools, target: &'static Target, source: &str) -> Compiled {
    (target, tools.compile("kernel.ll", source, target, &[]))
}

fn check(tools: &Tools, compiled: &Compiled, texture: &Texture) {
    let points = points(texture);
    let all = found(tools, compiled, texture, &points);
    for (found, point) in all.iter().zip(&points) {
        let expected = texture.sampled(*point, [0; 3]);
        for (found, expected) in found.iter().map(|bits| f32::from_bits(*bits)).zip(expected) {
            let what = format!(
                "{}: dimension {} clamp {} linear {} normalized {} border {} at {point:?}",
                compiled.0.name, texture.dimension, texture.clamp, texture.linear, texture.normalized, texture.border
            );
            assert!((f64::from(found) - expected).abs() < 1e-6, "{what}: found {found}, expected {expected}");
        }
    }
}

fn targets() -> impl Iterator<Item = &'static Target> {
    use Generation::{Rdna2, Rdna3, Rdna4};
    compiled_targets().filter(|target| matches!(target.generation, Rdna2 | Rdna3 | Rdna4))
}

/// One target of each generation.
fn generations() -> impl Iterator<Item = &'static Target> {
    let first =
        |target: &Target| TARGETS.iter().find(|other| other.generation == target.generation).map(|other| other.name);
    targets().filter(move |target| first(target) == Some(target.name))
}

#[test]
fn planes_are_sampled_with_every_clamp_and_filter() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 9));
        for clamp in [WRAP, MIRROR, EDGE, MIRROR_ONCE, BORDER, MIRROR_ONCE_BORDER] {
            for (linear, normalized) in [(false, false), (false, true), (true, false), (true, true)] {
                let border = clamp % 3;
                check(&tools, &kernel, &Texture { clamp, linear, normalized, border, ..Texture::default() });
            }
        }
    }
}

#[test]
fn every_dimension_is_sampled() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        for (dimension, _, _) in DIMENSIONS {
            let size = match dimension {
                8 => [7, 1, 1],
                9 => [5, 3, 1],
                10 => [4, 3, 5],
                12 => [6, 1, 3],
                _ => [3, 4, 3],
            };
            let kernel = compiled(&tools, target, &plain(target, dimension));
            for (linear, clamp) in [(false, WRAP), (true, EDGE), (true, BORDER)] {
                let texture =
                    Texture { dimension, size, linear, clamp, border: 1, format: FLOAT, ..Texture::default() };
                check(&tools, &kernel, &texture);
            }
        }
    }
}

#[test]
fn formats_are_filtered() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 9));
        for format in [UNORM, SNORM, FLOAT] {
            check(&tools, &kernel, &Texture { format, border: 2, clamp: BORDER, ..Texture::default() });
        }
        // Integers come as they are, but have no mean.
        let texture = Texture { format: UINT, linear: false, truncates: true, ..Texture::default() };
        let points = points(&texture);
        for (found, point) in found(&tools, &kernel, &texture, &points).iter().zip(&points) {
            assert_eq!(f64::from(found[0]), texture.sampled(*point, [0; 3])[0], "{} at {point:?}", target.name);
        }
        let found = refused(&tools, &kernel, &Texture { linear: true, ..texture }, &points);
        assert!(found.to_string().contains("a linear filter of integers"), "{}: {found}", target.name);
    }
}

/// A volume may be linear in a plane and not between planes, and the other way.
#[test]
fn filters_between_slices_are_apart() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 10));
        for (linear, inward) in [(true, 1), (false, 2)] {
            let sampler = [0, 0, inward << 24, 0];
            let size = [4, 3, 5];
            let texture = Texture { dimension: 10, size, linear, sampler, format: FLOAT, ..Texture::default() };
            let other = Texture { dimension: 10, size, linear: !linear, format: FLOAT, ..Texture::default() };
            let points = points(&texture);
            for (found, point) in found(&tools, &kernel, &texture, &points).iter().zip(&points) {
                let mut taps = texture.taps(*point, [0; 3]);
                taps[2] = other.taps(*point, [0; 3])[2].clone();
                let expected = texture.mean(&taps, 1);
                let found = f64::from(f32::from_bits(found[1]));
                assert!((found - expected).abs() < 1e-6, "{} at {point:?}: {found}, expected {expected}", target.name);
            }
        }
    }
}

/// Instructions that say more than coordinates: of an image with one level, what chooses among levels has no effect.
#[test]
fn levels_and_derivatives_change_nothing() {
    let Some(tools) = Tools::find() else { return };
    let point = [("float", "$P0"), ("float", "$P1")];
    let slopes = [("float", "2.0"), ("float", "0.5"), ("float", "4.0"), ("float", "1.0")];
    let small = [("half", "0xH4000"), ("half", "0xH3800"), ("half", "0xH4400"), ("half", "0xH3C00")];
    let level = [("float", "3.0")];
    let all: [(&str, &str, Vec<_>); 9] = [
        ("sample.2d", "v4f32.f32", point.to_vec()),
        ("sample.l.2d", "v4f32.f32", [&point[..], &level].concat()),
        ("sample.cl.2d", "v4f32.f32", [&point[..], &level].concat()),
        ("sample.b.2d", "v4f32.f32.f32", [&level[..], &point].concat()),
        ("sample.b.cl.2d", "v4f32.f32.f32", [&level[..], &point, &level].concat()),
        ("sample.d.2d", "v4f32.f32.f32", [&slopes[..], &point].concat()),
        ("sample.d.2d", "v4f32.f16.f32", [&small[..], &point].concat()),
        ("sample.d.cl.2d", "v4f32.f32.f32", [&slopes[..], &point, &level].concat()),
        ("sample.b.2d", "v4f32.f16.f32", [&[("half", "0xH4000")][..], &point].concat()),
    ];
    let texture = Texture { clamp: MIRROR, ..Texture::default() };
    for target in generations() {
        for (name, suffix, arguments) in &all {
            let (call, declared) = intrinsic(name, suffix, "<4 x float>", 15, arguments);
            check(&tools, &compiled(&tools, target, &kernel(target, "<4 x float>", &call, &declared)), &texture);
        }
    }
}

#[test]
fn offsets_count_texels() {
    let Some(tools) = Tools::find() else { return };
    // -2 and 3 of six bits.
    let arguments = [("i32", "830"), ("float", "$P0"), ("float", "$P1")];
    for target in generations() {
        let (call, declared) = intrinsic("sample.lz.o.2d", "v4f32.f32", "<4 x float>", 15, &arguments);
        let kernel = compiled(&tools, target, &kernel(target, "<4 x float>", &call, &declared));
        for (clamp, linear) in [(WRAP, true), (BORDER, false), (BORDER, true)] {
            let texture = Texture { clamp, linear, format: FLOAT, border: 2, ..Texture::default() };
            let points = points(&texture);
            for (found, point) in found(&tools, &kernel, &texture, &points).iter().zip(&points) {
                let expected = texture.sampled(*point, [-2, 3, 0]).map(|value| value as f32);
                assert_eq!(found.map(f32::from_bits), expected, "{} at {point:?}", target.name);
            }
        }
    }
}

/// Two components, and halves of registers: coordinates are rounded to FP16, and what is found too.
#[test]
fn halves_are_sampled() {
    let Some(tools) = Tools::find() else { return };
    let halves = [("half", "%h0"), ("half", "%h1")];
    let texture = Texture { normalized: false, ..Texture::default() };
    for target in generations() {
        let (call, declared) = intrinsic("sample.lz.2d", "v2f32.f16", "<2 x float>", 10, &halves);
        let kernel_of_two = compiled(&tools, target, &kernel(target, "<2 x float>", &call, &declared));
        let level = [&halves[..], &[("half", "0xH4000")]].concat();
        let (call, declared) = intrinsic("sample.l.2d", "v4f16.f16", "<4 x half>", 15, &level);
        let kernel_of_halves = compiled(&tools, target, &kernel(target, "<4 x half>", &call, &declared));
        // Those that FP16 has.
        let mut points = points(&texture);
        points.iter_mut().flatten().for_each(|at| *at = (*at * 64.0).round() / 64.0);
        for (found, point) in found(&tools, &kernel_of_two, &texture, &points).iter().zip(&points) {
            let expected = texture.sampled(*point, [0; 3]);
            for (found, expected) in found.iter().zip([expected[1], expected[3]]) {
                let found = f64::from(f32::from_bits(*found));
                assert!((found - expected).abs() < 1e-6, "{} at {point:?}: {found}, {expected}", target.name);
            }
        }
        for (found, point) in found(&tools, &kernel_of_halves, &texture, &points).iter().zip(&points) {
            for (at, expected) in texture.sampled(*point, [0; 3]).into_iter().enumerate() {
                let half = found[at / 2] >> (16 * (at % 2)) & 0xffff;
                // From 0 to 1; the distance of its neighbours is 2^-11 at most.
                let (exponent, fraction) = (half >> 10, f64::from(half & 0x3ff) / 1024.0);
                let value = match exponent {
                    0 => fraction * 2_f64.powi(-14),
                    _ => (1.0 + fraction) * 2_f64.powi(exponent as i32 - 15),
                };
                assert!((value - expected).abs() <= 1.0 / 4096.0, "{} at {point:?}: {value}, {expected}", target.name);
            }
        }
    }
}

#[test]
fn four_texels_are_gathered() {
    let Some(tools) = Tools::find() else { return };
    let arguments = [("float", "$P0"), ("float", "$P1"), ("float", "$P2")];
    for target in generations() {
        for (name, dimension, count) in [("gather4.lz.2d", 9, 2), ("gather4.2d", 9, 2), ("gather4.lz.2darray", 13, 3)] {
            let (call, declared) = intrinsic(name, "v4f32.f32", "<4 x float>", 4, &arguments[..count]);
            let kernel = compiled(&tools, target, &kernel(target, "<4 x float>", &call, &declared));
            // Whatever the filter is.
            for (clamp, linear) in [(WRAP, false), (EDGE, true), (BORDER, false)] {
                let size = [5, 3, if dimension == 13 { 4 } else { 1 }];
                let of = |linear| Texture { clamp, linear, dimension, size, format: FLOAT, ..Texture::default() };
                let (texture, footprint) = (of(linear), of(true));
                let points = points(&texture);
                for (found, point) in found(&tools, &kernel, &texture, &points).iter().zip(&points) {
                    let [across, down, inward] = footprint.taps(*point, [0; 3]);
                    let (left, right, up, below) = (across[0].0, across[1].0, down[0].0, down[1].0);
                    let expected = [(left, below), (right, below), (right, up), (left, up)].map(|(x, y)| {
                        let place = x.zip(y).zip(inward[0].0).map(|((x, y), z)| [x, y, z]);
                        footprint.value(place, 2) as f32
                    });
                    assert_eq!(found.map(f32::from_bits), expected, "{} {name} at {point:?}", target.name);
                }
            }
        }
    }
}

#[test]
fn other_samplers_are_refused() {
    let Some(tools) = Tools::find() else { return };
    let refusals: [([u32; 4], u32, u32, &str); 12] = [
        ([0; 4], 4, 0, "half of a border"),
        ([0, 0, 1 << 21, 0], EDGE, 0, "anisotropic"),
        ([0, 0, 1 << 22, 0], EDGE, 0, "depends on the level"),
        ([1 << 19, 0, 0, 0], EDGE, 0, "MC_COORD_TRUNC"),
        ([1 << 20, 0, 0, 0], EDGE, 0, "FORCE_DEGAMMA"),
        ([1 << 29, 0, 0, 0], EDGE, 0, "smallest or the largest"),
        ([0, 0, 0, 3 << 30], BORDER, 0, "colour is in memory"),
        ([0; 4], BORDER, 7 << 25, "BC_SWIZZLE"),
        ([0; 4], EDGE, 1 << 20, "tiled"),
        ([0; 4], EDGE, 1 << 16, "levels"),
        ([1 << 15, 0, 0, 0], WRAP, 0, "that is repeated"),
        ([0; 4], EDGE, 4 << 28, "other dimensions"),
    ];
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 9));
        for (sampler, clamp, image, what) in refusals {
            // On gfx12, the last level is elsewhere.
            let image = if target.generation == Generation::Rdna4 && what == "levels" { 1 << 15 } else { image };
            let texture = Texture { sampler, clamp, image, linear: false, ..Texture::default() };
            let found = refused(&tools, &kernel, &texture, &[[7.25, 0.25, 0.0, 0.0]; POINTS]);
            assert!(found.to_string().contains(what), "{}: {found}, expected {what}", target.name);
        }
        let texture = Texture::default();
        let found = refused(&tools, &kernel, &texture, &[[f32::INFINITY, 0.25, 0.0, 0.0]; POINTS]);
        assert!(found.to_string().contains("not finite"), "{}: {found}", target.name);
    }
}

/// An instruction may say that coordinates are not normalized, whatever the sampler says.
#[test]
fn an_instruction_takes_coordinates_as_they_are() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let source = plain(target, 9).replace("i1 false", "i1 true");
        let kernel = compiled(&tools, target, &source);
        let (said, sampler) = (Texture { normalized: false, ..Texture::default() }, Texture::default());
        let points = points(&said);
        let all = found(&tools, &kernel, &sampler, &points);
        assert_eq!(all, found(&tools, &compiled(&tools, target, &plain(target, 9)), &said, &points), "{}", target.name);
    }
}

/// Of a border that is black and opaque, the component that is alpha in memory is 1 ("BC_SWIZZLE").
#[test]
fn the_alpha_of_a_border_is_where_the_image_says() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 9));
        // XYZW, XWYZ, WZYX, WXYZ, ZYXW, YXWZ.
        for (swizzle, alpha) in [3, 1, 0, 0, 3, 2].into_iter().enumerate() {
            let image = (swizzle as u32) << 25;
            let texture = Texture { clamp: BORDER, border: 1, image, linear: false, ..Texture::default() };
            let found = found(&tools, &kernel, &texture, &[[-1.0, 0.5, 0.0, 0.0]; POINTS])[0];
            let expected: [f32; 4] = std::array::from_fn(|at| f32::from(u8::from(at == alpha)));
            assert_eq!(found.map(f32::from_bits), expected, "{} {swizzle}", target.name);
        }
    }
}

/// Texels are looked at as what other loads read is; one that has no part in a mean is not read.
#[test]
fn texels_are_there_and_written() {
    let Some(tools) = Tools::find() else { return };
    for target in generations() {
        let kernel = compiled(&tools, target, &plain(target, 9));
        let of = |unwritten, missing| Texture { unwritten, missing, normalized: false, ..Texture::default() };
        let (inside, last) = ([[3.5, 2.5, 0.0, 0.0]; POINTS], [[4.25, 2.5, 0.0, 0.0]; POINTS]);
        for texture in [of(4, 0), of(0, 4)] {
            let expected = texture.sampled(inside[0], [0; 3]).map(|value| value as f32);
            assert_eq!(found(&tools, &kernel, &texture, &inside)[0].map(f32::from_bits), expected, "{}", target.name);
            let fault = refused(&tools, &kernel, &texture, &last).fault;
            let is_named = match texture.missing {
                0 => matches!(fault, Fault::Unwritten { .. }),
                _ => matches!(fault, Fault::OutOfBounds { .. }),
            };
            assert!(is_named, "{}: {fault:?}", target.name);
        }
    }
}

/// What a HIP kernel reads of a texture is the mean of four texels, where it asks between them.
#[test]
fn a_hip_kernel_halves_a_texture() {
    let Some(tools) = Tools::find() else { return };
    let size = [10, 6, 1];
    for target in targets() {
        let texture = Texture { size, normalized: false, format: FLOAT, ..Texture::default() };
        let Made { mut memory, out, descriptors, .. } = made(&texture, target, &[[0.0; 4]; POINTS]);
        let arguments = Arguments::default().pointer(out).pointer(descriptors).int(5).int(3);
        let program = tools.program(HALVE, target);
        run(&program, &mut memory, &launch("halve", 1, 32, &arguments), 0);
        let all = dwords(&memory, out, 4 * 15);
        for (at, found) in all.iter().enumerate() {
            let (x, y) = (2 * (at / 4 % 5), 2 * (at / 20));
            let around = [[x, y, 0], [x + 1, y, 0], [x, y + 1, 0], [x + 1, y + 1, 0]];
            let expected: f64 = around.iter().map(|place| texture.value(Some(*place), at % 4)).sum();
            assert_eq!(f64::from(f32::from_bits(*found)), expected, "{} at {at}", target.name);
        }
    }
}
