//! Runs that were ended amid their work, by signals and in any state: the next one continues.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::session::Stage;
use bluefin_common::store::{Planned, Work as _};
use bluefin_test_support::wait_until;
use rustix::process::Signal;

use super::{Copied, PROBLEMS, tune};
use crate::common::{Running, bluefin, expect, json, text, write};

/// In the state file of `folder`, which somebody may write to.
fn outcomes(folder: &Path) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let count = rusqlite::Connection::open_with_flags(folder.join("state.db"), flags)
        .and_then(|state| state.query_row("SELECT count(*) FROM outcomes", [], |row| row.get(0)));
    // Not there yet, or just being made.
    count.unwrap_or(0)
}

#[test]
fn continues_after_an_interrupt_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let whole = "conv -n 1 -c 16 -H 14 -W 14 -k 24 -y 3 -x 3 -p 1 -q 1 -F 0\n\
        conv -n 1 -c 32 -H 14 -W 14 -k 8 -y 1 -x 1 -F 0\nconv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 0\n";
    for (round, (signal, code)) in
        [(Signal::INT, Some(130)), (Signal::KILL, None), (Signal::TERM, Some(130))].into_iter().enumerate()
    {
        let said = folder.path().join(format!("said{round}"));
        let mut command = tune(folder.path(), whole);
        command.args(["--session", "it"]).stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
        let running = Running::start(&mut command);
        let before = outcomes(folder.path());
        wait_until(Duration::from_secs(60), "one more outcome", || outcomes(folder.path()) > before);
        running.signal(signal);
        let ended = running.wait(Duration::from_secs(60));
        let said = std::fs::read_to_string(&said).unwrap();
        assert_eq!(ended, code, "after {signal:?}: {said}");
        // It is said at once, as finishing may take a while.
        assert_eq!(said.contains("stopping: what a device"), code.is_some(), "after {signal:?}: {said}");
        // What is left is planned once more to be told, and written nowhere: the file is open for reading.
        let mut list = bluefin();
        list.current_dir(folder.path()).args(["jobs", "list", "--state", "state.db", "--session", "it"]);
        let listed = text(&expect(&mut list, 0).stdout);
        assert!(listed.contains("ConvFwd") && !listed.contains("unknown"), "{listed}");
    }
    let last = expect(tune(folder.path(), whole).args(["--session", "it", "--json"]), 0);
    assert_eq!(json(&last)["problems"].as_array().unwrap().len(), 9);
}

#[test]
fn what_an_interrupted_run_left_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let mut other = tune(folder.path(), "conv -n 4 -c 32 -H 28 -W 28 -k 32 -y 3 -x 3 -p 1 -q 1 -F 0\n");
    other.args(["--session", "it"]).stdout(Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
    let running = Running::start(&mut other);
    wait_until(Duration::from_secs(60), "the plan to be told", || {
        std::fs::read_to_string(&said).unwrap().contains("candidates in")
    });
    running.signal(Signal::KILL);
    assert_eq!(running.wait(Duration::from_secs(60)), None);
    let output = expect(tune(folder.path(), PROBLEMS).args(["--session", "it", "--json"]), 0);
    assert_eq!(json(&output)["problems"].as_array().unwrap().len(), 2);
}

/// As a run leaves it that is killed in its last play-offs: all else is done.
#[tokio::test]
async fn interrupted_play_offs_are_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let whole = json(&expect(tune(folder.path(), PROBLEMS).args(["--session", "it", "--json"]), 0));
    let copy = Copied::begin(folder.path()).await;
    for outcome in copy.outcomes().await {
        if outcome.job.stage == Stage::Perf {
            copy.task(outcome.task.unwrap()).await;
            copy.to.put_outcome(&outcome).await.unwrap();
        } else {
            copy.to.plan(&copy.session, &[Planned::of(&outcome.job)]).await.unwrap();
            copy.to.enqueued(&copy.session, &[outcome.job_id()]).await.unwrap();
        }
    }
    copy.end(folder.path()).await;
    let again = json(&expect(tune(folder.path(), PROBLEMS).args(["--session", "it", "--json"]), 0));
    let count = |result: &serde_json::Value| result["problems"].as_array().unwrap().len();
    assert_eq!((count(&again), count(&whole)), (2, 2));
    assert!(again["problems"][1]["winner"]["median_ms"].as_f64().unwrap() > 0.0);
}

/// Also a job of an earlier round of a search, which follows from nothing that is planned later.
#[tokio::test]
async fn what_failed_is_tried_again_whatever_its_round() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "problems.txt", PROBLEMS);
    let tune = || {
        let arguments = ["tune", "problems.txt", "--session", "it", "--budget", "9", "--state", "state.db"];
        expect(bluefin().current_dir(folder.path()).args(arguments), 0)
    };
    tune();
    let store = SqliteStore::open(&folder.path().join("state.db")).await.unwrap();
    let session = "it".parse().unwrap();
    let groups = store.groups(&session).await.unwrap();
    let outcomes = store.outcomes(&session, &groups).await.unwrap();
    let last = |outcome: &Outcome| {
        let of_group = outcomes.iter().filter(|other| other.group() == outcome.group());
        of_group.map(|other| other.job.round).max()
    };
    let mut broken = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf).cloned();
    let mut broken = broken.find(|outcome| outcome.job.round == 0 && last(outcome) > Some(0)).unwrap();
    store.retract_outcome(&broken).await.unwrap();
    broken.candidates = CandidateOutcome::all_failed(&broken.job, &Failure::new(FailureKind::Dead, "lost"));
    store.put_outcome(&broken).await.unwrap();
    store.close().await;

    let retry = ["jobs", "retry", "--failed", "dead", "--session", "it", "--state", "state.db"];
    let retried = text(&expect(bluefin().current_dir(folder.path()).args(retry), 0).stdout);
    assert!(retried.contains("1 job planned again"), "{retried}");
    tune();
    let store = SqliteStore::open(&folder.path().join("state.db")).await.unwrap();
    let outcomes = store.outcomes(&session, &[broken.group()]).await.unwrap();
    let again = outcomes.iter().find(|outcome| outcome.job_id() == broken.job_id()).expect("it is done again");
    assert!(again.candidates.iter().any(|candidate| candidate.result.is_ok()), "{again:?}");
}
