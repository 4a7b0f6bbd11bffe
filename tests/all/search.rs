//! `bluefin bench search`: how close searches come to the optimum of measured spaces.

use std::path::Path;

use bluefin_test_support::data_path;
use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

const SPACE: &str = "spaces/convolution_A100.tsv.gz";

/// What is printed as JSON, without what a clock says.
fn worths(arguments: &[&str], space: &Path) -> Value {
    let mut worths = json(&expect(bluefin().args(["bench", "search", "--json"]).args(arguments).arg(space), 0));
    for worth in worths.as_array_mut().unwrap() {
        let ms = worth.as_object_mut().unwrap().remove("proposal_ms").unwrap();
        assert!(ms.as_f64().unwrap() > 0.0, "{ms}");
    }
    worths
}

#[test]
fn a_real_space_is_searched_and_comes_to_the_same_again() {
    let space = data_path(SPACE);
    let arguments = ["--seeds", "3", "--budget", "64", "--at", "8,64"];
    let found = worths(&arguments, &space);
    assert_eq!(found, worths(&arguments, &space));
    let fixed = &found[0];
    assert_eq!((&fixed["space"], &fixed["search"]), (&"convolution_A100".into(), &"fixed".into()));
    assert_eq!((fixed["points"].as_u64(), fixed["failed"].as_u64()), (Some(4362), Some(161)));
    let [few, all] = fixed["scores"].as_array().unwrap().as_slice() else { panic!("{fixed}") };
    let [few, all] = [few, all].map(|score| score["mean"].as_f64().unwrap());
    assert!(0.2 < few && few < all && all < 1.0, "{fixed}");
    let learning = &found[1];
    assert_eq!(learning["search"], "bayes");
    assert!(learning["scores"][1]["mean"].as_f64().unwrap() > all, "it learns: {found}");
    let disturbed = worths(&[arguments.as_slice(), &["--noise", "20%", "--failures", "50"]].concat(), &space);
    assert_ne!(disturbed[0]["scores"], fixed["scores"]);
    assert_eq!(disturbed[0]["optimum_ms"], fixed["optimum_ms"]);
}

#[test]
fn its_table_fits_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let space = folder.path().join("dedispersion_W6600.tsv.gz");
    std::fs::copy(data_path(SPACE), &space).unwrap();
    let mut command = bluefin();
    command.args(["bench", "search", "--seeds", "2", "--search", "fixed"]).arg(&space).env("COLUMNS", "80");
    let printed = text(&expect(&mut command, 0).stdout);
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    for whole in ["dedispersion_W6600", "at 200", "fixed", "> 200", "Over 2 seeds"] {
        assert!(printed.contains(whole), "{whole}: {printed}");
    }
}

#[test]
fn results_of_a_session_are_spaces() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stencil.toml");
    expect(bluefin().current_dir(folder).args(["tune", "--budget", "4", "--kernel"]).arg(example), 0);
    expect(bluefin().current_dir(folder).args(["results", "--t4", "t4.json"]), 0);
    let found = worths(&["--seeds", "2"], &folder.join("t4.json"));
    let found = found.as_array().unwrap();
    // One space for each solver, less one that was pruned as a whole. The winner never is.
    assert!(!found.is_empty());
    for worth in found {
        let points = match worth["space"].as_str() {
            Some("t4 StencilReference") => 1,
            Some("t4 StencilTiled") => 4,
            other => panic!("{other:?}"),
        };
        assert_eq!(worth["points"], points, "{worth}");
        let score = worth["scores"].as_array().unwrap().last().unwrap();
        assert_eq!(score["mean"], 1.0, "200 evaluations are all points: {worth}");
        assert_eq!(worth["close"]["reached_percent"], 100.0, "{worth}");
    }
}

