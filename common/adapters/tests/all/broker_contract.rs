//! What every broker promises, tried with each of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_adapters::amqp::AmqpBroker;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::pooled::PooledBroker;
use bluefin_common::broker::{Broker, BrokerError, Consumer, DEAD_QUEUE, Delivery, GivenUp, delay_queue};
use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_test_support::{Vhost, eventually, patience};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::timeout;

const QUEUE: &str = "bluefin.compile.test";
const SOON: Duration = Duration::from_secs(20);
/// Long enough for a broken promise to show.
const A_WHILE: Duration = Duration::from_millis(700);

/// Each test for each broker. A fresh virtual host is as good as a broker of one's own.
macro_rules! contract {
    ($($test:ident)*) => {
        mod embedded {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&super::EmbeddedBroker::new()).await;
            })*
        }
        mod pooled {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&super::pooled(super::EmbeddedBroker::new())).await;
            })*
        }
        mod amqp_pooled {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let vhost = super::Vhost::fresh();
                let broker = super::pooled(super::AmqpBroker::connect(&vhost.url()).await.unwrap());
                super::$test(&broker).await;
                super::Broker::close(&broker).await;
            })*
        }
        mod amqp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let vhost = super::Vhost::fresh();
                let broker = super::AmqpBroker::connect(&vhost.url()).await.unwrap();
                super::$test(&broker).await;
                super::Broker::close(&broker).await;
            })*
        }
    };
}

fn pooled(inner: impl Broker) -> PooledBroker {
    PooledBroker::new(Arc::new(inner), |body| Some(Digest::of(body)))
}

contract! {
    a_message_arrives_once_and_whole
    many_at_a_time_all_arrive
    a_queue_that_nobody_declared_is_unroutable
    a_queue_of_ours_needs_no_declaration
    no_more_than_prefetch_are_unsettled
    a_dropped_delivery_comes_again
    acknowledged_in_any_order_are_those_alone
    a_hand_back_counts_nothing
    a_delayed_hand_back_waits
    a_delayed_message_waits
    a_delayed_message_needs_a_queue
    the_dead_keep_their_reason
    stopping_hands_back_what_was_prefetched
    dropping_a_consumer_hands_back_what_was_prefetched
    depth_counts_what_waits
    a_queue_that_works_is_not_silent
    a_renewed_queue_is_empty_and_serves
    two_consumers_share_a_queue
    a_cancelled_next_loses_nothing
    names_that_are_too_long_are_an_error
    closing_ends_everything
}

async fn publish(broker: &dyn Broker, queue: &str, ids: impl IntoIterator<Item = u32>) {
    let publishing = ids.into_iter().map(|id| async move {
        let body = Bytes::from(format!("body {id}"));
        broker.publish(queue, &id.to_string(), body).await
    });
    for published in join_all(publishing).await {
        published.unwrap();
    }
}

async fn next(consumer: &mut dyn Consumer) -> Delivery {
    timeout(patience(SOON), consumer.next()).await.expect("a delivery within the time").expect("the broker is open")
}

async fn assert_nothing_comes(consumer: &mut dyn Consumer) {
    if let Ok(Some(delivery)) = timeout(A_WHILE, consumer.next()).await {
        panic!("message {} came", delivery.message_id);
    }
}

async fn await_depth(broker: &dyn Broker, queue: &str, expected: u64) {
    eventually(SOON, &format!("{expected} messages in {queue}"), async || {
        broker.depth(queue).await.unwrap() == expected
    })
    .await;
}

fn id(delivery: &Delivery) -> u32 {
    delivery.message_id.parse().unwrap()
}

