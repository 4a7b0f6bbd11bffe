//! The entries that check on the device, on the CPU: what they make is what the host makes.

use std::path::Path;
use std::process::Command;

use bluefin_common::problem::DataType;
use bluefin_common::task::{Buffer, Content, Role};

use crate::layout::Layout;

/// One thread does the work of all.
const HARNESS: &str = r#"
#include <cstdio>
#include <cstdlib>
#include <vector>
static int __nvvm_read_ptx_sreg_tid_x() { return 0; }
static int __nvvm_read_ptx_sreg_ctaid_x() { return 0; }
static void __syncthreads() {}
#include "check.hip"
int main(int words_count, char** words) {
    const int type = atoi(words[1]);
    const long long elements = atoll(words[2]);
    const unsigned long long seed = strtoull(words[3], nullptr, 10);
    const size_t bytes = elements * atoi(words[4]);
    std::vector<unsigned char> random(bytes + 16, 0xEE), copy(bytes + 16, 0xEE);
    if (words_count > 5) bluefin_range(random.data(), elements, type, seed, atof(words[5]), atof(words[6]), 1);
    else bluefin_random(random.data(), elements, type, seed, 1);
    bluefin_copy(copy.data(), random.data(), bytes, 1);
    fwrite(copy.data(), 1, bytes + 16, stdout);
    unsigned long long report[2] = {};
    // A block's threads clear a sum each: one thread clears the first alone, and nothing is counted in the second.
    bluefin_same(copy.data(), random.data(), bytes, report, 1);
    bluefin_close(copy.data(), random.data(), elements, type, 0, 0, report, 1);
    return report[0] == bytes + elements && report[1] == 0 ? 0 : 1;
}
"#;

#[test]
fn inputs_made_on_the_device_are_those_made_on_the_host() {
    let Some(compiler) = ["clang++-19", "clang++"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
    else {
        return bluefin_test_support::left_out("no clang++ to run the entries on the CPU with");
    };
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compile-worker/src/check.hip");
    std::fs::copy(source, folder.path().join("check.hip")).unwrap();
    std::fs::write(folder.path().join("harness.cpp"), HARNESS).unwrap();
    let program = folder.path().join("harness");
    let compiled = Command::new(compiler)
        .args(["-x", "c++", "-std=c++17", "-O1", "-w", "harness.cpp", "-o", "harness"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

    let types = [
        DataType::Fp64,
        DataType::Fp32,
        DataType::Fp16,
        DataType::Bf16,
        DataType::Int8,
        DataType::Int32,
        DataType::Int64,
        DataType::Fp8,
        DataType::Bf8,
        DataType::Fp8Fnuz,
        DataType::Bf8Fnuz,
    ];
    for data_type in types.into_iter().chain(DataType::OF_BUFFERS) {
        let range = Some((-3.1, 0.007)).filter(|_| data_type.integers().is_none());
        for (seed, length) in [(0_u64, 1_u64), (7, 1001), (u64::MAX, 40_000)] {
            check(&program, data_type, (seed, length), None);
            range.into_iter().for_each(|range| check(&program, data_type, (seed, length), Some(range)));
        }
    }
}

/// Elements that are random, or uniform in a range.
fn check(program: &Path, data_type: DataType, (seed, length): (u64, u64), range: Option<(f64, f64)>) {
    let content = range.map_or(Content::Random, |(low, high)| Content::Uniform { low, high });
    let buffers = [Buffer { name: "x".to_string(), data_type, length, role: Role::Input, content }];
    let layout = Layout::of(&buffers).unwrap();
    let set = layout.filled(&buffers, seed);
    let (start, end) = layout.ranges().next().unwrap();
    let number = data_type.code();
    let output = Command::new(program)
        .args([number.to_string(), length.to_string(), seed.to_string(), data_type.size().to_string()])
        .args(range.into_iter().flat_map(|(low, high)| [low.to_string(), high.to_string()]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{data_type}: not found equal to itself");
    let (made, behind) = output.stdout.split_at((end - start) as usize);
    assert!(made == &set[start as usize..end as usize], "{data_type}, seed {seed}, {length} elements, {range:?}");
    assert_eq!(behind, [0xEE; 16], "{data_type}: written beyond the end");
}
