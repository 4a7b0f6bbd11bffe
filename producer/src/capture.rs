//! Problems out of the running log of an application: MIOpen's commands as many threads and processes write them, mixed
//! with whatever else the application says, and torn where two of them wrote at once.
//!
//! A command that lacks a flag that MIOpen always prints is torn: reading it would put the flag's default in place of
//! what was lost. It is kept until a line comes that completes it, and nothing but it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use bluefin_common::problem::{Direction, Problem};

use crate::driver::{self, DriverError};
use crate::input::{DRIVER, LOG_MARK, MAX_LINE, driver_command, implied_direction};

/// Torn commands that are kept until their rest comes.
const MAX_TORN: usize = 16;
/// Commands that were not understood and are shown.
const MAX_SHOWN: usize = 20;
/// How much of a command is shown.
const SHOWN: usize = 160;

/// What MIOpen prints of every convolution (MIOpen 3.3, src/driver_arguments.cpp): the short and the long name of each flag.
const CONV: &[[&str; 2]] = &[
    ["-n", "--batchsize"],
    ["-c", "--in_channels"],
    ["-H", "--in_h"],
    ["-W", "--in_w"],
    ["-k", "--out_channels"],
    ["-y", "--fil_h"],
    ["-x", "--fil_w"],
    ["-p", "--pad_h"],
    ["-q", "--pad_w"],
    ["-u", "--conv_stride_h"],
    ["-v", "--conv_stride_w"],
    ["-l", "--dilation_h"],
    ["-j", "--dilation_w"],
    ["-m", "--mode"],
    ["-g", "--group_count"],
];
/// What it prints besides of every convolution in three dimensions.
const CONV_3D: &[[&str; 2]] = &[
    ["-!", "--in_d"],
    ["-@", "--fil_d"],
    ["-$", "--pad_d"],
    ["-#", "--conv_stride_d"],
    ["-^", "--dilation_d"],
    ["-_", "--spatial_dim"],
];
const DIRECTION: [&str; 2] = ["-F", "--forw"];
/// What it prints of every batch norm.
const BATCH_NORM: &[[&str; 2]] = &[
    ["-n", "--batchsize"],
    ["-c", "--in_channels"],
    ["-H", "--in_h"],
    ["-W", "--in_w"],
    ["-m", "--mode"],
    DIRECTION,
    ["-b", "--back"],
];

/// A problem that the application asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    pub problem: Problem,
    /// Commands that asked for it.
    pub count: u64,
}

/// What a log held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// In the order in which they were first met.
    pub problems: Vec<Met>,
    /// Commands that gave problems.
    pub commands: u64,
    /// Commands of operations that bluefin does not tune, by base word.
    pub unsupported: BTreeMap<String, u64>,
    /// Commands that were not understood, or whose rest never came.
    pub unread: u64,
    /// The first of those, for people.
    pub unread_shown: Vec<String>,
}

/// Reads a log as it is written.
#[derive(Debug, Default)]
pub struct Capture {
    captured: Captured,
    places: HashMap<Problem, usize>,
    torn: Vec<String>,
    line: Vec<u8>,
    /// The line is longer than any that is looked at.
    overlong: bool,
}

/// What a piece of a line is.
enum Piece {
    Whole(Vec<Problem>),
    Unsupported(String),
    /// It may be the beginning of a command.
    Torn,
    Wrong,
}

