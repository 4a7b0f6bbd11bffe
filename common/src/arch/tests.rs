use std::path::{Path, PathBuf};

use super::*;

#[test]
fn every_row_is_whole() {
    let mut names = BTreeSet::new();
    let mut machines = BTreeSet::new();
    for row in ROWS {
        let name = row.name;
        assert!(is_name(name) && names.insert(name), "{name}: its name");
        assert_eq!(of(name), Some(row), "{name}");
        assert!(row.has_row() && row.wave() >= 32 && row.shared_memory >= 49_152 && row.registers >= 255, "{name}");
        assert!(matches!(row.cus_of_unit, 1 | 2) && row.xcds >= 1, "{name}");
        match row.vendor {
            Vendor::Amd => {
                assert!(row.machine.is_some_and(|machine| machines.insert(machine)), "{name}: its machine");
                assert_eq!(row.machine.and_then(of_machine), Some(row), "{name}");
                // Features are those that LLVM's guide lists for the processor.
                assert_eq!(row.miopen_features.is_empty(), row.waves.first() == Some(&32), "{name}: its features");
                assert!(row.nvcc.is_none() && row.suffix.is_empty() && row.ptx.is_none(), "{name}");
            }
            Vendor::Nvidia => {
                assert!(row.nvcc.is_some() && row.machine.is_none() && row.cus_of_unit == 1, "{name}");
                // clang 22 does not look for a version that has the architecture.
                assert!(row.ptx.is_some(), "{name}: its PTX");
                assert!(compute_capability(name).is_some_and(|(_, alone)| !alone), "{name}");
            }
        }
        // What multiplies is for what it multiplies, and each type is there once.
        let kinds: Vec<_> = row.matrix.iter().map(|matrix| (matrix.unit, matrix.operand)).collect();
        assert!(kinds.iter().enumerate().all(|(at, kind)| !kinds[..at].contains(kind)), "{name}: {kinds:?}");
        assert!(row.matrix.iter().all(|matrix| !matrix.shapes.is_empty()), "{name}");
        for feature in FEATURES {
            let (here, on_host) = (row.feature(feature).unwrap(), on_host(feature));
            assert_eq!(std::mem::discriminant(&here), std::mem::discriminant(&on_host), "{name}: {feature}");
        }
    }
}

#[test]
fn rows_that_people_ask_for() {
    let amd = "gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1200 gfx1201";
    let nvidia = "sm_70 sm_75 sm_80 sm_86 sm_87 sm_90 sm_100 sm_103 sm_120 sm_121";
    for name in amd.split(' ').chain(nvidia.split(' ')) {
        let row = of(name).unwrap();
        assert!(row.has_row() && row.usual_units().is_some(), "{name}");
    }
}

#[test]
fn products_have_one_row() {
    let mut names = BTreeSet::new();
    for row in ROWS {
        for (name, units) in row.products {
            assert!(names.insert(*name), "{name} is there twice");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{name}");
            assert!(!is_name(name) && name.parse::<usize>().is_err(), "{name} means something else");
            assert_eq!(product(name), Some((row, *units)));
            assert_eq!(product(&name.to_uppercase()), Some((row, *units)));
        }
    }
    assert_eq!(product("H100-PCIe").map(|(row, units)| (row.name, units)), Some(("sm_90", 114)));
    assert!(product("rx 7900 xtx").is_some() && product("").is_none() && product("gfx90a").is_none());
}

