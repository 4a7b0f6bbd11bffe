//! `winners.json`: every problem with its winner, one problem a line so that two files can be compared.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bluefin_common::digest::Digest;
use bluefin_common::session::Session;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;
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
    /// As JSON, which is smaller than the structure.
    summaries: BTreeMap<Place, Box<str>>,
}

impl Fold for WinnersRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let summary = Summary::of(group);
        match serde_json::to_string(&summary) {
            Ok(json) => {
                self.summaries.insert((summary.problem, summary.spec, group.spec), json.into());
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
        out.text("winners.json", move |out| document(out, &session, &self.summaries)).await
    }
}

/// Writes the document. Returns the number of problems.
fn document(out: &mut impl Write, session: &Session, summaries: &BTreeMap<Place, Box<str>>) -> io::Result<u64> {
    let (name, target) = (session.name.as_str(), session.target.to_string());
    // Both are plain: they need no escapes.
    write!(out, "{{\n\"format\": {FORMAT},\n\"session\": \"{name}\",\n\"target\": \"{target}\",\n\"problems\": [")?;
    for (index, summary) in summaries.values().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        out.write_all(summary.as_bytes())?;
    }
    out.write_all(b"\n]\n}\n")?;
    Ok(summaries.len() as u64)
}