impl Capture {
    /// Reads on. The bytes may end anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        // Progress bars end their lines with a carriage return.
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, ended) = match part.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (part, false),
            };
            let room = MAX_LINE - self.line.len();
            self.overlong |= text.len() > room;
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if ended {
                self.end_line();
            }
        }
    }

    /// What the log held, at its end.
    #[must_use]
    pub fn finish(mut self) -> Captured {
        self.end_line();
        for torn in std::mem::take(&mut self.torn) {
            self.unread(&torn);
        }
        self.captured
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if std::mem::take(&mut self.overlong) {
            if line.contains(DRIVER) {
                self.unread(&line);
            }
            return;
        }
        let mut starts: Vec<usize> = line.match_indices(LOG_MARK).map(|(at, _)| at).collect();
        // Without a mark in front a command stands for itself: old releases print none, and a mark may be torn too.
        if let Some(driver) = line.find(DRIVER)
            && starts.first().is_none_or(|first| driver < *first)
        {
            starts.insert(0, 0);
            // What stood before the driver's name may be what was torn off.
            if let Some(index) = self.torn.iter().position(|torn| !torn.contains(DRIVER)) {
                self.torn.remove(index);
            }
        }
        let head = line.get(..starts.first().copied().unwrap_or(line.len())).unwrap_or_default();
        if !head.trim().is_empty() {
            self.complete(head);
        }
        for (index, start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied();
            let piece = line.get(*start..end.unwrap_or(line.len())).unwrap_or_default();
            self.piece(piece, end.is_some());
        }
    }

    /// Takes a piece that begins as a line of MIOpen's log. Another one follows it on the same line if `cut_short`.
    fn piece(&mut self, piece: &str, cut_short: bool) {
        if !piece.contains(DRIVER) && !piece.contains("Command [") {
            return;
        }
        match read(piece) {
            // The process and thread of the next line may stand at its end.
            Piece::Torn | Piece::Wrong if cut_short => match read(without_numbers(piece)) {
                Piece::Whole(problems) => self.met(problems),
                _ => self.keep(piece),
            },
            Piece::Torn => self.keep(piece),
            Piece::Whole(problems) => self.met(problems),
            Piece::Unsupported(base) => *self.captured.unsupported.entry(base).or_default() += 1,
            Piece::Wrong => self.unread(piece),
        }
    }

    /// Takes a line that may be the rest of a torn command.
    fn complete(&mut self, rest: &str) {
        let whole = |torn: &String| match read(&format!("{torn}{rest}")) {
            Piece::Whole(problems) => Some(problems),
            _ => None,
        };
        let mut fitting: Vec<(usize, Vec<Problem>)> =
            self.torn.iter().enumerate().filter_map(|(index, torn)| Some((index, whole(torn)?))).collect();
        match fitting.pop() {
            None => {}
            Some((index, problems)) if fitting.is_empty() => {
                self.torn.remove(index);
                self.met(problems);
            }
            // It completes more than one: nobody knows which.
            Some((index, _)) => {
                for index in [index].into_iter().chain(fitting.into_iter().rev().map(|(index, _)| index)) {
                    let torn = self.torn.remove(index);
                    self.unread(&torn);
                }
            }
        }
    }

    fn keep(&mut self, piece: &str) {
        if self.torn.len() == MAX_TORN {
            let oldest = self.torn.remove(0);
            self.unread(&oldest);
        }
        self.torn.push(piece.to_string());
    }

    fn met(&mut self, problems: Vec<Problem>) {
        self.captured.commands += 1;
        for problem in problems {
            match self.places.entry(problem) {
                Entry::Occupied(place) => {
                    if let Some(met) = self.captured.problems.get_mut(*place.get()) {
                        met.count += 1;
                    }
                }
                Entry::Vacant(place) => {
                    self.captured.problems.push(Met { problem: place.key().clone(), count: 1 });
                    place.insert(self.captured.problems.len() - 1);
                }
            }
        }
    }

    fn unread(&mut self, piece: &str) {
        self.captured.unread += 1;
        if self.captured.unread_shown.len() < MAX_SHOWN {
            let shown = piece.trim().chars().filter(|c| !c.is_control()).take(SHOWN).collect();
            self.captured.unread_shown.push(shown);
        }
    }
}

/// Without the last two words, if they are numbers.
fn without_numbers(piece: &str) -> &str {
    let mut rest = piece.trim_end();
    for _ in 0..2 {
        let shorter = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        if shorter.len() == rest.len() || !shorter.ends_with(' ') {
            return piece;
        }
        rest = shorter.trim_end();
    }
    rest
}

fn read(piece: &str) -> Piece {
    let Some((prefix, command)) = driver_command(piece) else { return Piece::Torn };
    let implied = implied_direction(prefix);
    if !is_whole(command, implied) {
        return Piece::Torn;
    }
    match driver::parse(command, implied) {
        Ok(problems) => Piece::Whole(problems),
        Err(DriverError::Unsupported(base)) => Piece::Unsupported(base),
        Err(_) => Piece::Wrong,
    }
}

