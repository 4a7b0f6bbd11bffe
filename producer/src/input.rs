//! Reads problems: lists of driver commands, MIOpen's logs, find-db lines and YAML lists of GEMM sizes, all of which
//! may be mixed in one file. A line that cannot be read is rejected with its number; the rest is not affected.

mod gemm_sizes;
mod line;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bluefin_common::problem::{BatchNormProblem, ConvProblem, DataType, Direction, FindDbKey, Problem};

pub(crate) use line::{Content, lines};

use crate::driver;

/// Longest line that is looked at. MIOpen's commands and find-db lines stay far below.
pub const MAX_LINE: usize = 64 * 1024;
/// Largest file that is read: several times the largest find database that MIOpen ships.
pub const MAX_FILE: u64 = 256 * 1024 * 1024;
/// How much of a rejected line is kept.
const MAX_SHOWN: usize = 120;

/// What to change in every problem that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Each convolution and batch norm once with each of these batch sizes; as it is when there are none.
    pub batchsizes: Vec<u32>,
    /// Each convolution in these directions, whatever its line says.
    pub directions: Option<Vec<Direction>>,
    /// Each convolution, batch norm and GEMM on this type.
    pub data_type: Option<DataType>,
}

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
        let text = String::from_utf8_lossy(&text[..text.len().min(4 * MAX_SHOWN)]);
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
    /// Lines of a log that have nothing to do with problems.
    pub skipped: usize,
}

impl ProblemList {
    /// One message for each rejected line: `name:line: reason`.
    pub fn messages(&self) -> impl Iterator<Item = String> {
        self.rejects.iter().map(|reject| format!("{}:{}: {}: {:?}", self.name, reject.line, reject.reason, reject.text))
    }
}

/// Why an input could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system would not give it.
    #[error("{name}: {source}")]
    Read {
        /// The path, or `-`.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is longer than any list of problems.
    #[error("{name}: found more than {limit} bytes, expected a list of problems")]
    TooLarge {
        /// The path, or `-`.
        name: String,
        /// The limit that it exceeds.
        limit: u64,
    },
}

/// The problems of a file, or of standard input if the path is `-`.
///
/// # Errors
/// What kept the file from being read; wrong lines are in the list.
pub fn read_file(path: &Path, overrides: &Overrides) -> Result<ProblemList, InputError> {
    Ok(read_problems(&path.to_string_lossy(), &read_bytes(path)?, overrides))
}

/// The bytes of a file, or of standard input if the path is `-`, up to [`MAX_FILE`].
///
/// # Errors
/// What kept the file from being read.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, InputError> {
    read_at_most(path, MAX_FILE)
}

fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let name = || path.to_string_lossy().into_owned();
    let failed = |source| InputError::Read { name: name(), source };
    let mut bytes = Vec::new();
    // One byte more than allowed tells that there is more.
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).map_err(failed)?.take(limit + 1).read_to_end(&mut bytes)
    };
    if read.map_err(failed)? as u64 > limit {
        return Err(InputError::TooLarge { name: name(), limit });
    }
    Ok(bytes)
}

/// The problems of a text. `name` is for messages.
#[must_use]
pub fn read_problems(name: &str, text: &[u8], overrides: &Overrides) -> ProblemList {
    let mut list = ProblemList { name: name.to_string(), ..ProblemList::default() };
    let mut places: HashMap<Problem, usize> = HashMap::new();
    for line in lines(text) {
        let read = match line.content {
            Content::Skipped => {
                list.skipped += 1;
                continue;
            }
            Content::Wrong(reason) => Err(reason),
            Content::Command { command, implied } => driver::parse(command, implied).map_err(|error| error.to_string()),
            Content::Key(key) => problem_of_key(key).map(|problem| vec![problem]),
            Content::GemmSize(size) => gemm_sizes::parse(size).map(|problem| vec![problem]),
        };
        match read.and_then(|problems| apply(problems, overrides)) {
            Err(reason) => list.rejects.push(Reject::new(line.number, line.bytes, reason)),
            Ok(problems) => {
                for problem in problems {
                    match places.entry(problem) {
                        Entry::Occupied(place) => list.problems[*place.get()].count += 1,
                        Entry::Vacant(place) => {
                            let problem = place.key().clone();
                            place.insert(list.problems.len());
                            list.problems.push(Sourced { problem, line: line.number, count: 1 });
                        }
                    }
                }
            }
        }
    }
    list
}

