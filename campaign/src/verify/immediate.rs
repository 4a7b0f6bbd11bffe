//! MIOpenDriver, asked as a program asks MIOpen that does no search (immediate mode), in processes of their own: with some databases, and with
//! others, in turns.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_common::problem::Problem;
use bluefin_exporter::install::MiopenVersion;
use bluefin_miopen::Tool;
use bluefin_miopen::detect::{self, HIP_VISIBLE, ROCM};
use bluefin_miopen::driver::{Params, arguments};
use bluefin_miopen::place::Place;
use bluefin_miopen::process::{self, Run, Watch};
use bluefin_serving::files::name_of;

use super::asked::Shown;
use super::tries::{Steps, Tries, Try, untold};

/// Where MIOpen is installed with its databases.
const DATABASES: &str = "share/miopen/db";
/// Launches of a process: the first is not counted.
const LAUNCHES: &str = "11";
/// Bytes that are kept of the beginning of what a process says, which has what it read, and of the end, which has the time.
const SAID: usize = 1 << 20;
/// What MIOpenDriver launches of itself: what MIOpen chooses.
pub(super) const CHOICE: &str = "0";

/// MIOpenDriver, and the GPU that it launches on.
pub(super) struct Immediate {
    driver: PathBuf,
    gpu: Shown,
    root: PathBuf,
    /// Of the MIOpen that is installed with it, where its header is.
    pub version: Option<MiopenVersion>,
}

/// How it is asked: for how many turns, and for how long in each.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    pub turns: u32,
    pub limit: Duration,
    /// How much MIOpen is to say, as `MIOPEN_LOG_LEVEL` takes it.
    pub log_level: Option<&'static str>,
}

/// The databases of a side: those that are in the system's folder or the user's.
pub(super) struct Databases {
    /// Of a system's: where all others are.
    pub others: Option<Others>,
    /// Name and contents of what takes their places.
    pub name: String,
    /// See `name`.
    pub contents: Vec<u8>,
}

/// The other databases of a system.
#[derive(Clone)]
pub(super) struct Others {
    pub folder: PathBuf,
    /// What the names begin and end with of those that are not to be taken from there.
    pub hidden: Option<(String, &'static [&'static str])>,
}

/// A side of a row.
#[derive(Default)]
pub(super) struct Side {
    pub tries: Tries,
    /// That the last process launched which told a time.
    pub solver: String,
    /// What that one said, or the last one if none told any.
    pub said: String,
}