#[test]
fn wrong_usage_and_wrong_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let space = write(folder.path(), "space.tsv", "x\tmedian_ms\n1\t2.5\n2\tnever\n");
    let says = |arguments: &[&str], code: i32, said: &str| {
        let error = text(&expect(bluefin().args(["bench", "search"]).args(arguments).arg(&space), code).stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    says(&[], 1, &format!("{}: line 3: median_ms: found \"never\", expected milliseconds", space.display()));
    says(&["--search", "best"], 2, "found strategy \"best\", expected one of fixed");
    says(&["--option", "a=1"], 2, "--option: found option \"a\", expected none: fixed has no options");
    says(&["--option", "a=1", "--option", "a=2"], 2, "--option a: found twice, expected once");
    says(&["--option", "a"], 2, "found \"a\", expected NAME=VALUE");
    says(&["--at", "300"], 2, "--at: found 300, expected no more than the budget of 200");
    says(&["--noise", "x"], 2, "expected 0% to 100%");
    says(&["--seeds", "0"], 2, "0 is not in 1..");
}

#[test]
fn where_searches_stop_by_themselves_and_how_good_what_they_expect_is() {
    let space = data_path(SPACE);
    let arguments = ["--seeds", "2", "--budget", "72", "--patience", "0,3%,100"];
    let found = worths(&arguments, &space);
    assert!(found[0].get("stops").is_none(), "a fixed order expects nothing: {}", found[0]);
    let stops = found[1]["stops"].as_array().unwrap();
    let field = |at: usize, name: &str| stops[at][name].as_f64().unwrap();
    let column = |name: &str| [0, 1, 2].map(|at| field(at, name));
    assert_eq!(column("patience_percent"), [0.0, 3.0, 100.0]);
    assert_eq!((field(0, "stopped_percent"), field(0, "candidates")), (0.0, 72.0));
    assert_eq!(field(0, "score"), field(0, "score_unstopped"));
    assert_eq!(field(2, "stopped_percent"), 100.0);
    assert!((24.0..48.0).contains(&field(2, "candidates")), "as soon as anything is known: {stops:?}");
    assert!(
        column("candidates").is_sorted_by(|a, b| a >= b) && column("score").is_sorted_by(|a, b| a >= b),
        "{stops:?}"
    );
    for range in found[1]["estimates"].as_array().unwrap() {
        let said = range["estimated_percent"].as_f64().unwrap();
        assert!(said > range["above_percent"].as_f64().unwrap(), "{range}");
        assert!(range["up_to_percent"].as_f64().is_none_or(|up_to| said <= up_to), "{range}");
    }
    let mut command = bluefin();
    command.args(["bench", "search", "--search", "bayes"]).args(arguments).arg(&space).env("COLUMNS", "80");
    let printed = text(&expect(&mut command, 0).stdout);
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    for whole in ["patience", "3 %", "gained", "72.0"] {
        assert!(printed.contains(whole), "{whole}: {printed}");
    }
}

/// A session that stops as soon as its search expects anything at all, and what tells of it.
#[test]
fn a_search_that_stops_by_itself_says_so_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stencil.toml");
    let tune = |more: &[&str]| {
        let mut command = bluefin();
        command.current_dir(folder).args(["tune", "--session", "it", "--json", "--kernel"]).arg(&example).args(more);
        command
    };
    let tuned = expect(&mut tune(&["--budget", "64", "--patience", "100%"]), 0);
    let said = text(&tuned.stderr);
    assert!(said.contains("until less than 100 % is expected to be left to gain"), "{said}");
    let tiled = |problem: &Value| {
        let searched = problem["searched"].as_array().unwrap();
        searched.iter().find(|one| one["solver"] == "StencilTiled").unwrap().clone()
    };
    let winners = std::fs::read(folder.join("out/winners.json")).unwrap();
    let winners: Value = serde_json::from_slice(&winners).unwrap();
    for problem in [&json(&tuned)["problems"][0], &winners["problems"][0]] {
        let tiled = tiled(problem);
        assert_eq!(tiled["ended"], "patience", "{problem}");
        let (tried, of) = (tiled["tried"].as_u64().unwrap(), tiled["of"].as_u64().unwrap());
        assert!((24..64).contains(&tried) && tried < of, "{problem}");
        assert!((0.0..100.0).contains(&tiled["expected_gain_percent"].as_f64().unwrap()), "{problem}");
    }
    let rows =
        text(&expect(bluefin().current_dir(folder).args(["results", "--json", "--solver", "StencilTiled"]), 0).stdout);
    let row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    let (said, share) = (tiled(&winners["problems"][0]), row["tried_percent"].as_f64().unwrap());
    assert_eq!(
        (&row["search_ended"], &row["expected_gain_percent"]),
        (&"patience".into(), &said["expected_gain_percent"])
    );
    assert!((share - 100.0 * said["tried"].as_f64().unwrap() / said["of"].as_f64().unwrap()).abs() < 1e-9, "{row}");
    expect(bluefin().current_dir(folder).args(["report", "--session", "it", "-o", "report.html"]), 0);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("ended by") && page.contains(">patience<"), "the report says so");
    // It goes on as it began, and a search that does not is another one.
    let again = expect(&mut tune(&["--budget", "64"]), 0);
    assert!(text(&again.stderr).contains("nothing to do"), "{}", text(&again.stderr));
    let other = text(&expect(&mut tune(&["--budget", "64", "--patience", "0"]), 1).stderr);
    assert!(other.contains("search"), "{other}");
}

