//! What a process gives up before it becomes, or runs, what others wrote: its privileges, the files of others, the network, and
//! all ways to reach other processes. Given up for good, with all that it starts. `docs/security.md` says what is left where a
//! kernel lacks a part of it.

mod calls;
pub mod files;

use std::io;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// Why a process is not isolated as it should be.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// Its privileges.
    #[error("privileges: {0}")]
    Privileges(io::Error),
    /// Its files.
    #[error("Landlock: {0}")]
    Files(#[from] landlock::RulesetError),
    /// What it may ask the kernel for.
    #[error("seccomp: {0}")]
    Calls(#[from] seccompiler::Error),
}

/// What a process keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolation {
    /// The folders and files that it may read beside those of the system and the folder that it is in; `None`: all that its user
    /// may.
    pub readable: Option<Vec<PathBuf>>,
    /// Whether it is timed: then its system calls are not filtered. Before Linux 5.16 whatever is filtered runs slower, as a
    /// mitigation of Spectre.
    pub timed: bool,
}

impl Isolation {
    /// Isolates this thread, and what it becomes and starts. Of what the kernel can not do as much as it can.
    ///
    /// # Errors
    /// If the kernel can, and does not.
    pub fn enter(&self) -> Result<(), IsolationError> {
        give_up_privileges().map_err(|errno| IsolationError::Privileges(errno.into()))?;
        files::confine(self.readable.as_deref())?;
        if !self.timed {
            calls::refuse(!files::keeps_signals())?;
        }
        Ok(())
    }
}

/// A process that runs this as root has no more rights than another user by that; and no program gives any back.
fn give_up_privileges() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    let held = capabilities(None)?;
    if held.permitted.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            // One that this kernel does not know is not there.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    // Before Linux 4.3 there is none.
    let _ = clear_ambient_capability_set();
    // A process that has none need not be let.
    if held.permitted.is_empty() && held.inheritable.is_empty() {
        return Ok(());
    }
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// From now on other processes of this user see neither the memory of this process nor its environment, and it dumps no core.
pub fn hide() {
    // Refused by no kernel; where it is, what is hidden is protected by the isolation of the children.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
