//! `bluefin serving diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_serving::Engine;
use bluefin_serving::diff::{Change, diff};
use bluefin_serving::files::read_all;
use bluefin_terminal::out;

/// Compare config files row by row
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin serving diff old/configs new/configs\n\n\
    Files of folders are compared by name, those of SGLang with their folder of a version of Triton; two single files whatever they are \
    called. The order of keys, and how a file is laid out, make no difference. Exit code 1 if anything is other.")]
pub struct DiffArgs {
    /// A file, or a folder
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// What to compare it with
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Whose the files are [default: told by place and name]
    #[arg(long, value_name = "vllm|sglang")]
    engine: Option<Engine>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl DiffArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let before = read_all(&[self.before], self.engine)?;
        let after = read_all(&[self.after], self.engine)?;
        let diff = diff(&before, &after)?;
        if self.json {
            out::json(&diff)?;
        } else {
            out::line(format_args!("{:>8} the same", diff.same))?;
            for change in &diff.changes {
                print(change)?;
            }
        }
        Ok(if diff.changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(Change { file, size, kind, before, after }: &Change) -> anyhow::Result<()> {
    let size = size.map_or(String::new(), |size| format!(" {size}"));
    let rows = match (before, after) {
        (None, None) => String::new(),
        (before, after) => {
            let shown = |row: &Option<String>| row.clone().unwrap_or_else(|| "none".to_string());
            format!(": {} -> {}", shown(before), shown(after))
        }
    };
    Ok(out::line(format_args!("{} {file}{size}{rows}", kind.name()))?)
}
