//! Versions of kernel specs among rows: one that was edited leaves what came of the older one behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluefin_exporter::results::Row;

use crate::moment;

/// Characters of a digest that tell one from another.
const SHORT: usize = 8;

/// By the name of the spec: digest, and when the last of its rows was finished, in milliseconds since the Unix epoch.
#[derive(Default)]
pub(crate) struct Versions(BTreeMap<Arc<str>, Vec<(Arc<str>, u64)>>);

impl Versions {
    /// Takes note of a row.
    pub(crate) fn see(&mut self, row: &Row) {
        let Some(digest) = &row.spec_digest else { return };
        let known = match self.0.get_mut(&row.spec) {
            Some(known) => known,
            None => self.0.entry(Arc::clone(&row.spec)).or_default(),
        };
        match known.iter_mut().find(|(known, _)| known == digest) {
            Some((_, last)) => *last = (*last).max(row.finished_ms),
            None => known.push((Arc::clone(digest), row.finished_ms)),
        }
    }

    /// The spec of `row`, with its version once there are several.
    pub(crate) fn named(&self, row: &Row) -> String {
        let is_one_of_many = self.0.get(&row.spec).is_some_and(|known| known.len() > 1);
        match row.spec_digest.as_deref().filter(|_| is_one_of_many) {
            Some(digest) => format!("{}, version {}", row.spec, short(digest)),
            None => row.spec.to_string(),
        }
    }

    /// A line for each spec of which there are several.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(_, known)| known.len() > 1).filter_map(|(spec, known)| {
            let (newest, last) = known.iter().max_by_key(|(_, last)| *last)?;
            let (count, newest, last) = (known.len(), short(newest), moment::at(*last));
            Some(format!(
                "note: rows are of {count} versions of {spec}, which was edited; the newest is {newest}, until {last}"
            ))
        })
    }
}

fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}
