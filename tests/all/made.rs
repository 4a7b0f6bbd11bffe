//! Inputs that are made from recipes, on the host and on a GPU: blocks of each candidate's own size, checked against plain sums.

use std::path::Path;

use serde_json::Value;

use crate::common::{bluefin, expect, json, write};

/// Sums of the weights of each route's group, row by row, and the same by blocks of one group.
const SPEC: &str = r#"
name = "grouped"
problem = "kernel"
toolchain = "cc"
targets = ["host"]
source = "grouped.c"
reference = "Plain"
let = ["routes = rows * picks"]
[sizes]
rows = 300
groups = 7
picks = 2
[[buffer]]
name = "routing"
type = "INT32"
length = "routes"
role = "input"
recipe = { routing = "zipf", groups = "groups", picks = "picks" }
[[buffer]]
name = "sorted"
type = "INT32"
length = "routes + groups * (BLOCK - 1)"
role = "input"
recipe = { rows_of = "routing", groups = "groups", block = "BLOCK" }
[[buffer]]
name = "owners"
type = "INT32"
length = "ceil_div(routes + groups * (BLOCK - 1), BLOCK)"
role = "input"
recipe = { groups_of = "routing", groups = "groups", block = "BLOCK" }
[[buffer]]
name = "padded"
type = "INT32"
length = 1
role = "input"
recipe = { count_of = "routing", groups = "groups", block = "BLOCK" }
[[buffer]]
name = "weights"
type = "FP32"
length = "groups"
role = "input"
[[buffer]]
name = "out"
type = "FP32"
length = "routes"
role = "output"
[tolerance.FP32]
absolute = 0
relative = 0
[[solver]]
name = "Plain"
algorithm = "Direct"
candidate = false
  [[solver.launch]]
  entry = "plain"
  arguments = ["routing", "weights", "out", { i32 = "routes" }]
[[solver]]
name = "Blocked"
algorithm = "Direct"
  [[solver.param]]
  name = "BLOCK"
  values = [16, 4, 64]
  default = 16
  [[solver.launch]]
  entry = "blocked"
  arguments = ["sorted", "owners", "padded", "weights", "out", { i32 = "routes" }]
"#;

const C: &str = r"
#include <stdint.h>
#ifndef BLOCK
void plain(const int *routing, const float *weights, float *out, int routes) {
    for (int i = 0; i < routes; ++i) out[i] = weights[routing[i]] * i;
}
#else
void blocked(const int *sorted, const int *owners, const int *padded, const float *weights, float *out, int routes) {
    for (int block = 0; block * BLOCK < *padded; ++block)
        for (int i = block * BLOCK; i < (block + 1) * BLOCK; ++i)
            if (sorted[i] < routes) out[sorted[i]] = weights[owners[block]] * sorted[i];
}
#endif
";

/// What came of tuning with this source: how many candidates were tried, and how many failed by kind.
fn tuned(folder: &Path, source: &str, state: &str) -> (Value, Value) {
    write(folder, "grouped.toml", SPEC);
    write(folder, "grouped.c", source);
    let tune = ["tune", "--kernel", "grouped.toml", "--device", "host", "--json", "--out", "out", "--state", state];
    let done = json(&expect(bluefin().args(tune).current_dir(folder), 0));
    let problem = &done["problems"][0];
    assert_eq!(problem["winner"]["solver"], "Blocked", "{problem}");
    (problem["tried"].clone(), problem["failed"].clone())
}

#[test]
fn each_candidate_has_blocks_of_its_own_size() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tuned(folder.path(), C, "right.db"), (3.into(), serde_json::json!({})));
    // One that takes what is not its own is found to be wrong.
    let wrong = C.replace("owners[block]", "owners[BLOCK == 4 ? 0 : block]");
    let (tried, failed) = tuned(folder.path(), &wrong, "wrong.db");
    assert_eq!((tried, failed.as_object().unwrap().len()), (3.into(), 1), "{failed}");
}

#[test]
fn a_time_is_that_of_one_draw_and_the_draw_of_the_reference_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let tuned = |spec: &str, source: &str, state: &str| {
        write(folder.path(), "grouped.toml", spec);
        write(folder.path(), "grouped.c", source);
        let tune = ["tune", "--kernel", "grouped.toml", "--device", "host", "--json", "--out", "out", "--state", state];
        json(&expect(bluefin().args(tune).current_dir(folder.path()), 0))["problems"][0].clone()
    };
    let drawn = SPEC.replace("picks = \"picks\" }", "picks = \"picks\", draws = 4 }");
    // Some milliseconds for each launch.
    let slow = C.replace("}\n#endif", "    for (volatile int i = 0; i < 2000000; ++i) {}\n}\n#endif");
    let median = |problem: &Value| problem["winner"]["median_ms"].as_f64().unwrap();
    let ratio = median(&tuned(&drawn, &slow, "drawn.db")) / median(&tuned(SPEC, &slow, "plain.db"));
    assert!((0.4..2.5).contains(&ratio), "{ratio}");
    // The draw that is compared is launched alone, where nobody has written yet, and then behind the others, which are not compared.
    for (state, works, wrong) in [("wrong.db", "launches != 1", 1), ("right.db", "launches % 4 == 1", 0)] {
        let source = C.replace("#else\n", "#else\nstatic int launches = 0;\n");
        let source =
            source.replace("int routes) {\n    for (int block", "int routes) {\n    ++launches;\n    for (int block");
        let source = source.replace("< *padded", &format!("< *padded && (BLOCK != 4 || {works})"));
        let problem = tuned(&drawn, &source, state);
        assert_eq!(problem["failed"].as_object().unwrap().len(), wrong, "{works}: {problem}");
    }
}
