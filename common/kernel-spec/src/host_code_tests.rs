//! What of a source is taken for host code.

use super::*;

fn blanked(text: &str) -> String {
    let macros = macros(text).collect();
    let without = without(text, &macros);
    assert_eq!(without.lines().count(), text.lines().count(), "each line keeps its number");
    without
}

/// Nothing is left, but for blanks.
fn gone(text: &str) -> bool {
    blanked(text).trim().is_empty()
}

#[test]
fn host_functions_are_left_out() {
    for text in [
        "int main() { k<<<1, 2>>>(p); return '}'; }",
        "static void run(int n, float* p) { if (n) { puts(\"}{\"); } }",
        "template <typename T, int N = (3 > 2)> T host(std::vector<T> v) { return v[0]; }",
        "extern \"C\" int f(void) { return R\"x(})\" )x\"[0]; }",
        "__host__ void g() { /* } */ return; // }\n }",
        "inline std::string name() noexcept { return {}; }",
        "int Timer::stop() const { return 1'000; }",
    ] {
        assert!(gone(text), "{text}: {}", blanked(text));
    }
    let members = "struct T { int a() { return 1; } void b(); };\nnamespace n { int b() { return 2; } }";
    assert_eq!(
        blanked(members),
        "struct T { int a() {           } void b(); };\nnamespace n {                       }"
    );
    assert!(gone("template void host<int>(std::vector<int>);"));
}

/// A variable whose value is a host function, or what one returns, goes with it.
#[test]
fn variables_go_with_their_functions() {
    let table = "void (*table[])(int n) = { first, second }";
    let text = format!("void first(int n) {{ }}\nvoid second(int n) {{ }}\n{table};\nstatic float rate = second(1);\n");
    assert_eq!(blanked(&text).trim(), ";");
    for stays in [
        "int size() { return 1; }\n__device__ int size(int n) { return n; }\nint number = size();\n",
        "int size() { return 1; }\n__constant__ int number = size;\n",
        "int size() { return 1; }\nstruct S { int number = size(); };\n",
    ] {
        assert!(blanked(stays).contains("number = size"), "{stays}");
    }
}

#[test]
fn what_may_be_for_the_device_stays() {
    for text in [
        "template __global__ void k<int>(int*);",
        "template struct Foo<int>;",
        "__global__ void k(float* p) { if (*p) { *p = 1; } }",
        "template <class T> __device__ T f(T a) { for (;;) { } }",
        "__host__ __device__ int g() { return 1; }",
        "constexpr int h() { return 1; }",
        "#define DEVICE __device__\nDEVICE int i() { return 1; }",
        "int table[] = { 1, 2 };",
        "const auto f = [](int x) { return x; };",
        "enum E { A, B };",
        "struct P { int x; __device__ int get() { return x; } P operator+(P o) { return o; } };",
        "__device__ struct P make() { if (1) { } return {}; }",
        "#pragma clang force_cuda_host_device begin\nint f() { return 1; }\n",
    ] {
        assert_eq!(blanked(text), text);
    }
}

#[test]
fn a_text_that_is_not_understood_stays() {
    for text in
        ["int f() { ", "} int f() { return 1; }", "#if A\nint f(int a) {\n#else\nint f() {\n#endif\n return 1; }\n"]
    {
        assert_eq!(blanked(text), text);
    }
}

#[test]
fn lines_of_the_preprocessor_stay() {
    let text = "int main() {\n  a();\n#if X /* of\n two lines */\n  b();\n#endif\n}\n";
    assert_eq!(blanked(text), "            \n      \n#if X /* of\n two lines */\n      \n#endif\n \n");
}

#[test]
fn includes_and_macros_are_read() {
    let text = "#include <a/b.h>\n # include \"c.h\" // d\n// #include <no.h>\n#define A(x) \\\n x\n#define B\nconst char* s = \"\\\n#include <no.h>\";\n";
    assert_eq!(includes(text).collect::<Vec<_>>(), ["a/b.h", "c.h"]);
    assert_eq!(macros(text).collect::<Vec<_>>(), ["A", "B"]);
}
