//! What happened: what differs between one look and the next, and what workers remarked.

use std::collections::{HashMap, HashSet, VecDeque};

use bluefin_common::roster::Whereabouts;
use bluefin_common::session::SessionName;
use bluefin_common::standing::Standing;

use super::found::{Found, failed};

/// Events that are kept.
const KEPT: usize = 100;
/// Before the first look: what is older is no news.
const NEWS_MS: u64 = 3_600_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at_ms: u64,
    /// The session or worker that it happened to.
    pub who: String,
    pub what: String,
    /// Its page, for a session.
    pub place: Option<String>,
    /// Somebody may have to do something.
    pub is_bad: bool,
}

/// The events of late, the newest first.
#[derive(Default)]
pub struct Feed {
    pub events: VecDeque<Event>,
    before: Option<Before>,
}

/// What the last look found.
struct Before {
    sessions: HashMap<SessionName, (&'static str, HashMap<String, u64>)>,
    /// Where each was, and until when its remarks are told, by its own clock.
    workers: HashMap<String, (Whereabouts, u64)>,
}

impl Feed {
    /// Takes what was found in.
    pub fn take(&mut self, found: &Found) {
        let mut events = Vec::new();
        let before = self.before.take();
        let mut now = Before { sessions: HashMap::new(), workers: HashMap::new() };
        for (session, progress) in &found.sessions {
            let state = found.state(session, progress);
            let failures: HashMap<_, _> = failed(progress).map(|(kind, amount)| (kind.to_string(), amount)).collect();
            let known = before.as_ref().and_then(|before| before.sessions.get(&session.name));
            let mut tell = |at_ms, what: String, part: &str, is_bad| {
                let place = Some(format!("/session/{}{part}", session.name));
                events.push(Event { at_ms, who: session.name.to_string(), what, place, is_bad });
            };
            match known {
                Some((was, _)) if *was != state => tell(found.now_ms, turned(state), "", false),
                None if found.now_ms.saturating_sub(session.created_ms) < NEWS_MS => {
                    tell(session.created_ms, "made".to_string(), "", false);
                }
                _ => {}
            }
            for (kind, amount) in known.into_iter().flat_map(|_| &failures) {
                let more = known.map_or(0, |(_, before)| amount.saturating_sub(before.get(kind).copied().unwrap_or(0)));
                if more > 0 {
                    tell(found.now_ms, format!("{more} more failed: {kind}"), "#failures", true);
                }
            }
            now.sessions.insert(session.name.clone(), (state, failures));
        }
        let here: HashSet<_> = found.sessions.iter().map(|(session, _)| &session.name).collect();
        let all_are_here = found.left_out == 0;
        for gone in before.iter().flat_map(|before| before.sessions.keys()).filter(|name| !here.contains(name)) {
            if all_are_here || found.standings.get(gone) == Some(&Standing::Deleted) {
                let (who, what) = (gone.to_string(), "deleted".to_string());
                events.push(Event { at_ms: found.now_ms, who, what, place: None, is_bad: false });
            }
        }
        Self::workers(found, before.as_ref(), &mut now, &mut events);
        self.before = Some(now);
        events.sort_by_key(|event| event.at_ms);
        for event in events {
            self.events.push_front(event);
        }
        self.events.truncate(KEPT);
    }

    fn workers(found: &Found, before: Option<&Before>, now: &mut Before, events: &mut Vec<Event>) {
        for worker in &found.workers {
            let at = worker.whereabouts(found.now_ms);
            let id = format!("{}/{}/{}/{}", worker.host, worker.process, worker.step, worker.serves.join(","));
            let known = before.and_then(|before| before.workers.get(&id));
            let mut tell = |at_ms, what, is_bad| {
                events.push(Event { at_ms, who: worker.worker.clone(), what, place: None, is_bad });
            };
            if before.is_some()
                && let Some((what, is_bad)) = moved(known.map(|(was, _)| *was), at, worker.waits.as_deref())
            {
                tell(found.now_ms, what, is_bad);
            }
            // By its own clock, as those of machines differ.
            let told = match (before, known) {
                (_, Some((_, told))) => *told,
                (Some(_), None) => 0,
                (None, None) => worker.seen_ms.saturating_sub(NEWS_MS),
            };
            for remark in worker.remarks.iter().filter(|remark| remark.at_ms > told) {
                let job = remark.job.get(..12).unwrap_or(&remark.job);
                tell(remark.at_ms, format!("job {job}: {}", remark.words), true);
            }
            let newest = worker.remarks.iter().map(|remark| remark.at_ms).max().unwrap_or(0).max(told);
            now.workers.insert(id, (at, newest));
        }
    }
}

/// In words that a worker is elsewhere than it was, and whether somebody should look after it.
fn moved(was: Option<Whereabouts>, at: Whereabouts, waits: Option<&str>) -> Option<(String, bool)> {
    use Whereabouts::{Ended, Gone, Idle, Waiting, Working};
    match (was, at) {
        (was, at) if was == Some(at) => None,
        (_, Waiting) => Some((format!("waits: {}", waits.unwrap_or_default()), true)),
        (Some(_), Gone) => {
            Some(("is not heard of: it was killed, or its machine or network is away".to_string(), true))
        }
        (Some(_), Ended) => Some(("ended".to_string(), false)),
        (None, Gone | Ended) => None,
        (None, Idle | Working) => Some(("is here".to_string(), false)),
        (Some(Waiting | Gone | Ended), Idle | Working) => Some(("takes jobs again".to_string(), false)),
        (Some(Idle | Working), Idle | Working) => None,
    }
}

fn turned(state: &str) -> String {
    match state {
        "open" => "goes on".to_string(),
        state => state.to_string(),
    }
}

#[cfg(test)]
mod tests;
