//! Reads problems: lists of driver commands, MIOpen's logs, lines of find and perf databases, YAML lists of GEMM sizes and
//! JSON objects, all of which may be mixed in one file; and perf databases in SQLite. Any of it may be packed by bzip2. A line
//! that cannot be read is rejected with its number; the rest is not affected.

mod change;
mod file;
mod gemm_sizes;
mod line;
mod object;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use bluefin_common::problem::Problem;
use bluefin_miopen::db::perf_db;

pub use change::Overrides;
pub use file::{InputError, MAX_FILE, read_bytes, read_list};
pub(crate) use line::{Content, DRIVER, LOG_MARK, driver_command, implied_direction, lines};

use bluefin_common::problem::driver::{self, Asked};
use bluefin_miopen::key::{FindDbKey, KeyError, PerfDbKey, PerfKeyError, batch_norm};

/// Longest line that is looked at. MIOpen's commands and find-db lines stay far below.
pub const MAX_LINE: usize = 64 * 1024;
/// How much of a rejected line is kept.
const MAX_SHOWN: usize = 120;

/// A problem and where it was found first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced {
    /// The problem.
    pub problem: Problem,
    /// Its first line, counted from 1.
    pub line: usize,
    /// How often the input asks for it.
    pub count: usize,
}

/// A line that gives no problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Counted from 1.
    pub line: usize,
    /// The line, cut short.
    pub text: String,
    /// Why.
    pub reason: String,
}

impl Reject {
    pub(crate) fn new(line: usize, text: &[u8], reason: impl fmt::Display) -> Self {
        let text = String::from_utf8_lossy(text.get(..4 * MAX_SHOWN).unwrap_or(text));
        Self { line, text: text.trim().chars().take(MAX_SHOWN).collect(), reason: reason.to_string() }
    }
}

/// What an input holds: each problem once, in the order of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProblemList {
    /// Name of the input, for messages.
    pub name: String,
    /// The problems.
    pub problems: Vec<Sourced>,
    /// Lines that should have given problems and do not.
    pub rejects: Vec<Reject>,
    /// What was left aside of commands and why, with the first line that has it and in how many lines.
    pub left_aside: BTreeMap<String, (usize, usize)>,
    /// Sizes that commands do not give, as the driver has them, in the same way.
    pub filled_up: BTreeMap<String, (usize, usize)>,
    /// Lines of a log that have nothing to do with problems.
    pub skipped: usize,
}

impl ProblemList {
    /// One note for each thing that was left aside.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let often = |count: usize| if count > 1 { format!(", in {count} lines") } else { String::new() };
        let left_aside = self.left_aside.iter().map(move |(what, (line, count))| {
            format!("{}:{line}: note: {what}, and was left aside{}", self.name, often(*count))
        });
        let filled_up = self.filled_up.iter().map(move |(what, (line, count))| {
            let often = often(*count);
            format!(
                "{}:{line}: note: sizes are missing; MIOpenDriver's defaults are taken: {what}{often}. Was the line cut off?",
                self.name
            )
        });
        left_aside.chain(filled_up)
    }

    /// One message for each rejected line: `name:line: reason`.
    pub fn messages(&self) -> impl Iterator<Item = String> {
        self.rejects.iter().map(|reject| format!("{}:{}: {}: {:?}", self.name, reject.line, reject.reason, reject.text))
    }
}

/// The problems of a file, or of standard input if the path is `-`.
///
/// # Errors
/// What kept the file from being read; wrong lines are in the list.
pub fn read_file(path: &Path, overrides: &Overrides) -> Result<ProblemList, InputError> {
    read_input(&path.to_string_lossy(), &read_bytes(path)?, overrides)
}