/// What won for some sizes begins the searches of others, from whatever it is named by.
#[test]
fn what_won_before_begins_a_search_and_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/stencil.toml");
    let tune = |state: &str, size: &str, more: &[&str]| {
        let mut command = bluefin();
        command.current_dir(folder).args(["tune", "--device", "host", "--state", state, "--json", "--size", size]);
        command.args(["--budget", "8", "--kernel"]).arg(&example).args(more);
        command
    };
    let width = |found: &Value| found["problems"][0]["winner"]["params"].clone();
    let first = expect(&mut tune("first.db", "width=256", &["--session", "it", "--out", "first"]), 0);
    let tiled = |state: &str, from: &str| {
        let tuned = expect(&mut tune(state, "width=512", &["--from", from]), 0);
        (json(&tuned), text(&tuned.stderr))
    };
    let perf = |state: &str| {
        let rows =
            expect(bluefin().current_dir(folder).args(["results", "--stage", "perf", "--json", "--state", state]), 0);
        let rows = text(&rows.stdout);
        rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    // A file of winners has one row, whatever its solver; a state file the best of each solver.
    let (found, said) = tiled("winners.db", "first/winners.json");
    assert!(said.contains("1 of 1 known candidate begin the searches of 1 solver"), "{said}");
    let won = width(&json(&first));
    assert!(perf("winners.db").iter().any(|row| row["params"] == won), "{won} is measured: {found}");
    let (_, said) = tiled("state.db", "first.db");
    assert!(said.contains("known candidate"), "{said}");
    // It is a session like another, that goes on and does not take another one for its own.
    let again = expect(&mut tune("winners.db", "width=512", &["--from", "first/winners.json"]), 0);
    assert!(text(&again.stderr).contains("nothing to do"), "{}", text(&again.stderr));
    // A session of the same store.
    let own = expect(&mut tune("first.db", "width=512", &["--from", "it", "--session", "next"]), 0);
    assert!(text(&own.stderr).contains("known candidate"), "{}", text(&own.stderr));
    let shown = expect(bluefin().current_dir(folder).args(["session", "show", "next", "--state", "first.db"]), 0);
    assert!(text(&shown.stdout).contains("  begins   with winners "), "{}", text(&shown.stdout));
    let other = expect(&mut tune("first.db", "width=512", &["--from", "first.db", "--session", "it"]), 1);
    assert!(text(&other.stderr).contains("its beginning (--from) is defaults"), "{}", text(&other.stderr));
    // What is of other kernels is left out, and why.
    let winners = std::fs::read_to_string(folder.join("first/winners.json")).unwrap();
    write(folder, "other.json", &winners.replace("StencilTiled", "Other").replace("StencilNaive", "Other"));
    let (_, said) = tiled("other.db", "other.json");
    assert!(said.contains("0 of 1 known candidate") && said.contains("left out, 1: no solver"), "{said}");
}

