//! What is other in two sets of files: by key, with ratios, and word for word.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;

use crate::sheet::View;
use crate::{Key, Sheet, SheetKind};

/// Ratios of times, after to before, above which a row is told as worse.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// [`Status::Warn`].
    pub warn: f64,
    /// [`Status::Regress`].
    pub regress: f64,
}

impl Default for Limits {
    /// Those of aiter's own comparison.
    fn default() -> Self {
        Self { warn: 1.10, regress: 1.15 }
    }
}

/// What became of a key, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Slower by more than the second limit.
    Regress,
    /// Slower by more than the first.
    Warn,
    /// No longer there.
    Removed,
    /// One of the two has no time to compare.
    Skipped,
    /// Not there before.
    New,
    /// As fast or faster, or slower by less than the first limit.
    Ok,
}

impl Status {
    /// All of them, the worst first.
    pub const ALL: [Self; 6] = [Self::Regress, Self::Warn, Self::Removed, Self::Skipped, Self::New, Self::Ok];

    /// As aiter's own comparison prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Regress => "REGRESS",
            Self::Warn => "WARN",
            Self::Removed => "REMOVED",
            Self::Skipped => "SKIPPED",
            Self::New => "NEW",
            Self::Ok => "OK",
        }
    }
}

/// A cell that is other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Its column.
    pub column: String,
    /// What stood there.
    pub before: Option<String>,
    /// What stands there now.
    pub after: Option<String>,
}

/// As `git diff --word-diff` marks it.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.column)?;
        if let Some(before) = &self.before {
            write!(f, "[-{before}-]")?;
        }
        if let Some(after) = &self.after {
            write!(f, "{{+{after}+}}")?;
        }
        Ok(())
    }
}

/// A key whose row is other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What became of it.
    pub status: Status,
    /// Name of the family.
    pub family: &'static str,
    /// What the row is looked up by.
    pub key: Key,
    /// Microseconds.
    pub before: Option<f64>,
    /// Microseconds.
    pub after: Option<f64>,
    /// Time after by time before.
    pub ratio: Option<f64>,
    /// What is other, by its column; all of it where one of the two is not there.
    pub words: Vec<Word>,
}

/// What is other in two sets of files.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Keys whose rows are the same.
    pub same: u64,
    /// How many changes there are of each status.
    pub counts: BTreeMap<Status, u64>,
    /// Worst first.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Keys that became slower by more than the second limit.
    #[must_use]
    pub fn regressions(&self) -> u64 {
        self.counts.get(&Status::Regress).copied().unwrap_or(0)
    }

    /// A table for the summary of a job: changes with their times, at most `top` of each status.
    #[must_use]
    pub fn markdown(&self, top: usize) -> String {
        let mut text = format!("{} rows unchanged", self.same);
        for (status, count) in &self.counts {
            text += &format!(", {count} {}", status.name());
        }
        text += "\n";
        if self.changes.is_empty() {
            return text;
        }
        text += "\n| status | family | key | kernel us before | kernel us after | ratio |\n";
        text += "| --- | --- | --- | ---: | ---: | ---: |\n";
        for status in Status::ALL {
            let of_it = || self.changes.iter().filter(move |change| change.status == status);
            for Change { family, key, before, after, ratio, .. } in of_it().take(top) {
                let (before, after) = (shown(*before), shown(*after));
                let ratio = ratio.map_or("-".to_string(), |ratio| format!("{ratio:.3}"));
                let name = status.name();
                text += &format!("| {name} | {family} | {key} | {before} | {after} | {ratio} |\n");
            }
            let more = of_it().count().saturating_sub(top);
            if more > 0 {
                text += &format!("| {} | {more} more | | | | |\n", status.name());
            }
        }
        text
    }
}

/// A time as tables have it.
#[must_use]
pub fn shown(us: Option<f64>) -> String {
    us.map_or("-".to_string(), |us| format!("{us}"))
}

/// Compares tuned files. Of rows that share a key the fastest counts.
#[must_use]
pub fn diff(before: &[Sheet], after: &[Sheet], limits: Limits) -> Diff {
    let (mut old, new) = (rows(before), rows(after));
    let mut diff = Diff::default();
    for (place, after) in new {
        match old.remove(&place) {
            Some(before) if words(Some(&before), Some(&after)).is_empty() => diff.same += 1,
            before => diff.changes.push(change(place, before, Some(after), limits)),
        }
    }
    diff.changes.extend(old.into_iter().map(|(place, before)| change(place, Some(before), None, limits)));
    // Ratios are positive; what has none comes behind what has one.
    let rank = |change: &Change| change.ratio.unwrap_or(0.0);
    diff.changes.sort_by(|one, other| {
        let by_ratio = rank(other).total_cmp(&rank(one));
        one.status
            .cmp(&other.status)
            .then(by_ratio)
            .then_with(|| (one.family, &one.key).cmp(&(other.family, &other.key)))
    });
    for change in &diff.changes {
        *diff.counts.entry(change.status).or_default() += 1;
    }
    diff
}

