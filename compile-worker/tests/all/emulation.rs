//! GPU kernels on the CPU: tests/kernels/emulated stands in for the prelude, so that index arithmetic, lane layouts and the
//! order of copies are tested without a GPU, with the launches that the specs compute.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use bluefin_common::artifact::{Argument, Launch};
use bluefin_common::candidate::Candidate;
use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, GemmProblem, Layout, Problem};
use bluefin_common::target::Target;
use bluefin_common::task::Role;
use bluefin_common::value::Value;
use bluefin_kernel_spec::{Bundle, KernelSpec, Scope};
use bluefin_test_support::left_out;

const COMPILERS: [&str; 2] = ["clang++-19", "clang++"];
const OPTIONS: [&str; 3] = ["-std=c++20", "-O1", "-w"];
/// What the stand-ins include, which takes longer to read than a kernel to compile.
const HEADERS: [&str; 11] = [
    "setjmp.h",
    "ucontext.h",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "deque",
    "functional",
    "map",
    "memory",
    "vector",
];

fn compiler() -> Option<&'static str> {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    COMPILERS.into_iter().find(works)
}

/// A spec on one problem and one target.
struct Bench {
    bundle: Bundle,
    spec: KernelSpec,
    scope: Scope,
    compiler: &'static str,
    /// With [`HEADERS`], read.
    headers: tempfile::TempDir,
}

impl Bench {
    fn new(name: &str, problem: &Problem, target: &str) -> Option<Self> {
        let Some(compiler) = compiler() else {
            left_out("no clang++ to run GPU kernels on the CPU with");
            return None;
        };
        let specs = Bundle::shipped().into_iter().map(|bundle| (KernelSpec::load(&bundle).unwrap(), bundle));
        let (spec, bundle) = specs.into_iter().find(|(spec, _)| spec.name == name).unwrap();
        let target: Target = target.parse().unwrap();
        let scope = spec.scope(problem, &target).unwrap().unwrap();
        let headers = tempfile::tempdir().unwrap();
        let text: String = HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect();
        std::fs::write(headers.path().join("all.h"), text).unwrap();
        let mut read = Command::new(compiler);
        read.current_dir(headers.path()).args(OPTIONS).args(["-x", "c++-header", "all.h", "-o", "all.pch"]);
        assert!(read.status().unwrap().success());
        Some(Self { bundle, spec, scope, compiler, headers })
    }

    /// The solver's default params with `changes` in their place.
    fn candidate(&self, solver: &str, changes: &[(&str, i64)]) -> Candidate {
        let solver = self.spec.solver(solver).unwrap();
        let mut candidate = solver.default_candidate();
        for (name, value) in changes {
            let at = solver.params.iter().position(|param| param.name == *name).unwrap();
            candidate.params[at] = Value::Int(*value);
        }
        candidate
    }

    /// The program of a candidate, in a folder of its own.
    fn compiled(&self, candidate: &Candidate) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        for (name, text) in &self.bundle.files {
            write(name, text);
        }
        let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels/emulated");
        for name in ["prelude.h", "warpgroup_gpu.hip", "tensor_copy_gpu.hip"] {
            std::fs::copy(stand_ins.join(name), folder.path().join(name)).unwrap();
        }
        let build = self.spec.build(candidate, &self.scope).unwrap();
        write("unit.cpp", &self.program(&build.launches, build.workspace));
        let mut command = Command::new(self.compiler);
        command.current_dir(folder.path()).args(OPTIONS).args(["-o", "unit", "unit.cpp", "-include-pch"]);
        command.arg(self.headers.path().join("all.pch"));
        command.args(build.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        if self.scope.target().arch().starts_with("sm_") {
            command.arg("-DON_NVIDIA=1");
        }
        let compiled = command.output().unwrap();
        assert!(compiled.status.success(), "{candidate}: {}", String::from_utf8_lossy(&compiled.stderr));
        folder
    }

