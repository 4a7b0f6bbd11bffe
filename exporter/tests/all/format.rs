//! A format that bluefin does not ship.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;

use bluefin_common::candidate::Candidate;
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_exporter::fold::{Fold, Group, Warnings};
use bluefin_exporter::format::{AnyRecords, Format, Records};
use bluefin_exporter::{ExportError, ExportRequest, Output, export};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;

use crate::support::{CONV, Sample, Spec, conv, outcomes, session};

/// A line for each problem: who won it, of how many.
#[derive(Debug)]
struct Lines;

#[derive(Default)]
struct LineRecords(BTreeSet<String>);

impl Format for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn about(&self) -> &'static str {
        "winners.txt: the winner of every problem"
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(LineRecords::default())
    }
}

impl Fold for LineRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let Some(winner) = group.decision.as_ref().and_then(|decision| decision.winner()) else { return };
        let (problem, solvers) = (group.problem.canonical(), group.description.solvers.len());
        if solvers != 3 {
            warnings.insert(format!("{problem}: found {solvers} solvers, expected 3"));
        }
        self.0.insert(format!("{problem}: {} of {solvers}", winner.outcome.candidate));
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.0.extend(other.0);
    }
}

impl Records for LineRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let name = format!("{}.winners.txt", out.base);
        let write = move |out: &mut std::io::BufWriter<std::fs::File>| -> std::io::Result<u64> {
            self.0.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            Ok(self.0.len() as u64)
        };
        out.text(&name, write)
    }
}

#[tokio::test]
async fn a_format_of_ones_own_is_written_and_counted() {
    let (session, spec) = (session(&Stage::ALL), Spec::new(CONV));
    let times = |_: Stage, candidate: &Candidate| Ok(if candidate.solver == "TinyFft" { 1.0 } else { 2.0 });
    let groups = (1..200).map(|n| outcomes(&session, &spec, &conv(Direction::Forward, n), &times)).collect();
    let mut sample = Sample::new(&session, &[&spec], groups);
    let mut expected = None;
    let mut random = rand::rngs::SmallRng::seed_from_u64(1);
    for _ in 0..3 {
        let out = tempfile::tempdir().unwrap();
        let request = ExportRequest { formats: vec![Arc::new(Lines)], ..ExportRequest::all(out.path().to_path_buf()) };
        let report = export(&sample, &session.name, &request).await.unwrap();
        let [file] = report.files.as_slice() else { panic!("{:?}", report.files) };
        assert_eq!(file.path, out.path().join("gfx90a68.winners.txt"));
        let text = std::fs::read_to_string(&file.path).unwrap();
        assert_eq!((file.records, file.bytes, text.lines().count()), (199, text.len() as u64, 199));
        assert!(text.lines().all(|line| line.ends_with(": TinyFft: of 3")), "{text}");
        assert_eq!(report.warnings, [""; 0]);
        assert_eq!(*expected.get_or_insert_with(|| text.clone()), text);
        sample.groups.shuffle(&mut random);
    }
}

#[tokio::test]
async fn it_stands_beside_those_that_are_shipped_and_fails_with_them() {
    let (session, spec) = (session(&Stage::ALL), Spec::new(CONV));
    let group = outcomes(&session, &spec, &conv(Direction::Forward, 1), &|_, _| Ok(1.0));
    let sample = Sample::new(&session, &[&spec], vec![group]);
    let out = tempfile::tempdir().unwrap();
    let mut request = ExportRequest::all(out.path().to_path_buf());
    request.formats.push(Arc::new(Lines));
    let report = export(&sample, &session.name, &request).await.unwrap();
    assert_eq!(report.files.len(), 6, "three databases, of which the perf db has two files, winners, and one more");
    assert_eq!(report.files.last().unwrap().path, out.path().join("gfx90a68.winners.txt"));

    /// What can not be written.
    #[derive(Debug)]
    struct Broken;
    struct Nothing;
    impl Format for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }
        fn about(&self) -> &'static str {
            "nothing"
        }
        fn records(&self) -> AnyRecords {
            AnyRecords::new(Nothing)
        }
    }
    impl Fold for Nothing {
        fn add(&mut self, _: &Group<'_>, _: &mut Warnings) {}
        fn merge(&mut self, _: Self, _: &mut Warnings) {}
    }
    impl Records for Nothing {
        async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
            out.blocking("broken", |_| Err::<u64, _>(std::io::Error::other("on fire")))
        }
    }
    let out = tempfile::tempdir().unwrap();
    let mut request = ExportRequest::all(out.path().to_path_buf());
    request.formats.push(Arc::new(Broken));
    let error = export(&sample, &session.name, &request).await.unwrap_err().to_string();
    assert!(error.contains("broken") && error.ends_with("on fire"), "{error}");
    assert_eq!(out.path().read_dir().unwrap().count(), 0, "none is there where one failed");
}
