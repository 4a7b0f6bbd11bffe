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
