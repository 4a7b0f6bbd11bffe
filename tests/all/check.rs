//! `bluefin check`: kernels for AMD GPUs, executed on the CPU.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// Sizes, strides, pads and groups that divide by nothing.
const PROBLEMS: &str = "\
conv -n 2 -c 5 -H 9 -W 7 -k 7 -y 3 -x 3 -p 1 -q 1 -F 0
conv -n 1 -c 6 -H 11 -W 8 -k 9 -y 3 -x 2 -p 1 -q 0 -u 2 -v 1 -g 3 -F 0
convfp16 -n 2 -c 13 -H 7 -W 9 -k 17 -y 3 -x 3 -p 1 -q 1 -F 0
convfp16 -n 2 -c 12 -H 11 -W 9 -k 20 -y 1 -x 1 -g 2 -F 0
gemm -m 37 -n 29 -k 23
gemm -m 130 -n 67 -k 45
gemmfp16 -m 67 -n 45 -k 51
gemmfp16 -m 130 -n 72 -k 264
";

/// The same in BF16, and with channels innermost.
const OTHERS: &str = "\
conv -n 2 -c 6 -H 9 -W 7 -k 9 -y 3 -x 2 -p 1 -q 0 -u 2 -v 1 -g 3 -F 0 -I NHWC -f NHWC -O NHWC
convfp16 -n 2 -c 8 -H 8 -W 7 -k 12 -y 1 -x 1 -F 0 -I NHWC -f NHWC -O NHWC
convbfp16 -n 2 -c 16 -H 9 -W 8 -k 24 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 2 -F 0 -I NHWC -f NHWC -O NHWC
convbfp16 -n 2 -c 13 -H 7 -W 9 -k 17 -y 3 -x 3 -p 1 -q 1 -F 0
convbfp16 -n 2 -c 16 -H 9 -W 8 -k 16 -y 1 -x 1 -u 2 -v 2 -g 2 -F 0
gemmbfp16 -m 67 -n 45 -k 51
gemmbfp16 -m 130 -n 72 -k 264
";

fn check(folder: &Path, arguments: &[&str], code: i32) -> Value {
    json(&expect(bluefin().current_dir(folder).args(["check", "--json"]).args(arguments), code))
}

/// All candidates that are not right.
fn wrong(report: &Value) -> Vec<&Value> {
    report["candidates"].as_array().unwrap().iter().filter(|one| one["result"] != "right").collect()
}

/// Of each solver and problem, so that each solver has twice as many. Compilers take nine tenths of the time.
const BUDGET: usize = 3;
/// The same of targets that have most instructions in common with others.
const FEW: usize = 2;

fn all_that_is_shipped_is_right(target: &str, budget: usize, solvers: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "problems.txt", PROBLEMS);
    let report = check(folder.path(), &["problems.txt", "--budget", &budget.to_string(), "--target", target], 0);
    assert!(wrong(&report).is_empty(), "{:#?}", wrong(&report));
    let candidates = report["candidates"].as_array().unwrap();
    assert!(candidates.iter().all(|one| one["instructions"].as_u64().is_some_and(|count| count > 10)));
    for solver in solvers {
        let tried = candidates.iter().filter(|one| one["solver"].as_str().unwrap() == format!("Bluefin{solver}"));
        assert!(tried.count() >= 2 * budget, "{solver}");
    }
}

/// Of each solver two candidates in BF16, and two with channels innermost.
fn other_types_and_layouts_are_right(target: &str, solvers: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "others.txt", OTHERS);
    let report = check(folder.path(), &["others.txt", "--budget", "2", "--target", target], 0);
    assert!(wrong(&report).is_empty(), "{:#?}", wrong(&report));
    let candidates = report["candidates"].as_array().unwrap();
    for solver in solvers {
        let tried = |one: &&Value, word: &str| {
            let problem = one["problem"].as_str().unwrap();
            one["solver"].as_str().unwrap() == format!("Bluefin{solver}") && problem.contains(word)
        };
        let count = |word: &str| candidates.iter().filter(|one| tried(one, word)).count();
        assert!(count("BF16") >= 2, "{solver}");
        assert!(solver.starts_with("Gemm") || count("NHWC") >= 2, "{solver}");
    }
}

const SOLVERS: [&str; 7] = [
    "ConvFwdGpuDirect",
    "ConvFwdGpuImplicitGemm",
    "ConvBwdGpuDirect",
    "ConvBwdGpuImplicitGemm",
    "ConvWrwGpuDirect",
    "ConvWrwGpuImplicitGemm",
    "GemmGpuTiled",
];
const WITH_MATRIX_CORES: [&str; 4] =
    ["ConvFwdGpuMatrixCore", "ConvBwdGpuMatrixCore", "ConvWrwGpuMatrixCore", "GemmGpuMatrixCore"];

