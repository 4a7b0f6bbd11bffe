//! `bluefin db convert` and `bluefin db merge`: databases written from databases.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_common::printable::printable;
use bluefin_common::spelled::counted;
use bluefin_exporter::db::{LeftOut, MergeRequest, Policy, Written, convert, merge};
use bluefin_terminal::out;

use super::Bar;

/// Write a database in another form: what it becomes is in the name of OUT
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin db convert gfx906_60.db gfx906_60.db.txt\n\n\
    .fdb.txt and .ufdb.txt are find dbs of version 2, .db and .udb perf dbs in SQLite, .db.txt and .udb.txt perf dbs as \
    text, .kdb and .ukdb kernel dbs. Lines are sorted by bytes. What MIOpen would not use of IN is left out, and named on \
    standard error.")]
pub struct ConvertArgs {
    /// A database; what it is is seen by name and content
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT", required_unless_present = "out", conflicts_with = "out")]
    path: Option<PathBuf>,
    /// The same, as other verbs have it
    #[arg(short, long, visible_alias = "output", value_name = "OUT")]
    out: Option<PathBuf>,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

impl ConvertArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let report = {
            let bar = Bar::start();
            let out = self.out.or(self.path).unwrap_or_default();
            convert(&self.input, &out, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&report)?;
        } else {
            print(&report.written, &report.left_out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Merge databases of one kind, given from the oldest to the newest
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
        bluefin db merge --policy fastest -o gfx90a68.HIP.fdb.txt shipped/gfx90a68.HIP.fdb.txt mine.fdb.txt\n\n\
        newest: of each key and solver (each kernel) what the later file has. fastest: of each key and solver what takes less \
        time. replace: of each key all that the later file has, nothing of the earlier ones. keep-keys: the keys (kernels) of \
        the first file alone; solvers are merged as with newest. Perf dbs hold no times: for fastest, give with --times the \
        find db of each, in the same order.")]
pub struct MergeArgs {
    /// Databases of one kind, from the oldest to the newest
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// newest, fastest, replace or keep-keys
    #[arg(long)]
    policy: Policy,
    /// The find db of each perf db, for --policy fastest
    #[arg(long, value_name = "FILE,...", value_delimiter = ',')]
    times: Vec<PathBuf>,
    /// The file to write; its name says what it becomes
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: PathBuf,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

impl MergeArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.policy != Policy::Fastest && !self.times.is_empty() {
            return Err(crate::usage(format!("--times: found policy {}, expected fastest", self.policy)));
        }
        let request = MergeRequest { policy: self.policy, files: self.files, times: self.times, out: self.out };
        let report = {
            let bar = Bar::start();
            merge(&request, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&report)?;
        } else {
            print(&report.written, &report.left_out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(written: &Written, left_out: &LeftOut) -> anyhow::Result<()> {
    for told in &left_out.told {
        say!("left out: {}", printable(told));
    }
    let more = left_out.total - left_out.told.len() as u64;
    if more > 0 {
        say!("left out: {more} more");
    }
    let Written { path, kind, records, bytes } = written;
    let (records, bytes) = (counted(*records, "record"), counted(*bytes, "byte"));
    Ok(out::line(format_args!("wrote {}: {kind}, {records}, {bytes}", path.display()))?)
}
