//! What of a source is taken for host code.

use std::collections::BTreeMap;

use super::*;

fn blanked(text: &str) -> String {
    let macros = marks(std::iter::once(text));
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
        "int f(std::vector<int> sizes = {}, int n = 1) { return n; }",
        "template <class T> Host<T>::Host(int n) : Base<T>{n}, n(n), all{} { start(); }",
        "template <class T> Type type_of(T) { abort(); }\ntemplate <> constexpr Type type_of(double) { return Unknown; }",
    ] {
        assert!(gone(text), "{text}: {}", blanked(text));
    }
    let members = "struct T { int a() { return 1; } void b(); };\nnamespace n { int b() { return 2; } }";
    assert_eq!(
        blanked(members),
        "struct T { int a() {           } void b(); };\nnamespace n {                       }"
    );
    assert!(gone("template void host<int>(std::vector<int>);"));
    let operators = "struct Free { void operator()(int* p) const { host(p); } auto operator+(int n) { return n; } };";
    assert_eq!(blanked(operators), operators.replace("host(p);", "        "));
    let outside =
        "half operator\"\"_h(long double x) { return f(x); }\nhalf operator-(half x, half y) { return f(x, y); }";
    let bodies = [" return f(x); ", " return f(x, y); "];
    let declared = bodies.iter().fold(outside.to_string(), |text, body| text.replace(body, &" ".repeat(body.len())));
    assert_eq!(blanked(outside), declared);
    let constructor = "struct T { T(T&& o) : a(take(o.a)), b{1} { host(); } constexpr T(int n) : a(n) { } int a, b; };";
    let begun = ": a(take(o.a)), b{1} { host(); }";
    let declared = constructor.replace(begun, &(" ".repeat(begun.len()) + ";"));
    assert_eq!(blanked(constructor), declared);
    let section = "class T { MACRO(A) public: int get() const { host(); } };";
    assert_eq!(blanked(section), section.replace("host();", "       "));
}

/// What is looked at for each of a text's braces does not grow with them.
#[test]
fn many_braces_are_walked_at_once() {
    let begun = std::time::Instant::now();
    for (head, value, count) in [
        ("int f(", "{}", 200_000),
        ("A::A() : a", "{}, a", 50_000),
        ("int a", "{}, a", 50_000),
        ("struct A ", "{}", 50_000),
    ] {
        let text = format!("{head}{}", value.repeat(count));
        blanked(&text);
        reached(&text);
    }
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
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
        "size::size(int n) : n(n) { }\nconst int number = size::of;\n",
        "size<int>::~size() { }\nconst int number = size::of;\n",
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
        "struct __align__(8) P : Q { __device__ P(int n) : Q{n} { } };",
        "template <> constexpr int of_theirs(double) { return 1; }",
        "template <> constexpr int of_theirs<double>(double) { return 1; }",
        "constexpr int h() { return 1; }",
        "#define DEVICE __device__\nDEVICE int i() { return 1; }",
        "#define BOTH DEVICE inline\n#define DEVICE \\\n __device__\nBOTH int i() { return 1; }",
        "#define PASTED(a) a ## _of\nint PASTED(i)() { return 1; }",
        "#define OPEN namespace a {\nOPEN int i() { return 1; } }",
        "int table[] = { 1, 2 };",
        "const auto f = [](int x) { return x; };",
        "enum E { A, B };",
        "struct P { int x; __device__ int get() { return x; } __device__ P operator+(P o) { return o; } };",
        "C10_DEVICE float i(float x) { return x; }\ntemplate <class T> C10_HOST_DEVICE T j(T x) { return x; }",
        "__device__ struct P make() { if (1) { } return {}; }",
        "#pragma clang force_cuda_host_device begin\nint f() { return 1; }\n",
    ] {
        assert_eq!(blanked(text), text);
    }
    // Whatever host functions are beside it.
    let host = "template <> void launch<int>(int n) { }\n";
    for text in [
        "template <class T> constexpr int width(T) { return 1; }\ntemplate <> constexpr int width<double>(double) { return 2; }",
        "#define BOTH __device__ constexpr\ntemplate <> BOTH int launch<double>(double) { return 2; }",
        "template <> constexpr int width<float>{4};",
        "template <> inline constexpr bool is_x<half>{true};",
    ] {
        assert_eq!(blanked(&format!("{host}{text}")).trim_start(), text);
    }
}

