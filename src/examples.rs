//! Every command line in README, docs, help, the comments of examples and `deploy/` is one that this program takes.

use std::path::Path;

use bluefin_terminal::mituna::{self, Translated};
use bluefin_terminal::spelling;
use bluefin_test_support::examples::{command_lines, of_repository, words};

use super::*;

/// All of them, each with where it stands.
fn all() -> Vec<(String, String)> {
    let mut found = of_repository(Path::new(env!("CARGO_MANIFEST_DIR")));
    let mut verbs = vec![command()];
    while let Some(verb) = verbs.pop() {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let place = format!("{} --help", verb.get_name());
        found.extend(command_lines(&help).into_iter().map(|line| (place.clone(), line)));
        verbs.extend(verb.get_subcommands().cloned());
    }
    // Prose may begin so.
    let is_verb = |line: &str| {
        words(line).get(1).is_some_and(|word| word.starts_with("--") || command().find_subcommand(word).is_some())
    };
    // A search of one's own is another program's.
    found.retain(|(_, line)| is_verb(line) && !line.contains("--search mine"));
    found
}

/// Why `line` is no command line of this program.
fn refused(line: &str) -> Option<String> {
    let mut arguments = spelling::with_two_dashes(words(line).into_iter().map(Into::into));
    match mituna::translate(&arguments) {
        Some(Translated::Command { arguments: ours, .. }) => arguments = ours,
        Some(Translated::Nothing(_) | Translated::Help(_)) => return None,
        Some(Translated::Refused(reason)) => return Some(reason),
        None if version::is_asked(&arguments) => return None,
        None => {}
    }
    let error = command().try_get_matches_from(spelling::as_known(Cli::command(), arguments)).err()?;
    error.use_stderr().then(|| error.to_string().lines().next().unwrap_or_default().to_string())
}

#[test]
fn each_is_a_command_line_and_names_files_that_are_there() {
    let (all, mut wrong) = (all(), Vec::new());
    assert!(all.len() > 200, "found {} examples", all.len());
    for (place, line) in all {
        wrong.extend(refused(&line).map(|reason| format!("{place}: {line}\n    {reason}")));
        let named =
            words(&line).into_iter().filter(|word| word.starts_with("examples/") || word.starts_with("deploy/"));
        let missing = named.filter(|word| !Path::new(env!("CARGO_MANIFEST_DIR")).join(word).exists());
        wrong.extend(missing.map(|word| format!("{place}: {line}\n    {word} is not there")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// As the script's argparse has them (ROCm/triton 4a7afd26, tune_gemm.py).
#[test]
fn every_flag_of_tune_gemm_is_taken_in_both_spellings() {
    let flags = "|-col_a|-col_b|-dtype_a fp16|-dtype_b fp16|-dtype_c fp16|--ngpus 2|--gpu_ids 0,1|\
        --gemm_size_file sizes.yaml|--o out.yaml|--keep|--compare|--compare_wo_tuning|--benchmark|\
        --time_breakdown|--verbose|--num_threads 4|--jobs 4|--iters 10|--init_type hpl|--rotating_tensor 256|\
        --bias_vector|--icache_flush|--no_warmup|--hack_triton_compiler";
    for flag in flags.split('|') {
        let line = format!("bluefin tune-gemm -m 8 -n 8 -k 8 {flag}");
        let hyphens = line.replace('_', "-");
        for line in [line, hyphens] {
            assert_eq!(refused(&line), None, "{line}");
        }
    }
    assert!(refused("bluefin tune-gemm -m 8 -n 8 -k 8 --init_type bad").is_some());
}
