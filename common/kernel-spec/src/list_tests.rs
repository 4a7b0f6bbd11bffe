//! Spaces that are lists, constants with their kind, and what else a kernel of a program needs.

use std::collections::BTreeMap;

use bluefin_common::artifact::{Argument, ArtifactRef};
use bluefin_common::candidate::Candidate;
use bluefin_common::problem::{DataType, Problem};
use bluefin_common::task::{Content, Role};
use bluefin_common::tensor::Tensor;
use bluefin_common::value::Value;

use crate::search::Space;
use crate::tests::target;
use crate::{ArgumentKind, Bundle, Constant, KernelSpec, Scope};

const SPEC: &str = r#"
name = "captured"
problem = "kernel"
toolchain = "triton"
targets = ["nvidia", "amd"]
source = "pkg/kernel.py"
includes = ["pkg/__init__.py"]
reference = "kernel"

[[buffer]]
name = "a"
type = "FP16"
length = 1024
role = "input"
low = -3.1
high = 3
[[buffer]]
name = "index"
type = "INT32"
length = 4
role = "input"
data = "index.bin"
[[buffer]]
name = "c"
type = "FP32"
length = 64
role = "inout"
fill = 0.5
[[buffer]]
name = "mask"
type = "BOOL"
length = 64
role = "output"

[tolerance.FP32]
absolute = 1e-3
relative = 1e-3
[tolerance.BOOL]
absolute = 0
relative = 0

[[solver]]
name = "kernel"
algorithm = "Direct"
constraints = ["BLOCK <= 128"]
points = [
  { num_warps = 8, BLOCK = 128, EVEN = true, MODE = "fast", maxnreg = "None" },
  { num_warps = 4, BLOCK = 64, EVEN = false, MODE = "fast", maxnreg = 128 },
  { num_warps = 8, BLOCK = 128, EVEN = true, MODE = "fast", maxnreg = "None" },
  { num_warps = 8, BLOCK = 256, EVEN = true, MODE = "tf32x3", maxnreg = "None" },
]
[solver.constants]
ACTIVATION = ""
SCALE = 0.125
HAS_BIAS = true
GROUP = 8
SHAPE = [1, { none = true }]
OUT = { dtype = "fp16" }
BIAS = { none = true }
[[solver.launch]]
entry = "kernel"
arguments = ["a", { buffer = "a", offset = 8 }, { buffer = "a", offset = "BLOCK - 63" }, "none", { i1 = "EVEN" }, { i64 = 5000000000000000000 }, { u64 = "18446744073709551615" }, { u32 = 4294967280 }, "c", "mask", "index"]
grid = ["if BLOCK == 128 { 8 } else { 16 }"]
"#;

fn bundle(toml: &str, data: usize) -> Bundle {
    let files = ["pkg/kernel.py", "pkg/__init__.py"].map(|name| (name.to_string(), String::new()));
    let data = BTreeMap::from([("index.bin".to_string(), ArtifactRef::of(&vec![0; data]))]);
    Bundle { toml: toml.to_string(), files: files.into(), data, ..Bundle::default() }
}

fn loaded() -> (KernelSpec, Scope) {
    let spec = KernelSpec::load(&bundle(SPEC, 16)).unwrap();
    let problem = spec.problem(&BTreeMap::new()).unwrap();
    assert!(matches!(&problem, Problem::Kernel(kernel) if kernel.sizes.is_empty()));
    let scope = spec.scope(&problem, &target()).unwrap().unwrap();
    (spec, scope)
}

fn broken(from: &str, to: &str) -> String {
    assert!(SPEC.contains(from), "{from}");
    KernelSpec::load(&bundle(&SPEC.replacen(from, to, 1), 16)).expect_err(to).to_string()
}