/// Three devices of a host: each goes on with the problem that it has, and one that leaves leaves the rest to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_a_process_go_on_with_what_they_have() {
    let vhost = Vhost::fresh();
    let broker = pooled(AmqpBroker::connect(&vhost.url()).await.unwrap());
    for at in 0..24_u32 {
        let body = Bytes::from(format!("problem {}", at / 8));
        broker.publish(QUEUE, &at.to_string(), body).await.unwrap();
    }
    let mut consumers = Vec::new();
    for _ in 0..3 {
        consumers.push(broker.consume(QUEUE, 2).await.unwrap());
    }
    eventually(SOON, "24 messages held", async || broker.held(QUEUE) == 24).await;
    let mut problems = [const { BTreeSet::new() }; 3];
    for _ in 0..6 {
        for (consumer, problems) in consumers.iter_mut().zip(&mut problems) {
            let delivery = next(&mut **consumer).await;
            problems.insert(delivery.body.clone());
            delivery.ack().await.unwrap();
        }
    }
    assert!(problems.iter().all(|problems| problems.len() == 1), "{problems:?}");
    consumers.remove(0).stop().await;
    drop(consumers.remove(0));
    let mut found = BTreeSet::new();
    for _ in 0..6 {
        let delivery = next(&mut *consumers[0]).await;
        assert!(found.insert(id(&delivery)) && delivery.redeliveries == 0);
        delivery.ack().await.unwrap();
    }
    assert_nothing_comes(&mut *consumers[0]).await;
    broker.close().await;
}

async fn a_message_arrives_once_and_whole(broker: &dyn Broker) {
    let body: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    broker.publish(QUEUE, "whole", body.clone().into()).await.unwrap();
    broker.publish(QUEUE, "empty", Bytes::new()).await.unwrap();
    let mut consumer = broker.consume(QUEUE, 10).await.unwrap();
    let (first, second) = (next(&mut *consumer).await, next(&mut *consumer).await);
    let (whole, empty) = if first.message_id == "whole" { (first, second) } else { (second, first) };
    assert_eq!(whole.body, body);
    assert_eq!((whole.queue.as_str(), whole.redeliveries), (QUEUE, 0));
    assert_eq!(whole.given_up, None);
    assert_eq!((empty.message_id.as_str(), empty.body.len()), ("empty", 0));
    whole.ack().await.unwrap();
    empty.ack().await.unwrap();
    assert_nothing_comes(&mut *consumer).await;
}

async fn many_at_a_time_all_arrive(broker: &dyn Broker) {
    let mut consumer = broker.consume(QUEUE, 50).await.unwrap();
    publish(broker, QUEUE, 0..500).await;
    let mut found = BTreeSet::new();
    while found.len() < 500 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.body, format!("body {}", delivery.message_id));
        assert!(found.insert(id(&delivery)), "message {} came twice", delivery.message_id);
        delivery.ack().await.unwrap();
    }
    assert_eq!(found, (0..500).collect());
    await_depth(broker, QUEUE, 0).await;
}

async fn a_queue_that_nobody_declared_is_unroutable(broker: &dyn Broker) {
    // Among messages that arrive: what is returned must be told from what is not.
    let mixed = (0..200_u32).map(|n| async move {
        let queue = if n % 5 == 0 { "elsewhere" } else { QUEUE };
        (n, broker.publish(queue, &n.to_string(), Bytes::from_static(b"x")).await)
    });
    for (n, published) in join_all(mixed).await {
        match published {
            Err(BrokerError::Unroutable { queue }) => assert_eq!((n % 5, queue.as_str()), (0, "elsewhere")),
            published => assert!(published.is_ok() && n % 5 != 0, "{n}: {published:?}"),
        }
    }
    assert_eq!(broker.depth("elsewhere").await.unwrap(), 0);
    await_depth(broker, QUEUE, 160).await;
    broker.declare("elsewhere").await.unwrap();
    publish(broker, "elsewhere", [1]).await;
    await_depth(broker, "elsewhere", 1).await;
}

async fn a_queue_of_ours_needs_no_declaration(broker: &dyn Broker) {
    publish(broker, "bluefin.eval.new", [1]).await;
    broker.declare("bluefin.eval.new").await.unwrap();
    broker.declare("bluefin.eval.new").await.unwrap();
    await_depth(broker, "bluefin.eval.new", 1).await;
}

async fn no_more_than_prefetch_are_unsettled(broker: &dyn Broker) {
    publish(broker, QUEUE, 0..10).await;
    let mut consumer = broker.consume(QUEUE, 3).await.unwrap();
    let first = next(&mut *consumer).await;
    let (_second, _third) = (next(&mut *consumer).await, next(&mut *consumer).await);
    assert_nothing_comes(&mut *consumer).await;
    await_depth(broker, QUEUE, 7).await;
    first.ack().await.unwrap();
    let _fourth = next(&mut *consumer).await;
    assert_nothing_comes(&mut *consumer).await;
}

