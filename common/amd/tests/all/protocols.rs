//! Orders without locks: what atomics are to each other, and what scalar loads find of what others handed over.

use bluefin_amd::{Fault, Place};

use crate::bodies::{each, each_of, passes, races};

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

/// However often a block has asked for a lock meanwhile.
#[test]
fn what_is_stored_behind_a_release_is_not_handed_over_after_many_others() {
    let body = r#"if (t == 0) {
            if (b == 0) { __hip_atomic_store(&words[7], 1u, __ATOMIC_RELEASE, AGENT); unsigned x = 0;
                for (int i = 0; i < 50000; ++i) x += __hip_atomic_load(&words[30], __ATOMIC_RELAXED, AGENT) + 1;
                out[10] = x; __hip_atomic_fetch_add(&words[6], 1u, __ATOMIC_RELEASE, AGENT); }
            if (b == 1) { words[8] = 5; unsigned one = 1;
                while (!__hip_atomic_load(&words[7], __ATOMIC_ACQUIRE, AGENT));
                while (!__hip_atomic_compare_exchange_strong(&words[6], &one, 2u, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED, AGENT)) one = 1;
                BEFORE __hip_atomic_fetch_add(&words[11], 1u, __ATOMIC_RELEASE, AGENT); BEHIND }
            if (b == 2) { while (!__hip_atomic_fetch_add(&words[11], 0u, __ATOMIC_ACQUIRE, AGENT)); out[0] = words[10]; }
        }"#;
    let store = "words[10] = 3;";
    passes(&body.replace("BEFORE", store).replace("BEHIND", ""), 3, |found| found[0] == 3);
    races(&body.replace("BEFORE", "").replace("BEHIND", store), 3, in_memory);
}

/// What was handed over before the cache of scalars was emptied is new in it, and nothing else.
#[test]
fn a_cache_of_scalars_is_emptied_behind_what_it_is_to_have() {
    let body = r#"unsigned v = 0; if (t == 0) {
            if (b == 0) { words[64] = 31; __hip_atomic_store(&words[0], 1u, __ATOMIC_RELEASE, AGENT); }
            else { FIRST asm volatile("LOAD %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 65) : "memory");
                while (!__hip_atomic_load(&words[0], __ATOMIC_ACQUIRE, AGENT)); THEN
                asm volatile("LOAD %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory"); out[b] = v; }
        }"#;
    let stale = |fault: &Fault| matches!(fault, Fault::Stale { missing: "s_dcache_inv", .. });
    let empty = "asm volatile(\"s_dcache_inv\" ::: \"memory\");";
    each_load(body, |body| {
        passes(&body.replace("FIRST", "").replace("THEN", empty), 3, |found| found[1..3] == [31, 31]);
        races(&body.replace("FIRST", empty).replace("THEN", ""), 3, stale);
    });
    // Another wave of the block does it for all, behind a barrier or too early.
    let waves = r#"unsigned v = 0; asm volatile("LOAD %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 65) : "memory");
        barrier(); BEFORE if (t == 128) words[64] = 31; barrier(); BEHIND barrier();
        asm volatile("LOAD %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory"); out[t] = v;"#;
    each_load(waves, |body| {
        let by_one = format!("if (t < 64) {empty}");
        passes(&body.replace("BEFORE", "").replace("BEHIND", &by_one), 1, |found| found[..256] == [31; 256]);
        races(&body.replace("BEFORE", &by_one).replace("BEHIND", ""), 1, stale);
    });
}

/// Two dwords that several waves have counted up, loaded for the first time behind all of them.
#[test]
fn a_line_that_several_have_written_is_new_at_its_first_load() {
    let body = r#"__hip_atomic_fetch_add(&words[64 + t % 2], 1u, __ATOMIC_RELAXED, AGENT); SHARED unsigned last;
        barrier(); if (t == 0) last = __hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_ACQ_REL, AGENT) == 1; barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
        if (last) { unsigned long v; asm volatile(WIDE " %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory");
            out[0] = (unsigned)v; out[1] = (unsigned)(v >> 32); }"#;
    let named = format!(
        "\n#if defined(__gfx1100__)\n#define WIDE \"s_load_b64\"\n#else\n#define WIDE \"s_load_dwordx2\"\n#endif\n{body}"
    );
    each(&named, 2, |target, seed, done| match done {
        Ok(found) => assert_eq!(found[..2], [256, 256], "{}, seed {seed}", target.name),
        // Of the block itself it may be on its way.
        Err(verdict) => {
            assert!(matches!(verdict.fault, Fault::Stale { .. }), "{}, seed {seed}: {verdict}", target.name)
        }
    });
}

