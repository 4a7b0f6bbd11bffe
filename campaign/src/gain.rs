//! What the Triton configs that were found give a program: it is run without and with them, in turns.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context as _;
use bluefin_triton::{Applied, Hook, Mode, Run, Runs};
use tokio::process::Command;

use crate::given_back::tuned_in;

/// How much of what a program said is shown where it failed.
const SHOWN: usize = 2_000;

/// Runs `command` without and with the configs in `folder`, as often as asked: with an empty cache of Triton's (cold), and again with what
/// that left (warm).
///
/// # Errors
/// If the configs are not there, or the program fails: with the end of what it said.
pub async fn in_turns(folder: &Path, command: (&OsString, &[OsString]), repeats: u32) -> anyhow::Result<Runs> {
    let tuned = tuned_in(folder)?;
    let mut runs = Runs::default();
    for _ in 0..repeats {
        let caches = [tempfile::tempdir()?, tempfile::tempdir()?];
        for of_start in [&mut runs.cold, &mut runs.warm] {
            for ((runs, cache), with) in of_start.iter_mut().zip(&caches).zip([false, true]) {
                runs.push(once(&tuned, command, with, cache.path()).await?);
            }
        }
    }
    Ok(runs)
}

/// One run: with the configs where `gives` says so, and with Triton's cache in `cache`.
async fn once(
    tuned: &Path,
    (program, arguments): (&OsString, &[OsString]),
    gives: bool,
    cache: &Path,
) -> anyhow::Result<Run> {
    let (hook, folder, said) = (Hook::new()?, tempfile::tempdir()?, tempfile::NamedTempFile::new()?);
    let environment = hook.environment(Mode::Apply { tuned, gives, folder: folder.path(), times: true })?;
    let begin = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .envs(environment)
        .env("TRITON_CACHE_DIR", cache)
        .env("TORCHINDUCTOR_CACHE_DIR", cache.join("inductor"))
        .stdout(Stdio::from(said.reopen()?))
        .stderr(Stdio::from(said.reopen()?))
        .kill_on_drop(true)
        .status()
        .await
        .with_context(|| program.display().to_string())?;
    let seconds = begin.elapsed().as_secs_f64();
    if !status.success() {
        let text = std::fs::read(said.path())?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let from = text.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
        anyhow::bail!("{}: {status}\n{}", program.display(), text.get(from..).unwrap_or_default().trim());
    }
    Ok(Run::of(seconds, &Applied::read(folder.path())?))
}
