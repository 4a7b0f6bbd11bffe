//! Processes of aiter's tuners that call an operator with the rows of one file or another: built once a side, then in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bluefin_aiter::{Family, Key, Row, Table, Tuner, operator};
use bluefin_common::spelled::counted;
use bluefin_miopen::detect::HIP_VISIBLE;
use bluefin_miopen::process::{self, Run, Watch};

use super::asked::{Shown, ToolArgs};
use super::tries::{Steps, Tries, Try, untold};

/// Where aiter's Python has the variables that name its files.
const VARIABLES: &str = "aiter/jit/core.py";
/// Where aiter has the modules that it builds, and the variable that names another place.
const MODULES: (&str, &str) = ("aiter/jit", "AITER_JIT_DIR");
/// Makes aiter build the modules of operators anew, from what it built of them before.
const REBUILD: (&str, &str) = ("AITER_REBUILD", "2");

/// By which rows an operator is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// Those of the file.
    With,
    /// None: aiter chooses.
    Without,
    /// Those of another file that is known.
    Known,
}

/// A shape: what tells it from others, and its cells by name.
pub(super) type Shape = (Key, Vec<(String, String)>);

/// How aiter calls the operator of a family.
#[derive(Clone)]
pub(super) struct Caller {
    family: &'static Family,
    tuner: &'static Tuner,
    /// The variable that names the file of rows.
    variable: String,
}

/// The rows of a side.
pub(super) struct Rows {
    pub side: Side,
    /// All that operators are built with.
    pub all: Table,
    /// Those that the operator of a shape takes: others may keep it from being built.
    pub alone: BTreeMap<Key, Table>,
}

/// The sides of some shapes.
pub(super) struct Sides<'a> {
    args: &'a ToolArgs,
    caller: &'a Caller,
    gpu: &'a Shown,
    folder: &'a Path,
    sides: Vec<Rows>,
}

/// Which rows operators are built with, and where: a file, and a folder of modules.
struct Built {
    rows: PathBuf,
    modules: PathBuf,
}

/// Which turn it is, and what was built before.
struct Turn {
    number: u32,
    /// Folders of modules that are built.
    built: BTreeSet<PathBuf>,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::With => "with",
            Self::Without => "without",
            Self::Known => "known",
        }
    }

    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::With => "by the file's rows",
            Self::Without => "without its row",
            Self::Known => "by the known rows",
        }
    }
}

impl Caller {
    /// # Errors
    /// If this aiter has no variable for such files or no tuner of the family, or there is no such Python.
    pub(super) fn find(args: &ToolArgs, family: &'static Family) -> anyhow::Result<Self> {
        let root = &args.aiter.aiter;
        let source = root.join(VARIABLES);
        let text = std::fs::read_to_string(&source).with_context(|| format!("--aiter: {}", source.display()))?;
        let Some(variable) = variable_of(&text, family.file) else {
            bail!(
                "{}: found no variable for files of {}, expected one, as aiter has since 2026",
                source.display(),
                family.file
            );
        };
        let tuner = family.tuner.as_ref().with_context(|| format!("{}: a family without a tuner", family.name))?;
        let script = root.join(tuner.script);
        if !script.is_file() {
            bail!("--aiter: {}: found no such file, expected aiter's tuner", script.display());
        }
        let program = PathBuf::from(args.aiter.program());
        if program.is_absolute() && !program.is_file() {
            bail!("--python: {}: found no such file, expected a Python", program.display());
        }
        Ok(Self { family, tuner, variable })
    }
}

impl<'a> Sides<'a> {
    /// Writes the files of the sides into `folder`.
    ///
    /// # Errors
    /// If a file can not be written, or has a name that aiter takes for two.
    pub(super) fn new(
        args: &'a ToolArgs,
        caller: &'a Caller,
        gpu: &'a Shown,
        folder: &'a Path,
        sides: Vec<Rows>,
    ) -> anyhow::Result<Self> {
        if folder.as_os_str().as_encoded_bytes().contains(&b':') {
            bail!("TMPDIR: found {}, expected a folder without a colon, at which aiter splits", folder.display());
        }
        let all = Self { args, caller, gpu, folder, sides };
        all.sides.iter().try_for_each(|side| all.begin(&all.built(side, None), &side.all))?;
        Ok(all)
    }

