//! Lanes: a queue of jobs is several to the broker, which workers take from in turns, so that nobody waits behind all that was
//! enqueued before.
//!
//! Which of them a job goes to follows from the [priority](crate::priority) of its session when it is enqueued. What follows from
//! a job, or is handed back, stays in the lane that it came by.

/// Which of the queues that a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Named like the queue itself.
    #[default]
    First,
    /// The one of two for what goes on for long.
    Long,
    /// The other one.
    OtherLong,
    /// For what may wait.
    Last,
}

impl Lane {
    /// The first is where a queue is met that has no others.
    pub const ALL: [Self; 4] = [Self::First, Self::Long, Self::OtherLong, Self::Last];

    fn suffix(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Long => ".long1",
            Self::OtherLong => ".long2",
            Self::Last => ".last",
        }
    }

    /// Messages that are taken from it while those of the others are, as long as there are some in all.
    #[must_use]
    pub fn turns(self) -> i64 {
        match self {
            Self::First => 4,
            Self::Long | Self::OtherLong => 2,
            Self::Last => 1,
        }
    }

    /// The name that the lane of `queue` has at the broker.
    #[must_use]
    pub fn of(self, queue: &str) -> String {
        format!("{queue}{}", self.suffix())
    }

    /// The queue that `name` is a lane of, and which; a queue that has no lanes is its own first.
    #[must_use]
    pub fn split(name: &str) -> (&str, Self) {
        let others = Self::ALL.into_iter().filter(|lane| *lane != Self::First);
        let mut found = others.filter_map(|lane| Some((name.strip_suffix(lane.suffix())?, lane)));
        found.find(|(queue, _)| has_lanes(queue)).unwrap_or((name, Self::First))
    }

    /// The lanes of `queue` by their names; itself, if it is none that has lanes.
    #[must_use]
    pub fn names(queue: &str) -> Vec<String> {
        let lanes: &[Self] = if has_lanes(queue) { &Self::ALL } else { &[Self::First] };
        lanes.iter().map(|lane| lane.of(queue)).collect()
    }
}

/// Whether `queue` is one of [`compile_queue`](crate::job::compile_queue) or [`eval_queue`](crate::job::eval_queue), and no lane.
pub(crate) fn has_lanes(queue: &str) -> bool {
    let parts: Vec<&str> = queue.split('.').collect();
    let whole = match *parts {
        ["bluefin", "compile", _, target] => target,
        ["bluefin", "eval", .., last] => last,
        _ => return false,
    };
    !Lane::ALL.iter().any(|lane| lane.suffix().strip_prefix('.') == Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lanes_are_read_back() {
        for queue in ["bluefin.eval.gfx942-304", "bluefin.eval.gfx942-304.fin", "bluefin.compile.cc.host"] {
            assert_eq!(Lane::names(queue).len(), 4);
            for lane in Lane::ALL {
                assert_eq!(Lane::split(&lane.of(queue)), (queue, lane));
                assert_eq!(Lane::names(&lane.of(queue)).len(), if lane == Lane::First { 4 } else { 1 });
            }
        }
        for queue in ["bluefin.dead", "bluefin.compile.cc", "bluefin.bench", "elsewhere.last", "bluefin.compile.last"] {
            assert_eq!((Lane::split(queue), Lane::names(queue)), ((queue, Lane::First), vec![queue.to_owned()]));
        }
    }
}