#[test]
fn features_are_what_kernels_need() {
    let yes = |arch: &str, name: &str| feature(arch, name) == Value::Bool(true);
    let which = |name: &str| -> Vec<&str> {
        let rows = ROWS.iter().filter(|row| !row.products.is_empty() && yes(row.name, name));
        rows.map(|row| row.name).collect()
    };
    assert_eq!(which("has_mfma"), ["gfx908", "gfx90a", "gfx942", "gfx950"]);
    let units = [
        ("has_mma", MatrixUnit::Mma),
        ("has_mfma", MatrixUnit::Mfma),
        ("has_wmma", MatrixUnit::Wmma),
        ("has_wgmma", MatrixUnit::Wgmma),
    ];
    for (row, (name, unit)) in ROWS.iter().flat_map(|row| units.map(|unit| (row, unit))) {
        let has = row.matrix.iter().any(|matrix| matrix.unit == unit && matrix.operand == Operand::Bf16);
        assert!(has || !yes(row.name, name), "{}: kernels take {name} for BF16 too", row.name);
    }
    assert_eq!(which("has_wide_mfma"), ["gfx950"]);
    assert_eq!(which("has_wgmma"), ["sm_90"]);
    assert!(!yes("sm_75", "has_mma") && !yes("sm_70", "has_async_copy"));
    assert!(yes("sm_86", "has_mma") && yes("sm_120", "has_mma") && yes("gfx1201", "has_wmma"));
    assert!(yes("gfx942", "has_tf32") && !yes("gfx950", "has_tf32") && yes("gfx950", "has_fp8"));
    assert_eq!(feature("sm_86", "shared_memory"), Value::Int(101_376));
    assert_eq!((feature("host", "vendor"), feature("host", "has_mma")), ("host".into(), false.into()));
}

#[test]
fn groups_of_targets() {
    assert!(is_group("amd") && is_group("has_wgmma") && !is_group("xcds") && !is_group("gfx90a") && !is_group("host"));
    assert!(is_meant("amd", "gfx1103") && !is_meant("amd", "sm_90") && !is_meant("amd", "host"));
    assert!(is_meant("has_mma", "sm_86") && !is_meant("has_mma", "sm_75") && !is_meant("has_mma", "host"));
    assert!(is_meant("host", "host") && is_meant("sm_75", "sm_75") && !is_meant("sm_75", "sm_7"));
}

/// What has no row is taken for its family: for what the members that are known have in common, and no more.
#[test]
fn unknown_members_of_known_families() {
    for (name, family, wave, units) in [
        ("gfx1104", "gfx11", 32, 2),
        ("gfx1159", "gfx115", 32, 2),
        ("gfx943", "gfx94", 64, 1),
        ("gfx958", "gfx95", 64, 1),
        ("gfx1250", "gfx12", 32, 2),
        ("gfx1310", "gfx1", 32, 2),
        ("gfx90f", "gfx9", 64, 1),
        ("sm_88", "sm_8", 32, 1),
        ("sm_101", "sm_10", 32, 1),
        ("sm_90a", "sm_9", 32, 1),
        ("sm_200", "sm_", 32, 1),
        ("gfx000", "gfx", 64, 1),
    ] {
        let known = of(name).unwrap();
        assert_eq!((known.name, known.wave(), known.cus_of_unit), (family, wave, units), "{name}");
        assert!(!known.has_row(), "{name}");
        assert!(said_of(name, known).starts_with(&format!("{name} is not in")), "{name}");
        // Members share no more than this.
        let members = ROWS.iter().filter(|row| row.name.starts_with(family));
        for row in members.filter(|row| row.vendor == known.vendor) {
            assert!(
                row.shared_memory >= known.shared_memory && row.registers >= known.registers,
                "{name}: {}",
                row.name
            );
            for feature in FEATURES.iter().filter(|feature| feature.starts_with("has_")) {
                let both = (known.feature(feature), row.feature(feature));
                assert_ne!(both, (Some(true.into()), Some(false.into())), "{name}: {feature} of {}", row.name);
            }
        }
    }
    assert_eq!((of("host"), of("cpu"), of("")), (None, None, None));
    for (name, is_meant_by_vendor) in [("gfx1104", true), ("sm_88", true), ("gfx000", false), ("sm_200", false)] {
        assert_eq!(["amd", "nvidia"].iter().any(|vendor| is_meant(vendor, name)), is_meant_by_vendor, "{name}");
        assert!(is_meant(name, name), "{name}");
    }
    assert_eq!(of("gfx1250").unwrap().fp8, Fp8::Ocp);
}