/// A family and a key of it.
type Place = (&'static str, Key);

fn rows(sheets: &[Sheet]) -> HashMap<Place, View<'_>> {
    let mut rows: HashMap<Place, View<'_>> = HashMap::new();
    for sheet in sheets.iter().filter(|sheet| sheet.kind == SheetKind::Tuned) {
        for view in sheet.views() {
            let us = |view: &View<'_>| view.us().unwrap_or(f64::INFINITY);
            let place = (sheet.family.name, view.key());
            if rows.get(&place).is_none_or(|known| us(&view) < us(known)) {
                rows.insert(place, view);
            }
        }
    }
    rows
}

fn change((family, key): Place, before: Option<View<'_>>, after: Option<View<'_>>, limits: Limits) -> Change {
    let words = words(before.as_ref(), after.as_ref());
    let us = |side: &Option<View<'_>>| side.as_ref().and_then(View::us);
    let ratio = us(&before).and_then(|before| Some(us(&after)? / before));
    let status = match (&before, &after, ratio) {
        (None, _, _) => Status::New,
        (_, None, _) => Status::Removed,
        (_, _, None) => Status::Skipped,
        (_, _, Some(ratio)) if ratio > limits.regress => Status::Regress,
        (_, _, Some(ratio)) if ratio > limits.warn => Status::Warn,
        _ => Status::Ok,
    };
    Change { status, family, key, before: us(&before), after: us(&after), ratio, words }
}

/// Cells outside of the key that are other.
fn words(before: Option<&View<'_>>, after: Option<&View<'_>>) -> Vec<Word> {
    let mut columns: Vec<&String> = Vec::new();
    for view in [before, after].into_iter().flatten() {
        for column in view.sheet.table.columns() {
            let in_key = view.sheet.family.key().any(|known| known == column);
            if !column.is_empty() && !in_key && !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    let cell = |side: Option<&View<'_>>, column: &str| {
        let text = side?.cell(column).unwrap_or_default();
        Some(text.to_string()).filter(|text| !text.is_empty())
    };
    let word = |column: &&String| {
        let (before, after) = (cell(before, column), cell(after, column));
        (before != after).then(|| Word { column: (*column).clone(), before, after })
    };
    columns.iter().filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Table;

    fn sheet(rows: &[(u32, &str)]) -> Sheet {
        let mut text = "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n".to_string();
        for (m, us) in rows {
            text += &format!("gfx950,256,{m},512,512,1,0,{us},k,1.0,1.0,0.0\n");
        }
        let table = Table::parse(Path::new("a4w4_blockscale_tuned_gemm.csv"), text.into_bytes()).unwrap();
        Sheet::of(table, None).unwrap()
    }

    #[test]
    fn the_worst_comes_first() {
        let before = [(1, "10"), (2, "10"), (3, "10"), (4, "10"), (5, "10"), (6, "10"), (7, "0")];
        let after = [(1, "10"), (2, "11.6"), (3, "11.1"), (4, "12"), (5, "5"), (7, "3"), (8, "1")];
        let diff = diff(&[sheet(&before)], &[sheet(&after)], Limits::default());
        let told: Vec<(&str, String)> = diff.changes.iter().map(|c| (c.status.name(), c.key.to_string())).collect();
        let expected =
            [("REGRESS", 4), ("REGRESS", 2), ("WARN", 3), ("REMOVED", 6), ("SKIPPED", 7), ("NEW", 8), ("OK", 5)];
        let expected = expected.map(|(status, m)| (status, format!("gfx950 cu_num=256 M={m} N=512 K=512")));
        assert_eq!(told, expected);
        assert_eq!((diff.same, diff.regressions()), (1, 2));
        assert_eq!(diff.changes[0].words[0].to_string(), "us=[-10-]{+12+}");
        let table = diff.markdown(1);
        assert!(table.starts_with("1 rows unchanged, 2 REGRESS, 1 WARN, 1 REMOVED"), "{table}");
        assert!(table.contains("| REGRESS | ck_gemm_a4w4_blockscale | gfx950 cu_num=256 M=4 N=512 K=512 | 10 | 12 | 1.200 |\n| REGRESS | 1 more"), "{table}");
    }

    #[test]
    fn of_rows_that_share_a_key_the_fastest_counts() {
        let diff = diff(&[sheet(&[(1, "9"), (1, "7")])], &[sheet(&[(1, "7")]), sheet(&[(1, "8")])], Limits::default());
        assert_eq!((diff.same, diff.changes.len()), (1, 0));
        assert_eq!(diff.markdown(5), "1 rows unchanged\n");
    }
}
