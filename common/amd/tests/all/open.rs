//! What a race leaves open, bytes that nobody wrote, and caches that hold what was there before: a fault where it is used, and nowhere else.

use bluefin_amd::{Fault, Memory, Other, Place, Target, Use};

use crate::bodies::{each, passes, races};
use crate::support::{Arguments, Tools, launch, verdict};

fn is_race(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { place: Place::Buffer { .. } | Place::Lds { .. }, .. })
}

/// All lanes load what few of them change, as a compiler lets them that spreads few elements over many.
fn in_place(use_of_it: &str) -> String {
    format!(
        "words[t] = 5; barrier(); unsigned x = words[t % 64]; asm volatile(\"\" : \"+v\"(x)); \
         if (t < 64) words[t] = x + in[t]; {use_of_it}"
    )
}

#[test]
fn values_that_races_leave_open_may_be_loaded() {
    passes(&in_place("if (t < 64) out[t] = x;"), 1, |found| found[..64].iter().all(|value| *value == 5));
    // The others have used theirs as well.
    races(&in_place("out[t] = x;"), 1, is_race);
    races(&in_place("if (t >= 64) out[t] = x;"), 1, is_race);
    races(&in_place("if (x > 7) out[t] = 1;"), 1, is_race);
    races(&in_place("if (t < 64) words[t] = x; else words[in[0] + 64 + x % 8] = 5;"), 1, is_race);
}

#[test]
fn what_other_blocks_change_may_be_loaded_too() {
    let body = |use_of_it: &str| {
        format!(
            "unsigned x = words[t]; asm volatile(\"\" : \"+v\"(x)); \
             if (t / 64 == b) words[t] = x + in[t]; {use_of_it}"
        )
    };
    passes(&body("if (t / 64 == b) out[t] = x;"), 4, |found| found[..256].iter().all(|value| *value == 0));
    races(&body("out[256 * b + t] = x;"), 4, is_race);
}

#[test]
fn the_same_holds_for_lds() {
    let body = |use_of_it: &str| {
        format!(
            "SHARED unsigned s[256]; s[t] = in[t]; barrier(); unsigned x = s[t % 64]; asm volatile(\"\" : \"+v\"(x)); \
             if (t < 64) s[t] = x + 1; barrier(); {use_of_it}"
        )
    };
    passes(&body("out[t] = s[t % 64];"), 2, |found| (0..256).all(|t| found[t as usize] == t % 64 + 1));
    races(&body("out[t] = s[t % 64] + x;"), 2, is_race);
}

/// Of words of LDS, the first byte is written.
#[test]
fn bytes_of_a_word_are_followed_apart() {
    let body = |of_it: &str| {
        format!(
            "SHARED unsigned words_of[256]; unsigned char* s = (unsigned char*)words_of; s[4 * t] = in[t] + 1; barrier(); \
             unsigned w = __hip_atomic_load(&words_of[t ^ 1], __ATOMIC_RELAXED, GROUP); out[t] = {of_it};"
        )
    };
    let first = |found: &[u32]| (0..256).all(|t| found[t as usize] == ((t ^ 1) + 1) % 256);
    for of_it in
        ["w & 0xff", "(w << 24) >> 24", "(w | 0xffffff00) ^ 0xffffff00", "(unsigned)(((unsigned long)w << 56) >> 56)"]
    {
        passes(&body(of_it), 1, first);
    }
    passes(&body("__builtin_amdgcn_perm(w, w, 0x0c0c0c00)"), 1, first);
    passes(
        &body("(unsigned)__builtin_amdgcn_cvt_f32_ubyte0(w)")
            .replace("__builtin_amdgcn_cvt_f32_ubyte0(w)", "(float)(w & 0xff)"),
        1,
        first,
    );
    passes(&body("(t & 1 ? w : 0x100) & 0xff"), 1, |found| found[1] == 1 && found[2] == 0);
    for of_it in ["w & 0x1ff", "w >> 8", "w", "(w & 0xff) + (w >> 31)"] {
        races(&body(of_it), 1, |fault| matches!(fault, Fault::Unwritten { used: Use::Store(_), .. }));
    }
}