/// The problems of the bytes of a file. `name` is for messages.
///
/// # Errors
/// A database that can not be read; wrong lines are in the list.
pub fn read_input(name: &str, bytes: &[u8], overrides: &Overrides) -> Result<ProblemList, InputError> {
    if file::is_sqlite(bytes) {
        read_database(name, bytes, overrides)
    } else {
        let list = read_problems(name, bytes, overrides);
        // A log that a crash has torn has zeros in it as well, and lines that can be read.
        if list.problems.is_empty() && file::is_no_text(bytes) {
            return Err(InputError::NotText { name: name.to_string() });
        }
        Ok(list)
    }
}

/// The problems of a text. `name` is for messages.
#[must_use]
pub fn read_problems(name: &str, text: &[u8], overrides: &Overrides) -> ProblemList {
    let mut list = Collector::new(name, overrides);
    for line in lines(text) {
        match line.content {
            Content::Skipped => list.list.skipped += 1,
            content => {
                let asked = asked_of(&content);
                if let Ok(asked) = &asked {
                    list.note(line.number, asked);
                }
                list.add(line.number, line.bytes, asked.map(|asked| asked.problems));
            }
        }
    }
    list.list
}

/// The problems of a perf database in SQLite; their lines are counted rows.
fn read_database(name: &str, bytes: &[u8], overrides: &Overrides) -> Result<ProblemList, InputError> {
    let mut list = Collector::new(name, overrides);
    let keys = perf_db::keys(name, bytes)?;
    for (number, key) in keys.iter().enumerate() {
        list.add(number + 1, key.as_bytes(), problem_of_perf_key(key).map(|problem| vec![problem]));
    }
    Ok(list.list)
}

/// Collects problems, each once.
struct Collector<'a> {
    list: ProblemList,
    overrides: &'a Overrides,
    places: HashMap<Problem, usize>,
}

impl<'a> Collector<'a> {
    fn new(name: &str, overrides: &'a Overrides) -> Self {
        let list = ProblemList { name: name.to_string(), ..ProblemList::default() };
        Self { list, overrides, places: HashMap::new() }
    }

    fn note(&mut self, line: usize, asked: &Asked) {
        for what in &asked.left_aside {
            self.list.left_aside.entry(what.clone()).or_insert((line, 0)).1 += 1;
        }
        if let Some(what) = &asked.filled_up {
            self.list.filled_up.entry(what.clone()).or_insert((line, 0)).1 += 1;
        }
    }

    /// Takes what was read from a line.
    #[expect(clippy::indexing_slicing, reason = "places are those of problems")]
    fn add(&mut self, line: usize, bytes: &[u8], read: Result<Vec<Problem>, String>) {
        let problems = match read.and_then(|problems| self.overrides.apply(problems)) {
            Ok(problems) => problems,
            Err(reason) => return self.list.rejects.push(Reject::new(line, bytes, reason)),
        };
        for problem in problems {
            match self.places.entry(problem) {
                Entry::Occupied(place) => self.list.problems[*place.get()].count += 1,
                Entry::Vacant(place) => {
                    let problem = place.key().clone();
                    place.insert(self.list.problems.len());
                    self.list.problems.push(Sourced { problem, line, count: 1 });
                }
            }
        }
    }
}

/// The problems that a line asks for.
pub(crate) fn problems_of(content: &Content<'_>) -> Result<Vec<Problem>, String> {
    asked_of(content).map(|asked| asked.problems)
}

fn asked_of(content: &Content<'_>) -> Result<Asked, String> {
    let problems = match *content {
        Content::Skipped => Ok(Vec::new()),
        Content::Wrong(ref reason) => Err(reason.clone()),
        Content::Command { command, implied } => {
            return driver::read(command, implied).map_err(|error| error.to_string());
        }
        Content::Key(key) => problem_of_key(key).map(|problem| vec![problem]),
        Content::PerfKey(key) => problem_of_perf_key(key).map(|problem| vec![problem]),
        Content::GemmSize(size) => gemm_sizes::parse(size).map(|problem| vec![problem]),
        Content::Object(object) => object::problems(object),
    };
    problems.map(|problems| Asked { problems, left_aside: Vec::new(), filled_up: None })
}

