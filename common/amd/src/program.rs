//! A code object, loaded and decoded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{Decoder, poll};
use crate::error::LoadError;
use crate::instruction::{Action, Instruction};
use crate::isa::{self, Isa, Line};
use crate::memory::{Image, Memory};
use crate::object::{CodeObject, Kernel, unbundle};
use crate::operations::memory::Kind;
use crate::registers::{ACCUMULATION, VGPRS};
use crate::source::{self, Lines, Row};
use crate::target::Target;
use crate::verdict::Site;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
const NONE: u32 = u32::MAX;

/// A code object that can be launched.
pub struct Program {
    id: u64,
    target: &'static Target,
    object: CodeObject,
    /// By the lanes of a wave: kernels of one code object may differ.
    codes: Vec<(u32, Code)>,
}

/// Instructions for waves of so many lanes.
pub(crate) struct Code {
    pub instructions: Vec<Instruction>,
    /// The vector registers that instructions may write: general ones, and those for accumulation.
    pub vgprs: [Range<usize>; 2],
    /// Whether it brings lines into the cache of scalars without loading anything.
    pub prefetches: bool,
    lines: Vec<Line>,
    /// Address of the first one, and for each dword from there the instruction that begins in it.
    first: u64,
    at: Vec<u32>,
}

impl Program {
    /// Loads a code object, or the one for `target` of an offload bundle.
    ///
    /// Instructions that are not implemented are no error before they are reached.
    ///
    /// # Errors
    /// It is no code object for the target.
    pub fn load(bytes: &[u8], target: &'static Target) -> Result<Self, LoadError> {
        let bytes = unbundle(bytes, target)?;
        let object = CodeObject::parse(bytes, target)?;
        let sources = source::lines(bytes);
        let decode = |lanes| {
            let lines = lines(&object.text, &sources, target, lanes);
            (lanes, Code::decode(lines, target, lanes))
        };
        let codes = object.lanes().into_iter().map(decode).collect();
        Ok(Self::new(target, object, codes))
    }

    fn new(target: &'static Target, object: CodeObject, codes: Vec<(u32, Code)>) -> Self {
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), target, object, codes }
    }

    #[must_use]
    pub fn target(&self) -> &'static Target {
        self.target
    }

    /// The kernels, by name.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.object.kernels.values()
    }

    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.object.kernels.get(name)
    }

    /// Address and size of a variable of the code object.
    pub fn variable(&self, name: &str, memory: &mut Memory) -> Option<(u64, u64)> {
        let (offset, size) = *self.object.variables.get(name)?;
        Some((self.image(memory) + offset, size))
    }

    /// All instructions that are not implemented, with what is missing.
    #[must_use]
    pub fn unimplemented(&self) -> Vec<(Site, String)> {
        let mut all = Vec::new();
        for (_, code) in &self.codes {
            for (at, instruction) in code.instructions.iter().enumerate() {
                if let Action::Unimplemented(what) = &instruction.action {
                    all.push((code.site(at), what.to_string()));
                }
            }
        }
        all
    }

    pub(crate) fn code(&self, lanes: u32) -> Option<&Code> {
        self.codes.iter().find(|(of, _)| *of == lanes).map(|(_, code)| code)
    }

    /// Where the image is in `memory`; it is put there at the first use.
    pub(crate) fn image(&self, memory: &mut Memory) -> u64 {
        memory.image(self.id, |base| {
            let mut image = self.object.image.clone();
            for (at, addend) in &self.object.relocations {
                let range = usize::try_from(*at).ok().and_then(|at| image.get_mut(at..at.checked_add(8)?));
                if let Some(place) = range {
                    place.copy_from_slice(&base.wrapping_add(*addend).to_le_bytes());
                }
            }
            Image { bytes: image, protected: self.object.protected.clone(), variables: self.object.named.clone() }
        })
    }
}

/// All instructions of sections of code, one after the other.
pub(crate) fn lines(text: &[(u64, Vec<u32>)], sources: &Lines, target: &'static Target, lanes: u32) -> Vec<Line> {
    let isa = Isa::of(target);
    let mut lines = Vec::new();
    for (begin, words) in text {
        let mut at = 0;
        while at < words.len() {
            let (encoded, length) = isa::decode(isa, lanes, &words[at..]);
            let length = length.max(1);
            let address = begin + 4 * at as u64;
            let row = sources.range(..=address).next_back().map(|(_, row)| row.clone()).unwrap_or_default();
            lines.push(Line { address, words: words[at..at + length].to_vec(), encoded, row });
            at += length;
        }
    }
    lines
}

