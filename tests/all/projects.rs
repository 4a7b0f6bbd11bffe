//! Headers of a project whose library is called like one that bluefin knows, and headers that are there and do not compile.

use std::path::Path;

use crate::common::{bluefin, expect, json, text, write};

/// A project, in which a kernel calls `own` of the header `include`, which lies in another folder with `more` in it.
fn project(folder: &Path, include: &str, more: &str) -> String {
    write(folder, "README.md", "");
    let header = folder.join("lib/include").join(include);
    std::fs::create_dir_all(header.parent().unwrap()).unwrap();
    std::fs::write(header, format!("__device__ inline float own(float x) {{ {more}return x + 1; }}\n")).unwrap();
    std::fs::create_dir_all(folder.join("test")).unwrap();
    let kernel = "__global__ void add(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = own(x[i]); }";
    write(&folder.join("test"), "k.cu", &format!("#include <{include}>\n{kernel}\n"));
    let init = expect(bluefin().current_dir(folder.join("test")).args(["init", "k.cu", "-o", "spec.toml"]), 0);
    text(&init.stderr)
}

#[test]
fn a_library_s_own_headers_go_before_none() {
    let folder = tempfile::tempdir().unwrap();
    let said = project(folder.path(), "rocprim/own/tools.hpp", "");
    let check = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx942"];
    let report = json(&expect(bluefin().current_dir(folder.path().join("test")).args(check), 0));
    assert_eq!(report["right"], 1, "{said}\n{report:#}");
}

#[test]
fn headers_that_are_there_are_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    let torn = "Unknown a; Unknown b; Unknown c; ";
    let said = project(folder.path(), "own/tools.hpp", torn);
    assert!(!said.contains("not beside it") && said.contains("unknown type name 'Unknown'"), "{said}");
}

/// What only a build says: the macro around all kernels, the one that a header wants, and the one under which it declares a type. Of several of each
/// none would be taken.
#[test]
fn macros_that_a_build_defines_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let header = "#if defined(SMALL)\n#define STEP 1\n#else\n#error \"SMALL\"\n#endif\n\
        #if defined(SINGLE)\nusing real = float;\n#endif\n";
    write(folder.path(), "config.h", header);
    let kernel = "__global__ void add(const real* x, real* y, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) y[i] = x[i] + STEP;\n}\n";
    write(folder.path(), "k.cu", &format!("#include \"config.h\"\n#ifdef WITH_GPU\n{kernel}#endif\n"));
    let init = expect(bluefin().current_dir(folder.path()).args(["init", "k.cu", "-o", "spec.toml"]), 0);
    let (said, spec) = (text(&init.stderr), std::fs::read_to_string(folder.path().join("spec.toml")).unwrap());
    for part in [
        "WITH_GPU = 1  # around all kernels of its source\n",
        "SMALL = 1  # without which config.h says that it is not to be compiled\n",
        "SINGLE = 1  # under which real is declared\n",
    ] {
        assert!(spec.contains(part), "{part}\n{said}\n{spec}");
    }
    assert!(said.contains("SINGLE is defined, under which real is declared"), "{said}");
    let check = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx942"];
    let report = json(&expect(bluefin().current_dir(folder.path()).args(check), 0));
    assert_eq!(report["right"], 1, "{said}\n{report:#}");
}

/// One macro of several takes a bounds check away: the draft has none, and it is said which ones a build chooses from.
#[test]
fn macros_that_only_a_build_can_choose_are_not_defined() {
    let inside =
        "#ifdef QUICK\n#define INSIDE(at, n) true\n#elif defined(CAREFUL)\n#define INSIDE(at, n) ((at) < (n))\n";
    let kernel = |check: &str| {
        format!(
            "__global__ void twice(const float* x, float* y, int n) {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
             {check}\n    y[i] = 2 * x[i];\n}}\n"
        )
    };
    for (source, expected) in [
        (format!("{inside}#endif\n{}", kernel("if (INSIDE(i, n))")), "under which INSIDE is declared: QUICK, CAREFUL"),
        (
            format!("{inside}#else\n#error\n#endif\n{}", kernel("if (INSIDE(i, n))")),
            "one of which k.cu wants: QUICK, CAREFUL",
        ),
        (
            format!("#if defined(QUICK) || defined(CAREFUL)\n{}#endif\n", kernel("#ifndef QUICK\nif (i < n)\n#endif")),
            "around all of its kernels: QUICK, CAREFUL",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "k.cu", &source);
        let init = expect(bluefin().current_dir(folder.path()).args(["init", "k.cu", "-o", "spec.toml"]), 0);
        let (said, spec) = (text(&init.stderr), std::fs::read_to_string(folder.path().join("spec.toml")).unwrap());
        assert!(said.contains(expected), "{expected}\n{said}");
        assert!(!spec.contains("[defines]"), "{spec}");
    }
}
