//! The queues that jobs of sessions are in.

use std::collections::BTreeSet;

use bluefin_common::broker::DEAD_QUEUE;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::session::{Pins, Session};

use crate::known::known;

/// The queues that jobs of `sessions` go through, and that of dead letters. Toolchains that nobody serves unless asked to count
/// where a session was compiled by them.
pub fn queue_names<'a>(sessions: impl IntoIterator<Item = (&'a Session, &'a Pins)>) -> BTreeSet<String> {
    let usual: Vec<&str> = known().toolchains.usual().map(|one| one.name).collect();
    let mut names = BTreeSet::from([DEAD_QUEUE.to_string()]);
    for (session, pins) in sessions {
        let pinned = pins.keys().filter_map(|pin| pin.strip_prefix("toolchain."));
        let toolchains = session.method.toolchains.iter().copied().filter(|name| usual.contains(name)).chain(pinned);
        names.extend(toolchains.map(|toolchain| compile_queue(toolchain, &session.target)));
        names.insert(eval_queue(&session.target, session.method));
    }
    names
}

/// Every queue that jobs of `session` may be in, whatever workers serve it, and that of dead letters.
pub fn possible_queues(session: &Session) -> BTreeSet<String> {
    let compiled = session.method.toolchains.iter().map(|toolchain| compile_queue(toolchain, &session.target));
    compiled.chain([eval_queue(&session.target, session.method), DEAD_QUEUE.to_string()]).collect()
}
