//! Kernels without one of the instructions that keep them right.

use bluefin_amd::{Failure, Fault, Guard, Guarded, Memory, Options, Target};

use crate::bodies::PRELUDE;
use crate::support::{Arguments, Tools, dwords, launch, targets};

/// Reads what other waves put into LDS, and stores with lanes that there are elements for.
const BODY: &str = r#"SHARED unsigned s[256];
    s[t] = in[t]; barrier();
    unsigned sum = s[255 - t]; barrier();
    s[t] = sum * 2; barrier();
    if (t < 200) out[t] = s[255 - t];"#;

/// What comes of it, and of what is left out.
fn run(target: &'static Target, tools: &Tools, without: Option<u64>) -> Result<Vec<Guarded>, Fault> {
    let source = format!(
        "{PRELUDE}GLOBAL void f(unsigned* out, const unsigned* in) {{ const unsigned t = __builtin_amdgcn_workitem_id_x(); {BODY} }}"
    );
    let program = tools.program(&source, target);
    let mut memory = Memory::new();
    let [out, from] = [("out", 200), ("in", 256)].map(|(name, count)| memory.allocate(name, 4 * count, 4));
    let values: Vec<u8> = (0..256_u32).flat_map(u32::to_le_bytes).collect();
    memory.write(from, &values).expect("a buffer");
    let arguments = Arguments::default().pointer(out).pointer(from);
    let options = Options { seed: 1, max_instructions: 100_000, without };
    match program.run(&mut memory, &launch("f", 1, 256, &arguments), &options) {
        Ok(report) => {
            let found = dwords(&memory, out, 200);
            assert!(without.is_some() || (0..200).all(|t| found[t as usize] == 2 * t), "{}: {found:?}", target.name);
            Ok(report.guards)
        }
        Err(Failure::Verdict(verdict)) => Err(verdict.fault),
        Err(other) => panic!("{}: {other}", target.name),
    }
}

#[test]
fn what_keeps_a_kernel_right_is_known_and_missed() {
    let Some(tools) = Tools::find() else { return };
    for target in targets().chain(Target::named("gfx1201")) {
        let guards = run(target, &tools, None).expect("it is right");
        let count = |guard| guards.iter().filter(|guarded| guarded.guard == guard && guarded.acts).count();
        assert_eq!((count(Guard::Barrier), count(Guard::Bound)), (3, 1), "{}: {guards:?}", target.name);
        let mut waits = 0;
        for Guarded { site, guard, acts } in &guards {
            let done = run(target, &tools, Some(site.address));
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
