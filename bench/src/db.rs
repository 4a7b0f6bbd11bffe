//! Databases read, checked and rewritten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use bluefin_exporter::db::check::{CheckReport, CheckRequest, check};
use bluefin_exporter::db::{Destination, Source};
use bluefin_miopen::db::solvers::Solvers;

use super::{Figure, peak_rss_mib};

/// Measures with a find db and a perf db in SQLite, either of which may be packed. Unpacking is not measured.
pub fn run(find: &Path, perf: &Path) -> anyhow::Result<Vec<Figure>> {
    let folder = std::env::temp_dir().join(format!("bluefin-bench-db-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let result = run_in(&folder, find, perf);
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    result
}

fn run_in(folder: &Path, find: &Path, perf: &Path) -> anyhow::Result<Vec<Figure>> {
    let unpack = |path: &Path, name: &str| {
        let to = folder.join(name);
        std::fs::copy(Source::open(path, &|_| {})?.local(), &to).with_context(|| to.display().to_string())?;
        anyhow::Ok(to)
    };
    let (find, perf) = (unpack(find, "gfx000_1.HIP.fdb.txt")?, unpack(perf, "gfx000_1.db")?);
    let out = |name: &str| folder.join("out").join(name);
    let mut figures = Vec::new();

    let (db, read) = timed(|| Ok(Source::open(&find, &|_| {})?.find_db()?))?;
    let keys = db.records.len() as u64;
    let (report, checked) = timed(|| Ok(check_one(&find)))?;
    anyhow::ensure!(report.files.iter().all(|file| file.records == keys), "{report:?}");
    let (_, written) = timed(|| Ok(Destination::parse(&out("gfx000_1.HIP.fdb.txt"))?.find_db(&db)?))?;
    figures.push(Figure::new("keys of the find db", keys as f64, "keys"));
    figures.push(Figure::new("find db: read", read, "s"));
    figures.push(Figure::new("find db: checked (reads it too)", checked, "s"));
    figures.push(Figure::new("find db: rewritten", written, "s"));
    drop(db);

    let (db, read) = timed(|| Ok(Source::open(&perf, &|_| {})?.perf_db(|_| {})?))?;
    let (report, checked) = timed(|| Ok(check_one(&perf)))?;
    anyhow::ensure!(report.files.iter().all(|file| file.records == db.rows()), "{report:?}");
    let (_, sqlite) = timed(|| Ok(Destination::parse(&out("gfx000_1.db"))?.perf_db(&db)?))?;
    let text = out("gfx000_1.db.txt");
    let (_, texts) = timed(|| Ok(Destination::parse(&text)?.perf_db(&db)?))?;
    let (_, text_read) = timed(|| Ok(Source::open(&text, &|_| {})?.perf_db(|_| {})?))?;
    figures.push(Figure::new("rows of the perf db", db.rows() as f64, "rows"));
    figures.push(Figure::new("perf db: read from SQLite", read, "s"));
    figures.push(Figure::new("perf db: checked (reads it too)", checked, "s"));
    figures.push(Figure::new("perf db: rewritten to SQLite", sqlite, "s"));
    figures.push(Figure::new("perf db: rewritten to text", texts, "s"));
    figures.push(Figure::new("perf db: read from text", text_read, "s"));
    figures.push(Figure::new("peak memory", peak_rss_mib(), "MiB"));
    figures.extend(python(&find, &perf, folder)?);
    Ok(figures)
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let started = Instant::now();
    let result = work()?;
    Ok((result, started.elapsed().as_secs_f64()))
}

fn check_one(path: &Path) -> CheckReport {
    let request = CheckRequest {
        files: vec![PathBuf::from(path)],
        solvers: Solvers::shipped().clone(),
        allow: BTreeSet::new(),
        deny: BTreeSet::new(),
    };
    check(&request, &|_| {})
}

/// The same by a plain scan and by sqlite3, where there is a Python.
fn python(find: &Path, perf: &Path, folder: &Path) -> anyhow::Result<Vec<Figure>> {
    let run = Command::new("python3").args(["-c", include_str!("db.py")]).args([find, perf, folder]).output();
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("no python3: nothing to stand beside");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).context("python3"),
    };
    anyhow::ensure!(output.status.success(), "python3: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let whats =
        ["python: plain scan of the find db, read and rewritten", "python: sqlite3, the perf db read and rewritten"];
    let seconds = text.lines().map(|line| line.parse().unwrap_or(f64::NAN));
    Ok(whats.into_iter().zip(seconds).map(|(what, seconds)| Figure::new(what, seconds, "s")).collect())
}
