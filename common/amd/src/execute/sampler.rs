//! Samplers of images ("Sampler Resource Definition" of the documents of RDNA 2 to RDNA 4), and the texels that a coordinate is between.
//!
//! Fields lie as AMD's ROCR has them (`resource_nv.h`, `resource_gfx11.h`, `resource_gfx12.h`), which makes the samplers of HIP's textures. A
//! coordinate is taken to be exact before it is rounded. For a linear filter that is to 8 bits of fraction; for a point, as the registers'
//! description says, "round-nearest-even to n.6 and drop fraction", or with `TRUNC_COORD` "truncate". That the former is to the nearest even as
//! well is not documented. Images have one level here, so that what chooses among levels has no effect, and is refused where it chooses a filter.

use super::image::Image;
use crate::instruction::{Extent, Sampling};
use crate::target::Generation;

/// Bits of a coordinate's fraction in a linear filter, and for a point.
const FRACTION: i64 = 1 << 8;
const POINT: f64 = 64.0;

/// Beyond all texels; coordinates are no further, which integers hold.
const FAR: f64 = (1_u64 << 40) as f64;

/// The texel, or the border, that stands for one outside of an image ("CLAMP_X").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clamp {
    Wrap,
    Mirror,
    Edge,
    MirrorOnce,
    Border,
    MirrorOnceBorder,
}

/// How a coordinate becomes texels.
#[derive(Clone, Copy)]
struct Axis {
    clamp: Clamp,
    linear: bool,
}

/// A texel of one coordinate and its part of [`FRACTION`]; `None` of the border.
pub(super) type Tap = (Option<u64>, u64);

/// A sampler for images of some dimensions.
pub(super) struct Sampler {
    axes: [Axis; 3],
    normalized: bool,
    truncates: bool,
    /// All texels are read, those too that have no part in a mean.
    gathers: bool,
    /// Components in memory of which the border is 1.
    pub border: [bool; 4],
}

impl Clamp {
    fn of(number: u32) -> Result<Self, &'static str> {
        Ok(match number {
            0 => Self::Wrap,
            1 => Self::Mirror,
            2 => Self::Edge,
            3 => Self::MirrorOnce,
            6 => Self::Border,
            7 => Self::MirrorOnceBorder,
            _ => return Err("a sampler that clamps to half of a border"),
        })
    }

    /// The texel for one of `size`, `None` of the border.
    fn texel(self, at: i64, size: i64) -> Option<u64> {
        let mirrored = if at < 0 { -1 - at } else { at };
        let at = match self {
            Self::Wrap => at.rem_euclid(size),
            Self::Mirror => {
                let at = at.rem_euclid(2 * size);
                at.min(2 * size - 1 - at)
            }
            Self::Edge => at.clamp(0, size - 1),
            Self::MirrorOnce => mirrored.min(size - 1),
            Self::Border => at,
            Self::MirrorOnceBorder => mirrored,
        };
        u64::try_from(at).ok().filter(|_| at < size)
    }
}

/// Components of which a border is 1, as memory has them ("BORDER_COLOR_TYPE", and "BC_SWIZZLE" of the image, which says where alpha is).
fn border(kind: u32, swizzle: u32) -> Result<[bool; 4], &'static str> {
    let alpha = match swizzle {
        0 => 3,
        1 => 1,
        2 | 3 => 0,
        4 => 3,
        5 => 2,
        _ => return Err("a reserved BC_SWIZZLE of an image"),
    };
    match kind {
        0 => Ok([false; 4]),
        1 => Ok(std::array::from_fn(|component| component == alpha)),
        2 => Ok([true; 4]),
        _ => Err("a border whose colour is in memory"),
    }
}

