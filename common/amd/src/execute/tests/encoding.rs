//! No bit of an encoding is dropped: one that is changed shows in the text, is read from the words, or is refused.

use super::*;
use crate::isa::{Encoded, Family, Isa, decode};
use crate::program::lines;

fn decoded_words(words: &[u32], target: &'static Target) -> Result<Encoded, String> {
    decode(Isa::of(target), target.lanes, words).0
}

/// Bits that compilers set in what no instruction of that form uses: a source that is not there is the constant 0, and has an upper half.
fn is_of_nothing(encoded: &Encoded, bit: usize) -> bool {
    let has = |source| encoded.operands.iter().any(|operand| operand.source == Some(source));
    // A scalar offset and a constant one that is 0 are as the register alone.
    let constant = encoded.family == Family::Smem && bit == 17 && encoded.target.is_gfx9();
    constant
        || bit == 48 && !has(1)
        || bit == 57 && !has(2)
        || encoded.name.starts_with("v_accvgpr_") && [14, 59, 60].contains(&bit)
}

#[test]
fn no_bit_is_dropped() {
    let tables =
        [include_str!("../cases/scalar.txt"), include_str!("../cases/integer.txt"), include_str!("../cases/float.txt")];
    for target in documented() {
        let cases: Vec<Case<'_>> = tables.iter().flat_map(|table| cases(table, target)).collect();
        let texts: Vec<&str> = cases.iter().map(|case| case.text).collect();
        let Some(plain) = decoded(&texts, target) else { return };
        let mut dropped = std::collections::BTreeSet::new();
        for (line, _) in &plain {
            let before = line.encoded.as_ref().expect("an instruction");
            for bit in 0..32 * line.words.len() {
                let mut words = line.words.clone();
                words[bit / 32] ^= 1 << (bit % 32);
                // Room for a literal.
                words.extend([0; 4]);
                let same = decoded_words(&words, target).is_ok_and(|after| after == *before);
                if same && !is_of_nothing(before, bit) {
                    dropped.insert(format!("{}: bit {bit} of `{before}`", target.name));
                }
            }
        }
        assert!(dropped.is_empty(), "{} dropped: {dropped:#?}", dropped.len());
    }
}