async fn a_dropped_delivery_comes_again(broker: &dyn Broker) {
    publish(broker, QUEUE, [7]).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    for redeliveries in 0..3 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.redeliveries, redeliveries);
        drop(delivery);
    }
    next(&mut *consumer).await.ack().await.unwrap();
    await_depth(broker, QUEUE, 0).await;
}

async fn acknowledged_in_any_order_are_those_alone(broker: &dyn Broker) {
    const COUNT: u32 = 200;
    let ends_with = |digit: u32| move |delivery: &Delivery| id(delivery) % 10 == digit;
    let ids_with = |digit: u32| (0..COUNT).filter(move |id| id % 10 == digit).collect::<BTreeSet<_>>();
    let mut consumer = broker.consume(QUEUE, 256).await.unwrap();
    publish(broker, QUEUE, 0..COUNT).await;
    let mut taken = Vec::new();
    for _ in 0..COUNT {
        taken.push(next(&mut *consumer).await);
    }
    let (kept, others): (Vec<_>, Vec<_>) = taken.into_iter().partition(ends_with(3));
    let (dropped, mut done): (Vec<_>, Vec<_>) = others.into_iter().partition(ends_with(7));
    drop(dropped);
    done.sort_by_key(|delivery| id(delivery) * 7919 % COUNT);
    for delivery in done {
        delivery.ack().await.unwrap();
    }
    let mut again = async |digit: u32| {
        let mut found = BTreeSet::new();
        for _ in ids_with(digit) {
            let delivery = next(&mut *consumer).await;
            found.insert(id(&delivery));
            delivery.ack().await.unwrap();
        }
        assert_eq!(found, ids_with(digit));
        assert_nothing_comes(&mut *consumer).await;
    };
    again(7).await;
    drop(kept);
    again(3).await;
}

async fn a_hand_back_counts_nothing(broker: &dyn Broker) {
    publish(broker, QUEUE, [7]).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    for _ in 0..5 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.redeliveries, 0);
        delivery.hand_back(Duration::ZERO).await.unwrap();
    }
    let last = next(&mut *consumer).await;
    assert_eq!((id(&last), last.body.as_ref()), (7, b"body 7".as_slice()));
    last.ack().await.unwrap();
    await_depth(broker, QUEUE, 0).await;
}

async fn a_delayed_hand_back_waits(broker: &dyn Broker) {
    publish(broker, QUEUE, [7]).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let delivery = next(&mut *consumer).await;
    drop(delivery);
    let started = Instant::now();
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.redeliveries, 1);
    delivery.hand_back(Duration::from_secs(1)).await.unwrap();
    let again = next(&mut *consumer).await;
    assert!(started.elapsed() >= Duration::from_millis(900), "came after {:?}", started.elapsed());
    // A copy, which was never delivered.
    assert_eq!((id(&again), again.redeliveries, again.given_up.clone()), (7, 0, None));
    assert_eq!((again.body.as_ref(), again.queue.as_str()), (b"body 7".as_slice(), QUEUE));
    again.ack().await.unwrap();
    assert_nothing_comes(&mut *consumer).await;
}

async fn a_delayed_message_waits(broker: &dyn Broker) {
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let started = Instant::now();
    broker.publish_after(Duration::from_secs(1), QUEUE, "7", Bytes::from_static(b"body 7")).await.unwrap();
    let found = next(&mut *consumer).await;
    assert!(started.elapsed() >= Duration::from_millis(900), "came after {:?}", started.elapsed());
    assert_eq!((id(&found), found.redeliveries, found.body.as_ref()), (7, 0, b"body 7".as_slice()));
    assert_eq!(found.given_up, None);
    found.ack().await.unwrap();
}

