//! MITuna's command lines: `bluefin miopen import_configs ...` and the like become bluefin's own, and what has no effect here is
//! named in a line each.

use std::ffi::OsString;

/// The library that MITuna's command lines begin with.
const LIBRARY: &str = "miopen";
/// Subcommands and scripts of MITuna's that bluefin has by the same name.
const SUBCOMMANDS: [&str; 6] = ["import_configs", "load_job", "export_db", "update_golden", "import_db", "merge_db"];

/// What a command line of MITuna's comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Translated {
    /// Another command line, and what is to be said about it.
    Command {
        /// The program's name, and what follows it.
        arguments: Vec<OsString>,
        /// Lines for standard error.
        notes: Vec<String>,
    },
    /// Nothing is to be done, and why.
    Nothing(Vec<String>),
    /// What was asked for, for standard output.
    Help(String),
    /// It has no counterpart.
    Refused(String),
}

/// How MITuna's lines are written, what each comes to, and the verb whose help tells more.
const HELP: [(&str, &str, &str); 15] = [
    (
        "import_configs",
        "-f FILE [-t TAG] [-b N,...] [-c convfp16] [-C batch_norm] [--mark_recurrent]",
        "problems import",
    ),
    ("load_job", "--session_id S -t TAG -l LABEL [-a ALGORITHM] [-s SOLVER] [--fin_steps STEP,...]", "enqueue"),
    ("export_db", "--session_id S [-f|-k|-p] [--golden_v NAME [--filename DIR]]", "export, release export"),
    ("import_db", "-t FILE", "problems import"),
    ("merge_db", "-m MASTER -t TARGET [-f] [--keep_keys]", "db merge"),
    ("update_golden", "--golden_v NAME [--base_golden_v BASE] [--session_id S] [-o]", "release create"),
    ("--init_session", "-l LABEL", "session new"),
    ("--update_solvers", "", "solvers update"),
    ("--list_solvers", "", "solvers list"),
    ("--update_applicability", "--session_id S [-l TAG]", "applicability update"),
    ("--fin_steps", "miopen_perf_compile|miopen_find_compile", "compile-worker --toolchain fin"),
    ("--fin_steps", "miopen_perf_eval|miopen_find_eval", "eval-worker"),
    ("--status", "", "status"),
    ("--shutdown_workers", "", "nothing: SIGTERM drains a worker"),
    ("--add_tables", "", "nothing: a store is made when it is first used"),
];

/// The lines of [`HELP`] that are about `verb`, or all.
fn help(verb: Option<&str>) -> Translated {
    let told = HELP.iter().filter(|(name, ..)| verb.is_none_or(|verb| verb == *name));
    let told = told.map(|(name, flags, ours)| match verb {
        None => format!("  {name} {flags}\n      {ours}"),
        Some(_) => format!("Usage: bluefin {name} {flags}\n\nIt becomes `bluefin {ours}`, whose --help tells more."),
    });
    let lines: Vec<String> = told.collect();
    Translated::Help(match verb {
        None => format!(
            "MITuna's command lines, and the verb of bluefin's that each becomes; docs/from-mituna.md tells more\n\n\
             Usage: bluefin {LIBRARY} VERB ...\n\n{}",
            lines.join("\n")
        ),
        Some(_) => format!("A command line of MITuna's\n\n{}", lines.join("\n")),
    })
}

/// Whether help is asked for, as MITuna's parser takes it.
fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| matches!(word.as_str(), "-h" | "--help"))
}

/// A flag that takes a value, or none, and why it has no effect.
struct Ignored {
    names: &'static [&'static str],
    takes_value: bool,
    why: &'static str,
}

const fn ignored(names: &'static [&'static str], takes_value: bool, why: &'static str) -> Ignored {
    Ignored { names, takes_value, why }
}

const TAG_SAYS: &str = "the tag is named after the model, and where a problem was met is kept with it";

/// Of all of MITuna's verbs.
const ALWAYS: [Ignored; 6] = [
    ignored(&["-i", "--reset_interval"], true, "it had no effect"),
    ignored(&["--gpu_lim"], true, "it had no effect; a worker is told its devices: eval-worker --device"),
    ignored(&["--solver_id"], true, "it had no effect"),
    ignored(&["--remote_machine"], false, "workers are started where they are to run"),
    ignored(&["-m", "--machines"], true, "workers are started where they are to run"),
    ignored(&["-v", "--verbose"], false, "BLUEFIN_LOG=debug says more"),
];

