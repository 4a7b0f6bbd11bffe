//! Sorting. With a limit only the first rows are kept; without one rows wait in a temporary file, and only what they are sorted
//! by is in memory: some 50 bytes a row.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::{Row, Write};

/// Rows that are read back at a time.
const BATCH: usize = 1_000;

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    Time,
    Spread,
    Problem,
    Solver,
    Result,
    Finished,
    Busy,
}

/// What to sort by, and which way. Rows without it, such as failures by time, come last either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub key: SortKey,
    pub reverse: bool,
}

/// What a row is sorted by.
#[derive(Clone, Debug)]
enum SortValue {
    Number(f64),
    Text(Arc<str>),
    Nowhere,
}

impl Order {
    fn place(self, row: &Row) -> SortValue {
        let number = |number: Option<f64>| number.map_or(SortValue::Nowhere, SortValue::Number);
        match self.key {
            SortKey::Time => number(row.median_ms),
            SortKey::Spread => number(row.spread_ms),
            SortKey::Problem => SortValue::Text(row.problem.clone()),
            SortKey::Solver => SortValue::Text(row.solver.as_str().into()),
            SortKey::Result => SortValue::Text(row.result.name().into()),
            SortKey::Finished => SortValue::Number(row.finished_ms as f64),
            SortKey::Busy => SortValue::Number(row.busy_ms as f64),
        }
    }

    fn compare(self, a: &SortValue, b: &SortValue) -> Ordering {
        let turned = |ordering: Ordering| if self.reverse { ordering.reverse() } else { ordering };
        match (a, b) {
            (SortValue::Number(a), SortValue::Number(b)) => turned(a.total_cmp(b)),
            (SortValue::Text(a), SortValue::Text(b)) => turned(a.cmp(b)),
            (SortValue::Nowhere, SortValue::Nowhere) => Ordering::Equal,
            (SortValue::Nowhere, _) => Ordering::Greater,
            (_, SortValue::Nowhere) => Ordering::Less,
            // One key gives places of one kind.
            (SortValue::Number(_), SortValue::Text(_)) => Ordering::Less,
            (SortValue::Text(_), SortValue::Number(_)) => Ordering::Greater,
        }
    }
}

/// Writes to another in order; equal rows as they came.
pub struct Sorted<W> {
    order: Order,
    waiting: Waiting,
    pub inner: W,
}

enum Waiting {
    First { limit: usize, rows: Vec<(SortValue, Row)> },
    All { file: BufWriter<File>, end: u64, places: Vec<(SortValue, u64, usize)> },
}

impl<W: Write> Sorted<W> {
    /// All rows, or the first `limit`.
    ///
    /// # Errors
    /// If there can be no temporary file.
    pub fn new(order: Order, limit: Option<usize>, inner: W) -> io::Result<Self> {
        let waiting = match limit {
            Some(limit) => Waiting::First { limit, rows: Vec::new() },
            None => Waiting::All { file: BufWriter::new(tempfile::tempfile()?), end: 0, places: Vec::new() },
        };
        Ok(Self { order, waiting, inner })
    }
}

impl<W: Write> Write for Sorted<W> {
    fn rows(&mut self, new: &[Row]) -> io::Result<()> {
        let order = self.order;
        match &mut self.waiting {
            Waiting::First { limit, rows } => {
                rows.extend(new.iter().map(|row| (order.place(row), row.clone())));
                rows.sort_by(|(a, _), (b, _)| order.compare(a, b));
                rows.truncate(*limit);
            }
            Waiting::All { file, end, places } => {
                for row in new {
                    let bytes = serde_json::to_vec(row)?;
                    file.write_all(&bytes)?;
                    places.push((order.place(row), *end, bytes.len()));
                    *end += bytes.len() as u64;
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let order = self.order;
        match &mut self.waiting {
            Waiting::First { rows, .. } => {
                let rows: Vec<Row> = std::mem::take(rows).into_iter().map(|(_, row)| row).collect();
                self.inner.rows(&rows)?;
            }
            Waiting::All { file, places, .. } => {
                file.flush()?;
                places.sort_by(|(a, ..), (b, ..)| order.compare(a, b));
                for batch in places.chunks(BATCH) {
                    let read = |(_, offset, length): &(SortValue, u64, usize)| {
                        let mut bytes = vec![0; *length];
                        file.get_ref().read_exact_at(&mut bytes, *offset)?;
                        Ok(serde_json::from_slice::<Row>(&bytes)?)
                    };
                    let rows: Vec<Row> = batch.iter().map(read).collect::<io::Result<_>>()?;
                    self.inner.rows(&rows)?;
                }
            }
        }
        self.inner.end()
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::failure::FailureKind;

    use super::super::row::tests::{failed, row};
    use super::*;

    /// Keeps what it gets.
    #[derive(Default)]
    struct Kept(Vec<Row>);

    impl Write for Kept {
        fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
            self.0.extend_from_slice(rows);
            Ok(())
        }

        fn end(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn sorted(order: Order, limit: Option<usize>) -> Vec<Row> {
        let mut sorted = Sorted::new(order, limit, Kept::default()).unwrap();
        for rows in [vec![row(1), failed(9, FailureKind::Hang, "x")], vec![row(5), row(3)], vec![row(2)]] {
            sorted.rows(&rows).unwrap();
        }
        sorted.end().unwrap();
        sorted.inner.0
    }

    #[test]
    fn the_fastest_come_first_and_failures_last() {
        let times = |rows: Vec<Row>| rows.iter().map(|row| row.median_ms).collect::<Vec<_>>();
        let by_time = Order { key: SortKey::Time, reverse: false };
        let all = times(sorted(by_time, None));
        assert_eq!(all, [Some(95.0), Some(97.0), Some(98.0), Some(99.0), None]);
        assert_eq!(times(sorted(by_time, Some(2))), all[..2]);
        let slowest = times(sorted(Order { reverse: true, ..by_time }, None));
        assert_eq!(slowest, [Some(99.0), Some(98.0), Some(97.0), Some(95.0), None]);
    }

    #[test]
    fn equal_rows_stay_as_they_came_and_whole() {
        let rows = sorted(Order { key: SortKey::Solver, reverse: false }, None);
        let expected = [row(2), row(1), failed(9, FailureKind::Hang, "x"), row(5), row(3)];
        assert_eq!(rows, expected);
    }
}
