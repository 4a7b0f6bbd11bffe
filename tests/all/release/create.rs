use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};

use super::here::{FIND, Here, PERF, files, names};

#[test]
fn a_release_from_a_folder_to_a_folder() {
    let here = Here::new();
    here.write("db/gfx90a68.HIP.fdb.txt", FIND);
    here.write("db/gfx90a68.db.txt", PERF);
    here.write("db/gfx906_60.HIP.fdb.txt", "not looked at");
    let state = ["--state", "state.db"];
    let run = |code, arguments: &[&str]| here.ends(code, &[arguments, &state].concat());
    let made = here.json(
        0,
        &[
            "release",
            "create",
            "1",
            "--from",
            "db",
            "--target",
            "gfx90a-104",
            "--channel",
            "stable",
            "--json",
            "--state",
            "state.db",
        ],
    );
    assert_eq!((&made["name"], &made["target"], &made["new"]), (&"1".into(), &"gfx90a-104".into(), &true.into()));
    assert!(
        run(0, &["release", "create", "2", "--from", "1", "--channel", "stable", "--note", "again"]).contains("step 2")
    );
    let list = run(0, &["release", "list"]);
    assert!(list.contains("stable"), "{list}");
    for folder in ["one", "two"] {
        run(0, &["release", "export", "--channel", "stable", "-o", folder]);
    }
    let (one, two) = (files(&here.path("one")), files(&here.path("two")));
    assert!(one == two, "the same release gave other bytes");
    assert_eq!(names(&here.path("one")), ["gfx90a68.HIP.fdb.txt", "gfx90a68.db", "gfx90a68.db.txt"]);
    assert_eq!((one[0].1.as_slice(), one[2].1.as_slice()), (FIND.as_bytes(), PERF.as_bytes()));
    here.write("slow/gfx90a68.HIP.fdb.txt", FIND.replace("0.05", "0.5"));
    run(0, &["release", "create", "slow", "--from", "slow", "--target", "gfx90a-104"]);
    run(0, &["release", "diff", "1", "2"]);
    run(0, &["release", "diff", "slow", "1"]);
    let slower = run(1, &["release", "diff", "1", "slow"]);
    assert!(slower.contains("gfx90a68.db.txt: gone") && slower.contains("ConvAsm1x1U 0.5 ms"), "{slower}");
    let json = here.json(1, &["release", "diff", "1", "slow", "--json", "--state", "state.db"]);
    assert_eq!((&json["files"][0]["diff"]["regressions"], &json["files"][1]["change"]), (&1.into(), &"gone".into()));
    run(0, &["release", "rollback", "--channel", "stable"]);
    let shown = here.json(0, &["release", "show", "--channel", "stable", "--json", "--state", "state.db"]);
    assert_eq!((&shown["name"], &shown["steps"][2]["reason"]), (&"1".into(), &"rolled_back".into()));
    assert_eq!(run(0, &["release", "verify"]).matches("whole").count(), 3);
    assert!(run(1, &["release", "show", "9"]).contains("which holds 1, 2, slow"));
    assert!(run(1, &["release", "create", "1", "--from", "2", "--note", "other"]).contains("a release never changes"));
    assert!(run(2, &["release", "create", "3"]).contains("nothing to release"));
}

/// Kills `create` at moments from its start to its end, and looks at what is there.
#[test]
fn killed_at_any_moment_there_is_no_release_or_a_whole_one() {
    let here = Here::new();
    here.shipped_part();
    let create = |name: &str| {
        let arguments = ["release", "create", name, "--from", "db", "--target", "gfx942-304", "--channel", "c"];
        let mut command = here.bluefin(&[&arguments[..], &["--state", "state.db"]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let started = Instant::now();
    assert!(create("whole").status().unwrap().success());
    let whole = started.elapsed();
    let mut random = rand::rngs::SmallRng::seed_from_u64(3);
    let mut outcomes = [0, 0];
    for round in 0..12 {
        let name = format!("r{round}");
        let mut child = create(&name).spawn().unwrap();
        // Moments, not deadlines: wherever it is then, what is there has to be right.
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * random.random_range(0.0..1.2)));
        child.kill().unwrap();
        child.wait().unwrap();
        let list = here.json(0, &["release", "list", "--json", "--state", "state.db"]);
        let there = list.as_array().unwrap().iter().any(|release| release["name"] == name.as_str());
        outcomes[usize::from(there)] += 1;
        if there {
            here.ends(0, &["release", "verify", &name, "--state", "state.db"]);
        }
    }
    println!("killed: {} without a release, {} with a whole one", outcomes[0], outcomes[1]);
    // The same command finishes what was begun.
    assert!(create("r0").status().unwrap().success());
    let expected = here.json(0, &["release", "show", "whole", "--json", "--state", "state.db"]);
    let found = here.json(0, &["release", "show", "r0", "--json", "--state", "state.db"]);
    assert_eq!(found["files"], expected["files"]);
}
