//! Kernel Tuner beside our own strategies: its search strategies on the same recorded spaces, in its simulation mode, run by a Python that has
//! the package.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use bluefin_common::value::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::score::Worth;
use super::simulate::Run;
use super::space::{Measured, Point};

/// The release whose strategies these are.
const RELEASE: &str = "1.5.";
/// Those that are made for spaces of this kind; the others are of a few points, of models that need other packages, or like one of these.
const STRATEGIES: [&str; 9] = [
    "random_sample",
    "simulated_annealing",
    "dual_annealing",
    "genetic_algorithm",
    "diff_evo",
    "pso",
    "greedy_ils",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
];

/// A search of the space of that number by a strategy: the time of each evaluation, in order.
#[derive(Debug, Deserialize)]
struct Searched(usize, String, Vec<Option<f64>>);

/// What each strategy is worth on each of `families`, whose spaces it searches one by one.
///
/// # Errors
/// If `python` can not be run, or has not the package, or ends before it is done.
pub fn worths(
    python: &Path,
    families: &[(String, Vec<&Measured>)],
    (seeds, budget, at): (usize, usize, &[usize]),
) -> anyhow::Result<Vec<Worth>> {
    let spaces: Vec<&Measured> = families.iter().flat_map(|(_, spaces)| spaces).copied().collect();
    let asked = json!({
        "budget": budget, "seeds": seeds, "strategies": STRATEGIES,
        "spaces": spaces.iter().map(|space| recorded(space)).collect::<Vec<_>>(),
    });
    let searched = ask(python, &asked).with_context(|| format!("--peer {}", python.display()))?;
    let mut worths = Vec::new();
    let mut first = 0;
    for (name, family) in families {
        let of_family = first..first + family.len();
        first = of_family.end;
        for strategy in STRATEGIES {
            let of = searched.iter().filter(|Searched(at, by, ..)| of_family.contains(at) && by == strategy);
            let runs: Vec<Run> = of.filter_map(|Searched(at, .., ms)| Some(run(spaces.get(*at)?, ms))).collect();
            worths.push(Worth::beside(name.clone(), family, format!("Kernel Tuner, {strategy}"), &runs, budget, at));
        }
    }
    Ok(worths)
}

fn recorded(space: &Measured) -> Json {
    let value = |value: &Value| match value {
        Value::Int(number) => json!(number),
        Value::Bool(switch) => json!(switch),
        Value::Text(text) => json!(text),
    };
    let point = |point: &Point| json!([point.params.iter().map(value).collect::<Vec<_>>(), point.time_ms()]);
    json!({ "params": space.params, "points": space.points.iter().map(point).collect::<Vec<_>>() })
}

fn run(space: &Measured, evaluated: &[Option<f64>]) -> Run {
    let mut best: Option<f64> = None;
    let best_ms = evaluated.iter().map(|ms| {
        best = match (best, *ms) {
            (Some(best), Some(ms)) => Some(best.min(ms)),
            (best, ms) => best.or(ms),
        };
        best
    });
    Run { best_ms: best_ms.collect(), optimum_ms: space.optimum_ms(), ..Run::default() }
}

fn ask(python: &Path, asked: &Json) -> anyhow::Result<Vec<Searched>> {
    let mut command = Command::new(python);
    command.args(["-c", include_str!("peer.py")]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // It reads all before it says anything; what it complains of is small and is read at its end.
    let complained = child.stderr.take().map(|stderr| std::thread::spawn(move || std::io::read_to_string(stderr)));
    let written = child.stdin.take().context("its standard input")?.write_all(asked.to_string().as_bytes());
    let answers = read(&mut child);
    let status = child.wait()?;
    if !status.success() {
        let said = complained.and_then(|said| said.join().ok()?.ok()).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        bail!(
            "it ended with {status} and said {last:?}, expected Kernel Tuner {RELEASE}x: pip install 'kernel_tuner==1.5.*'"
        );
    }
    written?;
    answers
}

fn read(child: &mut Child) -> anyhow::Result<Vec<Searched>> {
    let mut lines = BufReader::new(child.stdout.take().context("its standard output")?).lines();
    let version: String = match lines.next() {
        Some(line) => serde_json::from_str(&line?)?,
        None => return Ok(Vec::new()),
    };
    ensure!(version.starts_with(RELEASE), "found Kernel Tuner {version}, expected {RELEASE}x");
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::simulate::tests::measured;
    use super::*;

    #[test]
    fn the_best_so_far_is_scored() {
        let space = measured(20);
        let run = run(&space, &[None, Some(4.0), Some(8.0), None, Some(2.0)]);
        assert_eq!(run.best_ms, [None, Some(4.0), Some(4.0), Some(4.0), Some(2.0)]);
        assert_eq!([1, 2, 5, 9].map(|at| run.score(at)), [0.0, 0.25, 0.5, 0.5]);
    }

    #[test]
    fn a_python_without_the_package_says_what_to_install() {
        let spaces = [("line".to_string(), vec![])];
        let error = worths(Path::new("/nowhere/python"), &spaces, (1, 8, &[8])).unwrap_err();
        assert!(format!("{error:#}").starts_with("--peer /nowhere/python: No such file"), "{error:#}");
        let error = worths(Path::new("false"), &spaces, (1, 8, &[8])).unwrap_err();
        assert!(format!("{error:#}").ends_with("pip install 'kernel_tuner==1.5.*'"), "{error:#}");
    }
}
