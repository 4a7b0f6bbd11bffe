//! Small values that last, by shelf and key. What is on which [shelf](crate::shelf) is its owner's business.

use async_trait::async_trait;

use super::StoreError;

/// Shelves of small values.
#[async_trait]
pub trait Records: Send + Sync + 'static {
    /// Puts `records`, each a key and its value, on `shelf`; what was there under the same keys is replaced.
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError>;
    /// Puts `value` on `shelf` unless something is there under `key`; returns what is there now.
    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;
    /// What is on `shelf` under each of `keys`, in their order.
    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;
    /// All of `shelf`, by key.
    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
    /// Takes `keys` off `shelf`; those that are not there do no harm.
    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError>;
}