const OF_IMPORT: [Ignored; 11] = [
    ignored(&["-m", "--model"], true, TAG_SAYS),
    ignored(&["--md_version"], true, TAG_SAYS),
    ignored(&["-F", "--framework"], true, TAG_SAYS),
    ignored(&["--fw_version"], true, TAG_SAYS),
    ignored(&["-g", "--gpu_count"], true, TAG_SAYS),
    ignored(&["--batchsize"], true, "it describes a model and changes no problem: -b does"),
    ignored(&["--add_benchmark"], false, "there is no table of benchmarks"),
    ignored(&["-d", "--driver"], true, "of benchmarks alone: -f reads driver commands from a file"),
    ignored(&["--add_model"], true, "there is no table of models"),
    ignored(&["--add_framework"], true, "there is no table of frameworks"),
    ignored(&["--print_models"], false, "there is no table of models: bluefin problems tag list"),
];

const OF_LOAD: [Ignored; 2] = [
    ignored(&["-o", "--only_applicable"], false, "only solvers that apply get jobs, always"),
    ignored(
        &["-c", "--cmd"],
        true,
        "import the problems in that precision under a tag of their own: import_configs -c",
    ),
];

const OF_IMPORT_DB: [Ignored; 3] = [
    ignored(&["--rocm_v"], true, "problems are of no release"),
    ignored(&["--miopen_v"], true, "problems are of no release"),
    ignored(&["--session_id"], true, "problems alone are imported: bluefin db merge merges records"),
];

const OF_MERGE_DB: [Ignored; 1] =
    [ignored(&["-c", "--check_duplicate"], false, "bluefin db check tells of keys that a file has twice")];

const OF_EXPORT: [Ignored; 1] = [ignored(&["-c", "--opencl"], false, "MIOpen has no OpenCL any more")];

/// What `arguments`, the first of which is the program, come to. `None`: they are not MITuna's.
#[must_use]
pub fn translate(arguments: &[OsString]) -> Option<Translated> {
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let first = words.first()?;
    let program = arguments.first()?.clone();
    if first == LIBRARY {
        return Some(of_library(program, words.get(1..).unwrap_or_default()));
    }
    SUBCOMMANDS.contains(&first.as_str()).then(|| of_subcommand(program, first, words.get(1..).unwrap_or_default()))
}

fn of_library(program: OsString, words: &[String]) -> Translated {
    let named = words.iter().position(|word| SUBCOMMANDS.contains(&word.as_str()));
    if let Some(at) = named {
        // Flags of the library may stand before.
        let (before, rest) = words.split_at(at);
        let (verb, behind) = rest.split_first().map_or(("", rest), |(verb, behind)| (verb.as_str(), behind));
        return of_subcommand(program, verb, &[before, behind].concat());
    }
    if asks_for_help(words) {
        return help(None);
    }
    let (words, notes) = without(words, ALWAYS.iter());
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_str()));
    let rest =
        |flags: &[&str]| words.iter().filter(|word| !flags.contains(&word.as_str())).cloned().collect::<Vec<_>>();
    let nothing = |why: &str| Translated::Nothing([notes.clone(), vec![why.to_string()]].concat());
    let verb = |verb: &[&str], rest: Vec<String>, notes: Vec<String>| command(&program, verb, rest, notes);
    if has(&["--add_tables"]) {
        return nothing("--add_tables: a store is made when it is first used");
    }
    if has(&["--init_session"]) {
        return verb(&["session", "new"], rest(&["--init_session"]), notes);
    }
    if has(&["--update_solvers"]) {
        return verb(&["solvers", "update"], rest(&["--update_solvers"]), notes);
    }
    if has(&["--list_solvers"]) {
        return verb(&["solvers", "list"], rest(&["--list_solvers"]), notes);
    }
    if has(&["--update_applicability"]) {
        // There its label is a tag.
        let tagged = rest(&["--update_applicability"]).into_iter().map(|word| match word.as_str() {
            "-l" | "--label" => "--tag".to_string(),
            _ => word,
        });
        return verb(&["applicability", "update"], tagged.collect(), notes);
    }
    if has(&["--shutdown_workers"]) {
        return nothing(
            "--shutdown_workers: send a worker SIGTERM and it drains; bluefin session pause keeps the jobs of a session",
        );
    }
    if has(&["-s", "--status"]) {
        return verb(&["status"], rest(&["-s", "--status"]), notes);
    }
    if has(&["-r", "--restart", "-e", "--exec"]) {
        return Translated::Refused("--restart and --exec: bluefin reaches no other machine".to_string());
    }
    if has(&["--enqueue_only"]) {
        return nothing(
            "--enqueue_only: load_job has put the jobs into their queues, and find jobs follow perf jobs by themselves",
        );
    }
    let step = value_of(&words, "--fin_steps");
    let role = match step.as_deref() {
        Some(step) if step.ends_with("_compile") => "compile-worker",
        Some(step) if step.ends_with("_eval") => "eval-worker",
        _ => {
            return Translated::Refused(format!(
                "found {:?}, expected a verb of MITuna's: docs/from-mituna.md names each",
                words.join(" ")
            ));
        }
    };
    let all = "--session_id: a worker serves all sessions and stages that fit it";
    let notes = [notes, vec![all.to_string()]].concat();
    command(
        &program,
        &[role],
        if role == "compile-worker" { vec!["--toolchain".into(), "fin".into()] } else { Vec::new() },
        notes,
    )
}

