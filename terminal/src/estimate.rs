//! How long a campaign takes still: from the pace since its first result, held against all that may come.

use std::time::{Duration, Instant};

/// Of the work that is told before there is an estimate: a pace of less says little.
const LEAST: f64 = 0.05;
/// For so long at least.
const LEAST_TIME: Duration = Duration::from_secs(3);
/// Longer ones are as good as none.
const MOST: Duration = Duration::from_secs(365 * 24 * 3600);
/// A later end is believed where it is later by such a share of what is left: small changes are no news.
const SLACK: f64 = 0.25;

/// An estimate that goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    /// When the first result came, and how much was done by then.
    first: Option<(Instant, f64)>,
    /// When all is done, as was said last.
    end: Option<Instant>,
    /// How much was done when something was done last: until there is more, nothing new is known.
    known: f64,
}

impl Estimate {
    /// What is left at `now`, when `done`, from 0 to 1, of the work is done. `None`: nobody can say.
    pub fn left(&mut self, done: f64, now: Instant) -> Option<Duration> {
        let done = done.clamp(0.0, 1.0);
        if done <= 0.0 {
            return None;
        }
        // What comes before, such as compiling the first candidates, is no part of the pace.
        let (since, before) = *self.first.get_or_insert((now, done));
        let (took, gained) = (now.saturating_duration_since(since), done - before);
        if done <= self.known || took < LEAST_TIME || gained <= 0.0 || gained < LEAST * (1.0 - before) {
            return self.said(now);
        }
        self.known = done;
        let left = Duration::try_from_secs_f64(took.as_secs_f64() * (1.0 - done) / gained).unwrap_or(Duration::MAX);
        let left = left.min(MOST);
        let end = now + left;
        let later = |said: &Instant| end.saturating_duration_since(*said) <= left.mul_f64(SLACK);
        if self.end.filter(|said| *said <= end && later(said)).is_none() {
            self.end = Some(end);
        }
        self.said(now)
    }

    fn said(&self, now: Instant) -> Option<Duration> {
        let left = self.end.map(|end| end.saturating_duration_since(now));
        // Where it was too short nobody knows by how much.
        left.filter(|left| *left >= Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said each second of work that takes `pace` of it a second, after ten seconds in which nothing comes.
    fn said(paces: &[f64]) -> Vec<Option<u64>> {
        let (begun, mut estimate, mut done) = (Instant::now(), Estimate::default(), 0.0);
        let seconds = (0_u64..).zip([0.0; 10].iter().chain(paces));
        let said = seconds.map(|(second, pace)| {
            done += pace;
            estimate.left(done, begun + Duration::from_secs(second)).map(|left| left.as_secs_f64().round() as u64)
        });
        said.collect()
    }

    #[test]
    fn it_begins_at_the_truth() {
        let said = said(&[0.01; 100]);
        assert!(said[..15].iter().all(Option::is_none), "{said:?}");
        assert_eq!((said[15], said[60], said[109]), (Some(94), Some(49), None));
    }

    #[test]
    fn it_does_not_grow_by_itself() {
        // Now a little slower, now a little faster.
        let paces: Vec<f64> = (0..80).map(|second| if second % 2 == 0 { 0.012 } else { 0.009 }).collect();
        let said: Vec<u64> = said(&paces).into_iter().flatten().collect();
        assert!(said.is_sorted_by(|earlier, later| earlier >= later), "{said:?}");
        assert!((80..=95).contains(&said[0]), "{said:?}");
    }

    #[test]
    fn results_that_come_in_bunches_do_not_make_it_jump() {
        let paces: Vec<f64> = (0..100).map(|second| if second % 8 == 0 { 0.08 } else { 0.0 }).collect();
        let said: Vec<u64> = said(&paces).into_iter().flatten().collect();
        assert!(said.is_sorted_by(|earlier, later| earlier >= later), "{said:?}");
        assert!((80..=100).contains(&said[0]), "{said:?}");
    }

    #[test]
    fn where_all_was_done_before_there_is_nothing_to_say() {
        let (begun, mut estimate) = (Instant::now(), Estimate::default());
        assert!((0..20).all(|second| estimate.left(1.0, begun + Duration::from_secs(second)).is_none()));
    }

    #[test]
    fn what_becomes_much_slower_is_told() {
        let mut paces = vec![0.02; 10];
        paces.extend([0.002; 30]);
        let said: Vec<u64> = said(&paces).into_iter().flatten().collect();
        assert!(said[0] < 50 && said[said.len() - 1] > 90, "{said:?}");
    }
}