    /// Writes a file of rows. Modules begin with links to those that aiter has.
    fn begin(&self, place: &Built, table: &Table) -> anyhow::Result<()> {
        let Built { rows, modules } = place;
        let there = std::env::var_os(MODULES.1).map_or_else(|| self.args.aiter.aiter.join(MODULES.0), PathBuf::from);
        let there = std::path::absolute(&there).unwrap_or(there);
        std::fs::write(rows, table.to_bytes()).with_context(|| rows.display().to_string())?;
        std::fs::create_dir_all(modules).with_context(|| modules.display().to_string())?;
        for entry in std::fs::read_dir(&there).into_iter().flatten().flatten() {
            let is_module = entry.file_name().to_str().is_some_and(|name| name.ends_with(".so"));
            if is_module {
                std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Where a side is, or a shape's own rows of it.
    fn built(&self, side: &Rows, alone: Option<&Key>) -> Built {
        let at = alone.and_then(|key| side.alone.keys().position(|known| known == key));
        let name = at.map_or_else(|| side.side.name().to_string(), |at| format!("{}-{at}", side.side.name()));
        Built { rows: self.folder.join(format!("{name}.csv")), modules: self.folder.join(name) }
    }

    /// What operators take for shapes, on each side. Those that `known` lacks are not asked for on that side.
    pub(super) async fn measure(
        &self,
        shapes: &[Shape],
        known: &BTreeSet<Key>,
        steps: &mut Steps<'_>,
    ) -> anyhow::Result<BTreeMap<(Side, Key), Tries>> {
        let turns = self.args.turns();
        let mut measured: BTreeMap<(Side, Key), Tries> = BTreeMap::new();
        let mut turn = Turn { number: 0, built: BTreeSet::new() };
        for number in 0..turns {
            turn.number = number;
            // Neither side is always the first.
            let mut order: Vec<&Rows> = self.sides.iter().collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for rows in order {
                let came = |key: &Key| measured.get(&(rows.side, key.clone()));
                let is_open = |(key, _): &&Shape| {
                    let is_asked = rows.side != Side::Known || known.contains(key);
                    is_asked && came(key).is_none_or(|came| came.is_open(turns))
                };
                let is_alone =
                    |(key, _): &&Shape| came(key).is_some_and(|came| came.has_failed() || came.apart().is_some());
                let (alone, together): (Vec<&Shape>, Vec<&Shape>) = shapes.iter().filter(is_open).partition(is_alone);
                let begin = |steps: &mut Steps<'_>, shapes: usize| {
                    let (side, shapes) = (rows.side.words(), counted(shapes as u64, "shape"));
                    steps.begin(&format!("turn {} of {turns}, {side}: {shapes}", number + 1));
                };
                let mut told = match &*together {
                    [] => BTreeMap::new(),
                    shapes => {
                        begin(steps, shapes.len());
                        self.process(shapes, &self.built(rows, None), &mut turn).await?.0
                    }
                };
                for shape in together.iter().chain(&alone) {
                    let tries = measured.entry((rows.side, shape.0.clone())).or_default();
                    match told.remove(&shape.0) {
                        Some(came) => tries.add(came),
                        None => {
                            begin(steps, 1);
                            self.alone(shape, rows, tries, &mut turn).await?;
                        }
                    }
                }
            }
            if number == 0 {
                give_up(&mut measured, shapes);
            }
            steps.end(shapes.len());
        }
        Ok(measured)
    }

    /// A process of one shape: another may have ended that of all. Where it ends as well, the rows of others may be why, and it is called by its own.
    async fn alone(&self, shape: &Shape, rows: &Rows, tries: &mut Tries, turn: &mut Turn) -> anyhow::Result<()> {
        let mut with_others = None;
        if tries.apart().is_none() {
            let (mut told, end) = self.process(&[shape], &self.built(rows, None), turn).await?;
            let came = told.remove(&shape.0).unwrap_or(end);
            match came {
                Try::Ended(end) => with_others = Some(end),
                came => {
                    tries.add(came);
                    return Ok(());
                }
            }
        }
        let own = rows.alone.get(&shape.0).filter(|own| own.records().count() < rows.all.records().count());
        let Some(own) = own else {
            with_others.into_iter().for_each(|end| tries.add(Try::Ended(end)));
            return Ok(());
        };
        let place = self.built(rows, Some(&shape.0));
        if !place.modules.exists() {
            self.begin(&place, own)?;
        }
        let (mut told, end) = self.process(&[shape], &place, turn).await?;
        let came = told.remove(&shape.0);
        with_others.filter(|_| came.is_some()).into_iter().for_each(|end| tries.set_apart(end));
        tries.add(came.unwrap_or(end));
        Ok(())
    }

    /// What a process says of shapes, and what is to be said of those that it says nothing of. All processes of the first turn build the modules
    /// that they need, and later ones until one was built: links are to modules with other rows.
    async fn process(
        &self,
        shapes: &[&Shape],
        place: &Built,
        turn: &mut Turn,
    ) -> anyhow::Result<(BTreeMap<Key, Try>, Try)> {
        let input = self.folder.join("in.csv");
        let columns = shapes.first().map_or(&[][..], |(_, cells)| cells.as_slice());
        let mut table = Table::new(&input, columns.iter().map(|(column, _)| column.as_str()));
        table.rows.extend(shapes.iter().map(|(_, cells)| Row::of(cells.iter().map(|(_, cell)| cell.as_str()))));
        std::fs::write(&input, table.to_bytes()).with_context(|| input.display().to_string())?;
        let mut command = vec![self.args.aiter.program(), self.caller.tuner.script.into()];
        command.extend(self.caller.tuner.arguments.iter().map(OsString::from));
        command.extend([
            "-i".into(),
            input.into(),
            "-o".into(),
            self.folder.join("out.csv").into(),
            "--run_config".into(),
        ]);
        // One that hangs costs the others no more: they are called again alone.
        let time = self.args.limit().saturating_mul(if shapes.len() > 1 { 2 } else { 1 });
        let run = Run {
            command,
            environment: self.environment(place, turn.number == 0 || !turn.built.contains(&place.modules)),
            folder: self.args.aiter.aiter.clone(),
            output: None,
        };
        let watch = Watch { time, silence: time, tail_bytes: operator::PRINTED, ..Watch::default() };
        let ran =
            self.gpu.lock.hold_for_long(process::run(&run, &watch)).await.context("aiter's tuner does not start")?;
        // It ends well too where aiter has no way to call the operator, or prints what is no table.
        let end = untold(&ran, 4, "aiter did not measure the operator");
        let tried = |it: operator::Operator| match (it.us, it.reason) {
            (Some(us), _) => Try::Timed(us),
            (None, Some(reason)) => Try::Failed(reason),
            (None, None) => Try::Unmeasured("it has no time".to_string()),
        };
        let asked: BTreeSet<&Key> = shapes.iter().map(|(key, _)| key).collect();
        let told = operator::read(self.caller.family, &ran.tail).into_iter().filter(|(key, _)| asked.contains(key));
        let told: BTreeMap<Key, Try> = told.map(|(key, it)| (key, tried(it))).collect();
        if !told.is_empty() {
            turn.built.insert(place.modules.clone());
        }
        Ok((told, end))
    }

    /// That of this process, without what is bluefin's.
    fn environment(&self, place: &Built, build: bool) -> Vec<(OsString, OsString)> {
        let own = std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"BLUEFIN_"));
        let mut variables: BTreeMap<OsString, OsString> = own.collect();
        variables.insert("TMPDIR".into(), self.folder.into());
        variables.insert(MODULES.1.into(), (&place.modules).into());
        variables.insert((&self.caller.variable).into(), (&place.rows).into());
        variables.extend(self.gpu.devices.iter().map(|devices| (HIP_VISIBLE.into(), devices.clone())));
        if build {
            variables.insert(REBUILD.0.into(), REBUILD.1.into());
        }
        variables.into_iter().collect()
    }
}

