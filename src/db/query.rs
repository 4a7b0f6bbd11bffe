//! `bluefin db query`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_exporter::db::name::{DbName, Keys};
use bluefin_exporter::db::query::{Asked, query};
use bluefin_miopen::key::{FindDbKey, batch_norm};
use bluefin_producer::keys::keys;
use bluefin_terminal::{db, out};

use super::Bar;

/// What databases hold for a driver command, or for a key
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin db query \"MIOpenDriver conv -n 16 -c 512 -H 13 -W 13 -k 1000 -y 1 -x 1 -F 2\" --db \
    gfx90a68.HIP.fdb.txt,gfx90a68.db.txt,gfx90a68.kdb\n\n\
    A command without -F asks for all three directions. Batch norms are asked for by command or perf-db key, fusions by the key \
    that their find db has of them. Kernels are those that a solver found may use, by source file. Exit code 1 if there is \
    nothing."
)]
pub struct QueryArgs {
    /// A MIOpenDriver command, a find-db key, or the perf-db key of a batch norm
    #[arg(value_name = "COMMAND")]
    command: String,
    /// Databases; what they are is seen by name and content
    #[arg(long, value_name = "FILE,...", value_delimiter = ',', num_args = 1.., required = true)]
    db: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl QueryArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.asked()?;
        let answers = {
            let bar = Bar::start();
            query(&asked, &self.db, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&answers)?;
        } else {
            answers.iter().try_for_each(db::print_answer)?;
        }
        let found = answers.iter().any(|answer| !answer.finds.is_empty() || !answer.params.is_empty());
        Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// What the text asks for.
    fn asked(&self) -> anyhow::Result<Vec<Asked>> {
        let text = self.command.trim();
        // Also a key that no convolution has: files hold some.
        if let Ok(key) = FindDbKey::parse(text) {
            return Ok(vec![Asked::Convolution(Box::new(key))]);
        }
        if batch_norm::problem(text).is_ok() {
            return Ok(vec![Asked::BatchNorm(text.to_string())]);
        }
        let of_fusions = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).and_then(DbName::parse);
            name.is_some_and(|name| name.keys == Keys::Fusions)
        };
        match commanded(text) {
            Err(_) if self.db.iter().any(of_fusions) => Ok(vec![Asked::Fusion(text.to_string())]),
            asked => asked,
        }
    }
}

/// What a driver command asks for.
fn commanded(text: &str) -> anyhow::Result<Vec<Asked>> {
    let table = keys(text.as_bytes());
    if let Some(reject) = table.rejects.first() {
        return Err(crate::usage(format!("COMMAND: {}", reject.reason)));
    }
    let mut asked = Vec::new();
    for row in table.rows {
        asked.push(match row.find_db_key {
            Some(key) => Asked::Convolution(Box::new(key.parse()?)),
            None => Asked::BatchNorm(row.perf_db_key),
        });
    }
    if asked.is_empty() {
        return Err(crate::usage(format!(
            "COMMAND: found {text:?}, expected the driver command of a convolution or a batch norm, or a key"
        )));
    }
    Ok(asked)
}
