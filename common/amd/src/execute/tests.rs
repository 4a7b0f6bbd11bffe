//! Each instruction against its documented pseudocode: assembled, decoded and executed alone.

mod encoding;
mod known;
mod scaled;

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{blocks, cross, index, matrix, scalar, vector};
use crate::instruction::{Action, Instruction};
use crate::isa::Line;
use crate::matrix::{Matrix, Operand};
use crate::program::{decode_lines, lines};
use crate::registers::{ACCUMULATION, EXEC, LANES, M0, VCC, VGPRS};
use crate::target::{Generation, TARGETS, Target};
use crate::verdict::Step;
use crate::wave::{Temporaries, Wave};

const ASSEMBLERS: [&str; 2] = ["clang-19", "clang"];

/// An object file without a kernel.
fn assemble(source: &str, target: &Target, lanes: u32) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.o");
    for name in ASSEMBLERS {
        let mut command = Command::new(name);
        command
            .args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-c", "-"])
            .arg(format!("-mcpu={}", target.name));
        if lanes != target.lanes {
            command.arg("-mwavefrontsize64");
        }
        command.arg("-o").arg(&output).stdin(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else { continue };
        child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("it reads");
        let done = child.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{}: {}", target.name, String::from_utf8_lossy(&done.stderr));
        return Some(std::fs::read(output).expect("an object"));
    }
    None
}

/// One row of a table: `targets | instruction | registers before | registers after`.
struct Case<'a> {
    text: &'a str,
    before: Vec<(&'a str, u64)>,
    after: Vec<(&'a str, u64)>,
}

fn values(text: &str) -> Vec<(&str, u64)> {
    let value = |word| {
        let (name, value): (&str, &str) = str::split_once(word, '=').expect("a register and a value");
        (name, u64::from_str_radix(value, 16).expect("hexadecimal"))
    };
    text.split_whitespace().map(value).collect()
}

fn cases<'a>(table: &'a str, target: &Target) -> Vec<Case<'a>> {
    let mut all = Vec::new();
    for row in table.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let parts: Vec<&str> = row.split('|').map(str::trim).collect();
        // Absolute values are written with bars, too.
        let [targets, text @ .., before, after] = parts.as_slice() else { panic!("a row of other parts: {row}") };
        let start = row.find(text[0]).expect("the text");
        let end = row.rfind('|').and_then(|end| row[..end].rfind('|')).expect("two bars");
        let serves = match *targets {
            "all" => true,
            "gfx9" => target.is_gfx9(),
            "gfx11" => target.generation == Generation::Rdna3,
            "gfx12" => target.generation == Generation::Rdna4,
            "wave64" => target.lanes == 64,
            "wave32" => target.lanes == 32,
            name => name == target.name,
        };
        if serves {
            all.push(Case { text: row[start..end].trim(), before: values(before), after: values(after) });
        }
    }
    all
}

/// First register and whether it is a pair: `s3`, `v[2:3]`.
fn register(name: &str) -> (char, usize, bool) {
    let kind = name.chars().next().expect("a name");
    let rest = name[1..].trim_start_matches('[');
    let first = rest.split(&[':', ']'][..]).next().expect("a number").parse().expect("a number");
    (kind, first, rest.contains(':'))
}

fn set(wave: &mut Wave, name: &str, value: u64) {
    let registers = &mut wave.registers;
    match name {
        "scc" => (registers.scc, registers.scc_poison) = (value == 1, false),
        "exec" => registers.set_mask(EXEC, value, 0).expect("no poison"),
        "m0" => registers.set(M0, value as u32, 0).expect("no poison"),
        "vcc" => registers.set_pair(VCC, value, 0).expect("no poison"),
        "vcc_lo" => registers.set(VCC, value as u32, 0).expect("no poison"),
        _ => {
            let (kind, at, pair) = register(name);
            let dwords = if pair { 2 } else { 1 };
            for dword in 0..dwords {
                let half = (value >> (32 * dword)) as u32;
                match kind {
                    's' => registers.set((at + dword) as u8, half, 0).expect("no poison"),
                    kind => {
                        let at = at + dword + if kind == 'a' { usize::from(ACCUMULATION) } else { 0 };
                        (registers.v[at], registers.poison[at]) = ([half; LANES], [0; 4]);
                    }
                }
            }
        }
    }
}