fn of_subcommand(program: OsString, verb: &str, words: &[String]) -> Translated {
    // The others are verbs of bluefin's by that name, with a help of their own.
    if matches!(verb, "import_db" | "merge_db" | "update_golden") && asks_for_help(words) {
        return help(Some(verb));
    }
    match verb {
        "import_configs" => {
            let (rest, notes) =
                without(words, OF_IMPORT.iter().chain(ALWAYS.iter().filter(|one| one.names != ["-m", "--machines"])));
            if !rest.iter().any(|word| ["-f", "--file_name", "--file"].contains(&word.as_str())) && !notes.is_empty() {
                return Translated::Nothing(notes);
            }
            with_tag(&program, rest, notes)
        }
        "import_db" => {
            let (rest, notes) = without(words, OF_IMPORT_DB.iter().chain(ALWAYS.iter()));
            let Some(file) = value_of(&rest, "--target_file").or_else(|| value_of(&rest, "-t")) else {
                return Translated::Refused("import_db: -t FILE is not given: the database to import".to_string());
            };
            with_tag(&program, vec!["-f".to_string(), file], notes)
        }
        "merge_db" => merge(&program, words),
        "load_job" => {
            let (rest, notes) = without(words, OF_LOAD.iter().chain(ALWAYS.iter()));
            // "a, b" is one word there.
            let mut steps = false;
            let rest = rest.into_iter().map(|word| {
                let is_value = std::mem::replace(&mut steps, word == "--fin_steps");
                if is_value { word.replace(' ', "") } else { word }
            });
            command(&program, &["load_job"], rest.collect(), notes)
        }
        "export_db" => {
            let (rest, notes) = without(words, OF_EXPORT.iter().chain(ALWAYS.iter()));
            match value_of(&rest, "--golden_v") {
                None => command(&program, &["export_db"], rest, notes),
                Some(release) => {
                    let folder = value_of(&rest, "--filename").unwrap_or_else(|| "out".to_string());
                    let note = "--golden_v: a release holds whole files, which are all written".to_string();
                    let rest = vec![release, "--output".to_string(), folder];
                    command(&program, &["release", "export"], rest, [notes, vec![note]].concat())
                }
            }
        }
        _ => golden(&program, words),
    }
}

/// `import_configs`: problems without a tag get one that is named after their first file.
fn with_tag(program: &OsString, mut words: Vec<String>, mut notes: Vec<String>) -> Translated {
    let is_tag = |word: &String| word.starts_with("-t") || word == "--tag" || word.starts_with("--tag=");
    let file = ["-f", "--file_name", "--file"].into_iter().find_map(|flag| value_of(&words, flag));
    if let Some(file) = file.filter(|_| !words.iter().any(is_tag)) {
        let tag = tag_of(&file);
        notes.push(format!("-t is not given: the problems get the tag {tag}, after their file"));
        words.extend(["-t".to_string(), tag]);
    }
    command(program, &["import_configs"], words, notes)
}

