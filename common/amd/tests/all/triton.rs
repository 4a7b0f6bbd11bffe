//! Kernels that Triton compiled, for targets of which clang 19 knows some and some not: matrix instructions, transposing loads, scales.

use bluefin_amd::{Launch, Memory, Options, Program, Target};

use crate::support::{Arguments, dwords};

/// A kernel of `tests/data/triton`, its target, and the bytes of LDS that it wants.
struct Compiled {
    target: &'static str,
    object: &'static [u8],
    lds: u32,
}

macro_rules! compiled {
    ($target:literal, $kernel:literal, $lds:literal) => {
        Compiled {
            target: $target,
            object: include_bytes!(concat!("../data/triton/", $target, "-", $kernel, ".co")),
            lds: $lds,
        }
    };
}

/// Small integers that differ from row to row and from column to column.
fn value(row: usize, column: usize) -> i32 {
    ((row * 7 + column * 5 + row * column) % 7) as i32 - 3
}

fn bytes(memory: &mut Memory, name: &str, values: &[u8]) -> u64 {
    let address = memory.allocate(name, values.len(), 1);
    memory.write(address, values).expect("a buffer");
    address
}

fn launch(compiled: &Compiled, memory: &mut Memory, grid: [u32; 3], arguments: &Arguments) {
    let target = Target::named(compiled.target).expect("a target");
    let program = Program::load(compiled.object, target).expect("a program");
    let kernel = program.kernels().next().expect("a kernel");
    let threads = if compiled.target.starts_with("gfx9") { 256 } else { 128 };
    // Triton's own scratch, which these kernels do not have.
    let all = [arguments.bytes(), &[0; 64]].concat();
    let end = kernel.arguments.iter().filter(|argument| !argument.is_hidden()).map(|one| one.offset + one.size).max();
    let arguments = &all[..end.expect("arguments") as usize];
    let launch = Launch { kernel: &kernel.name, grid, block: [threads, 1, 1], dynamic_lds: compiled.lds, arguments };
    for seed in 0..2 {
        let options = Options { seed, spreads: true, ..Options::default() };
        if let Err(failure) = program.run(memory, &launch, &options) {
            panic!("{failure}");
        }
    }
}

/// A product of sizes that the blocks do not divide, of elements that `encode` makes; `decode` reads the result.
fn gemm(compiled: &Compiled, element: usize, encode: impl Fn(i32) -> Vec<u8>, decode: impl Fn(u32) -> f64) {
    let (m, n, k) = (70, 50, 40);
    let mut memory = Memory::new();
    let matrix = |rows: usize, columns: usize| -> Vec<u8> {
        (0..rows * columns).flat_map(|at| encode(value(at / columns, at % columns))).collect()
    };
    assert_eq!(matrix(1, 1).len(), element);
    let a = bytes(&mut memory, "a", &matrix(m, k));
    let b = bytes(&mut memory, "b", &matrix(k, n));
    let c = memory.allocate("c", m * n * 4, 4);
    let arguments = Arguments::default().pointer(a).pointer(b).pointer(c).int(m as i32).int(n as i32).int(k as i32);
    launch(compiled, &mut memory, [3, 2, 1], &arguments);
    for (at, found) in dwords(&memory, c, m * n).into_iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let expected: i32 = (0..k).map(|k| value(row, k) * value(k, column)).sum();
        assert_eq!(decode(found), f64::from(expected), "{} [{row}][{column}]", compiled.target);
    }
}

