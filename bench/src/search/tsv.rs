//! Tab-separated spaces: a header with the names of the params, `median_ms` and, where it is known, `compile_ms`; then a line for
//! each point. `median_ms` is a time or `fail:` and why, in the words of Kernel Tuner or as bluefin names failures.

use anyhow::{Context as _, anyhow, bail, ensure};
use bluefin_common::failure::FailureKind;
use bluefin_common::value::Value;
use bluefin_kernel_spec::search::Time;

use super::space::{Measured, Reading, is_time, time};

/// Kernel Tuner's words for failures.
const KERNEL_TUNER: [(&str, FailureKind); 3] = [
    ("CompilationFailedConfig", FailureKind::CompileError),
    ("RuntimeFailedConfig", FailureKind::LaunchFailure),
    ("InvalidConfig", FailureKind::InvalidLaunch),
];

/// # Errors
/// The line, what was found there, and what is expected.
pub fn read(name: &str, text: &str) -> anyhow::Result<Measured> {
    let mut lines = (1..).zip(text.lines());
    let (_, header) = lines.next().context("found nothing, expected a header")?;
    let mut space = Reading::new(name, "points", params(header).context("line 1")?);
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        point(&mut space, number, line, header.split('\t').count()).with_context(|| format!("line {number}"))?;
    }
    Ok(space.end())
}

fn params(header: &str) -> anyhow::Result<Vec<String>> {
    let mut columns = header.split('\t');
    let params: Vec<String> = columns.by_ref().take_while(|name| *name != "median_ms").map(str::to_string).collect();
    let behind: Vec<&str> = columns.collect();
    let expected = "expected names of params, median_ms and compile_ms, with tabs between";
    ensure!(header.split('\t').any(|name| name == "median_ms"), "found no column median_ms, {expected}");
    ensure!(
        matches!(behind.as_slice(), [] | ["compile_ms"]),
        "found {:?} behind median_ms, {expected}",
        behind.join(" ")
    );
    ensure!(!params.is_empty(), "found no param, {expected}");
    for (at, name) in params.iter().enumerate() {
        ensure!(!name.is_empty(), "found a column without a name, {expected}");
        ensure!(params.iter().take(at).all(|other| other != name), "found {name} twice, expected each param once");
    }
    Ok(params)
}

fn point(space: &mut Reading, number: usize, line: &str, columns: usize) -> anyhow::Result<()> {
    let cells: Vec<&str> = line.split('\t').collect();
    ensure!(cells.len() == columns, "found {} columns, expected {columns} as in the header", cells.len());
    let (params, rest) = cells.split_at_checked(space.params().len()).unwrap_or((&cells, &[]));
    let result = result(rest.first().copied().unwrap_or_default())?;
    let params = params.iter().map(|text| value(text)).collect();
    let twice = |first| anyhow!("found the params of line {first} again, expected each point once");
    space.add(params, result, number).map_err(twice)
}

fn value(text: &str) -> Value {
    match (text.parse::<i64>(), text) {
        (Ok(number), _) => Value::Int(number),
        (_, "true" | "True") => Value::Bool(true),
        (_, "false" | "False") => Value::Bool(false),
        _ => Value::from(text),
    }
}

fn result(text: &str) -> anyhow::Result<Result<Time, FailureKind>> {
    let Some(word) = text.strip_prefix("fail:") else {
        let found: Option<f64> = text.parse().ok();
        let median_ms = found.filter(|median_ms| is_time(*median_ms));
        let median_ms = median_ms.with_context(|| {
            format!("median_ms: found {text:?}, expected milliseconds above zero, or fail: and why")
        })?;
        return Ok(Ok(time(median_ms)));
    };
    let of_kernel_tuner = KERNEL_TUNER.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let own = || FailureKind::ALL.into_iter().find(|kind| kind.name() == word);
    let Some(kind) = of_kernel_tuner.or_else(own) else {
        let words: Vec<&str> = KERNEL_TUNER.iter().map(|(name, _)| *name).collect();
        bail!(
            "median_ms: found {text:?}, expected fail: and {}, or the name of one of bluefin's failures",
            words.join(", ")
        );
    };
    Ok(Err(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_with_times_and_failures() {
        let space = read(
            "tiny",
            "tile\tlayout\tmedian_ms\tcompile_ms\n1\tNCHW\t2.5\t100\n2\tNCHW\tfail:RuntimeFailedConfig\t90\n\
             2\tNHWC\tfail:wrong_result\t90\n4\tTrue\t1.25\t80\n",
        );
        let space = space.unwrap();
        assert_eq!(
            (space.name.as_str(), space.params.as_slice()),
            ("tiny", ["tile".into(), "layout".into()].as_slice())
        );
        let results: Vec<_> = space.points.iter().map(|point| point.result).collect();
        assert_eq!(
            results,
            [Ok(time(2.5)), Err(FailureKind::LaunchFailure), Err(FailureKind::WrongResult), Ok(time(1.25))]
        );
        assert_eq!(space.points[3].params, [Value::Int(4), Value::Bool(true)]);
        assert_eq!((space.optimum_ms(), space.failed()), (1.25, 2));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let header = "a\tmedian_ms\tcompile_ms\n";
        for (text, said) in [
            ("", "found nothing, expected a header"),
            ("a\tb\n1\t2\n", "line 1: found no column median_ms"),
            ("median_ms\n1\n", "line 1: found no param"),
            ("a\ta\tmedian_ms\n", "line 1: found a twice"),
            ("a\t\tmedian_ms\n", "line 1: found a column without a name"),
            ("a\tmedian_ms\tjoules\n", "line 1: found \"joules\" behind median_ms"),
            (&format!("{header}1\t2\n"), "line 2: found 2 columns, expected 3"),
            (&format!("{header}1\t2\t3\n2\t-1\t3\n"), "line 3: median_ms: found \"-1\", expected milliseconds"),
            (&format!("{header}1\tNaN\t3\n"), "line 2: median_ms: found \"NaN\""),
            (&format!("{header}1\tfail:Nope\t3\n"), "line 2: median_ms: found \"fail:Nope\", expected fail: and Comp"),
            (&format!("{header}1\t2\t3\n1\t3\t3\n"), "line 3: found the params of line 2 again"),
        ] {
            let error = format!("{:#}", read("x", text).unwrap_err());
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
    }
}
