//! Matrix instructions of which A is sparse, and loads that transpose what such instructions take.

use bluefin_amd::{Failure, Fault, Memory, Options, Program, Target};

use crate::support::{Arguments, Tools, dwords, floats, launch, read_floats, run};

/// A product of 16 by 32 and 32 by 16. Of each four elements of a row of A two are not 0; a lane finds them.
const SPARSE: &str = r#"
using half = _Float16;
typedef half halves_a __attribute__((ext_vector_type(2 * GROUPS)));
typedef half halves_b __attribute__((ext_vector_type(4 * GROUPS)));
typedef float floats_d __attribute__((ext_vector_type(2 * GROUPS)));
extern "C" __attribute__((global)) void product(float* d, const float* a, const float* b) {
    const int lane = __builtin_amdgcn_workitem_id_x();
    halves_a left;
    halves_b right;
    int index = 0;
    for (int group = 0; group < GROUPS; ++group) {
        int count = 0;
        for (int of = 0; of < 4; ++of) {
            const float value = a[lane % 16 * 32 + K(group) + of];
            right[4 * group + of] = b[(K(group) + of) * 16 + lane % 16];
            if (value != 0) {
                left[2 * group + count] = value;
                index |= of << (4 * group + 2 * count);
                ++count;
            }
        }
    }
    floats_d sum;
    for (int r = 0; r < 2 * GROUPS; ++r) sum[r] = d[ROW(r) * 16 + lane % 16];
    sum = MULTIPLY(left, right, sum, INDEX);
    for (int r = 0; r < 2 * GROUPS; ++r) d[ROW(r) * 16 + lane % 16] = sum[r];
}
"#;

