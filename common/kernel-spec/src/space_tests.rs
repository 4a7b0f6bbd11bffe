//! What solvers of a spec share: tuning spaces by name, of the spec or of a file beside it, and macros of all of them.

use crate::tests::{SPEC, bundle, scope};
use crate::{Bundle, KernelSpec};
use bluefin_common::value::Value;

/// The file of spaces that a spec names.
const FILE: &str = r#"[space.wide]
param = [
  { name = "TILE", values = [256, 512], default = 512 },
  { name = "SPLIT", values = [1, 2], default = 2 },
  { name = "MODE", values = ["plain", "packed"], default = "plain" },
]
constraints = ["TILE * SPLIT <= 1024 && (has_mfma || SPLIT == 1)"]
"#;

/// `SPEC` whose tiled solver has that space, from a file of that text, and these fields of its own.
fn with_space(solver: &str, top: &str, file: Option<&str>) -> Bundle {
    let start = SPEC.find("[[solver.param]]\nname = \"TILE\"").unwrap();
    let end = start + SPEC[start..].find("[[solver.launch]]").unwrap();
    let text = format!("{}{solver}\n{}", &SPEC[..start], &SPEC[end..]);
    let text =
        text.replacen("constraints = [\"TILE * UNROLL <= 512\", \"MODE == \\\"plain\\\" || SPLIT == 1\"]\n", "", 1);
    let mut found = bundle(&text.replacen("[sizes]", &format!("{top}\n[sizes]"), 1));
    found.files.extend(file.map(|text| ("spaces.toml".to_string(), text.to_string())));
    found
}

const NAMED: &str = "spaces = \"spaces.toml\"";
const OWN: &str = r#"space = "wide"
constraints = ["TILE != 256 || MODE == \"packed\""]
param = [
  { name = "WIDTH", values = [1, 2], default = 1 },
  { name = "SPLIT", values = [1, 4], default = 1 },
]"#;

fn names(spec: &KernelSpec) -> Vec<(&str, String)> {
    let solver = spec.solver("Tiled").unwrap();
    solver.params.iter().map(|param| (param.name.as_str(), param.default.to_string())).collect()
}

#[test]
fn a_solver_changes_and_extends_its_space() {
    let spec = KernelSpec::load(&with_space(OWN, NAMED, Some(FILE))).unwrap();
    let expected = [("TILE", "512"), ("SPLIT", "1"), ("MODE", "plain"), ("WIDTH", "1")];
    assert_eq!(names(&spec), expected.map(|(name, default)| (name, default.to_string())));
    let found = spec.candidates(spec.solver("Tiled").unwrap(), &scope(&spec, 1000), usize::MAX).unwrap();
    // (512, 1) with two modes, and (256, 1) and (256, 4) with one, each with two widths.
    assert_eq!((found.points.len(), found.space), (8, 16));
    assert!(found.points.iter().all(|point| point.params[..2] != [Value::Int(512), Value::Int(4)]));
}

