use std::collections::BTreeMap;

use bluefin_common::artifact::Argument;
use bluefin_common::candidate::Candidate;
use bluefin_common::task::Content;

use super::*;
use crate::Bundle;

const SPEC: &str = r#"
name = "grouped"
problem = "kernel"
toolchain = "cc"
targets = ["host"]
source = "grouped.c"
reference = "Plain"
let = ["routes = rows * picks"]

[sizes]
rows = 2
groups = 3
picks = 2

[[buffer]]
name = "routing"
type = "INT32"
length = "routes"
role = "input"
recipe = { routing = "uniform", groups = "groups", picks = "picks", seed = 7 }

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
name = "out"
type = "FP32"
length = "routes"
role = "output"

[tolerance.FP32]
absolute = 0.0
relative = 0.0

[[solver]]
name = "Plain"
algorithm = "Direct"
candidate = false
  [[solver.launch]]
  entry = "plain"
  arguments = ["routing", "out"]

[[solver]]
name = "Blocked"
algorithm = "Direct"
  [[solver.param]]
  name = "BLOCK"
  values = [4, 2]
  default = 4
  [[solver.launch]]
  entry = "blocked"
  arguments = ["sorted", "owners", "padded", "routing", "out"]
"#;

fn spec(text: &str) -> Result<KernelSpec, String> {
    let files = BTreeMap::from([("grouped.c".to_string(), String::new())]);
    let bundle = Bundle { toml: text.to_string(), files, ..Bundle::default() };
    KernelSpec::load(&bundle).map_err(|error| error.to_string())
}

fn scope(spec: &KernelSpec, sizes: &[(&str, i64)]) -> Scope {
    let sizes = sizes.iter().map(|(name, size)| ((*name).to_string(), Value::Int(*size))).collect();
    let problem = spec.problem(&sizes).unwrap();
    spec.scope(&problem, &"host".parse().unwrap()).unwrap().unwrap()
}

fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// Rows [1, 0], [1, 2] of 3 groups in blocks of 2: group 0 has route 1, group 1 routes 0 and 2, group 2 route 3.
#[test]
fn routes_are_put_into_whole_blocks_of_their_group() {
    let by_group = [vec![1], vec![0, 2], vec![3]];
    let of = |part, block, length| blocks(&by_group, 4, part, block, length);
    let rows = of(Part::Rows, 2, 7).unwrap();
    assert_eq!((rows.len(), &rows[..8]), (64, &[1, 4, 0, 2, 3, 4, 4, 4][..]));
    let groups = of(Part::Groups, 2, 4).unwrap();
    assert_eq!(groups[..4], [0, 1, 2, 0]);
    assert_eq!(of(Part::Count, 2, 1).unwrap()[0], 6);
    assert_eq!(of(Part::Count, 4, 1).unwrap()[0], 12);
    let short = of(Part::Rows, 4, 11).unwrap_err();
    assert_eq!(short, "found 11 elements, expected at least 12 for blocks of 4");
}

#[test]
fn a_candidate_is_given_the_part_for_its_own_block() {
    let spec = spec(SPEC).unwrap();
    let scope = scope(&spec, &[("rows", 50), ("groups", 5)]);
    let made = spec.made(&scope).unwrap();
    let (buffers, _) = spec.task_parts(&scope).unwrap();
    let lengths: Vec<u64> = buffers.iter().map(|buffer| buffer.length).collect();
    // 100 routes; 105 and 115 places in blocks of 2 and of 4, each rounded up to 64 elements.
    assert_eq!(lengths, [100, 256, 128, 128, 100]);
    for (buffer, made) in buffers.iter().zip(&made) {
        assert_eq!(buffer.content, Content::Data(ArtifactRef::of(made)));
        assert_eq!(buffer.bytes(), made.len() as u64);
    }
    let arguments = |block: i64| {
        let candidate = Candidate { solver: "Blocked".to_string(), params: vec![Value::Int(block)] };
        spec.build(&candidate, &scope).unwrap().launches.remove(0).arguments
    };
    let at = |buffer, bytes| Argument::BufferAt { buffer, bytes };
    assert_eq!(arguments(2), [at(1, 0), at(2, 0), at(3, 0), Argument::Buffer(0), Argument::Buffer(4)]);
    assert_eq!(arguments(4), [at(1, 512), at(2, 256), at(3, 256), Argument::Buffer(0), Argument::Buffer(4)]);
    // Every route is there once in each part, in a block of its group.
    let (routing, sorted, owners, counts) = (ints(&made[0]), ints(&made[1]), ints(&made[2]), ints(&made[3]));
    for (block, from, first) in [(2, 0, 0), (4, 128, 64)] {
        let count = usize::try_from(counts[first]).unwrap();
        let mut seen = vec![0; 100];
        for (place, route) in sorted[from..from + count].iter().enumerate() {
            if let Some(times) = seen.get_mut(usize::try_from(*route).unwrap()) {
                *times += 1;
                assert_eq!(owners[first + place / block], routing[usize::try_from(*route).unwrap()]);
            }
        }
        assert!(seen.iter().all(|times| *times == 1) && count.is_multiple_of(block));
    }
}

