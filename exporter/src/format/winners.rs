//! `winners.json`: every problem with its winner, one problem a line so that two files can be compared.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use bluefin_common::digest::Digest;
use bluefin_common::session::Session;
use bluefin_common::spelled::counted;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::{Output, WhichSpecs};
use crate::summary::Summary;

/// Version of the document; changes when a field changes its meaning.
const FORMAT: u32 = 1;

/// `winners.json`.
#[derive(Clone, Copy, Debug)]
pub struct WinnersFormat;

impl Format for WinnersFormat {
    fn name(&self) -> &'static str {
        "winners"
    }

    fn about(&self) -> &'static str {
        "winners.json: every problem with its winner, also GEMMs and your own kernels"
    }

    fn flag(&self) -> Option<char> {
        Some('w')
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(WinnersRecords::default())
    }
}

/// Where a summary stands in the document: problem, name and digest of its spec.
type Place = (String, String, Digest);

/// Summaries of problems.
#[derive(Debug, Default)]
pub struct WinnersRecords {
    summaries: BTreeMap<Place, Told>,
}

/// A summary.
#[derive(Debug)]
struct Told {
    /// As JSON, which is smaller than the structure.
    json: Box<str>,
    /// When its last outcome was finished.
    tuned_ms: u64,
}

impl Fold for WinnersRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let summary = Summary::of(group);
        match serde_json::to_string(&summary) {
            Ok(json) => {
                let told = Told { json: json.into(), tuned_ms: summary.tuned_ms };
                self.summaries.insert((summary.problem, summary.spec, group.spec), told);
            }
            Err(error) => {
                warnings.insert(format!("{}: not in winners.json: {error}", group.problem));
            }
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.summaries.extend(other.summaries);
    }
}

impl Records for WinnersRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let session = out.session.clone();
        let all = matches!(out.specs, WhichSpecs::All);
        let Self { mut summaries } = self;
        if let WhichSpecs::Current(in_use) = out.specs {
            let before = summaries.len();
            keep_current(&mut summaries, in_use);
            let left_out = before - summaries.len();
            if left_out > 0 {
                let left_out = counted(left_out as u64, "result");
                out.notes.push(format!(
                    "not in winners.json: {left_out} of kernel specs that were edited since; --all-specs writes them"
                ));
            }
        }
        out.text("winners.json", move |out| document(out, &session, &summaries, all))
    }
}

/// Leaves one spec of each name for each problem: that which is `in_use`, else that with the newest outcome.
fn keep_current(summaries: &mut BTreeMap<Place, Told>, in_use: &HashSet<Digest>) {
    let mut best: BTreeMap<(String, String), (bool, u64, Digest)> = BTreeMap::new();
    for ((problem, spec, digest), told) in summaries.iter() {
        let rank = (in_use.contains(digest), told.tuned_ms, *digest);
        let best = best.entry((problem.clone(), spec.clone())).or_insert(rank);
        *best = (*best).max(rank);
    }
    *summaries = std::mem::take(summaries)
        .into_iter()
        .filter(|((problem, spec, digest), _)| {
            best.get(&(problem.clone(), spec.clone())).is_none_or(|(_, _, current)| current == digest)
        })
        .collect();
}

/// Writes the document. Returns the number of problems.
fn document(
    out: &mut impl Write,
    session: &Session,
    summaries: &BTreeMap<Place, Told>,
    with_times: bool,
) -> io::Result<u64> {
    let (name, target) = (session.name.as_str(), session.target.to_string());
    // Both are plain: they need no escapes.
    write!(out, "{{\n\"format\": {FORMAT},\n\"session\": \"{name}\",\n\"target\": \"{target}\",\n\"problems\": [")?;
    for (index, Told { json, tuned_ms }) in summaries.values().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        match json.strip_suffix('}').filter(|_| with_times) {
            Some(open) => {
                let tuned = UNIX_EPOCH + Duration::from_millis(*tuned_ms);
                write!(out, "{open},\"tuned\":\"{}\"}}", humantime::format_rfc3339_seconds(tuned))?;
            }
            None => out.write_all(json.as_bytes())?,
        }
    }
    out.write_all(b"\n]\n}\n")?;
    Ok(summaries.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(specs: &[(&str, &[u8], u64)]) -> BTreeMap<Place, Told> {
        let place = |(name, digest, tuned_ms): &(&str, &[u8], u64)| {
            let told = Told { json: "{}".into(), tuned_ms: *tuned_ms };
            (("p".to_string(), (*name).to_string(), Digest::of(digest)), told)
        };
        specs.iter().map(place).collect()
    }

    #[test]
    fn the_newest_spec_of_a_name_stays_unless_an_older_one_is_in_use() {
        let all = || told(&[("a", b"1", 10), ("a", b"2", 20), ("b", b"1", 5)]);
        let left = |in_use: &[&[u8]]| {
            let mut summaries = all();
            keep_current(&mut summaries, &in_use.iter().map(|bytes| Digest::of(bytes)).collect());
            summaries.into_values().map(|told| told.tuned_ms).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [20, 5]);
        assert_eq!(left(&[b"1"]), [10, 5]);
        assert_eq!(left(&[b"1", b"2"]), [20, 5]);
    }

    #[test]
    fn times_are_told_where_all_specs_are() {
        let session = Session::of_kernels(
            "s".parse().unwrap(),
            bluefin_common::target::Target::Host,
            "",
            &bluefin_common::session::Stage::ALL,
            0,
        );
        let mut summaries = told(&[("a", b"1", 1_700_000_000_000)]);
        summaries.values_mut().for_each(|told| told.json = r#"{"label":"x"}"#.into());
        let text = |with_times| {
            let mut out = Vec::new();
            document(&mut out, &session, &summaries, with_times).unwrap();
            let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
            document["problems"][0].to_string()
        };
        assert_eq!(text(false), r#"{"label":"x"}"#);
        assert_eq!(text(true), r#"{"label":"x","tuned":"2023-11-14T22:13:20Z"}"#);
    }
}
