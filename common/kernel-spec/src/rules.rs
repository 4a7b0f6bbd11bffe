//! What names, flags and numbers of a spec may be. They become parts of queue names, macros, symbols and a compiler's command line.

use std::ops::RangeInclusive;

use bluefin_common::arch;

/// The toolchain whose kernels are specialised by their arguments, and which says how large blocks are.
pub(super) const TRITON: &str = "triton";
/// The toolchain of C++ for GPUs, whose entries may be any function of that.
pub(super) const CLANG: &str = "clang";
/// How far an output may be from the reference.
pub(super) const TOLERANCES: RangeInclusive<f64> = 0.0..=1e30;
/// Most characters of a name.
pub(crate) const MAX_NAME: usize = 64;
/// Bytes of the name of a kernel.
const MAX_ENTRY: usize = 256;
/// The same of one that names template arguments.
const MAX_INSTANCE: usize = 1024;

/// Variables of the target.
pub(super) const TARGET: [&str; 3] = ["target", "wave", "cus"];

/// `[a-z0-9-]+`
pub(super) fn is_spec_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    !name.is_empty() && name.len() <= MAX_NAME && plain && !name.starts_with('-')
}

/// A C identifier.
pub(super) fn is_identifier(name: &str) -> bool {
    name.len() <= MAX_NAME && is_entry(name)
}

/// The name of a kernel in C or Python: what writes kernels gives them long ones.
pub(super) fn is_entry(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    !name.is_empty() && name.len() <= MAX_ENTRY && plain && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// A text of a point in Python: no number, and nothing that separates params.
pub(super) fn is_word(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.+-".contains(&b));
    plain && text.len() <= MAX_NAME && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// The name of a kernel in C++: qualified, with template arguments, with the types of its parameters.
pub(super) fn is_cpp_entry(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_:<>(),*& -".contains(&byte);
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let bare = name.split(['<', '(']).next().unwrap_or_default().trim_end();
    let begins = begins && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte));
    begins
        && bare.len() <= MAX_ENTRY
        && name.len() <= MAX_INSTANCE
        && name.bytes().all(plain)
        && name.trim_end() == name
}

/// `host`, an architecture as compilers name it, a vendor, or a feature that an architecture may have.
pub(super) fn is_target(word: &str) -> bool {
    word == "host" || arch::is_name(word) || arch::is_group(word)
}

/// A flag that shapes code and cannot make the compiler read, write or load anything else: no path, no plugin, no
/// pass-through to another program.
pub(super) fn is_flag(flag: &str) -> bool {
    let plain = flag.len() <= 200 && flag.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=+.,".contains(&b));
    let kind = ["-O", "-f", "-m", "-W", "-std=", "-D", "-U", "-g"].iter().any(|prefix| flag.starts_with(prefix));
    let passes_on = ["-Wl,", "-Wa,", "-Wp,", "-Wno-error=", "-gsplit"].iter().any(|prefix| flag.starts_with(prefix));
    let loads = ["plugin", "load", "profile", "dump", "save-", "sanitize", "ident", "prefix-map", "random-seed"];
    let special = flag == "-lm" || flag == "-w";
    special || (plain && kind && !passes_on && !loads.iter().any(|word| flag.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_reach_outside_are_refused() {
        for flag in [
            "-O3",
            "-ffast-math",
            "-mavx2",
            "-march=native",
            "-std=c11",
            "-DX=1",
            "-lm",
            "-Wno-unused",
            "-mllvm=-amdgpu-x=1",
        ] {
            assert!(is_flag(flag), "{flag}");
        }
        for flag in [
            "",
            "-",
            "x.c",
            "@file",
            "-o",
            "-I/etc",
            "-include",
            "-fplugin=x",
            "-Wl,-T",
            "-Wa,-x",
            "-Wp,-MD",
            "-lfoo",
            "-specs=x",
            "-wrapper",
            "-B.",
            "-fdump-tree-all",
            "-fprofile-use=x",
            "-mllvm=-load=x.so",
            "-O3 -o",
            "-D A",
            "-xc",
            "--version",
        ] {
            assert!(!is_flag(flag), "{flag}");
        }
    }

    #[test]
    fn names() {
        assert!(is_spec_name("conv-fwd-host") && !is_spec_name("Conv") && !is_spec_name("-a") && !is_spec_name(""));
        assert!(is_identifier("_a1") && !is_identifier("1a") && !is_identifier("a-b") && !is_identifier(""));
        for name in ["f", "n::f", "reduce<256, float>", "scale(float*, int)", "f<A, -1>(const float*)"] {
            assert!(is_cpp_entry(name), "{name}");
        }
        for name in ["", " f", "f ", "1f", "f;", "f\"", "f{}", "#f", "f-g", "f g", "f\n"] {
            assert!(!is_cpp_entry(name), "{name}");
        }
        for word in ["host", "gfx90a", "sm_90", "amd", "nvidia", "has_mfma"] {
            assert!(is_target(word), "{word}");
        }
        for word in ["cpu", "gfx/..", "gpu", "shared_memory", "vendor", "has_it"] {
            assert!(!is_target(word), "{word}");
        }
    }
}