#[test]
fn a_model_ranks_points_in_the_words_of_the_solver_or_else_of_its_space() {
    let costs = |own: &str, of_space: &str| {
        let file = FILE.replacen("[space.wide]", &format!("[space.wide]\n{of_space}"), 1);
        let spec = KernelSpec::load(&with_space(&format!("{own}\n{OWN}"), NAMED, Some(&file)))
            .map_err(|error| error.to_string())?;
        let (scope, solver) = (scope(&spec, 1000), spec.solver("Tiled").unwrap());
        let cost =
            |tile: i64| solver.cost(&[tile.into(), Value::Int(1), "plain".into(), Value::Int(2)], &scope).unwrap();
        Ok::<_, String>([256, 512].map(cost))
    };
    assert_eq!(costs("", "").unwrap(), [None, None]);
    let of_space = "cost = \"ceil_div(n, TILE) * TILE\"";
    assert_eq!(costs("", of_space).unwrap(), [Some(1024.0), Some(1024.0)]);
    assert_eq!(costs("cost = \"TILE * WIDTH\"", of_space).unwrap(), [Some(512.0), Some(1024.0)]);
    let error = costs("", "cost = \"WIDER\"").unwrap_err();
    assert!(
        error.starts_with("kernel spec spaces.toml, line 2: space.wide.cost: `WIDER`: unknown variable"),
        "{error}"
    );

    // Values that a cost is written with: a solver may have others than its space, and some of its own.
    let written = "cost_let = [\"wide = TILE * 2\", \"least = min(wide, n)\"]\ncost = \"least + 1\"";
    assert_eq!(costs("", written).unwrap(), [Some(513.0), Some(1001.0)]);
    assert_eq!(costs("cost_let = [\"wide = WIDTH\"]", written).unwrap(), [Some(3.0); 2]);
    assert_eq!(costs("cost_let = [\"w = WIDTH\"]\ncost = \"w * TILE\"", written).unwrap(), [Some(512.0), Some(1024.0)]);
    for (own, of_space, expected) in [
        ("cost_let = [\"wide = WIDER\"]", written, "solver[1].cost_let[0]: `WIDER`: unknown variable"),
        (
            "cost_let = [\"TILE = 1\"]",
            written,
            "solver[1].cost_let[0]: found \"TILE\", expected a name that is not taken",
        ),
        (
            "",
            "cost_let = [\"wide\"]\ncost = \"1\"",
            "space.wide.cost_let[0]: found \"wide\", expected name = expression",
        ),
        ("cost_let = [\"wide = 1\"]", "", "solver[1].cost_let[0]: found \"wide = 1\", expected a cost that it is for"),
        ("", "cost_let = [\"wide = 1\"]", "space.wide.cost_let[0]: found \"wide = 1\", expected a cost that it is for"),
    ] {
        let error = costs(own, of_space).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_space_may_be_in_the_spec_itself() {
    let inside = KernelSpec::load(&with_space(OWN, FILE, None)).unwrap();
    let beside = KernelSpec::load(&with_space(OWN, NAMED, Some(FILE))).unwrap();
    assert_eq!(names(&inside), names(&beside));
}

#[test]
fn macros_of_all_solvers_give_way_to_a_solvers_own() {
    let top = "[defines]\nWAVE = 1\nHALF = \"half\"";
    let spec = KernelSpec::load(&bundle(&SPEC.replacen("[sizes]", &format!("{top}\n[sizes]"), 1))).unwrap();
    let scope = scope(&spec, 1000);
    let defines = |solver: usize| spec.build(&spec.solvers[solver].default_candidate(), &scope).unwrap().options();
    assert_eq!(defines(0), " -DHALF=500 -DWAVE=1");
    assert!(defines(1).contains(" -DHALF=500") && defines(1).contains(" -DWAVE=64"), "{}", defines(1));
}

#[test]
fn mistakes_name_the_file_and_the_line() {
    let file = |from: &str, to: &str| FILE.replacen(from, to, 1);
    let space = |name: &str| OWN.replacen("wide", name, 1);
    for (bundle, expected) in [
        (
            with_space(&space("wid"), NAMED, Some(FILE)),
            "solver[1].space: found \"wid\", expected one of the spaces wide",
        ),
        (with_space(OWN, NAMED, None), "spaces: found \"spaces.toml\", expected a file that comes with the spec"),
        (with_space(OWN, "", Some(FILE)), "includes: found \"spaces.toml\", expected only files that the spec names"),
        (with_space(OWN, &format!("{NAMED}\n{FILE}"), Some(FILE)), "space.wide: found \"wide\", expected a name that"),
        (
            with_space(OWN, NAMED, Some(&file("default = 512", "default = 64"))),
            "kernel spec spaces.toml, line 3: space.wide.param[0].default: found \"64\", expected one of the values",
        ),
        (
            with_space(OWN, NAMED, Some(&file("TILE * SPLIT", "TILE * SPLI"))),
            "kernel spec spaces.toml, line 7: space.wide.constraints[0]: `TILE * SPLI",
        ),
        (with_space(OWN, NAMED, Some(&file("param =", "params ="))), "spaces.toml, line 2: unknown field `params`"),
        (
            with_space(OWN, &format!("{NAMED}\n[defines]\nWIDTH = 2"), Some(FILE)),
            "defines.WIDTH: found \"WIDTH\", expected an identifier that is not a param's name",
        ),
    ] {
        let error = KernelSpec::load(&bundle).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
