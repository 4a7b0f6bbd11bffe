//! No bit of an encoding is dropped: one that is changed shows in the text, is read from the words, or is refused.

use super::*;
use crate::instruction::Vector;

/// Words that an instruction has at most, and room for what a changed bit makes of it.
const SLOT: usize = 8;
const NOTHING: u32 = 0xbf80_0000;

/// What is read from the words of a vector instruction.
fn read(vector: &Vector) -> String {
    let sources: Vec<String> =
        vector.sources.iter().map(|source| format!("{:?} {:?}", source.at, source.change)).collect();
    format!("{:?} {sources:?}", vector.to)
}

/// Each instruction's own line, where the disassembler does not give up: it crashes at some words that are none.
fn slots(words: &[Vec<u32>], target: &'static Target) -> Option<Vec<Option<(Line, Instruction)>>> {
    let mut all = Vec::new();
    for words in words.chunks(256) {
        all.extend(slots_of_few(words, target)?);
    }
    Some(all)
}

fn slots_of_few(words: &[Vec<u32>], target: &'static Target) -> Option<Vec<Option<(Line, Instruction)>>> {
    let padded = words.iter().flat_map(|words| words.iter().copied().chain(std::iter::repeat(NOTHING)).take(SLOT));
    let source: String = padded.map(|word| format!(".long {word:#x}\n")).collect();
    let object = assemble(&source, target, target.lanes)?;
    let Ok(lines) = Disassembler::find().ok()?.lines(&object, target, target.lanes) else {
        if words.len() == 1 {
            return Some(vec![None]);
        }
        let (first, second) = words.split_at(words.len() / 2);
        return Some([slots_of_few(first, target)?, slots_of_few(second, target)?].into_iter().flatten().collect());
    };
    let mut all: Vec<Option<(Line, Instruction)>> = words.iter().map(|_| None).collect();
    for (line, instruction) in decode_lines(lines, target, target.lanes) {
        let at = line.address as usize / 4;
        if at.is_multiple_of(SLOT) {
            all[at / SLOT] = Some((line, instruction));
        }
    }
    Some(all)
}

/// Bits that no instruction of that form uses: of a source that is not there, or that the hardware takes for 0.
fn is_of_nothing(text: &str, bit: usize) -> bool {
    let packed = text.starts_with("v_pk_") || text.starts_with("v_dot");
    // op_sel_hi of a source that has no halves, or is not there.
    packed && bit == 14 || text.starts_with("v_accvgpr_") && [14, 59, 60].contains(&bit)
}

#[test]
fn no_bit_of_a_vector_or_scalar_instruction_is_dropped() {
    let tables =
        [include_str!("../cases/scalar.txt"), include_str!("../cases/integer.txt"), include_str!("../cases/float.txt")];
    for (of, target) in TARGETS.iter().enumerate() {
        let cases: Vec<Case<'_>> = tables.iter().flat_map(|table| cases(table, target)).collect();
        let mut seen = std::collections::BTreeSet::new();
        let is_first = |text: &&str| seen.insert(text.split(' ').next().map(str::to_string));
        // Each target tries other ones, since so many changed bits take time.
        let texts = cases.iter().map(|case| case.text).filter(is_first).skip(of).step_by(TARGETS.len());
        let texts: Vec<&str> = texts.collect();
        let Some(plain) = decoded(&texts, target) else { return };
        let mut changed = Vec::new();
        for (line, instruction) in &plain {
            // What is not in the first word of a literal's instruction is the literal.
            let words = if line.text.contains("0x") { 1 } else { line.words.len() };
            // The operation's own bits show in its name.
            let operation = if line.words.len() == 1 { 23..32 } else { 16..32 };
            // Sources of VOP3 show as well, but for the lowest bit of one that is a pair.
            let long = line.words.len() == 2 && line.words[0] >> 31 == 1 && !line.text.contains("dpp");
            let shows =
                |bit: &usize| operation.contains(bit) || long && (33..59).contains(bit) && ![41, 50].contains(bit);
            for bit in (0..32 * words).filter(|bit| !shows(bit)) {
                let mut words = line.words.clone();
                words[bit / 32] ^= 1 << (bit % 32);
                changed.push((line, instruction, bit, words));
            }
        }
        let words: Vec<Vec<u32>> = changed.iter().map(|(.., words)| words.clone()).collect();
        let Some(found) = slots(&words, target) else { return };
        let mut dropped = std::collections::BTreeSet::new();
        for ((line, before, bit, _), after) in changed.iter().zip(found) {
            let Some((after_line, after)) = after else { continue };
            if after_line.text != line.text || is_of_nothing(&line.text, *bit) {
                continue;
            }
            let seen = match (&before.action, &after.action) {
                (_, Action::Unimplemented(_)) => true,
                (Action::Vector(before), Action::Vector(after)) => read(before) != read(after),
                _ => false,
            };
            if !seen {
                dropped.insert(format!("{}: bit {bit} of `{}`", target.name, line.text));
            }
        }
        assert!(dropped.is_empty(), "{} dropped: {dropped:#?}", dropped.len());
    }
}

/// Halves that the text does not show are read from the words, in the long and in the short encoding.
#[test]
fn halves_are_read_from_the_words() {
    let Some(target) = Target::named("gfx1100") else { return };
    let rows: &[(&[u32], &str, u32)] = &[
        // v_cndmask_b16 v2.h, 1, v4.l, s8
        (&[0xd65d_4002, 0x0022_0881], "v_cndmask_b16", 0x4444_2222),
        // v_cndmask_b16 v2.l, v3.h, v4.h, s8
        (&[0xd65d_1802, 0x0022_0903], "v_cndmask_b16", 0x1111_5555),
        // v_or_b16 v2.h, v3.l, v4.h
        (&[0xd763_5002, 0x0002_0903], "v_or_b16", 0x7777_2222),
        // v_lshlrev_b16 v2.h, 4, v3.h
        (&[0xd738_5002, 0x0002_0684], "v_lshlrev_b16", 0x2220_2222),
        // v_max_f16 v2.h, v3.l, v4.l, of VOP2.
        (&[0x7304_0903], "v_max_f16_e32", 0x4444_2222),
        // v_cvt_f32_f16 v2, v3.h, of VOP1: 0x2222 is 1.533203125 times 2^-7.
        (&[0x7e04_1783], "v_cvt_f32_f16_e32", 0x3c44_4000),
    ];
    let words: Vec<Vec<u32>> = rows.iter().map(|(words, ..)| words.to_vec()).collect();
    let Some(found) = slots(&words, target) else { return };
    for ((words, name, expected), found) in rows.iter().zip(found) {
        let (line, instruction) = found.expect("an instruction");
        assert!(line.text.starts_with(name), "{words:x?} is `{}`", line.text);
        let mut wave = wave(target);
        for (at, value) in [(2, 0x1111_2222), (3, 0x3333_3333), (4, 0x5555_4444)] {
            (wave.registers.v[at], wave.registers.poison[at]) = ([value; LANES], [0; 2]);
        }
        wave.registers.v[3] = [0x2222_3333; LANES];
        set(&mut wave, "s8", u64::from(u32::MAX));
        execute(&mut wave, &instruction.action).expect("it executes");
        assert_eq!(wave.registers.v[2][0], *expected, "`{}`: {:x}", line.text, wave.registers.v[2][0]);
    }
}
