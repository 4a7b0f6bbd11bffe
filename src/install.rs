//! `bluefin install`: puts databases where MIOpen looks for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::target::Target;
use bluefin_exporter::db::Policy;
use bluefin_exporter::db::name::Device;
use bluefin_exporter::install::{
    Action, Combine, InstallPlace, InstallRequest, Installed, Merged, MiopenVersion, PerfForm, RocmVersion, SolverList,
    Versions, install, plan, prepare, recover, system_folder, undo,
};
use bluefin_exporter::release::{Catalog, ReleaseName};
use bluefin_kernel_spec::{Bundle, KernelSpec};
use bluefin_terminal::out;

/// Put databases where MIOpen looks for them, under the names that it looks for
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin install --prefix /opt/rocm db/gfx90a68.*\n  \
    bluefin install --system-db /srv/miopen-db --rocm-version 6.2 --release 2026.1\n  \
    bluefin install --prefix /opt/rocm --user db/*\n  \
    bluefin install --prefix /opt/rocm --undo\n\n\
    Records that are there stay, and those that are given come to them: of a key and a solver the faster, \
    see --policy. What would hide records that MIOpen finds now is refused, and so is what it has no \
    solvers for, unless --force; where it is newer than the solvers that are known, those count as its own. --replace leaves nothing of what is there. \
    What was there is kept in .bluefin beside it, and --undo brings it back. Killed at any instant each file is the old one \
    or the new one, and the same command again finishes it. Processes that run go on with what they have read. \
    docs/releases.md tells which MIOpen reads what.")]
pub struct InstallArgs {
    /// Databases to install: find db, perf db of either form, kernel db; those of batch norms and fusions too
    #[arg(value_name = "FILE", required_unless_present_any = ["release", "undo"], conflicts_with_all = ["release", "undo"])]
    files: Vec<PathBuf>,
    /// Install this release of the store
    #[arg(long, value_name = "NAME", conflicts_with = "undo")]
    release: Option<ReleaseName>,
    /// Where ROCm is; tells its version, and where MIOpen looks
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The folder of the system databases, as in MIOPEN_SYSTEM_DB_PATH
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    system_db: Option<PathBuf>,
    /// Install for this user alone: where MIOPEN_USER_DB_PATH and MIOPEN_CUSTOM_CACHE_DIR say, or below the home
    #[arg(long)]
    user: bool,
    /// The ROCm that will read the files [default: what the prefix says]
    #[arg(long, value_name = "VERSION")]
    rocm_version: Option<RocmVersion>,
    /// The MIOpen that will read the files, with its tweak for --user: 3.2.0.2d1fd997 [default: what the prefix says]
    #[arg(long, value_name = "VERSION")]
    miopen_version: Option<MiopenVersion>,
    /// What the files are to be for, such as gfx90a-104 [default: what their names say]
    #[arg(long, alias = "device")]
    target: Option<Target>,
    /// The device runs with xnack: names get _xnack
    #[arg(long)]
    xnack: bool,
    /// How records come to those that are there: fastest (params and kernels without times: newest), newest, replace or keep-keys
    #[arg(long, value_name = "POLICY", default_value = "fastest", conflicts_with = "replace")]
    policy: Policy,
    /// Leave nothing of the databases that are there
    #[arg(long, conflicts_with = "undo")]
    replace: bool,
    #[arg(long, value_name = "FILE", conflicts_with = "undo", help = crate::db::solvers_help())]
    solvers: Option<PathBuf>,
    /// Install what MIOpen has no solvers for, too: it ignores such records
    #[arg(long, conflicts_with = "undo")]
    force: bool,
    /// Say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Take the last installation back
    #[arg(long)]
    undo: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl InstallArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let versions = self.versions();
        let form = versions.perf_form().map_err(crate::usage)?;
        let place = self.place(&versions)?;
        if self.undo {
            return self.undo(&place);
        }
        let copies = tempfile::tempdir()?;
        let files = match &self.release {
            Some(name) => self.export(name, copies.path()).await?,
            None => bluefin_terminal::db::databases(&self.files)?,
        };
        let (device, renamed) = self.device(&files)?;
        let form = match (form, &place) {
            (Some(form), _) => form,
            // Both forms are written to a system folder then, and each MIOpen takes its own.
            (None, InstallPlace::System { .. }) => PerfForm::Text,
            (None, InstallPlace::User { .. }) => {
                return Err(crate::usage("nothing tells the version of MIOpen: name it with --miopen-version"));
            }
        };
        let folders = place.folders();
        if !self.dry_run {
            folders.iter().try_for_each(|folder| recover(folder))?;
        }
        let solvers = crate::db::read_solvers(self.solvers.clone())?;
        let solvers = SolverList::of(&solvers, self.solvers.as_deref(), &versions);
        let prepared = prepare(&InstallRequest {
            files: &files,
            device: &device,
            renamed,
            place: &place,
            form,
            nearest: versions.nearest(),
            combine: self.combine(),
            system: self.prefix.as_deref().map(system_folder).as_deref(),
            solvers,
            forced: self.force,
            own_sources: &own_sources(),
        })?;
        for warning in &prepared.warnings {
            say!("warning: {warning}");
        }
        let mut done = Vec::new();
        for (folder, items) in prepared.by_folder() {
            let made = if self.dry_run { plan(&folder, &items) } else { install(&folder, &items) };
            let made = made.with_context(|| hint(&done))?;
            done.push(made);
        }
        self.report(&done)?;
        Ok(ExitCode::SUCCESS)
    }

    fn combine(&self) -> Combine {
        match self.policy {
            _ if self.replace => Combine::Replace,
            Policy::Fastest => Combine::Best,
            policy => Combine::By(policy),
        }
    }

    fn versions(&self) -> Versions {
        if self.miopen_version.is_some() || self.rocm_version.is_some() {
            return Versions { rocm: self.rocm_version, miopen: self.miopen_version.clone() };
        }
        self.prefix.as_deref().map(Versions::detect).unwrap_or_default()
    }

    fn place(&self, versions: &Versions) -> anyhow::Result<InstallPlace> {
        if !self.user {
            let folder = match (&self.system_db, &self.prefix) {
                (Some(folder), _) => folder.clone(),
                (None, Some(prefix)) => system_folder(prefix),
                (None, None) => return Err(crate::usage("name where to install: --prefix, --system-db or --user")),
            };
            return Ok(InstallPlace::System { folder });
        }
        let detected = self.prefix.as_deref().and_then(|prefix| Versions::detect(prefix).miopen);
        let version = versions.miopen.clone().or(detected).ok_or_else(|| {
            crate::usage(
                "the names of users' databases hold MIOpen's whole version: name it with --miopen-version, or --prefix",
            )
        })?;
        let folders = bluefin_exporter::doctor::user_folders(&|name| std::env::var_os(name), Some(&version));
        let (folder, cache) =
            folders.ok_or_else(|| crate::usage("HOME is not set, and neither is MIOPEN_USER_DB_PATH"))?;
        Ok(InstallPlace::User { folder, cache, version })
    }

    fn undo(&self, place: &InstallPlace) -> anyhow::Result<ExitCode> {
        self.report(&undo(&place.folders())?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What the names are to say, and whether those of the files may differ in the device's features.
    fn device(&self, files: &[PathBuf]) -> anyhow::Result<(Device, bool)> {
        let mut device = match &self.target {
            Some(target) => Device::of(target),
            None => Device::named_by(files).ok_or_else(|| {
                crate::usage("the names of the files do not tell what they are for: name it with --target")
            })?,
        };
        if !device.is_miopens() {
            anyhow::bail!("{device}: MIOpen runs on gfx… devices only");
        }
        let renamed = self.xnack && !device.id.ends_with("_xnack");
        if renamed {
            device.id.push_str("_xnack");
        }
        Ok((device, renamed))
    }

    async fn export(&self, name: &ReleaseName, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let opened = self.store.open_to_read().await?;
        let catalog = Catalog::new(&*opened.store);
        let manifest = catalog.get(name).await?;
        if let Some(target) = self.target.as_ref().filter(|target| **target != manifest.target) {
            anyhow::bail!("release {name}: is for {}, expected one for {target}", manifest.target);
        }
        Ok(catalog.export(&manifest, folder).await?.into_iter().map(|(path, _)| path).collect())
    }

    fn report(&self, done: &[Installed]) -> anyhow::Result<()> {
        if self.json {
            return out::json(&done);
        }
        for file in done.iter().flat_map(|installed| &installed.files) {
            let action = serde_json::to_value(file.action)?;
            let action = action.as_str().unwrap_or_default();
            let would = if self.dry_run { "would be " } else { "" };
            let records = file.merged.filter(|_| file.action == Action::Merged).map(|merged| {
                let Merged { before, new, changed, gone } = merged;
                format!(": {before} records were there, {new} new, {changed} changed, {gone} gone")
            });
            let (path, bytes) = (file.path.display(), file.bytes);
            out::line(format_args!("{path}: {would}{action}, {bytes} bytes{}", records.unwrap_or_default()))?;
        }
        Ok(())
    }
}

/// Source files of the kernels that bluefin ships.
fn own_sources() -> BTreeSet<String> {
    let shipped = Bundle::shipped().into_iter().map(|bundle| bundle.beside_triton().unwrap_or(bundle));
    let specs = shipped.filter_map(|bundle| KernelSpec::load(&bundle).ok());
    specs.flat_map(|spec| spec.sources().map(ToString::to_string).collect::<Vec<_>>()).collect()
}

fn hint(done: &[Installed]) -> String {
    match done {
        [] => "nothing was installed".to_string(),
        _ => "installed in part: the same command again finishes it, --undo takes it back".to_string(),
    }
}