/// Calls of macros outside of functions that make functions of the host.
#[test]
fn what_macros_make_for_the_host_goes() {
    let host = "#define MAKE(name) \\\n template <class T> void v##name(T* p) { CHECK(p); }\nMAKE(Add)\n";
    let device = "#define BOTH __device__\n#define MORE(name) BOTH void v##name(int* p) { }\nMORE(Sub)\n";
    let class = "#define CLASS(name) struct name() { }\nCLASS(Mul)\n";
    let text = format!("{host}{device}{class}");
    let macros = host_macros(std::iter::once(text.as_str()));
    assert_eq!(without_calls(&text, &macros), text.replace("MAKE(Add)", "         "));
    let plain = "#define PLAIN(name) float name() { return 1; }\n";
    for stays in [
        &format!("#ifdef __CUDACC__\n{}#else\n{plain}#endif\nPLAIN(f)\n", plain.replace("float", "__device__ float")),
        "#define FN(Q, name, e) Q float name(float a) { return e; }\nFN(__device__, f, a)\n",
        "#define DEV __device__\n#define FN(Q, name, e) Q float name(float a) { return e; }\nFN(DEV, f, a)\n",
        &format!("{plain}__device__ PLAIN(f)\n"),
        &format!("{plain}#pragma clang force_cuda_host_device begin\nPLAIN(f)\n"),
    ] {
        assert_eq!(without_calls(stays, &host_macros(std::iter::once(stays))), stays);
    }
    let behind = format!("#define ON(name) __device__ float name() {{ }}\n{plain}ON(f)\nPLAIN(g)\n");
    let macros = host_macros(std::iter::once(behind.as_str()));
    assert_eq!(without_calls(&behind, &macros), behind.replace("PLAIN(g)", "        "));
}

