//! LLVM's disassembler: which instructions a code object has, as text.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use object::{Object as _, ObjectSection as _, SectionKind};

use crate::error::LoadError;
use crate::target::Target;

/// What LLVM 19 and its successors call it where it is installed.
const NAMES: [&str; 5] = ["llvm-objdump-19", "llvm-objdump-20", "llvm-objdump-21", "llvm-objdump-22", "llvm-objdump"];

/// How often a code object is disassembled at most: what was not understood hides what follows.
const MOST_ATTEMPTS: usize = 16;

/// The program `llvm-objdump`, of LLVM 19 or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembler {
    program: PathBuf,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub address: u64,
    pub words: Vec<u32>,
    pub text: String,
    /// File and line of the source, where the code object has a line table.
    pub source: Option<Arc<str>>,
}

impl Disassembler {
    /// The one at `program`.
    #[must_use]
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// The first that runs of those that LLVM 19 and later install.
    ///
    /// # Errors
    /// None runs.
    pub fn find() -> Result<Self, LoadError> {
        let runs = |name: &&&str| {
            let mut command = Command::new(**name);
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let missing = || LoadError::Disassembler { program: "llvm-objdump".into(), reason: "not found".into() };
        NAMES.iter().find(runs).map(|name| Self::at(*name)).ok_or_else(missing)
    }

    /// Where it is.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn failed(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Disassembler { program: self.program.display().to_string(), reason: reason.into() }
    }

