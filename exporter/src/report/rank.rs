//! The first of many things, by rank: how a report stays small.

use std::cmp::Ordering;

use serde::Serialize;

use super::Row;

/// Where a problem stands: one without a winner first, then by the time that it takes, then by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    has_winner: bool,
    ms: f64,
    name: String,
}

impl Rank {
    pub(super) fn of(row: &Row) -> Self {
        let ms = row.summary.winner.as_ref().map(|winner| winner.median_ms * row.count as f64);
        Self {
            has_winner: ms.is_some(),
            ms: ms.unwrap_or(0.0),
            name: format!("{}\n{}", row.summary.problem, row.summary.spec),
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let slower_first = other.ms.total_cmp(&self.ms);
        self.has_winner.cmp(&other.has_winner).then(slower_first).then_with(|| self.name.cmp(&other.name))
    }
}

/// At most so many of what was added, those that rank first.
#[derive(Clone, Debug, Serialize)]
#[serde(bound = "T: Serialize")]
pub struct Top<T> {
    #[serde(skip)]
    most: usize,
    /// In the order of their ranks.
    #[serde(serialize_with = "without_ranks")]
    kept: Vec<(Rank, T)>,
    /// Those that were added and are not here.
    pub left_out: u64,
}

fn without_ranks<T: Serialize, S: serde::Serializer>(kept: &[(Rank, T)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(kept.iter().map(|(_, one)| one))
}

impl<T> Top<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: Vec::new(), left_out: 0 }
    }

    /// Those that are here, in the order of their ranks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.kept.iter().map(|(_, one)| one)
    }

    /// Whether something of this rank would be kept; if not, it counts as left out.
    pub(super) fn takes(&mut self, rank: &Rank) -> bool {
        let takes = self.kept.len() < self.most || self.kept.last().is_some_and(|(last, _)| rank.cmp(last).is_lt());
        self.left_out += u64::from(!takes);
        takes
    }

    pub(super) fn add(&mut self, rank: Rank, one: T) {
        let place = self.kept.partition_point(|(known, _)| known.cmp(&rank).is_le());
        self.kept.insert(place, (rank, one));
        self.cut();
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.kept.extend(other.kept);
        self.kept.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.cut();
    }

    fn cut(&mut self) {
        self.left_out += self.kept.len().saturating_sub(self.most) as u64;
        self.kept.truncate(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stay_in_whatever_order_they_come() {
        let rank = |ms: f64| Rank { has_winner: ms > 0.0, ms, name: ms.to_string() };
        let mut one = Top::new(3);
        let mut other = Top::new(3);
        for ms in [1.0, 5.0, 2.0, 0.0] {
            one.add(rank(ms), ms);
        }
        for ms in [7.0, 0.5] {
            assert!(other.takes(&rank(ms)));
            other.add(rank(ms), ms);
        }
        one.merge(other);
        assert_eq!(one.iter().copied().collect::<Vec<_>>(), [0.0, 7.0, 5.0]);
        assert_eq!(one.left_out, 3);
        assert!(!one.takes(&rank(1.0)));
        assert_eq!(one.left_out, 4);
    }
}