async fn a_delayed_message_needs_a_queue(broker: &dyn Broker) {
    let soon = Duration::from_secs(1);
    let published = broker.publish_after(soon, "elsewhere", "7", Bytes::new()).await;
    assert!(matches!(&published, Err(BrokerError::Unroutable { queue }) if queue == "elsewhere"), "{published:?}");
    broker.declare("elsewhere").await.unwrap();
    broker.publish_after(soon, "elsewhere", "8", Bytes::new()).await.unwrap();
    // One of ours is declared with its first message.
    broker.publish_after(soon, QUEUE, "9", Bytes::new()).await.unwrap();
    for (queue, expected) in [("elsewhere", 8), (QUEUE, 9)] {
        let mut consumer = broker.consume(queue, 1).await.unwrap();
        let found = next(&mut *consumer).await;
        assert_eq!(id(&found), expected);
        found.ack().await.unwrap();
    }
}

async fn the_dead_keep_their_reason(broker: &dyn Broker) {
    publish(broker, QUEUE, [7]).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    next(&mut *consumer).await.dead("20 workers died while they held it").await.unwrap();
    await_depth(broker, DEAD_QUEUE, 1).await;
    assert_nothing_comes(&mut *consumer).await;
    let mut graveyard = broker.consume(DEAD_QUEUE, 1).await.unwrap();
    let dead = next(&mut *graveyard).await;
    assert_eq!((id(&dead), dead.body.as_ref()), (7, b"body 7".as_slice()));
    let given_up = dead.given_up.clone().unwrap();
    let expected =
        GivenUp { queue: QUEUE.into(), reason: "20 workers died while they held it".into(), at_ms: given_up.at_ms };
    assert_eq!(given_up, expected);
    assert!(expected.at_ms.is_some_and(|at_ms| now_ms() - at_ms < 60_000));
    dead.hand_back(Duration::ZERO).await.unwrap();
    let dead = next(&mut *graveyard).await;
    assert_eq!(dead.given_up, Some(expected));
    dead.ack().await.unwrap();
    await_depth(broker, DEAD_QUEUE, 0).await;
}

async fn stopping_hands_back_what_was_prefetched(broker: &dyn Broker) {
    publish(broker, QUEUE, 0..10).await;
    let mut consumer = broker.consume(QUEUE, 8).await.unwrap();
    let taken = next(&mut *consumer).await;
    consumer.stop().await;
    assert!(timeout(patience(SOON), consumer.next()).await.unwrap().is_none());
    await_depth(broker, QUEUE, 9).await;
    taken.ack().await.unwrap();
    drop(consumer);
    assert_all_at_no_cost(broker, 9).await;
}

async fn dropping_a_consumer_hands_back_what_was_prefetched(broker: &dyn Broker) {
    publish(broker, QUEUE, 0..10).await;
    let mut consumer = broker.consume(QUEUE, 8).await.unwrap();
    let taken = next(&mut *consumer).await;
    drop(consumer);
    await_depth(broker, QUEUE, 9).await;
    taken.ack().await.unwrap();
    assert_all_at_no_cost(broker, 9).await;
}

/// `count` messages wait, none of which has been charged for being prefetched.
async fn assert_all_at_no_cost(broker: &dyn Broker, count: usize) {
    let mut consumer = broker.consume(QUEUE, 50).await.unwrap();
    let mut found = BTreeSet::new();
    for _ in 0..count {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.redeliveries, 0);
        assert!(found.insert(id(&delivery)));
        delivery.ack().await.unwrap();
    }
    assert_nothing_comes(&mut *consumer).await;
}

async fn depth_counts_what_waits(broker: &dyn Broker) {
    assert_eq!(broker.depth("bluefin.eval.absent").await.unwrap(), 0);
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 0);
    // Whoever looks at a delay before anybody used it leaves it as it is to be.
    let delay = Duration::from_secs(1);
    assert_eq!(broker.depth(&delay_queue(QUEUE, delay)).await.unwrap(), 0);
    broker.publish_after(delay, QUEUE, "0", Bytes::from_static(b"0")).await.unwrap();
    publish(broker, QUEUE, 1..4).await;
    await_depth(broker, QUEUE, 4).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let held = next(&mut *consumer).await;
    await_depth(broker, QUEUE, 3).await;
    held.ack().await.unwrap();
    next(&mut *consumer).await.ack().await.unwrap();
    consumer.stop().await;
    await_depth(broker, QUEUE, 2).await;
}

