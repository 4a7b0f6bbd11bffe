//! What was found for captured Triton kernels, as the program's own Triton reads it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bluefin_common::files::FileSet;
use bluefin_common::spelled::counted;
use bluefin_triton::{CacheOf, Captured, Error, Tuned, Winners};

/// What `apply` and `gain` read.
const TUNED: &str = "triton-tuned.json";
/// Folders as the caches of Triton and of PyTorch's Inductor on disk are.
const TRITON_CACHE: &str = "triton-cache";
const INDUCTOR_CACHE: &str = "inductor-cache";
/// What the exporter says of Triton's kernels.
const WINNERS: &str = "triton.json";

/// Writes into `out`, where an export left `triton.json`, what was found for the captures in `folders`. Returns what to do with it; nothing
/// where nothing was found.
///
/// # Errors
/// If a file can not be read or written.
pub fn write(folders: &[PathBuf], out: &Path) -> anyhow::Result<Option<String>> {
    let winners = out.join(WINNERS);
    if folders.is_empty() || !winners.is_file() {
        return Ok(None);
    }
    let winners = Winners::read(&winners)?;
    let mut captures = Vec::new();
    for folder in folders {
        match Captured::read_all(folder) {
            Ok(found) => captures.extend(found),
            // Specs that were written by hand: no program waits for them.
            Err(Error::Nothing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let tuned = Tuned::of(&captures, &winners);
    if tuned.kernels().is_empty() {
        return Ok(None);
    }
    for cached in tuned.cached() {
        let folder = out.join(folder_of(cached.cache)).join(&cached.folder);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        put(&folder, &cached.file, &cached.text())?;
    }
    // Last, as `apply` takes it for all of them.
    put(out, TUNED, &tuned.document())?;
    let shown = out.display();
    let mut said = format!(
        "{}: {}\n  in the program:     bluefin apply --triton {shown} -- python3 PROGRAM\n",
        out.join(TUNED).display(),
        counted(tuned.kernels().len(), "config"),
    );
    let without = [
        (CacheOf::Triton, "TRITON_CACHE_AUTOTUNING=1 TRITON_CACHE_DIR"),
        (CacheOf::Inductor, "TORCHINDUCTOR_CACHE_DIR"),
    ];
    for (cache, variables) in without {
        if tuned.cached().iter().any(|cached| cached.cache == cache) {
            let folder = out.join(folder_of(cache));
            said += &format!("  or without bluefin: {variables}={} python3 PROGRAM\n", folder.display());
        }
    }
    if let [(name, why), ..] = tuned.uncached() {
        said += &format!("  {} in no cache, such as {name}: {why}\n", counted(tuned.uncached().len(), "config"));
    }
    said += &format!("  what it gives:      bluefin gain --triton {shown} -- python3 PROGRAM");
    Ok(Some(said))
}

fn folder_of(cache: CacheOf) -> &'static str {
    match cache {
        CacheOf::Triton => TRITON_CACHE,
        CacheOf::Inductor => INDUCTOR_CACHE,
    }
}

/// The document of the hook in a folder that `tune --triton` wrote.
///
/// # Errors
/// If it is not there.
pub fn tuned_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join(TUNED);
    let found = path.metadata().with_context(|| {
        format!("{}: expected what `bluefin tune --triton KERNELS -o {}` writes", path.display(), folder.display())
    })?;
    anyhow::ensure!(found.is_file(), "{}: found no file, expected what `bluefin tune --triton` writes", path.display());
    // What the hook can not read leaves the program to tune by itself, which is seen late.
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str::<serde_json::Value>(&text)
        .with_context(|| format!("{}: expected what `bluefin tune --triton` writes", path.display()))?;
    Ok(path)
}

/// Writes a file, whole or not at all.
pub(crate) fn put(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let mut files = FileSet::new(folder).with_context(|| folder.display().to_string())?;
    let path = files.add(name)?;
    let mut file = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes())?;
    files.commit()?;
    Ok(())
}
