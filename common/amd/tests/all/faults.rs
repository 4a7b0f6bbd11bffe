//! Kernels with planted faults: each is found, and named rightly.

use bluefin_amd::{Access, Fault, Launch, Memory, Missing, Other, Place, Program, Target, Use, Verdict};

use crate::support::{Arguments, Tools, dwords, floats, launch, read_floats, run, targets, verdict};

/// Sums of what other threads of a block put into LDS, tile by tile. What is defined says what is wrong with it.
const STAGED: &str = r#"
#define SHARED __attribute__((shared, aligned(16)))
static __attribute__((device, always_inline)) inline void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#ifndef AFTER_WRITE
#define AFTER_WRITE barrier()
#endif
#ifndef AFTER_READ
#define AFTER_READ barrier()
#endif
#ifndef INDEX
#define INDEX tile * 256 + t
#endif
#ifndef STAGE_INDEX
#define STAGE_INDEX (t * 7 + 64) % 256
#endif
#ifndef OUT
#define OUT block * 256 + t
#endif
#ifndef TILES
#define TILES tiles
#endif
#ifndef BEFORE
#define BEFORE
#endif
#ifndef MASK
#define MASK true
#endif
#ifndef SUM
#define SUM float sum = 0
#endif
#ifdef DYNAMIC
extern SHARED float stage[];
#endif
extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(256, 256)))
void staged(float* out, const float* in, int tiles) {
#ifndef DYNAMIC
    SHARED float stage[256];
#endif
    const int t = __builtin_amdgcn_workitem_id_x(), block = __builtin_amdgcn_workgroup_id_x();
    SUM;
    BEFORE;
    for (int tile = 0; tile < TILES; ++tile) {
        stage[t] = in[INDEX];
        AFTER_WRITE;
        sum += stage[STAGE_INDEX];
        AFTER_READ;
    }
    if (MASK) out[OUT] = sum;
}
"#;

const TILES: usize = 3;
const BLOCKS: usize = 2;

struct Staged {
    program: Program,
    dynamic_lds: u32,
    out_elements: usize,
}

impl Staged {
    fn new(tools: &Tools, target: &'static Target, flags: &[&str]) -> Self {
        let object = tools.compile("kernel.hip", STAGED, target, flags);
        Self { program: tools.load(&object, target), dynamic_lds: 0, out_elements: BLOCKS * 256 }
    }

    fn launched<T>(&self, then: impl FnOnce(&Program, &mut Memory, &Launch<'_>, u64) -> T) -> T {
        let mut memory = Memory::new();
        let values: Vec<f32> = (0..TILES * 256).map(|i| i as f32).collect();
        let (out, input) = (memory.allocate("out", self.out_elements * 4, 4), floats(&mut memory, "in", &values));
        let arguments = Arguments::default().pointer(out).pointer(input).int(TILES as i32);
        let launch = Launch { dynamic_lds: self.dynamic_lds, ..launch("staged", BLOCKS as u32, 256, &arguments) };
        then(&self.program, &mut memory, &launch, out)
    }

    fn verdict(&self) -> Verdict {
        self.launched(|program, memory, launch, _| verdict(program, memory, launch))
    }
}

/// What is found in each target's code when the kernel is compiled with `flags`.
fn verdicts(flags: &[&str]) -> Vec<(&'static Target, Verdict)> {
    let Some(tools) = Tools::find() else { return Vec::new() };
    targets().map(|target| (target, Staged::new(&tools, target, flags).verdict())).collect()
}

fn lanes(target: &Target) -> u32 {
    if target.name == "gfx1100" { 32 } else { 64 }
}

fn buffer(name: &str, element: i64, elements: u64) -> Place {
    Place::Buffer { name: name.into(), offset: element * 4, element, elements }
}

#[test]
fn without_a_fault_sums_are_right_for_every_order_of_waves() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let staged = Staged::new(&tools, target, &[]);
        for seed in 0..4 {
            let found = staged.launched(|program, memory, launch, out| {
                run(program, memory, launch, seed);
                read_floats(memory, out, BLOCKS * 256)
            });
            for (at, found) in found.iter().enumerate() {
                let other = (at % 256 * 7 + 64) % 256;
                let expected: usize = (0..TILES).map(|tile| tile * 256 + other).sum();
                assert_eq!(*found, expected as f32, "{}: element {at}", target.name);
            }
        }
    }
}