#[test]
fn what_holds_no_winners_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stencil.toml");
    write(folder, "list.txt", "conv -n 1\n");
    write(folder, "broken.json", "{\"format\": 1,\n\"problems\": [{]}");
    write(folder, "empty.json", "{\"format\": 1, \"problems\": []}");
    let says = |arguments: &[&str], code: i32, said: &str| {
        let tune = ["tune", "--device", "host", "--kernel", kernel];
        let error = text(&expect(bluefin().current_dir(folder).args(tune).args(arguments), code).stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    says(
        &["--from", "list.txt"],
        1,
        "--from list.txt: line 1: found \"conv -n 1\\n\", expected winners.json of bluefin, or a state file",
    );
    says(
        &["--from", "broken.json"],
        1,
        "--from broken.json: expected winners.json: key must be a string at line 2 column 15",
    );
    says(&["--from", "empty.json"], 1, "--from empty.json: found no winner, expected one or more");
    says(
        &["--from", "nothing"],
        2,
        "--from nothing: found none of that name, expected a file, or a release or a session of the store",
    );
    says(&["--from", "x.json", "--list"], 2, "--list --from x.json");
    says(&["--from", "x.json", "--tuner", "fin"], 2, "not with --tuner");
    let new = ["session", "new", "-l", "x", "--target", "gfx942-304", "--state", "s.db", "--from", "empty.json"];
    let error = text(&expect(bluefin().current_dir(folder).args(new), 2).stderr);
    assert!(error.contains("--from empty.json: found tuner fin, expected kernels"), "{error}");
}

/// Two problems, whose spaces are larger than what a moment is enough for, and one that counts three times.
const COUNTED: &str = "# count 3\nconv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 1\n\
    conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 1 -x 1 -F 1\n";

#[test]
fn a_time_ends_a_search_and_another_call_has_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "problems.txt", COUNTED);
    let tune = |time: &str| {
        let mut command = bluefin();
        command.current_dir(folder).args(["tune", "problems.txt", "--device", "host", "--json", "--time", time]);
        let tuned = expect(&mut command, 0);
        (json(&tuned), text(&tuned.stderr))
    };
    // However short it is, every problem has its first round and a play-off.
    let (first, said) = tune("1ms");
    assert!(said.contains("within 0s"), "{said}");
    let tried = |found: &Value| {
        let problems = found["problems"].as_array().unwrap();
        problems.iter().map(|problem| problem["tried"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(first["problems"].as_array().unwrap().len(), 2);
    for problem in first["problems"].as_array().unwrap() {
        assert!(problem["winner"]["median_ms"].as_f64().unwrap() > 0.0, "{problem}");
        for solver in problem["searched"].as_array().unwrap() {
            let (tried, of) = (solver["tried"].as_u64().unwrap(), solver["of"].as_u64().unwrap());
            // Four of one that is far behind the others by then.
            assert!(tried == of.min(8) || tried == of.min(4), "{problem}");
        }
    }
    let bought = |found: &Value| found["bought"].as_array().unwrap().clone();
    let last = bought(&first).pop().unwrap();
    assert_eq!((&last["problems"], last["candidates"].as_u64()), (&2.into(), Some(tried(&first).iter().sum())));
    // Each as often as the file asks for it.
    let rows = expect(bluefin().current_dir(folder).args(["results", "--stage", "perf", "--json"]), 0);
    let mut best = [f64::INFINITY; 2];
    for row in text(&rows.stdout).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let of = usize::from(!row["problem"].as_str().unwrap().contains("-y 3 -x 3"));
        if row["result"] == "timed" {
            best[of] = best[of].min(row["median_ms"].as_f64().unwrap());
        }
    }
    assert!((last["sum_ms"].as_f64().unwrap() - (3.0 * best[0] + best[1])).abs() < 1e-6, "{last} {best:?}");
    // The second call goes on from there.
    let (second, said) = tune("3s");
    assert!(tried(&second).iter().sum::<u64>() > tried(&first).iter().sum(), "{said}");
    assert!(tried(&second).iter().zip(tried(&first)).all(|(after, before)| *after >= before), "{said}");
    let stretches = bought(&second);
    let ended: Vec<u64> = stretches.iter().map(|stretch| stretch["ended_ms"].as_u64().unwrap()).collect();
    let sums: Vec<f64> = stretches.iter().map(|stretch| stretch["sum_ms"].as_f64().unwrap()).collect();
    assert!(ended.is_sorted() && sums.is_sorted_by(|a, b| a >= b) && said.contains("problems in"), "{stretches:?}");
    assert!(second["problems"].as_array().unwrap().iter().all(|problem| problem["winner"].is_object()), "{second}");
}

#[test]
fn time_is_for_searches_that_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stencil.toml");
    let says = |arguments: &[&str], said: &str| {
        let tune = ["tune", "--device", "host", "--kernel", kernel, "--time", "1s"];
        let error = expect(bluefin().current_dir(folder.path()).args(tune).args(arguments), 2).stderr;
        assert!(text(&error).contains(said), "{arguments:?}: {}", text(&error));
    };
    says(&["--budget", "8"], "cannot be used with");
    says(&["--stage", "compile"], "not with --tuner or --stage");
    says(
        &["--search", "bayes:16"],
        "found a search of at most 16 candidates of each solver, expected a search in rounds",
    );
    says(&["--search", "fixed"], "found all candidates planned at once, expected a search in rounds");
}

