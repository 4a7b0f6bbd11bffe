//! Structures by value: where fields lie, what is in them, and mistakes.

use bluefin_common::artifact::Argument;
use bluefin_common::candidate::Candidate;
use bluefin_common::structure::{Pointed, Pointer, Structure};

use crate::tests::{SPEC, bundle, scope};
use crate::{KernelSpec, SpecError};

/// The spec whose reference takes `argument` in place of its last number.
fn with(argument: &str) -> Result<KernelSpec, SpecError> {
    KernelSpec::load(&bundle(&SPEC.replacen("{ f32 = 0.5 }", argument, 1)))
}

fn evaluated(argument: &str) -> Result<Structure, SpecError> {
    let spec = with(argument)?;
    let candidate = Candidate { solver: "Reference".to_string(), params: Vec::new() };
    let build = spec.build(&candidate, &scope(&spec, 10))?;
    match build.launches.first().and_then(|launch| launch.arguments.last()) {
        Some(Argument::Structure(structure)) => Ok(structure.clone()),
        other => panic!("{other:?}"),
    }
}

fn buffer(at: u32, buffer: u16, bytes: u64) -> Pointer {
    Pointer { at, to: Pointed::Buffer { buffer, bytes } }
}

#[test]
fn fields_lie_as_in_c() {
    let argument =
        "{ struct = [{ i8 = -1 }, \"y\", { i32 = \"n\" }, { f64 = 0.5 }, { i1 = true }, { u16 = [1, \"n\"] }] }";
    let found = evaluated(argument).unwrap();
    let mut bytes = vec![0; 40];
    bytes[0] = 0xff;
    bytes[16] = 10;
    bytes[24..32].copy_from_slice(&0.5_f64.to_le_bytes());
    (bytes[32], bytes[34], bytes[36]) = (1, 1, 10);
    assert_eq!(found, Structure { bytes, pointers: vec![buffer(8, 1, 0)] });

    // A vector of three floats, one of four, and structures within.
    let float3 = "{ struct = [{ f32 = 1.0 }, { f32 = 1.0 }, { f32 = 1.0 }] }";
    assert_eq!(evaluated(float3).unwrap().bytes.len(), 12);
    let both =
        format!("{{ struct = [{{ u8 = 3 }}, {float3}, {{ struct = [{{ f32 = [1, 2, 3, 4] }}], align = 16 }}] }}");
    let found = evaluated(&both).unwrap();
    assert_eq!(found.bytes.len(), 32);
    assert_eq!(found.bytes[4..8], 1_f32.to_le_bytes());
    assert_eq!(found.bytes[28..32], 4_f32.to_le_bytes());
    // A pointer into a buffer: eight bytes an element where a wave has 64 lanes.
    let part = "{ struct = [{ at = 8, buffer = \"y\", offset = \"n\" }, { at = 0, i64 = 9223372036854775807 }, \"workspace\"], size = 32 }";
    let found = evaluated(part).unwrap();
    assert_eq!(found.pointers, [buffer(8, 1, 80), Pointer { at: 16, to: Pointed::Workspace }]);
    assert_eq!(found.bytes[..8], i64::MAX.to_le_bytes());
    let packed = evaluated("{ struct = [{ u8 = 1 }, { u32 = 7 }], align = 1 }").unwrap();
    assert_eq!(packed, Structure { bytes: vec![1, 7, 0, 0, 0], pointers: Vec::new() });
    assert_eq!(evaluated("{ struct = [] }").unwrap().bytes, [0]);
}

#[test]
fn mistakes_in_structures_are_named() {
    let line = "line 41: solver[0].launch[0].arguments[3]";
    for (argument, expected) in [
        (
            "{ struct = [\"x\", { i32 = 1 }], size = 8 }",
            format!("{line}.struct[1]: found \"bytes 8 to 12\", expected a field within the 8 bytes of the structure"),
        ),
        (
            "{ struct = [{ f64 = 1 }, { at = 4, i32 = 1 }] }",
            format!(
                "{line}.struct[1]: found \"bytes 4 to 8\", expected bytes of its own: a field before it has 0 to 8"
            ),
        ),
        (
            "{ struct = [{ f64 = 1 }], size = 12 }",
            format!("{line}.size: found \"12\", expected 1 to 4096, a multiple of 8"),
        ),
        (
            "{ struct = [{ i32 = 1 }], align = 3 }",
            format!("{line}.align: found \"3\", expected a power of two up to 256"),
        ),
        (
            "{ struct = [{ at = 4093, i32 = 1 }] }",
            format!("{line}.struct[0]: found \"bytes 4093 to 4097\", expected a field within the 4096 bytes"),
        ),
        (
            "{ struct = [\"z\"] }",
            format!("{line}.struct[0]: found \"z\", expected workspace or one of the buffers x y"),
        ),
        (
            "{ struct = [{ i32 = 1, f32 = 1 }] }",
            format!("{line}.struct[0]: found \"none or several of what a field can be\""),
        ),
        ("{ struct = [{ i32 = 1, size = 8 }] }", format!("{line}.struct[0]: found \"size or align\"")),
        ("{ struct = [{ i32 = 1, offset = 8 }] }", format!("{line}.struct[0]: found \"offset\"")),
        ("{ struct = [{ i32 = \"q\" }] }", "q".to_string()),
        ("{ struct = [{ i33 = 1 }] }", "expected a buffer's name, \"workspace\"".to_string()),
    ] {
        let error = with(argument).expect_err(argument).to_string();
        assert!(error.contains(&expected), "{argument}: {error}\n{expected}");
    }
    for (argument, expected) in [
        ("{ struct = [{ i8 = \"n * 100\" }] }", "found 1000, expected -128 to 127"),
        ("{ struct = [{ u16 = \"0 - n\" }] }", "found -10, expected 0 to 65535"),
        ("{ struct = [{ buffer = \"x\", offset = \"n * 100\" }] }", "found 1000, expected 0 to"),
    ] {
        let error = evaluated(argument).expect_err(argument).to_string();
        assert!(error.contains(expected), "{argument}: {error}");
    }
}