async fn a_queue_that_works_is_not_silent(broker: &dyn Broker) {
    const EMPTY: &str = "bluefin.eval.empty";
    broker.declare(EMPTY).await.unwrap();
    publish(broker, QUEUE, [1]).await;
    let asked = [QUEUE, EMPTY, "bluefin.eval.absent", DEAD_QUEUE].map(str::to_owned);
    assert!(broker.silent(&asked).await.unwrap().is_empty());
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let found = next(&mut *consumer).await;
    assert_eq!((id(&found), found.redeliveries), (1, 0));
    assert!(broker.silent(&asked).await.unwrap().is_empty(), "all are empty");
}

async fn a_renewed_queue_is_empty_and_serves(broker: &dyn Broker) {
    publish(broker, QUEUE, 0..3).await;
    await_depth(broker, QUEUE, 3).await;
    broker.renew(QUEUE).await.unwrap();
    assert_eq!(broker.depth(QUEUE).await.unwrap(), 0);
    publish(broker, QUEUE, [7]).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let found = next(&mut *consumer).await;
    assert_eq!(id(&found), 7);
    found.ack().await.unwrap();
}

async fn two_consumers_share_a_queue(broker: &dyn Broker) {
    let (mut one, mut other) = (broker.consume(QUEUE, 1).await.unwrap(), broker.consume(QUEUE, 1).await.unwrap());
    publish(broker, QUEUE, 0..2).await;
    let (first, second) = tokio::join!(next(&mut *one), next(&mut *other));
    assert_ne!(id(&first), id(&second));
    first.ack().await.unwrap();
    second.ack().await.unwrap();
}

async fn a_cancelled_next_loses_nothing(broker: &dyn Broker) {
    let mut consumer = broker.consume(QUEUE, 5).await.unwrap();
    let publishing = async {
        for n in 0..50 {
            publish(broker, QUEUE, [n]).await;
        }
    };
    let consuming = async {
        let mut found = BTreeSet::new();
        while found.len() < 50 {
            if let Ok(delivery) = timeout(Duration::from_micros(500), consumer.next()).await {
                let delivery = delivery.expect("the broker is open");
                assert_eq!(delivery.redeliveries, 0);
                assert!(found.insert(id(&delivery)));
                delivery.ack().await.unwrap();
            }
        }
    };
    timeout(patience(SOON), async { tokio::join!(publishing, consuming) }).await.expect("all 50 within the time");
}

async fn names_that_are_too_long_are_an_error(broker: &dyn Broker) {
    // A queue needs room for the names of its delays.
    let (long, longest) = (format!("bluefin.{:x<229}", ""), format!("bluefin.{:x<228}", ""));
    for result in [
        broker.declare(&long).await,
        broker.publish(&long, "id", Bytes::new()).await,
        broker.publish_after(Duration::from_secs(1), &long, "id", Bytes::new()).await,
        broker.publish(QUEUE, &"x".repeat(256), Bytes::new()).await,
        broker.depth(&long).await.map(|_| ()),
        broker.consume(&long, 1).await.map(|_| ()),
    ] {
        assert!(matches!(result, Err(BrokerError::Misconfigured { .. })), "{result:?}");
    }
    broker.publish_after(Duration::from_secs(125), &longest, &"x".repeat(255), Bytes::new()).await.unwrap();
    assert_eq!(broker.depth(&longest).await.unwrap(), 0);
}

async fn closing_ends_everything(broker: &dyn Broker) {
    publish(broker, QUEUE, 0..3).await;
    let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
    let mut idle = broker.consume("bluefin.eval.idle", 1).await.unwrap();
    next(&mut *consumer).await.ack().await.unwrap();
    let waiting = async { timeout(patience(SOON), idle.next()).await.expect("the wait ends") };
    let (ended, ()) = tokio::join!(waiting, broker.close());
    assert!(ended.is_none());
    assert!(consumer.next().await.is_none());
    consumer.stop().await;
    for result in [
        broker.publish(QUEUE, "4", Bytes::new()).await,
        broker.declare(QUEUE).await,
        broker.depth(QUEUE).await.map(|_| ()),
        broker.consume(QUEUE, 1).await.map(|_| ()),
    ] {
        assert!(matches!(result, Err(BrokerError::Closed)), "{result:?}");
    }
    broker.close().await;
}
