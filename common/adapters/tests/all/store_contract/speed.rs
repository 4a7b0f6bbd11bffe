//! How fast the stores are. Run with `cargo test --release -p bluefin-common --test all speed -- --ignored
//! --nocapture --test-threads 1`.

use std::sync::Arc;
use std::time::Instant;

use bluefin_common::job::Job;
use bluefin_common::store::Work as _;
use tokio::task::JoinSet;

use crate::store_contract::Backend;
use crate::store_contract::fixture::{job, name, outcome, planned};

const JOBS: i64 = 100_000;
const PER_GROUP: i64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, takes a minute"]
async fn of_redis() {
    measure(&crate::store_contract::redis::OnRedis::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, takes a minute"]
async fn of_sqlite() {
    measure(&crate::store_contract::sqlite::OnSqlite::start().await).await;
}

async fn measure(backend: &impl Backend) {
    let store = backend.store();
    for tasks in [1, 64, 256] {
        let s = name(&format!("tasks-{tasks}"));
        let jobs = if tasks == 1 { JOBS / 50 } else { JOBS };
        let jobs: Vec<Job> = (0..jobs).map(|number| job(&s, number / PER_GROUP, number)).collect();
        let plan = planned(&jobs);
        report(tasks, "plan", jobs.len(), async {
            for batch in plan.chunks(2_000) {
                store.plan(&s, batch).await.unwrap();
            }
        })
        .await;
        let outcomes: Vec<_> = jobs.iter().map(outcome).collect();
        report(tasks, "put_outcome", jobs.len(), async {
            let mut writers = JoinSet::new();
            for part in outcomes.chunks(outcomes.len().div_ceil(tasks)) {
                let (store, part) = (Arc::clone(store), part.to_vec());
                writers.spawn(async move {
                    for outcome in &part {
                        store.put_outcome(outcome).await.unwrap();
                    }
                });
            }
            writers.join_all().await;
        })
        .await;
        let groups = store.groups(&s).await.unwrap();
        report(tasks, "outcomes", jobs.len(), async {
            for part in groups.chunks(1_000) {
                store.outcomes(&s, part).await.unwrap();
            }
        })
        .await;
    }
}

async fn report(tasks: usize, what: &str, count: usize, work: impl Future<Output = ()>) {
    let start = Instant::now();
    work.await;
    println!("{tasks:4} tasks  {what:12} {:10.0}/s", count as f64 / start.elapsed().as_secs_f64());
}