    /// A program that fills the buffers, runs the launches and prints the output.
    fn program(&self, launches: &[Launch], workspace: u64) -> String {
        let (buffers, _) = self.spec.task_parts(&self.scope).unwrap();
        let mut main = String::new();
        for (index, buffer) in buffers.iter().enumerate() {
            let (fill, seed) = match buffer.role {
                Role::Input | Role::InOut => ("emulated_input", format!(", {index}")),
                Role::Output => ("emulated_output", String::new()),
            };
            writeln!(main, "auto buffer{index} = {fill}({}{seed});", buffer.length).unwrap();
        }
        // Its bytes make NaNs.
        writeln!(main, "struct alignas(256) Scratch {{ unsigned char bytes[256]; }};").unwrap();
        writeln!(main, "std::vector<Scratch> workspace({});", workspace.div_ceil(256) + 1).unwrap();
        writeln!(main, "memset(workspace.data(), 0xff, workspace.size() * 256);").unwrap();
        for launch in launches {
            let arguments: Vec<String> = launch.arguments.iter().map(argument).collect();
            let ([gx, gy, gz], [threads, 1, 1]) = (launch.grid, launch.block) else { panic!("blocks are one row") };
            let call = format!("{}({})", launch.entry, arguments.join(", "));
            writeln!(main, "emulated::launch({gx}, {gy}, {gz}, {threads}, {}, [&] {{ {call}; }});", launch.shared)
                .unwrap();
        }
        let output = buffers.iter().position(|buffer| buffer.role == Role::Output).unwrap();
        format!("#include \"{}\"\nint main() {{\n{main}emulated_print(buffer{output});\n}}\n", self.spec.source)
    }

    /// What the reference comes to, which is the same on every target.
    fn reference(&self) -> Vec<f64> {
        output(&self.compiled(&self.spec.reference()), false)
    }

    /// Runs candidates and compares them with the reference.
    fn check(&self, candidates: &[(&str, &[(&str, i64)])]) {
        self.check_against(&self.reference(), candidates);
    }

    fn check_against(&self, want: &[f64], candidates: &[(&str, &[(&str, i64)])]) {
        let (_, tolerance) = self.spec.task_parts(&self.scope).unwrap();
        for (solver, changes) in candidates {
            let candidate = self.candidate(solver, changes);
            let asynchronous = solver.contains("Warpgroup") || solver.ends_with("TensorCopy");
            let program = self.compiled(&candidate);
            for late in [false, true].into_iter().take(1 + usize::from(asynchronous)) {
                let got = output(&program, late);
                assert_eq!(got.len(), want.len());
                for (index, (got, want)) in got.iter().zip(want).enumerate() {
                    let far = (got - want).abs();
                    let allowed = tolerance.absolute + tolerance.relative * want.abs();
                    assert!(far <= allowed, "{candidate}, late {late}: element {index}: found {got}, expected {want}");
                }
            }
        }
    }
}

