//! Plain reads of what atomics change, or what is stored over: each of several readers counts, and a comparing atomic explains what it compares with.

use bluefin_amd::{Fault, Place};

use crate::bodies::{each_of, passes, races};

fn is_race(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { place: Place::Lds { .. } | Place::Buffer { .. }, .. })
}

const ADD: &str = "do { seen = old; old = seen; } while (!__hip_atomic_compare_exchange_strong(&s, &old, seen + 1, \
                   __ATOMIC_RELAXED, __ATOMIC_RELAXED, GROUP));";

/// All waves read the counts that all waves add to.
#[test]
fn an_atomic_behind_reads_of_several_waves_is_a_race() {
    let body = |between: &str| {
        format!(
            "SHARED unsigned s[64]; if (t < 64) s[t] = 0; barrier(); \
             if (t < 64) {{ for (unsigned i = 0; i < in[3]; ++i) __builtin_amdgcn_s_sleep(1); \
             __hip_atomic_fetch_add(&s[t], 5u, __ATOMIC_RELAXED, GROUP); }} {between} out[t] = s[t % 64]; words[t] = s[t % 64] + 7;"
        )
    };
    passes(&body("barrier();"), 1, |found| found[..256].iter().all(|count| *count == 5));
    races(&body(""), 1, is_race);
    let blocks = "out[b] = words[5]; if (b == 3) __hip_atomic_fetch_add(&words[5], 1u, __ATOMIC_RELAXED, AGENT);";
    races(blocks, 4, is_race);
}

#[test]
fn waves_that_all_go_on_to_a_comparing_atomic_explain_what_they_read() {
    let body = format!(
        "SHARED unsigned s; if (t == 0) s = 0; barrier(); unsigned old = s, seen; {ADD} barrier(); out[t] = s;"
    );
    passes(&body, 2, |found| found[..256].iter().all(|sum| *sum == 256));
    // One wave does not.
    let one = body.replace(ADD, &format!("if (t < 192) {ADD} else out[256 + t] = old;"));
    races(&one, 1, is_race);
    // One lane of each does, and all use what they read.
    let leaders = body.replace(ADD, &format!("out[256 + t] = old; if (t % 32 == 0) {ADD}"));
    races(&leaders, 1, is_race);
}

/// It compares with something else, or not at all.
#[test]
fn other_atomics_explain_nothing() {
    for then in [
        "unsigned none = 0; __hip_atomic_compare_exchange_strong(&s, &none, t + 9, __ATOMIC_RELAXED, __ATOMIC_RELAXED, GROUP);",
        "__hip_atomic_fetch_add(&s, 1u, __ATOMIC_RELAXED, GROUP);",
        "if (old < t + 5) __hip_atomic_exchange(&s, t + 5, __ATOMIC_RELAXED, GROUP);",
    ] {
        let body =
            format!("SHARED unsigned s; if (t == 0) s = 4; barrier(); const unsigned old = s; out[t] = old; {then}");
        races(&body, 1, is_race);
    }
}

/// Two waves read, and the one that reads later hands over alone.
#[test]
fn the_last_of_several_readers_does_not_stand_for_all() {
    let body = |who: &str, count: u32| {
        format!(
            "SHARED unsigned s, done; if (t == 0) {{ s = 7; done = 0; }} barrier(); \
             if (t == 128) for (int i = 0; i < 40; ++i) __builtin_amdgcn_s_sleep(1); \
             if (t == 64 || t == 128) {{ out[t] = s; if ({who}) __hip_atomic_fetch_add(&done, 1u, __ATOMIC_RELEASE, GROUP); }} \
             if (t == 0) {{ while (__hip_atomic_load(&done, __ATOMIC_ACQUIRE, GROUP) != {count}) __builtin_amdgcn_s_sleep(1); s = 9; }} \
             barrier(); out[256 + t] = s;"
        )
    };
    passes(&body("true", 2), 1, |found| (found[64], found[128], found[300]) == (7, 7, 9));
    races(&body("t == 128", 1), 1, is_race);
    let blocks = |who: &str, count: u32| {
        format!(
            "if (t == 0 && b) {{ out[b] = words[8]; \
             if ({who}) __hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_RELEASE, AGENT); }} \
             if (t == 0 && !b) {{ while (__hip_atomic_load(&words[0], __ATOMIC_ACQUIRE, AGENT) != {count}); words[8] = 5; }}"
        )
    };
    passes(&blocks("true", 3), 4, |found| found[1..4] == [0; 3]);
    races(&blocks("b != 2", 2), 4, is_race);
}

