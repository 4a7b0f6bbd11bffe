use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};

use super::here::{FIND, Here, PERF, files, names};

#[test]
fn each_miopen_gets_the_names_that_it_looks_for() {
    for (rocm, miopen, system, user) in [
        (
            "6.2.0",
            [3, 2, 0],
            ["gfx90a68.HIP.fdb.txt", "gfx90a68.db", "gfx90a68.db.txt"].as_slice(),
            ["gfx90a68.HIP.3_2_0_2d1fd997.udb.txt", "gfx90a68.HIP.3_2_0_2d1fd997.ufdb.txt"],
        ),
        (
            "6.1.0",
            [3, 1, 0],
            &["gfx90a68.HIP.fdb.txt", "gfx90a68.db"],
            ["gfx90a68.HIP.3_1_0_2d1fd997.ufdb.txt", "gfx90a68_1.1.0.udb"],
        ),
    ] {
        let here = Here::new();
        here.rocm(rocm, miopen);
        here.write("db/gfx90a68.HIP.fdb.txt", FIND);
        here.write("db/gfx90a68.db.txt", PERF);
        let given = ["db/gfx90a68.HIP.fdb.txt", "db/gfx90a68.db.txt"];
        here.ends(0, &[&["install", "--prefix", "rocm"], given.as_slice()].concat());
        let folder = here.path("rocm/share/miopen/db");
        assert_eq!(names(&folder), system, "{rocm}");
        assert_eq!(files(&folder)[0].1, FIND.as_bytes());
        assert!(files(&folder)[1].1.starts_with(b"SQLite format 3\0"));
        here.ends(0, &[&["install", "--prefix", "rocm", "--user"], given.as_slice()].concat());
        assert_eq!(names(&here.path("home/.config/miopen")), user, "{rocm}");
        here.ends(0, &["install", "--prefix", "rocm", "--undo"]);
        here.ends(0, &["install", "--prefix", "rocm", "--user", "--undo"]);
        assert_eq!((names(&folder).len(), names(&here.path("home/.config/miopen")).len()), (0, 0));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let here = Here::new();
    here.rocm("6.2.0", [3, 2, 0]);
    let find = here.write("db/gfx90a68.HIP.fdb.txt", FIND).display().to_string();
    let other = here.write("db/gfx906_60.db.txt", PERF).display().to_string();
    let bare = here.write("db/best.fdb.txt", FIND).display().to_string();
    let empty = here.write("db/gfx90a68.db", "").display().to_string();
    let told = |code, arguments: &[&str]| here.ends(code, &[&["install"], arguments].concat());
    assert!(told(1, &["--prefix", "rocm", &find, &other]).contains("is for gfx906-60, expected one for gfx90a-104"));
    assert!(told(1, &["--prefix", "rocm", "--target", "gfx90a-110", &find]).contains("expected one for gfx90a-110"));
    assert!(told(1, &["--prefix", "rocm", &find, &find]).contains("second find db"));
    assert!(told(1, &["--prefix", "rocm", &empty]).contains("gfx90a68.db"));
    assert!(told(2, &["--prefix", "rocm", &bare]).contains("--target"));
    assert!(told(2, &[&find]).contains("--prefix, --system-db or --user"));
    assert!(told(2, &["--system-db", "s", "--rocm-version", "4.3", &find]).contains("ROCm 4.3"));
    assert!(told(2, &["--user", "--rocm-version", "6.2", &find]).contains("--miopen-version"));
    assert!(told(1, &["--prefix", "rocm", "--undo"]).contains("nothing was installed"));
    assert_eq!(names(&here.path("rocm/share/miopen/db")), [""; 0], "nothing was written");
    assert!(told(0, &["--prefix", "rocm", "--dry-run", &find]).contains("would be new"));
    // What db/* names beside databases.
    let beside = here.write("db/winners.json", "{}").display().to_string();
    let said = told(0, &["--prefix", "rocm", "--dry-run", &find, &beside]);
    assert!(said.contains("winners.json: is no database, and was left aside"), "{said}");
    assert!(!here.path("rocm/share").exists());
    told(0, &["--system-db", "s", "--rocm-version", "6.2", "--target", "gfx90a-104", &bare]);
    told(0, &["--system-db", "s", "--rocm-version", "6.2", "--xnack", &find]);
    assert_eq!(names(&here.path("s")), ["gfx90a68.HIP.fdb.txt", "gfx90a_xnack68.HIP.fdb.txt"]);
}

/// Kills installations and their taking back at random moments. Every file is the old one or the new one at any time, and
/// the same command finishes what was begun.
#[test]
fn killed_at_any_moment_every_file_is_old_or_new() {
    let here = Here::new();
    let [find, perf] = here.shipped_part();
    here.rocm("6.2.0", [3, 2, 0]);
    let folder = here.path("rocm/share/miopen/db");
    let old: Vec<(String, Vec<u8>)> = ["gfx942130.HIP.fdb.txt", "gfx942130.db.txt"]
        .map(|name| (name.to_string(), format!("the old {name}").into_bytes()))
        .to_vec();
    for (name, content) in &old {
        here.write(&format!("rocm/share/miopen/db/{name}"), content);
    }
    let install = || {
        let mut command = here.bluefin(&["install", "--prefix", "rocm", "--replace"]);
        command.args([&find, &perf]).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let undo = || {
        let mut command = here.bluefin(&["install", "--prefix", "rocm", "--undo"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let started = Instant::now();
    assert!(install().status().unwrap().success());
    let whole = started.elapsed();
    let new = files(&folder);
    assert_eq!(new.len(), 3);
    assert!(undo().status().unwrap().success());
    assert!(files(&folder) == old);

    let plans = || {
        let steps = folder.join(".bluefin").read_dir().unwrap();
        steps.filter(|step| step.as_ref().unwrap().path().join("plan.json").is_file()).count()
    };
    let mut random = rand::rngs::SmallRng::seed_from_u64(5);
    let mut seen = [0, 0, 0];
    for round in 0..16 {
        let before = plans();
        let mut child = install().spawn().unwrap();
        if round % 4 == 0 {
            std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * random.random_range(0.0..1.1)));
        } else {
            // The moments that count are those behind the plan.
            while plans() == before && child.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros(random.random_range(0..2000)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = files(&folder);
        for file in &found {
            assert!(old.contains(file) || new.contains(file), "round {round}: {} is neither", file.0);
        }
        seen[if found == old {
            0
        } else if found == new {
            2
        } else {
            1
        }] += 1;
        assert!(install().status().unwrap().success());
        assert!(files(&folder) == new, "round {round}: not finished");
        let mut child = undo().spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(0..40)));
        child.kill().unwrap();
        child.wait().unwrap();
        for file in files(&folder) {
            assert!(old.contains(&file) || new.contains(&file), "round {round}: {} is neither", file.0);
        }
        if files(&folder) != old {
            assert!(undo().status().unwrap().success(), "round {round}: not taken back");
        }
        assert!(files(&folder) == old, "round {round}");
    }
    println!("killed: {} before, {} between, {} after", seen[0], seen[1], seen[2]);
}
