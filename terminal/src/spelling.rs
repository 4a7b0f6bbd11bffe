//! Flags with underscores in place of hyphens, and the other way about, or with one dash: the scripts whose command lines are understood
//! have each.

use std::ffi::OsString;

use clap::{Arg, Command};

/// `arguments` with each long flag as `command`, or the subcommand that it is for, spells it.
#[must_use]
pub fn as_known(mut command: Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    // Until then subcommands do not have the flags that all of them take.
    command.build();
    let mut verb = &command;
    for argument in arguments.iter_mut().skip(1) {
        let Some(text) = argument.to_str() else { continue };
        if text == "--" {
            break;
        }
        let Some(flag) = text.strip_prefix("--") else {
            verb = verb.find_subcommand(text).unwrap_or(verb);
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        if let Some(known) = known(verb, name) {
            *argument = value.map_or(format!("--{known}"), |value| format!("--{known}={value}")).into();
        }
    }
    arguments
}

/// The spelling of `name`, if it is not that already.
fn known(verb: &Command, name: &str) -> Option<String> {
    let spellings = || verb.get_arguments().flat_map(longs);
    if spellings().any(|known| known == name) {
        return None;
    }
    let alike = |text: &str| text.replace('_', "-");
    spellings().find(|known| alike(known) == alike(name)).map(str::to_string)
}

fn longs(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default())
}

/// Flags that tune_gemm.py has with one dash.
const ONE_DASH: [&str; 5] = ["-col_a", "-col_b", "-dtype_a", "-dtype_b", "-dtype_c"];

/// The command line with two dashes where it is of `tune-gemm`.
#[must_use]
pub fn with_two_dashes(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let ours = arguments.iter().position(|argument| argument == "tune-gemm");
    for argument in arguments.iter_mut().skip(ours.map_or(usize::MAX, |at| at + 1)) {
        let text = argument.to_string_lossy();
        let name = text.split('=').next().unwrap_or_default();
        // `-col-a` as `-col_a`: all dashes but the first.
        if ONE_DASH.contains(&name.replace('-', "_").replacen('_', "-", 1).as_str()) {
            *argument = format!("-{text}").into();
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_taken() {
        let flags = ["dry-run", "dtype_a", "level"].map(|name| Arg::new(name).long(name).num_args(0..=1));
        let verb = Command::new("do").args(flags);
        let command =
            Command::new("bluefin").arg(Arg::new("log-level").long("log-level").global(true)).subcommand(verb);
        let read = |line: &str| {
            let arguments = line.split(' ').map(OsString::from).collect();
            as_known(command.clone(), arguments).join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(read("bluefin do --dry_run --dtype-a=x_y --level"), "bluefin do --dry-run --dtype_a=x_y --level");
        assert_eq!(read("bluefin --log_level=1 do --log_level"), "bluefin --log-level=1 do --log-level");
        let others = "bluefin do --other_one -- --dry_run";
        assert_eq!(read(others), others, "errors tell of what was written, and programs have flags of their own");
        assert_eq!(read("bluefin --dry_run"), "bluefin --dry_run", "it is a verb's");
    }

    #[test]
    fn only_the_scripts_flags_get_a_second_dash() {
        let line = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let found = with_two_dashes(line("bluefin tune-gemm -m 5 -col_a -dtype_a bf16 --col_b -dtype-c=fp32"));
        assert_eq!(found, line("bluefin tune-gemm -m 5 --col_a --dtype_a bf16 --col_b --dtype-c=fp32"));
        let other = line("bluefin check -col_a");
        assert_eq!(with_two_dashes(other.clone()), other);
    }
}
