//! Processes of aiter's tuners that call an operator with the rows of one file or another: built once a side, then in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bluefin_aiter::{Family, Key, Row, Table, Tuner, operator};
use bluefin_miopen::process::{self, Ended, Run, Watch, describe};

use super::asked::ToolArgs;

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

/// What an operator took for a shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Microseconds from end to end, of each process.
    pub samples_us: Vec<f64>,
    /// Why it has no time, or no more: what it computes is wrong, or it takes its process with it.
    pub failure: Option<String>,
    /// Why nothing is known of it: aiter has no way to call the operator.
    pub unmeasured: Option<String>,
}

/// A shape: what tells it from others, and its cells by name.
pub(super) type Shape = (Key, Vec<(String, String)>);

/// The sides of one file.
pub(super) struct Sides<'a> {
    args: &'a ToolArgs,
    family: &'static Family,
    tuner: &'static Tuner,
    folder: &'a Path,
    /// The variable that names the file of rows.
    variable: String,
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

impl<'a> Sides<'a> {
    /// Writes the files of the sides into `folder`. Modules begin with links to those that aiter has.
    ///
    /// # Errors
    /// If this aiter has no variable for such files, or a file can not be written.
    pub(super) fn new(
        args: &'a ToolArgs,
        family: &'static Family,
        folder: &'a Path,
        tables: &[(Side, Table)],
    ) -> anyhow::Result<Self> {
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
        Ok(Self { args, family, tuner, folder, variable, sides })
    }

    /// What operators take for shapes, on each side. Those that `known` lacks are not asked for on that side.
    pub(super) async fn measure(
        &self,
        shapes: &[Shape],
        known: &BTreeSet<Key>,
    ) -> anyhow::Result<BTreeMap<(Side, Key), Measured>> {
        let mut measured: BTreeMap<(Side, Key), Measured> = BTreeMap::new();
        for turn in 0..self.args.turns {
            // Neither side is always the first.
            let mut order: Vec<_> = self.sides.iter().collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for (side, rows, modules) in order {
                let is_open = |(key, _): &&Shape| {
                    let came = measured.get(&(*side, key.clone()));
                    let is_asked = *side != Side::Known || known.contains(key);
                    is_asked && came.is_none_or(|came| came.failure.is_none() && came.unmeasured.is_none())
                };
                let open: Vec<&Shape> = shapes.iter().filter(is_open).collect();
                if open.is_empty() {
                    continue;
                }
                for (key, came) in self.turn(&open, rows, modules, turn == 0).await? {
                    let all = measured.entry((*side, key)).or_default();
                    all.samples_us.extend(came.samples_us);
                    all.failure = all.failure.take().or(came.failure);
                    all.unmeasured = all.unmeasured.take().or(came.unmeasured);
                }
            }
        }
        Ok(measured)
    }

    /// One process for all shapes, and one for each of which that says nothing: another shape may have ended it. All processes of the first
    /// turn build the modules that they need: links are to modules with other rows.
    async fn turn(
        &self,
        shapes: &[&Shape],
        rows: &Path,
        modules: &Path,
        build: bool,
    ) -> anyhow::Result<Vec<(Key, Measured)>> {
        let (mut came, _) = self.process(shapes, rows, modules, build).await?;
        let mut all = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let measured = match came.remove(&shape.0) {
                Some(measured) => measured,
                None => {
                    let (mut alone, end) = self.process(&[*shape], rows, modules, build).await?;
                    alone.remove(&shape.0).unwrap_or(end)
                }
            };
            all.push((shape.0.clone(), measured));
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
    ) -> anyhow::Result<(BTreeMap<Key, Measured>, Measured)> {
        let input = self.folder.join("in.csv");
        let columns = shapes.first().map_or(&[][..], |(_, cells)| cells.as_slice());
        let mut table = Table::new(&input, columns.iter().map(|(column, _)| column.as_str()));
        table.rows.extend(shapes.iter().map(|(_, cells)| Row::of(cells.iter().map(|(_, cell)| cell.as_str()))));
        std::fs::write(&input, table.to_bytes()).with_context(|| input.display().to_string())?;
        let mut command = vec![self.args.aiter.program(), self.tuner.script.into()];
        command.extend(self.tuner.arguments.iter().map(OsString::from));
        command.extend([
            "-i".into(),
            input.into(),
            "-o".into(),
            self.folder.join("out.csv").into(),
            "--run_config".into(),
        ]);
        let time = self.args.limit.saturating_mul(1 + u32::try_from(shapes.len()).unwrap_or(u32::MAX - 1));
        let run = Run {
            command,
            environment: self.environment(rows, modules, build),
            folder: self.args.aiter.aiter.clone(),
            output: None,
        };
        let watch = Watch { time, silence: time, ..Watch::default() };
        let ran = process::run(&run, &watch).await.context("aiter's tuner does not start")?;
        let how = match &ran.ended {
            Ended::Exited(status) => describe(*status),
            Ended::OutOfTime | Ended::Silent => format!("killed after {} s", ran.took.as_secs()),
            Ended::TooLarge => "killed: it wrote too much".to_string(),
            Ended::Killed(reason) => bail!("aiter's tuner was killed: {reason}"),
        };
        let told = operator::read(self.family, &ran.tail);
        let words: Vec<&str> = ran.tail.lines().rev().filter(|line| !line.trim().is_empty()).take(4).collect();
        let words: Vec<&str> = words.into_iter().rev().collect();
        let reason = format!("aiter did not measure the operator: {how}: {}", words.join(" | "));
        // It ends well too where aiter has no way to call the operator, or prints what is no table.
        let end = if ran.is_success() {
            Measured { unmeasured: Some(reason), ..Measured::default() }
        } else {
            Measured { failure: Some(reason), ..Measured::default() }
        };
        let measured = |it: operator::Operator| match it.us {
            Some(us) => Measured { samples_us: vec![us], ..Measured::default() },
            None => {
                Measured { failure: it.reason.or_else(|| Some("it has no time".to_string())), ..Measured::default() }
            }
        };
        let asked: BTreeSet<&Key> = shapes.iter().map(|(key, _)| key).collect();
        let told = told.into_iter().filter(|(key, _)| asked.contains(key));
        Ok((told.map(|(key, it)| (key, measured(it))).collect(), end))
    }

    /// That of this process, without what is bluefin's.
    fn environment(&self, rows: &Path, modules: &Path, build: bool) -> Vec<(OsString, OsString)> {
        let own = std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"BLUEFIN_"));
        let mut variables: BTreeMap<OsString, OsString> = own.collect();
        variables.insert("TMPDIR".into(), self.folder.into());
        variables.insert(MODULES.1.into(), modules.into());
        variables.insert((&self.variable).into(), rows.into());
        if build {
            variables.insert(REBUILD.0.into(), REBUILD.1.into());
        }
        variables.into_iter().collect()
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
