//! Whom a race names: the instruction and the line of either side, and the right wave.

use bluefin_amd::{Fault, Memory, Other, Verdict};

use crate::bodies::{PRELUDE, THREADS, each};
use crate::support::{Arguments, Tools, launch, targets, verdict};

/// What is found in each target's code, of a kernel whose lines are numbered from 1.
fn found(body: &str, blocks: u32, mut then: impl FnMut(Verdict)) {
    let Some(tools) = Tools::find() else { return };
    let kernel = "GLOBAL void f(unsigned* out, const unsigned* in, unsigned* words) { THREAD;";
    let source = format!("{PRELUDE}{kernel}\n#line 1 \"body.cu\"\n{body}\n}}");
    for target in targets() {
        let flags = ["-gline-tables-only", "-mllvm", "-use-unknown-locations=Enable"];
        let program = tools.load(&tools.compile("kernel.hip", &source, target, &flags), target);
        let mut memory = Memory::new();
        let [out, from, words] = ["out", "in", "words"].map(|name| memory.allocate(name, 1024 * 4, 4));
        let input: Vec<u8> = (0..1024_u32).flat_map(u32::to_le_bytes).collect();
        memory.write(from, &input).expect("a buffer");
        memory.fill(words, 0, 1024 * 4).expect("a buffer");
        let arguments = Arguments::default().pointer(out).pointer(from).pointer(words);
        then(verdict(&program, &mut memory, &launch("f", blocks, THREADS, &arguments)));
    }
}

/// The line that a race was met at, and that of the other side.
fn lines(verdict: &Verdict) -> [Option<&str>; 2] {
    let Fault::Race { by, .. } = &verdict.fault else { panic!("{verdict}") };
    [verdict.instruction.as_ref(), by.as_deref()].map(|site| site?.source.as_deref())
}

#[test]
fn a_race_in_lds_names_both_lines() {
    // An earlier store and an earlier load of the same places are in order.
    let body = "SHARED unsigned s[256]; s[t] = 7;\nbarrier();\nunsigned x = s[t ^ 64];\nbarrier();\ns[t] = in[t];\nx += s[t ^ 64];\nout[t] = x;";
    found(body, 1, |verdict| assert_eq!(lines(&verdict), [Some("body.cu:6"), Some("body.cu:5")], "{verdict}"));
    found(body, 1, |verdict| {
        let words = verdict.to_string();
        let store = if words.contains("`ds_read") { "`ds_write_b32 v" } else { "`ds_store_b32 v" };
        assert!(
            words.contains(" wrote by ") && words.contains(store) && words.contains("(body.cu:5) with no barrier"),
            "{words}"
        );
    });
}

/// What the other side does later with the place, before the value is used, is not it.
#[test]
fn a_race_names_what_came_before_it() {
    let body = "SHARED unsigned s[256]; s[t] = 7; barrier();\ns[t] = in[t];\nunsigned x = s[t ^ 64];\nbarrier();\ns[t] = 5;\nbarrier();\n\
                out[t] = x + s[t ^ 1];";
    found(body, 1, |verdict| {
        let mut lines = lines(&verdict);
        lines.sort_unstable();
        assert_eq!(lines, [Some("body.cu:2"), Some("body.cu:3")], "{verdict}");
    });
}

#[test]
fn a_race_of_blocks_names_both_lines() {
    let body = "if (b == 0)\nout[t] = in[t];\nif (b == 1)\nout[t] = in[t + 9];";
    found(body, 2, |verdict| {
        let mut lines = lines(&verdict);
        lines.sort_unstable();
        // The compiler makes one store of both.
        assert!(lines.iter().all(Option::is_some), "{verdict}");
        let Fault::Race { other: Other::Block(other), .. } = verdict.fault else { panic!("{verdict}") };
        assert_ne!(other, verdict.block);
    });
}

/// The read came first, so that it is known from another execution that its value is used.
#[test]
fn a_race_with_a_read_names_both_lines() {
    let body = "const unsigned x = words[t];\nout[t] = x;\nwords[t ^ 64] = in[t];";
    found(body, 1, |verdict| {
        let mut lines = lines(&verdict);
        lines.sort_unstable();
        assert_eq!(lines, [Some("body.cu:1"), Some("body.cu:3")], "{verdict}");
    });
}

/// A wave reads what another one has changed by an atomic since: it is told when the reader comes to a barrier, and is the other's.
#[test]
fn a_race_with_an_atomic_names_two_waves() {
    let body = "SHARED unsigned n; if (t == 0) n = 0; barrier(); unsigned at = 0; \
                if (in[t] % 3 == 0) at = __hip_atomic_fetch_add(&n, 1u, __ATOMIC_RELAXED, GROUP); \
                if (t == 0) n = __hip_atomic_fetch_add(words, n, __ATOMIC_RELAXED, AGENT); barrier(); out[at + n] = in[t];";
    let mut races = 0;
    each(body, 1, |target, seed, done| {
        let Err(verdict) = done else { return };
        let Fault::Race { other, .. } = &verdict.fault else { panic!("{}, seed {seed}: {verdict}", target.name) };
        assert_ne!(other, &Other::Wave(verdict.wave), "{}, seed {seed}: {verdict}", target.name);
        races += 1;
    });
    assert!(races > 0);
}

/// The compiler loads before the loop what each turn uses, and gives that load no line.
#[test]
fn a_load_that_was_moved_has_the_line_of_its_use() {
    let body = "SHARED unsigned s;\ns = 1; barrier(); if (t == 0)\ns = in[7];\nconst unsigned n = in[900];\nfor (unsigned i = t;\ni < n; i += 256)\nout[i] = in[i] *\ns;";
    found(body, 1, |verdict| {
        let mut lines = lines(&verdict);
        lines.sort_unstable();
        assert!(matches!(lines, [Some("body.cu:3"), Some("body.cu:7" | "body.cu:8")]), "{verdict}");
    });
}