/// The value of a register; of vector registers in the first lane that executes.
fn get(wave: &Wave, name: &str, exec: u64) -> u64 {
    let registers = &wave.registers;
    match name {
        "scc" => u64::from(registers.scc),
        "exec" => registers.exec(),
        "vcc" => registers.pair(VCC),
        "vcc_lo" => u64::from(registers.s[usize::from(VCC)]),
        "m0" => u64::from(registers.s[usize::from(M0)]),
        _ => {
            let (kind, at, pair) = register(name);
            let lane = exec.trailing_zeros() as usize % LANES;
            let dword = |at: usize| match kind {
                's' => u64::from(registers.s[at]),
                'a' => u64::from(registers.v[at + usize::from(ACCUMULATION)][lane]),
                _ => u64::from(registers.v[at][lane]),
            };
            dword(at) | if pair { dword(at + 1) << 32 } else { 0 }
        }
    }
}

/// Executes an instruction that needs no memory.
fn execute(wave: &mut Wave, action: &Action) -> Step {
    let mut room = Temporaries::new();
    match action {
        Action::Vector(vector) => vector::run(wave, &mut room, vector),
        Action::Dual(both) => vector::run_dual(wave, &mut room, both),
        Action::Matrix(matrix) => matrix::run(wave, &mut room, matrix),
        Action::Convert(conversion) => blocks::run(wave, conversion),
        Action::Sums(sums) => blocks::sums(wave, sums),
        Action::Cross(cross) => cross::run(wave, cross),
        Action::Scalar(scalar) => scalar::run(&mut wave.registers, scalar),
        Action::Relative(vector, which) => index::run(wave, &mut room, vector, Some(*which)),
        Action::RelativeScalar(scalar, which) => {
            let scalar = index::scalar_move(wave, scalar, *which)?;
            scalar::run(&mut wave.registers, &scalar)
        }
        Action::SaveExec { how, to, source } => scalar::save_exec(&mut wave.registers, *how, *to, *source),
        Action::Exchange(exchange) => cross::exchange(wave, *exchange),
        Action::Unimplemented(what) => panic!("not implemented: {what}"),
        _ => panic!("an instruction that can not be executed alone"),
    }
}

fn wave(target: &Target) -> Wave {
    let mut wave = Wave::new(target, target.lanes as usize);
    wave.registers.reset(target.lanes as usize, &[0..VGPRS, 0..0]);
    wave.set_mode(0x3f0);
    wave.registers.set_mask(EXEC, u64::MAX, 0).expect("no poison");
    wave
}

/// The instructions of an object file.
fn lines_of(object: &[u8], target: &'static Target) -> Vec<Line> {
    let file = object::File::parse(object).expect("an object");
    lines(&crate::object::sections(&file), &Default::default(), target, target.lanes)
}

/// Instructions by their texts.
fn decoded(texts: &[&str], target: &'static Target) -> Option<Vec<(Line, Instruction)>> {
    let source: String = texts.iter().map(|text| format!("{text}\n")).collect();
    let object = assemble(&source, target, target.lanes)?;
    let lines = lines_of(&object, target);
    assert_eq!(lines.len(), texts.len(), "{}: an instruction was lost", target.name);
    Some(decode_lines(lines, target, target.lanes))
}

/// The targets that the tables of cases are made for: the instructions of the others have other names, or an assembler does not know them.
fn documented() -> impl Iterator<Item = &'static Target> {
    use Generation::{Cdna2, Cdna3, Rdna3};
    TARGETS.iter().filter(|target| matches!(target.generation, Cdna2 | Cdna3 | Rdna3))
}

fn check(table: &str) {
    check_on(table, documented());
}