#[test]
fn patience_is_for_searches_that_know_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let says = |arguments: &[&str], said: &str| {
        let error = text(&expect(bluefin().current_dir(folder.path()).args(arguments), 2).stderr);
        assert!(error.contains(said), "{arguments:?}: {error}");
    };
    let fixed =
        "--patience 1: fixed does not know what it can still gain; use a search that learns, such as --search bayes";
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stencil.toml");
    says(&["tune", "--device", "host", "--kernel", kernel, "--search", "fixed:16", "--patience", "1"], fixed);
    says(&["tune", "--kernel", kernel, "--stage", "compile", "--patience", "1"], "not with --tuner or --stage");
    says(&["tune", "--kernel", kernel, "--patience", "0.001"], "expected 0%, or 0.01% to 100%");
    says(&["tune", "--kernel", kernel, "--patience", "101"], "expected 0% to 100%");
    says(
        &["session", "new", "-l", "x", "--target", "host", "--state", "s.db", "--patience", "1"],
        "--patience is for a search that learns: --search bayes",
    );
    says(
        &["session", "new", "-l", "x", "--target", "host", "--state", "s.db", "--search-seed", "1"],
        "--search-seed is for a search that learns: --search bayes",
    );
}

/// Mean of the scores after sixteen candidates of all problems that have others of their solver beside them.
fn after_sixteen(seeds: &str, arguments: &[&str], space: &Path) -> f64 {
    let arguments = [&["--seeds", seeds, "--budget", "16", "--at", "16"], arguments].concat();
    let found = worths(&arguments, space);
    let (mut sum, mut count) = (0.0, 0.0);
    for worth in found.as_array().unwrap() {
        let spaces = worth["spaces"].as_f64().unwrap();
        sum += spaces * worth["scores"][0]["mean"].as_f64().unwrap();
        count += spaces;
    }
    sum / count
}

#[test]
fn what_like_problems_came_to_helps() {
    let space = data_path("spaces/resnet50_fp16_H100.t4.json.gz");
    let fixed = after_sixteen("2", &["--search", "fixed"], &space);
    let alone = after_sixteen("2", &["--search", "bayes", "--alone"], &space);
    let told = after_sixteen("2", &["--search", "bayes"], &space);
    assert!(fixed + 0.03 < alone && alone + 0.005 < told, "{fixed} {alone} {told}");
    let begun = after_sixteen("2", &["--search", "bayes", "--transfer", "2"], &space);
    assert!(told + 0.01 < begun, "{told} {begun}");
    let model = after_sixteen("2", &["--search", "bayes", "--target", "sm_90-132"], &space);
    assert!(told + 0.01 < model, "{told} {model}");
}

/// What they are told of costs goes on to serve once times are known: 0.978 where only the first round has it.
#[test]
fn what_a_model_of_the_architecture_says_helps_all_along() {
    let space = data_path("spaces/gemm_triton_fp16_H200.t4.json.gz");
    let told = after_sixteen("10", &["--search", "bayes", "--target", "sm_90-132"], &space);
    assert!(told > 0.985, "{told}");
}