/// A tag named after a file: `all` for `lists/all.txt`.
fn tag_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let tag: String = stem.chars().map(plain).skip_while(|c| *c == '-').take(60).collect();
    if tag.is_empty() { "imported".to_string() } else { tag }
}

/// `merge_db`: the target comes to the master, in a file of the master's name in this folder.
fn merge(program: &OsString, words: &[String]) -> Translated {
    let (words, notes) = without(words, OF_MERGE_DB.iter());
    let has = |flags: [&str; 2]| words.iter().any(|word| flags.contains(&word.as_str()));
    if has(["-o", "--copy_only"]) {
        return Translated::Refused("merge_db --copy_only: bluefin reaches no other machine".to_string());
    }
    let value = |flags: [&str; 2]| flags.into_iter().find_map(|flag| value_of(&words, flag));
    let (Some(master), Some(target)) = (value(["-m", "--master_file"]), value(["-t", "--target_file"])) else {
        return Translated::Refused("merge_db: expected -m MASTER and -t TARGET, two databases".to_string());
    };
    // Of a find db the target's record stands for the master's, of the others each row.
    let replaces = has(["-f", "--find_db"]) && !words.iter().any(|word| word == "--keep_keys");
    let policy = if replaces { "replace" } else { "newest" };
    let out = master.rsplit('/').next().unwrap_or(&master).to_string();
    let rest = ["--policy", policy, "-o", &out, &master, &target].map(str::to_string).to_vec();
    command(program, &["db", "merge"], rest, notes)
}

/// `update_golden`: a release of a base and a session.
fn golden(program: &OsString, words: &[String]) -> Translated {
    let (words, mut notes) = without(words, ALWAYS.iter());
    let Some(release) = value_of(&words, "--golden_v") else {
        return Translated::Refused("update_golden: --golden_v N is not given: it names the release".to_string());
    };
    let mut rest = vec![release];
    if let Some(base) = value_of(&words, "--base_golden_v") {
        rest.extend(["--from".to_string(), base]);
    }
    if let Some(session) = value_of(&words, "--session_id") {
        rest.extend(["--session".to_string(), session]);
    }
    let overwrites = words.iter().any(|word| ["-o", "--overwrite"].contains(&word.as_str()));
    if overwrites {
        rest.extend(["--policy".to_string(), "replace".to_string()]);
        notes.push("--overwrite: what the session has replaces the base's; a release itself never changes".to_string());
    }
    if words.iter().any(|word| word == "--create_perf_table") {
        notes.push("--create_perf_table: bluefin release diff A B compares releases".to_string());
    }
    command(program, &["release", "create"], rest, notes)
}

fn command(program: &OsString, verb: &[&str], rest: Vec<String>, notes: Vec<String>) -> Translated {
    let verb = verb.iter().map(OsString::from);
    let arguments = std::iter::once(program.clone()).chain(verb).chain(rest.into_iter().map(OsString::from)).collect();
    Translated::Command { arguments, notes }
}

/// What stands behind `flag`.
fn value_of(words: &[String], flag: &str) -> Option<String> {
    let joined = format!("{flag}=");
    let at = words.iter().position(|word| word == flag || word.starts_with(&joined))?;
    let word = words.get(at)?;
    word.strip_prefix(&joined).map(str::to_string).or_else(|| words.get(at + 1).cloned())
}

