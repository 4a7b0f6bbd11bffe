//! What atomics order, and what they do not.

use bluefin_amd::{Fault, Memory, Missing, Other, Place, TARGETS};

use crate::bodies::{PRELUDE, THREADS, each, each_if, passes, races};
use crate::support::{Arguments, Tools, dwords, launch, run, targets, verdict};

fn in_lds(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { place: Place::Lds { .. }, .. })
}

fn in_memory(fault: &Fault) -> bool {
    matches!(fault, Fault::Race { place: Place::Buffer { .. }, .. } | Fault::Stale { place: Place::Buffer { .. }, .. })
}

/// Each block stores its sum, and the last one adds them up.
fn last_block(before: &str, order: &str, after: &str) -> String {
    format!(
        r#"SHARED unsigned last;
        if (t == 0) words[16 + b] = b + 1;
        {before}
        if (t == 0) last = __hip_atomic_fetch_add(&words[0], 1u, {order}, AGENT) == 7;
        barrier();
        {after}
        if (last) {{
            if (t == 0) {{ unsigned sum = 0; for (int i = 0; i < 8; ++i) sum += words[16 + i]; out[0] = sum; words[0] = 0; }}
            if (t == 64) out[1] = words[16 + 3];
        }}"#
    )
}

#[test]
fn the_last_block_reads_what_others_released() {
    let expected = |found: &[u32]| found[0] == 36 && found[1] == 4;
    passes(&last_block("", "__ATOMIC_ACQ_REL", ""), 8, expected);
    let fence = "__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, \"agent\");";
    passes(&last_block(fence, "__ATOMIC_RELAXED", fence), 8, expected);
}

#[test]
fn an_atomic_without_order_orders_nothing() {
    races(&last_block("", "__ATOMIC_RELAXED", ""), 8, in_memory);
    races(&last_block("", "__ATOMIC_RELEASE", ""), 8, in_memory);
}

/// Nobody has stored anything plainly.
#[test]
fn atomics_are_handed_on_as_stores_are() {
    let body = r#"SHARED unsigned last; unsigned long* most = (unsigned long*)words + 1; unsigned i = b * 256 + t;
        __hip_atomic_fetch_max(most, (unsigned long)in[i] << 32 | i, __ATOMIC_RELAXED, AGENT); barrier();
        if (t == 0) last = __hip_atomic_fetch_add(&words[0], 1u, ORDER, AGENT) == 3;
        barrier(); if (last && t == 0) out[0] = (unsigned)*most;"#;
    passes(&body.replace("ORDER", "__ATOMIC_ACQ_REL"), 4, |found| found[0] == 0 || found[0] == 1023);
    races(&body.replace("ORDER", "__ATOMIC_RELAXED"), 4, in_memory);
}

/// As single-pass scans have it: a word is a sum and says whether it is there, so that nothing but itself has to be ordered.
#[test]
fn a_word_may_be_a_flag_and_a_value_in_one() {
    let expected = |found: &[u32]| (0..8).all(|b| found[b] == (b as u32 + 1) * (b as u32 + 2) / 2);
    for (word, flag) in [("unsigned", "0x80000000u"), ("unsigned long", "(1ul << 32)")] {
        let body = format!(
            r#"{word}* state = ({word}*)words; if (t == 0) {{ unsigned sum = b + 1;
            if (b) {{ {word} x; while (!((x = __hip_atomic_load(&state[b - 1], __ATOMIC_RELAXED, AGENT)) & {flag})); sum += x & 0xffff; }}
            __hip_atomic_store(&state[b], sum | {flag}, __ATOMIC_RELAXED, AGENT); out[b] = sum; }}"#
        );
        passes(&body, 8, expected);
        races(&body.replace("__hip_atomic_load(&state[b - 1], __ATOMIC_RELAXED, AGENT)", "state[b - 1]"), 8, |fault| {
            in_memory(fault) || matches!(fault, Fault::Hang { .. })
        });
    }
    let body = r#"SHARED unsigned word; if (t == 0) word = 0; barrier();
        if (t == 0) __hip_atomic_store(&word, 77u, __ATOMIC_RELAXED, GROUP);
        if (t >= 128) { unsigned x; while (!(x = __hip_atomic_load(&word, __ATOMIC_RELAXED, GROUP))); out[t] = x; }"#;
    passes(body, 1, |found| found[200] == 77);
}