#[test]
fn a_space_may_be_a_list() {
    let (spec, scope) = loaded();
    let solver = &spec.solvers[0];
    assert_eq!((solver.listed(), solver.space()), (Some(3), 3), "one is there twice");
    let names: Vec<&str> = solver.params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["num_warps", "BLOCK", "EVEN", "MODE", "maxnreg"], "as they are written");
    assert_eq!(solver.params[4].values, [Value::from("None"), Value::Int(128)]);
    assert_eq!(solver.default_candidate().params_text(), "8,128,true,fast,None");
    let found = spec.candidates(solver, &scope, usize::MAX).unwrap();
    assert_eq!((found.valid, found.exact, found.space), (2, true, 3));
    let texts: Vec<String> = found.points.iter().map(Candidate::params_text).collect();
    assert_eq!(texts, ["8,128,true,fast,None", "4,64,false,fast,128"], "a constraint leaves two");
    let space = Space::of(&spec, solver, &scope);
    assert!(found.points.iter().all(|point| space.holds(point)));
    assert_eq!(space.draw(&[7; 32], 9, 9).unwrap().len(), 2);
    assert_eq!(space.valid().unwrap(), 2);
    // Values of two points are not a third.
    let mixed = vec![Value::Int(8), Value::Int(64), Value::Bool(true), "fast".into(), "None".into()];
    let mixed = Candidate { solver: "kernel".to_string(), params: mixed };
    assert!(!space.holds(&mixed));
    assert!(spec.build(&mixed, &scope).unwrap_err().to_string().contains("it is none of the listed points"));
    assert_eq!(solver.parse_params("8,64,true,fast,None"), None);
    assert_eq!(solver.parse_params(&texts[1]).unwrap(), found.points[1].params);
}

#[test]
fn a_long_list_is_counted_whole() {
    let points: Vec<String> = (0..5000).map(|at| format!("{{ num_warps = {}, BLOCK = {at} }}", at % 3)).collect();
    let start = SPEC.find("points = [").unwrap();
    let end = SPEC.find("[solver.constants]").unwrap();
    let text = format!("{}points = [\n{}\n]\n{}", &SPEC[..start], points.join(",\n"), &SPEC[end..]);
    let text = text
        .replace("constraints = [\"BLOCK <= 128\"]", "constraints = [\"BLOCK % 2 == 0\"]")
        .replace("\"EVEN\"", "true");
    let spec = KernelSpec::load(&bundle(&text, 16)).unwrap();
    let scope = spec.scope(&spec.problem(&BTreeMap::new()).unwrap(), &target()).unwrap().unwrap();
    let found = spec.candidates(&spec.solvers[0], &scope, 16).unwrap();
    assert_eq!((found.points.len(), found.valid, found.exact), (16, 2500, true));
    assert_eq!(spec.candidates(&spec.solvers[0], &scope, usize::MAX).unwrap().points.len(), 2500);
}

#[test]
fn kinds_are_kept() {
    let (spec, scope) = loaded();
    let build = spec.build(&spec.solvers[0].default_candidate(), &scope).unwrap();
    let text = |text: &str| text.to_string();
    assert_eq!(
        build.defines,
        [("BLOCK", "128"), ("MODE", "fast"), ("num_warps", "8")].map(|(a, b)| (text(a), text(b)))
    );
    let constants = [
        ("ACTIVATION", Constant::Text(String::new())),
        ("BIAS", Constant::None),
        ("EVEN", Constant::Bool(true)),
        ("GROUP", Constant::Int(8)),
        ("HAS_BIAS", Constant::Bool(true)),
        ("OUT", Constant::Dtype(text("fp16"))),
        ("SCALE", Constant::Float(text("0.125"))),
        ("SHAPE", Constant::Tuple(vec![Constant::Int(1), Constant::None])),
        ("maxnreg", Constant::None),
    ];
    assert_eq!(build.constants, constants.map(|(name, constant)| (text(name), constant)));
    let arguments = &build.launches[0].arguments;
    assert_eq!(arguments[1], Argument::BufferAt { buffer: 0, bytes: 16 });
    assert_eq!(arguments[2], Argument::BufferAt { buffer: 0, bytes: 130 });
    assert_eq!(
        arguments[4..8],
        [Argument::I32(1), Argument::I64(5_000_000_000_000_000_000), Argument::I64(-1), Argument::I32(-16)]
    );
    let typed = &build.typed[0];
    let kinds: Vec<ArgumentKind> = typed.iter().map(|typed| typed.kind).collect();
    let half = ArgumentKind::Pointer(DataType::Fp16);
    assert_eq!(
        kinds[..8],
        [
            half,
            half,
            half,
            ArgumentKind::None,
            ArgumentKind::I1,
            ArgumentKind::I64,
            ArgumentKind::U64,
            ArgumentKind::U32
        ]
    );
    let divisible: Vec<bool> = typed.iter().map(|typed| typed.divisible).collect();
    assert_eq!(divisible[..8], [true, true, false, false, false, true, false, true]);
    assert!(typed.iter().all(|typed| !typed.unit), "True is no 1");
    assert_eq!(build.launches[0].grid, [8, 1, 1]);
}

