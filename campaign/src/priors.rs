//! `--from`: winners of earlier work that first rounds begin with, read from what they are in.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::decision::{description, ranked};
use bluefin_common::digest::Digest;
use bluefin_common::method::Method;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::{Problem, driver};
use bluefin_common::session::{Session, Stage};
use bluefin_common::spelled::counted;
use bluefin_common::store::{Sessions as _, Store, Work};
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_common::wire;
use bluefin_exporter::release::Catalog;
use bluefin_kernel_spec::search::{Fate, Prior, PriorRows, Space};
use bluefin_producer::plan::Asked;
use bluefin_producer::plan::kernels::read_priors;
use bluefin_producer::session::Wanted;
use serde_json::Value as Json;

use crate::known::known;
use crate::usage;

/// Largest file of winners.
const MAX_BYTES: u64 = 256 << 20;
/// How a state file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Groups whose outcomes are read at a time.
const GROUPS: usize = 64;
/// Candidates of a solver for a problem of a session.
const BEST: usize = 4;
/// How many times slower than the winner they may be: a solver that was further behind is tried as one that nothing is known of.
const BEHIND: f64 = 1.2;

/// Reads the winners of a file that is neither JSON nor a state file, if a verb has such files.
pub type OtherFile<'a> = &'a dyn Fn(&Path) -> anyhow::Result<Vec<Prior>>;

/// The blob of the winners that `from` names: a `winners.json`, a state file, else a release or a session of `store`.
///
/// # Errors
/// If it names none of these, or what it names holds no winner; the file, the line or field, what was found and what is expected.
pub async fn keep(
    store: &dyn Store,
    from: &str,
    target: &Target,
    other: Option<OtherFile<'_>>,
) -> anyhow::Result<Digest> {
    let path = Path::new(from);
    let rows = if path.is_file() { of_file(path, target, other).await } else { of_store(store, from, target).await };
    let rows = rows.with_context(|| format!("--from {from}"))?;
    put(store, rows).await?.with_context(|| format!("--from {from}: found no winner, expected one or more"))
}

/// The same of winners that are at hand. `None`: there are none.
///
/// # Errors
/// If the store fails.
pub(crate) async fn put(store: &dyn Store, rows: Vec<Prior>) -> anyhow::Result<Option<Digest>> {
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(Some(store.put_blob(&wire::encode(&PriorRows(rows))?).await?))
}

/// What is wanted, beginning with the winners that `from` names.
///
/// # Errors
/// If it is no session of kernel specs, or as [`keep`].
pub async fn begin_with(store: &dyn Store, wanted: Wanted, from: &str) -> anyhow::Result<Wanted> {
    let method = wanted.session.method;
    if !known().planners().get(method)?.takes_specs() {
        return Err(usage(format!("--from {from}: found tuner {method}, expected {}", Method::KERNELS)));
    }
    let priors = Some(keep(store, from, &wanted.session.target, None).await?);
    Ok(Wanted { session: Session { priors, ..wanted.session.clone() }, ..wanted })
}

async fn of_file(path: &Path, target: &Target, other: Option<OtherFile<'_>>) -> anyhow::Result<Vec<Prior>> {
    let size = std::fs::metadata(path)?.len();
    let mut head = vec![0; SQLITE.len()];
    let read = std::io::Read::read(&mut std::fs::File::open(path)?, &mut head)?;
    head.truncate(read);
    if head == SQLITE {
        let file = SqliteStore::open_read_only(path).await?;
        let rows = of_sessions(&file, file.sessions().await?, target).await;
        file.close().await;
        return rows;
    }
    ensure!(size <= MAX_BYTES, "found {size} bytes, expected at most {MAX_BYTES}");
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    match (first, other) {
        (Some(b'{'), _) => of_winners(&std::fs::read_to_string(path)?),
        (_, Some(other)) => other(path),
        _ => {
            let found = String::from_utf8_lossy(&head).chars().take(12).collect::<String>();
            bail!("line 1: found {found:?}, expected winners.json of bluefin, or a state file")
        }
    }
}

async fn of_store(store: &dyn Store, name: &str, target: &Target) -> anyhow::Result<Vec<Prior>> {
    let expected = "expected a file, or a release or a session of the store";
    let name = name.parse().map_err(|_| usage(format!("found no such file, {expected}")))?;
    let mut sessions = Vec::new();
    if let Some(release) = Catalog::new(store).find(&name).await? {
        // Its databases name params by place, and problems by keys that say less than commands do.
        for name in &release.sessions {
            sessions.extend(store.session(name).await?);
        }
        if sessions.is_empty() {
            let from = release.sessions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            bail!(
                "release {name}: found none of the sessions that it was made from ({from}), expected one or more in the store"
            );
        }
    } else if let Some(session) = store.session(&name).await? {
        sessions.push(session);
    } else {
        return Err(usage(format!("found none of that name, {expected}")));
    }
    of_sessions(store, sessions, target).await
}

