//! Orders without locks: what atomics are to each other, and what scalar loads find of what others handed over.

use bluefin_amd::{Fault, Place};

use crate::bodies::{each, passes, races};

fn in_memory(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { place: Place::Buffer { .. }, .. } | Fault::Stale { place: Place::Buffer { .. }, .. })
}

/// Two blocks store to one place. Only some targets' encodings tell an atomic store from a plain one.
#[test]
fn atomic_stores_do_not_race_with_each_other() {
    let body = "if (t == 0 && b < 2) __hip_atomic_store(&words[2], b + 1, __ATOMIC_RELAXED, AGENT);";
    each(body, 2, |target, seed, done| match (target.name, done) {
        ("gfx942", done) => assert!(done.is_ok(), "seed {seed}: {done:?}"),
        (_, Err(verdict)) => assert!(in_memory(&verdict.fault), "{}: {verdict}", target.name),
        (name, Ok(_)) => panic!("{name}, seed {seed}: no fault"),
    });
    let store = "__hip_atomic_store(&words[2], 7u, __ATOMIC_RELAXED, AGENT)";
    races(&format!("if (t == 0) {{ if (b) {store}; else words[2] = 5; }}"), 2, in_memory);
    races(&format!("if (t == 0) {{ if (b) {store}; else out[0] = words[2]; }}"), 2, in_memory);
}

/// A lock that is handed on in turns: the store that does it goes out while an argument is still being loaded.
#[test]
fn a_release_does_not_wait_for_arguments() {
    let body = r#"if (t == 0) for (int k = 0; k < 3; ++k) {
            unsigned mine = __hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_RELAXED, AGENT);
            while (__hip_atomic_load(&words[1], __ATOMIC_ACQUIRE, AGENT) != mine) __builtin_amdgcn_s_sleep(2);
            words[2] += b + 1;
            words[3]++;
            asm volatile("s_waitcnt lgkmcnt(0)\n" NAME " s20, %0, 0x0" :: "s"(__builtin_amdgcn_kernarg_segment_ptr()) : "s20");
            __hip_atomic_store(&words[1], mine + 1, __ATOMIC_RELEASE, AGENT);
            asm volatile("s_waitcnt lgkmcnt(0)" ::: "s20");
            if (mine == 11) { out[0] = words[2]; out[1] = words[3]; }
        }"#;
    each_load(body, |body| passes(&body, 4, |found| found[..2] == [30, 12]));
}

/// What the scalar load reads may be what somebody writes who has seen the release.
#[test]
fn a_release_waits_for_other_scalar_loads() {
    let body = r#"if (t == 0) { unsigned v = 0;
            if (b == 0) {
                asm volatile("LOAD %0, %1, 0x0" : "=s"(v) : "s"(words + 64) : "memory");
                __hip_atomic_store(&words[0], 1u, __ATOMIC_RELAXED, AGENT);
                asm volatile("s_waitcnt lgkmcnt(0)" : "+s"(v)); out[0] = v;
            } else { while (!__hip_atomic_load(&words[0], __ATOMIC_ACQUIRE, AGENT)); words[64] = 5; } }"#;
    each_load(body, |body| races(&body, 2, in_memory));
}

/// The first loads of a line come behind the flag, so that no cache of scalars has anything older.
#[test]
fn a_scalar_load_behind_an_acquire_finds_what_is_new_if_no_other_came_before() {
    let body = r#"volatile unsigned* flag = words; unsigned v = 0;
        if (t == 0) {
            if (b == 0) { words[64] = 31; __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); flag[0] = 1; }
            else { EARLY while (!flag[0]); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
                asm volatile("LOAD %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory"); out[b] = v; }
        }"#;
    let early = r#"asm volatile(NAME " %0, %1, 0x4\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory");"#;
    let stale = |fault: &Fault| matches!(fault, Fault::Stale { missing: "s_dcache_inv", .. });
    each_load(body, |body| {
        passes(&body.replace("EARLY", ""), 3, |found| found[1..3] == [31, 31]);
        races(&body.replace("EARLY", early), 3, stale);
        // Whoever loads of the line without waiting may have come first, whenever it does here.
        let elsewhere = body.replace("if (t == 0) {", "if (b == 2) { ONE } else if (t == 0) {").replace("ONE", early);
        races(&elsewhere.replace("EARLY", ""), 3, stale);
    });
}

/// With the name that each target has for a scalar load of a dword.
fn each_load(body: &str, test: impl Fn(String)) {
    let one = format!(
        "\n#if defined(__gfx1100__)\n#define NAME \"s_load_b32\"\n#else\n#define NAME \"s_load_dword\"\n#endif\n{body}"
    );
    test(one.replace("\"LOAD ", "NAME \" "));
}