#[test]
fn rows_go_to_as_many_other_groups_as_the_spread_says() {
    let shares = |recipe: &str| {
        let text = SPEC.replace("routing = \"uniform\"", recipe);
        let spec = spec(&text).unwrap();
        let made = spec.made(&scope(&spec, &[("rows", 4000), ("groups", 8)])).unwrap();
        let routing = ints(&made[0]);
        assert!(routing.chunks(2).all(|two| two[0] != two[1]));
        let mut counts = [0; 8];
        routing.iter().for_each(|group| counts[usize::try_from(*group).unwrap()] += 1);
        counts
    };
    let uniform = shares("routing = \"uniform\"");
    assert!(uniform.iter().all(|count| (900..1100).contains(count)), "{uniform:?}");
    let zipf = shares("routing = \"zipf\", exponent = 1.5");
    assert!(zipf[0] > 3 * zipf[3] && zipf[3] > zipf[7] && zipf.is_sorted_by(|one, other| one >= other), "{zipf:?}");
    let counts = shares("routing = \"counts\", counts = [1, 1, 1, 1, 1, 1, 100, 100]");
    assert!(counts[6] > 3500 && counts[7] > 3500, "{counts:?}");
    // The same bytes wherever they are made: other workers look for them by their digest.
    let spec = spec(SPEC).unwrap();
    let made = spec.made(&scope(&spec, &[("rows", 4), ("groups", 8)])).unwrap();
    assert_eq!(ints(&made[0]), [2, 3, 3, 4, 0, 3, 6, 1]);
}