#[test]
fn a_missing_barrier_behind_the_stage_is_a_race() {
    for (target, verdict) in verdicts(&["-DAFTER_WRITE="]) {
        let Fault::Race { place: Place::Lds { size: 1024, .. }, other: Other::Wave(_) | Other::Waves, .. } =
            verdict.fault
        else {
            panic!("{}: {verdict}", target.name)
        };
        assert!(verdict.instruction.is_some_and(|site| site.text.starts_with("ds_")));
        assert_eq!(verdict.kernel, "staged");
    }
}

#[test]
fn a_missing_barrier_before_the_next_stage_is_a_race() {
    for (target, verdict) in verdicts(&["-DAFTER_READ="]) {
        assert!(matches!(verdict.fault, Fault::Race { place: Place::Lds { .. }, .. }), "{}: {verdict}", target.name);
    }
}

#[test]
fn an_index_one_too_far_is_out_of_bounds() {
    for (target, verdict) in verdicts(&["-DINDEX=tile*256+t+1"]) {
        let elements = (TILES * 256) as u64;
        let place = buffer("in", elements as i64, elements);
        assert_eq!(verdict.fault, Fault::OutOfBounds { access: Access::Read, bytes: 4, place }, "{}", target.name);
        let lanes = lanes(target);
        assert_eq!((verdict.wave, verdict.lane), (256 / lanes - 1, Some(lanes - 1)));
    }
    for (target, verdict) in verdicts(&["-DINDEX=tile*256+t-1"]) {
        let place = buffer("in", -1, (TILES * 256) as u64);
        assert_eq!(verdict.fault, Fault::OutOfBounds { access: Access::Read, bytes: 4, place }, "{}", target.name);
        assert_eq!((verdict.wave, verdict.lane), (0, Some(0)));
    }
    for (target, verdict) in verdicts(&["-DSTAGE_INDEX=t+1"]) {
        let place = Place::Lds { offset: 1024, size: 1024 };
        assert_eq!(verdict.fault, Fault::OutOfBounds { access: Access::Read, bytes: 4, place }, "{}", target.name);
    }
}

#[test]
fn a_tail_that_is_not_masked_is_out_of_bounds() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let mut staged = Staged::new(&tools, target, &[]);
        staged.out_elements = 500;
        let verdict = staged.verdict();
        let Fault::OutOfBounds {
            access: Access::Write, place: Place::Buffer { name, element, elements: 500, .. }, ..
        } = &verdict.fault
        else {
            panic!("{}: {verdict}", target.name)
        };
        assert!(name == "out" && (500..512).contains(element), "{verdict}");
        assert_eq!(verdict.block, [1, 0, 0]);
        let mut staged = Staged::new(&tools, target, &["-DMASK=block*256+t<500"]);
        staged.out_elements = 500;
        staged.launched(|program, memory, launch, _| run(program, memory, launch, 0));
    }
}

#[test]
fn a_register_that_was_not_cleared_is_followed_to_the_store() {
    for (target, verdict) in verdicts(&["-DSUM=float sum; asm volatile(\"\" : \"=v\"(sum))"]) {
        let Fault::Unwritten { used: Use::Store(Place::Buffer { name, .. }), .. } = &verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        assert_eq!(name, "out");
        assert!(verdict.instruction.is_some_and(|site| site.text.starts_with("global_store_")));
    }
}

#[test]
fn a_word_of_lds_that_nobody_wrote_is_followed_to_the_store() {
    for (target, verdict) in verdicts(&["-DBEFORE=sum += stage[t]; barrier()"]) {
        let Fault::Unwritten { used: Use::Store(_), origin: Some(origin) } = &verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        assert!(origin.contains("bytes of LDS"), "{origin}");
    }
}

#[test]
fn a_branch_on_what_nobody_wrote_is_found() {
    let flag = "-DBEFORE=int many; asm volatile(\"\" : \"=v\"(many)); if (many > 3) tiles = 1";
    for (target, verdict) in verdicts(&[flag]) {
        let decided = matches!(&verdict.fault, Fault::Unwritten { used: Use::Branch | Use::Exec | Use::Store(_), .. });
        assert!(decided, "{}: {verdict}", target.name);
    }
}

