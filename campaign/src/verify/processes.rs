//! Processes of aiter's tuners that call an operator with the rows of one file or another: built once a side, then in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bluefin_aiter::{Family, Key, Row, Table, Tuner, operator};
use bluefin_miopen::process::{self, Run, Watch};

use super::asked::{Shown, ToolArgs, VISIBLE};
use super::tries::{Tries, Try, untold};

/// Where aiter's Python has the variables that name its files.
const VARIABLES: &str = "aiter/jit/core.py";
/// Where aiter has the modules that it builds, and the variable that names another place.
const MODULES: (&str, &str) = ("aiter/jit", "AITER_JIT_DIR");
/// Makes aiter build the modules of operators anew, from what it built of them before.
const REBUILD: (&str, &str) = ("AITER_REBUILD", "2");
/// Bytes kept of what a tuner prints: the table with all that lies between its rows.
const PRINTED: usize = 1 << 20;

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

/// The sides of one file.
pub(super) struct Sides<'a> {
    args: &'a ToolArgs,
    caller: &'a Caller,
    gpu: &'a Shown,
    folder: &'a Path,
    /// Each with its file of rows, and its folder of modules.
    sides: Vec<(Side, PathBuf, PathBuf)>,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::With => "with",
            Self::Without => "without",
            Self::Known => "known",
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
    /// Writes the files of the sides into `folder`. Modules begin with links to those that aiter has.
    ///
    /// # Errors
    /// If a file can not be written, or has a name that aiter takes for two.
    pub(super) fn new(
        args: &'a ToolArgs,
        caller: &'a Caller,
        gpu: &'a Shown,
        folder: &'a Path,
        tables: &[(Side, Table)],
    ) -> anyhow::Result<Self> {
        if folder.as_os_str().as_encoded_bytes().contains(&b':') {
            bail!("TMPDIR: found {}, expected a folder without a colon, at which aiter splits", folder.display());
        }
        let root = &args.aiter.aiter;
        let built = std::env::var_os(MODULES.1).map_or_else(|| root.join(MODULES.0), PathBuf::from);
        let built = std::path::absolute(&built).unwrap_or(built);
        let mut sides = Vec::new();
        for (side, table) in tables {
            let (rows, modules) = (folder.join(format!("{}.csv", side.name())), folder.join(side.name()));
            std::fs::write(&rows, table.to_bytes()).with_context(|| rows.display().to_string())?;
            std::fs::create_dir_all(&modules).with_context(|| modules.display().to_string())?;
            for entry in std::fs::read_dir(&built).into_iter().flatten().flatten() {
                let is_module = entry.file_name().to_str().is_some_and(|name| name.ends_with(".so"));
                if is_module {
                    std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name()))?;
                }
            }
            sides.push((*side, rows, modules));
        }
        Ok(Self { args, caller, gpu, folder, sides })
    }

    /// What operators take for shapes, on each side. Those that `known` lacks are not asked for on that side.
    pub(super) async fn measure(
        &self,
        shapes: &[Shape],
        known: &BTreeSet<Key>,
    ) -> anyhow::Result<BTreeMap<(Side, Key), Tries>> {
        let turns = self.args.turns();
        let mut measured: BTreeMap<(Side, Key), Tries> = BTreeMap::new();
        for turn in 0..turns {
            // Neither side is always the first.
            let mut order: Vec<_> = self.sides.iter().collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for (side, rows, modules) in order {
                let came = |key: &Key| measured.get(&(*side, key.clone()));
                let is_open = |(key, _): &&Shape| {
                    let is_asked = *side != Side::Known || known.contains(key);
                    is_asked && came(key).is_none_or(|came| came.is_open(turns))
                };
                let has_failed = |(key, _): &&Shape| came(key).is_some_and(Tries::has_failed);
                let (alone, together): (Vec<&Shape>, Vec<&Shape>) = shapes.iter().filter(is_open).partition(has_failed);
                let told = self.turn(&together, &alone, rows, modules, turn == 0).await?;
                told.into_iter().for_each(|(key, came)| measured.entry((*side, key)).or_default().add(came));
            }
            if turn == 0 {
                give_up(&mut measured, shapes);
            }
        }
        Ok(measured)
    }

    /// One process for all shapes, and one for each of which that says nothing: another shape may have ended it. Those that failed before are
    /// `alone` at once. All processes of the first turn build the modules that they need: links are to modules with other rows.
    async fn turn(
        &self,
        together: &[&Shape],
        alone: &[&Shape],
        rows: &Path,
        modules: &Path,
        build: bool,
    ) -> anyhow::Result<Vec<(Key, Try)>> {
        let mut came = match together {
            [] => BTreeMap::new(),
            shapes => self.process(shapes, rows, modules, build).await?.0,
        };
        let mut all = Vec::with_capacity(together.len() + alone.len());
        for shape in together.iter().chain(alone) {
            let told = match came.remove(&shape.0) {
                Some(told) => told,
                None => {
                    let (mut told, end) = self.process(&[*shape], rows, modules, build).await?;
                    told.remove(&shape.0).unwrap_or(end)
                }
            };
            all.push((shape.0.clone(), told));
        }
        Ok(all)
    }

    /// What a process says of shapes, and what is to be said of those that it says nothing of.
    async fn process(
        &self,
        shapes: &[&Shape],
        rows: &Path,
        modules: &Path,
        build: bool,
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
            environment: self.environment(rows, modules, build),
            folder: self.args.aiter.aiter.clone(),
            output: None,
        };
        let watch = Watch { time, silence: time, tail_bytes: PRINTED, ..Watch::default() };
        let ran = process::run(&run, &watch).await.context("aiter's tuner does not start")?;
        // It ends well too where aiter has no way to call the operator, or prints what is no table.
        let end = untold(&ran, 4, "aiter did not measure the operator");
        let tried = |it: operator::Operator| match (it.us, it.reason) {
            (Some(us), _) => Try::Timed(us),
            (None, Some(reason)) => Try::Failed(reason),
            (None, None) => Try::Unmeasured("it has no time".to_string()),
        };
        let asked: BTreeSet<&Key> = shapes.iter().map(|(key, _)| key).collect();
        let told = operator::read(self.caller.family, &ran.tail).into_iter().filter(|(key, _)| asked.contains(key));
        Ok((told.map(|(key, it)| (key, tried(it))).collect(), end))
    }

    /// That of this process, without what is bluefin's.
    fn environment(&self, rows: &Path, modules: &Path, build: bool) -> Vec<(OsString, OsString)> {
        let own = std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"BLUEFIN_"));
        let mut variables: BTreeMap<OsString, OsString> = own.collect();
        variables.insert("TMPDIR".into(), self.folder.into());
        variables.insert(MODULES.1.into(), modules.into());
        variables.insert((&self.caller.variable).into(), rows.into());
        variables.extend(self.gpu.devices.iter().map(|devices| (VISIBLE.into(), devices.clone())));
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
