//! Machines that are not well: no result comes of that, and no job is lost to it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{EvalJob, compile_queue};
use bluefin_common::store::Work as _;
use bluefin_common::target::Target;
use bluefin_common::waiting::{On, Waiting};
use bluefin_compile_worker::{Config, Error};

use super::fleet::{PATIENCE, evals, fleet, kinds, next};
use super::until;

/// Stands between the worker and its compilers, and does to each what a file says.
struct Launcher {
    folder: tempfile::TempDir,
}

impl Launcher {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("launch");
        // Behind its own arguments, which end with --.
        let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift\n. \"${0%/*}/fault\"\nexec \"$@\"\n";
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let launcher = Self { folder };
        launcher.does("");
        launcher
    }

    /// From now on. In one step, as compilers start meanwhile.
    fn does(&self, fault: &str) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, fault).unwrap();
        std::fs::rename(new, self.folder.path().join("fault")).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("launch")
    }

    fn set(&self, config: &mut Config) {
        config.launcher = Some(vec![self.path().into()]);
        config.limits.confine = false;
        config.pauses = (Duration::from_millis(10), Duration::from_millis(50));
    }
}

const IS_TRIAL: &str = "case \"$*\" in *trial.c*) exec \"$@\";; esac\n";

#[tokio::test]
async fn a_machine_that_can_not_compile_is_waited_for() {
    let faults = [
        "echo 'cc1: fatal error: error writing to ./x.s: No space left on device' >&2; exit 1",
        "echo 'cc: fatal error: cannot execute cc1: vfork: Resource temporarily unavailable' >&2; exit 1",
        "exit 127",
        // Without a probe of the machine these would be the compiler's own.
        "kill -SEGV $$",
        "echo 'internal compiler error: in f, at g.c:1' >&2; exit 4",
    ];
    for fault in faults {
        let fleet = fleet(|_| {}).await;
        let (launcher, waiting) = (Launcher::new(), Waiting::default());
        launcher.does(fault);
        let worker = fleet.worker(|config| {
            launcher.set(config);
            config.waiting = waiting.clone();
        });
        let job = fleet.job(64, 2);
        fleet.enqueue(&job).await;
        until("it to stand still", async || waiting.lasts(On::Machine) > Duration::ZERO).await;
        assert!(
            worker.settled("handed_back") >= 1.0 && worker.settled("dead") + worker.settled("done") == 0.0,
            "{fault}"
        );
        assert!(!fleet.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap(), "{fault}");
        until("its job to be there for others", async || {
            fleet.broker.depth(&compile_queue("cc", &Target::Host)).await.unwrap() == 1
        })
        .await;
        launcher.does("");
        let mut evals = fleet.consume(&evals()).await;
        let eval: EvalJob = next(&mut evals).await;
        assert!(eval.built.iter().all(Result::is_ok), "{fault}");
        worker.stop().await;
        assert!(waiting.is_over());
    }
}