/// A volatile access of LDS by a flat address says that no cache may have it, which orders nothing: what loops wait for does.
#[test]
fn volatile_accesses_of_other_waves_race() {
    let tree = r#"SHARED unsigned s[256]; volatile unsigned* v = s; s[t] = in[t]; barrier();
        if (t < 128) { v[t] += v[t + 128]; v[t] += v[t + 64]; } barrier(); out[t] = s[t & 63];"#;
    races(tree, 1, in_lds);
    let flag = r#"SHARED unsigned flag, data[32]; if (t == 0) flag = 0; barrier(); volatile unsigned* v = &flag;
        if (t < 32) { data[t] = in[t] * 3; __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); if (t == 0) *v = 1; }
        if (t >= 128) { while (!*v) __builtin_amdgcn_s_sleep(1); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        out[t] = data[t % 32]; }"#;
    passes(flag, 1, |found| (128..256).all(|t| found[t as usize] == t % 32 * 3));
}

#[test]
fn waves_of_a_block_hand_over_with_a_counter_in_lds() {
    let body = r#"SHARED unsigned data[256], count;
        if (t == 0) count = 0;
        barrier();
        data[t] = in[t] * 3;
        __hip_atomic_fetch_add(&count, 1u, __ATOMIC_RELEASE, GROUP);
        while (__hip_atomic_load(&count, __ATOMIC_ACQUIRE, GROUP) < 256) __builtin_amdgcn_s_sleep(1);
        out[t] = data[255 - t];"#;
    passes(body, 2, |found| (0..256).all(|t| found[t as usize] == (255 - t) * 3));
    let wait = "while (__hip_atomic_load(&count, __ATOMIC_ACQUIRE, GROUP) < 256) __builtin_amdgcn_s_sleep(1);";
    races(&body.replace(wait, ""), 1, |fault| in_lds(fault) || matches!(fault, Fault::Unwritten { .. }));
}

/// It is wrong only where the wave that came last is left between raising the flag and resetting the counter: who counted meanwhile is
/// forgotten.
#[test]
fn a_counter_is_reset_before_waves_go_on() {
    let body = r#"SHARED unsigned count, flag;
        if (t == 0) { count = 0; flag = 0; }
        barrier();
        for (unsigned phase = 1; phase <= 12; ++phase) {
            if (t % 64 == 0) {
                if (__hip_atomic_fetch_add(&count, 1u, __ATOMIC_ACQ_REL, GROUP) == 3) {
                    FIRST
                    SECOND
                } else {
                    while (__hip_atomic_load(&flag, __ATOMIC_ACQUIRE, GROUP) < phase) __builtin_amdgcn_s_sleep(1);
                }
            }
        }
        barrier();
        if (t == 0) out[0] = flag;"#;
    let (flag, reset) = (
        "__hip_atomic_store(&flag, phase, __ATOMIC_RELEASE, GROUP);",
        "__hip_atomic_store(&count, 0, __ATOMIC_RELEASE, GROUP);",
    );
    let ordered = |first, second| body.replace("FIRST", first).replace("SECOND", second);
    passes(&ordered(reset, flag), 1, |found| found[0] == 12);
    races(&ordered(flag, reset), 1, |fault| matches!(fault, Fault::Hang { .. }));
}

#[test]
fn a_producer_raises_a_flag_in_lds() {
    let body = r#"SHARED unsigned data[64], flag;
        if (t == 0) flag = 0;
        barrier();
        if (t < 32) {
            data[t] = in[t] + 5;
            __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
            if (t == 0) __hip_atomic_store(&flag, 1u, __ATOMIC_RELEASE, GROUP);
        } else if (t >= 128 && t < 160) {
            while (__hip_atomic_load(&flag, __ATOMIC_ACQUIRE, GROUP) == 0) __builtin_amdgcn_s_sleep(1);
            out[t - 128] = data[159 - t];
        }"#;
    passes(body, 1, |found| (0..32).all(|t| found[t as usize] == 31 - t + 5));
}