fn outcome(program: &Program, memory: &mut Memory, arguments: &Arguments, threads: u32) -> Option<Fault> {
    match program.run(memory, &launch("product", 1, threads, arguments), &Options::default()) {
        Ok(_) => None,
        Err(Failure::Verdict(verdict)) => Some(verdict.fault),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn sparse_products_are_those_of_dense_matrices() {
    let Some(tools) = Tools::find() else { return };
    let older = ["-DGROUPS=2", "-DK(g)=(lane/16*8+4*(g))", "-DROW(r)=(lane/16*4+(r))"];
    let newer = ["-DGROUPS=4", "-DK(g)=((g)/2*16+lane/16*8+(g)%2*4)", "-DROW(r)=(lane/16*8+(r))"];
    let sparse = "-DMULTIPLY(a,b,d,i)=__builtin_amdgcn_smfmac_f32_16x16x32_f16(a,b,d,i,0,SET)";
    let waves = "-DMULTIPLY(a,b,d,i)=__builtin_amdgcn_swmmac_f32_16x16x32_f16_w32(a,b,d,i)";
    for (name, threads, defines, multiply) in
        [("gfx942", 64, older, sparse), ("gfx1200", 32, newer, waves), ("gfx1201", 32, newer, waves)]
    {
        let target = Target::named(name).expect("a target");
        // The indices as they are, in another set where there is a choice, and ones that do not ascend.
        let sets: &[(&str, &str, bool)] = match name {
            "gfx942" => &[("index", "0", true), ("index<<24", "3", true), ("index^index", "0", false)],
            _ => &[("index", "0", true), ("(short)-1", "0", false)],
        };
        for (index, set, right) in sets {
            let flags =
                [defines[0], defines[1], defines[2], multiply, &format!("-DINDEX={index}"), &format!("-DSET={set}")];
            let program = tools.load(&tools.compile("kernel.hip", SPARSE, target, &flags), target);
            let a: Vec<f32> = (0..16 * 32)
                .map(|at| {
                    let pair = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][(at / 4 * 7 + at / 32) % 6];
                    if pair.contains(&(at % 4)) { [1.0, -2.0, 3.0, 0.5][(at * 5 + at / 9) % 4] } else { 0.0 }
                })
                .collect();
            let b: Vec<f32> = (0..32 * 16).map(|at| [2.0, -1.0, 4.0, 0.25, -3.0][(at * 3 + at / 16) % 5]).collect();
            let c: Vec<f32> = (0..16 * 16).map(|at| (at % 11) as f32 - 5.0).collect();
            let mut memory = Memory::new();
            let [d, left, right_at] =
                [("d", &c), ("a", &a), ("b", &b)].map(|(name, values)| floats(&mut memory, name, values));
            let arguments = Arguments::default().pointer(d).pointer(left).pointer(right_at);
            let fault = outcome(&program, &mut memory, &arguments, threads);
            if !right {
                assert!(matches!(fault, Some(Fault::Disordered { .. })), "{name}: {fault:?}");
                continue;
            }
            assert_eq!(fault, None, "{name}");
            for (at, found) in read_floats(&memory, d, 256).into_iter().enumerate() {
                let product = |k: usize| a[at / 16 * 32 + k] * b[k * 16 + at % 16];
                assert_eq!(found, c[at] + (0..32).map(product).sum::<f32>(), "{name} {index}: element {at}");
            }
        }
    }
}

/// A lane gives the address of 8 elements and gets 8.
const TRANSPOSED: &str = r#"
typedef ELEMENTS elements __attribute__((ext_vector_type(COUNT)));
extern "C" __attribute__((global)) void product(unsigned char* to, const unsigned char* from) {
    const int lane = __builtin_amdgcn_workitem_id_x();
    typedef elements __attribute__((address_space(1)))* place;
    if (lane < LANES) ((elements*)to)[lane] = LOAD((place)(from + BYTES * (AT)));
}
"#;

/// With the addresses that programs for gfx1201 use, each lane gets 8 elements of a column of 16 rows: those of k from `8 * (lane / 16)` on.
#[test]
fn rows_become_columns_for_wave_matrix_instructions() {
    let Some(tools) = Tools::find() else { return };
    let halves = [
        "-DELEMENTS=short",
        "-DCOUNT=8",
        "-DBYTES=2",
        "-DAT=(8*(lane/16)+lane%8)*16+lane/8%2*8",
        "-DLOAD=__builtin_amdgcn_global_load_tr_b128_v8i16",
    ];
    let bytes = [
        "-DELEMENTS=int",
        "-DCOUNT=2",
        "-DBYTES=1",
        "-DAT=(lane/8*4+(lane&3))*16+(lane&4?8:0)",
        "-DLOAD=__builtin_amdgcn_global_load_tr_b64_v2i32",
    ];
    for name in ["gfx1200", "gfx1201"] {
        let target = Target::named(name).expect("a target");
        for (flags, size) in [(halves, 2), (bytes, 1)] {
            for lanes in [32, 24] {
                let count = format!("-DLANES={lanes}");
                let flags = [&flags[..], &[count.as_str()]].concat();
                let program = tools.load(&tools.compile("kernel.hip", TRANSPOSED, target, &flags), target);
                let mut memory = Memory::new();
                let to = memory.allocate("to", 256 * size, 4);
                let from = memory.allocate("from", 256 * size, 4);
                let data: Vec<u8> = (0..256_u16).flat_map(|at| at.to_le_bytes()[..size].to_vec()).collect();
                memory.write(from, &data).expect("a buffer");
                let arguments = Arguments::default().pointer(to).pointer(from);
                if lanes < 32 {
                    let fault = outcome(&program, &mut memory, &arguments, 32);
                    assert!(matches!(fault, Some(Fault::Unimplemented { .. })), "{name}: {fault:?}");
                    continue;
                }
                run(&program, &mut memory, &launch("product", 1, 32, &arguments), 0);
                let words = dwords(&memory, to, 256 * size / 4);
                for at in 0..256 {
                    let found = words[at * size / 4] >> (8 * size * at % 32) & ((1 << (8 * size)) - 1);
                    let (lane, k) = (at / 8, at % 8);
                    assert_eq!(found as usize, (lane / 16 * 8 + k) * 16 + lane % 16, "{name}: lane {lane}, {k}");
                }
            }
        }
    }
}

/// Which lanes have what in a wave of 64, of which 32 have addresses, is not known.
#[test]
fn waves_of_64_lanes_do_not_transpose() {
    let Some(tools) = Tools::find() else { return };
    let target = Target::named("gfx1201").expect("a target");
    let flags = [
        "-mwavefrontsize64",
        "-DLANES=64",
        "-DELEMENTS=int",
        "-DCOUNT=1",
        "-DBYTES=1",
        "-DAT=lane%32*8",
        "-DLOAD(p)=__builtin_amdgcn_global_load_tr_b64_i32((int __attribute__((address_space(1)))*)(p))",
    ];
    let program = tools.load(&tools.compile("kernel.hip", TRANSPOSED, target, &flags), target);
    let mut memory = Memory::new();
    let (to, from) = (memory.allocate("to", 256, 4), memory.allocate("from", 256, 4));
    let fault = outcome(&program, &mut memory, &Arguments::default().pointer(to).pointer(from), 64);
    assert!(matches!(&fault, Some(Fault::Unimplemented { what }) if what.contains("64 lanes")), "{fault:?}");
}