/// What a program prints; with `late`, what is asynchronous on a GPU happens as late as it may.
fn output(program: &tempfile::TempDir, late: bool) -> Vec<f64> {
    let mut command = Command::new(program.path().join("unit"));
    let ran = command.env_remove("LATE").envs(late.then_some(("LATE", "1"))).output().unwrap();
    assert!(ran.status.success(), "late {late}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// How C++ reaches an argument.
fn argument(argument: &Argument) -> String {
    match argument {
        Argument::Buffer(index) => format!("buffer{index}.data()"),
        Argument::BufferAt { .. } | Argument::WorkspaceAt(_) | Argument::Tensor(_) | Argument::Structure(_) => {
            panic!("bluefin's own kernels take whole buffers")
        }
        Argument::Workspace => "AnyPointer{workspace.data()}".to_string(),
        Argument::I32(value) => value.to_string(),
        Argument::I64(value) => format!("{value}ll"),
        Argument::F32(value) => format!("{value}f"),
        Argument::F64(value) => format!("{value}"),
    }
}

const SIZES: [u32; 3] = [136, 72, 104];

fn gemm(trans_a: bool, trans_b: bool, batch: u32, data_type: DataType) -> Problem {
    Problem::Gemm(GemmProblem { batch, trans_a, trans_b, ..GemmProblem::plain(SIZES, data_type) })
}

/// 2 images of 8 channels a group; 1 x 1 filters on 8 x 8 pixels, others on 9 x 9.
fn conv(direction: Direction, filter: u32, group: u32, data_type: DataType, layout: Layout) -> Problem {
    let size = if filter == 1 { 8 } else { 9 };
    let shape = ConvShape {
        n: 2,
        c: 8 * group,
        k: 24 * group,
        group,
        input: [1, size, size],
        filter: [1, filter, filter],
        stride: if filter == 1 { [1; 3] } else { [1, 2, 2] },
        pad: [0, filter / 2, filter / 2],
        x_layout: layout,
        w_layout: layout,
        y_layout: layout,
        ..ConvShape::plain(direction, data_type)
    };
    Problem::Conv(ConvProblem::new(shape).unwrap())
}

const SMALL: &[(&str, i64)] = &[("BM", 64), ("BN", 64), ("WM", 1), ("WN", 1), ("STAGES", 3)];
const TURNS: [(bool, bool); 2] = [(false, false), (true, true)];
/// One for each turn: a matrix instruction takes both, laid out alike.
const SHORT: [DataType; 2] = [DataType::Fp16, DataType::Bf16];

#[test]
fn gemm_on_hopper() {
    for ((trans_a, trans_b), data_type) in TURNS.into_iter().zip(SHORT) {
        // With two multiprocessors a block takes several tiles.
        let Some(bench) = Bench::new("gemm-gpu", &gemm(trans_a, trans_b, 2, data_type), "sm_90-2") else { return };
        bench.check(&[
            ("BluefinGemmGpuWarpgroup", SMALL),
            ("BluefinGemmGpuTensorCopy", SMALL),
            ("BluefinGemmGpuTensorCopy", &[("BM", 128), ("BN", 128), ("BK", 128), ("STAGES", 2)]),
        ]);
    }
}

/// The more warpgroups multiply, the fewer registers has each: they share the block's with the one that feeds them.
#[test]
fn gemm_on_many_warpgroups() {
    let Some(bench) =
        Bench::new("gemm-gpu", &Problem::Gemm(GemmProblem::plain([72, 40, 136], DataType::Fp16)), "sm_90-132")
    else {
        return;
    };
    for rows in [3, 4] {
        let shape = [("BM", 64 * rows), ("BN", 64), ("WM", rows), ("WN", 1), ("STAGES", 2)];
        bench.check(&[("BluefinGemmGpuTensorCopy", &shape)]);
    }
}

#[test]
fn gemm_on_nvidia() {
    for ((trans_a, trans_b), data_type) in TURNS.into_iter().zip(SHORT) {
        let Some(bench) = Bench::new("gemm-gpu", &gemm(trans_a, trans_b, 1, data_type), "sm_80-108") else { return };
        bench.check(&[
            ("BluefinGemmGpuMatrixCore", &[("BM", 64), ("BN", 64), ("WM", 2), ("WN", 1), ("STAGES", 3)]),
            ("BluefinGemmGpuTiled", &[]),
        ]);
    }
}

#[test]
fn gemm_on_cdna() {
    for ((trans_a, trans_b), data_type) in TURNS.into_iter().zip(SHORT) {
        let Some(bench) = Bench::new("gemm-gpu", &gemm(trans_a, trans_b, 1, data_type), "gfx90a-104") else { return };
        bench.check(&[
            ("BluefinGemmGpuMatrixCore", &[("BM", 64), ("BN", 128), ("INSTR", 16)]),
            ("BluefinGemmGpuMatrixCore", &[("BM", 64), ("BN", 128), ("INSTR", 32), ("STAGES", 1), ("VEC", 4)]),
        ]);
    }
}

fn convolutions(direction: Direction, name: &str, solver: &str) {
    for (filter, data_type) in [1, 3].into_iter().zip(SHORT) {
        let problem = conv(direction, filter, 2, data_type, Layout::Nchw);
        let Some(hopper) = Bench::new(name, &problem, "sm_90-132") else { return };
        // A reference takes longer than all that is checked by it.
        let want = hopper.reference();
        hopper.check_against(&want, &[(&format!("{solver}Warpgroup"), SMALL)]);
        if direction != Direction::BackwardWeights || filter != 1 {
            let other = if filter == 1 { "TensorCopy" } else { "WarpgroupChannelsLast" };
            hopper.check_against(&want, &[(&format!("{solver}{other}"), SMALL)]);
        }
        let cdna = Bench::new(name, &problem, "gfx942-304").unwrap();
        cdna.check_against(&want, &[(&format!("{solver}MatrixCore"), &[("BM", 64), ("BN", 128)])]);
    }
    let problem = conv(direction, 3, 2, DataType::Bf16, Layout::Nhwc);
    let hopper = Bench::new(name, &problem, "sm_90-132").unwrap();
    hopper.check(&[
        (&format!("{solver}Warpgroup"), SMALL),
        (&format!("{solver}MatrixCore"), &[("BM", 64), ("BN", 64), ("WM", 2), ("WN", 1), ("STAGES", 3)]),
    ]);
}

#[test]
fn convolution_forward() {
    convolutions(Direction::Forward, "conv-fwd-gpu", "BluefinConvFwdGpu");
}

#[test]
fn convolution_backward() {
    convolutions(Direction::BackwardData, "conv-bwd-gpu", "BluefinConvBwdGpu");
}

#[test]
fn convolution_weights() {
    convolutions(Direction::BackwardWeights, "conv-wrw-gpu", "BluefinConvWrwGpu");
}

/// In one part, weight gradients are written without a kernel that adds up. The sizes are such that copies take four pixels, that a block lays out
/// a part of the channels anew, and that tiles reach over the edge.
#[test]
fn convolution_weights_in_one_part() {
    const WHOLE: &[(&str, i64)] = &[("BM", 64), ("BN", 64), ("WM", 1), ("WN", 1), ("STAGES", 3), ("SPLIT", 1)];
    const PARTS: &[(&str, i64)] = &[("BM", 64), ("BN", 64), ("WM", 1), ("WN", 1), ("STAGES", 3), ("SPLIT", 2)];
    const CDNA: &[(&str, i64)] = &[("BM", 64), ("BN", 128), ("SPLIT", 1)];
    let solver = |name: &str| format!("BluefinConvWrwGpu{name}");
    for ([c, k], size, filter, stride, layout, names) in [
        ([80, 16], 6, 1, 1, Layout::Nchw, &["Warpgroup"][..]),
        ([16, 80], 7, 1, 2, Layout::Nchw, &["WarpgroupChannelsLast"]),
        ([16, 16], 7, 3, 2, Layout::Nchw, &["Warpgroup", "WarpgroupChannelsLast"]),
        ([16, 16], 7, 3, 1, Layout::Nhwc, &["Warpgroup"]),
    ] {
        let shape = ConvShape {
            n: 2,
            c,
            k,
            group: 2,
            input: [1, size, size],
            filter: [1, filter, filter],
            stride: [1, stride, stride],
            pad: [0, filter / 2, filter / 2],
            x_layout: layout,
            w_layout: layout,
            y_layout: layout,
            ..ConvShape::plain(Direction::BackwardWeights, DataType::Fp16)
        };
        let problem = Problem::Conv(ConvProblem::new(shape).unwrap());
        let Some(hopper) = Bench::new("conv-wrw-gpu", &problem, "sm_90-132") else { return };
        let want = hopper.reference();
        for name in names {
            hopper.check_against(&want, &[(&solver(name), WHOLE), (&solver(name), PARTS)]);
        }
        let cdna = Bench::new("conv-wrw-gpu", &problem, "gfx942-304").unwrap();
        cdna.check_against(&want, &[(&solver("MatrixCore"), CDNA)]);
    }
}