fn check_on(table: &str, targets: impl Iterator<Item = &'static Target>) {
    let mut wrong = Vec::new();
    for target in targets {
        let cases = cases(table, target);
        let texts: Vec<&str> = cases.iter().map(|case| case.text).collect();
        let Some(instructions) = decoded(&texts, target) else {
            // In CI it is there.
            assert!(std::env::var_os("CI").is_none(), "no assembler");
            return println!("SKIP: no assembler");
        };
        for (case, (line, instruction)) in cases.iter().zip(&instructions) {
            if let Action::Unimplemented(what) = &instruction.action {
                wrong.push(format!("{}: `{}`: not implemented: {what}", target.name, line.text()));
                continue;
            }
            let mut wave = wave(target);
            case.before.iter().for_each(|(name, value)| set(&mut wave, name, *value));
            let exec = wave.registers.exec();
            if let Err(raised) = execute(&mut wave, &instruction.action) {
                wrong.push(format!("{}: `{}`: {}", target.name, line.text(), raised.fault));
                continue;
            }
            for (name, expected) in &case.after {
                let found = get(&wave, name, exec);
                if found != *expected {
                    wrong.push(format!(
                        "{}: `{}`: {name} is {found:x}, expected {expected:x}",
                        target.name,
                        line.text()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scalar_instructions_are_as_documented() {
    check(include_str!("cases/scalar.txt"));
}

#[test]
fn integer_instructions_are_as_documented() {
    check(include_str!("cases/integer.txt"));
}

#[test]
fn float_instructions_are_as_documented() {
    check(include_str!("cases/float.txt"));
}

/// For all targets that the assembler knows.
#[test]
fn newer_and_rarer_instructions_are_as_documented() {
    check_on(include_str!("cases/newer.txt"), TARGETS.iter().filter(|target| target.generation != Generation::Cdna4));
}

/// What an instruction leaves in v0 of each lane, where v0 was `1000 + lane`, v1 is `100 + lane`, v2 is `4 * (lane ^ 1)` and the
/// masks s[2:3] and EXEC are given.
fn lanes(target: &'static Target, text: &str, exec: u64) -> Option<Vec<u32>> {
    let (_, instruction) = decoded(&[text], target)?.pop()?;
    let mut wave = wave(target);
    let count = target.lanes;
    for (at, value) in [(0, 1000), (1, 100)] {
        wave.registers.v[at] = std::array::from_fn(|lane| value + lane as u32);
        wave.registers.poison[at] = [0; 4];
    }
    wave.registers.v[2] = std::array::from_fn(|lane| 4 * (lane as u32 ^ 1));
    wave.registers.poison[2] = [0; 4];
    set(&mut wave, "s2", 0x7654_3210);
    set(&mut wave, "s3", 0xfedc_ba98);
    set(&mut wave, "exec", exec);
    execute(&mut wave, &instruction.action).expect("it executes");
    Some(wave.registers.v[0][..count as usize].to_vec())
}

/// Asserts what each lane has: `None` where it keeps what it had.
fn check_lanes(names: &[&str], text: &str, exec: u64, expected: impl Fn(usize, usize) -> Option<u32>) {
    for target in TARGETS.iter().filter(|target| names.contains(&target.name)) {
        let Some(found) = lanes(target, text, exec) else { return };
        for (lane, found) in found.iter().enumerate() {
            let expected = expected(lane, target.lanes as usize).filter(|_| exec >> lane & 1 == 1);
            assert_eq!(*found, expected.unwrap_or(1000 + lane as u32), "{}: `{text}`, lane {lane}", target.name);
        }
    }
}

const ALL: [&str; 3] = ["gfx90a", "gfx942", "gfx1100"];
const GFX9: [&str; 2] = ["gfx90a", "gfx942"];
const GFX12: [&str; 2] = ["gfx1200", "gfx1201"];
const EVERY: u64 = u64::MAX;

#[test]
fn dpp_reads_other_lanes() {
    let at = |lane: usize| Some(100 + lane as u32);
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", EVERY, |lane, _| {
        at(lane ^ 3)
    });
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf", EVERY, |lane, _| {
        if lane % 16 == 0 { None } else { at(lane - 1) }
    });
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1", EVERY, |lane, _| {
        if lane % 16 < 8 { Some(0) } else { at(lane - 8) }
    });
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_shl:15 row_mask:0xf bank_mask:0xf bound_ctrl:1", EVERY, |lane, _| {
        if lane % 16 == 0 { at(lane + 15) } else { Some(0) }
    });
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_ror:3 row_mask:0xf bank_mask:0xf", EVERY, |lane, _| {
        at(lane / 16 * 16 + (lane % 16 + 13) % 16)
    });
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf", EVERY, |lane, _| at(lane ^ 15));
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf", EVERY, |lane, _| at(lane ^ 7));
    check_lanes(&GFX9, "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf", EVERY, |lane, _| {
        if lane / 16 % 2 == 1 { at(lane / 16 * 16 - 1) } else { None }
    });
    check_lanes(
        &GFX9,
        "v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xf bank_mask:0xf bound_ctrl:1",
        EVERY,
        |lane, _| {
            if lane < 16 { Some(0) } else { at(lane / 16 * 16 - 1) }
        },
    );
    check_lanes(&GFX9, "v_mov_b32_dpp v0, v1 row_bcast:31 row_mask:0xc bank_mask:0xf", EVERY, |lane, _| {
        if lane < 32 { None } else { at(31) }
    });
    check_lanes(&GFX9, "v_mov_b32_dpp v0, v1 wave_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", EVERY, |lane, _| {
        if lane == 0 { Some(0) } else { at(lane - 1) }
    });
    check_lanes(&["gfx1100"], "v_mov_b32_dpp v0, v1 row_xmask:5 row_mask:0xf bank_mask:0xf", EVERY, |lane, _| {
        at(lane ^ 5)
    });
    check_lanes(&["gfx1100"], "v_mov_b32_dpp v0, v1 row_share:3 row_mask:0xf bank_mask:0xf", EVERY, |lane, _| {
        at(lane / 16 * 16 + 3)
    });
    check_lanes(&["gfx1100"], "v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]", EVERY, |lane, _| at(lane ^ 7));
}