/// `words` without what is ignored, and a note for each flag of that.
fn without<'a>(words: &[String], ignored: impl Iterator<Item = &'a Ignored> + Clone) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        match ignored.clone().find(|one| one.names.contains(&name)) {
            None => kept.push(word.clone()),
            Some(one) => {
                if one.takes_value && !word.contains('=') {
                    words.next();
                }
                notes.push(format!("{name}: ignored: {}", one.why));
            }
        }
    }
    (kept, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Translated> {
        let words: Vec<OsString> = std::iter::once("bluefin").chain(line.split('|')).map(OsString::from).collect();
        translate(&words)
    }

    fn becomes(line: &str) -> (String, usize) {
        match of(line) {
            Some(Translated::Command { arguments, notes }) => {
                let words: Vec<_> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
                (words.join(" "), notes.len())
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn lines_of_the_tutorial_become_verbs() {
        for (line, verb, notes) in [
            ("miopen|--init_session|-l|reason", "session new -l reason", 0),
            ("miopen|--update_solvers", "solvers update", 0),
            ("miopen|--update_applicability|--session_id|1|-l|r", "applicability update --session_id 1 --tag r", 0),
            (
                "miopen|import_configs|-t|r|--mark_recurrent|-f|c.txt|--model|Resnet50|--md_version|1|--framework|Pytorch|--fw_version|1",
                "import_configs -t r --mark_recurrent -f c.txt",
                4,
            ),
            (
                "miopen|load_job|--session_id|1|-t|r|-l|reason|-o|--fin_steps|miopen_perf_compile, miopen_perf_eval",
                "load_job --session_id 1 -t r -l reason --fin_steps miopen_perf_compile,miopen_perf_eval",
                1,
            ),
            ("miopen|--fin_steps|miopen_perf_compile|--session_id|1", "compile-worker --toolchain fin", 1),
            ("miopen|--fin_steps=miopen_find_eval|--session_id|1", "eval-worker", 1),
            ("miopen|export_db|--session_id|1|-f|-c", "export_db --session_id 1 -f", 1),
            ("export_db|--golden_v|3", "release export 3 --output out", 1),
            (
                "miopen|update_golden|--session_id|1|--golden_v|2|--base_golden_v|1|-o",
                "release create 2 --from 1 --session 1 --policy replace",
                1,
            ),
            ("load_job|-t|r|-d|--session_id|1", "load_job -t r -d --session_id 1", 0),
            ("import_configs|-f|lists/all.txt", "import_configs -f lists/all.txt -t all", 1),
            ("miopen|import_configs|-f|c.txt|-t|r|-b|16,32|--batchsize|8", "import_configs -f c.txt -t r -b 16,32", 1),
            (
                "import_db|-t|db/gfx90a68.HIP.fdb.txt|--rocm_v|6.3|--miopen_v|3.3|--session_id|1",
                "import_configs -f db/gfx90a68.HIP.fdb.txt -t gfx90a68",
                4,
            ),
            (
                "merge_db|-f|-m|a/x.HIP.fdb.txt|-t|b.fdb.txt",
                "db merge --policy replace -o x.HIP.fdb.txt a/x.HIP.fdb.txt b.fdb.txt",
                0,
            ),
            (
                "miopen|merge_db|-f|--keep_keys|-m|a/x.HIP.fdb.txt|-t|b.fdb.txt",
                "db merge --policy newest -o x.HIP.fdb.txt a/x.HIP.fdb.txt b.fdb.txt",
                0,
            ),
            ("merge_db|-b|-c|-m|a/x.kdb|-t|b.kdb", "db merge --policy newest -o x.kdb a/x.kdb b.kdb", 1),
        ] {
            assert_eq!(becomes(line), (verb.to_string(), notes), "{line}");
        }
    }

    #[test]
    fn what_is_nothing_here_says_so() {
        for line in [
            "miopen|--add_tables",
            "miopen|import_configs|--add_model|Resnet50|--md_version|1",
            "miopen|import_configs|--add_framework|Pytorch",
            "miopen|import_configs|--add_benchmark|-m|r|-d|./bin/MIOpenDriver conv -n 1|-g|8",
            "miopen|--fin_steps|miopen_perf_compile|--session_id|1|--enqueue_only",
        ] {
            assert!(matches!(of(line), Some(Translated::Nothing(notes)) if !notes.is_empty()), "{line}");
        }
        for line in [
            "miopen",
            "miopen|-e|ls",
            "miopen|--fin_steps|not_fin",
            "update_golden|-o",
            "import_db",
            "merge_db|-o|-f|-m|a|-t|b",
            "merge_db|-f|-m|a",
        ] {
            assert!(matches!(of(line), Some(Translated::Refused(_))), "{line}");
        }
        for (line, found) in [
            ("miopen|--help", "  merge_db -m MASTER -t TARGET [-f] [--keep_keys]"),
            ("miopen|merge_db|-h", "Usage: bluefin merge_db -m MASTER -t TARGET"),
            ("import_db|--help", "`bluefin problems import`"),
            ("update_golden|--help", "--golden_v NAME"),
        ] {
            assert!(matches!(of(line), Some(Translated::Help(text)) if text.contains(found)), "{line}: {:?}", of(line));
        }
        for verb in SUBCOMMANDS {
            assert!(HELP.iter().any(|(name, ..)| *name == verb), "{verb}");
        }
        for line in ["tune|a.txt", "enqueue|--session|miopen"] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