#[test]
fn a_barrier_that_not_all_reach_is_divergent() {
    for (target, verdict) in verdicts(&["-DBEFORE=if (t < 128) barrier()"]) {
        let Fault::Barrier { missing: Missing::Elsewhere { wave, at } } = &verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        assert_ne!(verdict.wave < 128 / lanes(target), *wave < 128 / lanes(target));
        assert_eq!(at.text, "s_barrier");
    }
    for (target, verdict) in verdicts(&["-DBEFORE=if (t < 230) barrier()"]) {
        let Fault::Barrier { missing: Missing::Lanes { lanes, .. } } = verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        let expected = if target.name == "gfx1100" { (7, 0xffff_ffc0) } else { (3, 0xffff_ffc0_0000_0000) };
        assert_eq!((verdict.wave, lanes), expected);
        assert_eq!(verdict.instruction.map(|site| site.text), Some("s_barrier".to_string()));
    }
}

#[test]
fn a_loop_without_end_meets_the_limit() {
    for (target, verdict) in verdicts(&["-DBEFORE=while (*(volatile const float*)in < 1e9f)"]) {
        assert_eq!(verdict.fault, Fault::Hang { limit: 1_000_000 }, "{}: {verdict}", target.name);
    }
}

#[test]
fn too_little_dynamic_lds_is_out_of_bounds() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let mut staged = Staged::new(&tools, target, &["-DDYNAMIC"]);
        staged.dynamic_lds = 1024;
        staged.launched(|program, memory, launch, _| run(program, memory, launch, 0));
        staged.dynamic_lds = 1000;
        let verdict = staged.verdict();
        let Fault::OutOfBounds { access, bytes: 4, place: Place::Lds { offset, size: 1000 } } = verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        assert!(access == Access::Write && (1000..1024).contains(&offset));
    }
}

#[test]
fn blocks_that_write_one_element_race() {
    for (target, verdict) in verdicts(&["-DOUT=t", "-DSUM=float sum = block"]) {
        let Fault::Race {
            access: Access::Write,
            place: Place::Buffer { name, .. },
            other: Other::Block(other),
            wrote: true,
            rounding: None,
            ..
        } = &verdict.fault
        else {
            panic!("{}: {verdict}", target.name)
        };
        assert_eq!(name, "out");
        assert_eq!(verdict.block[0] + other[0], 1);
    }
}

#[test]
fn waves_that_write_one_element_race() {
    for (target, verdict) in verdicts(&["-DOUT=block*256+t%64+t/128"]) {
        let wave = matches!(verdict.fault, Fault::Race { place: Place::Buffer { .. }, other: Other::Wave(_), .. });
        assert!(wave, "{}: {verdict}", target.name);
    }
}

#[test]
fn a_misaligned_atomic_is_refused() {
    let flag = "-DBEFORE=__atomic_fetch_add((int*)((char*)out + 2), 1, __ATOMIC_RELAXED)";
    for (target, verdict) in verdicts(&[flag]) {
        assert!(
            matches!(verdict.fault, Fault::Misaligned { access: Access::Atomic, .. }),
            "{}: {verdict}",
            target.name
        );
    }
}

#[test]
fn memory_that_nobody_wrote_is_followed_to_the_store() {
    for (target, verdict) in verdicts(&["-DBEFORE=sum = out[block * 256 + t]"]) {
        let Fault::Unwritten { used: Use::Store(_), origin: Some(origin) } = &verdict.fault else {
            panic!("{}: {verdict}", target.name)
        };
        assert!(origin.contains(" of out ("), "{origin}");
    }
}

/// Where each `s_waitcnt` is in a code object: SOPP, operation 12 on gfx9 and 9 on gfx11.
fn waits(object: &[u8], target: &Target) -> Vec<usize> {
    let operation = if target.name == "gfx1100" { 0xbf89 } else { 0xbf8c };
    let is_wait = |at: &usize| u16::from_le_bytes([object[at + 2], object[at + 3]]) == operation;
    (0..object.len() / 4).map(|word| word * 4).filter(is_wait).collect()
}

