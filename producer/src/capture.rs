//! Problems out of the running log of an application: MIOpen's commands as many threads and processes write them, mixed
//! with whatever else the application says, and torn where two of them wrote at once.
//!
//! A command that lacks a flag that MIOpen always prints is torn: reading it would put the flag's default in place of
//! what was lost. It is kept until a line comes that completes it, and nothing but it.

mod run;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use bluefin_common::problem::{Direction, Problem};

use crate::input::{DRIVER, LOG_MARK, MAX_LINE, driver_command, implied_direction};
use bluefin_common::problem::{command::DriverError, driver};

pub use run::{run, run_with};

/// Torn commands that are kept until their rest comes.
const MAX_TORN: usize = 16;
/// Commands that were not understood and are shown.
const MAX_SHOWN: usize = 20;
/// What stands in a list in front of the count of the line below.
const COUNT: &str = "# count ";
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

/// How often each line of a list that [`Captured::list`] wrote is asked for, by its number from 1.
#[must_use]
pub fn counts(text: &[u8]) -> HashMap<usize, u64> {
    let mut counts = HashMap::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let count = std::str::from_utf8(line).ok().and_then(|line| line.trim().strip_prefix(COUNT)?.parse().ok());
        if let Some(count) = count {
            counts.insert(number + 1, count);
        }
    }
    counts
}

impl Captured {
    /// Commands in their canonical form, each below a comment with its count.
    #[must_use]
    pub fn list(&self, tag: &str) -> String {
        let mut text = format!("# {tag}: {} problems of {} commands\n", self.problems.len(), self.commands);
        for met in &self.problems {
            text.push_str(&format!("{COUNT}{}\n{}\n", met.count, met.problem));
        }
        text
    }
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
mod tests;
