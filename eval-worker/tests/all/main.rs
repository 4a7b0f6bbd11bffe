//! The eval worker from the outside, as one program. It is its own child process, so it has a `main` of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod child;
mod device;
mod evaluator;
mod hip;
mod hip_faults;
mod killed;
mod leaving;
mod support;
mod worker;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use support::Test;

const MODULES: [(&str, &[Test]); 8] = [
    ("child", child::TESTS),
    ("device", device::TESTS),
    ("evaluator", evaluator::TESTS),
    ("hip", hip::TESTS),
    ("hip_faults", hip_faults::TESTS),
    ("killed", killed::TESTS),
    ("leaving", leaving::TESTS),
    ("worker", worker::TESTS),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, list, interface] = arguments.as_slice()
        && (verb.as_str(), list.as_str()) == ("eval-child", "--list")
    {
        return bluefin_eval_worker::inventory::print(interface);
    }
    if arguments.first().is_some_and(|verb| verb == "eval-child") {
        let device = arguments.iter().skip_while(|argument| *argument != "--device").nth(1);
        return bluefin_eval_worker::child::main(device.map_or("host", String::as_str));
    }
    let trial = |module: &str, (name, test): Test| {
        Trial::test(format!("{module}::{name}"), move || {
            test();
            Ok(())
        })
    };
    let trials = MODULES.iter().flat_map(|(module, tests)| tests.iter().map(|test| trial(module, *test)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