#[test]
fn all_that_is_shipped_is_right_on_gfx90a() {
    all_that_is_shipped_is_right("gfx90a", BUDGET, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn all_that_is_shipped_is_right_on_gfx942() {
    all_that_is_shipped_is_right("gfx942", BUDGET, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn all_that_is_shipped_is_right_on_gfx1100() {
    all_that_is_shipped_is_right("gfx1100", BUDGET, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn all_that_is_shipped_is_right_on_gfx1201() {
    all_that_is_shipped_is_right("gfx1201", FEW, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn all_that_is_shipped_is_right_on_gfx908() {
    all_that_is_shipped_is_right("gfx908", FEW, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn all_that_is_shipped_is_right_on_gfx1030() {
    all_that_is_shipped_is_right("gfx1030", FEW, &SOLVERS);
}

#[test]
fn all_that_is_shipped_is_right_on_gfx1151() {
    all_that_is_shipped_is_right("gfx1151", FEW, &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn other_types_and_layouts_are_right_on_gfx90a() {
    other_types_and_layouts_are_right("gfx90a", &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn other_types_and_layouts_are_right_on_gfx942() {
    other_types_and_layouts_are_right("gfx942", &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

#[test]
fn other_types_and_layouts_are_right_on_gfx1100() {
    other_types_and_layouts_are_right("gfx1100", &[&SOLVERS[..], &WITH_MATRIX_CORES].concat());
}

/// The example, with `from` in its source replaced by `to`.
fn row_sums(folder: &Path, from: &str, to: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let source = std::fs::read_to_string(examples.join("row_sums.hip")).unwrap();
    assert!(source.contains(from), "{from}");
    write(folder, "row_sums.hip", &source.replace(from, to));
    let spec = std::fs::read_to_string(examples.join("row_sums.toml")).unwrap();
    write(folder, "row_sums.toml", &spec)
}

#[test]
fn a_kernel_of_ones_own_is_checked_and_what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--kernel", "row_sums.toml", "--size", "rows=5,columns=301", "--target", "gfx942"];
    row_sums(folder.path(), "sum += row", "sum += row");
    let report = check(folder.path(), &arguments, 0);
    assert_eq!((report["right"].as_u64(), wrong(&report).len()), (Some(17), 0), "{report:#}");
    assert_eq!(report["target"], "gfx942-304");
    for (from, to, result, detail) in [
        ("if (column < columns) sum", "if (column <= columns) sum", "fault", "element 1505 of matrix (1505 elements"),
        ("sums[block_x()] = parts[0]", "sums[block_x() + 1] = parts[0]", "fault", "element 5 of sums"),
        ("    parts[thread_x()] = sum;\n    barrier();\n", "    parts[thread_x()] = sum;\n", "fault", "race"),
        ("    parts[thread_x()] = sum;\n", "", "fault", "a value that nobody wrote"),
        (
            "sums[block_x()] = parts[0]",
            "sums[block_x()] = parts[0] + 1",
            "wrong_result",
            "output sums: element 0: found",
        ),
        ("if (thread_x() == 0) sums", "if (thread_x() == 0 && block_x()) sums", "output_not_written", "element 0"),
        ("half /= 2) {", "half /= 1) {", "hang", "more than 100000 instructions"),
    ] {
        row_sums(folder.path(), from, to);
        let limited = [&arguments[..], &["--budget", "4", "--max-instructions", "100000"]].concat();
        let report = check(folder.path(), &limited, 1);
        let wrong = wrong(&report);
        assert!(!wrong.is_empty(), "{to}");
        for one in wrong {
            assert_eq!(one["solver"], "RowSumsTree", "{one:#}");
            let told = one["detail"].as_str().unwrap();
            assert!(one["result"] == result && told.contains(detail), "{to}: {one:#}");
        }
    }
    // For people, the same.
    let shown = text(
        &expect(
            bluefin().current_dir(folder.path()).arg("check").args(arguments).args(["--max-instructions", "100000"]),
            1,
        )
        .stdout,
    );
    assert!(
        shown.contains("RowSumsTree") && shown.contains("hang: row_sums_tree: more than 100000 instructions"),
        "{shown}"
    );
}

/// A spec of a folder that can not be loaded keeps nobody from the others; where there is no other, it is the error.
#[test]
fn one_spec_of_a_folder_that_is_torn_is_named_and_the_rest_checked() {
    let folder = tempfile::tempdir().unwrap();
    for kernel in ["a", "b"] {
        std::fs::create_dir_all(folder.path().join("kernels").join(kernel)).unwrap();
    }
    let own = folder.path().join("kernels/a");
    let spec = std::fs::read_to_string(row_sums(&own, "sum += row", "sum += row")).unwrap();
    write(&own, "spec.toml", &spec.replace("rows = 4096\ncolumns = 4096", "rows = 5\ncolumns = 301"));
    write(&folder.path().join("kernels/b"), "spec.toml", "name = \"torn\"\nproblem = \"kern");
    let arguments = ["check", "--triton", "kernels", "--target", "gfx942"];
    let found = expect(bluefin().current_dir(folder.path()).args(arguments), 1);
    let (said, table) = (text(&found.stderr), text(&found.stdout));
    assert!(said.contains("rejected: --kernel kernels/b/spec.toml: ") && table.contains("RowSums"), "{said}\n{table}");
    assert!(!table.contains("wrong_result"), "{table}");
    std::fs::remove_dir_all(folder.path().join("kernels/a")).unwrap();
    let error = text(&expect(bluefin().current_dir(folder.path()).args(arguments), 1).stderr);
    assert!(error.contains("error: --kernel kernels/b/spec.toml: ") && !error.contains("rejected"), "{error}");
}

/// Nothing is right of a kernel that leaves all of its outputs as they were; one that leaves some of them is told to.
#[test]
fn what_is_left_as_it_was_is_not_tried() {
    let folder = tempfile::tempdir().unwrap();
    let source = "__global__ void none(float* x, int n) { if (x[threadIdx.x] > 2) x[threadIdx.x] = n; }\n\
        __global__ void one(float* x, float* y, int n) { if (x[threadIdx.x] > 2) x[threadIdx.x] = n; y[threadIdx.x] += n; }\n";
    write(folder.path(), "k.cu", source);
    expect(bluefin().current_dir(folder.path()).args(["init", "k.cu"]), 0);
    let report = check(folder.path(), &["--kernel", "k_none.toml", "--target", "gfx942"], 1);
    let none = &report["candidates"][0];
    assert_eq!(none["result"], "output_not_written", "{report:#}");
    assert!(none["detail"].as_str().unwrap().contains("no element of x was changed: these inputs try nothing"));
    let report = check(folder.path(), &["--kernel", "k_one.toml", "--target", "gfx942"], 0);
    assert_eq!(report["candidates"][0]["unchanged"], serde_json::json!(["x"]), "{report:#}");
}

#[test]
fn what_can_not_be_executed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "problems.txt", PROBLEMS);
    for (target, reason) in [
        ("sm_90-132", "can not be executed, expected one of gfx90a"),
        ("gfx906-60", "can not be executed"),
        ("host", "can not be executed"),
        ("gfx942-", "gfx942-"),
    ] {
        let output =
            expect(bluefin().current_dir(folder.path()).args(["check", "problems.txt", "--target", target]), 2);
        assert!(text(&output.stderr).contains(reason), "{target}: {}", text(&output.stderr));
    }
}

/// Of each guard of each kernel: whether leaving it out is found.
#[test]
fn what_keeps_a_kernel_right_is_left_out_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    row_sums(folder.path(), "sum += row", "sum += row");
    for target in ["gfx90a", "gfx942", "gfx1100"] {
        let arguments =
            ["--kernel", "row_sums.toml", "--size", "rows=5,columns=301", "--target", target, "--budget", "4"];
        let report = check(folder.path(), &[&arguments[..], &["--mutate"]].concat(), 0);
        let count = |of: &str| report["mutants"][of].as_u64().unwrap();
        let (found, missed) = (count("found"), count("missed"));
        // The last steps of the tree are one wave's, which needs no barrier, and bounds keep lanes from what nobody reads.
        assert!(found > 60 && count("spare") > 10 && missed == 0, "{target}: {report:#}");
        let rows: Vec<&Value> = report["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|one| one["mutants"].as_array().into_iter().flatten())
            .collect();
        for guard in ["wait", "barrier", "bound"] {
            let row = rows.iter().find(|row| row["guard"] == guard && row["outcome"] == "found");
            let row = row.unwrap_or_else(|| panic!("{target}: no {guard} is found"));
            assert!(
                row["detail"].is_string() && row["instruction"].as_str().unwrap().starts_with(['s', 'v']),
                "{row:#}"
            );
        }
        let all = found + missed + count("idle") + count("covered") + count("spare");
        assert_eq!(rows.len() as u64, all, "{target}");
    }
    let told = text(
        &expect(
            bluefin()
                .current_dir(folder.path())
                .args(["check", "--kernel", "row_sums.toml", "--target", "gfx942"])
                .args(["--size", "rows=5,columns=301", "--budget", "1", "--mutate"]),
            0,
        )
        .stdout,
    );
    assert!(told.contains("waits, barriers and bounds are found ("), "{told}");
}