#[test]
fn what_is_no_recipe_is_one_error() {
    let error = |from: &str, to: &str| spec(&SPEC.replacen(from, to, 1)).unwrap_err();
    for (from, to, expected) in [
        ("rows_of = \"routing\"", "rows_of = \"out\"", "expected the name of a buffer with a routing"),
        ("block = \"BLOCK\" }", "block = \"B\" }", "expected the name of a param"),
        (", block = \"BLOCK\" }", " }", "expected the param that is the size of a block"),
        (
            "rows_of = \"routing\"",
            "rows_of = \"routing\", count_of = \"routing\"",
            "expected one of routing, rows_of, groups_of, count_of and copy_of",
        ),
        ("picks = \"picks\", seed", "seed", "expected how many groups a row goes to"),
        ("routing = \"uniform\"", "routing = \"zipf\", exponent = 17.0", "expected 0 to 16"),
        ("routing = \"uniform\"", "routing = \"uniform\", exponent = 1.0", "expected none: it is for another routing"),
        ("routing = \"uniform\"", "routing = \"even\"", "unknown variant `even`"),
        ("type = \"INT32\"", "type = \"FP32\"", "expected INT32: recipes make no other type"),
        ("values = [4, 2]", "values = [4, 0]", "expected a param whose values are whole numbers from 1 to 4096"),
        (
            "[\"routing\", \"out\"]",
            "[\"sorted\", \"out\"]",
            "expected a param BLOCK of Plain, which launches with the buffer",
        ),
        (
            "[\"sorted\", \"owners\"",
            "[{ buffer = \"sorted\", offset = 1 }, \"owners\"",
            "expected no offset in the arguments of Blocked",
        ),
        ("seed = 7 }", "seed = 7 }\nfill = 1", "expected one of fill, data, recipe, step, and low with high"),
        ("seed = 7", "seed = 7, draws = 17", "buffer[0].recipe.draws: found \"17\", expected 1 to 16"),
        (
            "groups_of = \"routing\"",
            "groups_of = \"routing\", draws = 2",
            "expected none of them: they are the routing's",
        ),
    ] {
        let error = error(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
    // Within a structure as well.
    let on_gpu = SPEC.replace("toolchain = \"cc\"", "toolchain = \"clang\"").replace("\"host\"", "\"gfx90a\"");
    let on_gpu = on_gpu.replace("\"out\"]", "\"out\"]\n  grid = [1]\n  block = [64]");
    assert!(spec(&on_gpu).is_ok());
    for (argument, expected) in [
        ("\"sorted\"", "expected a param BLOCK of Plain, which launches with the buffer"),
        ("{ buffer = \"sorted\", offset = 1 }", "expected no offset in the arguments of Plain"),
    ] {
        let text = on_gpu.replace("[\"routing\", \"out\"]", &format!("[{{ struct = [{argument}] }}, \"out\"]"));
        let error = spec(&text).unwrap_err();
        assert!(error.contains(expected), "{argument}: {error}");
    }
    let cut = SPEC
        .replace("seed = 7", "seed = 7, draws = 2")
        .replace("[\"routing\", \"out\"]", "[{ buffer = \"routing\", offset = 1 }, \"out\"]");
    let error = spec(&cut).unwrap_err();
    assert!(error.contains("expected 1: an argument begins at an offset of the routing"), "{error}");
    let both = SPEC.replace("seed = 7", "seed = 7, draws = 2").replace("role = \"output\"", "role = \"inout\"");
    let error = spec(&both).unwrap_err();
    let expected = "draws: found \"2\", expected 1: the next draw would find in out what the one before it wrote";
    assert!(error.contains(expected), "{error}");
    let late = |from: &str, to: &str| {
        let spec = spec(&SPEC.replacen(from, to, 1)).unwrap();
        spec.task_parts(&scope(&spec, &[])).unwrap_err().to_string()
    };
    assert!(
        late("length = \"routes\"", "length = \"routes - 1\"")
            .contains("found 3 elements, expected a multiple of 2 groups a row")
    );
    assert!(late("length = \"routes + groups", "length = \"1 + groups").contains("expected at least"));
    let other = late("rows_of = \"routing\", groups = \"groups\"", "rows_of = \"routing\", groups = \"4\"");
    assert!(other.contains("found 4 groups, expected 3 as routing has"), "{other}");
    assert!(late("picks = \"picks\", seed", "picks = \"4\", seed").contains("expected 1 to 3"));
}

/// The spec with a matrix of `width` columns a route, and its rows as they are sorted, before the output.
fn with_rows(recipe: &str, length: &str) -> String {
    let buffers = format!(
        "[[buffer]]\nname = \"rows\"\ntype = \"FP16\"\nlength = \"routes * 24\"\nrole = \"input\"\n\n[[buffer]]\nname = \"copied\"\n\
         type = \"FP16\"\nlength = \"{length}\"\nrole = \"input\"\nrecipe = {{ {recipe} }}\n\n[[buffer]]\nname = \"out\""
    );
    SPEC.replacen("[[buffer]]\nname = \"out\"", &buffers, 1).replacen(
        "\"padded\", \"routing\", \"out\"]",
        "\"padded\", \"routing\", \"out\", \"copied\"]",
        1,
    )
}

#[test]
fn rows_are_copied_as_they_are_sorted() {
    let copied = with_rows("copy_of = \"rows\", by = \"sorted\", row = 24", "(routes + groups * (BLOCK - 1)) * 24");
    // The reference has no blocks, and launches without what depends on them.
    let spec = spec(&copied).unwrap();
    let scope = scope(&spec, &[("rows", 50), ("groups", 5)]);
    let (buffers, _) = spec.task_parts(&scope).unwrap();
    let at = buffers.iter().position(|buffer| buffer.name == "copied").unwrap();
    let Content::Rows { of, rows, row } = buffers[at].content else { panic!("{:?}", buffers[at]) };
    // As many rows as there are places in blocks of 2 and of 4.
    assert_eq!((buffers[usize::from(of)].name.as_str(), row, buffers[at].length), ("rows", 24, 256 * 24));
    assert_eq!(rows, ArtifactRef::of(&spec.made(&scope).unwrap()[1]));
    for (block, bytes) in [(2, 0), (4, 128 * 24 * 2)] {
        let candidate = Candidate { solver: "Blocked".to_string(), params: vec![Value::Int(block)] };
        let arguments = spec.build(&candidate, &scope).unwrap().launches.remove(0).arguments;
        assert_eq!(arguments.last(), Some(&Argument::BufferAt { buffer: at.try_into().unwrap(), bytes }), "{block}");
    }
}

#[test]
fn rows_that_can_not_be_copied_are_one_error() {
    let length = "(routes + groups * (BLOCK - 1)) * 24";
    for (recipe, length, expected) in [
        ("copy_of = \"rows\", by = \"sorted\"", length, "how many elements a row has"),
        ("copy_of = \"rows\", by = \"owners\", row = 24", length, "with the rows of groups (rows_of)"),
        ("copy_of = \"none\", by = \"sorted\", row = 24", length, "found \"none\", expected copy_of"),
        ("copy_of = \"sorted\", by = \"sorted\", row = 24", length, "expected copy_of"),
        ("copy_of = \"rows\", by = \"sorted\", row = 24, groups = 3", length, "copy_of, by and row alone"),
        ("rows_of = \"routing\", row = 24, groups = 3, block = \"BLOCK\"", length, "INT32: recipes make no other type"),
        (
            "copy_of = \"rows\", by = \"sorted\", row = 25",
            length,
            "found 2400 elements of rows, expected 100 rows of 25",
        ),
    ] {
        let error = match spec(&with_rows(recipe, length)) {
            Ok(spec) => spec.task_parts(&scope(&spec, &[("rows", 50), ("groups", 5)])).expect_err(recipe).to_string(),
            Err(error) => error,
        };
        assert!(error.contains(expected), "{recipe}: {error}");
    }
}

/// 64 rows of a group in blocks of 64: how many have one row more is luck.
#[test]
fn draws_fill_as_many_blocks_as_is_to_be_expected() {
    let text = SPEC.replace("values = [4, 2]", "values = [64]").replace("default = 4", "default = 64");
    let counts = |seed: u64, draws: &str| {
        let text = text.replace("seed = 7", &format!("seed = {seed}{draws}"));
        let spec = spec(&text).unwrap();
        let made = spec.made(&scope(&spec, &[("rows", 256), ("groups", 8)])).unwrap();
        let counts = ints(&made[3]);
        let blocks: Vec<f64> = counts.iter().step_by(64).map(|places| f64::from(*places) / 64.0).collect();
        blocks.iter().sum::<f64>() / blocks.len() as f64
    };
    let expected = (0..200).map(|seed| counts(seed, "")).sum::<f64>() / 200.0;
    let worst = |draws: &str| (1000..1020).map(|seed| (counts(seed, draws) / expected - 1.0).abs()).fold(0.0, f64::max);
    let (plain, chosen) = (worst(""), worst(", draws = 4"));
    assert!(plain > 0.06 && chosen < 0.03, "{plain} {chosen}");
}

#[test]
fn a_run_of_a_candidate_computes_all_draws_and_the_one_that_is_compared_last() {
    let spec = spec(&SPEC.replace("seed = 7", "seed = 7, draws = 3")).unwrap();
    let scope = scope(&spec, &[("rows", 50), ("groups", 5)]);
    let made = spec.made(&scope).unwrap();
    let (buffers, _) = spec.task_parts(&scope).unwrap();
    // 100 routes, rounded up to 128; as much as one draw has, three times.
    assert_eq!(buffers.iter().map(|buffer| buffer.length).collect::<Vec<_>>(), [384, 768, 384, 384, 100]);
    assert_eq!(buffers[0].content, Content::Drawn { data: ArtifactRef::of(&made[0]), draws: 3 });
    assert_eq!(buffers[1].content, Content::Data(ArtifactRef::of(&made[1])));
    let build = |solver: &str, params: Vec<Value>| {
        spec.build(&Candidate { solver: solver.to_string(), params }, &scope).unwrap()
    };
    let at = |buffer, bytes| Argument::BufferAt { buffer, bytes };
    let blocked = build("Blocked", vec![Value::Int(4)]);
    let out = || Argument::Buffer(4);
    assert_eq!(blocked.launches[0].arguments, [at(1, 512), at(2, 256), at(3, 256), Argument::Buffer(0), out()]);
    let further: Vec<_> = blocked.draws.iter().map(|launches| launches[0].arguments.clone()).collect();
    let second = vec![at(1, 1024 + 512), at(2, 512 + 256), at(3, 512 + 256), at(0, 512), out()];
    let third = vec![at(1, 2048 + 512), at(2, 1024 + 256), at(3, 1024 + 256), at(0, 1024), out()];
    assert_eq!(further, [second, third]);
    assert!(build("Plain", Vec::new()).draws.is_empty(), "the reference answers for the first");
    // What is sorted is the draw's own routing.
    let (routing, sorted, owners) = (ints(&made[0]), ints(&made[1]), ints(&made[2]));
    for draw in 0..3 {
        let (routing, sorted) = (&routing[128 * draw..][..100], &sorted[256 * draw..][..105]);
        for (place, route) in sorted.iter().enumerate().filter(|(_, route)| **route < 100) {
            assert_eq!(owners[128 * draw + place / 2], routing[usize::try_from(*route).unwrap()], "draw {draw}");
        }
    }
    assert_ne!(routing[..100], routing[128..228]);
}