fn single(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// FP16 of -3 to 3.
fn half(value: i32) -> Vec<u8> {
    let magnitude: u16 = [0, 0x3c00, 0x4000, 0x4200][value.unsigned_abs() as usize];
    (magnitude | if value < 0 { 0x8000 } else { 0 }).to_le_bytes().to_vec()
}

/// FP8 of the Open Compute Project, of -3 to 3.
fn eight(value: i32) -> u8 {
    [0_u8, 0x38, 0x40, 0x44][value.unsigned_abs() as usize] | if value < 0 { 0x80 } else { 0 }
}

/// E2M1 of -3 to 3.
fn four(value: i32) -> u8 {
    [0_u8, 2, 4, 5][value.unsigned_abs() as usize] | if value < 0 { 8 } else { 0 }
}

#[test]
fn products_of_halves() {
    let all = [
        compiled!("gfx950", "gemm_f16", 8192),
        compiled!("gfx1201", "gemm_f16", 4096),
        compiled!("gfx1100", "gemm_f16", 4096),
    ];
    all.iter().for_each(|compiled| gemm(compiled, 2, half, single));
}

#[test]
fn products_of_bytes() {
    for compiled in [compiled!("gfx950", "gemm_i8", 4096), compiled!("gfx1201", "gemm_i8", 2048)] {
        gemm(&compiled, 1, |value| vec![value as u8], |bits| f64::from(bits as i32));
    }
}

#[test]
fn products_of_fp8() {
    for compiled in [compiled!("gfx950", "gemm_fp8_ocp", 4096), compiled!("gfx1201", "gemm_fp8_ocp", 2048)] {
        gemm(&compiled, 1, |value| vec![eight(value)], single);
    }
}

/// A scaled product of 64 x 64 x 128, of which `packed` elements are in a byte, those of B by their rows.
fn scaled(compiled: &Compiled, packed: usize, encode: impl Fn(i32) -> u8) {
    const SIZE: usize = 64;
    const DEPTH: usize = 128;
    let pack =
        |values: &[i32]| values.iter().enumerate().fold(0, |byte, (at, value)| byte | encode(*value) << (4 * at));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for row in 0..SIZE {
        for k in (0..DEPTH).step_by(packed) {
            a.push(pack(&(k..k + packed).map(|k| value(row, k)).collect::<Vec<_>>()));
        }
    }
    for k in (0..DEPTH).step_by(packed) {
        for column in 0..SIZE {
            b.push(pack(&(k..k + packed).map(|k| value(k, column)).collect::<Vec<_>>()));
        }
    }
    // E8M0: 127 is 1.
    let scale = |row: usize, block: usize| ((row + 3 * block) % 4) as i32 - 1;
    let scales: Vec<u8> = (0..SIZE * DEPTH / 32).map(|at| (127 + scale(at / 4, at % 4)) as u8).collect();
    let mut memory = Memory::new();
    let [a, sa, b, sb] = [("a", &a), ("scales of a", &scales), ("b", &b), ("scales of b", &scales)]
        .map(|(name, of)| bytes(&mut memory, name, of));
    let out = memory.allocate("out", SIZE * SIZE * 4, 4);
    let arguments = Arguments::default().pointer(a).pointer(sa).pointer(b).pointer(sb).pointer(out);
    launch(compiled, &mut memory, [1, 1, 1], &arguments);
    for (at, found) in dwords(&memory, out, SIZE * SIZE).into_iter().enumerate() {
        let (row, column) = (at / SIZE, at % SIZE);
        let weight = |k: usize| 2_f64.powi(scale(row, k / 32) + scale(column, k / 32));
        let expected: f64 = (0..DEPTH).map(|k| weight(k) * f64::from(value(row, k) * value(k, column))).sum();
        assert_eq!(single(found), expected, "{} [{row}][{column}]", compiled.target);
    }
}

#[test]
fn scaled_products() {
    scaled(&compiled!("gfx950", "dot_scaled_e4m3", 8192), 1, eight);
    scaled(&compiled!("gfx950", "dot_scaled_e2m1", 4096), 2, four);
}

/// What gfx12 computes of scalars, in scalar registers: quotients, of integers too, and functions of a float.
#[test]
fn functions_of_scalars() {
    const COLUMNS: usize = 128;
    let (rows, n) = (10, 3);
    // 2^(x/2), the logarithm, the root and its inverse are exact.
    for (x, sum) in [(4.0_f32, 4.0 + 2.0 + 2.0 + 0.5), (16.0, 256.0 + 4.0 + 4.0 + 0.25)] {
        let mut memory = Memory::new();
        let out = memory.allocate("out", rows * COLUMNS * 4, 4);
        let arguments = Arguments::default().pointer(out).int(x.to_bits() as i32).int(n);
        launch(&compiled!("gfx1201", "scalars", 0), &mut memory, [rows as u32, 1, 1], &arguments);
        for (at, found) in dwords(&memory, out, rows * COLUMNS).into_iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            let share = row as f64 / f64::from(x);
            let expected = column as f64 * (share + sum) + share + (row / n as usize) as f64;
            assert_eq!(single(found), expected, "[{row}][{column}] of {x}");
        }
    }
}

/// Mean and variance of rows, which lanes that exchange theirs compute with other roundings before one place of LDS takes either.
#[test]
fn means_of_two_lanes_may_differ_by_roundings() {
    const ROWS: usize = 8;
    const COLUMNS: usize = 45;
    for compiled in [compiled!("gfx942", "statistics", 32), compiled!("gfx1100", "statistics", 192)] {
        let element = |at: usize| ((at * 7919 + 13) % 1009) as f32 / 1009.0 - 0.4;
        let mut memory = Memory::new();
        let values: Vec<u8> = (0..ROWS * COLUMNS).flat_map(|at| element(at).to_le_bytes()).collect();
        let x = bytes(&mut memory, "x", &values);
        let y = memory.allocate("y", 2 * ROWS * 4, 4);
        launch(&compiled, &mut memory, [1, 1, 1], &Arguments::default().pointer(x).pointer(y).int(COLUMNS as i32));
        let found = dwords(&memory, y, 2 * ROWS);
        for row in 0..ROWS {
            let all = || (0..COLUMNS).map(|column| f64::from(element(row * COLUMNS + column)));
            let mean = all().sum::<f64>() / COLUMNS as f64;
            let variance = all().map(|value| (value - mean).powi(2)).sum::<f64>() / COLUMNS as f64;
            for (at, expected) in [(row, mean), (ROWS + row, variance)] {
                let found = single(found[at]);
                assert!((found - expected).abs() < 1e-6, "{} row {row}: {found}, not {expected}", compiled.target);
            }
        }
    }
}
