//! Making sessions: by name, or numbered from 1 on as MITuna numbers its own. The same content is the same session.

mod new;

use std::collections::BTreeMap;

use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::standing;
use bluefin_common::store::{Sessions, Store};

use crate::PlanError;
use crate::error::BEGINNING;

pub use new::{NewSession, is_exhaustive, tuner_text};

/// A session that was made, or found.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub session: Session,
    /// Whether this call made it.
    pub new: bool,
}

/// What a session is to be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name is of no matter where none was given.
    pub session: Session,
    pub named: bool,
    /// Versions that its workers must have, and what else its maker wants to be known of it: ticket, container image.
    pub pins: Pins,
}

/// Makes the session, or returns the one that is the same in everything but name and age. Without a name it gets the first
/// number that is free; two callers at once get one session.
///
/// # Errors
/// If a session of the wanted name is another one, or the store fails.
pub async fn make(store: &dyn Store, wanted: &Wanted) -> Result<Made, PlanError> {
    if wanted.named {
        let (stored, new) = claim(store, &wanted.session).await?;
        if let Some((what, stored_as, asked)) = difference(&stored, &wanted.session) {
            return Err(PlanError::SessionDiffers { session: stored.name.to_string(), what, stored: stored_as, asked });
        }
        if let Some((key, pinned, asked)) = pin(store, &stored.name, &wanted.pins).await? {
            let session = stored.name.to_string();
            return Err(PlanError::PinDiffers { session, key, pinned, asked });
        }
        return Ok(Made { session: stored, new });
    }
    let sessions = store.sessions().await?;
    let numbered: BTreeMap<u64, &Session> =
        sessions.iter().filter_map(|session| Some((number(&session.name)?, session))).collect();
    let same = numbered.iter().filter(|(_, session)| difference(session, &wanted.session).is_none()).map(|(n, _)| *n);
    let free = numbered.keys().max().map_or(1, |last| last + 1);
    for number in same.chain(free..) {
        let name = number.to_string().parse().map_err(|_| PlanError::NoNumber)?;
        let (stored, new) = claim(store, &Session { name, ..wanted.session.clone() }).await?;
        if difference(&stored, &wanted.session).is_none() && pin(store, &stored.name, &wanted.pins).await?.is_none() {
            return Ok(Made { session: stored, new });
        }
    }
    Err(PlanError::NoNumber)
}

/// Makes room for a session of this name, where one was deleted.
pub(crate) async fn revive(store: &dyn Store, session: &SessionName) -> Result<(), PlanError> {
    if standing::revive(store, session).await? {
        return Ok(());
    }
    Err(PlanError::Unready(format!(
        "session {session}: it is being deleted: wait for that, or repeat it: bluefin session delete {session} --yes"
    )))
}

/// Stores the session unless one of its name is stored. Returns that one, and whether it is this one.
async fn claim(store: &dyn Store, session: &Session) -> Result<(Session, bool), PlanError> {
    revive(store, &session.name).await?;
    let known = store.session(&session.name).await?.is_some();
    let stored = store.create_session(session).await?;
    Ok((stored, !known))
}

/// The number that a session has for its name.
fn number(name: &SessionName) -> Option<u64> {
    name.as_str().parse().ok().filter(|number: &u64| number.to_string() == name.as_str())
}

/// The first thing in which `stored` is not what is `asked` for: its name, and both values. Name and age do not count.
fn difference(stored: &Session, asked: &Session) -> Option<(&'static str, String, String)> {
    let fields = |session: &Session| {
        [
            ("target", session.target.to_string()),
            ("label", session.label.clone()),
            ("stages", format!("{:?}", session.stages)),
            ("tuner", session.method.to_string()),
            ("budget", format!("{:?}", session.budget)),
            ("environment", format!("{:?}", session.environment)),
            ("search", format!("{:?}", session.search)),
            (BEGINNING, session.priors_text()),
        ]
    };
    let pairs = fields(stored).into_iter().zip(fields(asked));
    pairs
        .into_iter()
        .find(|((_, stored), (_, asked))| stored != asked)
        .map(|((what, stored), (_, asked))| (what, stored, asked))
}

/// Pins what is not pinned; the first that is pinned to something else is returned with that and with what was asked.
async fn pin(
    store: &dyn Sessions,
    session: &SessionName,
    pins: &Pins,
) -> Result<Option<(String, String, String)>, PlanError> {
    let present = store.pins(session).await?;
    let differs = |key: &String, value: &String| present.get(key).filter(|pinned| *pinned != value);
    if let Some((key, value, pinned)) = pins.iter().find_map(|(key, value)| Some((key, value, differs(key, value)?))) {
        return Ok(Some((key.clone(), pinned.clone(), value.clone())));
    }
    for (key, value) in pins {
        let pinned = store.pin(session, key, value).await?;
        if pinned != *value {
            return Ok(Some((key.clone(), pinned, value.clone())));
        }
    }
    Ok(None)
}
