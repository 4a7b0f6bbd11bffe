//! The verbs of a command line: in groups by what they are for, and as shells and `man` are told of them.

use std::io;
use std::path::Path;

use clap::Command;
use clap::builder::Resettable;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// Columns that help takes without a terminal, and with a wide one.
const WIDTH: usize = 80;
/// Columns in front of what a verb does: two, its name, two.
const MARGIN: usize = 4;

/// Verbs that are for the same thing.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are for.
    pub title: &'static str,
    /// Their names, in the order that help has.
    pub verbs: &'static [&'static str],
}

/// `command`, whose help has its verbs by group.
#[must_use]
pub fn grouped(command: Command, groups: &[Group]) -> Command {
    let names = groups.iter().flat_map(|group| group.verbs);
    let margin = MARGIN + names.map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Group { title, verbs } in groups {
        text.push_str(&format!("{title}:\n"));
        for verb in verbs.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let name = format!("  {}  ", verb.get_name());
            text.push_str(&format!("{name:<margin$}{}\n", shortened(&about, WIDTH - margin)));
        }
        text.push('\n');
    }
    // Braces would be read as names.
    let text = text.replace(['{', '}'], "");
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

/// Verbs that people see and no group has, and names in groups that are no verbs.
#[must_use]
pub fn ungrouped(command: &Command, groups: &[Group]) -> Vec<String> {
    let named = || groups.iter().flat_map(|group| group.verbs);
    let seen = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
    let missing = seen.filter(|name| named().filter(|named| *named == name).count() != 1).map(str::to_string);
    let unknown = named().filter(|name| command.find_subcommand(name).is_none()).map(ToString::to_string);
    missing.chain(unknown).collect()
}

/// As much of a sentence as fits: up to its colon, or a comma.
fn shortened(about: &str, width: usize) -> &str {
    let about = about.split_once(':').map_or(about, |(before, _)| before);
    let mut short = about;
    while short.chars().count() > width {
        match short.rsplit_once(", ") {
            Some((before, _)) => short = before,
            None => break,
        }
    }
    short
}

/// What `shell` completes `command` by.
#[must_use]
pub fn completions(mut command: Command, shell: Shell) -> String {
    let (name, mut text) = (command.get_name().to_string(), Vec::new());
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes a page of the manual for `command` and each of its verbs that people see.
///
/// # Errors
/// The folder can not be written.
pub fn write_manual(command: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| write_pages(verb, folder))?;
    let mut told = command.clone();
    let usage = told.render_usage().to_string();
    let name = told.get_bin_name().unwrap_or_else(|| told.get_name()).to_string();
    let usage = usage.split_once(&name).map(|(_, usage)| format!("{name}{usage}")).unwrap_or(usage);
    let examples = command.get_after_help().map(ToString::to_string);
    let page = Man::new(told.override_usage(usage).after_help(Resettable::Reset));
    let mut file = std::fs::File::create(folder.join(page.get_filename()))?;
    page.render(&mut file)?;
    if let Some(examples) = examples {
        // As they are: lines that are filled can not be copied.
        let mut roff = Roff::new();
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines().filter(|line| !["Example:", "Examples:"].contains(line)) {
            roff.text([roman(line)]);
        }
        roff.control("fi", []).to_writer(&mut file)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GROUPS: [Group; 2] =
        [Group { title: "Do", verbs: &["run", "stop"] }, Group { title: "Look", verbs: &["status"] }];

    fn command() -> Command {
        let verb = |name: &'static str, about: &'static str| Command::new(name).about(about);
        Command::new("tool").about("Does things").subcommands([
            verb("run", "Run a {thing}: fast, slowly, or not at all").after_help("Example:\n  tool run --fast"),
            verb("stop", "Stop"),
            verb("status", "Show"),
            verb("hidden", "Nobody sees this").hide(true),
        ])
    }

    #[test]
    fn verbs_stand_by_what_they_are_for() {
        let help = grouped(command(), &GROUPS).render_help().to_string();
        let expected = "Does things\n\nUsage: tool [COMMAND]\n\nDo:\n  run     Run a thing\n  stop    Stop\n\nLook:\n  status  Show\n\n";
        assert!(help.starts_with(expected), "{help}");
        assert!(!help.contains("hidden"));
    }

    #[test]
    fn what_is_in_no_group_or_in_two_is_told() {
        assert_eq!(ungrouped(&command(), &GROUPS), Vec::<String>::new());
        assert_eq!(ungrouped(&command(), &GROUPS[..1]), ["status"]);
        let twice = [GROUPS[0], GROUPS[1], Group { title: "Again", verbs: &["run", "walk"] }];
        assert_eq!(ungrouped(&command(), &twice), ["run", "walk"]);
    }

    #[test]
    fn a_sentence_is_cut_where_it_may_end() {
        for (about, short) in [("Do it", "Do it"), ("Do it, then that, and more", "Do it, then that"), ("Do: it", "Do")]
        {
            assert_eq!(shortened(about, 20), short);
        }
        assert_eq!(shortened("No place to cut this sentence at", 20), "No place to cut this sentence at");
    }

    #[test]
    fn there_is_a_page_for_each_verb() {
        let folder = std::env::temp_dir().join(format!("bluefin-manual-{}", std::process::id()));
        write_manual(command(), &folder).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
        let page = std::fs::read_to_string(folder.join("tool-run.1")).unwrap();
        assert!(
            page.contains(".SH EXAMPLES\n.nf\n  tool run \\-\\-fast\n.fi\n") && page.contains("tool run"),
            "{page}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(page.contains("fast, slowly, or not at all"), "{page}");
        assert!(completions(command(), Shell::Bash).contains("status"));
    }
}