/// Of gfx9, but for gfx940: what scalars store is in the cache of its unit, until it is written back.
#[test]
fn scalar_stores_are_written_back_before_others_read_them() {
    let store = r#"asm volatile("s_mov_b32 s20, 77\ns_store_dword s20, %0, 0x0\ns_waitcnt lgkmcnt(0)" :: "s"(words + 64) : "s20", "memory");"#;
    let back = r#"asm volatile("s_dcache_wb\ns_waitcnt lgkmcnt(0)" ::: "memory");"#;
    let body = |before: &str, behind: &str| {
        format!(
            r#"if (t == 0) {{ if (b == 0) {{ {store} {before} __hip_atomic_exchange(&words[0], 1u, __ATOMIC_RELEASE, AGENT); {behind} }}
            else {{ while (!__hip_atomic_load(&words[0], __ATOMIC_ACQUIRE, AGENT)); out[0] = words[64]; }} }}"#
        )
    };
    let stale = |fault: &Fault| matches!(fault, Fault::Stale { missing: "s_dcache_wb", .. });
    each_of(&["gfx90a"], &body(back, ""), 2, |done| assert_eq!(done.expect("no fault")[0], 77));
    each_of(&["gfx90a"], &body("", back), 2, |done| assert!(stale(&done.unwrap_err().fault)));
    // The block's own scalar loads find it, its other loads do not.
    let scalar = r#"unsigned v = 0; asm volatile("s_load_dword %0, %1, 0x0\ns_waitcnt lgkmcnt(0)" : "=s"(v) : "s"(words + 64) : "memory");"#;
    let own = |load: &str| format!("if (b == 0 && t == 0) {{ {store} {load} out[0] = v; {back} }}");
    each_of(&["gfx90a"], &own(scalar), 1, |done| assert_eq!(done.expect("no fault")[0], 77));
    let vector = "const unsigned v = __builtin_nontemporal_load(&words[64 + t]);";
    each_of(&["gfx90a"], &own(vector), 1, |done| assert!(stale(&done.unwrap_err().fault)));
}

/// With the name that each target has for a scalar load of a dword.
fn each_load(body: &str, test: impl Fn(String)) {
    let one = format!(
        "\n#if defined(__gfx1100__)\n#define NAME \"s_load_b32\"\n#else\n#define NAME \"s_load_dword\"\n#endif\n{body}"
    );
    test(one.replace("\"LOAD ", "NAME \" "));
}

/// A block that others overtake is given few numbers, which it uses up here.
#[test]
fn what_is_done_behind_a_release_is_not_handed_over_after_many_releases() {
    let many = |body: &str, behind: &str| {
        let text = body.replace("MANY", "for (unsigned k = 0; k < 5000; ++k)").replace("BEHIND", behind);
        text.replace("BEFORE", if behind.is_empty() { "DO" } else { "" })
    };
    let blocks = r#"if (t == 0) {
            if (b == 0) { while (!__hip_atomic_load(&words[3], __ATOMIC_RELAXED, AGENT)) __builtin_amdgcn_s_sleep(1);
                MANY { __hip_atomic_fetch_add(&words[8], 1u, __ATOMIC_RELAXED, AGENT); __hip_atomic_fetch_add(&words[900], 1u, __ATOMIC_RELAXED, AGENT); }
                BEFORE __hip_atomic_store(&words[0], 1u, __ATOMIC_RELEASE, AGENT); BEHIND }
            if (b == 1) { __hip_atomic_store(&words[3], 1u, __ATOMIC_RELAXED, AGENT);
                while (!__hip_atomic_load(&words[0], __ATOMIC_ACQUIRE, AGENT)) __builtin_amdgcn_s_sleep(1);
                for (int k = 0; k < 20; ++k) __builtin_amdgcn_s_sleep(100); out[0] = words[100]; } }"#;
    let store = "words[100] = 9;";
    passes(&many(blocks, "").replace("DO", store), 2, |found| found[0] == 9);
    races(&many(blocks, store), 2, in_memory);
    let waves = r#"SHARED unsigned q[3], d; if (t < 3) q[t] = 0; if (t == 0) d = 1; barrier();
            if (t == 0 && b == 0) { while (!__hip_atomic_load(&words[3], __ATOMIC_RELAXED, AGENT)) __builtin_amdgcn_s_sleep(1);
                MANY { __hip_atomic_fetch_add(&q[1], 1u, __ATOMIC_RELAXED, GROUP); __hip_atomic_fetch_add(&q[2], 1u, __ATOMIC_RELAXED, GROUP); }
                BEFORE __hip_atomic_fetch_add(&q[0], 1u, __ATOMIC_RELEASE, GROUP); BEHIND }
            if (t == 0 && b == 1) __hip_atomic_store(&words[3], 1u, __ATOMIC_RELAXED, AGENT);
            if (t == 64 && b == 0) { while (!__hip_atomic_load(&q[0], __ATOMIC_ACQUIRE, GROUP)) __builtin_amdgcn_s_sleep(1);
                for (int k = 0; k < 20; ++k) __builtin_amdgcn_s_sleep(100); out[0] = d; }
            barrier(); if (b == 0) out[t + 1] = d;"#;
    let in_lds = |fault: &Fault| matches!(fault, Fault::Race { place: Place::Lds { .. }, .. });
    passes(&many(waves, "").replace("DO", "d = 9;"), 2, |found| found[..257] == [9; 257]);
    races(&many(waves, "d = 9;"), 2, in_lds);
}