/// What nobody wrote comes back, and matters only where it is used.
#[test]
fn an_exchange_may_be_the_first_to_write() {
    let body = |then: &str| {
        format!(
            "SHARED unsigned s; if (t == 0) {{ const unsigned old = __hip_atomic_exchange(&s, 3u, __ATOMIC_RELAXED, GROUP); {then} }} \
             barrier(); out[t] = s;"
        )
    };
    passes(&body(""), 1, |found| found[200] == 3);
    races(&body("out[300] = old;"), 1, |fault| matches!(fault, Fault::Unwritten { .. }));
}

/// Blocks that have stored nothing have read something, which is over once they have come to a barrier of the grid.
#[test]
fn what_was_only_read_is_handed_on() {
    let body = |wait: &str| {
        format!(
            "unsigned sum = 0; for (unsigned i = 0; i < 3; ++i) sum += words[256 * i + t]; barrier(); \
             if (t == 0) {{ __hip_atomic_fetch_add(&words[1023], 1u, __ATOMIC_ACQ_REL, AGENT); {wait} }} barrier(); \
             __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"agent\"); if (b < 3) words[256 * b + t] = sum + 5; out[256 * b + t] = sum;"
        )
    };
    let wait = "while (__hip_atomic_load(&words[1023], __ATOMIC_ACQUIRE, AGENT) != 4) __builtin_amdgcn_s_sleep(1);";
    passes(&body(wait), 4, |found| found.iter().all(|sum| *sum == 0));
    races(&body(""), 4, is_race);
}

/// The barrier comes before what it is to order: the wait for a read, or the read itself between its two parts.
#[test]
fn a_read_that_a_barrier_does_not_order_is_behind_it() {
    let read = |text: &str, then: &str| {
        format!(
            "SHARED unsigned s; if (t == 0) s = 5; barrier(); unsigned v; \
             const unsigned a = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned*)&s; \
             asm volatile(\"{text}\" : \"=v\"(v) : \"v\"(a) : \"memory\"); {then} out[t] = v > 100 ? 2 : 3;"
        )
    };
    let add = "if (t == 192) __hip_atomic_fetch_add(&s, 1u, __ATOMIC_RELAXED, GROUP);";
    let store = "if (t == 192) s = 8;";
    for then in [add, store] {
        let right = "ds_read_b32 %0, %1\\ns_waitcnt lgkmcnt(0)\\ns_barrier";
        passes(&read(right, then), 1, |found| found[..256] == [3; 256]);
        races(&read("ds_read_b32 %0, %1\\ns_barrier\\ns_waitcnt lgkmcnt(0)", then), 1, is_race);
        let newer = |text: &str, is_right: bool| {
            each_of(&["gfx1201"], &read(text, then), 1, |done| match done {
                Ok(_) => assert!(is_right, "{text}: {then}"),
                Err(verdict) => assert!(!is_right && is_race(&verdict.fault), "{text}: {then}: {verdict}"),
            });
        };
        let [load, wait] = ["ds_load_b32 %0, %1", "s_wait_dscnt 0x0"];
        let [signal, meet] = ["s_barrier_signal -1", "s_barrier_wait -1"];
        let lines = |all: [&str; 4]| all.join("\\n");
        newer(&lines([load, wait, signal, meet]), true);
        newer(&lines([load, signal, meet, wait]), false);
        newer(&lines([signal, load, wait, meet]), false);
        newer(&lines([load, signal, wait, meet]), false);
    }
}

#[test]
fn an_atomic_that_was_not_waited_for_is_behind_the_barrier() {
    let body = |text: &str| {
        format!(
            "SHARED unsigned s; if (t == 0) s = 5; barrier(); \
             const unsigned a = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned*)&s; \
             if (t == 192) asm volatile(\"{text}\" :: \"v\"(a), \"v\"(1) : \"memory\"); \
             asm volatile(\"s_barrier\" ::: \"memory\"); out[t] = s > 100 ? 2 : 3;"
        )
    };
    passes(&body("ds_add_u32 %0, %1\\ns_waitcnt lgkmcnt(0)"), 1, |found| found[..256] == [3; 256]);
    races(&body("ds_add_u32 %0, %1"), 1, is_race);
}