/// Asks no more of shapes that nothing runs for on any side.
fn give_up(measured: &mut BTreeMap<(Side, Key), Tries>, shapes: &[Shape]) {
    for (key, _) in shapes {
        let is_dead = |(_, tries): (&(Side, Key), &Tries)| tries.dead().is_some();
        if measured.iter().filter(|((_, of), _)| of == key).all(is_dead) {
            measured.iter_mut().filter(|((_, of), _)| of == key).for_each(|(_, tries)| tries.give_up());
        }
    }
}

/// The variable that names files of that name, as aiter's source says it: `get_config_file("AITER_CONFIG_X", ..., "a8w8_tuned_gemm")`.
fn variable_of(source: &str, file: &str) -> Option<String> {
    source.split("get_config_file(").skip(1).find_map(|call| {
        let arguments = call.split(')').next()?;
        let quoted: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
        let (variable, name) = (quoted.first()?, quoted.last()?);
        (*name == file && quoted.len() > 1).then(|| (*variable).to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_aiters_source() {
        let source = "
class Config:
    def one(self):
        return self.get_config_file(
            \"AITER_CONFIG_GEMM_A8W8\", AITER_CONFIG_GEMM_A8W8, \"a8w8_tuned_gemm\"
        )

    def get_config_file(self, env_name, default_file, tuned_file_name):
        return os.getenv(env_name, \"x\")
";
        assert_eq!(variable_of(source, "a8w8_tuned_gemm").as_deref(), Some("AITER_CONFIG_GEMM_A8W8"));
        assert_eq!(variable_of(source, "bf16_tuned_gemm"), None);
    }
}
