//! A row of a config file: by which block sizes and options a kernel is launched.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::engine::Engine;

pub const M: &str = "BLOCK_SIZE_M";
pub const N: &str = "BLOCK_SIZE_N";
pub const K: &str = "BLOCK_SIZE_K";
pub const GROUP: &str = "GROUP_SIZE_M";
pub const WARPS: &str = "num_warps";
pub const STAGES: &str = "num_stages";
pub const WAVES: &str = "waves_per_eu";
pub const NONKDIM: &str = "matrix_instr_nonkdim";
pub const KPACK: &str = "kpack";
pub const SPLIT_K: &str = "SPLIT_K";
pub const USE_TMA: &str = "USE_TMA";
pub const SWAP_AB: &str = "SWAP_AB";
pub const MAXNREG: &str = "maxnreg";

/// Block sizes and launch options by name, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Row(pub Map<String, Json>);

impl Row {
    /// A row of whole numbers.
    #[must_use]
    pub fn of<const COUNT: usize>(fields: [(&str, i64); COUNT]) -> Self {
        Self(fields.into_iter().map(|(key, value)| (key.to_string(), Json::from(value))).collect())
    }

    /// The whole number that `key` has.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        self.0.get(key).and_then(Json::as_i64)
    }

    /// Puts a whole number in the place of what `key` had, or behind the rest.
    pub fn set(&mut self, key: &str, value: i64) {
        self.0.insert(key.to_string(), Json::from(value));
    }

    /// The same without `key`.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.0.shift_remove(key);
        self
    }

    /// In the order in which the engine's tuner writes the keys. Keys that the tuner does not write follow in theirs.
    #[must_use]
    pub fn ordered(&self, engine: Engine) -> Self {
        let order = engine.info().order;
        let known = order.iter().filter_map(|key| self.0.get_key_value(*key));
        let others = self.0.iter().filter(|(key, _)| !order.contains(&key.as_str()));
        Self(known.chain(others).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Whether both have the same values, in whatever order.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|(key, value)| other.0.get(key) == Some(value))
    }

    /// As people read it: `16x64x128 g1 w4 s3`, then what else there is.
    #[must_use]
    pub fn short(&self) -> String {
        let shown = |key: &str| self.0.get(key).map_or_else(|| "-".to_string(), plain);
        let mut text = format!("{}x{}x{} g{}", shown(M), shown(N), shown(K), shown(GROUP));
        for (key, letter) in [(WARPS, 'w'), (STAGES, 's')] {
            if let Some(value) = self.0.get(key) {
                text.push_str(&format!(" {letter}{}", plain(value)));
            }
        }
        for (key, value) in &self.0 {
            if ![M, N, K, GROUP, WARPS, STAGES].contains(&key.as_str()) {
                text.push_str(&format!(" {key}={}", plain(value)));
            }
        }
        text
    }
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_the_tuner_orders_them() {
        let row =
            Row::of([(SPLIT_K, 1), (STAGES, 3), (M, 16), ("num_ctas", 1), (K, 64), (N, 32), (WARPS, 4), (GROUP, 1)]);
        let keys: Vec<String> = row.ordered(Engine::VLLM).0.into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [M, N, K, GROUP, WARPS, STAGES, SPLIT_K, "num_ctas"]);
        assert_eq!(row.short(), "16x32x64 g1 w4 s3 SPLIT_K=1 num_ctas=1");
        assert!(row.is_same(&row.ordered(Engine::SGLANG)) && !row.is_same(&row.clone().without(SPLIT_K)));
    }
}
