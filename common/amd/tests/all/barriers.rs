//! Lanes that do not come to a barrier: those that have returned are no fault, those that go on are.

use bluefin_amd::{Fault, Memory, Missing, Place, Target};

use crate::bodies::{PRELUDE, each, each_of, passes, races};
use crate::support::{Arguments, Tools, dwords, launch, run, verdict};

/// Threads from the 200th on return, which is neither a whole wave of 64 lanes nor one of 32.
const RETURN: &str = "SHARED unsigned s[256]; const unsigned n = in[200]; if (t >= n) return;";

fn is_divergent(fault: &Fault) -> bool {
    matches!(fault, Fault::Barrier { missing: Missing::Lanes { .. } })
}

#[test]
fn lanes_that_have_returned_are_not_waited_for() {
    let swapped = |found: &[u32]| (0..200).all(|t| found[t as usize] == t ^ 1);
    passes(&format!("{RETURN} s[t] = in[t]; barrier(); out[t] = s[t ^ 1];"), 2, swapped);
    let tree = "s[t] = in[t]; barrier(); \
                for (unsigned half = 128; half; half >>= 1) { if (t < half && t + half < n) s[t] += s[t + half]; barrier(); } \
                if (t == 0) out[b] = s[0];";
    passes(&format!("{RETURN} {tree}"), 2, |found| found[..2] == [199 * 100; 2]);
    // Some in each turn of a loop, and some behind a barrier.
    let turns = "unsigned sum = 0; for (unsigned i = 0; i < 8; ++i) { if (t + in[i] * 16 >= n) return; s[t] = in[i]; barrier(); \
                 sum += s[t & ~1u]; barrier(); } out[t] = sum;";
    passes(&format!("{RETURN} {turns}"), 2, |found| found[..88].iter().all(|sum| *sum == 28));
    // The compiler puts the store of those that return behind all barriers.
    let stores = "s[t] = in[t]; barrier(); const unsigned v = s[t ^ 1]; if (v < 77) { out[t] = 1; return; } \
                  barrier(); s[t] = 2 * v; barrier(); if (t >= in[150]) return; out[t] = s[t] + v;";
    let expected = |t: u32| if t ^ 1 < 77 { 1 } else { 3 * (t ^ 1) };
    passes(&format!("{RETURN} {stores}"), 2, |found| (0..150).all(|t| found[t as usize] == expected(t)));
}

#[test]
fn lanes_without_anything_behind_a_barrier_are_not_waited_for() {
    let body = "SHARED unsigned s[256]; const unsigned n = in[200]; if (t < n) { s[t] = in[t]; barrier(); out[t] = s[t ^ 1]; }";
    passes(body, 2, |found| (0..200).all(|t| found[t as usize] == t ^ 1));
}

/// Whatever they do next with those that came to it.
#[test]
fn lanes_that_go_on_without_a_barrier_are_a_fault() {
    // Waves whose lanes are all beyond would go ahead.
    const SKIP: &str = "SHARED unsigned s[256]; const unsigned n = in[230]; s[t] = in[t]; if (t < n) barrier();";
    for body in [
        "out[t] = s[255 - t];".to_string(),
        "out[t] = 3;".to_string(),
        // One lane of each wave adds what all have.
        "__hip_atomic_fetch_add(words, in[t] * t, __ATOMIC_RELAXED, AGENT);".to_string(),
        "const unsigned sum = t + __builtin_amdgcn_ds_bpermute(4 * (t ^ 1), t); if (t % 64 == 0) out[t] = sum;"
            .to_string(),
        "const unsigned sum = t + __builtin_amdgcn_mov_dpp(t, 0xb1, 15, 15, true); if (t % 64 == 0) out[t] = sum;"
            .to_string(),
        "barrier(); out[t] = 3;".to_string(),
    ] {
        races(&format!("{SKIP} {body}"), 1, is_divergent);
    }
    // Each of two branches has one.
    let both = "SHARED unsigned s[256]; s[t] = in[t]; \
                if (t < in[230]) { barrier(); out[t] = s[255 - t]; } else { barrier(); words[t] = 2 * s[255 - t]; }";
    races(both, 1, is_divergent);
    // A loop that some leave earlier.
    let turns = "SHARED unsigned s[256]; unsigned sum = 0; \
                 for (unsigned i = t; i < in[300]; i += 256) { s[t] = in[i]; barrier(); sum += s[t ^ 1]; barrier(); } out[t] = sum;";
    races(turns, 1, is_divergent);
}

/// Alone, they do not come behind what the others have waited for.
#[test]
fn lanes_that_go_on_alone_are_not_ordered_by_the_barrier() {
    for then in [
        "if (t < in[230]) { barrier(); out[t] = s[t]; } else { words[t] = s[255 - t]; }",
        "if (t < in[230]) barrier(); else out[t] = s[255 - t];",
        // What these lanes do is behind the barrier in the code.
        "const float x = in[t]; if (x > 229.5f) { words[t] = s[255 - t]; return; } barrier(); if (t < in[150]) out[t] = s[t];",
    ] {
        let body = format!("SHARED unsigned s[256]; s[t] = 1; barrier(); s[t] = in[t]; {then}");
        races(&body, 1, |fault| matches!(fault, Fault::Race { .. }) || is_divergent(fault));
    }
}