#[test]
fn dpp_masks_rows_and_banks_and_lanes() {
    let at = |lane: usize| Some(100 + lane as u32);
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 quad_perm:[0,0,0,0] row_mask:0x2 bank_mask:0x5", EVERY, |lane, _| {
        if lane / 16 == 1 && lane % 16 / 4 % 2 == 0 { at(lane & !3) } else { None }
    });
    // Lane 0 of each four does not execute: without bound_ctrl its readers are left alone, with it they read 0.
    let exec = 0xeeee_eeee_eeee_eeee;
    check_lanes(&ALL, "v_mov_b32_dpp v0, v1 quad_perm:[0,0,1,2] row_mask:0xf bank_mask:0xf", exec, |lane, _| {
        if lane % 4 < 2 { None } else { at(lane - 1) }
    });
    check_lanes(
        &ALL,
        "v_mov_b32_dpp v0, v1 quad_perm:[0,0,1,2] row_mask:0xf bank_mask:0xf bound_ctrl:1",
        exec,
        |lane, _| {
            if lane % 4 < 2 { Some(0) } else { at(lane - 1) }
        },
    );
}

#[test]
fn dpp_reads_all_lanes_before_it_writes_any() {
    check_lanes(
        &ALL,
        "v_add_u32_dpp v0, v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        EVERY,
        |lane, lanes| {
            let _ = lanes;
            Some(1000 + (lane as u32 ^ 1) + 100 + lane as u32)
        },
    );
}

