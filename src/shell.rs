//! `bluefin completions` and `bluefin man`: what shells and the manual know of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_terminal::out;
use bluefin_terminal::verbs::{completions, write_manual};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin completions bash > ~/.local/share/bash-completion/completions/bluefin\n  \
    bluefin completions zsh > ~/.zfunc/_bluefin\n  bluefin completions fish > ~/.config/fish/completions/bluefin.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        out::line(completions(crate::command(), self.shell).trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Write the pages of the manual
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin man ~/.local/share/man/man1 && man bluefin-tune")]
pub struct ManArgs {
    /// A folder, which is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl ManArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        write_manual(crate::command(), &self.folder).with_context(|| self.folder.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }
}
