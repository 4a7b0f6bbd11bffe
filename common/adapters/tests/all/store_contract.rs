//! What every store promises, tried on both of them, and what each promises beyond that.

mod contract;
mod fixture;
mod model;
mod redis;
mod refusals;
mod replicas;
mod sentinel;
mod speed;
mod sqlite;
mod steering;

use bluefin_common::digest::Digest;
use bluefin_common::store::Store;

/// All of them, wherever they are.
mod promises {
    pub use super::contract::*;
    pub use super::steering::*;
}

/// A store of one's own, and a way behind its back.
pub trait Backend: Sized {
    type Store: Store;

    fn start() -> impl Future<Output = Self>;
    fn store(&self) -> &std::sync::Arc<Self::Store>;
    /// Replaces what is stored of an artifact, or removes it.
    fn spoil_artifact(&self, digest: Digest, bytes: Option<&[u8]>) -> impl Future<Output = ()>;
    /// Replaces what is stored of a blob.
    fn spoil_blob(&self, digest: Digest, bytes: &[u8]) -> impl Future<Output = ()>;
    /// Replaces what is stored of a compile record.
    fn spoil_compiled(&self, key: Digest, bytes: &[u8]) -> impl Future<Output = ()>;
}

macro_rules! suite {
    ($name:ident, $backend:ty, [$($test:ident),* $(,)?]) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    crate::store_contract::promises::$test(&<$backend as crate::store_contract::Backend>::start().await).await;
                }
            )*

            #[test]
            fn any_order_of_calls_counts_right() {
                crate::store_contract::model::any_order_of_calls_counts_right::<$backend>();
            }

            #[test]
            fn any_interleaving_counts_right() {
                crate::store_contract::model::any_interleaving_counts_right::<$backend>();
            }
        }
    };
    ($($name:ident: $backend:ty),*) => {
        $(suite!($name, $backend, [
            sessions_are_created_once,
            the_first_pin_stands,
            records_stay_on_their_shelves,
            blobs_last_and_are_verified,
            artifacts_come_back,
            an_evicted_artifact_is_none,
            a_tampered_artifact_is_refused_and_removed,
            a_wrong_size_is_refused,
            a_large_artifact_comes_back,
            compile_records_come_back,
            jobs_move_from_planned_to_done,
            large_plans_keep_their_order,
            the_first_outcome_stands,
            concurrent_outcomes_of_one_job_count_once,
            an_outcome_without_a_plan_counts,
            outcomes_are_in_order,
            groups_settle,
            a_last_outcome_settles_its_group,
            the_best_only_improves,
            sessions_do_not_mix,
            pins_come_off,
            an_outcome_is_taken_back,
            outcomes_are_rewritten,
            a_removed_session_leaves_nothing,
            blobs_are_weighed_and_removed,
            what_is_left_of_a_session_is_found,
            a_standing_is_known_until_it_is_changed,
            a_session_that_was_touched_stays,
            parked_jobs_are_published_once,
        ]);)*
    };
}

suite!(
    on_redis: crate::store_contract::redis::OnRedis,
    on_sqlite: crate::store_contract::sqlite::OnSqlite,
    on_nfs: crate::store_contract::sqlite::OnNfs
);
