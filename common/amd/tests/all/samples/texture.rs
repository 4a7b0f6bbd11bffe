//! Images and samplers, and a plain model of what a sample is.

use bluefin_amd::{Generation, Target};

pub const WRAP: u32 = 0;
pub const MIRROR: u32 = 1;
pub const EDGE: u32 = 2;
pub const MIRROR_ONCE: u32 = 3;
pub const BORDER: u32 = 6;
pub const MIRROR_ONCE_BORDER: u32 = 7;

/// Points that a kernel samples.
pub const POINTS: usize = 64;

/// "DIM" of an instruction, its name in intrinsics, and how many coordinates there are.
pub const DIMENSIONS: [(u32, &str, usize); 5] =
    [(8, "1d", 1), (9, "2d", 2), (10, "3d", 3), (12, "1darray", 2), (13, "2darray", 3)];

/// A format: its numbers of gfx10 and of what came after it, its components, and the bytes of one and its value from a number below 200.
pub struct Format {
    pub numbers: [u32; 2],
    pub components: usize,
    pub encode: fn(u8) -> Vec<u8>,
    pub value: fn(u8) -> f64,
}

pub const UNORM: Format =
    Format { numbers: [56, 42], components: 4, encode: |raw| vec![raw], value: |raw| f64::from(raw) / 255.0 };
pub const SNORM: Format = Format {
    numbers: [2, 2],
    components: 1,
    encode: |raw| vec![raw],
    value: |raw| (f64::from(raw as i8) / 127.0).max(-1.0),
};
pub const FLOAT: Format = Format {
    numbers: [77, 63],
    components: 4,
    encode: |raw| (f32::from(raw) / 16.0 - 3.0).to_le_bytes().to_vec(),
    value: |raw| f64::from(raw) / 16.0 - 3.0,
};
/// Integers of 32 bits, shown as they are.
pub const UINT: Format = Format {
    numbers: [20, 20],
    components: 1,
    encode: |raw| u32::from(raw).to_le_bytes().to_vec(),
    value: |raw| f64::from(raw),
};

/// Texels along a coordinate, `None` of the border, and their weights.
pub type Taps = Vec<(Option<usize>, f64)>;

/// What an image and its sampler say.
pub struct Texture {
    pub dimension: u32,
    pub size: [usize; 3],
    pub format: Format,
    pub clamp: u32,
    pub linear: bool,
    pub normalized: bool,
    pub truncates: bool,
    /// "BORDER_COLOR_TYPE".
    pub border: u32,
    /// Bits that are added to the words of the sampler.
    pub sampler: [u32; 4],
    /// The same of the last word of the image's first half.
    pub image: u32,
    /// Bytes at the end that nobody wrote, and that are not there.
    pub unwritten: usize,
    pub missing: usize,
}

impl Default for Texture {
    fn default() -> Self {
        Self {
            dimension: 9,
            size: [5, 3, 1],
            format: UNORM,
            clamp: EDGE,
            linear: true,
            normalized: true,
            truncates: false,
            border: 0,
            sampler: [0; 4],
            image: 0,
            unwritten: 0,
            missing: 0,
        }
    }
}

impl Texture {
    pub fn is_array(&self) -> bool {
        self.dimension > 10
    }

    /// The number of a component of a texel.
    fn raw(&self, [x, y, z]: [usize; 3], component: usize) -> u8 {
        ((x * 37 + y * 59 + z * 83 + component * 13) % 200) as u8
    }

