//! Bodies of kernels of three buffers, run on each target in several orders.

use bluefin_amd::{Fault, Memory, Target, Verdict};

use crate::support::{Arguments, Tools, dwords, launch, targets};

pub const PRELUDE: &str = r#"
#define SHARED __attribute__((shared))
#define GLOBAL extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256)))
static __attribute__((device, always_inline)) inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define THREAD const unsigned t = __builtin_amdgcn_workitem_id_x(), b = __builtin_amdgcn_workgroup_id_x()
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define GROUP __HIP_MEMORY_SCOPE_WORKGROUP
"#;

pub const THREADS: u32 = 256;

/// Runs `body` of a kernel of `out`, `in` (whose element is its index) and `words`, which are 0; what is in `out`.
pub fn each(body: &str, blocks: u32, then: impl FnMut(&'static Target, u64, Result<Vec<u32>, Verdict>)) {
    each_if(false, body, blocks, then);
}

/// The same, of a compiler that spreads values over lanes or not.
pub fn each_if(
    spreads: bool,
    body: &str,
    blocks: u32,
    mut then: impl FnMut(&'static Target, u64, Result<Vec<u32>, Verdict>),
) {
    each_among(targets(), spreads, body, blocks, &mut then);
}

/// Of targets with these names alone.
pub fn each_of(names: &[&str], body: &str, blocks: u32, mut then: impl FnMut(Result<Vec<u32>, Verdict>)) {
    each_among(names.iter().filter_map(|name| Target::named(name)), false, body, blocks, &mut |_, _, done| then(done));
}

fn each_among(
    targets: impl Iterator<Item = &'static Target>,
    spreads: bool,
    body: &str,
    blocks: u32,
    then: &mut impl FnMut(&'static Target, u64, Result<Vec<u32>, Verdict>),
) {
    let Some(tools) = Tools::find() else { return };
    let source =
        format!("{PRELUDE}GLOBAL void f(unsigned* out, const unsigned* in, unsigned* words) {{ THREAD; {body} }}");
    for target in targets {
        let program = tools.program(&source, target);
        for seed in 0..4 {
            let mut memory = Memory::new();
            let out = memory.allocate("out", 1024 * 4, 4);
            let input: Vec<u8> = (0..1024_u32).flat_map(u32::to_le_bytes).collect();
            let [from, words] = ["in", "words"].map(|name| memory.allocate(name, 1024 * 4, 4));
            memory.write(from, &input).expect("a buffer");
            memory.fill(words, 0, 1024 * 4).expect("a buffer");
            let arguments = Arguments::default().pointer(out).pointer(from).pointer(words);
            let launch = launch("f", blocks, THREADS, &arguments);
            let options = bluefin_amd::Options { seed, max_instructions: 10_000_000, without: None, spreads };
            let done = match program.run(&mut memory, &launch, &options) {
                Ok(_) => Ok(dwords(&memory, out, 1024)),
                Err(bluefin_amd::Failure::Verdict(verdict)) => Err(*verdict),
                Err(other) => panic!("{}: {other}", target.name),
            };
            then(target, seed, done);
        }
    }
}

pub fn passes(body: &str, blocks: u32, expected: impl Fn(&[u32]) -> bool) {
    each(body, blocks, |target, seed, done| match done {
        Ok(found) => assert!(expected(&found), "{}, seed {seed}: {:?}", target.name, &found[..8]),
        Err(verdict) => panic!("{}, seed {seed}: {verdict}", target.name),
    });
}

pub fn races(body: &str, blocks: u32, is_it: impl Fn(&Fault) -> bool) {
    each(body, blocks, |target, seed, done| match done {
        Ok(_) => panic!("{}, seed {seed}: no fault", target.name),
        Err(verdict) => assert!(is_it(&verdict.fault), "{}, seed {seed}: {verdict}", target.name),
    });
}
