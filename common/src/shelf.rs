//! What is on which shelf of the Store: every record that is not a session, a job or an outcome is listed here.
//!
//! | shelf | key | record | owner |
//! | --- | --- | --- | --- |
//! | `tags` | tag | when it was made, whether it is recurrent | producer |
//! | `tag:<tag>` | digest of a problem | the problem, how often it was met, where it came from | producer |
//! | `solvers:<session>` | name of a solver | what the library says of it | producer |
//! | `applicability:<session>` | digest of a problem | the solvers that apply to it | producer |
//! | `compiled:<session>` | id of a job | the eval job, where it is carried instead of queued | compile worker |
//! | `forgotten:<session>` | id of a job | its group, where a run in one process forgot it and others of the group were compiled | binary |
//! | `begun:<session>` | id of a job | how many workers began it and were not heard of again, in decimal digits | both workers |
//! | `parked:<session>:<part>` | id of a job | its message, while the session is paused; in parts, by the first bits of the id | both workers, binary |
//! | `priority:<session>` | `priority` | how much it matters, where that is not as usual | producer, binary |
//! | `history:<session>` | id of a job | what came of it before it was tried again | binary |
//! | `operators:<session>` | id of a group | what aiter's operator takes with the rows that were in force and with the new one; as JSON | eval worker |
//! | `perf_alone:<session>` | id of a group | nothing: no find job is to follow its perf jobs | producer |
//! | `searched:<session>` | id of a group | its problem, its spec, and the rounds of its search that are done | compile worker |
//! | `searched:<session>` | `<id of a group>#budget` | the largest budget that was asked for it, in decimal digits | producer |
//! | `searched:<session>` | `<id of a group>#end` | how its search ended | compile worker |
//! | `told:<session>` | `<id of a group>#<round>` | the groups that this round of a search was told of | compile worker, producer |
//! | `standings` | name of a session | whether it is paused, cancelled or deleted, and since when | binary |
//! | `requests:<session>` | digest of a blob | nothing: the blob says what was asked of the session | producer |
//! | `workers` | host, process, step and what it serves | what a worker says of itself | both workers |
//! | `modules` | digest of a family of aiter's, and of what its kernels depend on | who builds them, or the artifacts that they are; as JSON | eval worker |
//! | `releases` | name of a release | its manifest | exporter |
//! | `channels` | `<channel>@<target>#<step>` | the release that the channel was moved to | exporter |
//!
//! Tags and names of releases follow the rule of session names, so no two shelves can be the same.

/// All tags.
pub const TAGS: &str = "tags";

/// Who works in the fleet.
pub const WORKERS: &str = "workers";

/// What aiter has built on some host.
pub const MODULES: &str = "modules";

/// All releases.
pub const RELEASES: &str = "releases";

/// Every step of every channel of releases.
pub const CHANNELS: &str = "channels";

/// Sessions that do not simply run.
pub const STANDINGS: &str = "standings";

use crate::session::SessionName;

/// Problems of `tag`.
#[must_use]
pub fn tagged(tag: &str) -> String {
    format!("tag:{tag}")
}

/// Compiled jobs of `session`.
#[must_use]
pub fn compiled(session: &SessionName) -> String {
    format!("compiled:{session}")
}

/// Jobs of `session` that were never compiled and are not planned any more, though others of their groups are compiled.
#[must_use]
pub fn forgotten(session: &SessionName) -> String {
    format!("forgotten:{session}")
}

/// Jobs of `session` that came again to a worker that works on them now, or that is gone.
#[must_use]
pub fn begun(session: &SessionName) -> String {
    format!("begun:{session}")
}

/// Parts of the parked jobs of a session: each is read as a whole.
pub const PARKED_PARTS: u8 = 64;

/// Those of the parked jobs of `session` that are in `part`.
#[must_use]
pub fn parked(session: &SessionName, part: u8) -> String {
    format!("parked:{session}:{part}")
}

/// How much `session` matters.
#[must_use]
pub fn priority(session: &SessionName) -> String {
    format!("priority:{session}")
}

/// What came of jobs of `session` before they were tried again.
#[must_use]
pub fn history(session: &SessionName) -> String {
    format!("history:{session}")
}

/// What operators took for shapes of `session`, before and after.
#[must_use]
pub fn operators(session: &SessionName) -> String {
    format!("operators:{session}")
}

/// Groups of `session` that have no find stage, though the session has.
#[must_use]
pub fn perf_alone(session: &SessionName) -> String {
    format!("perf_alone:{session}")
}

/// Groups of `session` that are searched.
#[must_use]
pub fn searched(session: &SessionName) -> String {
    format!("searched:{session}")
}

/// What rounds of searches of `session` were told of other groups.
#[must_use]
pub fn told(session: &SessionName) -> String {
    format!("told:{session}")
}

/// Every shelf that is of `session` alone.
#[must_use]
pub fn of_session(session: &SessionName) -> Vec<String> {
    let named: [fn(&SessionName) -> String; 12] = [
        compiled,
        forgotten,
        begun,
        requests,
        solvers,
        applicability,
        history,
        operators,
        perf_alone,
        priority,
        searched,
        told,
    ];
    let named = named.map(|shelf| shelf(session));
    named.into_iter().chain((0..PARKED_PARTS).map(|part| parked(session, part))).collect()
}

/// The session that `shelf` is of, if it is of one: the part of its name behind what is on it.
#[must_use]
pub fn session_of(shelf: &str) -> Option<SessionName> {
    let name: SessionName = shelf.split(':').nth(1)?.parse().ok()?;
    of_session(&name).iter().any(|of| of == shelf).then_some(name)
}

/// What was asked of `session`.
#[must_use]
pub fn requests(session: &SessionName) -> String {
    format!("requests:{session}")
}

/// Solvers of the library that `session` is of.
#[must_use]
pub fn solvers(session: &SessionName) -> String {
    format!("solvers:{session}")
}

/// Solvers that apply to the problems of `session`.
#[must_use]
pub fn applicability(session: &SessionName) -> String {
    format!("applicability:{session}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_says_whose_it_is() {
        let session: SessionName = "nightly".parse().unwrap();
        for shelf in of_session(&session) {
            assert_eq!(session_of(&shelf).as_ref(), Some(&session), "{shelf}");
        }
        for shelf in [TAGS, STANDINGS, &tagged("nightly"), "requests:", "parked:nightly:64", "parked:nightly", ""] {
            assert_eq!(session_of(shelf), None, "{shelf}");
        }
    }
}