#[test]
fn a_word_stands_for_what_no_param_can_have() {
    let words = "[solver.words]\nMODE = { fast = \"a, b\" }\nmaxnreg = { None = 7 }\n[[solver.launch]]";
    let toml = SPEC.replace("[[solver.launch]]", words);
    let spec = KernelSpec::load(&bundle(&toml, 16)).unwrap();
    let scope = spec.scope(&spec.problem(&BTreeMap::new()).unwrap(), &target()).unwrap().unwrap();
    let build = spec.build(&spec.solvers[0].default_candidate(), &scope).unwrap();
    let of = |name: &str| build.constants.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!((of("MODE"), of("maxnreg")), (Some(Constant::Text("a, b".to_string())), Some(Constant::Int(7))));
    assert!(build.defines.iter().all(|(name, _)| name != "MODE"));
    for (words, said) in [
        ("slow = 1", "solver[0].words.MODE.slow: found \"slow\", expected a text among the values of the param"),
        ("fast = { dtype = \"fp 16\" }", "solver[0].words.MODE.fast: found \"fp 16\""),
    ] {
        let error = broken("[[solver.launch]]", &format!("[solver.words]\nMODE = {{ {words} }}\n[[solver.launch]]"));
        assert!(error.contains(said), "{error}");
    }
    let error = broken("[[solver.launch]]", "[solver.words]\nTILE = {}\n[[solver.launch]]");
    assert!(error.contains("solver[0].words.TILE: found \"TILE\", expected the name of a param"), "{error}");
}

#[test]
fn buffers_hold_what_is_said() {
    let (spec, scope) = loaded();
    let (buffers, tolerance) = spec.task_parts(&scope).unwrap();
    assert_eq!(buffers[0].content, Content::Uniform { low: -3.1, high: 3.0 });
    assert_eq!(buffers[1].content, Content::Data(ArtifactRef::of(&[0; 16])));
    let plain = "type = \"FP32\"\nlength = 64\nrole = \"inout\"\nfill = 0.5";
    let ascending = SPEC.replace(plain, "type = \"INT32\"\nlength = 64\nrole = \"input\"\nstep = 4\nlow = 1");
    let of_steps = KernelSpec::load(&bundle(&ascending, 16)).unwrap().task_parts(&scope).unwrap().0;
    assert_eq!(of_steps[2].content, Content::Steps { first: 1, step: 4 });
    assert_eq!((buffers[2].role, buffers[2].content), (Role::InOut, Content::Fill(0.5)));
    assert_eq!((buffers[3].role, buffers[3].data_type), (Role::Output, DataType::Bool));
    assert_eq!(tolerance.absolute, 1e-3);
    let spec = KernelSpec::load(&bundle(SPEC, 12)).unwrap();
    let error = spec.task_parts(&scope).unwrap_err().to_string();
    assert_eq!(
        error,
        "kernel spec captured, line 20: buffer[1].length: index.bin: found 12 bytes, expected 16, which is 4 elements of INT32"
    );
}

