//! Whether what nothing brings back is to be done, which nobody does by accident.

/// Whether it is to be done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Consent {
    /// Print what would go, and its size
    #[arg(long)]
    pub dry_run: bool,
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

impl Consent {
    /// For `command`, by which the user knows what is asked.
    pub fn is_said(self, command: &str) -> anyhow::Result<()> {
        if self.yes || self.dry_run {
            return Ok(());
        }
        Err(crate::usage(format!("{command}: nothing brings it back: pass --yes, or --dry-run to see what would go")))
    }
}