#[test]
fn a_lock_orders_those_who_hold_it() {
    let body = r#"SHARED unsigned lock, sum;
        if (t == 0) { lock = 0; sum = 0; }
        barrier();
        if (t % 64 == 0) {
            unsigned none = 0;
            while (!__hip_atomic_compare_exchange_strong(&lock, &none, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, GROUP)) none = 0;
            sum += in[t] + 1;
            __hip_atomic_store(&lock, 0u, __ATOMIC_RELEASE, GROUP);
        }
        barrier();
        if (t == 0) out[0] = sum;"#;
    passes(body, 2, |found| found[0] == 64 + 128 + 192 + 4);
    let body = r#"if (t % 64 == 0) {
            unsigned none = 0;
            while (!__hip_atomic_compare_exchange_strong(&words[0], &none, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, AGENT)) none = 0;
            words[1] += in[t] + 1;
            __hip_atomic_store(&words[0], 0u, __ATOMIC_RELEASE, AGENT);
        }"#;
    passes(body, 3, |_| true);
    races(
        &body.replace("__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED").replace("__ATOMIC_RELEASE", "__ATOMIC_RELAXED"),
        3,
        in_memory,
    );
}

#[test]
fn an_atomic_and_a_plain_touch_without_a_barrier_race() {
    let body = |between: &str| {
        format!(
            r#"SHARED unsigned bins[16];
            if (t < 16) bins[t] = 0;
            barrier();
            __hip_atomic_fetch_add(&bins[in[t] % 16], 1u, __ATOMIC_RELAXED, GROUP);
            {between}
            if (t < 16) out[t] = bins[t];"#
        )
    };
    passes(&body("barrier();"), 2, |found| found[..16].iter().all(|bin| *bin == 16));
    races(&body(""), 1, in_lds);
    let reset = body("barrier();").replace("barrier();\n            __hip", "__hip");
    races(&reset, 1, in_lds);
}

/// A wave that runs ahead finds what nobody has written yet: a missing barrier, as another wave writes it before the next one.
#[test]
fn what_is_read_before_another_wave_writes_it_is_a_race() {
    let body = |between: &str| format!("SHARED unsigned s[256]; s[t] = in[t]; {between} out[t] = s[255 - t];");
    passes(&body("barrier();"), 1, |found| (0..256).all(|t| found[t as usize] == 255 - t));
    races(&body(""), 1, in_lds);
    // Behind a barrier it is written too late.
    let late = "SHARED unsigned s[256]; const unsigned early = s[255 - t]; barrier(); s[t] = in[t]; barrier(); out[t] = early + s[t];";
    races(late, 1, |fault| matches!(fault, Fault::Unwritten { .. }));
    races("SHARED unsigned s[256]; if (t % 2) s[t] = in[t]; out[t] = s[t];", 1, |fault| {
        matches!(fault, Fault::Unwritten { .. })
    });
}

#[test]
fn an_atomic_and_a_plain_touch_of_other_blocks_race() {
    races(
        "__hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_RELAXED, AGENT); if (t == 0) out[b] = words[0];",
        4,
        in_memory,
    );
}

#[test]
fn a_plain_store_and_atomics_of_other_blocks_race() {
    races(
        "if (t == 0) { if (b == 0) words[0] = 5; __hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_RELAXED, AGENT); }",
        4,
        in_memory,
    );
}

/// The value that a loop of comparing atomics begins with is read plainly, by compilers too.
#[test]
fn a_loop_of_comparing_atomics_may_begin_with_a_plain_read() {
    let body = r#"unsigned old = words[0], seen;
        do { seen = old; old = seen; } while (!__hip_atomic_compare_exchange_strong(&words[0], &old, seen + 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED, AGENT));
        "#;
    passes(body, 4, |_| true);
    // Two dwords, which a scalar load reads one by one.
    let wide = body.replace("unsigned old = words[0]", "unsigned long *wide = (unsigned long*)words, old = *wide");
    passes(&wide.replace("&words[0]", "wide"), 4, |_| true);
}

/// The last block sets a counter back, while another store of its is under way.
#[test]
fn a_store_does_not_overtake_an_atomic_of_its_own_wave() {
    let body = r#"if (t == 0) {
            const unsigned seen = __hip_atomic_fetch_add(&words[0], 1u, __ATOMIC_RELAXED, AGENT);
            if (WHO) { ((volatile unsigned*)out)[b] = seen; ((volatile unsigned*)words)[0] = 0; }
        }"#;
    passes(&body.replace("WHO", "seen == 3"), 4, |found| found[..4].iter().sum::<u32>() == 3);
    races(&body.replace("WHO", "seen < 2"), 4, in_memory);
}

