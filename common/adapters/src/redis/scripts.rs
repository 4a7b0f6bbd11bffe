//! The Lua scripts: each changes several keys as one, and none changes anything when it is repeated. Every key a script
//! touches is among its KEYS.

use redis::{Cmd, Script};

/// All scripts, named and hashed once.
pub(super) struct Scripts {
    pub plan: Script,
    pub enqueued: Script,
    pub put_outcome: Script,
    pub retract_outcome: Script,
    pub rewrite_outcome: Script,
    pub settle_group: Script,
    pub stand_unless_touched: Script,
}

impl Scripts {
    pub fn new() -> Self {
        Self {
            plan: Script::new(include_str!("plan.lua")),
            enqueued: Script::new(include_str!("enqueued.lua")),
            put_outcome: Script::new(include_str!("put_outcome.lua")),
            retract_outcome: Script::new(include_str!("retract_outcome.lua")),
            rewrite_outcome: Script::new(include_str!("rewrite_outcome.lua")),
            settle_group: Script::new(include_str!("settle_group.lua")),
            stand_unless_touched: Script::new(include_str!("stand_unless_touched.lua")),
        }
    }
}

/// `EVALSHA` of the script with `keys`; arguments follow.
pub(super) fn invoke(script: &Script, keys: &[String]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys.len()).arg(keys);
    command
}