#[test]
fn lanes_are_exchanged() {
    let at = |lane: usize| Some(100 + lane as u32);
    check_lanes(&ALL, "ds_bpermute_b32 v0, v2, v1", EVERY, |lane, _| at(lane ^ 1));
    check_lanes(&ALL, "ds_bpermute_b32 v0, v2, v1 offset:8", EVERY, |lane, lanes| at(((lane ^ 1) + 2) % lanes));
    check_lanes(&ALL, "ds_bpermute_b32 v0, v2, v1", 0x5555_5555_5555_5555, |_, _| Some(0));
    check_lanes(&ALL, "ds_permute_b32 v0, v2, v1", EVERY, |lane, _| at(lane ^ 1));
    check_lanes(&ALL, "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)", EVERY, |lane, _| at(lane ^ 16));
    check_lanes(&ALL, "ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,1,0,3,2)", EVERY, |lane, _| at(lane ^ 1));
    check_lanes(&["gfx1100"], "v_permlane16_b32 v0, v1, s2, s3", EVERY, |lane, _| at(lane));
    check_lanes(&["gfx1100"], "v_permlanex16_b32 v0, v1, s2, s3", EVERY, |lane, _| at(lane ^ 16));
    check_lanes(&["gfx1100"], "v_permlanex16_b32 v0, v1, s2, s3", 0xffff, |_, _| None);
    check_lanes(&["gfx1100"], "v_permlanex16_b32 v0, v1, s2, s3 op_sel:[1,0]", 0xffff, |lane, _| at(lane ^ 16));
    check_lanes(&["gfx1100"], "v_permlanex16_b32 v0, v1, s2, s3 op_sel:[0,1]", 0xffff, |_, _| Some(0));
    // Each lane's own selector is the lower bits of 4 * (lane ^ 1).
    let selected = |lane: usize| lane & !15 | (4 * (lane ^ 1)) & 15;
    check_lanes(&GFX12, "v_permlane16_var_b32 v0, v1, v2", EVERY, |lane, _| at(selected(lane)));
    check_lanes(&GFX12, "v_permlanex16_var_b32 v0, v1, v2", EVERY, |lane, _| at(selected(lane) ^ 16));
    check_lanes(&GFX12, "v_permlanex16_var_b32 v0, v1, v2", 0xffff, |_, _| None);
    check_lanes(&GFX12, "v_permlanex16_var_b32 v0, v1, v2 op_sel:[1,0]", 0xffff, |lane, _| at(selected(lane) ^ 16));
    check_lanes(&GFX12, "v_permlanex16_var_b32 v0, v1, v2 op_sel:[0,1]", 0xffff, |_, _| Some(0));
    check_lanes(&GFX9, "v_mbcnt_hi_u32_b32 v0, -1, v1", EVERY, |lane, _| {
        Some(100 + lane as u32 + (lane as u32).saturating_sub(32))
    });
    check_lanes(&ALL, "v_mbcnt_lo_u32_b32 v0, -1, v1", EVERY, |lane, _| {
        Some(100 + lane as u32 + (lane as u32).min(32))
    });
    check_lanes(&ALL, "v_writelane_b32 v0, 7, 5", EVERY, |lane, _| (lane == 5).then_some(7));
    // EXEC does not matter to it.
    check_lanes(&ALL, "v_readlane_b32 s4, v1, 9", 0, |_, _| None);
}

#[test]
fn a_wide_result_carries_lane_by_lane() {
    for target in documented() {
        let text = if target.is_gfx9() { "v_add_co_u32_e64 v0, s[4:5], v1, v2" } else { "v_add_co_u32 v0, s4, v1, v2" };
        let Some(mut instructions) = decoded(&[text], target) else { return };
        let (_, instruction) = instructions.remove(0);
        let mut wave = wave(target);
        wave.registers.v[1] = std::array::from_fn(|lane| if lane % 3 == 0 { u32::MAX } else { 0 });
        wave.registers.v[2] = [1; LANES];
        (wave.registers.poison[1], wave.registers.poison[2]) = ([0; 4], [0; 4]);
        execute(&mut wave, &instruction.action).expect("it executes");
        let expected = (0..target.lanes).filter(|lane| lane % 3 == 0).fold(0, |mask, lane| mask | 1_u64 << lane);
        assert_eq!(wave.registers.pair(4) & wave.registers.all(), expected, "{}", target.name);
    }
}

/// An instruction, the halves of registers that nobody wrote, and those of v0 behind it.
type Followed<'a> = (&'a str, &'a [(&'a str, [bool; 2])], [bool; 2]);