impl Immediate {
    /// `driver` is MIOpenDriver, where it is named.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(gpu: &Shown, driver: Option<&Path>) -> anyhow::Result<Self> {
        let Some(found) = detect::find(Tool::MiopenDriver, driver, Path::new(ROCM)) else {
            match driver {
                Some(driver) => {
                    bail!("--miopen-driver: {}: found no such file, expected MIOpenDriver", driver.display())
                }
                None => bail!("--miopen-driver: found no MIOpenDriver, expected its path"),
            }
        };
        let program = found.canonicalize().unwrap_or_else(|_| found.clone());
        let root = program.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_path_buf();
        let version = detect::miopen_version(&root).and_then(|text| text.parse::<MiopenVersion>().ok());
        Ok(Self { driver: found, gpu: gpu.clone(), root, version })
    }

    /// Where the other databases of a system are, of which `path` is one: those that are installed, or what lies beside it.
    pub(super) fn others(&self, path: &Path) -> PathBuf {
        let installed = Some(self.root.join(DATABASES)).filter(|folder| folder.is_dir());
        let here = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        installed.unwrap_or_else(|| here.to_path_buf())
    }

    /// Checks that MIOpen reads a user's file of this name: its version is between what such names begin with and what they end with.
    ///
    /// # Errors
    /// If it reads another one.
    pub(super) fn check_user(&self, path: &Path, base: &str, end: &str) -> anyhow::Result<()> {
        let Some(version) = &self.version else { return Ok(()) };
        let (name, expected) = (name_of(path), format!("{base}.{}{end}", version.user_suffix("HIP")));
        if name != expected {
            bail!(
                "{}: found the name {name}, expected {expected}: MIOpen {version} reads no other, and --miopen-driver says another one",
                path.display()
            );
        }
        Ok(())
    }

    /// What MIOpenDriver is asked: a solution of a problem, without a search, several times.
    ///
    /// # Errors
    /// Why it has no words for the problem.
    pub(super) fn words(problem: &Problem, solution: &str) -> Result<Vec<OsString>, String> {
        let words = arguments(problem, Params::Take).map_err(|error| error.to_string())?;
        Ok(asked(words, solution))
    }

    /// What processes with each of these databases tell, in turns; and why no side runs, if none does.
    pub(super) async fn sides(
        &self,
        databases: &[Databases],
        words: &[OsString],
        asking: Asking,
        what: &str,
        steps: &mut Steps<'_>,
    ) -> anyhow::Result<(Vec<Side>, Option<String>)> {
        let Asking { turns, .. } = asking;
        let mut sides: Vec<(Place, &Databases, Side)> = Vec::new();
        for databases in databases {
            let place = self.place(databases, asking).context("folders of MIOpenDriver")?;
            sides.push((place, databases, Side::default()));
        }
        let mut dead = None;
        for turn in 0..turns {
            // Neither side is always the first.
            let count = sides.len();
            for at in 0..count {
                let at = if turn % 2 == 0 { at } else { count - 1 - at };
                let Some((place, databases, side)) = sides.get_mut(at) else { continue };
                if side.tries.is_open(turns) {
                    steps.begin(&format!("turn {} of {turns}: {what}", turn + 1));
                    let (came, solver, said) = self.process(place, databases, words, asking).await?;
                    side.tries.add(came);
                    match solver {
                        Some(solver) => (side.solver, side.said) = (solver, said),
                        None if side.solver.is_empty() => side.said = said,
                        None => {}
                    }
                }
            }
            if turn == 0 && sides.iter().all(|(_, _, side)| side.tries.dead().is_some()) {
                dead = sides.first().and_then(|(_, _, side)| side.tries.dead().map(str::to_string));
                sides.iter_mut().for_each(|(_, _, side)| side.tries.give_up());
            }
        }
        Ok((sides.into_iter().map(|(_, _, side)| side).collect(), dead))
    }

    /// A place whose databases are those that are installed with MIOpen, but for those of the side.
    fn place(&self, databases: &Databases, asking: Asking) -> std::io::Result<Place> {
        let mut place = Place::new(None)?;
        place.set("MIOPEN_FIND_ENFORCE", "1");
        asking.log_level.iter().for_each(|level| place.set("MIOPEN_LOG_LEVEL", *level));
        self.gpu.devices.iter().for_each(|devices| place.set(HIP_VISIBLE, devices));
        let Some(others) = &databases.others else { return Ok(place) };
        let folder = databases.folder(&place);
        std::fs::create_dir(&folder)?;
        for other in std::fs::read_dir(std::path::absolute(&others.folder)?)?.flatten() {
            let name = other.file_name();
            if *name != *databases.name && !others.hides(&name.to_string_lossy()) {
                std::os::unix::fs::symlink(other.path(), folder.join(other.file_name()))?;
            }
        }
        place.set("MIOPEN_SYSTEM_DB_PATH", folder);
        Ok(place)
    }

    /// What a process tells, which solver it launched, and all that it said.
    async fn process(
        &self,
        place: &Place,
        databases: &Databases,
        words: &[OsString],
        asking: Asking,
    ) -> anyhow::Result<(Try, Option<String>, String)> {
        let folder = databases.folder(place);
        let write = std::fs::write(folder.join(&databases.name), &databases.contents);
        write.with_context(|| folder.display().to_string())?;
        let mut command = vec![self.driver.clone().into_os_string()];
        command.extend(words.iter().cloned());
        let run = Run { command, environment: place.environment(), folder: place.path().to_path_buf(), output: None };
        let limit = asking.limit;
        let watch = Watch { time: limit, silence: limit, tail_bytes: SAID, head_bytes: SAID, ..Watch::default() };
        let ran =
            self.gpu.lock.hold_for_long(process::run(&run, &watch)).await.context("MIOpenDriver does not start")?;
        Ok(match read(&ran.tail).filter(|_| ran.is_success()) {
            Some((us, solver)) => (Try::Timed(us), Some(solver), ran.tail),
            None => (untold(&ran, 3, "MIOpenDriver told no time"), None, ran.tail),
        })
    }
}

impl Others {
    fn hides(&self, name: &str) -> bool {
        self.hidden.as_ref().is_some_and(|(begin, ends)| {
            name.strip_prefix(&**begin).is_some_and(|rest| ends.iter().any(|end| rest.ends_with(end)))
        })
    }
}

impl Databases {
    fn folder(&self, place: &Place) -> PathBuf {
        if self.others.is_none() { place.user_db() } else { place.path().join("system-db") }
    }
}

fn asked(words: Vec<OsString>, solution: &str) -> Vec<OsString> {
    let mut asked: Vec<OsString> = Vec::with_capacity(words.len() + 2);
    for word in words {
        let is_count = asked.last().is_some_and(|last| last == "-i");
        asked.push(if is_count { LAUNCHES.into() } else { word });
    }
    asked.extend(["-S", solution].map(OsString::from));
    asked
}

/// The time that MIOpenDriver tells, in microseconds, and the solver that it launched.
fn read(printed: &str) -> Option<(f64, String)> {
    let time = printed.lines().rev().find(|line| line.starts_with("GPU Kernel Time ") && !line.contains(" Bias "))?;
    let ms: f64 = time.split_once("Elapsed: ")?.1.split_whitespace().next()?.parse().ok()?;
    let solution = printed.lines().rev().find_map(|line| line.strip_prefix("MIOpen ")?.split_once(", Solution: "))?;
    let solver = solution.1.split_once('/')?.1.trim();
    (ms.is_finite() && ms > 0.0).then(|| (1000.0 * ms, solver.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_miopendriver_tells_is_read() {
        let printed = "MIOpenDriver conv -n 1\nForward Conv solutions available: 3\nMIOpen Forward Conv. Algorithm: 1, Solution: 84/ConvDirectNaiveConvFwd\n\
            GPU Kernel Time Forward Conv. Elapsed: 0.012500 ms (average)\nstats: name, n, c\n";
        assert_eq!(read(printed), Some((12.5, "ConvDirectNaiveConvFwd".to_string())));
        assert_eq!(read(&printed.replace("0.012500", "-1")), None);
        assert_eq!(read("GPU Kernel Time Forward Conv. Elapsed: nonsense\n"), None);
        let words = asked(["conv", "-t", "1", "-i", "1"].map(OsString::from).to_vec(), CHOICE);
        assert_eq!(words, ["conv", "-t", "1", "-i", "11", "-S", "0"]);
    }
}