    fn command(&self, target: &Target, lanes: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--disassemble").arg("--line-numbers").arg(format!("--mcpu={}", target.name));
        if lanes != target.lanes {
            command.arg(format!("--mattr=+wavefrontsize{lanes}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// All instructions of a code object, whose waves have `lanes` lanes.
    pub(crate) fn lines(&self, object: &[u8], target: &Target, lanes: u32) -> Result<Vec<Line>, LoadError> {
        let lines = self.lines_of_one(object, target, lanes)?;
        self.understood(lines, object, target, lanes)
    }

    /// `lines` of `object`, of which the disassembler did not know some that a later LLVM wrote.
    fn understood(
        &self,
        mut lines: Vec<Line>,
        object: &[u8],
        target: &Target,
        lanes: u32,
    ) -> Result<Vec<Line>, LoadError> {
        let (mut known, mut upper) = (object.to_vec(), HashMap::new());
        for _ in 0..MOST_ATTEMPTS {
            if target.is_gfx9() {
                break;
            }
            let sources = without_unused_source(&lines, &mut known);
            if !without_upper_results(&lines, &mut known, &mut upper) && !sources {
                break;
            }
            lines = self.lines_of_one(&known, target, lanes)?;
        }
        // The words say which half it is, the text does not.
        for line in &mut lines {
            if let (Some(word), Some(first)) = (upper.get(&line.address), line.words.first_mut()) {
                *first = *word;
            }
        }
        Ok(lines)
    }

    fn lines_of_one(&self, object: &[u8], target: &Target, lanes: u32) -> Result<Vec<Line>, LoadError> {
        let mut command = self.command(target, lanes);
        let mut child =
            command.arg("-").stdin(Stdio::piped()).spawn().map_err(|error| self.failed(error.to_string()))?;
        if let Some(mut input) = child.stdin.take() {
            // One that does not read it says why when it ends.
            let _unread = input.write_all(object);
        }
        let text = self.finish(child)?;
        let mut reader = Reader::default();
        self.checked(text.lines().filter_map(|line| reader.read(line)).collect())
    }

    /// The same for several at once, which is quicker: most of the time goes into starting the program.
    pub(crate) fn many(&self, objects: &[&[u8]], target: &Target, lanes: u32) -> Result<Vec<Vec<Line>>, LoadError> {
        let io = |error: std::io::Error| self.failed(error.to_string());
        let folder = tempfile::tempdir().map_err(io)?;
        let mut command = self.command(target, lanes);
        for (at, object) in objects.iter().enumerate() {
            let path = folder.path().join(at.to_string());
            std::fs::write(&path, object).map_err(io)?;
            command.arg(path);
        }
        let text = self.finish(command.spawn().map_err(io)?)?;
        let mut all: Vec<Vec<Line>> = Vec::with_capacity(objects.len());
        let mut reader = Reader::default();
        for line in text.lines() {
            if line.contains(":\tfile format ") {
                all.push(Vec::new());
                reader = Reader::default();
            } else if let (Some(lines), Some(line)) = (all.last_mut(), reader.read(line)) {
                lines.push(line);
            }
        }
        if all.len() != objects.len() {
            return Err(self.failed(format!("printed {} code objects of {}", all.len(), objects.len())));
        }
        let understood = |(lines, object): (Vec<Line>, &&[u8])| self.understood(lines, object, target, lanes);
        let all = all.into_iter().map(|lines| self.checked(lines)).collect::<Result<Vec<_>, _>>()?;
        all.into_iter().zip(objects).map(understood).collect()
    }

    fn finish(&self, child: Child) -> Result<String, LoadError> {
        let output = child.wait_with_output().map_err(|error| self.failed(error.to_string()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(self.failed(words.lines().next().unwrap_or("no reason given").to_string()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn checked(&self, lines: Vec<Line>) -> Result<Vec<Line>, LoadError> {
        if lines.is_empty() { Err(self.failed("printed no instruction")) } else { Ok(lines) }
    }
}

/// Takes out of VOP1 and VOP2 the bit that says that the result is the upper half of its register: LLVM 19 takes that for no instruction.
/// The words by address as they were are put into `upper`. Whether there was one.
fn without_upper_results(lines: &[Line], object: &mut [u8], upper: &mut HashMap<u64, u32>) -> bool {
    const UPPER: u32 = 1 << 24;
    const COMPARISONS: u32 = 0b11_1110;
    let is_one = |word: u32| word >> 31 == 0 && word >> 25 != COMPARISONS && word & UPPER != 0;
    let unknown: Vec<(u64, u32)> = lines
        .iter()
        .filter(|line| line.text.starts_with(".long") && !upper.contains_key(&line.address))
        .filter_map(|line| Some((line.address, *line.words.first()?)))
        .filter(|(_, word)| is_one(*word))
        .collect();
    if unknown.is_empty() {
        return false;
    }
    let Ok(file) = object::File::parse(&*object) else { return false };
    let ranges: Vec<(u64, u64, u64)> = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
        .filter_map(|section| section.file_range().map(|(at, size)| (section.address(), at, size)))
        .collect();
    for (address, word) in unknown {
        let place = ranges.iter().find_map(|(from, at, size)| {
            let offset = address.checked_sub(*from).filter(|offset| offset + 4 <= *size)?;
            usize::try_from(at + offset).ok()
        });
        let Some(bytes) = place.and_then(|at| object.get_mut(at..at + 4)) else { continue };
        if *bytes == word.to_le_bytes() {
            bytes.copy_from_slice(&(word & !UPPER).to_le_bytes());
            upper.insert(address, word);
        }
    }
    true
}

/// Clears the third source of VOP3 instructions that have none: LLVM 20 and later write an inline 0 there for RDNA 3, which LLVM 19 takes for
/// no instruction at all. Whether there was one.
fn without_unused_source(lines: &[Line], object: &mut [u8]) -> bool {
    const SOURCE: u32 = 0x1ff << 18;
    let mut found = false;
    for (line, next) in lines.iter().zip(lines.iter().skip(1)) {
        let (Some(first), Some(second)) = (line.words.first(), next.words.first()) else { continue };
        if !line.text.starts_with(".long") || first >> 26 != 0b11_0101 || second & SOURCE != 0x80 << 18 {
            continue;
        }
        let written = [first.to_le_bytes(), second.to_le_bytes()].concat();
        let cleared = [first.to_le_bytes(), (second & !SOURCE).to_le_bytes()].concat();
        let (words, _) = object.as_chunks_mut::<4>();
        for at in 0..words.len().saturating_sub(1) {
            if [words[at], words[at + 1]].concat() == written {
                words[at].copy_from_slice(&cleared[..4]);
                words[at + 1].copy_from_slice(&cleared[4..]);
                found = true;
            }
        }
    }
    found
}

/// What is printed, line by line.
#[derive(Default)]
struct Reader {
    /// Of the instructions that follow.
    source: Option<Arc<str>>,
}

impl Reader {
    fn read(&mut self, line: &str) -> Option<Line> {
        match line.strip_prefix("; ") {
            Some(remark) => {
                // `; f():` names a function.
                if let Some(place) = source_place(remark) {
                    self.source = Some(place);
                }
                None
            }
            None => parse(line).map(|line| Line { source: self.source.clone(), ..line }),
        }
    }
}

/// `/tmp/folder/./k.hip:5`: the compiler's folder says nothing to a reader. Line 0 is that of no source.
fn source_place(remark: &str) -> Option<Arc<str>> {
    let (file, number) = remark.rsplit_once(':')?;
    let is_number = !number.is_empty() && number != "0" && number.bytes().all(|digit| digit.is_ascii_digit());
    let name = file.rsplit('/').next().filter(|name| is_number && !name.is_empty())?;
    Some(format!("{name}:{number}").into())
}

/// `\tv_mov_b32_e32 v0, 1    // 000000001900: 7E000281 <label>`.
fn parse(line: &str) -> Option<Line> {
    let (text, comment) = line.strip_prefix('\t')?.rsplit_once("//")?;
    let (address, words) = comment.trim().split_once(':')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let is_word = |word: &&str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = words.split_whitespace().take_while(is_word);
    let words: Vec<u32> = words.map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
    (!words.is_empty()).then(|| Line { address, words, text: with_halves(text.trim()), source: None })
}

/// LLVM 19 takes the bit of a short encoding that chooses the upper half of a register for a part of its number, and says that there is
/// no such register: `v131/*Invalid register, operand has 'VGPR_32_Lo128' register class*/` is `v3.h`.
fn with_halves(text: &str) -> String {
    const BEGIN: &str = "/*Invalid register, operand has '";
    const CLASSES: [&str; 2] = ["VS_32_Lo128' register class*/", "VGPR_32_Lo128' register class*/"];
    let mut parts = text.split(BEGIN);
    let mut whole = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let number = whole.trim_end_matches(|last: char| last.is_ascii_digit()).len();
        let half = whole[number..].parse::<u16>().ok().filter(|number| (128..256).contains(number));
        match (half, CLASSES.iter().find_map(|class| part.strip_prefix(class))) {
            (Some(half), Some(rest)) => {
                whole.truncate(number);
                whole += &format!("{}.h{rest}", half - 128);
            }
            _ => whole += &format!("{BEGIN}{part}"),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_text_an_address_and_words() {
        let line = parse("\ts_cbranch_execz 42        // 00000000161C: BF88002A <f+0xc8>").unwrap();
        let expected =
            Line { address: 0x161c, words: vec![0xbf88_002a], text: "s_cbranch_execz 42".into(), source: None };
        assert_eq!(line, expected);
        let line = parse("\tv_mov_b32_dpp v4, v0 row_bcast:15 bound_ctrl:1// 000000001670: 7E0802FA AF094200").unwrap();
        assert_eq!(line.words, [0x7e08_02fa, 0xaf09_4200]);
        assert_eq!(line.text, "v_mov_b32_dpp v4, v0 row_bcast:15 bound_ctrl:1");
        let remark = |class| format!("/*Invalid register, operand has '{class}_32_Lo128' register class*/");
        let (remark, other) = (remark("VS"), remark("VGPR"));
        let line = parse(&format!("\tv_add_f16_e32 v2, v131{remark}, v255{other} // 000000000000: 64050B83")).unwrap();
        assert_eq!(line.text, "v_add_f16_e32 v2, v3.h, v127.h");
        assert_eq!(parse("0000000000001600 <f>:"), None);
        assert_eq!(parse("gfx942.o:\tfile format elf64-amdgpu"), None);
    }

    #[test]
    fn instructions_have_the_last_line_that_was_named() {
        let mut reader = Reader::default();
        let sources: Vec<Option<Arc<str>>> =
            "; k():\n\ts_nop 0 // 000000001900: BF800000\n; /tmp/a/./k.hip:5\n\ts_nop 1 // 000000001904: BF800001\n\
            ; /tmp/a/k.hip:0\n\ts_nop 2 // 000000001908: BF800002\n"
                .lines()
                .filter_map(|line| reader.read(line))
                .map(|line| line.source)
                .collect();
        let place = Some(Arc::from("k.hip:5"));
        assert_eq!(sources, [None, place.clone(), place]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Disassembler::at("/nonexistent/objdump").lines(b"", &crate::target::TARGETS[0], 64).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/objdump: "), "{error}");
    }
}