#[test]
fn an_s_waitcnt_that_was_taken_out_is_missed() {
    let Some(tools) = Tools::find() else { return };
    for target in targets() {
        let object = tools.compile("kernel.hip", STAGED, target, &[]);
        let (mut counters, mut races) = (Vec::new(), 0);
        for at in waits(&object, target) {
            let mut patched = object.clone();
            patched[at..at + 4].copy_from_slice(&0xbf80_0000_u32.to_le_bytes());
            let staged = Staged { program: tools.load(&patched, target), dynamic_lds: 0, out_elements: BLOCKS * 256 };
            let done = staged.launched(|program, memory, launch, _| {
                program.run(
                    memory,
                    launch,
                    &bluefin_amd::Options { seed: 3, max_instructions: 1_000_000, ..Default::default() },
                )
            });
            match done {
                Err(bluefin_amd::Failure::Verdict(verdict)) => match verdict.fault {
                    Fault::Unwaited { counter, issued, .. } => {
                        assert!(issued.text.contains("load") || issued.text.contains("read"), "{issued}");
                        counters.push(counter);
                    }
                    Fault::Race { .. } => races += 1,
                    other => panic!("{}: {other}", target.name),
                },
                // One that asks for nothing that is under way.
                Ok(_) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(counters.contains(&"vmcnt") && counters.contains(&"lgkmcnt"), "{}: {counters:?}", target.name);
        assert!(races > 0, "{}: no store to LDS was missed at a barrier", target.name);
    }
}

/// One product of 32 x 32 x 8 by a wave.
const MATRIX: &str = r#"
using half4 = _Float16 __attribute__((ext_vector_type(4)));
using float16 = float __attribute__((ext_vector_type(16)));
extern "C" __attribute__((global)) void product(float* c, const _Float16* a, const _Float16* b) {
    const int lane = __builtin_amdgcn_workitem_id_x();
    half4 left, right;
    for (int i = 0; i < 4; ++i) {
        left[i] = a[lane % 32 * 8 + lane / 32 * 4 + i];
        right[i] = b[(K) * 32 + lane % 32];
    }
    float16 sum;
    CLEAR;
    sum = __builtin_amdgcn_mfma_f32_32x32x8f16(left, right, sum, 0, 0, 0);
    for (int r = 0; r < 16; ++r) c[(r / 4 * 8 + lane / 32 * 4 + r % 4) * 32 + lane % 32] = sum[r];
}
"#;

/// Small whole numbers and their products.
fn product(tools: &Tools, target: &'static Target, flags: &[&str]) -> Result<bool, Box<Verdict>> {
    let program = tools.load(&tools.compile("kernel.hip", MATRIX, target, flags), target);
    let mut memory = Memory::new();
    let halves: [u16; 4] = [0x3c00, 0x4000, 0x4200, 0xbc00];
    let value = |at: usize| [1.0, 2.0, 3.0, -1.0][at % 4];
    let c = memory.allocate("c", 32 * 32 * 4, 4);
    let mut operand = |name: &str, step: usize| {
        let address = memory.allocate(name, 32 * 8 * 2, 2);
        let data: Vec<u8> = (0..256).flat_map(|at| halves[(at * step + at / 7) % 4].to_le_bytes()).collect();
        memory.write(address, &data).expect("a buffer");
        address
    };
    let (a, b) = (operand("a", 1), operand("b", 3));
    let arguments = Arguments::default().pointer(c).pointer(a).pointer(b);
    match program.run(&mut memory, &launch("product", 1, 64, &arguments), &bluefin_amd::Options::default()) {
        Ok(_) => {}
        Err(bluefin_amd::Failure::Verdict(verdict)) => return Err(verdict),
        Err(other) => panic!("{other}"),
    }
    let found = read_floats(&memory, c, 32 * 32);
    Ok((0..32 * 32).all(|at| {
        let (row, column) = (at / 32, at % 32);
        let term = |k: usize| {
            let (a, b) = (row * 8 + k, k * 32 + column);
            value(a + a / 7) * value(b * 3 + b / 7)
        };
        found[at] == (0..8).map(term).sum::<f32>()
    }))
}

#[test]
fn a_wrong_layout_of_a_matrix_operand_gives_wrong_numbers() {
    let Some(tools) = Tools::find() else { return };
    for target in targets().filter(|target| target.name != "gfx1100") {
        let clear = "-DCLEAR=for (int r = 0; r < 16; ++r) sum[r] = 0";
        assert_eq!(product(&tools, target, &["-DK=lane/32*4+i", clear]), Ok(true), "{}", target.name);
        assert_eq!(product(&tools, target, &["-DK=i*2+lane/32", clear]), Ok(false), "{}", target.name);
        let uncleared = "-DCLEAR=asm volatile(\"\" : \"=v\"(sum))";
        let verdict = product(&tools, target, &["-DK=lane/32*4+i", uncleared]).expect_err("a verdict");
        assert!(matches!(verdict.fault, Fault::Unwritten { used: Use::Store(_), .. }), "{verdict}");
    }
}

/// The same on gfx11: a lane has 16 elements of A and of B, lanes 16 to 31 the same as lanes 0 to 15.
const WAVE_MATRIX: &str = r#"
using half16 = _Float16 __attribute__((ext_vector_type(16)));
using float8 = float __attribute__((ext_vector_type(8)));
extern "C" __attribute__((global)) void product(float* c, const _Float16* a, const _Float16* b) {
    const int lane = __builtin_amdgcn_workitem_id_x();
    half16 left, right;
    for (int i = 0; i < 16; ++i) {
        left[i] = a[(ROW) * 16 + i];
        right[i] = b[i * 16 + lane % 16];
    }
    float8 sum = {};
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left, right, sum);
    for (int r = 0; r < 8; ++r) c[(r * 2 + lane / 16) * 16 + lane % 16] = sum[r];
}
"#;

#[test]
fn lanes_that_are_no_copies_are_refused_by_wave_matrix_instructions() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx1100") else { return };
    for (row, right) in [("lane%16", true), ("lane/2", false)] {
        let program = tools.load(&tools.compile("kernel.hip", WAVE_MATRIX, target, &[&format!("-DROW={row}")]), target);
        let mut memory = Memory::new();
        let c = memory.allocate("c", 256 * 4, 4);
        let mut operand = |name: &str, step: usize| {
            let address = memory.allocate(name, 256 * 2, 2);
            // 1, 2, 3 and -1.
            let halves = [0x3c00_u16, 0x4000, 0x4200, 0xbc00];
            let data: Vec<u8> = (0..256).flat_map(|at| halves[(at * step + at / 7) % 4].to_le_bytes()).collect();
            memory.write(address, &data).expect("a buffer");
            address
        };
        let arguments = Arguments::default().pointer(c).pointer(operand("a", 1)).pointer(operand("b", 3));
        let launch = launch("product", 1, 32, &arguments);
        if !right {
            let verdict = verdict(&program, &mut memory, &launch);
            assert!(matches!(verdict.fault, Fault::NotReplicated { .. }), "{verdict}");
            continue;
        }
        run(&program, &mut memory, &launch, 0);
        let found = read_floats(&memory, c, 256);
        let value = |at: usize, step: usize| [1.0, 2.0, 3.0, -1.0][(at * step + at / 7) % 4];
        for (at, found) in found.iter().enumerate() {
            let expected: f32 = (0..16).map(|k| value(at / 16 * 16 + k, 1) * value(k * 16 + at % 16, 3)).sum();
            assert_eq!(*found, expected, "element {at}");
        }
    }
}

#[test]
fn a_verdict_reads_as_a_sentence() {
    let Some(tools) = Tools::find() else { return };
    let Some(target) = Target::named("gfx942") else { return };
    let words = Staged::new(&tools, target, &["-DINDEX=tile*256+t-1"]).verdict().to_string();
    let expected =
        "staged: out of bounds: read of 4 bytes at element -1 of in (768 elements; byte -4), by `global_load_dword ";
    assert!(words.starts_with(expected), "{words}");
    assert!(
        words.ends_with(", block (0, 0, 0), wave 0, lane 0") || words.ends_with("block (1, 0, 0), wave 0, lane 0"),
        "{words}"
    );
    let mut memory = Memory::new();
    let address = memory.allocate("b", 8, 4);
    assert!(memory.read(address + 4, &mut [0; 8]).is_err());
    assert_eq!(dwords(&memory, address, 2), [0, 0]);
}
