//! Versions of kernel specs: one that was edited leaves what came of the older one behind.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Characters of a digest that tell one from another.
const SHORT: usize = 8;

/// By the name of the spec: digest, and when the last of its outcomes was finished, in milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub struct Versions(BTreeMap<Arc<str>, Vec<(Arc<str>, u64)>>);

impl Versions {
    /// Takes note of an outcome of the spec `name`.
    pub fn see(&mut self, name: &Arc<str>, digest: &Arc<str>, finished_ms: u64) {
        let known = match self.0.get_mut(name) {
            Some(known) => known,
            None => self.0.entry(Arc::clone(name)).or_default(),
        };
        match known.iter_mut().find(|(known, _)| known == digest) {
            Some((_, last)) => *last = (*last).max(finished_ms),
            None => known.push((Arc::clone(digest), finished_ms)),
        }
    }

    /// Takes over what `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        for (name, known) in &other.0 {
            known.iter().for_each(|(digest, last)| self.see(name, digest, *last));
        }
    }

    /// The spec `name`, with its version once there are several.
    #[must_use]
    pub fn named(&self, name: &str, digest: Option<&str>) -> String {
        let is_one_of_many = self.0.get(name).is_some_and(|known| known.len() > 1);
        match digest.filter(|_| is_one_of_many) {
            Some(digest) => format!("{name}, version {}", short(digest)),
            None => name.to_string(),
        }
    }

    /// A line for each spec of which there are several.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(_, known)| known.len() > 1).filter_map(|(name, known)| {
            let (newest, _) = known.iter().max_by_key(|(_, last)| *last)?;
            let (count, newest) = (known.len(), short(newest));
            Some(format!("{name} was edited: rows are of {count} versions, {newest} is the newest"))
        })
    }
}

fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}