#[test]
fn those_that_have_returned_are_not_blamed_with_those_that_go_on() {
    each(&format!("{RETURN} if (t < in[100] || t >= in[190]) barrier(); out[t] = 3;"), 1, |target, seed, done| {
        let found = done.expect_err("a fault");
        let Fault::Barrier { missing: Missing::Lanes { lanes, on } } = &found.fault else { panic!("{found}") };
        let of_wave: &[(u32, u64)] = match target.name {
            "gfx1100" => &[(3, 0xffff_fff0), (5, 0x3fff_ffff)],
            _ => &[(1, 0xffff_fff0_0000_0000), (2, 0x3fff_ffff_ffff_ffff)],
        };
        assert!(of_wave.contains(&(found.wave, *lanes)), "{}, seed {seed}: {found}", target.name);
        assert!(!on.text.is_empty() && on.text != "s_barrier", "{}: {found}", target.name);
        assert_eq!(found.instruction.map(|site| site.text), Some("s_barrier".to_string()));
    });
}

/// Registers of a compiler's own are spilled and summed with all lanes on, those that have returned among them.
#[test]
fn whole_waves_of_the_compiler_are_no_lanes_that_go_on() {
    let whole = "\n#if defined(__GFX9__)\n#define WAVE unsigned long\n#define BITS \"b64\"\n#define ALL \"exec\"\n#define ADD \"v_add_u32\"\n\
                 #else\n#define WAVE unsigned\n#define BITS \"b32\"\n#define ALL \"exec_lo\"\n#define ADD \"v_add_nc_u32\"\n#endif\n\
                 WAVE saved; asm volatile(\"s_or_saveexec_\" BITS \" %0, \" \"-1\\n\" ADD \" v40, v40, v40\\n\" \"s_mov_\" BITS \" \" ALL \", %0\" \
                 : \"=s\"(saved) : : \"v40\", \"scc\"); out[t] = s[t ^ 1];";
    passes(&format!("{RETURN} s[t] = in[t]; barrier(); {whole}"), 1, |found| {
        (0..200).all(|t| found[t as usize] == t ^ 1)
    });
}

/// gfx12 has a barrier of two parts.
#[test]
fn barriers_of_two_parts_are_as_others() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx1201") else { return };
    let kernel = |name: &str, body: &str| {
        format!("GLOBAL void {name}(unsigned* out, const unsigned* in) {{ THREAD; {body} }}\n")
    };
    let returns = kernel("returns", &format!("{RETURN} s[t] = in[t]; barrier(); out[t] = s[t ^ 1];"));
    let goes_on =
        kernel("goes_on", "SHARED unsigned s[256]; s[t] = in[t]; if (t < in[230]) barrier(); out[t] = s[255 - t];");
    let program = tools.program(&format!("{PRELUDE}{returns}{goes_on}"), target);
    let mut memory = Memory::new();
    let [out, from] = ["out", "in"].map(|name| memory.allocate(name, 256 * 4, 4));
    let input: Vec<u8> = (0..256_u32).flat_map(u32::to_le_bytes).collect();
    memory.write(from, &input).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(from);
    run(&program, &mut memory, &launch("returns", 1, 256, &arguments), 0);
    assert!((0..200).zip(dwords(&memory, out, 200)).all(|(t, found)| found == t ^ 1));
    let found = verdict(&program, &mut memory, &launch("goes_on", 1, 256, &arguments));
    assert!(is_divergent(&found.fault), "{found}");
}

/// What a wave does between the two parts is not behind the barrier for others, nor before it.
#[test]
fn the_two_parts_of_a_barrier_order_nothing_between_them() {
    let body = |before: &str, between: &str| {
        format!(
            "SHARED unsigned s[256]; s[t] = 1000 + t; barrier(); unsigned v = 0; {before} \
             asm volatile(\"s_wait_dscnt 0x0\" ::: \"memory\"); __builtin_amdgcn_s_barrier_signal(-1); {between} \
             asm volatile(\"s_wait_dscnt 0x0\" ::: \"memory\"); __builtin_amdgcn_s_barrier_wait(-1);"
        )
    };
    let is_race = |fault: &Fault| matches!(fault, Fault::Race { place: Place::Lds { .. }, .. });
    let check = |before: &str, between: &str, then: &str, is_right: bool| {
        each_of(&["gfx1201"], &format!("{} {then}", body(before, between)), 1, |done| match done {
            Ok(found) => assert!(is_right && found[3] != 0, "{before} {between}"),
            Err(verdict) => assert!(!is_right && is_race(&verdict.fault), "{before} {between}: {verdict}"),
        });
    };
    let (store, read) = ("s[t] = in[t] + 1;", "v = s[255 - t]; asm volatile(\"\" : \"+v\"(v));");
    let (reads, stores) = ("out[t] = s[255 - t];", "s[t] = 5; out[t] = v;");
    check(store, "", reads, true);
    check("", store, reads, false);
    check(read, "", stores, true);
    check("", read, stores, false);
    check("", "v = in[t] + s[t]; words[t] = v;", reads, true);
}
