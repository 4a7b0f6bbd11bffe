//! Releases: made of folders and sessions, never changed, verified, exported, pointed to.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::candidate::Candidate;
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::problem::{Direction, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Blobs as _, Records as _, Sessions as _, Store, Work as _};
use bluefin_common::wire;
use bluefin_exporter::release::{
    Base, Catalog, CreateRequest, Created, Manifest, Move, Policy, Reason, Record, ReleaseError, ReleaseFile, create,
};
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelDb;

use crate::support::{CONV, Sample, Spec, conv, outcomes, session};

fn request(name: &str) -> CreateRequest {
    CreateRequest {
        name: name.parse().unwrap(),
        from: None,
        sessions: Vec::new(),
        policy: Policy::KeepBest,
        target: None,
        channel: None,
        note: String::new(),
        top: None,
        partial: false,
    }
}

fn of_session(name: &str, session: &str) -> CreateRequest {
    CreateRequest { sessions: vec![session.parse().unwrap()], ..request(name) }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.read_dir().unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// A finished session of `problems`, `factor` times slower than another.
async fn finished(store: &dyn Store, name: &str, problems: &[Problem], factor: f64) {
    let spec = Spec::new(CONV);
    let session = Session { name: name.parse().unwrap(), ..session(&Stage::ALL) };
    store.create_session(&session).await.unwrap();
    let times = |_: Stage, candidate: &Candidate| -> Result<f64, FailureKind> {
        let tile = candidate.params.first().map_or(0.25, |tile| tile.to_string().parse::<f64>().unwrap());
        Ok(factor * (10.0 - tile.min(9.0)))
    };
    let groups = problems.iter().map(|problem| outcomes(&session, &spec, problem, &times)).collect();
    let sample = Sample::new(&session, &[&spec], groups);
    for blob in sample.blobs.values() {
        store.put_blob(blob).await.unwrap();
    }
    for (group, outcomes) in &sample.groups {
        for outcome in outcomes {
            store.put_outcome(outcome).await.unwrap();
        }
        store.settle_group(&session.name, *group).await.unwrap();
    }
}

async fn exported(store: &dyn Store, manifest: &Manifest) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    Catalog::new(store).export(manifest, folder.path()).await.unwrap();
    files(folder.path())
}

#[tokio::test]
async fn a_line_of_releases() {
    let store = SqliteStore::in_memory().unwrap();
    let forward = |n| conv(Direction::Forward, n);
    finished(&store, "one", &[forward(1), forward(2)], 1.0).await;
    finished(&store, "two", &[forward(2), forward(3)], 0.5).await;
    let first = create(&store, &of_session("1", "one")).await.unwrap();
    assert!(first.new && first.warnings.is_empty(), "{:?}", first.warnings);
    let names: Vec<&str> = first.manifest.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["gfx90a68.HIP.fdb.txt", "gfx90a68.db", "gfx90a68.db.txt", "gfx90a68.kdb"]);

    let on_first = CreateRequest { from: Some("1".into()), ..of_session("2", "two") };
    let second = create(&store, &on_first).await.unwrap();
    let Created { merged, manifest, .. } = &second;
    assert_eq!((merged[0].new_keys, merged[0].changed_keys, merged[0].kept_keys), (1, 1, 0));
    let base = Base::Release { name: "1".parse().unwrap(), digest: first.digest };
    assert_eq!(manifest.base.as_ref(), Some(&base));
    let files = exported(&store, manifest).await;
    let find = FindDb::parse("find", &files["gfx90a68.HIP.fdb.txt"]).unwrap();
    assert!(find.findings.is_empty());
    let best: Vec<f32> = find.records.values().map(|entries| entries[0].time_ms).collect();
    assert_eq!(best, [1.0, 0.5, 0.5], "the session's where it is faster");
    let kernels = KernelDb::parse("kernels", &files["gfx90a68.kdb"]).unwrap();
    assert_eq!(kernels.rows.len(), 3);
    assert!(kernels.rows.iter().all(|row| row.code().is_ok()));

    // The slower session changes nothing.
    let worse = create(&store, &CreateRequest { from: Some("2".into()), ..of_session("3", "one") }).await.unwrap();
    assert_eq!(worse.merged[0].kept_keys + worse.merged[0].changed_keys, 2);
    assert_eq!(exported(&store, &worse.manifest).await, files);
    // Unless it is to replace.
    let replacing = CreateRequest { from: Some("2".into()), policy: Policy::Replace, ..of_session("4", "one") };
    let replaced = create(&store, &replacing).await.unwrap();
    let find = exported(&store, &replaced.manifest).await.remove("gfx90a68.HIP.fdb.txt").unwrap();
    let find = FindDb::parse("find", &find).unwrap();
    assert_eq!(find.records.values().map(|entries| entries[0].time_ms).collect::<Vec<_>>(), [1.0, 1.0, 0.5]);

    let catalog = Catalog::new(&store);
    let listed: Vec<String> = catalog.list().await.unwrap().iter().map(|manifest| manifest.name.to_string()).collect();
    assert_eq!(listed, ["1", "2", "3", "4"]);
    for manifest in catalog.list().await.unwrap() {
        assert_eq!(catalog.verify(&manifest).await.unwrap().findings, [""; 0], "{}", manifest.name);
    }
    store.close().await;
}