#[test]
fn lanes_that_write_different_values_to_one_place_race() {
    let other_lane = |fault: &Fault| {
        matches!(
            fault,
            Fault::Race { other: Other::Lane(_) | Other::Wave(_) | Other::Waves | Other::Block(_) | Other::Blocks, .. }
        )
    };
    races("out[0] += in[t];", 1, |fault| other_lane(fault) || matches!(fault, Fault::Unwritten { .. }));
    races("words[0] += in[t];", 1, in_memory);
    races("out[t / 2] = in[t];", 1, |fault| matches!(fault, Fault::Race { other: Other::Lane(_), .. }));
    races("SHARED unsigned s[64]; s[t % 32] = in[t]; barrier(); out[t] = s[t % 32];", 1, in_lds);
    passes("out[t / 2] = in[t / 2];", 1, |found| (0..128).all(|t| found[t as usize] == t));
}

/// It is a race, as what is left there is not always the same, and it says what kind of one.
#[test]
fn values_that_differ_by_a_rounding_are_named_so() {
    let rounded = |fault: &Fault| {
        let said = fault.to_string().ends_with("as FP32, both values differ by a rounding");
        matches!(fault, Fault::Race { rounding: Some("FP32"), .. }) && said
    };
    let other = |fault: &Fault| matches!(fault, Fault::Race { rounding: None, .. });
    let prelude = "float* f = (float*)out; float low = 1.0f + in[t] * 0.0f, high = 1.0000001f + in[t] * 0.0f;";
    races(&format!("{prelude} f[t / 2] = t % 2 ? low : high;"), 1, rounded);
    races(&format!("{prelude} f[t] = b % 2 ? low : high;"), 2, rounded);
    races(&format!("{prelude} f[t % 64] = t / 64 % 2 ? low : high;"), 1, rounded);
    races(&format!("{prelude} f[t] = b % 2 ? low : high + 0.5f;"), 2, other);
    races("out[t] = in[t] + b;", 2, other);
    let halves = |fault: &Fault| matches!(fault, Fault::Race { rounding: Some("FP16 or BF16"), .. });
    races("SHARED unsigned short s[64]; s[t / 8] = 0x3c00 + in[t] % 2; barrier(); out[t] = s[t / 8];", 1, halves);
    races("SHARED unsigned short s[64]; s[t % 64] = 0x3c00 + t / 64 % 2; barrier(); out[t] = s[t % 64];", 1, halves);
    races("SHARED unsigned s[64]; s[t / 8] = 0x3c003c00 + in[t] % 2 * 65536; barrier(); out[t] = s[t / 8];", 1, halves);
    races("SHARED unsigned s[64]; s[t % 64] = 1500 + t / 64; barrier(); out[t] = s[t % 64];", 1, other);
}

/// Of LDS, lanes and waves may keep either of two such values, where a compiler spreads them: a reduction that each of them computes in another order.
#[test]
fn values_that_differ_by_a_rounding_may_be_exchanged_in_lds() {
    let body = |place: &str, other: &str| {
        format!(
            "SHARED float s[256]; float low = 1.0f + in[t] * 0.0f, high = {other}f + in[t] * 0.0f; {place}; barrier(); \
             out[t] = s[t % 64] > 0.9f && s[t % 64] < 1.1f;"
        )
    };
    let (lanes, waves) = ("s[t / 2] = t % 2 ? low : high", "s[t % 64] = t / 64 % 2 ? low : high");
    for place in [lanes, waves] {
        each_if(true, &body(place, "1.00001"), 1, |target, _, done| {
            assert!(done.is_ok_and(|found| found[..256].iter().all(|value| *value == 1)), "{}", target.name);
        });
        each_if(true, &body(place, "1.001"), 1, |_, _, done| assert!(in_lds(&done.unwrap_err().fault)));
        races(&body(place, "1.00001"), 1, in_lds);
    }
}

/// Integers may have the bits of FP32 or FP16 numbers, and each of many values may be a few roundings from the next one.
#[test]
fn values_that_differ_otherwise_may_not_be_exchanged_in_lds() {
    let lanes = "t < 64";
    let waves = "t % 64 == 0 && t < 128";
    for (who, value) in [
        (lanes, "200000000u + t"),
        (waves, "200000000u + t / 64"),
        (lanes, "0x3f8a1234u + 0x10000u * (t & 1)"),
        (waves, "0x3f8a1234u + 0x10000u * (t / 64)"),
        (lanes, "0x3f800000u + 1000 * t"),
        ("t % 64 == 0", "0x3f800000u + 1500 * (t / 64)"),
    ] {
        let body = format!("SHARED unsigned s; if ({who}) s = {value}; barrier(); out[t] = s / 2;");
        each_if(true, &body, 1, |_, _, done| assert!(in_lds(&done.unwrap_err().fault)));
    }
    // Without such a compiler, integers that could be sums, too.
    for (who, value) in
        [(lanes, "1000000000u + t % 4 * 500"), (waves, "1000000000u + t / 64"), (waves, "0x3c003c00u + t / 64 * 600")]
    {
        races(&format!("SHARED unsigned s; if ({who}) s = {value}; barrier(); out[t] = s;"), 1, in_lds);
    }
}