/// Of each solver and problem the best candidates, of sessions for `target` if there are any, else of all.
async fn of_sessions(store: &dyn Work, mut sessions: Vec<Session>, target: &Target) -> anyhow::Result<Vec<Prior>> {
    let planners = known().planners();
    sessions.retain(|session| planners.get(session.method).is_ok_and(|planner| planner.takes_specs()));
    if sessions.iter().any(|session| session.target == *target) {
        sessions.retain(|session| session.target == *target);
    }
    ensure!(!sessions.is_empty(), "found no session of kernel specs, expected one or more");
    let mut rows = Vec::new();
    for session in sessions {
        let mut groups = store.groups(&session.name).await?;
        groups.sort_unstable();
        for some in groups.chunks(GROUPS) {
            let outcomes = store.outcomes(&session.name, some).await?;
            rows.extend(outcomes.chunk_by(|a, b| a.group() == b.group()).flat_map(of_group));
        }
    }
    Ok(rows)
}

fn of_group(outcomes: &[Outcome]) -> Vec<Prior> {
    let description = description(outcomes);
    let mut rows: Vec<Prior> = Vec::new();
    let ranked = ranked(outcomes, Stage::Perf);
    let most_ms = ranked.first().map_or(0.0, |first| BEHIND * first.timing.median_ms);
    for timed in ranked.into_iter().take_while(|timed| timed.timing.median_ms <= most_ms) {
        let (candidate, problem) = (&timed.outcome.candidate, outcomes.first().map(|outcome| &outcome.job.problem));
        let taken = rows.iter().filter(|row| row.solver == candidate.solver).count();
        let Some((solver, problem)) = description.solver(&candidate.solver).zip(problem).filter(|_| taken < BEST)
        else {
            continue;
        };
        rows.push(Prior {
            problem: problem.clone(),
            spec: description.library.clone(),
            solver: candidate.solver.clone(),
            params: solver.params.iter().cloned().zip(candidate.params.iter().cloned()).collect(),
        });
    }
    rows
}

fn of_winners(text: &str) -> anyhow::Result<Vec<Prior>> {
    let document: Json = serde_json::from_str(text).context("expected winners.json")?;
    let format = document.get("format");
    ensure!(format == Some(&Json::from(1)), "format: found {}, expected 1", shown(format));
    let problems = document.get("problems");
    let list = problems.and_then(Json::as_array);
    let list = list.with_context(|| format!("problems: found {}, expected a list", shown(problems)))?;
    let mut rows = Vec::new();
    for (index, row) in list.iter().enumerate() {
        rows.extend(winner(row).with_context(|| format!("problems[{index}]"))?);
    }
    Ok(rows)
}

/// `None`: nothing won.
fn winner(row: &Json) -> anyhow::Result<Option<Prior>> {
    let Some(winner) = row.get("winner").filter(|winner| !winner.is_null()) else { return Ok(None) };
    let text = |of: &Json, name: &str| {
        let found = of.get(name);
        let text = found.and_then(Json::as_str).map(str::to_string);
        text.ok_or_else(|| anyhow!("{name}: found {}, expected a text", shown(found)))
    };
    let command = text(row, "problem")?;
    let mut problems = driver::parse(&command, None).context("problem")?;
    let problem: Problem = problems.pop().with_context(|| format!("problem: found {command:?}, expected a problem"))?;
    let params = winner.get("params");
    let named = params.and_then(Json::as_object);
    let named = named.with_context(|| format!("winner.params: found {}, expected params by name", shown(params)))?;
    let value = |(name, value): (&String, &Json)| {
        let value = match value {
            Json::Bool(value) => Some(Value::Bool(*value)),
            Json::String(value) => Some(Value::Text(value.clone())),
            Json::Number(value) => value.as_i64().map(Value::Int),
            _ => None,
        };
        let expected = "expected a whole number, a switch or a text";
        let value =
            value.with_context(|| format!("winner.params.{name}: found {}, {expected}", shown(named.get(name))))?;
        Ok((name.clone(), value))
    };
    let params = named.iter().map(value).collect::<anyhow::Result<_>>()?;
    let solver = text(winner, "solver").context("winner")?;
    Ok(Some(Prior { problem, spec: text(row, "spec")?, solver, params }))
}

fn shown(value: Option<&Json>) -> String {
    value.map_or_else(|| "nothing".to_string(), |value| value.to_string().chars().take(40).collect())
}