/// The problem of a find-db key.
fn problem_of_key(key: &str) -> Result<Problem, String> {
    let key = FindDbKey::parse(key).map_err(|error| error.to_string())?;
    key.problem().map(Problem::Conv).map_err(|error| error.to_string())
}

/// The problem of a perf-db key in the text form, of a convolution or of a batch norm.
fn problem_of_perf_key(key: &str) -> Result<Problem, String> {
    if key.split('x').count() == BATCH_NORM_FIELDS {
        return batch_norm::problem(key).map(Problem::BatchNorm).map_err(|error| error.to_string());
    }
    let key: PerfDbKey = key.parse().map_err(|error: PerfKeyError| error.to_string())?;
    // It is read by way of the other kind of key.
    let renamed = |error: KeyError| error.to_string().replacen("find-db key", "perf-db key", 1);
    key.problem().map(Problem::Conv).map_err(renamed)
}

/// Fields of a perf-db key of a batch norm; one of a convolution has 24.
const BATCH_NORM_FIELDS: usize = 13;

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::problem::{DataType, Direction};

    fn read(text: &str) -> ProblemList {
        read_problems("list.txt", text.as_bytes(), &Overrides::default())
    }

    #[test]
    fn flags_of_newer_drivers_are_left_aside() {
        let list = read(
            "conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1 --new_switch 1 -J -M 7\n\
             conv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1 -J 1\n\
             conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 --fil_wide 3 -F 1\n",
        );
        assert_eq!(list.problems.len(), 2);
        assert_eq!(
            list.notes().collect::<Vec<_>>(),
            [
                "list.txt:1: note: the flag \"--new_switch\" is not known, and was left aside",
                "list.txt:1: note: the flag \"-J\" is not known, and was left aside, in 2 lines",
                "list.txt:1: note: the flag \"-M\" is not known, and was left aside",
            ]
        );
        let reason = &list.rejects[0].reason;
        assert_eq!(reason, "driver command: conv has no flag \"--fil_wide\", and fil_w is not given");
    }

    /// Two lines of MITuna's list of recurrent problems end so, one of them with a tab behind it.
    #[test]
    fn a_flag_of_the_run_without_a_value_rejects_nothing() {
        let list = read(
            "./bin/MIOpenDriver conv -n 128 -c 768 -H 17 -W 17 -k 160 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t \n\
             ./bin/MIOpenDriver conv -n 128 -c 160 -H 17 -W 17 -k 192 -y 1 -x 7 -p 0 -q 3 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2 -t \t\n\
             MIOpenDriver conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -t -i often -F 1\n\
             MIOpenDriver conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -t 1 -F\n",
        );
        let problems: Vec<String> = list.problems.iter().map(|sourced| sourced.problem.label()).collect();
        assert_eq!(
            problems,
            [
                "conv F 768x17x17 k160 1x1 s1 n128 FP32",
                "conv B 160x17x17 k192 1x7 s1 n128 FP32",
                "conv F 8x9x9 k8 3x3 s1 n1 FP32",
            ]
        );
        let note = "list.txt:1: note: the flag \"-t\" has no value, and was left aside, in 3 lines";
        assert_eq!(list.notes().collect::<Vec<_>>(), [note]);
        assert_eq!(list.rejects[0].reason, "driver command: flag -F has no value");
    }

    /// As people keep them: quoted, in a pipe, with what a shell makes of them.
    #[test]
    fn a_command_ends_where_a_shell_sees_its_end() {
        let command = "./bin/MIOpenDriver conv -n 40 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 1";
        let plain = read(command);
        assert_eq!((plain.problems.len(), plain.rejects.len()), (1, 0));
        for form in [
            "\"{}\"",
            "- `{}`",
            "'{}'",
            "$ {}",
            "> {} ;\\",
            "{} 2>&1 | tee log.txt",
            "{} > /dev/null",
            "{}; echo done",
            "({})",
            "{} && ls",
            "{} # the slow one",
            "{} \\",
            "root@host:/# A=1 {} -t 1 -S -88 >>log",
            "[{}]",
            "{} # not ./bin/MIOpenDriver conv -n 2",
            "{} > MIOpenDriver.log",
        ] {
            let list = read(&form.replace("{}", command));
            assert_eq!((&list.problems, list.rejects.len()), (&plain.problems, 0), "{form}: {:?}", list.rejects);
        }
        let quoted = read(&command.replace("./bin/MIOpenDriver", "'/opt/my rocm/MIOpenDriver'"));
        assert_eq!((&quoted.problems, quoted.rejects.len()), (&plain.problems, 0), "{:?}", quoted.rejects);
        for between in ["; ", " && ", " | tee log; A=1 "] {
            let both = read(&[command, between, &command.replace("-n 40", "-n 41")].concat());
            assert_eq!((both.problems.len(), both.rejects.len()), (2, 0), "{between}: {:?}", both.rejects);
        }
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let list = read(
            "# a comment\r\n\r\n\
             ./bin/MIOpenDriver conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 1\r\n\
             conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 5\n\
             MIOpenDriver.exe gemm -m 8\n\
             8-9-9-3x3-8-7-7-1-0x0-1x1-1x1-0-NCHW-FP32-F=miopenConvolutionFwdAlgoDirect:A,1,0,x,not used\n\
             kernel saxpy n=4\n\
             - {'M': 1, 'N': 2, 'K': 3, 'rowMajorA': 'T', 'rowMajorB': 'N'}\n\
             2x8x9x9x1x3x3x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm3x3U:7,8,4\n\
             2x1x8x9x9x1x0x0x0xNHWCxInfxFP16x1=Bn:1\n\
             {\"problem\": \"conv -n 1 -c 8 -H 9 -W 9 -k 8 -F 1\", \"digest\": \"x\"}",
        );
        assert_eq!(list.rejects, []);
        let found: Vec<_> = list.problems.iter().map(|one| (one.line, one.count, one.problem.label())).collect();
        let expected = [
            (3, 5, "conv F 8x9x9 k8 3x3 s1 n1 FP32"),
            (4, 1, "conv W 8x9x9 k8 3x3 s1 n1 FP32"),
            (5, 1, "gemm NN 8x256x256 FP32"),
            (7, 1, "kernel saxpy n=4"),
            (8, 1, "gemm NT 1x2x3 FP16"),
            (10, 1, "bnorm Inf spatial 8x9x9 n1 NHWC FP16"),
        ];
        assert_eq!(found, expected.map(|(line, count, label)| (line, count, label.to_string())));
    }

    #[test]
    fn a_program_is_no_list_and_a_log_that_a_crash_has_torn_is_one() {
        let read = |bytes: &[u8]| read_input("list.txt", bytes, &Overrides::default());
        let refused = read(b"\x7fELF\0\0\nx\n").unwrap_err().to_string();
        assert_eq!(refused, "list.txt: found bytes that are no text, expected a list of problems");
        let torn = read(b"conv -n 1\0\0\0\0\nconv -n 2 -c 8 -H 8 -W 8 -k 8 -F 1\n").unwrap();
        assert_eq!((torn.problems.len(), torn.rejects.len()), (1, 1));
    }

    #[test]
    fn wrong_lines_are_rejected_alone() {
        let long = format!("conv -n {}", "1".repeat(MAX_LINE));
        let text = [
            b"conv -n 12x\nhello\nconv -F 1\nconv \xff\n8-9-9\n./bin/MIOpenDriver\nbnorm -n 1\n",
            long.as_bytes(),
            b"\n- {'M': 1}",
        ]
        .concat();
        let list = read_problems("list.txt", &text, &Overrides::default());
        let found: Vec<String> = list.messages().map(|message| message.chars().take(60).collect()).collect();
        assert_eq!(
            found,
            [
                "list.txt:1: driver command: batchsize: found \"12x\", expected",
                "list.txt:2: found neither a driver command nor a key of a da",
                "list.txt:4: not UTF-8 at byte 6: \"conv \u{fffd}\"",
                "list.txt:5: find-db key: in size: found the end of the key, ",
                "list.txt:6: driver command: found nothing, expected a base w",
                "list.txt:7: driver command: forw: found \"0 with back 0\", exp",
                "list.txt:8: found 65544 bytes, expected at most 65536: \"conv",
                "list.txt:9: GEMM size: found no N, expected M, N and K: \"- {",
            ]
        );
        assert_eq!(list.problems.len(), 1);
    }

    #[test]
    fn a_log_may_hold_anything_between_its_commands() {
        let log = "Loading the model\n\
                   MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1  -c 8 -F 1 -t 1\n\
                   12 34 MIOpen(HIP)   0.004: Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -n 1 -m 1 --forw 1 -b 0 --layout NCHW\n\
                   MIOpen(HIP): Command [LogCmdFusion] ./bin/MIOpenDriver CBAInfer -n 1\n\
                   MIOpen(HIP): Info [SetStream] stream: 0, device_id: 0\n\
                   epoch 1: 0.3\n";
        let list = read(log);
        assert_eq!((list.problems.len(), list.rejects.len(), list.skipped), (2, 1, 3));
        assert_eq!(list.rejects[0].line, 4);
        let list = read("MIOpen(HIP): Info [SetStream]\n");
        assert_eq!((list.problems.len(), list.rejects.len(), list.skipped), (0, 0, 1));
    }

    #[test]
    fn the_function_that_logged_a_command_tells_its_direction() {
        let directions = |line| {
            let letters = |one: &Sourced| match &one.problem {
                Problem::Conv(conv) => conv.direction.letter(),
                other => panic!("{other}"),
            };
            read(line).problems.iter().map(letters).collect::<String>()
        };
        assert_eq!(directions("miopenConvolutionForward: ./bin/MIOpenDriver conv -n 1"), "F");
        assert_eq!(directions("miopenConvolutionBackwardData: ./bin/MIOpenDriver conv -n 1"), "B");
        assert_eq!(directions("miopenFindConvolutionBackwardWeightsAlgorithm: ./bin/MIOpenDriver conv -n 1"), "W");
        assert_eq!(directions("miopenConvolutionForward: ./bin/MIOpenDriver conv -n 1 -F 2"), "B");
        assert_eq!(directions("something: ./bin/MIOpenDriver conv -n 1"), "FBW");
    }

    #[test]
    fn overrides_change_every_problem() {
        let overrides = Overrides {
            batchsizes: vec![1, 16],
            directions: Some(vec![Direction::Forward, Direction::BackwardWeights]),
            data_type: Some(DataType::Fp16),
        };
        let text = b"conv -c 8 -k 8\nconv -m trans -c 8 -k 4\ngemm -m 2\nbnorm -b 1\nconv -c 2000000000 -H 20000 -W 20000 -n 1";
        let list = read_problems("list.txt", text, &overrides);
        let labels: Vec<String> = list.problems.iter().map(|one| one.problem.label()).collect();
        assert_eq!(
            labels,
            [
                "conv F 8x32x32 k8 3x3 s1 n1 FP16",
                "conv F 8x32x32 k8 3x3 s1 n16 FP16",
                "conv W 8x32x32 k8 3x3 s1 n1 FP16",
                "conv W 8x32x32 k8 3x3 s1 n16 FP16",
                "conv B 4x34x34 k8 3x3 s1 n1 FP16 trans",
                "conv B 4x34x34 k8 3x3 s1 n16 FP16 trans",
                "conv W 4x34x34 k8 3x3 s1 n1 FP16 trans",
                "conv W 4x34x34 k8 3x3 s1 n16 FP16 trans",
                "gemm NN 2x256x256 FP16",
                "bnorm Bwd activation 3x32x32 n1 FP16",
                "bnorm Bwd activation 3x32x32 n16 FP16",
            ]
        );
        assert_eq!(list.rejects.len(), 1);
        assert!(list.rejects[0].reason.contains("elements of x"), "{:?}", list.rejects);
    }
}
