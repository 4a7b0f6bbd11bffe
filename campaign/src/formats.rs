//! `--format` of `export`: the formats that a build knows, and what is made of one of them for programs with Triton's kernels.

use bluefin_exporter::FormatName;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::known::known;

/// What `--format` calls the files that programs with Triton's kernels read: they are made of what is in `triton.json`, and of captures.
const TRITON_CACHE: &str = "triton-cache";
/// The format of `triton.json`.
const TRITON: &str = "triton";

/// `--format NAME,...`, and the flags of formats that have one.
pub struct FormatArgs {
    names: Vec<FormatName>,
    /// Whether [`TRITON_CACHE`] is one of them.
    wants_cache: bool,
}

impl FormatArgs {
    /// The formats that are asked for, where captures are named or not. None: all formats.
    ///
    /// # Errors
    /// What programs read is asked for without their captures.
    pub fn chosen(&self, has_captures: bool) -> Result<Vec<FormatName>, String> {
        if self.wants_cache && !has_captures {
            return Err(format!("--format {TRITON_CACHE}: name the folders of bluefin capture --triton by --triton"));
        }
        let mut names = self.names.clone();
        // What programs read is made of that.
        if has_captures && !names.is_empty() {
            names.extend(known().formats.named(TRITON));
        }
        Ok(names)
    }
}

/// A name of `--format`.
#[derive(Clone, Copy)]
struct Named {
    format: FormatName,
    is_cache: bool,
}

impl Named {
    fn of(text: &str) -> Result<Self, String> {
        let is_cache = text == TRITON_CACHE;
        let format = known().formats.named(if is_cache { TRITON } else { text });
        format.map(|format| Self { format, is_cache }).map_err(|error| format!("{error}, {TRITON_CACHE}"))
    }
}

impl clap::Args for FormatArgs {
    fn augment_args(command: Command) -> Command {
        let all = known().formats.all();
        let names: Vec<_> = all.iter().map(|format| format.name()).collect();
        let named = Arg::new("format")
            .long("format")
            .value_name("NAME,...")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(ValueParser::new(Named::of))
            .help(format!("What to write, any of {}, {TRITON_CACHE} (with --triton)", names.join(", ")));
        all.iter().fold(command.arg(named), |command, format| match format.flag() {
            Some(flag) => {
                let (name, about) = (format.name(), format.about());
                command.arg(Arg::new(name).long(name).short(flag).action(ArgAction::SetTrue).help(about))
            }
            None => command,
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FormatArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let named: Vec<Named> = matches.get_many("format").into_iter().flatten().copied().collect();
        let wants_cache = named.iter().any(|named| named.is_cache);
        let mut names: Vec<_> = named.iter().map(|named| named.format).collect();
        for format in known().formats.all().iter().filter(|format| format.flag().is_some()) {
            if matches.get_flag(format.name()) {
                names.extend(known().formats.named(format.name()));
            }
        }
        Ok(Self { names, wants_cache })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
