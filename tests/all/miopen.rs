//! A campaign of MIOpen's own solvers as its users run it: problems imported, applicability asked, perf and find chained
//! through RabbitMQ and Redis, databases exported and checked. The stand-ins for fin fail in a tenth of their calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bluefin_stand_ins::{program, wrap};
use bluefin_test_support::{Redis, RedisOptions, Vhost, data_text, wait_until};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;

use crate::common::fleet::Fleet;
use crate::common::{Running, expect, files, json, text, write};

const PATIENCE: Duration = Duration::from_secs(1200);

/// One installation of fin without a GPU and one with, both of which fail in a tenth of their calls.
fn installations(folder: &Path) -> [String; 2] {
    let remembered = folder.join("remembered");
    std::fs::create_dir_all(&remembered).unwrap();
    let variables = |backend| {
        [
            ("STAND_IN_BACKEND", backend),
            ("STAND_IN_ARCH", "gfx90a"),
            (
                "STAND_IN_FAULTS",
                "any/miopen_perf_compile=0.1,any/miopen_perf_eval=0.1,any/miopen_find_compile=0.1,any/miopen_find_eval=0.1",
            ),
            ("STAND_IN_SEED", "11"),
            ("STAND_IN_STATE", remembered.to_str().unwrap()),
        ]
    };
    ["HIPNOGPU", "HIP"].map(|backend| {
        let folder = folder.join(backend);
        wrap(&folder, &program("fin"), &variables(backend)).display().to_string()
    })
}

/// Runs the campaign; `kills` workers are killed at random moments on the way. Returns what was exported.
fn campaign(problems: &str, kills: u32, random: &mut StdRng) -> BTreeMap<String, Vec<u8>> {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    let folder = fleet.folder.path();
    let [nogpu, gpu] = installations(folder);
    write(folder, "net.txt", problems);
    let run = |arguments: &[&str]| expect(&mut fleet.bluefin(arguments), 0);
    run(&["problems", "import", "-t", "net", "-f", "net.txt"]);
    run(&["session", "new", "-l", "campaign", "--arch", "gfx90a", "--num-cu", "104", "--tuner", "fin"]);
    run(&["solvers", "update", "--session", "1", "--fin", &nogpu]);
    run(&["applicability", "update", "--session", "1", "-t", "net", "--fin", &nogpu]);
    let enqueue = ["enqueue", "--session", "1", "-t", "net", "--stage", "perf,find", "--json"];
    let plan = json(&run(&enqueue));
    println!("{plan}");

    let compile = ["compile-worker", "--toolchain", "fin", "--fin", &nogpu];
    let eval = ["eval-worker", "--device", "miopen:gfx90a-104", "--fin", &gpu];
    let mut workers: Vec<(&[&str], Running)> =
        [compile.as_slice(), &eval].map(|arguments| (arguments, fleet.worker(arguments))).into();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.random_range(500..2500)));
        let victim = random.random_range(0..workers.len());
        workers[victim].1.signal(Signal::KILL);
        workers[victim].1 = fleet.worker(workers[victim].0);
    }
    // Nothing is left to be enqueued, and doing it again harms nobody.
    assert_eq!(json(&run(&enqueue))["enqueued"], 0);
    wait_until(PATIENCE, "the campaign to complete", || {
        fleet.status("1").is_some_and(|status| status["complete"] == true)
    });
    for (_, worker) in workers {
        worker.signal(Signal::TERM);
        worker.wait(Duration::from_secs(60));
    }

    // Every job is accounted for, the failed ones with their kinds.
    let status = fleet.told("1");
    println!("{status}");
    let sum = |field: &str| -> u64 { status[field].as_object().unwrap().values().filter_map(|n| n.as_u64()).sum() };
    assert_eq!(sum("done"), sum("planned"), "{status}");
    assert_eq!(sum("candidates"), sum("planned"), "one candidate a job: {status}");
    let timed = status["candidates"]["timed"].as_u64().unwrap();
    let failed = sum("candidates") - timed;
    assert!(failed * 50 > timed && failed * 3 < timed, "about a tenth of the calls fail: {status}");
    assert!(status["candidates"].get("dead").is_none(), "{status}");
    assert!(!fleet.logged().contains("STAND_IN_SEED="), "fin's environment is in no log");

    expect(fleet.bluefin(&["export", "--session", "1", "-p", "-f", "-k", "--out", "out"]).env("NO_COLOR", "1"), 0);
    let out = files(&folder.join("out"));
    let names: Vec<&str> = out.keys().map(String::as_str).collect();
    assert_eq!(names, ["gfx90a68.HIP.fdb.txt", "gfx90a68.db", "gfx90a68.db.txt", "gfx90a68.kdb"]);
    // The stand-ins' kernels have names of their own, which do not tell whose they are.
    let mut check = fleet.bluefin(&["db", "check", "--allow", "no-kernel"]);
    let checked = expect(check.args(names.iter().map(|name| PathBuf::from("out").join(name))), 0);
    println!("{}", text(&checked.stdout));
    out
}

fn compare(problems: &str, kills: u32) {
    let seed = std::env::var("BLUEFIN_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("BLUEFIN_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let undisturbed = campaign(problems, 0, &mut random);
    let disturbed = campaign(problems, kills, &mut random);
    assert!(undisturbed == disturbed, "killed workers changed the databases");
}

#[test]
fn a_campaign_with_failures_ends_in_the_same_three_databases_whoever_is_killed() {
    compare(
        "conv -n 16 -c 64 -H 28 -W 28 -k 64 -y 1 -x 1 -F 1\nconv -n 16 -c 64 -H 28 -W 28 -k 64 -y 3 -x 3 -p 1 -q 1 -F 2\n\
         conv -n 16 -c 32 -H 14 -W 14 -k 64 -y 1 -x 1 -F 4\nconv -n 8 -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1\n",
        6,
    );
}

#[test]
#[ignore = "all of ResNet-50: minutes"]
fn a_campaign_over_resnet50() {
    let problems = data_text("driver/resnet50.txt");
    // One line is a pooling.
    let convolutions: String =
        problems.lines().filter(|line| line.contains(" conv")).map(|line| format!("{line}\n")).collect();
    compare(&convolutions, 25);
}