/// The problem of a find-db key.
pub(crate) fn problem_of_key(key: &str) -> Result<Problem, String> {
    let key = FindDbKey::parse(key).map_err(|error| error.to_string())?;
    ConvProblem::from_find_db_key(&key).map(Problem::Conv).map_err(|error| error.to_string())
}

/// The problems of one line as the overrides want them.
fn apply(problems: Vec<Problem>, overrides: &Overrides) -> Result<Vec<Problem>, String> {
    let mut changed = Vec::new();
    for (index, problem) in problems.into_iter().enumerate() {
        match problem {
            Problem::Conv(conv) => {
                let conv = match overrides.data_type {
                    Some(data_type) => conv.with_type(data_type),
                    None => conv,
                };
                let directed: Vec<ConvProblem> = match &overrides.directions {
                    // The problems of a line differ in nothing but their direction.
                    Some(_) if index > 0 => Vec::new(),
                    Some(directions) => directions.iter().map(|one| conv.clone().with_direction(*one)).collect(),
                    None => vec![conv],
                };
                for conv in directed {
                    if overrides.batchsizes.is_empty() {
                        changed.push(Problem::Conv(conv));
                        continue;
                    }
                    for n in &overrides.batchsizes {
                        let batched = conv.clone().with_batch(*n).map_err(|error| error.to_string())?;
                        changed.push(Problem::Conv(batched));
                    }
                }
            }
            Problem::Gemm(mut gemm) => {
                gemm.data_type = overrides.data_type.unwrap_or(gemm.data_type);
                changed.push(Problem::Gemm(gemm));
            }
            Problem::BatchNorm(norm) => {
                let data_type = overrides.data_type.unwrap_or(norm.data_type);
                let mixed = norm.mixed && data_type != DataType::Fp32;
                let own = [norm.n];
                let sizes = if overrides.batchsizes.is_empty() { &own[..] } else { &overrides.batchsizes };
                for n in sizes {
                    let norm = BatchNormProblem { n: *n, data_type, mixed, ..norm.clone() }.checked();
                    changed.push(Problem::BatchNorm(norm.map_err(|error| error.to_string())?));
                }
            }
            kernel @ Problem::Kernel(_) => changed.push(kernel),
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ProblemList {
        read_problems("list.txt", text.as_bytes(), &Overrides::default())
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
             - {'M': 1, 'N': 2, 'K': 3, 'rowMajorA': 'T', 'rowMajorB': 'N'}",
        );
        assert_eq!(list.rejects, []);
        let found: Vec<_> = list.problems.iter().map(|one| (one.line, one.count, one.problem.label())).collect();
        let expected = [
            (3, 3, "conv F 8x9x9 k8 3x3 s1 n1 FP32"),
            (4, 1, "conv W 8x9x9 k8 3x3 s1 n1 FP32"),
            (5, 1, "gemm NN 8x256x256 FP32"),
            (7, 1, "kernel saxpy n=4"),
            (8, 1, "gemm NT 1x2x3 FP16"),
        ];
        assert_eq!(found, expected.map(|(line, count, label)| (line, count, label.to_string())));
    }

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.txt");
        let error = read_file(&path, &Overrides::default()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        std::fs::write(&path, "conv -F 1\n").unwrap();
        assert_eq!(read_file(&path, &Overrides::default()).unwrap().problems.len(), 1);
        assert_eq!(read_at_most(&path, 10).unwrap().len(), 10);
        assert!(matches!(read_at_most(&path, 9), Err(InputError::TooLarge { limit: 9, .. })));
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
                "list.txt:2: found neither a driver command nor a find-db key",
                "list.txt:4: not UTF-8 at byte 6: \"conv \u{fffd}\"",
                "list.txt:5: find-db key: in size: found the end of the key, ",
                "list.txt:6: driver command: found nothing, expected a base w",
                "list.txt:7: driver command: forw: found \"0 with back 0\", expe",
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