/// Which halves of v0 in lane 0 nobody wrote, after an instruction on registers of which `poisoned` are unwritten.
fn poison_of(target: &'static Target, text: &str, poisoned: &[(&str, [bool; 2])]) -> Option<[bool; 2]> {
    let (_, instruction) = decoded(&[text], target)?.pop()?;
    let mut wave = wave(target);
    for at in 0..16 {
        (wave.registers.v[at], wave.registers.poison[at]) = ([0x0101_0101; LANES], [0; 4]);
        set(&mut wave, &format!("s{at}"), 1);
    }
    for (name, halves) in poisoned {
        let (kind, at, _) = register(name);
        match kind {
            's' => wave.registers.s_poison[at] = if halves[0] { u32::MAX } else { 0 },
            _ => wave.registers.poison[at] = [0, 0, 1, 1].map(|half| u64::from(halves[half])),
        }
    }
    execute(&mut wave, &instruction.action).expect("it executes");
    let bytes = wave.registers.poison[0].map(|lanes| lanes & 1 == 1);
    Some([bytes[0] || bytes[1], bytes[2] || bytes[3]])
}

#[test]
fn what_nobody_wrote_is_followed_by_halves() {
    let Some(target) = Target::named("gfx942") else { return };
    let upper = [("v1", [false, true])];
    let rows: &[Followed<'_>] = &[
        ("v_mov_b32_e32 v0, v1", &upper, [false, true]),
        ("v_add_f32_e32 v0, v1, v2", &upper, [true, true]),
        ("v_add_u32_e32 v0, v1, v2", &upper, [false, true]),
        ("v_and_b32_e32 v0, 0xffff, v1", &upper, [false, false]),
        ("v_and_b32_e32 v0, v2, v1", &upper, [false, true]),
        ("v_or_b32_e32 v0, -1, v1", &upper, [false, false]),
        ("v_lshlrev_b32_e32 v0, 16, v1", &upper, [false, false]),
        ("v_lshrrev_b32_e32 v0, 16, v1", &upper, [true, false]),
        ("v_cvt_f32_f16_e32 v0, v1", &upper, [false, false]),
        ("v_add_u16_e32 v0, v1, v2", &upper, [false, false]),
        ("v_pack_b32_f16 v0, v1, v2 op_sel:[1,0,0]", &upper, [true, false]),
        ("v_pk_add_u16 v0, v1, v2", &upper, [false, true]),
        ("v_pk_add_u16 v0, v1, v2 op_sel_hi:[0,1]", &upper, [false, false]),
        ("v_perm_b32 v0, v1, v2, v3", &upper, [false, false]),
        ("v_bfe_u32 v0, v1, 0, 16", &upper, [false, false]),
        ("v_cndmask_b32_e64 v0, v1, v2, s[2:3]", &[("v1", [true, true])], [false, false]),
        ("v_cndmask_b32_e64 v0, v2, v1, s[2:3]", &[("v1", [true, true])], [true, true]),
        ("v_cndmask_b32_e64 v0, v2, v3, s[2:3]", &[("s2", [true, true])], [true, true]),
        ("v_add_u32_e32 v0, s5, v2", &[("s5", [true, true])], [true, true]),
        (
            "v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
            &[("v1", [true, true])],
            [false, false],
        ),
        ("v_xor_b32_e32 v0, v1, v1", &[], [false, false]),
        // A constant has no upper register.
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], 1.0", &[], [false, false]),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], 1.0 op_sel:[0,0,1]", &[], [true, true]),
    ];
    for (text, poisoned, expected) in rows {
        let Some(found) = poison_of(target, text, poisoned) else { return };
        assert_eq!(found, *expected, "`{text}`");
    }
    let Some(target) = Target::named("gfx1100") else { return };
    let rows: &[Followed<'_>] = &[
        ("v_add_nc_u16 v0, v1, v2", &[("v0", [true, true])], [false, true]),
        ("v_cvt_f16_f32_e32 v0, v1", &[("v0", [true, true])], [false, true]),
        ("v_dual_mov_b32 v3, v4 :: v_dual_and_b32 v0, 0xffff, v1", &upper, [false, false]),
    ];
    for (text, poisoned, expected) in rows {
        let Some(found) = poison_of(target, text, poisoned) else { return };
        assert_eq!(found, *expected, "`{text}`");
    }
}