/// Lanes may write what differs to one place of LDS if nothing is made of it: rows that are not there, of which each lane has something else.
#[test]
fn values_that_lanes_write_to_one_place_of_lds_may_differ_where_nobody_uses_them() {
    let body = |used: &str| {
        format!(
            "SHARED unsigned s[128]; const unsigned row = t / 2; s[row] = row < 50 ? row : in[t]; barrier(); \
             const unsigned found = s[t % 128]; if (t % 128 < {used}) out[t] = found + 1;"
        )
    };
    passes(&body("50"), 2, |found| (0..50).all(|t| found[t as usize] == t + 1));
    races(&body("51"), 2, |fault| in_lds(fault) && matches!(fault, Fault::Race { other: Other::Lane(_), .. }));
    // What nobody wrote is named as that beside it.
    let unwritten = "SHARED unsigned s[256]; s[t / 2] = in[t]; barrier(); out[t] = s[128 + t / 2];";
    races(unwritten, 1, |fault| matches!(fault, Fault::Unwritten { .. }));
}

/// A wave writes what is there already, another one something else: either may stay, in whatever order they come.
#[test]
fn a_store_of_what_is_there_races_with_one_of_something_else() {
    let body = |last: &str| {
        format!(
            "SHARED unsigned s[64]; if (t < 64) s[t] = in[t]; barrier(); if (t / 64 == 1) s[t % 64] = in[t % 64]; \
             if (t / 64 == 2) s[t % 64] = in[{last}]; barrier(); out[t] = s[t % 64];"
        )
    };
    passes(&body("t % 64"), 1, |found| (0..256).all(|t| found[t as usize] == t % 64));
    races(&body("t"), 1, |fault| in_lds(fault) && matches!(fault, Fault::Race { wrote: true, .. }));
}

#[test]
fn a_flag_that_all_set_is_no_race() {
    passes("words[0] = 1; if (in[t] < 1000) out[0] = 1;", 4, |found| found[0] == 1);
    races("if (t == 0) out[0] = b;", 4, in_memory);
}

/// Of gfx11, a block's waves may be on two units.
#[test]
fn a_barrier_does_not_order_stores_that_were_not_waited_for() {
    let body = |wait: &str| {
        format!(
            "words[t] = in[t]; {wait} asm volatile(\"s_barrier\" ::: \"memory\"); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"); out[t] = __builtin_nontemporal_load(&words[255 - t]);"
        )
    };
    let wait = "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");";
    passes(&body(wait), 1, |found| (0..256).all(|t| found[t as usize] == 255 - t));
    each(&body(""), 1, |target, seed, done| match done {
        Err(verdict) if target.name == "gfx1100" => assert!(in_memory(&verdict.fault), "{verdict}"),
        Ok(_) if target.name != "gfx1100" => {}
        other => panic!("{}, seed {seed}: {other:?}", target.name),
    });
}

#[test]
fn waves_that_return_are_not_waited_for() {
    let body = r#"SHARED unsigned s[128];
        if (t >= 128) return;
        s[t] = in[t];
        barrier();
        out[t] = s[127 - t];"#;
    passes(body, 2, |found| (0..128).all(|t| found[t as usize] == 127 - t));
}

#[test]
fn a_wave_without_lanes_comes_to_a_barrier() {
    let Some(tools) = Tools::find() else { return };
    let source = format!(
        "{PRELUDE}GLOBAL void f(unsigned* out) {{ THREAD; asm volatile(\"s_mov_b64 s[20:21], exec\\ns_mov_b64 exec, 0\\ns_barrier\\ns_mov_b64 exec, s[20:21]\" ::: \"s20\", \"s21\"); out[t] = t; }}"
    );
    for target in targets().filter(|target| target.name != "gfx1100") {
        let program = tools.program(&source, target);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 256 * 4, 4);
        let arguments = Arguments::default().pointer(out);
        run(&program, &mut memory, &launch("f", 1, THREADS, &arguments), 0);
        assert_eq!(dwords(&memory, out, 256), (0..256).collect::<Vec<u32>>());
    }
}