/// A macro that says nothing of the device: a number, or a check that has the function's own name.
#[test]
fn macros_that_mark_nothing() {
    let text = "#define N 4\n#define check(e) { check((e), __LINE__); }\n";
    assert_eq!(
        blanked(&format!("{text}void check(Unknown a[N], int line) {{ exit(1); }}")).trim_end(),
        text.trim_end()
    );
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

/// What is left of a text from whose words `k` is reached, line by line without blanks at its ends.
fn reached(text: &str) -> String {
    let texts = BTreeMap::from([("k.cu".to_string(), text.to_string())]);
    let mut ranges = unreached(&texts, "entry = \"k<Mul>\"");
    let left = blank(text, ranges.remove("k.cu").unwrap_or_default());
    assert_eq!(left.lines().count(), text.lines().count(), "each line keeps its number");
    left.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_no_kernel_reaches_goes() {
    for text in [
        "class Host : public Base { Unknown a; };",
        "typedef struct { Unknown a; } Host, *HostPointer;",
        "Unknown host(Unknown a, int b);",
        "static Unknown table[] = { 1, 2 };",
        "texture<float, 1, mode> t;",
        "using Host = Unknown<int>;",
        "using unknown::Host;",
        "namespace host = unknown::host;",
        "template class Host<float>;",
        "template <class T> Host<T>::Host(int n) : n(n) { }",
        "template <class T> T Host<T>::operator()() { return n; }",
        "__device__ float other(float a) {\n#pragma unroll\n for (;;) asm(\"x\" : \"=f\"(a)); }",
        "__global__ void __launch_bounds__(64) l(int* p) { other(p); }",
        "template <class T, int N = 1> __device__ T other(T a) { if (N) asm(\"x\" : \"=f\"(a)); return a; }",
        "extern \"C\" {\nUnknown f();\n}",
        "#define ASK(T) template void host<T>(T*);\nASK(float);",
        "#define ASK(T) template void host<T>(T*);\n#define ALL() ASK(float); ASK(int)\nALL();",
        "#define ASK(T) template void host<T>(T*);\nFOR_EACH_TYPE(ASK)",
        "REGISTER_OPERATOR(host)",
    ] {
        let kernel = "template <class T> __global__ void k(int* p) { }";
        let left = reached(&format!("#include \"Host.h\"\n{text}\n{kernel}\n"));
        let left: Vec<&str> = left.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(matches!(left.as_slice(), [] | ["extern \"C\" {", "}", ..] | [_]), "{left:?}");
        assert_eq!(left.last(), Some(&kernel), "{text}");
    }
}

#[test]
fn what_a_kernel_reaches_stays() {
    let kernel = "__global__ void k(Params p) { f(p.a); MACRO(p); }";
    for text in [
        "struct Params { int a; };",
        "typedef struct Hidden { int a; } Params;",
        "typedef Inner Params;\nstruct Inner { int a; };",
        "struct Mul { };",
        "#define MACRO(x) g(x)\n__device__ void g(int a) { }",
        "__device__ int f(int a);",
        "__device__ int n::f(int a) { return 1; }",
        "template <> struct Traits<int> { };",
        "__device__ Vector operator+(Vector a, Vector b) { return a; }",
        "#define BOTH(name) struct name { };\nBOTH(Params)\nint later;",
        "enum { A, B };",
        "#define MACRO(x) show( \\\n#x, helper(x))\nint helper(int a);",
        "#define MACRO host_ ## f\nint host_f();",
        "#define MACRO(x) CALL_##x(1)\n#define CALL_p(x) impl_##x()\nint impl_a();",
        "static __device__ int table[] = { f(1) };\n__device__ int f(int a) { return table[a]; }",
    ] {
        assert_eq!(reached(&format!("{text}\n{kernel}")), format!("{text}\n{kernel}"));
    }
    let continued = format!("#define MACRO(x) show( \\\r\n#x, helper(x))\r\nint helper(int a);\r\n{kernel}");
    assert_eq!(reached(&continued), continued.replace('\r', ""));
    let pasted = "#define A(a) host_ ## a\n#define B(a, b) a##_of_##b\n#define C(...) f(0, ##__VA_ARGS__)\n";
    let functions = "int host_f();\nint a_of_b();\n";
    let kernel = "__global__ void k() { A(f); B(a, b); C(1); }";
    assert_eq!(reached(&format!("{pasted}{functions}int other();\n{kernel}")), format!("{pasted}{functions}{kernel}"));
    let any = "#define D(a, b) a##b\nint other();\n__global__ void k() { D(a, b); }";
    assert_eq!(reached(any), any);
    // One that nothing calls, and what a comment names.
    let plain = "__global__ void k() { }";
    assert_eq!(
        reached(&format!("#define D(a, b) a##b\n#ifdef X // other\n#endif\nint other();\n{plain}")),
        format!("#define D(a, b) a##b\n#ifdef X // other\n#endif\n{plain}")
    );
}

/// What a template is for some arguments goes with it, unless the template is another's.
#[test]
fn specialisations_go_with_their_templates() {
    let (cast, noise) =
        ("template <class T> __device__ T cast(float x);", "template <class T> __global__ void noise(T* p) { }");
    let of_cast = "template <> __device__ int cast<int>(float x) { return 1; }";
    let of_noise = "template <> __global__ void noise<int>(int* p) { curandState s; }";
    let of_others = "template <> __device__ int theirs<int>(float x) { return 1; }";
    let kernel = "__global__ void k(int* p) { *p = cast<int>(1); }";
    let left = reached(&[cast, noise, of_cast, of_noise, of_others, kernel].join("\n"));
    assert_eq!(left, [cast, of_cast, of_others, kernel].join("\n"));
}

/// A class that is called like its file is not reached by the file's name.
#[test]
fn names_of_files_reach_nothing() {
    let texts = BTreeMap::from([(
        "Host.cu".to_string(),
        "class Host { Unknown a; };\n__global__ void k(int* p) { }".to_string(),
    )]);
    let ranges = unreached(&texts, "source = \"Host.cu\"\nentry = \"k\"").remove("Host.cu").unwrap();
    assert_eq!(blank(&texts["Host.cu"], ranges).trim(), "__global__ void k(int* p) { }");
}

#[test]
fn numbers_are_found_by_their_names() {
    let text = "#define SIDE 16\n#define WIDE (32)\nconst int rows = 8;\nint other = rows;\n";
    let found = constants(&format!("{text}void f() {{ x = 3; }}"));
    let expected = [("SIDE", 16), ("WIDE", 32), ("rows", 8)].map(|(name, number)| (name.to_string(), number));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

/// Heads in which a kernel's name, or a variable's, is not the first that looks like one.
#[test]
fn kernels_and_variables_are_seen_whatever_their_heads_have() {
    let kernel = "__global__ void k(int* p) { *p = H; pick(p); }";
    for text in [
        "Matrix& Matrix::operator=(const Matrix& other) { return *this; }",
        "template <int N> enable_if_t<N == 4, int> other() { return 1; }",
        "bool operator==(Pair a, Pair b) { return true; }",
    ] {
        let left = reached(&format!("{text}\n{kernel}\nint x;\nconst int H = 1;\nvoid pick(int* p) {{ }}\n"));
        assert!(left.contains(kernel), "{text}: {left}");
    }
    for text in [
        "const int W = 4, H = 8;\nvoid pick(int* p);",
        "#define BOUNDS(x) __launch_bounds__(x)\nBOUNDS(256) void pick(int* p) { }\nconst int H = 1;",
        "typedef float (*pick)(int*);\nconst int H = 1;",
        "template <class T> enable_if_t<sizeof(T) == 4, T> pick(T* p) { }\nconst int H = 1;",
        "[[deprecated(\"\")]] void pick(int* p) { }\nconst int H = 1;",
    ] {
        let whole = format!("{text}\n{kernel}");
        assert_eq!(reached(&whole), whole);
    }
    let texts =
        BTreeMap::from([("k.cu".to_string(), "__global__ void scale(float* p, int n) { }\nint other;".to_string())]);
    let left = blank(&texts["k.cu"], unreached(&texts, "entry = \"_Z5scalePfi\"").remove("k.cu").unwrap());
    assert_eq!(left.trim_end(), "__global__ void scale(float* p, int n) { }");
}

#[test]
fn namespaces_of_headers_that_are_gone_are_declared() {
    let text = "namespace own { }\nusing namespace own;\n using namespace sdk;\nusing namespace std;\nvoid f() { using namespace in; }\n";
    let declared = namespaces(std::iter::once(text));
    assert_eq!(
        with_namespaces(text, &declared),
        text.replace("using namespace sdk", "namespace sdk {} using namespace sdk")
    );
}

#[test]
fn texts_without_comments_keep_their_lines() {
    for (text, expected) in [
        ("a /* b\n#if C */ d\n#if E // f\ng", "a\nd\n#if E \ng"),
        ("#if A || \\\n    B /* c\n*/ && D\ne\n", "#if A ||      B   && D\n\n\ne\n"),
        ("x = \"/*\"; // y \\\n#if z\n#endif", "x = \"/*\";\n\n#endif"),
    ] {
        let plain = without_comments(text);
        let words = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(words(&plain), words(expected), "{text}");
    }
}
