//! `bluefin release`: the best databases known at a time, kept for good under a name.

mod diff;

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_common::target::Target;
use bluefin_exporter::release::{Catalog, CreateRequest, Manifest, Policy, ReleaseName, create};
use bluefin_terminal::out;
use bluefin_terminal::release::{of_manifest, of_step, print, print_created, sheet};
use bluefin_terminal::sheet::TableArgs;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::export::{Top, parse_top};

/// Keep the best databases known at a time under a name, for good
#[derive(Subcommand)]
#[command(after_help = "Example:\n  \
    bluefin release create 2026.1 --from /opt/rocm/share/miopen/db --session nightly --policy keep-best --channel stable\n  \
    bluefin release diff 2026.1 2026.2\n  \
    bluefin release export 2026.1 -o db\n  \
    bluefin release rollback --channel stable\n\n\
    A release never changes; a channel is a name that points to one and can be moved. docs/releases.md tells more.")]
pub enum ReleaseVerb {
    Create(CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Export(ExportArgs),
    Diff(diff::DiffArgs),
    Rollback(RollbackArgs),
    Verify(VerifyArgs),
}

/// Which of two results stands.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PolicyArg {
    /// For each key and solver the better time
    #[default]
    KeepBest,
    /// What a session has of a key, whole
    Replace,
}

/// Make a release of a base and of sessions
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin release create 2026.1 --from db --target gfx90a-104 --note 'as shipped'\n  \
    bluefin release create 2026.2 --from 2026.1 --session nightly --policy keep-best --channel stable\n\n\
    Killed at any point it leaves no release or a whole one; the same command again finishes it."
)]
pub struct CreateArgs {
    /// What to call it: 1 to 64 of A-Z a-z 0-9 . _ -
    name: ReleaseName,
    /// What it is based on: a release, or a folder of MIOpen's databases
    #[arg(long, value_name = "RELEASE|DIR")]
    from: Option<String>,
    /// A session whose results go in; may be given several times
    #[arg(long, value_name = "NAME")]
    session: Vec<SessionName>,
    /// Which result stands where both have one
    #[arg(long, value_enum, default_value_t)]
    policy: PolicyArg,
    /// What it is for, such as gfx90a-104 [default: the session's or the base's]
    #[arg(long, alias = "device")]
    target: Option<Target>,
    /// Let this channel point to it
    #[arg(long, value_name = "NAME")]
    channel: Option<ReleaseName>,
    /// Why it is made
    #[arg(long, default_value = "")]
    note: String,
    /// Solvers kept for each find-db key, fastest first: a number, or all
    #[arg(long, default_value = "all", value_parser = parse_top)]
    top: Top,
    /// Take what sessions have that are not finished
    #[arg(long)]
    partial: bool,
    /// Print the release as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// List releases and channels
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin release list --target gfx90a-104 --json")]
pub struct ListArgs {
    /// Only those for this target
    #[arg(long, alias = "device")]
    target: Option<Target>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Show what a release is, or where a channel was
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin release show 2026.1\n  bluefin release show --channel stable --json")]
pub struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Write the files of a release, the same bytes every time
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin release export 2026.1 -o db\n  bluefin release export --channel stable -o db"
)]
pub struct ExportArgs {
    #[command(flatten)]
    which: Which,
    /// Folder to write to; made if need be
    #[arg(short, long, visible_alias = "out", value_name = "DIR")]
    output: PathBuf,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Point a channel back to a release that it pointed to before
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin release rollback --channel stable\n  \
    bluefin release rollback --channel stable --to 2026.1\n\n\
    Nothing is deleted: bluefin release show --channel stable tells every step.")]
pub struct RollbackArgs {
    /// The channel to move
    #[arg(long, value_name = "NAME")]
    channel: ReleaseName,
    /// The release to point to [default: the one before]
    #[arg(long, value_name = "NAME")]
    to: Option<ReleaseName>,
    /// Which of the channels of this name, if several targets have one
    #[arg(long, alias = "device")]
    target: Option<Target>,
    /// Print the step as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Read releases back whole and compare them with their digests; exit code 1 with findings
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin release verify\n  bluefin release verify 2026.1 --json")]
pub struct VerifyArgs {
    /// Releases to verify [default: all]
    names: Vec<ReleaseName>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// A release by its name or by that of a channel.
#[derive(clap::Args)]
pub struct Which {
    /// The release
    #[arg(required_unless_present = "channel", conflicts_with = "channel")]
    name: Option<ReleaseName>,
    /// The release that this channel points to
    #[arg(long, value_name = "NAME")]
    channel: Option<ReleaseName>,
    /// Which of the channels of this name, if several targets have one
    #[arg(long, requires = "channel")]
    target: Option<Target>,
}

impl Which {
    /// The release.
    pub async fn find(&self, catalog: &Catalog<'_>) -> anyhow::Result<Manifest> {
        match (&self.name, &self.channel) {
            (Some(name), _) => Ok(catalog.get(name).await?),
            (None, Some(channel)) => {
                let steps = catalog.steps(channel, self.target.as_ref()).await?;
                let last = steps.last().ok_or_else(|| anyhow::anyhow!("channel {channel}: points to no release"))?;
                Ok(catalog.get(&last.release).await?)
            }
            (None, None) => Err(crate::usage("name a release or a --channel")),
        }
    }
}

impl ReleaseVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Create(args) => args.run().await,
            Self::List(args) => args.run().await,
            Self::Show(args) => args.run().await,
            Self::Export(args) => args.run().await,
            Self::Diff(args) => args.run().await,
            Self::Rollback(args) => args.run().await,
            Self::Verify(args) => args.run().await,
        }
    }
}