#[test]
fn a_bool_may_be_the_last_argument() {
    let Some(tools) = Tools::find() else { return };
    let source = format!(
        "{PRELUDE}GLOBAL void f(unsigned* out, bool up) {{ THREAD; if (up) out[t] = t; else out[t] = 255 - t; if (up && t == 3) out[0] = 7; }}"
    );
    for target in targets() {
        let program = tools.program(&source, target);
        for up in [0, 1] {
            let mut memory = Memory::new();
            let out = memory.allocate("out", 256 * 4, 4);
            let bytes = [out.to_le_bytes().as_slice(), &[up]].concat();
            let arguments = Arguments::default();
            let launch = bluefin_amd::Launch { arguments: &bytes, ..launch("f", 1, THREADS, &arguments) };
            run(&program, &mut memory, &launch, 0);
            assert_eq!(dwords(&memory, out, 256)[9], if up == 1 { 9 } else { 246 }, "{}", target.name);
        }
    }
}

#[test]
fn functions_call_themselves() {
    let Some(tools) = Tools::find() else { return };
    let source = format!(
        "__attribute__((device, noinline)) unsigned sum(volatile unsigned n) {{ if (n == 0) return 0; unsigned rest = sum(n - 1); return n + rest; }}\n{PRELUDE}GLOBAL void f(unsigned* out) {{ THREAD; out[t] = sum(t % 8 + 3); }}"
    );
    for target in targets() {
        let program = tools.program(&source, target);
        let mut memory = Memory::new();
        let out = memory.allocate("out", 256 * 4, 4);
        let arguments = Arguments::default().pointer(out);
        run(&program, &mut memory, &launch("f", 1, THREADS, &arguments), 0);
        let expected: Vec<u32> = (0..256).map(|t| (t % 8 + 3) * (t % 8 + 4) / 2).collect();
        assert_eq!(dwords(&memory, out, 256), expected, "{}", target.name);
    }
}

#[test]
fn a_lane_is_named_that_writes_something_else() {
    let Some(tools) = Tools::find() else { return };
    let source = format!("{PRELUDE}GLOBAL void f(unsigned* out) {{ THREAD; out[t / 2] = t; }}");
    let Some(target) = TARGETS.first() else { return };
    let program = tools.program(&source, target);
    let mut memory = Memory::new();
    let out = memory.allocate("out", 256 * 4, 4);
    let arguments = Arguments::default().pointer(out);
    let words = verdict(&program, &mut memory, &launch("f", 1, THREADS, &arguments)).to_string();
    assert!(words.contains("to which lane 0 of the wave writes another value in the same instruction"), "{words}");
}

/// Half of the waves wait once before a loop, the others once behind it, so that both are half a turn apart: a barrier counts waves. Where one
/// of both is missing, a half has left one out.
#[test]
fn waves_that_wait_at_different_barriers_meet_if_all_pass_as_many() {
    let body = |last: &str| {
        format!(
            "SHARED unsigned s[256]; s[t] = in[t]; if (t >= 128) barrier(); unsigned x = 0; \
             for (int i = 0; i < 3; ++i) {{ barrier(); x += s[t ^ 128]; }} {last} out[t] = x;"
        )
    };
    passes(&body("if (t < 128) barrier();"), 2, |found| (0..256).all(|t| found[t as usize] == 3 * (t ^ 128)));
    races(&body(""), 2, |fault| matches!(fault, Fault::Barrier { missing: Missing::Elsewhere { .. } }));
}

/// Both halves compute the same, and write it to one place, half a turn apart: who reads it meanwhile finds the same before and after. Where a
/// half writes something else it is a race.
#[test]
fn waves_that_write_what_is_there_already_are_no_race_with_those_that_read_it() {
    let body = |value: &str| {
        format!(
            "SHARED unsigned s[128]; if (t >= 128) barrier(); s[t & 127] = in[{value}]; barrier(); \
             unsigned x = s[t & 127 ^ 64]; if (t < 128) barrier(); out[t] = x;"
        )
    };
    passes(&body("t & 127"), 2, |found| (0..256).all(|t| found[t as usize] == ((t & 127) ^ 64)));
    races(&body("t"), 2, |fault| matches!(fault, Fault::Race { .. } | Fault::Barrier { .. }));
}
