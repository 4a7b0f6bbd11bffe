//! What is decided, with a broker that says what it is told to.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_common::broker::{BrokerError, Consumer};
use bluefin_common::session::Stage;
use bluefin_common::target::Target;
use bytes::Bytes;

use super::*;

const EVAL: &str = "bluefin.eval.host";
const DELAY: &str = "bluefin.delay.5s.bluefin.eval.host";
const LIMIT: Duration = Duration::from_secs(300);

fn seen(outcomes: u64, waits: bool) -> Vec<Seen> {
    let session = Session::of_kernels("s".parse().unwrap(), Target::Host, "", &Stage::ALL, 0);
    let queues = [EVAL, DEAD_QUEUE].map(str::to_owned).into();
    vec![Seen { session, outcomes, queues, has_work_left: true, waits, in_hand: false }]
}

fn done(outcomes: u64) -> Vec<Seen> {
    seen(outcomes, false).into_iter().map(|one| Seen { has_work_left: false, ..one }).collect()
}

#[test]
fn a_session_is_stuck_that_stands_still_with_the_same_outcomes() {
    let mut standstill = Standstill::default();
    let mut stuck = |limit, seen: Vec<Seen>| !standstill.longer_than(limit, &seen).is_empty();
    let (long, none) = (Duration::from_secs(3600), Duration::from_nanos(1));
    assert!(!stuck(long, seen(1, false)) && !stuck(long, seen(1, false)));
    assert!(stuck(none, seen(1, false)), "as long as that");
    assert!(!stuck(none, seen(2, false)), "a new outcome");
    assert!(!stuck(none, seen(2, true)) && !stuck(none, seen(2, false)), "something waited meanwhile");
    assert!(!stuck(none, done(2)) && !stuck(none, seen(2, false)), "it was done meanwhile");
    assert!(!stuck(Duration::ZERO, seen(2, false)), "never");
    let in_hand = seen(2, false).into_iter().map(|one| Seen { in_hand: true, ..one }).collect();
    assert!(!stuck(none, in_hand), "a worker is at work on it");
    assert!(stuck(none, seen(2, false)), "no more");
}

/// Silent are those that it is told to name, one list for each time that it is asked; none of its queues answers where there is
/// no list.
#[derive(Default)]
struct Told {
    embedded: EmbeddedBroker,
    lists: Mutex<VecDeque<Option<Vec<&'static str>>>>,
    refuses: bool,
    renewed: Mutex<Vec<String>>,
}

#[async_trait]
impl Broker for Told {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.embedded.declare(queue).await
    }

    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError> {
        self.embedded.publish(queue, message_id, body).await
    }

    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError> {
        self.embedded.publish_after(delay, queue, message_id, body).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.embedded.consume(queue, prefetch).await
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.embedded.depth(queue).await
    }

    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        assert!(queues.iter().any(|queue| queue == EVAL), "{queues:?}");
        let list = self.lists.lock().unwrap().pop_front().expect("it is not asked more often than that");
        let none = || BrokerError::Unavailable { broker: "told".into(), reason: "none answers".into() };
        Ok(list.ok_or_else(none)?.into_iter().map(str::to_owned).collect())
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        if self.refuses {
            return Err(BrokerError::Refused { broker: "told".into(), reason: "ACCESS_REFUSED".into() });
        }
        self.renewed.lock().unwrap().push(queue.to_owned());
        Ok(())
    }

    fn reconnects(&self) -> u64 {
        0
    }

    async fn close(&self) {}
}

/// A monitor that looks twice as often as the limit is long, at a broker that is told `lists`.
struct Looking {
    broker: Told,
    renewal: Renewal,
    now: Instant,
}

impl Looking {
    fn at<const N: usize>(lists: [Option<Vec<&'static str>>; N]) -> Self {
        let renewed = IntCounter::new("renewed", "Renewed.").unwrap();
        let broker = Told { lists: Mutex::new(lists.into()), ..Told::default() };
        Self { broker, renewal: Renewal::new(LIMIT, renewed), now: Instant::now() }
    }

    /// Looks once in a while; how many queues were made anew until then.
    async fn looks(&mut self, outcomes: &[u64]) -> usize {
        for outcomes in outcomes {
            self.looks_at(&seen(*outcomes, false)).await;
        }
        self.broker.renewed.lock().unwrap().len()
    }

    async fn looks_at(&mut self, seen: &[Seen]) {
        self.renewal.look(&self.broker, seen, self.now).await;
        self.now += LIMIT / 2;
    }

    fn asked_for_all(&self) -> bool {
        self.broker.lists.lock().unwrap().is_empty()
    }
}

#[tokio::test]
async fn a_queue_that_stays_silent_is_made_anew() {
    let mut looking = Looking::at([Some(vec![EVAL, DELAY]), Some(vec![DELAY]), Some(vec![])]);
    // Quiet for the limit at the third look, silent for as long again at the fifth.
    assert_eq!(looking.looks(&[7, 7, 7, 7]).await, 0);
    assert_eq!(looking.looks(&[7]).await, 1);
    assert_eq!(*looking.broker.renewed.lock().unwrap(), [DELAY]);
    assert_eq!(looking.renewal.renewed.get(), 1);
    assert!(looking.renewal.owes(&seen(7, false)[0]), "what waited for its delay is one of its jobs");
    assert_eq!(looking.looks(&[7, 7]).await, 1);
    assert!(looking.asked_for_all());
}

#[tokio::test]
async fn a_queue_that_is_slow_is_left_alone() {
    // It answers in between, or is asked when nothing answers.
    let lists = [Some(vec![EVAL]), Some(vec![]), Some(vec![EVAL]), None, Some(vec![EVAL])];
    let mut looking = Looking::at(lists);
    assert_eq!(looking.looks(&[0; 11]).await, 0);
    assert!(looking.asked_for_all());
}

#[tokio::test]
async fn a_session_with_new_outcomes_is_not_asked_about() {
    let mut looking = Looking::at([]);
    assert_eq!(looking.looks(&[1, 1, 2, 2, 3, 3, 4]).await, 0);
    for _ in 0..9 {
        looking.looks_at(&done(4)).await;
    }
    // Nor does an old suspicion outlast one.
    let mut looking = Looking::at([Some(vec![EVAL]), Some(vec![EVAL])]);
    assert_eq!(looking.looks(&[1, 1, 1, 2, 2, 2]).await, 0);
    assert!(looking.asked_for_all());
    // Zero: never.
    let mut looking = Looking::at([]);
    looking.renewal.limit = Duration::ZERO;
    assert_eq!(looking.looks(&[1; 9]).await, 0);
}

#[tokio::test]
async fn what_is_refused_is_left_as_it_is() {
    let mut looking = Looking::at([Some(vec![EVAL]), Some(vec![EVAL])]);
    looking.broker.refuses = true;
    assert_eq!(looking.looks(&[1; 5]).await, 0);
    assert_eq!(looking.renewal.renewed.get(), 0);
    assert!(looking.renewal.owed.is_empty(), "nothing was lost");
    // Dead letters have outcomes.
    let mut looking = Looking::at([Some(vec![DEAD_QUEUE]), Some(vec![DEAD_QUEUE])]);
    assert_eq!(looking.looks(&[1; 5]).await, 1);
    assert!(looking.renewal.owed.is_empty());
}