#[tokio::test]
async fn a_name_is_given_once() {
    let store = SqliteStore::in_memory().unwrap();
    finished(&store, "one", &[conv(Direction::Forward, 1)], 1.0).await;
    finished(&store, "two", &[conv(Direction::Forward, 1)], 2.0).await;
    let first = create(&store, &of_session("1", "one")).await.unwrap();
    let again = create(&store, &of_session("1", "one")).await.unwrap();
    assert!(!again.new);
    assert_eq!((again.digest, again.manifest), (first.digest, first.manifest));
    let error = create(&store, &of_session("1", "two")).await.unwrap_err();
    assert!(matches!(error, ReleaseError::Taken { .. }), "{error}");
    store.close().await;
}

#[tokio::test]
async fn what_can_not_be_released_is_told() {
    let store = SqliteStore::in_memory().unwrap();
    let spec = Spec::new(CONV);
    let open = Session { name: "open".parse().unwrap(), ..session(&Stage::ALL) };
    store.create_session(&open).await.unwrap();
    store.put_blob(&spec.bytes).await.unwrap();
    let times = |_: Stage, _: &Candidate| Ok(1.0);
    let problem = conv(Direction::Forward, 1);
    let perf: Vec<_> = outcomes(&open, &spec, &problem, &times);
    for outcome in perf.iter().filter(|outcome| outcome.job.stage == Stage::Perf) {
        store.put_outcome(outcome).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display().to_string();
    let told = |request: CreateRequest| {
        let store = &store;
        async move { create(store, &request).await.unwrap_err().to_string() }
    };
    let error = told(of_session("1", "open")).await;
    assert!(error.starts_with("session open: 1 of 1 problems are not finished"), "{error}");
    assert!(told(of_session("1", "none")).await.contains("there is none of that name; there is open"));
    let from = |from: &str, target: Option<&str>| CreateRequest {
        from: Some(from.to_string()),
        target: target.map(|target| target.parse().unwrap()),
        ..request("1")
    };
    assert!(told(from("no-such", None)).await.contains("neither a release of the store nor a folder"));
    assert!(told(from(&here, None)).await.contains("--target"));
    let error = told(from(&here, Some("gfx90a-104"))).await;
    assert!(error.contains("expected one such as gfx90a68.HIP.fdb.txt"), "{error}");
    let other = CreateRequest { target: Some("gfx906-60".parse().unwrap()), partial: true, ..of_session("1", "open") };
    assert!(told(other).await.contains("found target gfx90a-104, expected gfx906-60"));
    assert!(Catalog::new(&store).list().await.unwrap().is_empty());
    let partial = create(&store, &CreateRequest { partial: true, ..of_session("1", "open") }).await.unwrap();
    assert!(partial.new);
    store.close().await;
}

#[tokio::test]
async fn channels_move_and_move_back() {
    let store = SqliteStore::in_memory().unwrap();
    let stable = "stable".parse().unwrap();
    for (index, name) in ["1", "2", "3"].into_iter().enumerate() {
        let session = format!("session-{name}");
        finished(&store, &session, &[conv(Direction::Forward, 1)], 3.0 - index as f64).await;
        let request = CreateRequest { channel: Some("stable".parse().unwrap()), ..of_session(name, &session) };
        let created = create(&store, &request).await.unwrap();
        assert_eq!(created.moved.unwrap().step, index as u64 + 1);
        // The same again moves nothing.
        assert_eq!(create(&store, &request).await.unwrap().moved.unwrap().step, index as u64 + 1);
    }
    let catalog = Catalog::new(&store);
    let at = || async { catalog.steps(&stable, None).await.unwrap().last().unwrap().release.to_string() };
    assert_eq!(at().await, "3");
    catalog.roll_back(&stable, None, None).await.unwrap();
    assert_eq!(at().await, "2");
    catalog.roll_back(&stable, None, None).await.unwrap();
    assert_eq!(at().await, "1");
    let error = catalog.roll_back(&stable, None, None).await.unwrap_err().to_string();
    assert_eq!(error, "channel stable: pointed to no other release before");
    catalog.roll_back(&stable, None, Some(&"3".parse().unwrap())).await.unwrap();
    assert_eq!(at().await, "3");
    let error = catalog.roll_back(&stable, None, Some(&"9".parse().unwrap())).await.unwrap_err().to_string();
    assert_eq!(error, "channel stable: never pointed to 9");
    let steps = catalog.steps(&stable, Some(&"gfx90a-104".parse().unwrap())).await.unwrap();
    let history: Vec<(u64, String)> = steps.iter().map(|step| (step.step, step.release.to_string())).collect();
    let expected = [(1, "1"), (2, "2"), (3, "3"), (4, "2"), (5, "1"), (6, "3")];
    assert_eq!(history, expected.map(|(step, release)| (step, release.to_string())));
    assert!(catalog.steps(&stable, Some(&"gfx906-60".parse().unwrap())).await.is_err());
    store.close().await;
}

#[tokio::test]
async fn many_who_move_a_channel_at_once_lose_no_step() {
    let store = SqliteStore::in_memory().unwrap();
    let mut manifests = Vec::new();
    for n in 1..=8 {
        finished(&store, &format!("s{n}"), &[conv(Direction::Forward, n)], 1.0).await;
        manifests.push(create(&store, &of_session(&format!("r{n}"), &format!("s{n}"))).await.unwrap().manifest);
    }
    let channel = "c".parse().unwrap();
    let catalog = Catalog::new(&store);
    let moves = manifests.iter().map(|manifest| catalog.move_channel(&channel, manifest, Reason::Created));
    let moves: Vec<Move> = futures_util::future::try_join_all(moves).await.unwrap();
    let mut steps: Vec<u64> = moves.iter().map(|step| step.step).collect();
    steps.sort_unstable();
    assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(catalog.steps(&channel, None).await.unwrap().len(), 8);
    store.close().await;
}

#[tokio::test]
async fn what_was_changed_behind_its_back_is_noticed() {
    let store = SqliteStore::in_memory().unwrap();
    finished(&store, "one", &[conv(Direction::Forward, 1)], 1.0).await;
    let first = create(&store, &of_session("1", "one")).await.unwrap();
    let second = create(&store, &CreateRequest { from: Some("1".into()), ..request("2") }).await.unwrap();
    assert_eq!(exported(&store, &first.manifest).await, exported(&store, &second.manifest).await);
    let catalog = Catalog::new(&store);

    // A record whose digest is not its own.
    let mut manifest = first.manifest.clone();
    manifest.note = "changed".into();
    let record = Record::Release { manifest: manifest.clone(), digest: first.digest };
    store.put_records(shelf::RELEASES, &[("1".into(), wire::encode(&record).unwrap())]).await.unwrap();
    let error = catalog.get(&manifest.name).await.unwrap_err().to_string();
    assert!(error.starts_with("release 1: its record was changed"), "{error}");
    // One that says it of itself is noticed by what was made from it.
    let record = Record::Release { digest: manifest.digest(), manifest };
    store.put_records(shelf::RELEASES, &[("1".into(), wire::encode(&record).unwrap())]).await.unwrap();
    let findings = catalog.verify(&second.manifest).await.unwrap().findings;
    assert!(findings.len() == 1 && findings[0].starts_with("base 1: found digest"), "{findings:?}");
    // A file that is gone.
    let mut lost = first.manifest;
    lost.files[0].parts = vec![Digest::of(b"nothing")];
    let findings = catalog.verify(&lost).await.unwrap().findings;
    assert!(findings.len() == 1 && findings[0].ends_with("not in the store"), "{findings:?}");
    store.close().await;
}

#[tokio::test]
async fn shipped_databases_are_a_base() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["gfx942130.HIP.fdb.txt", "gfx942130.db"] {
        std::fs::write(folder.path().join(name), bluefin_test_support::data(&format!("miopen/{name}"))).unwrap();
    }
    let store = SqliteStore::in_memory().unwrap();
    let from = CreateRequest {
        from: Some(folder.path().display().to_string()),
        target: Some("gfx942-304".parse().unwrap()),
        ..request("shipped")
    };
    let created = create(&store, &from).await.unwrap();
    let records: Vec<u64> = created.manifest.files.iter().map(|file| file.records).collect();
    assert_eq!(records, [9600, 21_058, 21_058], "{:?}", created.warnings);
    let shipped = std::fs::read(folder.path().join("gfx942130.HIP.fdb.txt")).unwrap();
    let found = exported(&store, &created.manifest).await.remove("gfx942130.HIP.fdb.txt").unwrap();
    if created.warnings.is_empty() {
        assert!(found == shipped, "nothing was left out, and yet the bytes differ");
    }
    let (shipped, found) = (FindDb::parse("a", &shipped).unwrap(), FindDb::parse("b", &found).unwrap());
    assert!(found.records.keys().eq(shipped.records.keys()));
    assert_eq!(Catalog::new(&store).verify(&created.manifest).await.unwrap().findings, [""; 0]);
    store.close().await;
}