/// Whether every flag that MIOpen prints is there, once. Of operations that bluefin does not know nothing is expected.
fn is_whole(command: &str, implied: Option<Direction>) -> bool {
    let mut words = command.split_ascii_whitespace();
    let Some(base) = words.next() else { return false };
    let words: Vec<&str> = words.collect();
    let count = |names: &[&str; 2]| words.iter().step_by(2).filter(|word| names.contains(word)).count();
    let once = |flags: &[[&str; 2]]| flags.iter().all(|names| count(names) == 1);
    let paired = words.len().is_multiple_of(2);
    if base.starts_with("conv") {
        let is_3d = CONV_3D.iter().any(|names| count(names) > 0);
        let directed = count(&DIRECTION) == 1 || (implied.is_some() && count(&DIRECTION) == 0);
        return paired && once(CONV) && directed && (!is_3d || once(CONV_3D));
    }
    if base.starts_with("bnorm") {
        return paired && once(BATCH_NORM);
    }
    driver::is_base_word(base)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(n: u32) -> String {
        format!(
            "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n {n} -c 64 -H 56 -W 56 -k 64 -y 1 -x 1 \
             -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1"
        )
    }

    fn capture(log: &str) -> Captured {
        let mut capture = Capture::default();
        capture.feed(log.as_bytes());
        capture.finish()
    }

    /// (batch, count) of each problem, and how many commands were not read.
    fn met(log: &str) -> (Vec<(u32, u64)>, u64) {
        let captured = capture(log);
        let batch = |problem: &Problem| match problem {
            Problem::Conv(conv) => conv.n,
            other => panic!("{other}"),
        };
        (captured.problems.iter().map(|met| (batch(&met.problem), met.count)).collect(), captured.unread)
    }

    #[test]
    fn commands_are_counted_and_all_else_is_noise() {
        let log = format!(
            "Loading\n{}\nepoch 1\r 10%\r{}\nMIOpen(HIP): Info [SetStream] 0\n12 34 {}\n\u{1b}[0m\n",
            command(16),
            command(16),
            command(32)
        );
        assert_eq!(met(&log), (vec![(16, 2), (32, 1)], 0));
    }

    #[test]
    fn two_commands_on_one_line_are_two() {
        assert_eq!(met(&format!("{}{}\n\n", command(1), command(2))), (vec![(1, 1), (2, 1)], 0));
        assert_eq!(met(&format!("12 34 {}12 34 {}\n", command(1), command(2))), (vec![(2, 1)], 1));
        assert_eq!(met(&format!("12 34 {} 12 34 {}\n", command(1), command(2))), (vec![(1, 1), (2, 1)], 0));
    }

    #[test]
    fn what_is_lost_of_a_command_is_not_made_up() {
        let whole = command(128);
        for cut in whole.find("conv -n").unwrap()..whole.find("-F 1").unwrap() + 3 {
            assert_eq!(met(&whole[..cut]), (vec![], 1), "{}", &whole[..cut]);
        }
        let without_depths = whole.replace(" -k 64", " --fil_d 3 -k 64");
        assert_eq!(met(&without_depths).1, 1);
    }

    #[test]
    fn a_torn_command_is_put_together() {
        let (first, other) = (command(128), command(7));
        for cut in "MIOpen(HIP): Command [".len()..first.find(" -t 1").unwrap() {
            let (head, rest) = first.split_at(cut);
            assert_eq!(met(&format!("{head}{other}\n{rest}\n")), (vec![(7, 1), (128, 1)], 0), "{head}");
        }
    }

    #[test]
    fn a_rest_that_may_be_of_two_is_of_none() {
        let cut = command(12).find("-n 12").unwrap() + "-n 12".len();
        let (head, rest) = (&command(12)[..cut], &command(12)[cut..]);
        assert_eq!(met(&format!("{head}\n{head}\n{rest}\n{rest}\n")), (vec![], 2));
    }

    #[test]
    fn other_operations_are_counted_by_name() {
        let captured = capture("MIOpen(HIP): Command [LogCmdX] ./bin/MIOpenDriver poolfp16 -M 0 --input 1x2\n");
        assert_eq!(captured.unsupported, BTreeMap::from([("poolfp16".to_string(), 1)]));
        assert_eq!((captured.unread, captured.commands), (0, 0));
    }

    #[test]
    fn old_releases_tell_the_direction_by_the_function() {
        let old = command(3).replace(" -F 1", "").replace("MIOpen(HIP): Command [LogCmdConvolution]", "x:");
        assert_eq!(met(&old), (vec![], 1));
        assert_eq!(met(&old.replace("x:", "miopenConvolutionForward:")), (vec![(3, 1)], 0));
    }

    #[test]
    fn lines_without_end_are_left_out() {
        let long = format!("{} {}\n{}\n", command(1), "x".repeat(MAX_LINE), command(2));
        let mut pieces = Capture::default();
        for piece in long.as_bytes().chunks(1000) {
            pieces.feed(piece);
        }
        let captured = pieces.finish();
        assert_eq!((captured.problems.len(), captured.unread), (1, 1));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_pieces_do_not_matter(
            lines in prop::collection::vec((1..9_u32, 0..400_usize, 0..3_u8), 0..12), size in 1..200_usize,
        ) {
            let mut log = Vec::new();
            for (n, cut, ending) in lines {
                let line = command(n).into_bytes();
                log.extend_from_slice(&line[..cut.min(line.len())]);
                log.extend_from_slice([&b"\n"[..], b"\xff", b""][usize::from(ending)]);
            }
            let mut whole = Capture::default();
            whole.feed(&log);
            let mut pieces = Capture::default();
            for piece in log.chunks(size) {
                pieces.feed(piece);
            }
            prop_assert_eq!(whole.finish(), pieces.finish());
        }
    }
}