    /// Texels from a row to the next one.
    fn pitch(&self) -> usize {
        let bytes = self.format.components * (self.format.encode)(0).len();
        if matches!(self.dimension, 8 | 9) {
            self.size[0] + 3
        } else {
            (self.size[0] * bytes).next_multiple_of(256) / bytes
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let [width, height, depth] = self.size;
        let mut all = Vec::new();
        for (z, y, x) in (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x)))) {
            let texel: Vec<u8> =
                (0..self.format.components).flat_map(|at| (self.format.encode)(self.raw([x, y, z], at))).collect();
            let first = ((z * height + y) * self.pitch() + x) * texel.len();
            all.resize(first, 0);
            all.extend(texel);
        }
        all
    }

    /// The words of the image, and of the sampler behind it.
    pub fn descriptors(&self, target: &Target, base: u64) -> [u32; 12] {
        let (format, place) = match target.generation {
            Generation::Rdna2 => (self.format.numbers[0], 20),
            Generation::Rdna3 => (self.format.numbers[1], 20),
            _ => (self.format.numbers[1], 17),
        };
        let [width, height, depth] = self.size.map(|size| size as u32 - 1);
        let last = if matches!(self.dimension, 8 | 9) { self.pitch() as u32 - 1 } else { depth };
        let filter = u32::from(self.linear);
        let flags = u32::from(!self.normalized) << 15 | u32::from(self.truncates) << 27;
        let words = [
            (base >> 8) as u32,
            (base >> 40) as u32 | format << place | (width & 3) << 30,
            width >> 2 | height << 14,
            0xfac | self.dimension << 28 | self.image,
            last,
            0,
            0,
            0,
            (self.clamp * 0o111) | flags,
            0xfff << 12,
            filter << 20 | filter << 22,
            self.border << 30,
        ];
        std::array::from_fn(|at| words[at] | at.checked_sub(8).map_or(0, |at| self.sampler[at]))
    }

    /// The texel for one along a coordinate.
    fn reflected(&self, mut at: i64, size: i64) -> Option<usize> {
        match self.clamp {
            WRAP => {
                while at < 0 || at >= size {
                    at += if at < 0 { size } else { -size }
                }
            }
            MIRROR => {
                while at < 0 || at >= size {
                    at = if at < 0 { -1 - at } else { 2 * size - 1 - at }
                }
            }
            MIRROR_ONCE | MIRROR_ONCE_BORDER if at < 0 => at = -1 - at,
            _ => {}
        }
        if matches!(self.clamp, EDGE | MIRROR_ONCE) {
            at = at.max(0).min(size - 1);
        }
        (0..size).contains(&at).then_some(at as usize)
    }

    /// Texels along a coordinate, and their weights.
    fn along(&self, coordinate: f32, axis: usize, offset: i64) -> Taps {
        let size = self.size[axis];
        let across = f64::from(coordinate) * if self.normalized { size as f64 } else { 1.0 };
        let texel = |at: f64| self.reflected(at as i64 + offset, size as i64);
        if self.linear {
            let middle = (across * 256.0).round_ties_even() / 256.0 - 0.5;
            let part = middle - middle.floor();
            return vec![(texel(middle.floor()), 1.0 - part), (texel(middle.floor() + 1.0), part)];
        }
        let rounded = if self.truncates { across } else { (across * 64.0).round_ties_even() / 64.0 };
        vec![(texel(rounded.floor()), 1.0)]
    }

    fn element(&self, coordinate: f32, axis: usize) -> Taps {
        let last = self.size[axis] as f32 - 1.0;
        vec![(Some(coordinate.round_ties_even().clamp(0.0, last) as usize), 1.0)]
    }

    /// Texels along each coordinate.
    pub fn taps(&self, point: [f32; 4], offsets: [i64; 3]) -> [Taps; 3] {
        let one = || vec![(Some(0), 1.0)];
        let along = |at: usize| self.along(point[at], at, offsets[at]);
        match self.dimension {
            8 => [along(0), one(), one()],
            9 => [along(0), along(1), one()],
            10 => [along(0), along(1), along(2)],
            12 => [along(0), one(), self.element(point[1], 2)],
            _ => [along(0), along(1), self.element(point[2], 2)],
        }
    }

    pub fn value(&self, place: Option<[usize; 3]>, component: usize) -> f64 {
        match (place, self.border) {
            _ if component >= self.format.components => 0.0,
            (Some(place), _) => (self.format.value)(self.raw(place, component)),
            (None, 0) => 0.0,
            (None, 1) => f64::from(component == 3),
            (None, _) => 1.0,
        }
    }

    /// The mean of a component of texels along each coordinate.
    pub fn mean(&self, [across, down, inward]: &[Taps; 3], component: usize) -> f64 {
        let mut sum = 0.0;
        for (z, deep) in inward {
            for (y, high) in down {
                for (x, wide) in across {
                    let place = x.zip(*y).zip(*z).map(|((x, y), z)| [x, y, z]);
                    sum += deep * high * wide * self.value(place, component);
                }
            }
        }
        sum
    }

    pub fn sampled(&self, point: [f32; 4], offsets: [i64; 3]) -> [f64; 4] {
        let taps = self.taps(point, offsets);
        std::array::from_fn(|component| self.mean(&taps, component))
    }
}

/// Points in and around an image: some on borders of texels, in their middle, and at 256ths and less of them.
pub fn points(texture: &Texture) -> Vec<[f32; 4]> {
    let mut state = 12345_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let repeats = !matches!(texture.clamp, EDGE | BORDER);
    let mut point = |axis: usize| {
        let size = texture.size[axis] as f32;
        let part = [0.0, 0.5, 0.25, 1.0 / 512.0, 3.0 / 512.0, 1.0 / 128.0, 0.998, 0.3][next() as usize % 8];
        let at = (next() as i32 % 14) as f32 - 5.0 + part;
        match (texture.normalized, repeats) {
            (true, _) => at / size,
            (false, true) => at.clamp(0.5, size - 0.5),
            (false, false) => at,
        }
    };
    let mut all: Vec<[f32; 4]> = (0..POINTS).map(|_| [point(0), point(1), point(2), 0.0]).collect();
    if texture.is_array() {
        let axis = if texture.dimension == 12 { 1 } else { 2 };
        all.iter_mut().enumerate().for_each(|(at, point)| point[axis] = (at % 11) as f32 * 0.5 - 1.5);
    }
    all
}
