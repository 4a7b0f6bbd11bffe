//! Which rights the user of a connection has, found by commands that Redis refuses without them and that change nothing: what
//! they name does not exist. `ACL DRYRUN` would tell, too, but is an admin's.

use redis::Cmd;

use bluefin_common::digest::Digest;
use bluefin_common::session::SessionName;
use bluefin_common::shelf::STANDINGS;
use bluefin_common::store::{Right, StoreError};

use crate::redis::keys::{self, SessionKeys};
use crate::redis::link::Request;
use crate::redis::{RedisStore, scripts};

/// What no job, no blob and no key of a hash is called.
const NOTHING: Digest = Digest([0; 32]);

impl RedisStore {
    pub(super) async fn try_right(&self, right: Right) -> Result<(), StoreError> {
        // Rights are by pattern, and every name matches the same ones.
        let none: SessionName = "none".parse().map_err(|_| self.main.unavailable("no name of a session".into()))?;
        let keys = SessionKeys(&none);
        let hash = NOTHING.to_string();
        match right {
            Right::Remove => {
                // One after the other, so that one refusal is told.
                for command in [
                    Cmd::unlink(keys.group(NOTHING)),
                    Cmd::unlink(keys::blob(NOTHING)),
                    Cmd::hdel(keys::SESSIONS, &hash),
                    Cmd::hdel(keys::shelf(STANDINGS), &hash),
                ] {
                    self.writes().call::<u64>(Request::Command(&command)).await?;
                }
                Ok(())
            }
            Right::Retract => {
                let plan = keys.plan();
                let names = [
                    plan.job(NOTHING),
                    plan.open(NOTHING),
                    keys.unsettled(),
                    keys.stats(),
                    plan.buckets(),
                    keys.group(NOTHING),
                ];
                let script = &self.scripts.retract_outcome;
                let mut command = scripts::invoke(script, &names);
                command.arg(&NOTHING.0).arg(&NOTHING.0).arg("").arg("").arg("").arg("");
                self.writes().call::<bool>(Request::Script(script, &command)).await.map(drop)
            }
        }
    }
}
