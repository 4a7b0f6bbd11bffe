//! What was made of recipes.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bluefin_common::artifact::ArtifactRef;
use bytes::Bytes;

use super::{Recipe, Routing};

/// Each once, however many ask for it at a time. A clone is the same cache.
#[derive(Clone, Default)]
pub(crate) struct Made(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    blobs: HashMap<Recipe, Arc<OnceLock<Attempt>>>,
    /// Which of its draws a run computes, of a routing that several buffers are made of.
    draws: HashMap<Routing, Arc<OnceLock<Drawn>>>,
}

/// A blob with its name, or why a recipe makes none.
type Attempt = Result<(ArtifactRef, Bytes), String>;
/// The groups of all rows, draw by draw.
type Drawn = Vec<Vec<u32>>;

impl fmt::Debug for Made {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Made")
    }
}

/// Blobs that are remembered: those of a ladder of batch sizes.
const BLOBS: usize = 128;
/// Routings whose draws are: the buffers of a problem are made one after the other.
const ROUTINGS: usize = 16;

impl Made {
    /// The blob of a recipe.
    pub(super) fn get(&self, recipe: &Recipe) -> Attempt {
        let blob = self.cell(recipe, BLOBS, |known| &mut known.blobs);
        let make = || {
            recipe.check_length()?;
            let drawn = self.cell(&recipe.routing, ROUTINGS, |known| &mut known.draws);
            let bytes = recipe.bytes(drawn.get_or_init(|| recipe.routing.of_all_draws()))?;
            Ok((ArtifactRef::of(&bytes), Bytes::from(bytes)))
        };
        blob.get_or_init(make).clone()
    }

    /// The place of `key`, which nobody waits for who asks for another.
    fn cell<K: Clone + Eq + Hash, V>(
        &self,
        key: &K,
        most: usize,
        of: impl Fn(&mut Known) -> &mut HashMap<K, Arc<OnceLock<V>>>,
    ) -> Arc<OnceLock<V>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cells = of(&mut known);
        if cells.len() >= most && !cells.contains_key(key) {
            cells.clear();
        }
        Arc::clone(cells.entry(key.clone()).or_default())
    }
}