/// The same of what LLVM's disassembler was asked about.
#[test]
fn no_bit_of_what_llvm_knows_is_dropped() {
    let mut dropped = std::collections::BTreeSet::new();
    for row in include_str!("../../../tests/data/decoded.tsv").lines().filter(|row| !row.starts_with('#')) {
        let parts: Vec<&str> = row.split('\t').collect();
        let [target, words, _] = parts[..] else { panic!("{row}") };
        let target = Target::named(target).expect("a target");
        let words: Vec<u32> = words.split(' ').map(|word| u32::from_str_radix(word, 16).expect("a word")).collect();
        let before = decoded_words(&words, target).expect("an instruction");
        for bit in 0..32 * words.len() {
            let mut words = words.clone();
            words[bit / 32] ^= 1 << (bit % 32);
            words.extend([0; 4]);
            let same = decoded_words(&words, target).is_ok_and(|after| after == before);
            if same && !is_of_nothing(&before, bit) {
                dropped.insert(format!("{}: bit {bit} of `{before}`", target.name));
            }
        }
    }
    assert!(dropped.is_empty(), "{} dropped: {dropped:#?}", dropped.len());
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
    for (words, name, expected) in rows {
        let of = lines(&[(0, words.to_vec())], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        assert!(line.text().starts_with(name), "{words:x?} is `{}`", line.text());
        let mut wave = wave(target);
        for (at, value) in [(2, 0x1111_2222), (3, 0x3333_3333), (4, 0x5555_4444)] {
            (wave.registers.v[at], wave.registers.poison[at]) = ([value; LANES], [0; 4]);
        }
        wave.registers.v[3] = [0x2222_3333; LANES];
        set(&mut wave, "s8", u64::from(u32::MAX));
        execute(&mut wave, &instruction.action).expect("it executes");
        assert_eq!(wave.registers.v[2][0], *expected, "`{}`: {:x}", line.text(), wave.registers.v[2][0]);
    }
}

/// Instructions that no assembler here knows, as LLVM 22 assembles them: words, registers before and behind.
#[test]
fn instructions_without_an_assembler_are_as_documented() {
    let rows = [
        // v_dual_dot2acc_f32_bf16 v0, v1, v2 :: v_dual_mov_b32 v3, v4
        ("gfx1100", vec![0xcb50_0501, 0x0002_0104], "v0=3f800000 v1=3f804000 v2=40003f80 v4=7", "v0=40a00000 v3=7"),
        // v_swap_b16 v0.h, v1.l; v_swap_b16 v0.l, v1.h
        ("gfx1100", vec![0x7f00_cd01], "v0=11112222 v1=33334444", "v0=44442222 v1=33331111"),
        ("gfx1201", vec![0x7e00_cd81], "v0=11112222 v1=33334444", "v0=11113333 v1=22224444"),
        // v_ashr_pk_i8_i32 v0, v1, v2, v3; v_ashr_pk_u8_i32 v0, v1, v2, v3 op_sel:[0,0,0,1]
        ("gfx950", vec![0xd265_0000, 0x040e_0501], "v0=12345678 v1=fffff000 v2=00000120 v3=24", "v0=12341280"),
        ("gfx950", vec![0xd266_4000, 0x040e_0501], "v0=12345678 v1=fffff000 v2=00001230 v3=4", "v0=ff005678"),
        // v_pk_minimum3_f16 v0, v1, v2, v3; v_pk_maximum3_f16 v0, v1, v2, v3
        ("gfx950", vec![0xd39b_4000, 0x1c0e_0501], "v1=3c004000 v2=42003c00 v3=7e004200", "v0=7e003c00"),
        ("gfx950", vec![0xd39c_4000, 0x1c0e_0501], "v1=3c004000 v2=42003c00 v3=38004200", "v0=42004200"),
        // v_dot2c_f32_bf16_e32 v0, v1, v2
        ("gfx950", vec![0x2c00_0501], "v0=3f800000 v1=3f804000 v2=40003f80", "v0=40a00000"),
    ];
    for (name, words, before, after) in rows {
        let target = Target::named(name).expect("a target");
        let of = lines(&[(0, words)], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        let mut wave = wave(target);
        values(before).into_iter().for_each(|(name, value)| set(&mut wave, name, value));
        execute(&mut wave, &instruction.action).expect("it executes");
        for (register, expected) in values(after) {
            let found = get(&wave, register, u64::MAX);
            assert_eq!(found, expected, "{name}: `{}`: {register} is {found:x}", line.text());
        }
    }
}

/// ds_bpermute_fi_b32 v0, v2, v1: lanes that EXEC leaves out are read.
#[test]
fn lanes_that_do_not_execute_are_fetched() {
    let target = Target::named("gfx1201").expect("a target");
    let of = lines(&[(0, vec![0xdb34_0000, 0x0000_0102])], &Default::default(), target, target.lanes);
    let (_, instruction) = decode_lines(of, target, target.lanes).remove(0);
    let mut wave = wave(target);
    set(&mut wave, "v0", 7);
    wave.registers.v[1] = std::array::from_fn(|lane| 100 + lane as u32);
    wave.registers.v[2] = std::array::from_fn(|lane| 4 * (lane as u32 ^ 1));
    (wave.registers.poison[1], wave.registers.poison[2]) = ([0; 4], [0; 4]);
    set(&mut wave, "exec", 0x5555_5555);
    execute(&mut wave, &instruction.action).expect("it executes");
    for (lane, found) in wave.registers.v[0].iter().enumerate().take(32) {
        assert_eq!(*found, if lane % 2 == 0 { 101 + lane as u32 } else { 7 }, "lane {lane}");
    }
}

/// Inline constants and vector registers are none of the sources that the transcendentals of scalars have.
#[test]
fn sources_of_scalar_functions_are_scalars() {
    let target = Target::named("gfx1201").expect("a target");
    // v_s_rcp_f16 s0, s1, which is encoded so; then 1.0 as its source, and v1.
    for (source, refused) in [(0x001, false), (0x0f2, true), (0x101, true)] {
        let of = lines(&[(0, vec![0xd685_0000, source])], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        assert_eq!(matches!(instruction.action, Action::Unimplemented(_)), refused, "`{}`", line.text());
    }
}

/// A sample of each target's instructions is decoded as LLVM decodes it.
#[test]
fn instructions_are_those_of_llvm() {
    let rows = include_str!("../../../tests/data/decoded.tsv").lines().filter(|row| !row.starts_with('#'));
    let mut count = 0;
    for row in rows {
        let parts: Vec<&str> = row.split('\t').collect();
        let [target, words, text] = parts[..] else { panic!("{row}") };
        let target = Target::named(target).expect("a target");
        let words: Vec<u32> = words.split(' ').map(|word| u32::from_str_radix(word, 16).expect("a word")).collect();
        let (decoded, length) = crate::isa::disassemble(&words, target, target.lanes);
        assert_eq!((decoded.as_deref(), length), (Ok(text), words.len()), "{row}");
        count += 1;
    }
    assert!(count > 1000, "{count}");
}

/// "The ACC_CD bit controls only the DEST vgpr, not the SRC2 location" (CDNA 4, "Sparse matrices"), as LLVM prints it.
#[test]
fn indices_of_a_sparse_matrix_are_not_in_accumulation_registers() {
    let target = Target::named("gfx942").expect("a target");
    let rows: [(&[u32], &str, u16, u16); 2] = [
        (
            &[0xd3e2_9a0a, 0x1406_0902],
            "v_smfmac_f32_16x16x32_f16 a[10:13], v[2:3], a[4:7], v1 cbsz:2 abid:3",
            ACCUMULATION + 10,
            1,
        ),
        (&[0xd3e2_0b0a, 0x0c0e_0902], "v_smfmac_f32_16x16x32_f16 v[10:13], a[2:3], v[4:7], v3 cbsz:3 abid:1", 10, 3),
    ];
    for (words, text, to, from) in rows {
        let of = lines(&[(0, words.to_vec())], &Default::default(), target, target.lanes);
        let (line, instruction) = decode_lines(of, target, target.lanes).remove(0);
        assert_eq!(line.text(), text);
        let Action::Matrix(multiply) = instruction.action else { panic!("`{text}` is no matrix instruction") };
        assert_eq!((multiply.d, multiply.index), (to, Some(from)), "`{text}`");
    }
}

/// A release for the system, as LLVM has it of gfx90a.
#[test]
fn bits_that_only_a_compiler_sets_are_known() {
    let target = Target::named("gfx90a").expect("a target");
    let written_back = decoded_words(&[0xe0a0_c000, 0], target).expect("an instruction");
    assert_eq!(
        (written_back.name, written_back.modifiers.glc, written_back.modifiers.sc1),
        ("buffer_wbl2", true, true)
    );
}

/// Images are named; what is not executed of them is refused by name.
#[test]
fn images_are_refused_by_name() {
    let rows: [(&str, &[u32], &str); 6] = [
        (
            "gfx908",
            &[0xf203_ff00, 0x8002_0004],
            "image_load v[0:2], v4, s[8:15] dmask:0xf unorm glc slc a16 tfe lwe da d16",
        ),
        ("gfx90a", &[0xf001_0f00, 0x0002_0004], "image_load a[0:3], v4, s[8:15] dmask:0xf"),
        (
            "gfx1030",
            &[0xf000_0f1a, 0x0002_0004, 0x605],
            "image_load v[0:3], [v4, v5, v6], s[8:15] dmask:0xf dim:SQ_RSRC_IMG_CUBE",
        ),
        (
            "gfx1100",
            &[0xf080_0f05, 0x0402_0004, 0x605],
            "image_sample_c v[0:3], [v4, v5, v6], s[8:15], s[4:7] dmask:0xf dim:SQ_RSRC_IMG_2D",
        ),
        (
            "gfx1201",
            &[0xd043_0003, 0x0010_1000, 0x6_0504],
            "image_atomic_add_uint v0, [v4, v5, v6], s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_CUBE th:TH_ATOMIC_RETURN",
        ),
        ("gfx1100", &[0xf064_8f80, 0x0001_0409], "image_bvh_intersect_ray v[4:7], v[9:19], s[4:7]"),
    ];
    for (name, words, text) in rows {
        let target = Target::named(name).expect("a target");
        let of = lines(&[(0, words.to_vec())], &Default::default(), target, target.lanes);
        let decoded = decode_lines(of, target, target.lanes);
        assert_eq!(decoded.len(), 1, "{text}");
        let (line, instruction) = &decoded[0];
        assert_eq!(line.text(), text);
        let Action::Unimplemented(what) = &instruction.action else { panic!("`{text}` is executed") };
        assert!(what.contains("images") && what.contains("not executed") && what.contains(text), "{what}");
    }
    let target = Target::named("gfx942").expect("a target");
    assert!(decoded_words(&[0xf000_1f00, 0x0002_0004], target).is_err_and(|reason| reason.contains("images")));
    // A word of addresses that there are none for, and one that is missing.
    let target = Target::named("gfx1030").expect("a target");
    assert!(decoded_words(&[0xf000_0f02, 0x0002_0004, 5], target).is_err());
    assert!(decoded_words(&[0xf000_0f0a, 0x0002_0004], target).is_err());
}

/// Words that are no instruction, or that say more than one has a use for, are refused and named.
#[test]
fn what_is_not_understood_is_refused_with_its_words() {
    let refused = |target: &str, words: &[u32]| {
        let target = Target::named(target).expect("a target");
        decoded_words(words, target).expect_err("words that are no instruction")
    };
    assert!(refused("gfx942", &[0xd100_0001, 0x8002_0501]).contains("8002"), "a sign of a mask");
    assert!(refused("gfx942", &[0xd100_8001, 0x0002_0501]).contains("no use for bit 15"));
    assert!(refused("gfx1100", &[0xd518_0001, 0x0402_0501]).contains("no use for bit"), "an unused source");
    // An odd pair, of scalar and of vector registers.
    assert!(refused("gfx942", &[0xbe80_0103]).contains("scalar register 3"));
    assert!(refused("gfx942", &[0x7e00_3103]).contains("vector register 3"));
    // What saturating would be of bits, no document says.
    let target = Target::named("gfx942").expect("a target");
    let of = lines(&[(0, vec![0xd384_c001, 0x1802_0702])], &Default::default(), target, target.lanes);
    let (_, instruction) = decode_lines(of, target, target.lanes).remove(0);
    let Action::Unimplemented(what) = &instruction.action else { panic!("a shift to the left that saturates") };
    assert!(what.contains("clamp of v_pk_lshlrev_b16, of which no document says"), "{what}");
    assert!(refused("gfx942", &[0xd3ff_ffff, 0]).contains("D3FFFFFF"));
}