/// Each line with its instruction.
pub(crate) fn decode_lines(lines: Vec<Line>, target: &'static Target, lanes: u32) -> Vec<(Line, Instruction)> {
    let indices: HashMap<u64, usize> = lines.iter().enumerate().map(|(at, line)| (line.address, at)).collect();
    let decoder = Decoder { target, lanes, indices: &indices };
    let decode = |line: Line| {
        let instruction = decoder.decode(&line);
        (line, instruction)
    };
    lines.into_iter().map(decode).collect()
}

/// The first and the last vector registers that any instruction may touch; all where M0 says which.
fn named(instructions: &[Instruction]) -> [Range<usize>; 2] {
    let accumulation = usize::from(ACCUMULATION);
    let by_number = |action: &Action| matches!(action, Action::Index(_) | Action::Relative(..));
    if instructions.iter().any(|instruction| by_number(&instruction.action)) {
        return [0..accumulation, accumulation..VGPRS];
    }
    // Where the threads' numbers are.
    let mut ends = [3, accumulation];
    for (word, bits) in instructions.iter().flat_map(|instruction| &instruction.words) {
        let end = 64 * word + 64 - bits.leading_zeros() as usize;
        let of = &mut ends[usize::from(64 * word >= accumulation)];
        *of = end.min(VGPRS).max(*of);
    }
    [0..ends[0], accumulation..ends[1]]
}

/// How far behind a load its use is looked for.
const USED_WITHIN: usize = 512;

/// A load that the compiler has moved, as one in front of a loop, has the line of what uses it first.
fn place_loads(lines: &mut [Line], instructions: &[Instruction]) {
    let moved = |at: &usize| lines.get(*at).is_some_and(|line| line.row.moved);
    let used = |at: usize| {
        let Action::Memory(memory) = &instructions.get(at)?.action else { return None };
        let (first, count) = match memory.kind {
            Kind::Load { bytes, .. } => (memory.to, u16::from(bytes.div_ceil(4))),
            Kind::LoadTwo { bytes, .. } => (memory.to, u16::from(bytes / 2)),
            _ => return None,
        };
        let touches = |instruction: &&Instruction| {
            let spans = instruction.touches.vgprs.iter().copied();
            let mut spans = spans.chain(instruction.touches.loaded.map(|(span, _)| span));
            spans.any(|(from, many, _)| from < first + count && first < from + many)
        };
        let behind = instructions.iter().skip(at + 1).take(USED_WITHIN);
        let within = behind.take_while(|instruction| !matches!(instruction.action, Action::End | Action::SetPc { .. }));
        let next = at + 1 + within.enumerate().find(|(_, instruction)| touches(instruction))?.0;
        lines.get(next).map(|line| line.row.clone()).filter(|row| !row.moved)
    };
    let found: Vec<(usize, Row)> = (0..lines.len()).filter(moved).filter_map(|at| Some((at, used(at)?))).collect();
    for (at, row) in found {
        if let Some(line) = lines.get_mut(at) {
            line.row = row;
        }
    }
}

impl Code {
    fn decode(lines: Vec<Line>, target: &'static Target, lanes: u32) -> Self {
        let (mut lines, mut instructions): (Vec<Line>, Vec<Instruction>) =
            decode_lines(lines, target, lanes).into_iter().unzip();
        place_loads(&mut lines, &instructions);
        poll::mark(&mut instructions);
        let first = lines.iter().map(|line| line.address).min().unwrap_or_default();
        let last = lines.iter().map(|line| line.address).max().unwrap_or_default();
        let mut at = vec![NONE; ((last - first) / 4 + 1) as usize];
        for (index, line) in lines.iter().enumerate() {
            if let Some(slot) = at.get_mut(((line.address - first) / 4) as usize) {
                *slot = index as u32;
            }
        }
        let prefetches =
            lines.iter().any(|line| line.encoded.as_ref().is_ok_and(|of| of.name.contains("prefetch_data")));
        Self { vgprs: named(&instructions), prefetches, instructions, lines, first, at }
    }

    pub fn site(&self, at: usize) -> Site {
        let site = |line: &Line| Site { address: line.address, text: line.text(), source: line.row.source.clone() };
        self.lines.get(at).map(site).unwrap_or_default()
    }

    /// Index of the instruction at an offset of the image.
    pub fn index_of(&self, offset: u64) -> Option<usize> {
        let distance = offset.checked_sub(self.first)?;
        let index = *self.at.get(usize::try_from(distance / 4).ok()?)?;
        (distance % 4 == 0 && index != NONE).then_some(index as usize)
    }
}
