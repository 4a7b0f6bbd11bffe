//! Problem files of all kinds: what is read prints as a driver command that gives the same problem.
#![no_main]

use bluefin_common::problem::{DataType, Direction, Problem};
use bluefin_producer::input::{Overrides, read_problems};
use bluefin_producer::keys::keys;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let list = read_problems("fuzz", text, &Overrides::default());
    for sourced in &list.problems {
        check(&sourced.problem);
    }
    list.messages().for_each(drop);
    keys(text).rows.iter().for_each(|row| drop(row.to_string()));

    let overrides = Overrides {
        batchsizes: vec![1, 3],
        directions: Some(vec![Direction::BackwardData, Direction::BackwardWeights]),
        data_type: Some(DataType::Fp16),
    };
    for sourced in &read_problems("fuzz", text, &overrides).problems {
        check(&sourced.problem);
    }
});

fn check(problem: &Problem) {
    let canonical = problem.canonical();
    let again = read_problems("canonical", canonical.as_bytes(), &Overrides::default());
    assert_eq!(again.rejects, [], "{canonical}");
    assert_eq!(again.problems.iter().map(|one| &one.problem).collect::<Vec<_>>(), [problem], "{canonical}");
    assert!(problem.flops() >= 0.0);
    drop((problem.label(), problem.variables(), problem.digest()));
}
