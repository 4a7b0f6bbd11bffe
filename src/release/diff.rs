//! `bluefin release diff`: two releases compared by what their databases mean.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use bluefin_campaign::ports::StoreArgs;
use bluefin_exporter::db::diff::{Diff, DiffRequest, diff};
use bluefin_exporter::release::{Catalog, Manifest, ReleaseName};
use bluefin_terminal::out;
use serde_json::json;

use crate::db::Judgement;

/// Compare two releases by what they mean; exit code 1 if a convolution became slower by more than the threshold
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin release diff 2026.1 2026.2 --threshold 10%")]
pub struct DiffArgs {
    #[arg(value_name = "BEFORE")]
    before: ReleaseName,
    #[arg(value_name = "AFTER")]
    after: ReleaseName,
    #[command(flatten)]
    judgement: Judgement,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl DiffArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let (before, after) = (catalog.get(&self.before).await?, catalog.get(&self.after).await?);
        if before.target != after.target {
            bail!("release {} is for {}, release {} for {}", before.name, before.target, after.name, after.target);
        }
        let folder = tempfile::tempdir()?;
        let (old, new) = (folder.path().join("before"), folder.path().join("after"));
        catalog.export(&before, &old).await?;
        catalog.export(&after, &new).await?;
        let (mut failed, mut compared) = (false, Vec::new());
        for name in names(&before, &after) {
            let (there, here) = (old.join(name), new.join(name));
            if !there.is_file() || !here.is_file() {
                // Nothing can be compared with it.
                failed |= self.judgement.deny_gone && !here.is_file();
                self.tell_lone(name, &here, &mut compared)?;
                continue;
            }
            let request = DiffRequest {
                before: there,
                after: here,
                noise: self.judgement.noise.0,
                threshold: self.judgement.threshold.0,
            };
            let found = diff(&request, &|_| {})?;
            failed |= found.regressions() > 0 || (self.judgement.deny_gone && found.gone() > 0);
            self.tell(name, &found, &mut compared)?;
        }
        if self.json {
            out::json(&json!({ "before": before.name, "after": after.name, "files": compared }))?;
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn tell_lone(&self, name: &str, here: &Path, compared: &mut Vec<serde_json::Value>) -> anyhow::Result<()> {
        let change = if here.is_file() { "new" } else { "gone" };
        if self.json {
            compared.push(json!({ "name": name, "change": change }));
        } else {
            out::line(format_args!("{name}: {change}"))?;
        }
        Ok(())
    }

    fn tell(&self, name: &str, found: &Diff, compared: &mut Vec<serde_json::Value>) -> anyhow::Result<()> {
        if self.json {
            compared.push(json!({ "name": name, "diff": found }));
            return Ok(());
        }
        out::line(format_args!("{name}:"))?;
        self.judgement.print(found)
    }
}

/// Names of the files of both, the perf db in one of its two forms.
fn names<'a>(before: &'a Manifest, after: &'a Manifest) -> Vec<&'a str> {
    let mut names: Vec<&str> = before.files.iter().chain(&after.files).map(|file| file.name.as_str()).collect();
    names.retain(|name| !name.ends_with(".db"));
    names.sort_unstable();
    names.dedup();
    names
}