/// Of gfx11, the waves of a block may be on two units with a cache each.
#[test]
fn a_cache_is_emptied_before_what_another_wave_wrote_is_read() {
    let body = |acquire: &str| {
        format!(
            "words[t] = in[t]; __builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"); \
             asm volatile(\"s_barrier\" ::: \"memory\"); {acquire} out[t] = words[255 - t];"
        )
    };
    let right = |found: &[u32]| (0..256).all(|t| found[t as usize] == 255 - t);
    passes(&body("__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");"), 1, right);
    each(&body(""), 1, |target, seed, done| match done {
        Err(verdict) if target.name == "gfx1100" => {
            let Fault::Stale { other: Other::Wave(_), missing: "buffer_gl0_inv", .. } = verdict.fault else {
                panic!("seed {seed}: {verdict}")
            };
        }
        Ok(found) if target.name != "gfx1100" => assert!(right(&found)),
        other => panic!("{}, seed {seed}: {other:?}", target.name),
    });
    // What the wave itself wrote, and what it reads again and does not use.
    passes(&body("").replace("255 - t", "t ^ 3"), 1, |found| (0..256).all(|t| found[t as usize] == t ^ 3));
}

/// A loop of `compare_exchange` begins with a plain read, which may be stale: the exchange finds that.
#[test]
fn a_stale_read_may_begin_an_exchange() {
    let body = |after: &str| {
        format!(
            "for (int i = 0; i < 4; ++i) {{ unsigned* at = &words[8 * (t & 32 ? 3 - i : i) + t % 8]; unsigned old = *at; \
             asm volatile(\"\" : \"+v\"(old)); while (!__hip_atomic_compare_exchange_strong(at, &old, old + 1, __ATOMIC_RELAXED, \
             __ATOMIC_RELAXED, AGENT)); }} {after} barrier(); \
             out[t] = __hip_atomic_load(&words[t % 32], __ATOMIC_RELAXED, AGENT);"
        )
    };
    passes(&body(""), 1, |found| found[..256].iter().all(|value| *value == 32));
    races(&body("out[256 + t] = words[t % 8];"), 1, |fault| matches!(fault, Fault::Stale { .. } | Fault::Race { .. }));
}

#[test]
fn the_cache_of_scalars_is_emptied_before_what_was_written_is_loaded() {
    let body = |invalidate: &str| {
        format!(
            r#"if (t < 32) {{
            words[t] = in[t] + 7; unsigned v;
            #if defined(__gfx1100__)
            asm volatile("s_waitcnt_vscnt null, 0x0\n{invalidate}s_load_b32 %0, %1, 0x8\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words) : "memory");
            #else
            asm volatile("s_waitcnt vmcnt(0)\n{invalidate}s_load_dword %0, %1, 0x8\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words) : "memory");
            #endif
            out[t] = v; }}"#
        )
    };
    passes(&body("s_dcache_inv\\n"), 1, |found| found[..32].iter().all(|value| *value == 9));
    races(&body(""), 1, |fault| matches!(fault, Fault::Stale { missing: "s_dcache_inv", .. }));
}

#[test]
fn constants_are_not_to_be_written() {
    let body = r#"static const __attribute__((constant)) unsigned table[4] = {1, 2, 3, 4};
        unsigned* at = (unsigned*)table + t % 4; asm volatile("" : "+v"(at)); STORE; out[t] = *at;"#;
    passes(&body.replace("STORE", ""), 1, |found| (0..256).all(|t| found[t] == t as u32 % 4 + 1));
    races(&body.replace("STORE", "if (t == 1) *at = 7"), 1, |fault| matches!(fault, Fault::ReadOnly { .. }));
}

#[test]
fn blocks_wait_for_each_other() {
    let wait =
        "while (__hip_atomic_load(&words[(b + 1) % 8], __ATOMIC_ACQUIRE, AGENT) == 0) __builtin_amdgcn_s_sleep(1);";
    let body = format!(
        "if (t == 0) {{ words[16 + b] = b + 3; __hip_atomic_store(&words[b], 1u, __ATOMIC_RELEASE, AGENT); {wait} \
         out[b] = words[16 + (b + 1) % 8]; }}"
    );
    passes(&body, 8, |found| (0..8).all(|b| found[b as usize] == (b + 1) % 8 + 3));
    // Not what nobody hands over.
    races(&body.replace("__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED"), 8, is_race);
    // A chain, each block behind the one before it, all of its waves at a barrier.
    let chain = "if (t == 0 && b > 0) while (__hip_atomic_load(&words[b - 1], __ATOMIC_ACQUIRE, AGENT) == 0) __builtin_amdgcn_s_sleep(1); \
         __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"agent\"); barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"agent\"); \
         unsigned sum = (b > 0 ? out[b - 1] : 0) + in[b]; barrier(); if (t == 0) { out[b] = sum; \
         __hip_atomic_store(&words[b], 1u, __ATOMIC_RELEASE, AGENT); }";
    passes(chain, 12, |found| found[11] == 66);
}

#[test]
fn blocks_that_wait_for_nobody_hang() {
    let body = "if (t == 0) { while (__hip_atomic_load(&words[9], __ATOMIC_ACQUIRE, AGENT) == 0) __builtin_amdgcn_s_sleep(1); out[b] = 1; }";
    each(body, 3, |target, _, done| {
        let fault = done.expect_err("a fault").fault;
        assert!(matches!(fault, Fault::Hang { limit: 10_000_000 }), "{}: {fault}", target.name);
    });
}

/// What `body` of a kernel of `out` and `index` comes to.
fn fault(target: &'static Target, body: &str, index: i32) -> Option<Fault> {
    let tools = Tools::find()?;
    let source = format!(
        "extern \"C\" __attribute__((global)) void f(int* out, int index) {{ const int t = __builtin_amdgcn_workitem_id_x(); {body} }}"
    );
    let program = tools.program(&source, target);
    let mut memory = Memory::new();
    memory.allocate("before", 64 * 4, 4);
    let out = memory.allocate("out", 64 * 4, 4);
    memory.allocate("behind", 64 * 4, 4);
    memory.fill(out, 0, 64 * 4).expect("a buffer");
    let arguments = Arguments::default().pointer(out).int(index);
    Some(verdict(&program, &mut memory, &launch("f", 1, 32, &arguments)).fault)
}

#[test]
fn scratch_is_called_so() {
    let body = "volatile int a[16]; for (int i = 0; i < 16; ++i) a[i] = i; out[t] = a[index + t];";
    for target in ["gfx90a", "gfx908", "gfx942", "gfx1030", "gfx1100"].into_iter().filter_map(Target::named) {
        let Some(found) = fault(target, body, 0) else { return };
        let Fault::OutOfBounds { place: Place::Scratch { offset, size }, .. } = found else {
            panic!("{}: {found}", target.name)
        };
        assert!((64..100).contains(&size) && offset >= 64, "{}: {offset} of {size}", target.name);
    }
}

#[test]
fn a_far_overflow_is_named_by_where_it_began() {
    for target in ["gfx90a", "gfx942", "gfx1100"].into_iter().filter_map(Target::named) {
        for (body, index) in [
            ("out[t + index] = 1;", 1_000_000_000),
            ("out[t + index] = 1;", -500_000_000),
            ("out[(long)t * index] = 1;", 30_000_000),
        ] {
            let Some(found) = fault(target, body, index) else { return };
            let Fault::OutOfBounds { place: Place::Buffer { name, element, .. }, .. } = &found else {
                panic!("{}: {found}", target.name)
            };
            assert_eq!(name, "out", "{}: {found}", target.name);
            assert!(*element == i64::from(index), "{}: {found}", target.name);
        }
    }
}

/// What a branch does hangs on it, though nothing else is computed of it: which value a wave finds is not to be guessed from what comes of some.
#[test]
fn a_branch_may_not_hang_on_what_a_race_leaves_open() {
    let wait = "asm volatile(\"s_nop 0\" ::: \"memory\");";
    // Only one of four pairs of values makes a difference: the flag is there, and what it announces is not.
    let announced = format!(
        "if (t == 0) {{ words[64] = 1; {wait} words[0] = 1; }} if (t < 128) return; \
         unsigned flag = words[0]; asm volatile(\"\" : \"+v\"(flag)); unsigned value = words[64]; asm volatile(\"\" : \"+v\"(value)); \
         out[t] = 1; {wait} if (flag == 1) {{ {wait} if (value == 0) out[t] = 2; }}"
    );
    races(&announced, 1, is_race);
    // The word is 5, 7 and 9 one after the other.
    for value in [5, 7, 9] {
        let twice = format!(
            "words[t] = 5; barrier(); unsigned x = words[t % 64]; asm volatile(\"\" : \"+v\"(x)); if (t < 64) words[t] = 7; \
             barrier(); if (t < 64) words[t] = 9; out[t] = 1; {wait} if (x == {value}) {{ {wait} if (t >= 64) out[t] = 2; }}"
        );
        races(&twice, 1, is_race);
    }
}

/// Waves write the same to LDS, unless one of them has read what another has changed by then.
#[test]
fn a_race_in_a_buffer_is_named_and_not_what_comes_of_it_in_lds() {
    let body = "SHARED unsigned s[64]; words[t] = 5; barrier(); unsigned x = words[t % 64]; asm volatile(\"\" : \"+v\"(x)); \
         if (t < 64) words[t] = x + 1 + in[t]; s[t % 64] = x; barrier(); out[t] = s[t % 64];";
    races(body, 1, |fault| matches!(fault, Fault::Race { place: Place::Buffer { name, .. }, .. } if name == "words"));
}

/// A wave reads what another one changes, and makes nothing of it: what differs in LDS differs for another reason.
#[test]
fn a_read_of_which_nothing_comes_is_not_blamed_for_what_waves_write_to_lds() {
    let body = "SHARED unsigned s[64]; words[t] = 5; barrier(); unsigned x = words[t % 64]; asm volatile(\"\" : \"+v\"(x)); \
         if (t < 64) words[t] = 6 + in[t]; s[t % 64] = in[t] + t / 64; barrier(); out[t] = s[t % 64] + (t < 64 ? x : 0);";
    races(body, 1, |fault| matches!(fault, Fault::Race { place: Place::Lds { .. }, .. }));
}