#[tokio::test]
async fn a_launcher_that_is_gone_is_waited_for() {
    let fleet = fleet(|_| {}).await;
    let (launcher, waiting) = (Launcher::new(), Waiting::default());
    let away = launcher.path().with_extension("away");
    std::fs::rename(launcher.path(), &away).unwrap();
    let worker = fleet.worker(|config| {
        launcher.set(config);
        config.waiting = waiting.clone();
    });
    fleet.enqueue(&fleet.job(64, 2)).await;
    until("it to stand still", async || !waiting.is_over()).await;
    assert!(waiting.reason().unwrap().contains("No such file"), "{:?}", waiting.reason());
    std::fs::rename(away, launcher.path()).unwrap();
    let mut evals = fleet.consume(&evals()).await;
    let _: EvalJob = next(&mut evals).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_crash_on_a_machine_that_is_well_is_a_result() {
    let faults = ["kill -SEGV $$", "kill -ABRT $$", "kill -XCPU $$", "echo 'LLVM ERROR: no' >&2; exit 1"];
    for fault in faults {
        let fleet = fleet(|_| {}).await;
        let launcher = Launcher::new();
        launcher.does(&format!("{IS_TRIAL}{fault}"));
        let worker = fleet.worker(|config| launcher.set(config));
        let job = fleet.job(64, 2);
        fleet.enqueue(&job).await;
        assert_eq!(kinds(&fleet.outcome(&job).await), [FailureKind::CompileCrash; 2], "{fault}");
        worker.stop().await;
    }
}

/// Whatever a compiler leaves in the place of its output, the machine is not doubted for it.
#[tokio::test]
async fn what_stands_in_the_place_of_an_output_is_the_jobs_failure() {
    for (fault, found) in [
        ("ln -s /proc/self/environ unit.out; exit 0", "unit.out: found a link"),
        ("ln -s /dev/zero unit.out; exit 0", "unit.out: found a link"),
        ("mkfifo unit.out; exit 0", "unit.out: found a FIFO"),
        ("head -c 70000000 /dev/zero > unit.out; exit 0", "unit.out: more than 67108864 bytes"),
    ] {
        let fleet = fleet(|_| {}).await;
        let (launcher, waiting) = (Launcher::new(), Waiting::default());
        launcher.does(&format!("{IS_TRIAL}{fault}"));
        let worker = fleet.worker(|config| {
            launcher.set(config);
            config.waiting = waiting.clone();
        });
        let job = fleet.job(64, 2);
        fleet.enqueue(&job).await;
        let outcome = fleet.outcome(&job).await;
        assert_eq!(kinds(&outcome), [FailureKind::CompileCrash; 2], "{fault}");
        let details: Vec<_> = outcome.candidates.iter().map(|one| one.result.clone().unwrap_err().detail).collect();
        assert!(details.iter().all(|detail| detail.contains(found)), "{fault}: {details:?}");
        assert!(worker.settled("handed_back") == 0.0 && waiting.lasts(On::Machine) == Duration::ZERO, "{fault}");
        worker.stop().await;
    }
}

/// A unit that says of itself that the machine is at its end, or that ends its own compiler, is tried again; others are compiled
/// meanwhile.
#[tokio::test]
async fn a_unit_that_blames_the_machine_holds_up_no_other() {
    for fault in ["echo 'as: x.o: No space left on device' >&2; exit 1", "kill -KILL $$"] {
        let fleet = fleet(|_| {}).await;
        let (launcher, waiting) = (Launcher::new(), Waiting::default());
        let worker = fleet.worker(|config| {
            launcher.set(config);
            config.slots = 1;
            config.waiting = waiting.clone();
        });
        launcher.does(&format!("{IS_TRIAL}{fault}"));
        // More than are a reason to stand still, if a machine is to blame.
        for first in 1..=6 {
            fleet.enqueue(&fleet.job(16 * first, 1)).await;
        }
        until("all to be handed back", async || worker.settled("handed_back") >= 6.0).await;
        assert_eq!(waiting.lasts(On::Machine), Duration::ZERO, "{fault}");
        launcher.does("");
        let mut evals = fleet.consume(&evals()).await;
        let eval: EvalJob = next(&mut evals).await;
        assert!(eval.built.iter().all(Result::is_ok), "{fault}");
        assert!(waiting.is_over());
        worker.stop().await;
    }
}

#[tokio::test]
async fn what_others_do_to_a_compiler_is_no_result() {
    let faults = [
        "kill -TERM $$",
        "kill -KILL $$",
        // Whoever started the tests may have it that a hang-up is ignored; this one is not.
        "kill -USR1 $$",
        "echo 'cc: fatal error: Terminated signal terminated program cc1' >&2; exit 1",
        "kill -STOP $$",
    ];
    for fault in faults {
        let fleet = fleet(|_| {}).await;
        let launcher = Launcher::new();
        launcher.does(&format!("{IS_TRIAL}{fault}"));
        let worker = fleet.worker(|config| {
            launcher.set(config);
            // Who stands still is met at its limit, which must not be that of a compiler on a loaded machine.
            if fault.contains("STOP") {
                config.limits.time = Duration::from_secs(10);
            }
        });
        let job = fleet.job(64, 2);
        fleet.enqueue(&job).await;
        until(&format!("{fault}: it to be handed back"), async || worker.settled("handed_back") >= 1.0).await;
        assert_eq!(worker.settled("done") + worker.settled("dead"), 0.0, "{fault}");
        assert!(!fleet.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
        launcher.does("");
        let mut evals = fleet.consume(&evals()).await;
        let eval: EvalJob = next(&mut evals).await;
        assert!(eval.built.iter().all(Result::is_ok), "{fault}");
        worker.stop().await;
    }
}

/// As a service manager does it, which sends its signal to all that runs.
#[tokio::test]
async fn compilers_that_end_with_the_worker_hand_their_jobs_back_at_once() {
    let fleet = fleet(|_| {}).await;
    let launcher = Launcher::new();
    let ready = launcher.path().with_extension("ready");
    launcher.does(&format!("{IS_TRIAL}: > {0}; while [ -e {0} ]; do sleep 0.01; done; kill -TERM $$", ready.display()));
    let worker = fleet.worker(|config| launcher.set(config));
    let job = fleet.job(64, 2);
    fleet.enqueue(&job).await;
    until("a compiler to run", async || ready.exists()).await;
    worker.stop.cancel();
    std::fs::remove_file(&ready).unwrap();
    worker.stop().await;
    // Not after a delay.
    assert_eq!(fleet.broker.depth(&compile_queue("cc", &Target::Host)).await.unwrap(), 1);
    assert!(!fleet.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
}

#[tokio::test]
async fn who_sits_before_it_is_told_what_is_wrong() {
    let fleet = fleet(|_| {}).await;
    let launcher = Launcher::new();
    launcher.does("echo 'as: x.o: No space left on device' >&2; exit 1");
    for patience in [None, Some(Duration::from_millis(100))] {
        let worker = fleet.worker(|config| {
            launcher.set(config);
            config.alone = patience.is_none();
            config.give_up = patience;
        });
        let job = fleet.job(64, 2);
        fleet.enqueue(&job).await;
        let error = tokio::time::timeout(PATIENCE, worker.task).await.unwrap().unwrap().expect_err("it can not go on");
        assert!(matches!(error, Error::Unfit { .. }) && error.to_string().contains("No space left"), "{error}");
        assert!(!fleet.store.has_outcome(&job.session, job.group(), job.id()).await.unwrap());
    }
}