#[test]
fn golden_bytes() {
    let manifest = Manifest {
        name: "2026.1".parse().unwrap(),
        target: "gfx90a-104".parse().unwrap(),
        policy: Policy::Replace,
        base: Some(Base::Files(vec![("gfx90a68.db".into(), Digest::of(b"base"))])),
        sessions: vec!["nightly".parse().unwrap()],
        note: "why".into(),
        created_ms: 1_790_000_000_000,
        files: vec![ReleaseFile {
            name: "gfx90a68.kdb".into(),
            size: 3,
            digest: Digest::of(b"abc"),
            records: 1,
            parts: vec![Digest::of(b"ab"), Digest::of(b"c")],
        }],
    };
    let step = Move {
        channel: "stable".parse().unwrap(),
        target: "gfx90a-104".parse().unwrap(),
        step: 2,
        release: "2026.1".parse().unwrap(),
        reason: Reason::RolledBack,
        moved_ms: 1_790_000_000_001,
    };
    let digest = manifest.digest();
    for (name, record) in [("release", Record::Release { manifest, digest }), ("channel", Record::Move(step))] {
        let bytes = wire::encode(&record).unwrap();
        assert_eq!(wire::decode::<Record>(&bytes).unwrap(), record);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.v1.hex"));
        if std::env::var_os("BLUEFIN_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, format!("{hex}\n")).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default().trim(), hex, "{name}");
    }
}
