//! What a run in one process forgets. Its queues ended with the run before it, which may have been of other problems: nobody
//! does what is left of those, and nobody is to wait for it. What was compiled to be evaluated elsewhere is kept on a shelf and
//! planned again there; of what was not, only this remembers that its group is not whole.

use std::collections::{HashMap, HashSet};

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::Broker;
use bluefin_common::decision::follow_ups;
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, Job, JobId};
use bluefin_common::parked;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{OpenJobs, Planned, Records as _, Sessions as _, Work as _};
use bluefin_compile_worker::carried::Kept;

/// Forgets the jobs of `session` that have no outcome. Those that were never compiled, of groups of which others were, are
/// remembered for [`recall`].
pub async fn forget(store: &SqliteStore, session: &SessionName) -> anyhow::Result<()> {
    let Some(known) = store.session(session).await? else { return Ok(()) };
    let open = store.open_jobs_by_group(session).await?;
    let missing = never_compiled(store, &known, open).await?;
    let records: Vec<(String, Vec<u8>)> =
        missing.into_iter().map(|(job, group)| (job.to_string(), group.to_string().into_bytes())).collect();
    // First: a process that dies in between does both again.
    store.put_records(&shelf::forgotten(session), &records).await?;
    Ok(store.forget_unfinished(session).await?)
}

/// Those of the `open` jobs that nothing was kept of, where something was of their group: not the find jobs that follow from
/// outcomes alone.
async fn never_compiled(
    store: &SqliteStore,
    session: &Session,
    open: OpenJobs,
) -> anyhow::Result<Vec<(JobId, GroupId)>> {
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let kept = Kept::load(store, &session.name).await?;
    let mut ids: HashMap<GroupId, HashSet<JobId>> = HashMap::new();
    for kept in kept.jobs() {
        ids.entry(kept.job.group()).or_default().insert(kept.job.id());
    }
    let mut missing = Vec::new();
    for (group, mut jobs) in open {
        let kept = ids.get(&group);
        jobs.retain(|job| kept.is_some_and(|kept| !kept.contains(job)));
        if jobs.is_empty() {
            continue;
        }
        let outcomes = store.outcomes(&session.name, &[group]).await?;
        let following: Vec<JobId> = follow_ups(session, &outcomes).iter().map(Job::id).collect();
        jobs.retain(|job| !following.contains(job));
        missing.extend(jobs.into_iter().map(|job| (job, group)));
    }
    Ok(missing)
}

/// Plans what was remembered again, so that its groups are not taken for whole.
pub async fn recall(store: &SqliteStore, session: &SessionName) -> anyhow::Result<()> {
    let remembered = remembered(store, session).await?;
    let planned = |(id, group): &(JobId, GroupId)| Planned { id: *id, group: *group, stage: Stage::Perf };
    store.plan(session, &remembered.iter().map(planned).collect::<Vec<_>>()).await?;
    drop_records(store, session, remembered.iter().map(|(id, _)| id)).await
}

/// Plans and publishes what is to be tried again: those jobs are kept with their messages.
pub async fn try_again(store: &SqliteStore, broker: &dyn Broker, session: &SessionName) -> anyhow::Result<()> {
    let kept = parked::jobs(store, session).await?;
    if kept.is_empty() {
        return Ok(());
    }
    store.plan(session, &kept.iter().map(Planned::of).collect::<Vec<_>>()).await?;
    parked::publish(store, broker, session).await?;
    Ok(())
}

/// Remembers nothing of `groups` any more: they were planned anew, and that is what they are now.
pub async fn replan(store: &SqliteStore, session: &SessionName, groups: &[GroupId]) -> anyhow::Result<()> {
    let groups: HashSet<&GroupId> = groups.iter().collect();
    let remembered = remembered(store, session).await?;
    let again = remembered.iter().filter(|(_, group)| groups.contains(group));
    drop_records(store, session, again.map(|(id, _)| id)).await
}

async fn remembered(store: &SqliteStore, session: &SessionName) -> anyhow::Result<Vec<(JobId, GroupId)>> {
    let records = store.records(&shelf::forgotten(session)).await?;
    let parse = |(job, group): &(String, Vec<u8>)| -> anyhow::Result<(JobId, GroupId)> {
        Ok((job.parse::<Digest>()?, std::str::from_utf8(group)?.parse()?))
    };
    records.iter().map(parse).collect()
}

async fn drop_records(
    store: &SqliteStore,
    session: &SessionName,
    jobs: impl Iterator<Item = &JobId>,
) -> anyhow::Result<()> {
    let keys: Vec<String> = jobs.map(ToString::to_string).collect();
    Ok(store.remove_records(&shelf::forgotten(session), &keys).await?)
}
