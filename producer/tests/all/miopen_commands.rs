//! Driver commands against what MIOpen itself says, and against the lists that its users keep.

use bluefin_common::problem::{Direction, NormDirection, Problem};
use bluefin_producer::input::{Overrides, ProblemList, read_problems};
use bluefin_producer::keys::keys;
use bluefin_test_support::{data, data_text};

fn read(name: &str) -> ProblemList {
    read_problems(name, &data(name), &Overrides::default())
}

/// Problems of a list, and how many lines asked for them.
fn counts(list: &ProblemList) -> (usize, usize) {
    (list.problems.len(), list.problems.iter().map(|one| one.count).sum())
}

#[test]
fn keys_are_those_of_miopen() {
    let text = data_text("miopen/keys.tsv");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let commands: Vec<&str> = rows.iter().map(|row| row.split('\t').next().unwrap()).collect();
    let table = keys(commands.join("\n").as_bytes());
    assert_eq!(table.rejects, []);
    assert_eq!(table.rows.iter().map(ToString::to_string).collect::<Vec<_>>(), rows);
    assert_eq!(rows.len(), 379);
}

/// Different problems, problems asked for (three for a line that leaves the direction open), and the lines that ask for
/// a pooling.
type Expected = (usize, usize, &'static [usize]);

#[test]
fn lists_of_users_are_read_whole() {
    let expected: [(&str, Expected); 7] = [
        ("driver/alexnet.txt", (14, 14, &[15, 16, 17])),
        ("driver/conv_configs_NHWC.txt", (5, 5, &[])),
        ("driver/mituna_tests_all.txt", (979, 1007, &[141])),
        ("driver/resnet50.txt", (59, 59, &[60])),
        ("driver/resnet50_pytorch.txt", (60, 60, &[])),
        ("driver/resnext101_pytorch.txt", (56, 72, &[])),
        ("driver/truncated.txt", (1, 1, &[])),
    ];
    for (name, (different, asked, poolings)) in expected {
        let list = read(name);
        assert_eq!(counts(&list), (different, asked), "{name}");
        assert_eq!(list.skipped, 0, "{name}");
        assert_eq!(list.rejects.iter().map(|reject| reject.line).collect::<Vec<_>>(), poolings, "{name}");
        let reason = "driver command: operation pool is not supported yet, expected conv, bnorm, gemm or kernel";
        assert!(list.rejects.iter().all(|reject| reject.reason == reason), "{name}");
    }
}

#[test]
fn directions_come_from_the_logging_function() {
    let list = read("driver/resnext101_pytorch.txt");
    let count = |direction| {
        let is = |problem: &Problem| matches!(problem, Problem::Conv(conv) if conv.direction == direction);
        list.problems.iter().filter(|one| is(&one.problem)).count()
    };
    let found = Direction::ALL.map(count);
    assert_eq!(found, [19, 18, 19]);
}

#[test]
fn batch_norms_are_read_in_one_direction_each() {
    let list = read("driver/batch_norm.txt");
    assert_eq!(list.rejects, []);
    assert_eq!(counts(&list), (28, 28));
    let count = |direction| {
        let is = |problem: &Problem| matches!(problem, Problem::BatchNorm(norm) if norm.direction == direction);
        list.problems.iter().filter(|one| is(&one.problem)).count()
    };
    assert_eq!(NormDirection::ALL.map(count), [12, 4, 12]);
    let table = keys(&data("driver/batch_norm.txt"));
    assert_eq!((table.rows.len(), table.rejects.len()), (28, 0));
    let Some(row) = table.rows.first() else { panic!("no row") };
    assert_eq!(row.perf_db_key, "2x256x1024x14x14x1x0x0x0xNCHWxBwdxFP16x1");
}

#[test]
fn gemm_sizes_are_read() {
    for name in ["gemm/tuning_gemm_sizes.yaml", "gemm/fallback_tuned_configs.yaml"] {
        let list = read(name);
        assert_eq!(list.rejects, [], "{name}");
        assert_eq!(counts(&list).1, 63, "{name}");
    }
}
