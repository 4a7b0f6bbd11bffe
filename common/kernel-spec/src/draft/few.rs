//! Sizes of which there are a few, beside others of which there are many: the width of a mask, a radius; and of which there are too many.

use std::collections::BTreeMap;

use super::Draft;
use super::lengths::names;
use crate::expression::number;
use crate::host_code;

/// What such a size is.
const FEW: i64 = 5;
/// Sizes that are tried as such.
const MOST: usize = 6;
/// Constants of the text that are tried in the place of all of them at once, and what these may be.
const MOST_CONSTANTS: usize = 2;
const CONSTANTS: std::ops::RangeInclusive<i64> = 2..=31;

/// Threads of a launch, beyond which nothing is executed to its end: three axes of as many as one size is have as many.
const MOST_THREADS: i64 = 1 << 26;

impl Draft {
    /// Whether a kernel is launched with more threads than are executed, as far as its file says how many there are.
    #[must_use]
    pub fn is_many(&self, kernel: usize) -> bool {
        let Some(shape) = self.kernels.get(kernel).map(|kernel| &kernel.shape) else { return false };
        let sizes = self.trial_sizes();
        let word = |word: &str| {
            let of_macro = || self.macros.iter().find(|(name, _)| name == word).map(|(_, value)| *value);
            sizes.get(word).copied().or_else(of_macro).map_or_else(|| word.to_string(), |value| value.to_string())
        };
        let value = |words: &String| number(&words.split(' ').map(word).collect::<Vec<_>>().join(" "));
        let blocks = shape.grid.iter().flatten().map(value);
        let all = blocks.chain(shape.block().into_iter().map(Some));
        let threads = all.into_iter().try_fold(1_i64, |all, one| Some(all.saturating_mul(one?)));
        threads.is_some_and(|threads| threads > MOST_THREADS)
    }

    /// The same with a few of one of several sizes, in the order in which they are likely to be few; then with as many of each that bounds no index as a
    /// constant of the kernel's text says, as masks in constant memory have them.
    #[must_use]
    pub fn of_few(&self) -> Vec<Self> {
        let usual = self.trial_sizes();
        // What blocks are for is many; of the others the last of a signature is few as a rule.
        let shapes = self.kernels.iter().flat_map(|kernel| &kernel.shape.axes).filter_map(|axis| axis.bound.as_deref());
        let bounds: Vec<&str> = shapes.flat_map(|bound| bound.split(' ')).collect();
        let mut own: Vec<&str> = Vec::new();
        for name in self.kernels.iter().flat_map(names) {
            if !own.contains(&name) && usual.contains_key(name) {
                own.insert(0, name);
            }
        }
        own.sort_by_key(|name| bounds.contains(name));
        let with = |names: &[&str], few: i64| {
            let mut sizes = usual.clone();
            sizes.extend(names.iter().map(|name| ((*name).to_string(), few)));
            Self { sizes, ..self.clone() }
        };
        let free: Vec<&str> = own.iter().copied().filter(|name| !bounds.contains(name)).collect();
        own.truncate(if usual.len() > 1 { MOST } else { 0 });
        let mut few: Vec<Self> = own.into_iter().map(|name| with(&[name], FEW)).collect();
        if !free.is_empty() && free.len() < usual.len() {
            few.extend(self.few_constants().into_iter().map(|constant| with(&free, constant)));
        }
        few
    }

    /// The constants of its files that its kernels name and that may count a few, odd ones first.
    fn few_constants(&self) -> Vec<i64> {
        let constants: BTreeMap<String, i64> = self.texts.iter().flat_map(|text| host_code::constants(text)).collect();
        let words = self.kernels.iter().flat_map(|kernel| &kernel.shape.words);
        let mut found: Vec<i64> =
            words.filter_map(|word| constants.get(word).copied()).filter(|value| CONSTANTS.contains(value)).collect();
        found.sort_by_key(|value| (value % 2 == 0, *value));
        found.dedup();
        found.truncate(MOST_CONSTANTS);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::Language;
    use super::*;

    #[test]
    fn three_axes_of_one_size_are_many() {
        let is_many = |grid: &str| {
            let text = format!(
                "__global__ void k(float* x, int n) {{ x[(blockIdx.z * n + blockIdx.y) * n + blockIdx.x * 8 + threadIdx.x] = 1; }}\n\
                 void host(float* x, int n) {{ dim3 block(8, 8, 8); dim3 grid({grid}); k<<<grid, block>>>(x, n); }}"
            );
            Draft::new(Language::Gpu, "k.cu", &text, |_| None).is_many(0)
        };
        assert!(is_many("(n + 7) / 8, n / 8, n / 8"));
        assert!(!is_many("(n + 7) / 8, n / 8") && !is_many("n / 8, other(n), n"));
    }

    #[test]
    fn masks_are_as_large_as_their_constant_says() {
        let text = "#define TILE 16\n#define MASK 3\n__constant__ float mask[MASK * MASK];\n\
            __global__ void k(const float* x, float* y, int h, int w, int mh, int mw) {\n\
            __shared__ float s[TILE + MASK - 1]; int i = blockIdx.x * TILE + threadIdx.x, j = blockIdx.y * TILE + threadIdx.y;\n\
            if (i < w && j < h) { float t = 0; for (int a = 0; a < mh * mw; ++a) t += mask[a] * x[j * w + i]; y[j * w + i] = t; } }\n";
        let draft = Draft::new(Language::Gpu, "k.cu", text, |_| None);
        let sizes = |draft: &Draft| ["h", "w", "mh", "mw"].map(|name| draft.trial_sizes()[name]);
        let [h, w, mh, mw] = sizes(&draft);
        let few: Vec<[i64; 4]> = draft.of_few().iter().map(sizes).collect();
        assert_eq!(few[..2], [[h, w, mh, FEW], [h, w, FEW, mw]]);
        assert_eq!(few[4..], [[h, w, 3, 3], [h, w, 16, 16]]);
    }
}
