//! `bluefin coverage`: which problems databases cover.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::problem::Problem;
use bluefin_common::spelled::parse_percent;
use bluefin_exporter::coverage::Databases;
use bluefin_miopen::db::solvers::RELEASE;
use bluefin_producer::capture::counts;
use bluefin_producer::input::{Overrides, read_bytes, read_problems};
use bluefin_producer::library::{Library, TagName};
use bluefin_terminal::{coverage as shown, out};

use crate::db::read_solvers;

/// Tell which problems of a model the databases cover
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin coverage shapes.txt --db /opt/rocm/share/miopen/db/gfx90a68.*\n  \
    bluefin coverage -t resnet50 --redis redis://store --db db/gfx90a68.HIP.fdb.txt db/gfx90a68.db.txt --threshold 95%\n\n\
    A problem is covered if it has a find record, if the perf db holds the params of its fastest solver \
    where that is tunable, and if the kernel db holds a kernel of that solver's source files where those \
    are known; a batch norm, if its perf db holds params of it. Records of solvers that MIOpen does not have, bluefin's own among them, do not count. \
    Files of a kind that is not given are not asked for.")]
pub struct CoverageArgs {
    /// Files of MIOpenDriver commands, MIOpen logs or find-db keys; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "tag")]
    files: Vec<PathBuf>,
    /// Problems of the library with this tag
    #[arg(short, long)]
    tag: Vec<TagName>,
    /// Databases, or folders of them, a user's before the system's; .bz2 is unpacked
    #[arg(long, value_name = "FILE|FOLDER", required = true, num_args = 1..)]
    db: Vec<PathBuf>,
    #[arg(long, value_name = "FILE", help = crate::db::solvers_help())]
    solvers: Option<PathBuf>,
    /// Exit code 1 if less than this is covered, each problem as often as it is asked for: 95% or 95
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    threshold: Option<f64>,
    /// Only what is not covered
    #[arg(long)]
    missing: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl CoverageArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut problems: Vec<(Problem, u64)> = Vec::new();
        let mut not_read = 0_usize;
        for file in &self.files {
            let text = read_bytes(file)?;
            let list = read_problems(&file.to_string_lossy(), &text, &Overrides::default());
            let counts = counts(&text);
            list.notes().for_each(|note| say!("{note}"));
            for message in list.messages() {
                say!("{message}");
                not_read += 1;
            }
            problems.extend(list.problems.into_iter().map(|sourced| {
                let count = counts.get(&sourced.line).copied().unwrap_or(sourced.count as u64);
                (sourced.problem, count)
            }));
        }
        if !self.tag.is_empty() {
            let opened = self.store.open_to_read().await?;
            for tag in &self.tag {
                let tagged = Library::new(&*opened.store).problems(tag).await?;
                problems.extend(tagged.into_iter().map(|tagged| (tagged.problem, tagged.count)));
            }
            opened.close().await;
        }
        if problems.is_empty() {
            anyhow::bail!("nothing to look for: no problem was read");
        }
        let list = match &self.solvers {
            Some(_) => "the list of --solvers".to_string(),
            None => format!("{RELEASE} (--solvers names the list of another)"),
        };
        let mut databases = Databases::for_solvers(read_solvers(self.solvers)?);
        for path in bluefin_terminal::db::databases(&self.db)? {
            databases.add(&path)?;
        }
        if !databases.tell_problems() {
            let expected = "expected one such as gfx90a68.HIP.fdb.txt, or batchnorm_gfx90a68.db.txt for batch norms";
            return Err(crate::usage(format!("--db: found no find db of convolutions, {expected}")));
        }
        let mut coverage = databases.coverage(&problems);
        if self.missing {
            coverage.rows.retain(|row| !row.covered);
        }
        if self.json {
            out::json(&coverage)?;
        } else {
            shown::print(&coverage, &list)?;
        }
        if not_read > 0 {
            say!("{not_read} lines were not read: what they ask for is not counted");
        }
        let short = self.threshold.is_some_and(|threshold| coverage.weighted.percent < threshold);
        Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
