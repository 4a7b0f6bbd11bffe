//! Variables of a device: what a spec has no buffer for.

use std::collections::BTreeSet;

use super::Draft;
use crate::host_code::tokens;

impl Draft {
    /// What is to be told of them: those that the host gives values, and those in which kernels may leave results for it.
    pub(super) fn of_variables(&self) -> Vec<String> {
        let texts = || self.texts.iter().map(String::as_str);
        let written = written_by_host(texts());
        let of_host = written.iter().map(|name| {
            format!("The host writes {name}, which holds here what the file says, or zeros: give it values there.")
        });
        let is_named = |name: &&str| {
            let mut words = self.kernels.iter().flat_map(|kernel| &kernel.shape.words);
            words.any(|word| word == name)
        };
        let shared = managed(texts()).into_iter().filter(is_named).map(|name| {
            format!("Kernels and the host share {name}, which is `__managed__`: what a kernel writes there is compared with nothing, as only buffers are.")
        });
        of_host.chain(shared).collect()
    }
}

/// Variables of a device that the host writes, by name.
fn written_by_host<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for tokens in texts.map(tokens) {
        for words in tokens.windows(5) {
            let [call, open, first, second, third] = words else { continue };
            if !matches!(
                call.text,
                "cudaMemcpyToSymbol" | "hipMemcpyToSymbol" | "cudaMemcpyToSymbolAsync" | "hipMemcpyToSymbolAsync"
            ) || open.text != "("
            {
                continue;
            }
            let name = if first.text == "HIP_SYMBOL" && second.text == "(" { third.text } else { first.text };
            if name.starts_with(|first: char| first.is_alphabetic() || first == '_') {
                found.insert(name);
            }
        }
    }
    found
}

/// Variables that host and device share, by name.
fn managed<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for tokens in texts.map(tokens) {
        for at in (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|token| token.text == "__managed__")) {
            let statement = tokens.get(at..).unwrap_or_default();
            let declared = statement.iter().take_while(|token| !matches!(token.text, ";" | "=" | "[" | "{"));
            found.extend(declared.last().map(|token| token.text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Language};

    #[test]
    fn variables_are_told_that_are_no_buffers() {
        let text = "__constant__ float rate[2];\n__device__ __managed__ int total;\n__managed__ float out[64], other;\n\
            __global__ void k(const float* x) { out[threadIdx.x] = x[threadIdx.x] * rate[0]; atomicAdd(&total, 1); }\n\
            void host(float* p) { cudaMemcpyToSymbol(rate, p, 8); k<<<1, 64>>>(p); }";
        let spec = Draft::new(Language::Gpu, "k.cu", text, |_| None).spec();
        for part in
            ["# The host writes rate, ", "# Kernels and the host share total, ", "# Kernels and the host share out, "]
        {
            assert!(spec.contains(part), "{part}\n{spec}");
        }
    }
}
