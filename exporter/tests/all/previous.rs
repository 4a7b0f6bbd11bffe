//! Outcomes that the previous release wrote: they export to the same bytes, also beside those of this one.

use std::collections::BTreeMap;
use std::path::Path;

use bluefin_common::candidate::Candidate;
use bluefin_common::failure::FailureKind;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Direction;
use bluefin_common::session::Stage;
use bluefin_exporter::summary::summaries;
use bluefin_exporter::{ExportError, ExportRequest, export};

use crate::support::{CONV, Sample, Spec, conv, of_previous, outcomes, session};

/// [`CONV`] with default params that win only because they are the default: others take less workspace.
fn spec() -> Spec {
    Spec::new(&CONV.replacen("default = 1", "default = 4", 1))
}

fn times(stage: Stage, candidate: &Candidate) -> Result<f64, FailureKind> {
    match candidate.solver.as_str() {
        "TinyReference" => Ok(40.0),
        "TinyFft" => Err(FailureKind::CompileError),
        _ if candidate.params == [64_i64.into(), 2_i64.into()] => Ok(9.0),
        _ => Ok(if stage == Stage::Find { 1.01 } else { 1.0 }),
    }
}

fn sample(spec: &Spec, written: impl Fn(usize, Outcome) -> Outcome) -> Sample {
    let session = session(&Stage::ALL);
    let groups = (1..8).flat_map(|n| Direction::ALL.map(|direction| conv(direction, n)));
    let groups = groups.map(|problem| {
        let outcomes = outcomes(&session, spec, &problem, &times).into_iter();
        outcomes.enumerate().map(|(index, outcome)| written(index, outcome)).collect()
    });
    Sample::new(&session, &[spec], groups.collect())
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.read_dir().unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

#[tokio::test]
async fn both_versions_export_the_same_bytes() {
    let spec = spec();
    let name = "nightly".parse().unwrap();
    let mut expected = None;
    // All of this release, all of the previous one, then some of each in every group.
    let written: [&dyn Fn(usize) -> bool; 5] = [&|_| false, &|_| true, &|n| n == 0, &|n| n % 2 == 1, &|n| n > 1];
    for is_previous in written {
        let written = |index, outcome| if is_previous(index) { of_previous(outcome) } else { outcome };
        let sample = sample(&spec, written);
        let out = tempfile::tempdir().unwrap();
        let report = export(&sample, &name, &ExportRequest::all(out.path().to_path_buf())).await.unwrap();
        let groups: Vec<_> = sample.groups.iter().map(|(group, _)| *group).collect();
        let summaries = summaries(&sample, &sample.session, &groups).await.unwrap();
        let found = (files(out.path()), report.warnings, summaries);
        assert!(*expected.get_or_insert_with(|| found.clone()) == found, "not what one version gives");
    }
    let (files, warnings, summaries) = expected.unwrap();
    assert_eq!(warnings, [""; 0]);
    let params = [("TILE", 4_i64), ("UNROLL", 1)].map(|(name, value)| (name.to_string(), value.into()));
    assert!(summaries.iter().all(|summary| summary.winner.as_ref().unwrap().params == params), "{summaries:?}");
    assert!(files.values().all(|bytes| !bytes.is_empty()));
}

#[tokio::test]
async fn specs_are_asked_for_by_outcomes_of_the_previous_release_alone() {
    let spec = spec();
    let name = "nightly".parse().unwrap();
    let out = tempfile::tempdir().unwrap();
    let request = ExportRequest::all(out.path().to_path_buf());
    let mut sample = sample(&spec, |_, outcome| outcome);
    sample.blobs.remove(&spec.digest).unwrap();
    assert_eq!(export(&sample, &name, &request).await.unwrap().warnings, [""; 0]);

    let first = &mut sample.groups[3].1[1];
    *first = of_previous(first.clone());
    let error = export(&sample, &name, &request).await.unwrap_err();
    assert!(matches!(error, ExportError::NoSpec { digest } if digest == spec.digest), "{error}");
}