impl Sampler {
    /// # Errors
    /// What is not executed of it.
    pub fn read(
        words: [u32; 4],
        image: &Image,
        extent: Extent,
        sampling: &Sampling,
        generation: Generation,
    ) -> Result<Self, &'static str> {
        let bits = |word: usize, low: u32, width: u32| words[word] >> low & ((1 << width) - 1);
        let (largest, smallest, inward) = (bits(2, 20, 2), bits(2, 22, 2), bits(2, 24, 2));
        if largest > 1 || smallest > 1 {
            return Err("a sampler with an anisotropic filter");
        }
        if largest != smallest {
            return Err("a sampler whose filter depends on the level of detail");
        }
        let linear = largest == 1;
        let is_volume = extent == Extent::Volume;
        let deep = match inward {
            0 => linear,
            1 => false,
            2 => true,
            _ => return Err("a sampler with a reserved Z_FILTER"),
        };
        if is_volume && deep && bits(1, 28, 4) != 0 {
            return Err("a sampler that reads fewer slices between slices (PERF_Z)");
        }
        let truncates = bits(0, 27, 1) == 1;
        if sampling.gathers && truncates {
            return Err("four texels of a sampler with TRUNC_COORD, which differ among targets");
        }
        for (refused, what) in [
            (bits(0, 19, 1), "a sampler with MC_COORD_TRUNC"),
            (bits(0, 20, 1), "a sampler with FORCE_DEGAMMA"),
            (bits(0, 29, 2), "a sampler that takes the smallest or the largest texel"),
        ] {
            if refused != 0 {
                return Err(what);
            }
        }
        if generation == Generation::Rdna4 && image.select >> 12 & 1 == 1 {
            return Err("a sample of an image with NO_EDGE_CLAMP");
        }
        let used = [true, extent.has_rows(), is_volume];
        let mut axes = [Axis { clamp: Clamp::Edge, linear: false }; 3];
        for ((axis, is_used), (at, linear)) in axes.iter_mut().zip(used).zip([(0, linear), (3, linear), (6, deep)]) {
            if is_used {
                *axis = Axis { clamp: Clamp::of(bits(0, at, 3))?, linear: linear || sampling.gathers };
            }
        }
        let has_border = axes.iter().any(|axis| matches!(axis.clamp, Clamp::Border | Clamp::MirrorOnceBorder));
        let border = if has_border { border(bits(3, 30, 2), image.select >> 25 & 7)? } else { [false; 4] };
        let normalized = !sampling.unnormalized && bits(0, 15, 1) == 0;
        Ok(Self { axes, normalized, truncates, gathers: sampling.gathers, border })
    }

    /// Whether texels are averaged.
    pub fn is_linear(&self) -> bool {
        self.axes.iter().any(|axis| axis.linear)
    }

    /// The two texels that a coordinate is between, or one and nothing of it; with an offset in texels.
    ///
    /// # Errors
    /// A coordinate of which nothing says where it is.
    pub fn taps(&self, axis: usize, coordinate: f32, size: u64, offset: i64) -> Result<[Tap; 2], &'static str> {
        let Some(Axis { clamp, linear }) = self.axes.get(axis).copied() else { return Err("a fourth coordinate") };
        if !coordinate.is_finite() {
            return Err("a coordinate of an image that is not finite");
        }
        let coordinate = f64::from(coordinate);
        // Exact: of FP32, times at most 16 bits.
        let reduced = match clamp {
            _ if !self.normalized => coordinate,
            Clamp::Wrap => coordinate - coordinate.floor(),
            Clamp::Mirror => coordinate - 2.0 * (coordinate / 2.0).floor(),
            _ => coordinate,
        };
        let across = if self.normalized { reduced * size as f64 } else { reduced };
        let across = across.clamp(-FAR, FAR);
        let (first, weight) = if linear {
            let fixed = (across * FRACTION as f64).round_ties_even() as i64 - FRACTION / 2;
            (fixed.div_euclid(FRACTION), fixed.rem_euclid(FRACTION))
        } else if self.truncates {
            (across.floor() as i64, 0)
        } else {
            (((across * POINT).round_ties_even() / POINT).floor() as i64, 0)
        };
        let size = size as i64;
        let mut taps = [(None, 0); 2];
        let places = [(first, FRACTION - weight), (first + 1, weight)];
        for (tap, (at, weight)) in taps.iter_mut().zip(places) {
            let at = at + offset;
            // "Wrap and mirror modes are only supported for normalized texture coordinates" (HIP).
            let repeats = !matches!(clamp, Clamp::Edge | Clamp::Border);
            let is_read = weight != 0 || self.gathers;
            if repeats && !self.normalized && is_read && !(0..size).contains(&at) {
                return Err("a texel outside of an image that is repeated, of coordinates that are not normalized");
            }
            *tap = (clamp.texel(at, size), weight as u64);
        }
        Ok(taps)
    }

    /// The element of an array: the nearest one that is there.
    ///
    /// # Errors
    /// A number of which nothing says how it is rounded.
    pub fn element(&self, coordinate: f32, elements: u64) -> Result<u64, &'static str> {
        if coordinate.is_nan() {
            return Err("an element of an array that is not a number");
        }
        if elements == 0 {
            return Err("an array without elements");
        }
        // Mesa's `lower_array_layer_round_even`: targets differ.
        if self.truncates && coordinate.fract() != 0.0 {
            return Err("a part of an element of an array with TRUNC_COORD");
        }
        let at = coordinate.round_ties_even();
        Ok((at.max(0.0) as u64).min(elements - 1))
    }
}

/// The texels around a point, a coordinate changing faster the earlier it is, and the part of all that each one has.
pub(super) fn corners(taps: [[Tap; 2]; 3]) -> impl Iterator<Item = (Option<[u64; 3]>, f64)> {
    let [across, down, inward] = taps;
    let all = inward.into_iter().flat_map(move |z| down.into_iter().flat_map(move |y| across.map(move |x| [x, y, z])));
    all.map(|[(x, across), (y, down), (z, inward)]| {
        let place = x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]);
        let whole = (FRACTION as f64).powi(3);
        (place, (across * down * inward) as f64 / whole)
    })
}

/// The tap of a coordinate that an image does not have, or that is not filtered.
pub(super) fn single(at: u64) -> [Tap; 2] {
    [(Some(at), FRACTION as u64), (None, 0)]
}
