//! What `--compare` names: sessions, state files, releases, databases.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bluefin_campaign::ports::{Opened, StoreArgs};
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_exporter::db::Source;
use bluefin_exporter::db::diff::{DiffRequest, diff};
use bluefin_exporter::db::name::DbKind;
use bluefin_exporter::release::{Catalog, Manifest, ReleaseName};
use bluefin_exporter::report::compare::{Compared, Names, Side, compare as compare_sides};

/// One of the two.
enum Named {
    Session(Opened, SessionName),
    Release(Opened, Box<Manifest>),
    Database(PathBuf, DbKind),
}

impl Named {
    async fn of(store: &StoreArgs, text: &str) -> anyhow::Result<Self> {
        let (path, session) = match text.rsplit_once(':') {
            Some((path, session)) if Path::new(path).is_file() => (path, Some(session)),
            _ => (text, None),
        };
        if Path::new(path).is_file() {
            return Self::of_file(path, session).await;
        }
        let name: SessionName = text.parse().with_context(|| format!("--compare {text}: no such file, and"))?;
        let opened = store.open_to_read().await?;
        if opened.store.session(&name).await?.is_some() {
            return Ok(Self::Session(opened, name));
        }
        let release: ReleaseName = name;
        match Catalog::new(&*opened.store).find(&release).await? {
            Some(manifest) => Ok(Self::Release(opened, Box::new(manifest))),
            None => bail!("--compare {text}: found no file, session or release of that name"),
        }
    }

    async fn of_file(path: &str, session: Option<&str>) -> anyhow::Result<Self> {
        let state = StoreArgs { state: Some(path.into()), ..StoreArgs::default() };
        // A perf db is SQLite's too: its tables tell.
        match state.open_to_read().await {
            Ok(opened) => {
                let session = match session {
                    Some(name) => name.parse()?,
                    None => super::only_session(&*opened.store).await.with_context(|| path.to_string())?,
                };
                Ok(Self::Session(opened, session))
            }
            Err(no_state) if session.is_some() => Err(no_state),
            Err(_) => {
                let source = Source::open(Path::new(path), &|_| {})?;
                Ok(Self::Database(path.into(), source.content.kind))
            }
        }
    }

    /// Winners, by names that both sides have.
    async fn side(&self, names: Names) -> anyhow::Result<Side> {
        match self {
            Self::Session(opened, name) => {
                let store: &dyn Store = &*opened.store;
                Ok(Side::of_session(store, name, names, &super::counts(store).await?).await?)
            }
            Self::Database(path, _) => find_db(path),
            Self::Release(opened, manifest) => {
                let folder = tempfile::tempdir()?;
                Catalog::new(&*opened.store).export(manifest, folder.path()).await?;
                let mut files = manifest.files.iter().filter(|file| file.name.ends_with(".fdb.txt"));
                let file = files.next().with_context(|| format!("release {}: it has no find db", manifest.name))?;
                find_db(&folder.path().join(&file.name))
            }
        }
    }
}

fn find_db(path: &Path) -> anyhow::Result<Side> {
    Ok(Side::of_find_db(&Source::open(path, &|_| {})?.find_db()?))
}

/// Compares what `before` and `after` name.
pub async fn compare(store: &StoreArgs, before: &str, after: &str, noise: f64) -> anyhow::Result<Compared> {
    let (old, new) = (Named::of(store, before).await?, Named::of(store, after).await?);
    let mut compared =
        Compared { before: before.to_string(), after: after.to_string(), noise, winners: None, files: Vec::new() };
    match (&old, &new) {
        // Databases without times.
        (Named::Database(a, kind), Named::Database(b, _)) if *kind != DbKind::Find => {
            let request = DiffRequest { before: a.clone(), after: b.clone(), noise, threshold: noise };
            compared.files.push((after.to_string(), diff(&request, &|_| {})?));
        }
        _ => {
            let is_session = |named: &Named| matches!(named, Named::Session(..));
            let names = if is_session(&old) && is_session(&new) { Names::Canonical } else { Names::FindDb };
            compared.winners = Some(compare_sides(&old.side(names).await?, &new.side(names).await?, noise));
        }
    }
    Ok(compared)
}
