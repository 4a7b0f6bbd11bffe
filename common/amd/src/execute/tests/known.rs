//! Which instructions are known: those that kernels have, and those that are decoded by their operands.

use super::*;

/// Every matrix instruction's operands, as they are decoded, are of the sizes that it wants.
#[test]
fn matrix_instructions_are_decoded() {
    for target in documented().chain(Target::named("gfx1201")) {
        let lanes = target.lanes as usize;
        let text = |matrix: &Matrix| {
            let [a, b, c] = [Operand::A, Operand::B, Operand::C].map(|operand| matrix.registers(operand, lanes));
            let range = |first: usize, count: usize| {
                if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
            };
            let last = if matrix.sparse { 1 } else { c };
            format!("{} {}, {}, {}, {}", matrix.name, range(64, c), range(0, a), range(16, b), range(128, last))
        };
        let names = include_str!("../../../tests/data/matrix.txt").lines();
        let all = names.filter_map(|name| Matrix::of(name, target.generation));
        let texts: Vec<String> = all.filter(|matrix| matrix.is_wmma() != target.is_gfx9()).map(text).collect();
        let mut known = 0;
        // One by one: some are of one target alone.
        let source: String = texts.iter().map(|text| format!("{text}\n")).collect();
        let Some(refused) = refused_lines(&source, target) else { return };
        let kept: Vec<&str> = texts
            .iter()
            .enumerate()
            .filter(|(at, _)| !refused.contains(&(at + 1)))
            .map(|(_, text)| text.as_str())
            .collect();
        let object = assemble(&(kept.join("\n") + "\n"), target, target.lanes).expect("an object");
        let lines = lines_of(&object, target);
        for (line, instruction) in decode_lines(lines, target, target.lanes) {
            match instruction.action {
                Action::Matrix(_) => known += 1,
                Action::Unimplemented(what) => panic!("{}: `{}`: {what}", target.name, line.text()),
                _ => panic!("{}: `{}`", target.name, line.text()),
            }
        }
        assert!(known >= 6, "{}: {known}", target.name);
    }
}

/// Numbers of the lines that the target does not have.
fn refused_lines(source: &str, target: &Target) -> Option<Vec<usize>> {
    let mut command = Command::new(ASSEMBLERS[0]);
    command.args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-c", "-", "-o", "/dev/null"]);
    command.arg(format!("-mcpu={}", target.name)).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(source.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let words = String::from_utf8_lossy(&output.stderr);
    let line = |row: &str| row.strip_prefix("<stdin>:")?.split(':').next()?.parse().ok();
    Some(words.lines().filter(|row| row.contains(": error:")).filter_map(line).collect())
}

/// Every instruction that bluefin's and Triton's kernels have is known, by name, and has a case of its own unless it is of memory or of
/// matrices, which have theirs by width and by shape.
#[test]
fn all_instructions_of_bluefin_and_triton_are_known() {
    let lists = [
        ("gfx90a", include_str!("../../../tests/data/gfx90a.txt")),
        ("gfx942", include_str!("../../../tests/data/gfx942.txt")),
        ("gfx1100", include_str!("../../../tests/data/gfx1100.txt")),
    ];
    let tables = [
        include_str!("../cases/scalar.txt"),
        include_str!("../cases/integer.txt"),
        include_str!("../cases/float.txt"),
        include_str!("../tests.rs"),
        include_str!("../../../tests/all/memory.rs"),
        include_str!("../../../tests/all/flow.rs"),
    ];
    for (name, list) in lists {
        let unknown: Vec<&str> = list
            .lines()
            .filter(|mnemonic| !crate::decode::knows(mnemonic, Target::named(name).expect("a target")))
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        let in_table = |text: String| tables.iter().any(|table| table.contains(&text));
        // With operands, as a text of its own, or at the end of a line of assembly.
        let tried = |mnemonic: &str| [" ", "\"", "\\n"].iter().any(|end| in_table(format!("{mnemonic}{end}")));
        // One encoding of several is enough.
        let stem = |mnemonic: &str| {
            let stem = mnemonic.trim_end_matches("_e32").trim_end_matches("_e64").trim_end_matches("_dpp").to_string();
            [stem.clone(), format!("{stem}_e32"), format!("{stem}_e64")]
        };
        let untried: Vec<&str> = list
            .lines()
            .filter(|mnemonic| mnemonic.starts_with("v_") || mnemonic.starts_with("s_"))
            .filter(|mnemonic| !mnemonic.contains("mfma") && !mnemonic.contains("wmma"))
            .filter(|mnemonic| !crate::decode::is_without_effect(mnemonic))
            .filter(|mnemonic| !stem(mnemonic).iter().any(|name| tried(name)))
            .collect();
        assert!(untried.is_empty(), "{name}: no case for {untried:?}");
    }
}

/// Which instructions of each target are executed and which are not, by name: `isa/coverage.tsv` says so, so that a change shows what it
/// changed. With `BLUEFIN_WRITE_COVERAGE` set, the test makes it anew.
#[test]
fn what_is_executed_and_what_is_not_is_written_down() {
    let mut rows: Vec<String> =
        vec!["# Instructions of each target that are executed, and below those that are not.".into()];
    let mut missing: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for target in &TARGETS {
        let names: std::collections::BTreeSet<&str> =
            crate::isa::Isa::of(target).names().map(|(_, name)| name).collect();
        let unknown: Vec<&str> = names.iter().copied().filter(|name| !crate::decode::knows(name, target)).collect();
        rows.push(format!("{}\t{}\tof {}", target.name, names.len() - unknown.len(), names.len()));
        unknown.into_iter().for_each(|name| missing.entry(name).or_default().push(target.name));
    }
    rows.extend(missing.iter().map(|(name, targets)| format!("{name}\t{}", targets.join(" "))));
    let found = rows.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/isa/coverage.tsv");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    if std::env::var_os("BLUEFIN_WRITE_COVERAGE").is_some() {
        std::fs::write(path, &found).expect("it is written");
    } else if let Some((expected, found)) = written.lines().zip(found.lines()).find(|(written, found)| written != found)
    {
        panic!("{path}: found `{expected}`, expected `{found}`; BLUEFIN_WRITE_COVERAGE=1 makes it anew");
    }
}