#[test]
fn mistakes_name_their_line() {
    for (from, to, expected) in [
        (
            "{ num_warps = 4, BLOCK = 64, EVEN = false,",
            "{ num_warps = 4, TILE = 64, EVEN = false,",
            "line 48: solver[0].points[1]: found \"EVEN MODE TILE maxnreg num_warps\", expected the names of the first point, BLOCK EVEN MODE maxnreg num_warps",
        ),
        ("maxnreg = 128 }", "}", "line 48: solver[0].points[1]: found \"BLOCK EVEN MODE num_warps\""),
        (
            "MODE = \"tf32x3\"",
            "MODE = \"a,b\"",
            "line 50: solver[0].points[3].MODE: found \"a,b\", expected an integer, a bool, or a word",
        ),
        ("BLOCK = 256", "BLOCK = 2.5", "expected an integer, a bool or a string"),
        (
            "points = [",
            "space = \"s\"\npoints = [",
            "solver[0].points: found \"points beside param or space\", expected one or the other",
        ),
        (
            "OUT = { dtype = \"fp16\" }",
            "OUT = { dtype = \"fp 16\" }",
            "line 58: solver[0].constants.OUT: found \"fp 16\"",
        ),
        (
            "GROUP = 8",
            "BLOCK = 8",
            "line 56: solver[0].constants.BLOCK: found \"BLOCK\", expected an identifier that is no param's",
        ),
        ("\"none\", {", "\"nothing\", {", "expected workspace, none or one of the buffers a index c mask"),
        (
            "{ buffer = \"a\", offset = 8 }",
            "{ buffer = \"b\", offset = 8 }",
            "solver[0].launch[0].arguments[1]: found \"b\"",
        ),
        (
            "18446744073709551615",
            "18446744073709551616",
            "arguments[6]: found \"18446744073709551616\", expected 0 to 18446744073709551615",
        ),
        ("role = \"output\"", "role = \"output\"\nfill = 1", "buffer[3].fill: found \"fill\", expected none"),
        ("low = -3.1\n", "", "line 10: buffer[0].low: found \"nothing\", expected low and high, both or none"),
        ("high = 3\n", "high = -4\n", "line 16: buffer[0].high: found \"-4\", expected at least low, -3.1"),
        ("fill = 0.5", "step = 4", "buffer[2].step: found \"FP32\", expected a type of whole numbers"),
        (
            "type = \"FP32\"\nlength = 64\nrole = \"inout\"\nfill = 0.5",
            "type = \"UINT64\"\nlength = 64\nrole = \"inout\"\nstep = 1\nlow = 1e19",
            "buffer[2].low: found \"10000000000000000000\", expected a whole number of at most 2^53",
        ),
        (
            "fill = 0.5",
            "fill = 0.5\ndata = \"index.bin\"",
            "buffer[2].data: found \"data\", expected one of fill, data, recipe, step, and low with high",
        ),
        (
            "type = \"FP32\"",
            "type = \"INT8\"",
            "buffer[2].fill: found \"0.5\", expected a whole number from -128 to 127",
        ),
        (
            "data = \"index.bin\"",
            "data = \"other.bin\"",
            "line 22: buffer[1].data: found \"other.bin\", expected a file that comes with the spec",
        ),
        ("includes = [\"pkg/__init__.py\"]", "includes = [\"pkg/../a.py\"]", "file name: found \"pkg/../a.py\""),
    ] {
        let error = broken(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
    // Others know neither constants nor None.
    let clang = SPEC.replace("toolchain = \"triton\"", "toolchain = \"clang\"");
    let error = KernelSpec::load(&bundle(&clang, 16)).unwrap_err().to_string();
    assert!(error.contains("solver[0].points[3].MODE") || error.contains("solver[0].constants"), "{error}");
    let (spec, scope) = loaded();
    let far = SPEC.replace("offset = 8 }", "offset = 1025 }");
    let far = KernelSpec::load(&bundle(&far, 16)).unwrap();
    let error = far.build(&spec.solvers[0].default_candidate(), &scope).unwrap_err().to_string();
    assert!(error.contains("found 1025, expected 0 to 1024"), "{error}");
}

#[test]
fn data_is_read_from_beside_the_spec() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    write("pkg/kernel.py", b"# a kernel\n");
    write("pkg/__init__.py", b"");
    write("spec.toml", SPEC.as_bytes());
    write("packed.toml", SPEC.replace("index.bin", "index.bin.zst").as_bytes());
    let data: Vec<u8> = (0..4_i32).flat_map(i32::to_le_bytes).collect();
    write("index.bin", &data);
    write("index.bin.zst", &zstd::encode_all(data.as_slice(), 3).unwrap());
    for (spec, name) in [("spec.toml", "index.bin"), ("packed.toml", "index.bin.zst")] {
        let bundle = Bundle::read(&folder.path().join(spec)).unwrap();
        assert_eq!(bundle.files["pkg/kernel.py"], "# a kernel\n");
        assert_eq!((bundle.data[name], bundle.contents[name].as_ref()), (ArtifactRef::of(&data), &data[..]));
        KernelSpec::load(&bundle).unwrap();
    }
    let read = |spec: &str| Bundle::read(&folder.path().join(spec)).unwrap_err().to_string();
    write("index.bin.zst", &data);
    assert!(read("packed.toml").contains("index.bin.zst: no zstd frame"), "{}", read("packed.toml"));
    std::fs::remove_file(folder.path().join("index.bin")).unwrap();
    assert!(read("spec.toml").ends_with("index.bin: not there"), "{}", read("spec.toml"));
    std::os::unix::fs::symlink("spec.toml", folder.path().join("index.bin")).unwrap();
    assert!(read("spec.toml").contains("found a link, expected a regular file"), "{}", read("spec.toml"));
    std::fs::remove_file(folder.path().join("index.bin")).unwrap();
    let large = std::fs::File::create(folder.path().join("index.bin")).unwrap();
    large.set_len((128 << 20) + 1).unwrap();
    assert!(read("spec.toml").contains("expected at most 134217728 bytes"), "{}", read("spec.toml"));
}

/// The list's spec with this as an argument in place of the part of a buffer.
fn with_descriptor(descriptor: &str) -> String {
    let part = "{ buffer = \"a\", offset = 8 }";
    assert!(SPEC.contains(part), "{SPEC}");
    SPEC.replacen(part, descriptor, 1)
}

#[test]
fn descriptors_are_tensors_in_a_buffer() {
    let text = with_descriptor(
        "{ descriptor = \"a\", offset = 8, shape = [4, \"BLOCK / 64\"], strides = [16, 1], block_shape = [2, \"BLOCK\"], padding = \"nan\" }",
    );
    let spec = KernelSpec::load(&bundle(&text, 16)).unwrap();
    let scope = spec.scope(&spec.problem(&BTreeMap::new()).unwrap(), &target()).unwrap().unwrap();
    let build = spec.build(&spec.solvers[0].default_candidate(), &scope).unwrap();
    let expected = Tensor {
        buffer: 0,
        bytes: 16,
        rank: 2,
        shape: [4, 2, 0, 0, 0],
        strides: [16, 1, 0, 0, 0],
        block: [2, 128, 0, 0, 0],
        nan: true,
        ..Tensor::default()
    };
    assert_eq!(build.launches[0].arguments[1], Argument::Tensor(expected));
    assert_eq!(build.typed[0][1].kind, ArgumentKind::Tensor(DataType::Fp16, 2, [2, 128, 0, 0, 0]));
}

#[test]
fn descriptors_that_no_device_takes_are_refused() {
    for (given, expected) in [
        ("shape = [4], strides = [16, 1], block_shape = [2]", "found \"2 entries\""),
        ("shape = [], strides = [], block_shape = []", "found \"0 entries\""),
        ("shape = [4, 8], strides = [16, 1]", "expected a buffer's name"),
        ("shape = [4, 8], strides = [16, 1], block_shape = [2, 8], padding = \"one\"", "expected a buffer's name"),
        ("shape = [4, 8], strides = [7, 1], block_shape = [2, 8]", "found 14 bytes as an offset or a stride"),
        ("offset = 3, shape = [8], strides = [1], block_shape = [8]", "found 6 bytes as an offset or a stride"),
        ("shape = [4, 8], strides = [16, 2], block_shape = [2, 8]", "whose last stride is 2, expected 1"),
        ("shape = [100, 8], strides = [16, 1], block_shape = [2, 8]", "expected at most the"),
        ("shape = [0], strides = [1], block_shape = [8]", "found 0"),
    ] {
        let text = with_descriptor(&format!("{{ descriptor = \"a\", {given} }}"));
        let error = KernelSpec::load(&bundle(&text, 16)).map(|spec| {
            let scope = spec.scope(&spec.problem(&BTreeMap::new()).unwrap(), &target()).unwrap().unwrap();
            spec.build(&spec.solvers[0].default_candidate(), &scope).expect_err(given)
        });
        let error = error.unwrap_or_else(|error| error).to_string();
        assert!(error.contains(expected), "{given}: {error}");
    }
}
