//! What the databases say of a group that was played off is of the same candidates.

use std::collections::{BTreeMap, BTreeSet};

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::best_of_each_solver;
use bluefin_common::failure::FailureKind;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_exporter::{ExportRequest, export};
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::kernel_db::KernelDb;
use bluefin_miopen::db::perf_db::PerfDb;
use proptest::prelude::*;

use crate::support::{CONV, Sample, Spec, code, conv, outcomes, session};

/// Candidates of [`two_tunable`].
const CANDIDATES: usize = 16 + 4 + 1;

/// [`CONV`] with a second tunable solver.
fn two_tunable() -> Spec {
    let radix = "[[solver.param]]\nname = \"RADIX\"\nvalues = [2, 4, 8, 16]\ndefault = 2\n";
    Spec::new(&CONV.replace("algorithm = \"FFT\"\n", &format!("algorithm = \"FFT\"\n{radix}")))
}

/// What the databases and `winners.json` say of one problem.
struct Told {
    /// Time and workspace by solver.
    find: BTreeMap<String, (f32, u64)>,
    /// Params by solver.
    perf: BTreeMap<String, String>,
    kernels: Vec<Vec<u8>>,
    winner: serde_json::Value,
}

impl Told {
    fn of(spec: &Spec, outcomes: &[Outcome]) -> Self {
        let (session, out) = (session(&Stage::ALL), tempfile::tempdir().unwrap());
        let sample = Sample::new(&session, &[spec], vec![outcomes.to_vec()]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = ExportRequest::all(out.path().to_path_buf());
        let report = runtime.block_on(export(&sample, &session.name, &request)).unwrap();
        assert_eq!(report.warnings, [""; 0]);
        let read = |name: &str| std::fs::read(out.path().join(name)).unwrap();
        let find = FindDb::parse("find", &read("gfx90a68.HIP.fdb.txt")).unwrap().records.into_values().flatten();
        let perf = PerfDb::parse_text("perf", &read("gfx90a68.db.txt")).unwrap().records.into_values().flatten();
        let kernels = KernelDb::parse("kernels", &read("gfx90a68.kdb")).unwrap().rows;
        let winners: serde_json::Value = serde_json::from_slice(&read("winners.json")).unwrap();
        Self {
            find: find.map(|entry| (entry.solver.to_string(), (entry.time_ms, entry.workspace))).collect(),
            perf: perf.map(|(solver, params)| (solver.to_string(), params.to_string())).collect(),
            kernels: kernels.iter().map(|row| row.code().unwrap()).collect(),
            winner: winners["problems"][0]["winner"].clone(),
        }
    }

    /// The candidate that `solver` is run with.
    fn candidate(&self, solver: &str) -> String {
        format!("{solver}:{}", self.perf.get(solver).map_or("", String::as_str))
    }

    fn winner(&self) -> String {
        let params = self.winner["params"].as_object().unwrap().values().map(ToString::to_string);
        format!("{}:{}", self.winner["solver"].as_str().unwrap(), params.collect::<Vec<_>>().join(","))
    }
}

#[test]
fn params_that_win_the_play_off_are_in_every_database() {
    let spec = two_tunable();
    let times = |stage: Stage, candidate: &Candidate| {
        let name = candidate.to_string();
        Ok(match (stage, name.as_str()) {
            (Stage::Perf, "TinyTiled:8,1") | (Stage::Find, "TinyTiled:4,2") => 1.0,
            (Stage::Perf, "TinyTiled:4,2") | (Stage::Find, "TinyTiled:8,1") => 1.05,
            (Stage::Perf, "TinyFft:4") | (Stage::Find, "TinyFft:8") => 1.07,
            (Stage::Perf, "TinyFft:8") | (Stage::Find, "TinyFft:4") => 1.09,
            _ => 9.0,
        })
    };
    let told = Told::of(&spec, &outcomes(&session(&Stage::ALL), &spec, &conv(Direction::Forward, 4), &times));
    assert_eq!(
        (told.winner(), &told.winner["median_ms"], &told.winner["ties"]),
        ("TinyTiled:4,2".into(), &1.0.into(), &0.into())
    );
    assert_eq!([told.candidate("TinyTiled"), told.candidate("TinyFft")], ["TinyTiled:4,2", "TinyFft:8"]);
    assert_eq!(
        told.find,
        [("TinyFft", 1.07, 0), ("TinyReference", 9.0, 0), ("TinyTiled", 1.0, 4096)]
            .map(|(solver, ms, workspace)| (solver.to_string(), (ms, workspace)))
            .into()
    );
    let winner = Candidate { solver: "TinyTiled".into(), params: vec![4_i64.into(), 2_i64.into()] };
    assert_eq!(told.kernels, [code(&winner)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn time_params_and_winner_are_of_the_same_candidates(
        times in proptest::collection::vec((0..40_u32, 0..40_u32), CANDIDATES),
    ) {
        let spec = two_tunable();
        let problem = conv(Direction::Forward, 4);
        let scope = spec.spec.scope(&problem, &session(&Stage::ALL).target).unwrap().unwrap();
        let all = spec.spec.solvers.iter().flat_map(|solver| spec.spec.candidates(solver, &scope, 100).unwrap().points);
        let times: BTreeMap<_, _> = all.zip(times).collect();
        prop_assert_eq!(times.len(), CANDIDATES);
        let times = |stage: Stage, candidate: &Candidate| match (stage, times[candidate]) {
            (Stage::Perf, (0, _)) | (Stage::Find, (_, 0)) => Err(FailureKind::Fault),
            (Stage::Perf, (ms, _)) => Ok(1.0 + f64::from(ms) / 200.0),
            (Stage::Find, (_, ms)) => Ok(1.0 + f64::from(ms) / 1000.0),
        };
        let outcomes = outcomes(&session(&Stage::ALL), &spec, &problem, &times);
        let told = Told::of(&spec, &outcomes);

        let find = outcomes.iter().find(|outcome| outcome.job.stage == Stage::Find);
        let played_off: BTreeMap<String, _> = find
            .iter()
            .flat_map(|outcome| &outcome.candidates)
            .filter_map(|outcome| Some((outcome.candidate.to_string(), (outcome, outcome.result.as_ref().ok()?.median_ms))))
            .collect();
        let solvers: BTreeSet<_> = played_off.values().map(|(outcome, _)| outcome.candidate.solver.clone()).collect();
        prop_assert_eq!(solvers, told.find.keys().cloned().collect::<BTreeSet<_>>());
        for (solver, (time_ms, workspace)) in &told.find {
            let (outcome, median_ms) = played_off[&told.candidate(solver)];
            prop_assert!((f64::from(*time_ms) - median_ms).abs() < 1e-5, "{solver}: {time_ms}, played off with {median_ms}");
            prop_assert_eq!(*workspace, outcome.built.as_ref().unwrap().workspace);
        }
        for best in best_of_each_solver(&outcomes).values().filter(|best| !told.find.contains_key(best.solver())) {
            // Its best failed in the play-off, which its params in the perf stage did not.
            prop_assert_eq!(told.candidate(best.solver()), best.outcome.candidate.to_string());
        }

        if played_off.is_empty() {
            prop_assert!(told.winner.is_null() && told.kernels.is_empty());
            return Ok(());
        }
        let (winner, median_ms) = played_off[&told.winner()];
        prop_assert_eq!(told.winner(), told.candidate(&winner.candidate.solver));
        prop_assert_eq!(told.winner["median_ms"].as_f64(), Some(median_ms));
        prop_assert_eq!(told.kernels, [code(&winner.candidate)]);
        for (outcome, ms) in played_off.values() {
            let solver = &outcome.candidate.solver;
            let (time_ms, _) = told.find[solver];
            let behind = f64::from(time_ms) - ms;
            // Nobody is faster than what stands for its solver, but for what ties with the winner.
            prop_assert!(behind < 1e-5 || *solver == winner.candidate.solver && behind < 0.012, "{}", outcome.candidate);
        }
    }
}