/// What becomes of the winners that `session` begins with, where it does, for these problems: how many serve, how many do not and why.
///
/// # Errors
/// If they are not in the store, or an expression of a spec has no value.
pub async fn told(
    store: &dyn Store,
    session: &Session,
    asked: &Asked,
    problems: &[Problem],
) -> anyhow::Result<Vec<String>> {
    let Some(digest) = session.priors else { return Ok(Vec::new()) };
    let priors = read_priors(store, session, digest).await?;
    let mut fates = vec![Fate::NoSolver; priors.count()];
    let mut begun = 0;
    for problem in problems {
        for loaded in asked.specs.of(session.method) {
            let Some(scope) = loaded.spec.scope(problem, &session.target)? else { continue };
            for solver in loaded.spec.solvers_for(&scope)? {
                let chosen = priors.choose(&loaded.spec.name, &Space::of(&loaded.spec, solver, &scope), problem);
                begun += u64::from(!chosen.candidates.is_empty());
                for (at, fate) in chosen.fates {
                    let Some(before) = fates.get_mut(at) else { continue };
                    if fate > *before {
                        *before = fate;
                    }
                }
            }
        }
    }
    Ok(lines(&fates, begun))
}

fn lines(fates: &[Fate], begun: u64) -> Vec<String> {
    let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count() as u64;
    let served = count(|fate| *fate == Fate::Served);
    let of = counted(fates.len() as u64, "known candidate");
    let mut lines = vec![format!(
        "{served} of {of} begin the searches of {}, and are measured like all others",
        counted(begun, "solver")
    )];
    let example = |is: fn(&Fate) -> Option<&String>| fates.iter().find_map(is).cloned().unwrap_or_default();
    let params = |fate: &Fate| matches!(fate, Fate::Params(_));
    let point = |fate: &Fate| matches!(fate, Fate::NoPoint(_));
    let left = [
        (count(|fate| *fate == Fate::Behind), "winners of problems that are more alike come first".to_string()),
        (
            count(point),
            format!(
                "no points of the tuning spaces: {}",
                example(|fate| match fate {
                    Fate::NoPoint(why) => Some(why),
                    _ => None,
                })
            ),
        ),
        (
            count(params),
            format!(
                "other params than their solver has: {}",
                example(|fate| match fate {
                    Fate::Params(why) => Some(why),
                    _ => None,
                })
            ),
        ),
        (count(|fate| *fate == Fate::NoSolver), "no solver of their name applies to any of the problems".to_string()),
    ];
    lines.extend(
        left.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("left out, {count}: {why}")),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"problem": "gemm -m 64 -n 64 -k 64", "spec": "gemm_gpu", "winner": {"solver": "Tiled", "params": {"BM": 32, "SWAP": true, "ORDER": "row"}}}"#;

    fn document(rows: &[&str]) -> String {
        format!("{{\"format\": 1, \"session\": \"s\", \"target\": \"host\", \"problems\": [{}]}}", rows.join(",\n"))
    }

    #[test]
    fn winners_are_read() {
        let none = ROW.replace(r#""winner": {"#, r#""other": {"#);
        let rows = of_winners(&document(&[ROW, &none])).unwrap();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((row.spec.as_str(), row.solver.as_str()), ("gemm_gpu", "Tiled"));
        let params: Vec<String> = row.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(params, ["BM=32", "SWAP=true", "ORDER=row"]);
    }

    #[test]
    fn what_is_no_file_of_winners_is_refused_with_its_place() {
        let message = |text: &str| format!("{:#}", of_winners(text).unwrap_err());
        for (text, said) in [
            ("{\n\"format\": 1,\n", "expected winners.json: EOF while parsing a value at line 3 column 0"),
            ("{}", "format: found nothing, expected 1"),
            (r#"{"format": 2}"#, "format: found 2, expected 1"),
            (r#"{"format": 1, "problems": {}}"#, "problems: found {}, expected a list"),
        ] {
            assert_eq!(message(text), said);
        }
        for (from, to, said) in [
            ("32", "1.5", "problems[1]: winner.params.BM: found 1.5, expected a whole number, a switch or a text"),
            ("gemm -m 64", "gemm -m x", "problems[1]: problem: "),
            (r#""solver": "Tiled""#, r#""solver": 1"#, "problems[1]: winner: solver: found 1, expected a text"),
            (r#""spec": "gemm_gpu","#, "", "problems[1]: spec: found nothing, expected a text"),
        ] {
            let found = message(&document(&[ROW, &ROW.replace(from, to)]));
            assert!(found.starts_with(said), "{found}");
        }
    }

    #[test]
    fn how_many_serve_and_why_others_do_not() {
        let point = || Fate::NoPoint("BM: found 48, expected one of its values".to_string());
        let fates = [Fate::Served, point(), Fate::Served, Fate::Behind, point(), Fate::NoSolver];
        let expected = [
            "2 of 6 known candidates begin the searches of 3 solvers, and are measured like all others",
            "left out, 1: winners of problems that are more alike come first",
            "left out, 2: no points of the tuning spaces: BM: found 48, expected one of its values",
            "left out, 1: no solver of their name applies to any of the problems",
        ];
        assert_eq!(lines(&fates, 3), expected);
    }
}