impl CreateArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        if self.from.is_none() && self.session.is_empty() {
            return Err(crate::usage("nothing to release: name a --session, or a base with --from"));
        }
        let request = CreateRequest {
            name: self.name,
            from: self.from,
            sessions: self.session,
            policy: match self.policy {
                PolicyArg::KeepBest => Policy::KeepBest,
                PolicyArg::Replace => Policy::Replace,
            },
            target: self.target,
            channel: self.channel,
            note: self.note,
            top: self.top.0,
            partial: self.partial,
        };
        let opened = self.store.open().await?;
        let created = create(&*opened.store, &request).await?;
        opened.close().await;
        if self.json {
            let more = json!({
                "new": created.new,
                "merged": created.merged,
                "moved": created.moved.as_ref().map(of_step),
                "warnings": created.warnings,
            });
            out::json(&out::joined(of_manifest(&created.manifest), more))?;
        } else {
            print_created(&created)?;
        }
        for warning in &created.warnings {
            say!("warning: {warning}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ListArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let mut manifests = catalog.list().await?;
        manifests.retain(|manifest| self.target.as_ref().is_none_or(|target| *target == manifest.target));
        let channels = catalog.channels().await?;
        let pointing = |manifest: &Manifest| -> Vec<String> {
            let last = channels.iter().filter_map(|((name, target), steps)| Some((name, target, steps.last()?)));
            last.filter(|(_, target, step)| **target == manifest.target && step.release == manifest.name)
                .map(|(name, ..)| name.to_string())
                .collect()
        };
        if self.json {
            let row = |manifest| out::joined(of_manifest(manifest), json!({ "channels": pointing(manifest) }));
            out::json(&manifests.iter().map(row).collect::<Vec<_>>())?;
        } else {
            TableArgs::default().print(&sheet(&manifests, pointing))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ShowArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let manifest = self.which.find(&catalog).await?;
        let steps = match &self.which.channel {
            Some(channel) => catalog.steps(channel, self.which.target.as_ref()).await?,
            None => Vec::new(),
        };
        if self.json {
            let steps: Vec<Value> = steps.iter().map(of_step).collect();
            out::json(&out::joined(of_manifest(&manifest), json!({ "steps": steps })))?;
            return Ok(ExitCode::SUCCESS);
        }
        print(&manifest, &steps)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ExportArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let manifest = self.which.find(&catalog).await?;
        let written = catalog.export(&manifest, &self.output).await?;
        if self.json {
            let files: Vec<_> = written.iter().map(|(path, bytes)| json!({ "path": path, "bytes": bytes })).collect();
            out::json(&json!({ "release": manifest.name, "digest": manifest.digest().to_string(), "files": files }))?;
        } else {
            for (path, bytes) in written {
                out::line(format_args!("wrote {}: {bytes} bytes", path.display()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl RollbackArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let catalog = Catalog::new(&*opened.store);
        let step = catalog.roll_back(&self.channel, self.target.as_ref(), self.to.as_ref()).await?;
        opened.close().await;
        if self.json {
            out::json(&of_step(&step))?;
        } else {
            out::line(format_args!("channel {} points to {}, step {}", step.channel, step.release, step.step))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl VerifyArgs {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let mut manifests = Vec::new();
        for name in &self.names {
            manifests.push(catalog.get(name).await?);
        }
        if self.names.is_empty() {
            manifests = catalog.list().await?;
        }
        let mut all = Vec::new();
        for manifest in &manifests {
            all.push(catalog.verify(manifest).await?);
        }
        let found = all.iter().any(|verified| !verified.findings.is_empty());
        if self.json {
            out::json(&all)?;
        } else {
            for verified in &all {
                for finding in &verified.findings {
                    out::line(format_args!("{}: {finding}", verified.name))?;
                }
                if verified.findings.is_empty() {
                    out::line(format_args!(
                        "{}: {} files, {} bytes, whole",
                        verified.name, verified.files, verified.size
                    ))?;
                }
            }
        }
        Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
