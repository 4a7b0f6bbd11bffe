//! Specs that are written from the signatures in people's files (`bluefin init`), and checked as they are.

use std::path::Path;

use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// What is executed of the spec in a folder.
fn checked(folder: &Path) -> Value {
    let arguments = ["check", "--json", "--kernel", "spec.toml", "--target", "gfx942"];
    json(&expect(bluefin().current_dir(folder).args(arguments), 0))
}

/// A spec from files that lie together: macros of the build file, a kernel that only the file that includes it makes whole, a template for vectors,
/// kernels that share a name.
#[test]
fn a_spec_is_written_from_files_that_lie_together() {
    let folder = tempfile::tempdir().unwrap();
    let init =
        |arguments: &[&str]| text(&expect(bluefin().current_dir(folder.path()).arg("init").args(arguments), 0).stderr);
    let right = |count: u32| {
        let report = checked(folder.path());
        assert_eq!(report["right"], count, "{report:#}");
        std::fs::remove_file(folder.path().join("spec.toml")).unwrap();
    };
    write(folder.path(), "Makefile", "CFLAGS := -O3 -DREAL=float -DSTEP=3 $(MORE)\n");
    let kernel = "__global__ void scale(REAL* p, Params q) { if (blockIdx.x == 0 && threadIdx.x < ROWS) p[threadIdx.x] = STEP * ROWS + p[threadIdx.x]; }\n";
    write(folder.path(), "kernels.cu", kernel);
    let main = "#include \"reference.h\"\n#define ROWS 8\nstruct Params { int a; };\n#include \"kernels.cu\"\nint main() { return golden(); }\n";
    write(folder.path(), "main.cu", main);
    let said = init(&["kernels.cu", "-o", "spec.toml"]);
    assert!(
        said.contains("kernels.cu does not compile alone: the spec's source is main.cu, which includes it"),
        "{said}"
    );
    assert!(said.contains("reference.h") && !said.contains("as the text spells them"), "{said}");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(
        spec.contains("[defines]  # macros that the build file beside it gives\nREAL = \"\\\"float\\\"\"\nSTEP = 3\n"),
        "{spec}"
    );
    right(1);

    let kernels = "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n\
        template <class T> __global__ void first(T* p) { p[threadIdx.x].x = 1; p[threadIdx.x].z = 2; }\n\
        __global__ void twice(__half* p) { p[threadIdx.x] = 1; }\n__global__ void twice(const int* n, __half* p) { p[threadIdx.x] = n ? 1 : 2; }\n";
    write(folder.path(), "people.hip", kernels);
    init(&["people.hip", "-o", "spec.toml", "--entry", "twice"]);
    right(2);
    init(&["people.hip", "-o", "spec.toml", "--entry", "first"]);
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert!(spec.contains("entry = \"first<float4>\""), "{spec}");
}

/// A spec from a file's signatures: what is completed is little, and then it is checked.
#[test]
fn a_spec_is_written_from_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <cuda_runtime.h>\n#include <cstdio>\ntypedef float real;\n\
        __global__ void vectorAdd(const real* A, const real* B, real* C, int n) {\n    \
        int i = blockDim.x * blockIdx.x + threadIdx.x;\n    if (i < n) C[i] = A[i] + B[i];\n}\nint main() { std::puts(\"\"); }\n";
    write(folder.path(), "vectorAdd.cu", source);
    let init =
        |arguments: &[&str], code| expect(bluefin().current_dir(folder.path()).arg("init").args(arguments), code);
    let out = text(&init(&["vectorAdd.cu", "-o", "spec.toml"], 0).stdout);
    assert_eq!(out, "spec.toml: vectorAdd; complete what has a remark\n");
    let spec = std::fs::read_to_string(folder.path().join("spec.toml")).unwrap();
    assert_eq!(spec.matches("type = \"FP32\"").count(), 3, "an alias is resolved\n{spec}");
    // As written it is a spec already: a kernel is right beside itself.
    let report = checked(folder.path());
    assert_eq!(report["right"], 1, "{report:#}");

    let error = text(&init(&["vectorAdd.cu", "-o", "spec.toml"], 1).stderr);
    assert!(error.contains("spec.toml: nothing was written"), "{error}");
    let error = text(&init(&["vectorAdd.cu", "--entry", "sub"], 1).stderr);
    assert!(error.contains("--entry sub: expected one of vectorAdd"), "{error}");
    write(folder.path(), "none.hip", "int main() { return 0; }\n");
    let error = text(&init(&["none.hip"], 1).stderr);
    assert!(
        error.contains("none.hip: found no kernel, expected a function that is declared `__global__` or `KERNEL`"),
        "{error}"
    );
    let error = text(&init(&["spec.toml"], 2).stderr);
    assert!(error.contains("found no file of .hip .cu .cpp .c .py"), "{error}");
}
