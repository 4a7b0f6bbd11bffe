//! Kernels without one of the instructions that keep them right.

use bluefin_amd::{Failure, Fault, Guard, Guarded, Memory, Options, Report, Target};

use crate::bodies::PRELUDE;
use crate::support::{Arguments, Tools, dwords, launch, targets};

/// Reads what other waves put into LDS, and stores with lanes that there are elements for.
const BODY: &str = r#"SHARED unsigned s[256];
    s[t] = in[t]; barrier();
    unsigned sum = s[255 - t]; barrier();
    s[t] = sum * 2; barrier();
    if (t < 200) out[t] = s[255 - t];"#;

/// What comes of a body, and of what is left out.
fn run(target: &'static Target, tools: &Tools, body: &str, without: Option<u64>) -> Result<Report, Fault> {
    let source = format!(
        "{PRELUDE}GLOBAL void f(unsigned* out, const unsigned* in) {{ const unsigned t = __builtin_amdgcn_workitem_id_x(); {body} }}"
    );
    let program = tools.program(&source, target);
    let mut memory = Memory::new();
    let [out, from] = [("out", 200), ("in", 256)].map(|(name, count)| memory.allocate(name, 4 * count, 4));
    let values: Vec<u8> = (0..256_u32).flat_map(u32::to_le_bytes).collect();
    memory.write(from, &values).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(from);
    let options = Options { seed: 1, max_instructions: 100_000, without, ..Options::default() };
    match program.run(&mut memory, &launch("f", 1, 256, &arguments), &options) {
        Ok(report) => {
            let found = dwords(&memory, out, 200);
            assert!(without.is_some() || (0..200).all(|t| found[t as usize] == 2 * t), "{}: {found:?}", target.name);
            Ok(report)
        }
        Err(Failure::Verdict(verdict)) => Err(verdict.fault),
        Err(other) => panic!("{}: {other}", target.name),
    }
}

#[test]
fn what_keeps_a_kernel_right_is_known_and_missed() {
    let Some(tools) = Tools::find() else { return };
    for target in targets().chain(Target::named("gfx1201")) {
        let Report { guards, ordered, .. } = run(target, &tools, BODY, None).expect("it is right");
        assert!(ordered, "{}", target.name);
        let count = |guard| guards.iter().filter(|guarded| guarded.guard == guard && guarded.acts).count();
        assert_eq!((count(Guard::Barrier), count(Guard::Bound)), (3, 1), "{}: {guards:?}", target.name);
        let mut waits = 0;
        for Guarded { site, guard, acts } in &guards {
            let done = run(target, &tools, BODY, Some(site.address));
            match guard {
                Guard::Barrier => {
                    let race = matches!(done, Err(Fault::Race { .. } | Fault::Unwritten { .. }));
                    assert!(race, "{}: {site}: {done:?}", target.name);
                }
                Guard::Bound => {
                    assert!(matches!(done, Err(Fault::OutOfBounds { .. })), "{}: {site}: {done:?}", target.name)
                }
                Guard::Wait if !acts => assert!(done.is_ok(), "{}: {site}: {done:?}", target.name),
                Guard::Wait => {
                    let found = matches!(done, Err(Fault::Unwaited { .. } | Fault::Race { .. }));
                    assert!(found || done.is_ok(), "{}: {site}: {done:?}", target.name);
                    waits += usize::from(found);
                }
            }
        }
        assert!(waits >= 4, "{}: {waits}", target.name);
    }
}

/// Whether the order of waves can matter, with and without a barrier that nobody needs: not where each wave reads what it has written
/// itself; perhaps where atomics have an order of their own, or where a value is read that others write, though nobody uses it.
#[test]
fn what_barriers_alone_order_is_told_from_what_else_does() {
    let Some(tools) = Tools::find() else { return };
    let own = "SHARED unsigned s[256]; s[t] = 2 * in[t]; barrier(); if (t < 200) out[t] = s[t ^ 1] + s[t] - s[t ^ 1];";
    let atomic = "SHARED unsigned s[256]; s[t] = in[t]; barrier(); __hip_atomic_fetch_add(&s[t], in[t], __ATOMIC_RELAXED, \
        __HIP_MEMORY_SCOPE_WORKGROUP); if (t < 200) out[t] = s[t];";
    for target in targets().chain(Target::named("gfx1201")) {
        for (body, expected) in [(own, true), (atomic, false)] {
            let report = run(target, &tools, body, None).expect("it is right");
            assert_eq!(report.ordered, expected, "{}: {body}", target.name);
            let barrier = report.guards.iter().find(|guarded| guarded.guard == Guard::Barrier).expect("a barrier");
            let without = run(target, &tools, body, Some(barrier.site.address)).expect("nobody needs it");
            assert_eq!(without.ordered, expected, "{}: {body}", target.name);
        }
    }
}
