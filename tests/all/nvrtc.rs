//! The verb that compiles with NVRTC, with a library that answers as CUDA's does.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{bluefin, expect, text};

/// `nvrtc.h`, as far as it is called: a code object is what the compiler was told, and a source with a `!` is wrong.
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct program { char *source, *name; char log[256]; char code[4096]; };
const char *nvrtcGetErrorString(int result) { return result == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_INTERNAL_ERROR"; }
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 1; return 0; }
#ifndef OLD
int nvrtcGetNumSupportedArchs(int *count) { *count = 2; return 0; }
#endif
int nvrtcGetSupportedArchs(int *known) { known[0] = 80; known[1] = 90; return 0; }
int nvrtcCreateProgram(struct program **made, const char *source, const char *name, int n, const char **h, const char **i) {
    if (n || h || i) return 3;
    *made = calloc(1, sizeof **made);
    (*made)->source = strdup(source);
    (*made)->name = strdup(name);
    return 0;
}
int nvrtcCompileProgram(struct program *made, int count, const char **options) {
    if (strchr(made->source, '?')) return 1;
    if (strchr(made->source, '!')) {
        snprintf(made->log, sizeof made->log, "%s(1): error: expected no !\n", made->name);
        return 6;
    }
    for (int i = 0; i < count; ++i) strcat(strcat(made->code, options[i]), " ");
    strcat(made->code, made->source);
    return 0;
}
int nvrtcGetProgramLogSize(struct program *made, size_t *size) { *size = strlen(made->log) + 1; return 0; }
int nvrtcGetProgramLog(struct program *made, char *to) { strcpy(to, made->log); return 0; }
int nvrtcGetCUBINSize(struct program *made, size_t *size) { *size = strlen(made->code); return 0; }
int nvrtcGetCUBIN(struct program *made, char *to) { memcpy(to, made->code, strlen(made->code)); return 0; }
int nvrtcDestroyProgram(struct program **made) { free((*made)->source); free((*made)->name); free(*made); *made = 0; return 0; }
"#;

/// Builds the library in `folder`.
fn library(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let (source, library) = (folder.join("nvrtc.c"), folder.join(name));
    std::fs::write(&source, LIBRARY).unwrap();
    let mut cc = Command::new("cc");
    expect(cc.args(["-w", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).args(flags), 0);
    library
}

#[test]
fn a_source_becomes_a_code_object_or_what_the_compiler_says_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), "libnvrtc.so.13", &[]);
    let compile = |source: &str, code: i32| {
        std::fs::write(folder.path().join("k.hip"), source).unwrap();
        let mut command = bluefin();
        command.arg("nvrtc").arg(&library).args(["--gpu-architecture=sm_90a", "-DX=1", "k.hip", "-o", "k.out"]);
        text(&expect(command.current_dir(folder.path()), code).stderr)
    };
    let told = expect(bluefin().arg("nvrtc").arg(&library).arg("--version"), 0);
    assert_eq!(text(&told.stdout), "13.1\nsm_80 sm_90\n");
    assert_eq!(compile("int x;", 0), "");
    assert_eq!(std::fs::read_to_string(folder.path().join("k.out")).unwrap(), "--gpu-architecture=sm_90a -DX=1 int x;");
    assert_eq!(compile("int x!", 1), "k.hip(1): error: expected no !\n");
    // As a compiler says that its own memory ran out, which no other source is to blame for.
    assert_eq!(compile("int x?", 1), "nvrtcCompileProgram: nvrtc error out of memory\n");
}

#[test]
fn what_can_not_be_loaded_or_is_too_old_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let old = library(folder.path(), "old.so", &["-DOLD"]);
    let said = |library: &Path, rest: &[&str]| text(&expect(bluefin().arg("nvrtc").arg(library).args(rest), 1).stderr);
    assert_eq!(said(&old, &["--version"]), "it has no nvrtcGetNumSupportedArchs, expected NVRTC 11.2 or later\n");
    let missing = said(&folder.path().join("none.so"), &["--version"]);
    assert!(missing.contains("none.so: ") && missing.contains("No such file"), "{missing}");
    assert_eq!(said(&old, &["k.hip"]), "expected LIBRARY OPTIONS SOURCE -o OUTPUT\n");
}
