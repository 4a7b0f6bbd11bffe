//! What came of candidates before their jobs were tried again.

use std::collections::HashMap;
use std::sync::Arc;

use bluefin_common::history::{self, Tried};
use bluefin_common::job::JobId;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Records, StoreError};

use super::{Before, Row};

/// Adds to `rows`, of `session`, what came of their candidates before. Those of a job stand together.
pub(super) async fn add(store: &dyn Records, session: &SessionName, rows: &mut [Row]) -> Result<(), StoreError> {
    let mut jobs: Vec<Arc<str>> = rows.iter().map(|row| row.job.clone()).collect();
    jobs.dedup();
    let known = jobs.into_iter().filter_map(|job| Some((job.parse::<JobId>().ok()?, job)));
    let (ids, jobs): (Vec<JobId>, Vec<Arc<str>>) = known.unzip();
    let tried = history::of_jobs(store, session, &ids).await?;
    let again = jobs.into_iter().zip(tried).filter(|(_, tried)| !tried.is_empty());
    let again: HashMap<Arc<str>, Vec<Tried>> = again.collect();
    for row in rows.iter_mut().filter(|_| !again.is_empty()) {
        if let Some(tried) = again.get(&row.job) {
            of(row, tried);
        }
    }
    Ok(())
}

fn of(row: &mut Row, tried: &[Tried]) {
    let candidate = row.candidate();
    row.attempts += u32::try_from(tried.len()).unwrap_or(u32::MAX);
    for Tried { finished_ms, worker, failed, .. } in tried {
        let own = failed.iter().filter(|failed| failed.candidate == candidate).map(|failed| Before {
            finished_ms: *finished_ms,
            worker: worker.clone(),
            failure: failed.kind,
            detail: failed.words.clone(),
        });
        row.before.extend(own);
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;
    use bluefin_common::history::Failed;

    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn a_candidate_has_its_own_failures() {
        let mut row = row(3);
        let failed = |candidate: &str, words: &str| Failed {
            candidate: candidate.to_string(),
            kind: FailureKind::Hang,
            words: words.to_string(),
        };
        let tried = |finished_ms, failed| Tried { finished_ms, device: String::new(), worker: None, failed };
        let own = row.candidate();
        let all = [
            tried(1, vec![failed(&own, "first"), failed("Other:1", "x")]),
            tried(2, vec![failed("Other:1", "x")]),
            tried(3, vec![failed(&own, "last")]),
        ];
        of(&mut row, &all);
        let told: Vec<(u64, &str)> = row.before.iter().map(|one| (one.finished_ms, one.detail.as_str())).collect();
        assert_eq!((row.attempts, told), (4, vec![(1, "first"), (3, "last")]));
    }
}
