use bluefin_miopen::db::kernel_db::KernelRow;

use super::*;

const KEY: &str = "64-56-56-1x1-64-56-56-16-0x0-1x1-1x1-0-NCHW-FP32-F";
const OTHER: &str = "64-56-56-1x1-64-56-56-32-0x0-1x1-1x1-0-NCHW-FP32-F";

fn perf_key(key: &str) -> PerfDbKey {
    PerfDbKey::from(&FindDbKey::parse(key).unwrap())
}

/// (key, solver, time, params); params of `-` are none.
fn databases(rows: &[(&str, &str, f32, &str)]) -> Databases {
    let mut databases = Databases::default();
    for (key, solver, time_ms, params) in rows {
        let algorithm = "miopenConvolutionFwdAlgoDirect".into();
        let entry = FindEntry::new((*solver).into(), *time_ms, 0, algorithm);
        databases.find.records.entry((*key).to_string()).or_default().push(entry);
        if *params != "-" {
            let solvers = databases.perf.records.entry(perf_key(key)).or_default();
            solvers.insert((*solver).into(), (*params).into());
        }
    }
    databases
}

fn shown(databases: &Databases) -> Vec<String> {
    let mut shown = Vec::new();
    for (key, entries) in &databases.find.records {
        for entry in entries {
            let params = databases.perf.records.get(&perf_key(key)).and_then(|solvers| solvers.get(&entry.solver));
            let key = if key == KEY { "key" } else { "other" };
            shown.push(format!("{key} {} {} {}", entry.solver, entry.time_ms, params.map_or("-", |params| params)));
        }
    }
    shown
}

fn merged(base: &Databases, session: &Databases, policy: Policy) -> (Vec<String>, Merged) {
    let mut base = base.clone();
    let contribution = Contribution { databases: session.clone(), kernel_keys: BTreeMap::new() };
    let counts = merge(&mut base, contribution, policy);
    (shown(&base), counts)
}

#[test]
fn the_best_of_both_is_kept_with_its_params() {
    let base = databases(&[(KEY, "A", 2.0, "a1"), (KEY, "B", 1.0, "b1"), (OTHER, "A", 5.0, "a5")]);
    let session = databases(&[(KEY, "A", 0.5, "a2"), (KEY, "B", 1.5, "b2"), (KEY, "C", 3.0, "-")]);
    let (shown, counts) = merged(&base, &session, Policy::KeepBest);
    assert_eq!(shown, ["key A 0.5 a2", "key B 1 b1", "key C 3 -", "other A 5 a5"]);
    assert_eq!(counts, Merged { changed_keys: 1, ..Merged::default() });
}

#[test]
fn a_session_replaces_its_keys_whole() {
    let base = databases(&[(KEY, "A", 0.1, "a1"), (KEY, "B", 0.2, "b1"), (OTHER, "A", 5.0, "a5")]);
    let session = databases(&[(KEY, "B", 2.0, "b2")]);
    let (shown, counts) = merged(&base, &session, Policy::Replace);
    assert_eq!(shown, ["key B 2 b2", "other A 5 a5"]);
    assert_eq!(counts, Merged { changed_keys: 1, ..Merged::default() });
    let mut replaced = base.clone();
    merge(&mut replaced, Contribution { databases: session, ..Contribution::default() }, Policy::Replace);
    assert_eq!(replaced.perf.records[&perf_key(KEY)].len(), 1, "params of a solver that is gone are gone");
}

#[test]
fn equal_and_missing_times_leave_the_base() {
    let base = databases(&[(KEY, "A", 1.0, "a1"), (KEY, "B", 0.0, "b1"), (KEY, "C", 1.0, "-")]);
    let session = databases(&[(KEY, "A", 1.0, "a2"), (KEY, "B", 7.0, "b2"), (KEY, "C", 0.0, "c2")]);
    let (shown, counts) = merged(&base, &session, Policy::KeepBest);
    // C's params are of no time that counts, but better than none.
    assert_eq!(shown, ["key A 1 a1", "key C 1 c2", "key B 7 b2"]);
    assert_eq!(counts.kept_keys, 1);
}

#[test]
fn a_session_of_the_perf_stage_alone_adds_what_is_missing() {
    let base = databases(&[(KEY, "A", 1.0, "a1")]);
    let mut session = databases(&[(KEY, "A", 1.0, "a2"), (KEY, "B", 1.0, "b2")]);
    session.find.records.clear();
    let mut merged = base.clone();
    merge(&mut merged, Contribution { databases: session, ..Contribution::default() }, Policy::KeepBest);
    let params: Vec<&str> = merged.perf.records[&perf_key(KEY)].values().map(|params| &**params).collect();
    assert_eq!(params, ["a1", "b2"]);
}

#[test]
fn merging_twice_is_merging_once_and_with_itself_is_nothing() {
    let base = databases(&[(KEY, "A", 2.0, "a1"), (KEY, "B", 1.0, "b1")]);
    let session = databases(&[(KEY, "A", 0.5, "a2"), (OTHER, "A", 1.0, "a3")]);
    for policy in [Policy::KeepBest, Policy::Replace] {
        let mut once = base.clone();
        merge(&mut once, Contribution { databases: session.clone(), ..Contribution::default() }, policy);
        let mut twice = once.clone();
        merge(&mut twice, Contribution { databases: session.clone(), ..Contribution::default() }, policy);
        assert_eq!(once, twice, "{policy}");
        let mut same = once.clone();
        merge(&mut same, Contribution { databases: once.clone(), ..Contribution::default() }, policy);
        assert_eq!(once, same, "{policy}");
    }
}

#[test]
fn kernels_follow_the_winners() {
    let name = |name: &str| KernelName { name: format!("{name}.o"), args: " -mcpu=gfx90a".to_string() };
    let with = |mut databases: Databases, kernels: &[(&str, &str)]| {
        for (kernel, code) in kernels {
            databases.kernels.insert(name(kernel), KernelRow::new(name(kernel), code.as_bytes()).unwrap());
        }
        databases
    };
    let base =
        with(databases(&[(KEY, "A", 1.0, "a1"), (OTHER, "A", 1.0, "a1")]), &[("shared", "old"), ("own", "base")]);
    let session = with(
        databases(&[(KEY, "A", 0.5, "a2"), (OTHER, "B", 9.0, "b2")]),
        &[("shared", "new"), ("loser", "slow"), ("user", "of no convolution")],
    );
    let keys = |kernel: &str, keys: &[&str]| (name(kernel), keys.iter().map(|key| (*key).to_string()).collect());
    let kernel_keys = BTreeMap::from([keys("shared", &[KEY, OTHER]), keys("loser", &[OTHER])]);
    let kernels = |policy| {
        let mut merged = base.clone();
        let contribution = Contribution { databases: session.clone(), kernel_keys: kernel_keys.clone() };
        let counts = merge(&mut merged, contribution, policy);
        let codes = merged
            .kernels
            .iter()
            .map(|(name, row)| format!("{} {}", name.name, String::from_utf8(row.code().unwrap()).unwrap()));
        (codes.collect::<Vec<_>>(), counts.kernels)
    };
    let best = ["own.o base", "shared.o new", "user.o of no convolution"].map(String::from).to_vec();
    assert_eq!(kernels(Policy::KeepBest), (best, 2));
    let all = ["loser.o slow", "own.o base", "shared.o new", "user.o of no convolution"].map(String::from).to_vec();
    assert_eq!(kernels(Policy::Replace), (all, 3));
}