#[test]
fn names_end_where_compute_units_begin() {
    for (text, end) in [
        ("gfx90a68", 6),
        ("gfx906_60", 6),
        ("gfx103048", 7),
        ("gfx125048", 7),
        ("gfx94430", 6),
        ("sm_9084", 5),
        ("sm_10094", 6),
        ("sm_101_20", 6),
    ] {
        assert_eq!(end_of_name(text), Some(end), "{text}");
    }
    assert_eq!((end_of_name("host"), end_of_name("x")), (None, None));
}

#[test]
fn compilers_that_know_a_row() {
    let cpp = |name: &str| of(name).unwrap().known_to_cpp();
    assert_eq!(cpp("sm_120"), "clang 20 or later, or nvcc 12.8 or later");
    assert_eq!(cpp("sm_70"), "clang 15 or later, or nvcc 9.0 to 12.9");
    assert_eq!(cpp("gfx950"), "clang 20 or later");
    assert_eq!(cpp("gfx1250"), "a later release of bluefin, whose table has it");
    let triton = |name: &str, version| of(name).unwrap().known_to_triton(version);
    assert_eq!(triton("sm_90", (3, 3)), Ok(()));
    assert_eq!(triton("sm_90", (3, 2)), Err("Triton 3.3 or later".to_string()));
    assert_eq!(triton("sm_121", (3, 5)), Err("Triton 3.6 or later".to_string()));
    assert!(triton("sm_75", (3, 9)).is_err() && triton("gfx906", (3, 9)).is_err());
    assert_eq!(triton("gfx1250", (3, 6)), Ok(()));
}

/// Every `.rs` file of the workspace but those of tests, up to its tests.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let of_tests =
            ["tests", "benches", "examples", "target", "tests.rs"].contains(&&*name) || name.ends_with("_tests.rs");
        if of_tests || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_string();
            found.push((path, code));
        }
    }
}

/// Whether a line of code asks what an architecture is called.
fn asks_for_a_name(line: &str) -> bool {
    let code = line.trim();
    // A column of aiter's files.
    let names = code.replace("\"gfx\"", "");
    let has =
        |code: &str, before: &str| ["\"gfx", "\"sm_"].iter().any(|name| code.contains(&format!("{before}{name}")));
    let prefix = ["starts_with(", "strip_prefix(", "trim_start_matches("].into_iter().any(|asks| has(code, asks));
    let equal = ["== ", "!= "].into_iter().any(|asks| has(&names, asks));
    let is_arm = names.split_once("=>").is_some_and(|(pattern, _)| has(pattern, ""));
    !code.starts_with("//") && (prefix || equal || is_arm)
}

#[test]
fn no_other_file_asks_what_an_architecture_is_called() {
    for line in [
        "arch.starts_with(\"gfx9\")",
        "arch.starts_with(\"gfx\")",
        "let sm = arch.strip_prefix(\"sm_\")?;",
        "if arch == \"sm_90\" {",
        "\"gfx942\" | \"gfx950\" => 256 << 20,",
    ] {
        assert!(asks_for_a_name(line), "{line}");
    }
    for line in ["256 => \"gfx950\",", "// arch == \"sm_90\"", "let trial = \"gfx90a\";", "\"gfx\" => Self::Gfx,"] {
        assert!(!asks_for_a_name(line), "{line}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    sources(root, &mut files);
    assert!(files.len() > 300, "{} files in {}", files.len(), root.display());
    let table = root.join("common/src/arch");
    let elsewhere = files.iter().filter(|(path, _)| !path.starts_with(&table) && *path != table.with_extension("rs"));
    let asking = elsewhere.flat_map(|(path, code)| {
        let lines = code.lines().enumerate().filter(|(_, line)| asks_for_a_name(line));
        lines.map(move |(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim()))
    });
    assert_eq!(
        asking.collect::<Vec<_>>(),
        [""; 0],
        "what differs between architectures is in common/src/arch/table.rs"
    );
}
